//! Threads that sleep until something happens to a descriptor.

use ring::Ringer;

struct Row {
    ticket: u64,
    /// The object it waits for; `None` for any.
    object: Option<u32>,
    bell: Ringer,
    woken: bool,
    /// It does not take over the core from a leader that leaves for a moment.
    excused: bool,
}

/// For which sleeping threads something happened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Rung {
    #[default]
    Nobody,
    /// For threads that wait for this object alone; `None` for any object.
    One(Option<u32>),
    Several,
}

/// Sleeping threads, and the events for which they wait. Empty, and so free, while at most one thread waits.
#[derive(Default)]
pub(crate) struct Waiting {
    rows: Vec<Row>,
    tickets: u64,
    /// Since [`Waiting::take_rung`].
    rung: Rung,
}

impl Waiting {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Registers the calling thread; take the row away with [`Waiting::remove`] after waking.
    pub(crate) fn add(&mut self, object: Option<u32>, bell: Ringer) -> u64 {
        self.tickets += 1;
        self.rows.push(Row { ticket: self.tickets, object, bell, woken: false, excused: false });
        self.tickets
    }

    /// [`Waiting::wake_willing`] passes the thread by.
    pub(crate) fn excuse(&mut self, ticket: u64) {
        if let Some(row) = self.rows.iter_mut().find(|row| row.ticket == ticket) {
            row.excused = true;
        }
    }

    /// The objects, the rows that are woken or excused, and what was rung: what tells one state from another.
    #[cfg(test)]
    pub(crate) fn state(&self) -> impl std::fmt::Debug + use<> {
        let rows = self.rows.iter().map(|row| (row.object, row.woken, row.excused));
        (rows.collect::<Vec<_>>(), self.rung)
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

    /// Wakes one sleeping thread, so that it takes over the core.
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

    /// Wakes all: the core is over.
    pub(crate) fn end(&mut self) {
        self.rows.iter_mut().for_each(Row::wake);
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
            self.bell.ring_anyway();
        }
    }
}

#[cfg(test)]
mod tests;
