//! The thing that a runner turns: a core with its descriptors, or the queues to one.

use crate::Errno;
use crate::engine::Engine;
use crate::transport::Transport;
use base::{Duration, Instant};
use pio::IoError;
use stack::{Core, Notice, Turn};
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How old the last turn may be when a call that does not wait finds nothing.
pub(crate) const STALE: Duration = Duration::from_micros(50);

/// A core with its descriptors, or what stands for it.
pub trait Machine: Send {
    /// Transport below the descriptors.
    type Below: Transport;

    /// The descriptors.
    fn engine(&self) -> &Engine<Self::Below>;

    /// The descriptors.
    fn engine_mut(&mut self) -> &mut Engine<Self::Below>;

    /// A call begins: what it must see of what has come.
    fn begin(&mut self) {}

    /// A call that does not wait found nothing: true if there may be something now.
    fn look_again(&mut self) -> bool;

    /// One round: sends, receives, fires timers, and notifies the epoll sets and the waiting threads.
    ///
    /// # Errors
    /// The port's error; the rest of the round happened nevertheless.
    fn turn(&mut self) -> Result<Turn, IoError>;

    /// Prepares for a sleep on the descriptors that are appended to `fds`; false: there is something to do already.
    ///
    /// # Errors
    /// The port's error.
    fn arm(&mut self, fds: &mut Vec<RawFd>) -> Result<bool, IoError>;

    /// The sleep is over.
    fn disarm(&mut self) {}

    /// The leader waits no more.
    fn leave(&mut self) {}

    /// When the next turn must happen at the latest.
    fn next_timeout(&self) -> Option<Instant>;

    /// [`Machine::next_timeout`] without the timeouts that were cancelled since, which costs more.
    fn revised_timeout(&mut self, now: Instant) -> Option<Instant> {
        let _ = now;
        self.next_timeout()
    }

    /// Looks at a core.
    fn look(&mut self, look: Box<dyn FnOnce(&mut Engine) + Send + '_>);
}

impl<T: Transport> Engine<T> {
    /// Was the last turn longer ago than `bound`?
    pub(crate) fn is_stale(&self, bound: Duration) -> bool {
        self.time().since(self.now()) >= bound
    }
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
    ///
    /// # Errors
    /// The port's error; timers and the rest of the turn happened nevertheless.
    pub fn turn(&mut self) -> Result<Turn, IoError> {
        let fuse = Fuse(self);
        let turn = fuse.0.round();
        std::mem::forget(fuse);
        self.publish(Core::notices);
        turn
    }

    /// Sends what was written, then turns. The answer may arrive while the call that sends still runs (on veth), so the
    /// turn has a later time: the round trip must not seem shorter than it was.
    fn round(&mut self) -> Result<Turn, IoError> {
        let now = self.clock.now();
        let sent = self.core.flush(now);
        self.now = if sent.as_ref().is_ok_and(|sent| *sent == 0) { now } else { self.clock.now() };
        let turn = self.core.turn(self.now)?;
        Ok(Turn { sent: turn.sent + sent?, ..turn })
    }

    /// One round of the stack for an owner other than this engine's descriptors: it takes the notices.
    pub(crate) fn turn_for(&mut self, notices: &mut Vec<Notice>) -> Result<Turn, IoError> {
        let turn = self.round();
        self.core.notices(notices);
        turn
    }
}

impl Machine for Engine {
    type Below = Core;

    fn engine(&self) -> &Engine {
        self
    }

    fn engine_mut(&mut self) -> &mut Engine {
        self
    }

    /// A program that asks in a loop must not starve the stack.
    fn look_again(&mut self) -> bool {
        self.is_stale(STALE) && Engine::turn(self).is_ok_and(|turn| turn.has_news())
    }

    fn turn(&mut self) -> Result<Turn, IoError> {
        Engine::turn(self)
    }

    fn arm(&mut self, fds: &mut Vec<RawFd>) -> Result<bool, IoError> {
        // The port arms itself for a sleep, and takes note of what ended the last one.
        match self.core.io().arm(fds) {
            // A descriptor of a port that is down may be readable for as long as it is.
            Err(IoError::Down) => Ok(true),
            armed => armed,
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.core.next_timeout()
    }

    fn revised_timeout(&mut self, now: Instant) -> Option<Instant> {
        self.core.rest(now)
    }

    fn look(&mut self, look: Box<dyn FnOnce(&mut Engine) + Send + '_>) {
        look(self);
    }
}

/// Returns what a call says of a port's error: an interface that is down comes back.
pub(super) fn or_down(turned: Result<Turn, IoError>) -> Result<Turn, Errno> {
    match turned {
        Ok(turn) => Ok(turn),
        Err(IoError::Down) => Ok(Turn::default()),
        Err(_) => Err(Errno::ENETDOWN),
    }
}
