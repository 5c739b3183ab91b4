//! The thread of ours: while the program computes, or has let go of its last descriptor, it acknowledges, retransmits
//! and sends what close left behind. It takes part as one that waits and never finds anything, and lets go of the lead
//! as soon as a thread of the program waits too.

use super::{Hosted, LOOK_AGAIN, Shared, Turn};
use crate::watchdog_interval::{BOUND, Found, Next, WatchdogInterval};
use base::Duration;
use pio::{Beacon, Wake};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Weak};

/// Starts the thread; it ends when the last handle to `hosted` is gone.
pub(super) fn start(hosted: &Arc<Hosted>) -> std::io::Result<()> {
    let weak = Arc::downgrade(hosted);
    let thread = std::thread::Builder::new().name("ms-watchdog".into());
    let handle = thread.spawn(move || {
        if let Some(hosted) = weak.upgrade() {
            hosted.host.shield_thread();
        }
        run(&weak);
    })?;
    hosted.watchdog.begin(handle.thread());
    Ok(())
}

fn run(hosted: &Weak<Hosted>) {
    let mut watchdog_interval = WatchdogInterval::default();
    let mut late = false;
    loop {
        std::thread::park_timeout(watchdog_interval.pause());
        let Some(hosted) = hosted.upgrade() else { return };
        let found = look(&hosted, &mut watchdog_interval, &mut late);
        match watchdog_interval.on_look(found, hosted.watchdog.returns()) {
            Next::Look(_) => {}
            Next::Park => park(hosted),
            Next::Lead => lead(&hosted),
        }
    }
}

/// Turns the core if nothing has for a while. `late`: an event loop had been told that there is something, and will be
/// late if it has not come until the next look.
fn look(hosted: &Hosted, watchdog_interval: &mut WatchdogInterval, late: &mut bool) -> Found {
    let Some(mut shared) = hosted.try_shared() else { return Found::Away };
    // Who has made way takes over from no thread that works.
    watchdog_interval.rely(shared.engine.waiting.has_excused());
    if shared.lead.asleep.is_some() {
        let lit = shared.lead.loops.as_ref().is_some_and(|beacon| is_lit(beacon, Duration::ZERO));
        if lit && *late {
            // An event loop that was told a look ago is busy. It hears of errors when it comes.
            let _ = shared.engine.turn();
        }
        *late = lit;
        return if lit { Found::Late(true) } else { Found::There };
    }
    *late = false;
    if !shared.engine.is_stale(BOUND) {
        return Found::Away;
    }
    // A port that is gone is the program's to hear of, in its next call.
    let turned = shared.engine.turn();
    Found::Late(!turned.is_ok_and(|turn| turn.received == 0 && turn.sent == 0 && turn.timers == 0))
}

/// Is there, within this time, something that an event loop is told?
fn is_lit(beacon: &Beacon, within: Duration) -> bool {
    matches!(pio::sleep_on(&[beacon.as_raw_fd()], Some(within)), Ok(Wake::Ready))
}

/// Leads, asleep, until a thread of the program does or something happens.
fn lead(hosted: &Hosted) {
    let mut turn = Turn::default();
    let mut shared = hosted.shared();
    if shared.lead.holder != 0 {
        return;
    }
    let Shared { engine, lead: seat } = &mut *shared;
    seat.take(&mut turn, engine);
    seat.ours = true;
    // An error of the port is the program's to hear of, too; then the next look comes after a pause.
    let _ = hosted.sleep(shared, &mut turn, None, &mut |fds, left| hosted.host.sleep(fds, left, true));
    let mut shared = hosted.shared();
    if shared.lead.holder == turn.ticket {
        shared.lead.holder = 0;
        shared.lead.ours = false;
        // What woke it is dealt with here, unless the program is faster.
        let _ = shared.engine.turn();
        shared.engine.waiting.wake_any();
    }
}

/// Sleeps until the program comes back from a call, without keeping `hosted` alive; an event loop comes back when it is
/// told something.
fn park(hosted: Arc<Hosted>) {
    let Some(shared) = hosted.try_shared() else { return };
    if shared.lead.asleep.is_none() {
        return;
    }
    if let Some(beacon) = shared.lead.loops.clone() {
        drop(shared);
        drop(hosted);
        is_lit(&beacon, LOOK_AGAIN);
        return;
    }
    drop(shared);
    hosted.watchdog.park();
    // The program may have returned between our look and this: then no thread sleeps and we go on.
    if hosted.try_shared().is_some_and(|shared| shared.lead.asleep.is_none()) {
        return;
    }
    let weak = Arc::downgrade(&hosted);
    drop(hosted);
    loop {
        let Some(hosted) = weak.upgrade() else { return };
        if !hosted.watchdog.is_parked() {
            return;
        }
        drop(hosted);
        std::thread::park();
    }
}
