//! The thread of ours: while the program computes, or has let go of its last descriptor, it acknowledges, retransmits
//! and sends what close left behind. It takes part as one that waits and never finds anything, and lets go of the lead
//! as soon as a thread of the program waits too.

use super::lead::Alarm;
use super::watchdog_interval::{BOUND, Found, Next, WatchdogInterval};
use super::{LOOK_AGAIN, Machine, Rank, Runner, Shared, Waiter};
use base::Duration;
use pio::{EpollTimer, Wake};
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Starts the thread; it ends when the last handle to `runner` is gone.
pub(super) fn start(runner: &Arc<Runner>) -> std::io::Result<()> {
    let weak = Arc::downgrade(runner);
    let thread = std::thread::Builder::new().name("ms-watchdog".into());
    let handle = thread.spawn(move || {
        if let Some(runner) = weak.upgrade() {
            runner.park.shield_thread();
        }
        run(&|| weak.upgrade());
    })?;
    runner.watchdog.begin(handle.thread());
    Ok(())
}

/// Looks after the runner as long as there is one to look after.
pub(crate) fn run<M: Machine>(runner: &impl Fn() -> Option<Arc<Runner<M>>>) {
    let mut watchdog_interval = WatchdogInterval::default();
    let mut late = false;
    while runner().is_some() {
        std::thread::park_timeout(watchdog_interval.pause());
        let Some(looked_after) = runner() else { return };
        let found = look(&looked_after, &mut watchdog_interval, &mut late);
        match watchdog_interval.on_look(found, looked_after.watchdog.returns()) {
            Next::Look(_) => {}
            Next::Park => park(looked_after, runner),
            Next::Lead => lead(&looked_after),
        }
    }
}

/// Turns the core if nothing has for a while. `late`: an event loop had been told that there is something, and will be
/// late if it has not come until the next look.
fn look<M: Machine>(runner: &Runner<M>, watchdog_interval: &mut WatchdogInterval, late: &mut bool) -> Found {
    let Some(mut shared) = runner.try_shared() else { return Found::Away };
    // A thread that has made way takes over from no thread that works.
    watchdog_interval.rely(shared.engine().waiting.has_excused());
    if let Some(alarm) = shared.lead.sleeper() {
        let lit = matches!(alarm, Alarm::Loop(_, beacon) if is_lit(beacon, Duration::ZERO));
        if lit && *late {
            // An event loop that was told a look ago is busy. It hears of errors when it comes.
            let _ = shared.machine.turn();
        }
        *late = lit;
        return if lit { Found::Late(true) } else { Found::There };
    }
    *late = false;
    if !shared.engine().is_stale(BOUND) {
        return Found::Away;
    }
    // A port that is gone is the program's to hear of, in its next call.
    let turned = shared.machine.turn();
    Found::Late(!turned.is_ok_and(|turn| turn.received == 0 && turn.sent == 0 && turn.timers == 0))
}

/// Is there, within this time, something that an event loop is told?
fn is_lit(beacon: &EpollTimer, within: Duration) -> bool {
    matches!(pio::sleep_on(&[beacon.as_raw_fd()], Some(within)), Ok(Wake::Ready))
}

/// Leads, asleep, until a thread of the program does or something happens.
fn lead<M: Machine>(runner: &Runner<M>) {
    let mut waiter = Waiter::new(Rank::Watchdog, false);
    let mut shared = runner.shared();
    let Shared { machine, lead } = &mut *shared;
    if !waiter.claim(lead, &mut machine.engine_mut().waiting) {
        return;
    }
    // An error of the port is the program's to hear of, too; then the next look comes after a pause.
    let _ = runner.sleep(shared, &mut waiter, None, &mut |fds, left| runner.park.sleep(fds, left, true));
    let mut shared = runner.shared();
    if shared.lead.leave(waiter.ticket) {
        // What woke it is dealt with here, unless the program is faster.
        let _ = shared.machine.turn();
        shared.engine().waiting.wake_any();
    }
}

/// Sleeps until the program comes back from a call, without keeping `runner` alive; an event loop comes back when it is
/// told something.
fn park<M: Machine>(runner: Arc<Runner<M>>, again: &impl Fn() -> Option<Arc<Runner<M>>>) {
    let Some(shared) = runner.try_shared() else { return };
    let Some(alarm) = shared.lead.sleeper() else { return };
    if let Alarm::Loop(_, beacon) = alarm {
        let beacon = beacon.clone();
        drop(shared);
        drop(runner);
        is_lit(&beacon, LOOK_AGAIN);
        return;
    }
    drop(shared);
    runner.watchdog.park();
    // The program may have returned between our look and this: then no thread sleeps and we go on.
    if runner.try_shared().is_some_and(|shared| shared.lead.sleeper().is_none()) {
        return;
    }
    drop(runner);
    loop {
        let Some(runner) = again() else { return };
        if !runner.watchdog.is_parked() {
            return;
        }
        drop(runner);
        std::thread::park();
    }
}
