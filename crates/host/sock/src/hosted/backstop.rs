//! The thread of ours: while the program computes, or has let go of its last descriptor, it acknowledges, retransmits
//! and sends what close left behind. It takes part as one that waits and never finds anything, and lets go of the lead
//! as soon as a thread of the program waits too.

use super::{Hosted, LOOK_AGAIN, Shared, Turn};
use base::Duration;
use pio::{Beacon, Wake};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::Thread;

/// How long the program may keep the core from turning before it counts as busy with something else.
const BOUND: Duration = Duration::from_millis(1);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(4);
/// Looks without success before it parks (the program leads) or leads (nothing to do).
const PATIENCE: u32 = 10;

/// How the program's side wakes the thread.
#[derive(Default)]
pub(super) struct Nudge {
    parked: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Nudge {
    /// A call that may have slept returns to the program: one load unless the thread has parked.
    pub(super) fn application_is_back(&self) {
        if self.parked.load(Ordering::Relaxed) && self.parked.swap(false, Ordering::SeqCst) {
            self.wake();
        }
    }

    pub(super) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// Starts the thread; it ends when the last handle to `hosted` is gone.
pub(super) fn start(hosted: &Arc<Hosted>) -> std::io::Result<()> {
    let weak = Arc::downgrade(hosted);
    let thread = std::thread::Builder::new().name("millstream-backstop".into());
    let handle = thread.spawn(move || {
        if let Some(hosted) = weak.upgrade() {
            hosted.host.shield_thread();
        }
        run(&weak);
    })?;
    // The first and only time it is set.
    let _ = hosted.nudge.thread.set(handle.thread().clone());
    Ok(())
}

fn run(hosted: &Weak<Hosted>) {
    let (mut led, mut idle, mut late) = (0, 0, false);
    loop {
        std::thread::park_timeout(LOOK);
        let Some(hosted) = hosted.upgrade() else { return };
        let Some(mut shared) = hosted.try_shared() else { continue };
        if shared.lead.asleep.is_some() {
            if let Some(beacon) = shared.lead.loops.clone() {
                let lit = is_lit(&beacon, Duration::ZERO);
                if lit && late {
                    // An event loop that was told a look ago is busy. It hears of errors when it comes.
                    let _ = shared.engine.turn();
                }
                (late, led) = (lit, if lit { 0 } else { led + 1 });
                drop(shared);
                drop(hosted);
                if led >= PATIENCE {
                    led = 0;
                    is_lit(&beacon, LOOK_AGAIN);
                }
                continue;
            }
            drop(shared);
            led += 1;
            if led >= PATIENCE {
                led = 0;
                park(hosted);
            }
            continue;
        }
        led = 0;
        if !shared.engine.is_stale(BOUND) {
            idle = 0;
            continue;
        }
        match shared.engine.turn() {
            Ok(turn) if turn.received == 0 && turn.sent == 0 && turn.timers == 0 => idle += 1,
            // A port that is gone is the program's to hear of, in its next call.
            _ => idle = 0,
        }
        if idle >= PATIENCE && shared.lead.holder == 0 {
            drop(shared);
            lead(&hosted);
        }
    }
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

/// Sleeps until the program comes back from a call, without keeping `hosted` alive.
fn park(hosted: Arc<Hosted>) {
    hosted.nudge.parked.store(true, Ordering::SeqCst);
    // The program may have returned between our look and the store: then nobody sleeps and we go on.
    if hosted.try_shared().is_some_and(|shared| shared.lead.asleep.is_none()) {
        return;
    }
    let weak = Arc::downgrade(&hosted);
    drop(hosted);
    loop {
        let Some(hosted) = weak.upgrade() else { return };
        if !hosted.nudge.parked.load(Ordering::SeqCst) {
            return;
        }
        drop(hosted);
        std::thread::park();
    }
}
