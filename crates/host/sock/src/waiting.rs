//! Threads that sleep until something happens to a descriptor, for modes in which several sleep at once.

use ring::Ringer;
use std::thread::Thread;

/// How a sleeping thread is woken.
pub(crate) enum Wake {
    /// It parks.
    Park(Thread),
    /// It sleeps on a bell: its own, or the doorbell on behalf of all.
    Bell(Ringer),
}

struct Row {
    ticket: u64,
    /// The object it waits for; `None` for any.
    object: Option<u32>,
    wake: Wake,
    woken: bool,
    /// It does not take over the core from who leaves it for a moment.
    excused: bool,
}

/// For which of those who sleep something happened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Rung {
    #[default]
    Nobody,
    /// For those who wait for this alone; `None` for any object.
    One(Option<u32>),
    Several,
}

/// Sleeping threads, and the events for which they wait. Empty, and so free, while at most one thread waits.
#[derive(Default)]
pub(crate) struct Waiting {
    rows: Vec<Row>,
    tickets: u64,
    /// One thread turns the core for all that wait (direct mode).
    led: bool,
    /// Since [`Waiting::take_rung`].
    rung: Rung,
}

impl Waiting {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Registers the calling thread; take the row away with [`Waiting::remove`] after waking.
    pub(crate) fn add(&mut self, object: Option<u32>, wake: Wake) -> u64 {
        self.tickets += 1;
        self.rows.push(Row { ticket: self.tickets, object, wake, woken: false, excused: false });
        self.tickets
    }

    /// [`Waiting::wake_willing`] passes the thread by.
    pub(crate) fn excuse(&mut self, ticket: u64) {
        if let Some(row) = self.rows.iter_mut().find(|row| row.ticket == ticket) {
            row.excused = true;
        }
    }

    /// Takes a row away; was it woken?
    pub(crate) fn remove(&mut self, ticket: u64) -> bool {
        let at = self.rows.iter().position(|row| row.ticket == ticket);
        at.is_some_and(|at| self.rows.swap_remove(at).woken)
    }

    /// Wakes every thread that waits for `object`.
    pub(crate) fn wake(&mut self, object: u32) {
        for row in &mut self.rows {
            if row.object.is_none_or(|o| o == object) {
                if !row.woken {
                    self.rung = self.rung.and(row.object);
                }
                row.wake();
            }
        }
    }

    /// Is a connection excused?
    pub(crate) fn has_excused(&self) -> bool {
        self.rows.iter().any(|row| row.excused)
    }

    /// Whom [`Waiting::wake`] has woken since the last call.
    pub(crate) fn take_rung(&mut self) -> Rung {
        std::mem::take(&mut self.rung)
    }

    /// Is a thread on the way that has been woken and does not run yet?
    pub(crate) fn has_woken(&self) -> bool {
        self.rows.iter().any(|row| row.woken)
    }

    /// The calling thread turns the core from now on, unless another one does.
    pub(crate) fn take_lead(&mut self) -> bool {
        !std::mem::replace(&mut self.led, true)
    }

    /// A thread stops waiting; it turned the core if it `leads`. If no thread turns it now, one of those who park takes
    /// over: also when this one was woken to take over and found what it waited for instead.
    pub(crate) fn leave(&mut self, leads: bool) {
        self.led &= !leads;
        if !self.led {
            self.wake_successor();
        }
    }

    /// Wakes one of those who sleep, so that it takes over the core.
    pub(crate) fn wake_any(&mut self) {
        if let Some(row) = self.rows.iter_mut().find(|row| !row.woken) {
            row.wake();
        }
    }

    /// Wakes the waiting threads except those that are excused.
    pub(crate) fn wake_willing(&mut self) {
        if let Some(row) = self.rows.iter_mut().find(|row| !row.woken && !row.excused) {
            row.wake();
        }
    }

    /// Wakes all, and no thread turns the core: it is over.
    pub(crate) fn end(&mut self) {
        self.led = false;
        self.rows.iter_mut().for_each(Row::wake);
    }

    /// Nothing has the doorbell or the core: wakes one of those who sleep, unless it was woken before, to take it over.
    pub(crate) fn wake_successor(&mut self) {
        if let Some(row) = self.rows.first_mut() {
            row.wake();
        }
    }
}

impl Rung {
    fn and(self, object: Option<u32>) -> Rung {
        match self {
            Rung::Nobody => Rung::One(object),
            Rung::One(other) if other == object => self,
            _ => Rung::Several,
        }
    }
}

impl Row {
    /// Once is enough: it looks at everything before it sleeps again, under a new ticket.
    fn wake(&mut self) {
        if !std::mem::replace(&mut self.woken, true) {
            match &self.wake {
                Wake::Park(thread) => thread.unpark(),
                Wake::Bell(ringer) => ringer.ring_anyway(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: while threads wait, one turns the core or has been woken to.
    use super::*;

    fn is_woken(waiting: &Waiting, ticket: u64) -> bool {
        waiting.rows.iter().any(|row| row.ticket == ticket && row.woken)
    }

    #[test]
    fn whoever_leaves_hands_on_the_core() {
        let mut waiting = Waiting::default();
        assert!(waiting.take_lead() && !waiting.take_lead());
        let park = || Wake::Park(std::thread::current());
        let (first, second) = (waiting.add(None, park()), waiting.add(None, park()));
        waiting.leave(false);
        assert!(!is_woken(&waiting, first), "the core is still turned");
        waiting.leave(true);
        assert!(is_woken(&waiting, first) && !is_woken(&waiting, second));
        // It finds what it waited for, so it does not take over.
        waiting.remove(first);
        waiting.leave(false);
        assert!(is_woken(&waiting, second));
    }
}
