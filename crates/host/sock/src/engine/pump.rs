//! Driver of an engine that owns its core: turns, and sleep when there is nothing to turn for.

use super::Engine;
use crate::Errno;
use base::{Duration, Instant};
use pio::{IoError, Wake};
use stack::{Core, Notice, Turn};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How long to wait before looking again at an interface that is down.
const DOWN_RETRY: Duration = Duration::from_millis(100);
/// Time between two looks at an interface that is down while it has news.
const DOWN_PAUSE: Duration = Duration::from_millis(1);

/// Result of one [`Engine::pump`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pumped {
    /// Something happened: look again.
    Progress,
    /// The deadline has passed.
    TimedOut,
    /// Another thread wants the engine.
    Interrupted,
}

/// Dropped by a panic of the core, which has ended it: a thread that waits must hear of that.
struct Fuse<'e>(&'e mut Engine);

impl Drop for Fuse<'_> {
    #[cold]
    fn drop(&mut self) {
        let Fuse(engine) = self;
        // The panic goes on; another one on the way would end the process.
        drop(catch_unwind(AssertUnwindSafe(|| engine.publish(Core::notices))));
        engine.waiting.end();
    }
}

impl Engine {
    /// The core below, for `ss`, `stat` and captures.
    pub fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    /// One round of the stack; its notices reach the epoll sets.
    pub fn turn(&mut self) -> Result<Turn, IoError> {
        self.now = self.clock.now();
        let fuse = Fuse(self);
        let turn = fuse.0.core.turn(fuse.0.now);
        std::mem::forget(fuse);
        self.publish(Core::notices);
        turn
    }

    /// One round of the stack for an owner other than this engine's descriptors: it takes the notices.
    pub(crate) fn turn_for(&mut self, notices: &mut Vec<Notice>) -> Result<Turn, IoError> {
        self.now = self.clock.now();
        let turn = self.core.turn(self.now);
        self.core.notices(notices);
        turn
    }

    /// Turns and, when nothing happens, looks for a while and then sleeps until packets, a timer or the deadline.
    pub fn pump(&mut self, deadline: Option<Instant>) -> Result<Pumped, Errno> {
        let mut idle_since: Option<Instant> = None;
        loop {
            let turn = match self.turn() {
                Ok(turn) => turn,
                Err(IoError::Down) => return self.sleep_while_down(deadline),
                Err(_) => return Err(Errno::ENETDOWN),
            };
            if let Some(since) = idle_since {
                self.load.on_spin(self.now - since);
            }
            if turn.more || turn.received > 0 || turn.timers > 0 {
                self.busy_poll.on_work(self.now, turn.received > 0);
                return Ok(Pumped::Progress);
            }
            if deadline.is_some_and(|d| d <= self.now) {
                return Ok(Pumped::TimedOut);
            }
            if turn.sent > 0 {
                // That was work: time is idle from the next turn on.
                idle_since = None;
                continue;
            }
            idle_since = Some(self.now);
            if self.busy_poll.on_nothing(self.now) > self.now {
                std::hint::spin_loop();
                continue;
            }
            self.busy_poll.on_sleep(self.now);
            return self.sleep(deadline);
        }
    }

    fn sleep(&mut self, deadline: Option<Instant>) -> Result<Pumped, Errno> {
        let until = Instant::earliest(self.core.rest(self.now), deadline);
        let timeout = until.map(|at| at.since(self.now));
        if timeout == Some(Duration::ZERO) {
            return Ok(Pumped::Progress);
        }
        self.load.on_sleep(self.now);
        let woken = self.core.io().wait(timeout);
        self.load.on_wake(self.clock.now());
        match woken {
            Ok(Wake::Interrupted) => Ok(Pumped::Interrupted),
            Ok(Wake::Ready | Wake::Timeout) | Err(IoError::Down) => Ok(Pumped::Progress),
            Err(_) => Err(Errno::ENETDOWN),
        }
    }

    /// Timers and retransmissions go on while the interface is down; only packets do not.
    fn sleep_while_down(&mut self, deadline: Option<Instant>) -> Result<Pumped, Errno> {
        if deadline.is_some_and(|d| d <= self.now) {
            return Ok(Pumped::TimedOut);
        }
        let until = deadline.map_or(DOWN_RETRY, |d| d.since(self.now).min(DOWN_RETRY));
        self.load.on_sleep(self.now);
        // The port hears that the interface is back. What it says of a wait is what the next turn will find.
        let woken = self.core.io().wait(Some(until));
        if !matches!(woken, Ok(Wake::Timeout | Wake::Interrupted)) {
            // A descriptor of a port that is down may be readable for as long as it is.
            std::thread::sleep(until.min(DOWN_PAUSE));
        }
        self.load.on_wake(self.clock.now());
        Ok(if matches!(woken, Ok(Wake::Interrupted)) { Pumped::Interrupted } else { Pumped::Progress })
    }

    /// A call that waits without sleeping (O_NONBLOCK in a loop) must not starve the stack: turn if the last
    /// turn is long ago. True if the caller should look once more.
    pub(crate) fn turn_if_stale(&mut self) -> bool {
        const STALE: Duration = Duration::from_micros(50);
        let now = self.clock.now();
        now.since(self.now) > STALE && self.turn().is_ok_and(|t| t.received > 0 || t.timers > 0)
    }

    /// Was the last turn longer ago than `bound`?
    pub(crate) fn is_stale(&self, bound: Duration) -> bool {
        self.clock.now().since(self.now) >= bound
    }
}
