//! A leader that nothing ever comes for, and that wakes one and the same thread each time, makes way for it: as long as
//! an acceptor without connections to accept leads, each packet for the one worker wakes the acceptor first.
//!
//! The lead is free then until the worker comes to wait, and again whenever the worker leaves with what it waited
//! for: a thread that has made way is not woken to take over ([`Waiting::wake_willing`]). Should the worker not come
//! back for long, the thread of ours turns the core (`watchdog`), as for a program of one thread. Who has made way
//! takes part again when it is woken.
//!
//! Without such a thread a leader does not make way.
//!
//! Where several others are woken the leader stays: then they need not wait for each other.
//!
//! [`Waiting::wake_willing`]: crate::engine::waiting::Waiting::wake_willing

use crate::engine::waiting::Rung;

/// Handoffs for the same thread, one after the other, after which a leader makes way for it.
const MAKES_WAY_AFTER: u8 = 4;

/// Work that a leader has done for others since it began to wait.
#[derive(Default, Debug)]
pub(super) struct Handoff {
    last: Rung,
    count: u8,
}

impl Handoff {
    /// The leader has been awake, found nothing for itself and woken these: is it to make way?
    pub(super) fn on_rung(&mut self, rung: Rung) -> bool {
        match rung {
            Rung::Nobody => return false,
            Rung::One(_) if rung == self.last => self.count = self.count.saturating_add(1),
            Rung::One(_) => self.count = 1,
            Rung::Several => self.count = 0,
        }
        self.last = rung;
        self.count >= MAKES_WAY_AFTER
    }
}

#[cfg(test)]
mod tests;
