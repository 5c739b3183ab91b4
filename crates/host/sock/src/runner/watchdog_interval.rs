//! How often the thread of ours looks after a core that the program itself should turn, and when it need not look.
//!
//! A program that has let the core wait for a few milliseconds will do so again: it is looked after every few. One that
//! has always come back soon is looked at the more seldom the longer that has been so, for each look costs a busy core
//! a change of threads and wakes an idle one. And while it sleeps in a call of ours for long there is nothing to look
//! for.

use base::Duration;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::Thread;

/// How long the program may keep the core from turning before it counts as busy with something else.
pub(crate) const BOUND: Duration = Duration::from_millis(1);
/// Time between two looks, at least and at most. An acknowledgment may well be delayed for the latter.
const LOOK: [Duration; 2] = [Duration::from_millis(4), Duration::from_millis(40)];
/// Looks are so many times as long apart as the first part of the time in which the program was always there.
const TRUST: u32 = 16;
/// A sleep of the program's is long after this time.
const LONG: Duration = Duration::from_millis(100);
/// Looks at a core that is left alone and has nothing to do, before the thread sleeps in the program's stead.
const NOTHING: u32 = 10;

/// Finding of a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// The program waits in a call of ours.
    There,
    /// It does something else, and turned the core not long ago.
    Away,
    /// It did not, so the core was turned in its stead: did that bring anything?
    Late(bool),
}

/// Action until the next look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Nothing for so long.
    Look(Duration),
    /// Nothing before the program comes back from its sleep.
    Park,
    /// Sleep until there is something for the core, in the program's stead.
    Lead,
}

/// The interval of the looks.
#[derive(Default)]
pub(crate) struct WatchdogInterval {
    /// For how long the program was always there, and for how long it has not come back from a call.
    attended: Duration,
    still: Duration,
    /// Looks at a core that had nothing to do.
    nothing: u32,
    /// Value of [`Watchdog::returns`] at the last look.
    returns: u32,
    /// Others of the program wait for what a look finds.
    relied_on: bool,
}

impl WatchdogInterval {
    /// Time from now to the next look.
    pub(crate) fn pause(&self) -> Duration {
        if self.relied_on { LOOK[0] } else { (self.attended / TRUST).clamp(LOOK[0], LOOK[1]) }
    }

    /// Is there a thread that only a poll wakes while the one that turns the core is away? Then that is looked after,
    /// however soon it has always come back.
    pub(crate) fn rely(&mut self, relied_on: bool) {
        self.relied_on = relied_on;
    }

    /// A look, [`WatchdogInterval::pause`] after the last one, has found this; the program has come back from `returns`
    /// calls.
    pub(crate) fn on_look(&mut self, found: Found, returns: u32) -> Next {
        let pause = self.pause();
        let came_back = std::mem::replace(&mut self.returns, returns) != returns;
        self.still = if came_back || found != Found::There { Duration::ZERO } else { self.still + pause };
        self.nothing = if found == Found::Late(false) { self.nothing + 1 } else { 0 };
        self.attended = match found {
            Found::Late(_) => Duration::ZERO,
            _ => (self.attended + pause).min(LOOK[1] * TRUST),
        };
        if self.still >= LONG {
            self.still = Duration::ZERO;
            Next::Park
        } else if self.nothing >= NOTHING {
            Next::Lead
        } else {
            Next::Look(self.pause())
        }
    }
}

/// How the program's side wakes the thread.
#[derive(Default)]
pub(crate) struct Watchdog {
    parked: AtomicBool,
    returns: AtomicU32,
    thread: OnceLock<Thread>,
}

impl Watchdog {
    /// The thread has begun.
    pub(crate) fn begin(&self, thread: &Thread) {
        // The first and only time it is set.
        let _ = self.thread.set(thread.clone());
    }

    /// Is there a thread that looks?
    pub(crate) fn is_there(&self) -> bool {
        self.thread.get().is_some()
    }

    /// A call that may have slept returns to the program.
    pub(crate) fn application_is_back(&self) {
        // Threads that return at once may be counted as one: they have come back all the same.
        self.returns.store(self.returns.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        if self.parked.load(Ordering::Relaxed) && self.parked.swap(false, Ordering::SeqCst) {
            self.wake();
        }
    }

    /// How many calls have returned, modulo 2^32.
    pub(crate) fn returns(&self) -> u32 {
        self.returns.load(Ordering::Relaxed)
    }

    /// The thread is about to park, until the next return.
    pub(crate) fn park(&self) {
        self.parked.store(true, Ordering::SeqCst);
    }

    /// Has no call returned since [`Watchdog::park`]?
    pub(crate) fn is_parked(&self) -> bool {
        self.parked.load(Ordering::SeqCst)
    }

    /// Wakes the thread.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests;
