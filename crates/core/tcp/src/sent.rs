//! When what is in flight left: what RACK (RFC 8985) measures by.

use alloc::vec::Vec;

use base::Seq;

use crate::pool::NONE;

/// What left at one time: everything from the end of the departure before it up to `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Departure {
    pub(crate) end: Seq,
    /// Microseconds, modulo 2^32.
    pub(crate) at: u32,
    next: u32,
}

/// The core's departures. Memory comes from the allocator while the number in flight grows, and stays.
#[derive(Debug)]
pub(crate) struct Departures {
    slots: Vec<Departure>,
    free: u32,
    used: u32,
    limit: u32,
}

impl Departures {
    /// Room for `limit` departures.
    pub(crate) fn new(limit: u32) -> Departures {
        Departures { slots: Vec::new(), free: NONE, used: 0, limit: limit.min(NONE - 1) }
    }

    /// Departures kept now.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// Octets reserved from the allocator.
    pub(crate) fn footprint(&self) -> usize {
        self.slots.capacity() * size_of::<Departure>()
    }

    #[inline]
    fn take(&mut self, departure: Departure) -> Option<u32> {
        if self.free != NONE {
            let index = self.free;
            self.free = core::mem::replace(&mut self.slots[index as usize], departure).next;
            self.used += 1;
            return Some(index);
        }
        self.grow(departure)
    }

    #[cold]
    fn grow(&mut self, departure: Departure) -> Option<u32> {
        let index = self.slots.len() as u32;
        if index >= self.limit {
            return None;
        }
        self.slots.push(departure);
        self.used += 1;
        Some(index)
    }

    #[inline]
    fn put(&mut self, index: u32) -> u32 {
        let next = core::mem::replace(&mut self.slots[index as usize].next, self.free);
        self.free = index;
        self.used -= 1;
        next
    }
}

/// One connection's departures, oldest first. Transmissions of the same time share one, so a turn that sends
/// a window makes a single entry. Retransmissions are not here: see [`crate::resent::Resent`].
///
/// ```text
///  SND.UNA                                   SND.NXT
///    |  left at t0  |  t1  |     t2     |  t3  |
///         head                            tail
/// ```
#[derive(Debug)]
pub(crate) struct Sent {
    head: u32,
    tail: u32,
}

/// A place in [`Sent`] that only moves forward.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cursor(u32);

impl Sent {
    /// Nothing in flight.
    pub(crate) const fn new() -> Sent {
        Sent { head: NONE, tail: NONE }
    }

    /// Everything up to `end` left at `at`. Where there is no memory, what left last counts as having left
    /// now, which only makes its loss show later.
    #[inline]
    pub(crate) fn push(&mut self, log: &mut Departures, end: Seq, at: u32) {
        if self.tail != NONE && log.slots[self.tail as usize].at == at {
            log.slots[self.tail as usize].end = end;
            return;
        }
        let Some(index) = log.take(Departure { end, at, next: NONE }) else {
            if let Some(last) = log.slots.get_mut(self.tail as usize) {
                (last.end, last.at) = (end, at);
            }
            return;
        };
        if self.tail == NONE {
            self.head = index;
        } else {
            log.slots[self.tail as usize].next = index;
        }
        self.tail = index;
    }

    /// What had left last did not leave after all: SND.NXT is `nxt` again.
    pub(crate) fn cut(&mut self, log: &mut Departures, nxt: Seq) {
        if let Some(last) = log.slots.get_mut(self.tail as usize) {
            last.end = last.end.earlier(nxt);
        }
    }

    /// SND.UNA is now `una`.
    #[inline]
    pub(crate) fn retire(&mut self, log: &mut Departures, una: Seq) {
        while self.head != NONE && log.slots[self.head as usize].end.at_or_before(una) {
            self.head = log.put(self.head);
        }
        if self.head == NONE {
            self.tail = NONE;
        }
    }

    /// The same while cursors stand in the log: none is left behind.
    pub(crate) fn retire_with(&mut self, log: &mut Departures, una: Seq, cursors: &mut [Cursor]) {
        for cursor in cursors {
            while cursor.departure(log).is_some_and(|departure| departure.end.at_or_before(una)) {
                cursor.step(log);
            }
        }
        self.retire(log, una);
    }

    /// Gives everything back.
    pub(crate) fn release(&mut self, log: &mut Departures) {
        while self.head != NONE {
            self.head = log.put(self.head);
        }
        self.tail = NONE;
    }

    /// At the oldest.
    pub(crate) fn cursor(&self) -> Cursor {
        Cursor(self.head)
    }
}

impl Cursor {
    /// What it points to; `None` past the end.
    pub(crate) fn departure(self, log: &Departures) -> Option<Departure> {
        log.slots.get(self.0 as usize).copied()
    }

    /// To the next one. Past the end it stays, and does not see what is pushed later.
    fn step(&mut self, log: &Departures) {
        if let Some(departure) = self.departure(log) {
            self.0 = departure.next;
        }
    }

    /// Goes to the departure of the octet at `seq`, which lies nowhere before. A cursor that had come to the
    /// end starts over: it was made when the log was shorter.
    pub(crate) fn seek(&mut self, sent: &Sent, log: &Departures, seq: Seq) -> Option<Departure> {
        if self.0 == NONE {
            *self = sent.cursor();
        }
        while let Some(departure) = self.departure(log) {
            if departure.end.after(seq) {
                return Some(departure);
            }
            if departure.next == NONE {
                return None;
            }
            self.0 = departure.next;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the log tells of every octet in flight when it left, whatever happened before.
    use super::*;
    use crate::fuzz;
    use crate::fuzz::seeded::seeded;

    #[test]
    fn agrees_with_a_list_of_octets() {
        seeded("sent", 300, 1_200, fuzz::sent);
    }

    #[test]
    fn without_memory_the_last_departure_stands_for_the_next() {
        let mut log = Departures::new(2);
        let mut sent = Sent::new();
        for i in 1..=4 {
            sent.push(&mut log, Seq::new(10 * i), i);
        }
        let mut cursor = sent.cursor();
        assert_eq!(cursor.seek(&sent, &log, Seq::new(5)).map(|d| d.at), Some(1));
        assert_eq!(cursor.seek(&sent, &log, Seq::new(15)).map(|d| d.at), Some(4));
        let mut other = Sent::new();
        other.push(&mut log, Seq::new(7), 1);
        assert_eq!(other.cursor().departure(&log), None, "no memory at all: it is not known");
        sent.retire(&mut log, Seq::new(40));
        assert_eq!(log.used(), 0);
        other.push(&mut log, Seq::new(8), 2);
        other.release(&mut log);
        assert_eq!(log.used(), 0);
    }
}
