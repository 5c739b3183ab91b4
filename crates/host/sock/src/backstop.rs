//! The backstop of direct mode: when the application computes, or has let go of its last descriptor, somebody must
//! still acknowledge, retransmit and send what close left behind.
//!
//! A thread looks every few milliseconds whether the core was turned in the last one. While the application sleeps
//! in a call of ours it holds the lock itself and the backstop parks; while nothing happens at all, the backstop
//! sleeps in the kernel with the lock, from where any call rings it out. So an idle process costs nothing.

use crate::direct::Direct;
use crate::engine::Pumped;
use base::Duration;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::Thread;

/// How long the application may keep the core from turning before it counts as busy with something else.
const BOUND: Duration = Duration::from_millis(1);
/// Time between two looks: each costs a busy core a change of threads, so not more often than ACKs need it (a
/// delayed one may wait 40 ms).
const LOOK: Duration = Duration::from_millis(4);
/// Looks without success before the backstop parks (lock held) or sleeps in the kernel (nothing to do).
const PATIENCE: u32 = 10;

/// How the application's side wakes a parked backstop.
#[derive(Default)]
pub(crate) struct Nudge {
    parked: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Nudge {
    /// A call that may have slept returns to the application: one load unless the backstop has parked.
    pub(crate) fn application_is_back(&self) {
        if self.parked.load(Ordering::Relaxed) && self.parked.swap(false, Ordering::SeqCst) {
            self.wake();
        }
    }

    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// Starts the thread; it ends when the last handle to `direct` is gone.
pub(crate) fn start(direct: &Arc<Direct>) -> std::io::Result<()> {
    let weak = Arc::downgrade(direct);
    let handle = std::thread::Builder::new().name("millstream-backstop".into()).spawn(move || run(&weak))?;
    // The first and only time it is set.
    let _ = direct.nudge().thread.set(handle.thread().clone());
    Ok(())
}

fn run(direct: &Weak<Direct>) {
    let (mut held, mut idle) = (0, 0);
    loop {
        std::thread::park_timeout(LOOK);
        let Some(direct) = direct.upgrade() else { return };
        let Some(mut engine) = direct.try_lock() else {
            held += 1;
            if held >= PATIENCE {
                held = 0;
                park(direct);
            }
            continue;
        };
        held = 0;
        if !engine.is_stale(BOUND) {
            idle = 0;
            continue;
        }
        match engine.turn() {
            Ok(turn) if turn.received == 0 && turn.sent == 0 && turn.timers == 0 => idle += 1,
            // An interface that is down or gone is the application's to hear of, in its next call.
            _ => idle = 0,
        }
        if idle >= PATIENCE {
            let pumped = engine.pump(None);
            drop(engine);
            if pumped == Ok(Pumped::Interrupted) {
                idle = 0;
                direct.yield_to_contenders();
            }
        }
    }
}

/// Sleeps until the application comes back from a call, without keeping `direct` alive.
fn park(direct: Arc<Direct>) {
    direct.nudge().parked.store(true, Ordering::SeqCst);
    // The application may have returned between our look and the store: then the lock is free and we go on.
    if direct.try_lock().is_some() {
        return;
    }
    let weak = Arc::downgrade(&direct);
    drop(direct);
    loop {
        let Some(direct) = weak.upgrade() else { return };
        if !direct.nudge().parked.load(Ordering::SeqCst) {
            return;
        }
        drop(direct);
        std::thread::park();
    }
}
