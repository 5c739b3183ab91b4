//! The watchdog of direct mode: when the application computes, or has let go of its last descriptor, a thread must
//! still acknowledge, retransmit and send what close left behind.
//!
//! A thread looks now and then whether the core was turned lately; how often, a [`WatchdogInterval`] says. While the
//! application sleeps in a call of ours for long, which holds the lock, the watchdog parks; while nothing happens at
//! all, the watchdog sleeps in the kernel with the lock, from where any call rings it out. So an idle process costs
//! nothing.

use crate::direct::Direct;
use crate::engine::Pumped;
use crate::watchdog_interval::{BOUND, Found, Next, WatchdogInterval};
use std::sync::{Arc, Weak};

/// Starts the thread; it ends when the last handle to `direct` is gone.
pub(crate) fn start(direct: &Arc<Direct>) -> std::io::Result<()> {
    let weak = Arc::downgrade(direct);
    let handle = std::thread::Builder::new().name("ms-watchdog".into()).spawn(move || run(&weak))?;
    direct.watchdog().begin(handle.thread());
    Ok(())
}

fn run(direct: &Weak<Direct>) {
    let mut watchdog_interval = WatchdogInterval::default();
    let mut pause = watchdog_interval.pause();
    loop {
        std::thread::park_timeout(pause);
        let Some(direct) = direct.upgrade() else { return };
        let found = look(&direct);
        match watchdog_interval.on_look(found, direct.watchdog().returns()) {
            Next::Look(_) => {}
            Next::Park => park(direct),
            Next::Lead => {
                if let Some(mut engine) = direct.try_lock() {
                    let pumped = engine.pump(None);
                    drop(engine);
                    if pumped == Ok(Pumped::Interrupted) {
                        watchdog_interval.on_led();
                        direct.yield_to_contenders();
                    }
                }
            }
        }
        pause = watchdog_interval.pause();
    }
}

/// Turns the core if nothing has for a while.
fn look(direct: &Direct) -> Found {
    let Some(mut engine) = direct.try_lock() else {
        return if direct.watchdog().waits() { Found::There } else { Found::Away };
    };
    if !engine.is_stale(BOUND) {
        return Found::Away;
    }
    // An interface that is down or gone is the application's to hear of, in its next call.
    let turned = engine.turn();
    Found::Late(!turned.is_ok_and(|turn| turn.received == 0 && turn.sent == 0 && turn.timers == 0))
}

/// Sleeps until the application comes back from a call, without keeping `direct` alive.
fn park(direct: Arc<Direct>) {
    direct.watchdog().park();
    // The call may have returned between our look and this: then the lock is free, or another's, and we go on.
    if direct.try_lock().is_some() || !direct.watchdog().waits() {
        return;
    }
    let weak = Arc::downgrade(&direct);
    drop(direct);
    loop {
        let Some(direct) = weak.upgrade() else { return };
        if !direct.watchdog().is_parked() {
            return;
        }
        drop(direct);
        std::thread::park();
    }
}
