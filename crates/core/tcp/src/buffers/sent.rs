//! When what is in flight left: what the round-trip time is measured by, and what RACK (RFC 8985) judges by.

use alloc::vec::Vec;

use base::Seq;

use crate::buffers::pool::NONE;

/// Data that left at one time: everything from the end of the departure before it up to `end`.
#[derive(Clone, Copy, Debug)]
struct Departure {
    end: Seq,
    /// Microseconds, modulo 2^32.
    at: u32,
    next: u32,
}

/// The core's departures. Memory comes from the allocator while the number in flight grows, and stays.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct TxTimes {
    slots: Vec<Departure>,
    free: u32,
    used: u32,
    limit: u32,
}

impl TxTimes {
    /// Room for `limit` departures.
    pub(crate) fn new(limit: u32) -> TxTimes {
        TxTimes { slots: Vec::new(), free: NONE, used: 0, limit: limit.min(NONE - 1) }
    }

    /// TxTimes kept now.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// Bytes reserved from the allocator.
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
/// a window makes a single entry. The latest is kept here, so that requests and answers never touch the core's
/// log. Retransmissions are not here: see [`crate::recovery::resent::Resent`].
///
/// ```text
///  SND.UNA                                   SND.NXT
///    |  left at t0  |  t1  |     t2     |  t3  |
///         head               tail         last
/// ```
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Sent {
    head: u32,
    tail: u32,
    /// Nothing is in flight once SND.UNA has come to its end.
    end: Seq,
    at: u32,
}

/// A place in [`Sent`] that only moves forward: in the log, or at the latest departure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cursor(u32);

impl Sent {
    /// Nothing in flight, SND.UNA is `una`.
    pub(crate) const fn new(una: Seq) -> Sent {
        Sent { head: NONE, tail: NONE, end: una, at: 0 }
    }

    /// Did what is in flight leave at several times?
    pub(crate) fn has_several(&self) -> bool {
        self.head != NONE
    }

    /// Everything from what left before, or from SND.UNA, up to `end` leaves at `at`. Where there is no memory, what
    /// left last counts as having left now, which only makes its loss show later.
    /// RFC 8985, 5.1-1.
    #[inline(always)]
    pub(crate) fn push(&mut self, log: &mut TxTimes, una: Seq, end: Seq, at: u32) {
        if una.before(self.end) && self.at != at {
            self.spill(log);
        }
        (self.end, self.at) = (end, at);
    }

    fn spill(&mut self, log: &mut TxTimes) {
        // What left last was taken back whole: there is nothing to remember, however often that happens.
        if log.slots.get(self.tail as usize).is_some_and(|tail| tail.end == self.end) {
            return;
        }
        let last = Departure { end: self.end, at: self.at, next: NONE };
        let Some(index) = log.take(last) else { return };
        match log.slots.get_mut(self.tail as usize) {
            Some(tail) => tail.next = index,
            None => self.head = index,
        }
        self.tail = index;
    }

    /// Takes back the latest departures, which did not leave: SND.NXT is `nxt` again.
    pub(crate) fn cut(&mut self, nxt: Seq) {
        self.end = self.end.earlier(nxt);
    }

    /// SND.UNA has moved to `una`: when the byte before it left, if that is known.
    #[inline(always)]
    pub(crate) fn retire(&mut self, log: &mut TxTimes, una: Seq) -> Option<u32> {
        if self.head != NONE {
            return self.retire_older(log, una);
        }
        una.at_or_before(self.end).then_some(self.at)
    }

    fn retire_older(&mut self, log: &mut TxTimes, una: Seq) -> Option<u32> {
        let mut left = None;
        while let Some(&Departure { end, at, .. }) = log.slots.get(self.head as usize) {
            if end.after(una) {
                return left.filter(|&(end, _)| una == end).map(|(_, at)| at).or(Some(at));
            }
            // An empty one says nothing.
            if left.is_none_or(|(last, _)| end.after(last)) {
                left = Some((end, at));
            }
            self.head = log.put(self.head);
        }
        self.tail = NONE;
        let last = una.at_or_before(self.end).then_some(self.at);
        left.filter(|&(end, _)| end == una).map(|(_, at)| at).or(last)
    }

    /// As `retire`, while cursors point into the log: they are moved along.
    pub(crate) fn retire_with(&mut self, log: &mut TxTimes, una: Seq, cursors: &mut [Cursor]) -> Option<u32> {
        for cursor in cursors {
            while let Some(departure) = log.slots.get(cursor.0 as usize).filter(|d| d.end.at_or_before(una)) {
                cursor.0 = departure.next;
            }
        }
        self.retire(log, una)
    }

    /// Gives everything back.
    pub(crate) fn release(&mut self, log: &mut TxTimes) {
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

#[cfg(test)]
impl Sent {
    /// Returns the state that decides all later answers: the departures, the latest last, and the cursor's place
    /// among them.
    pub(crate) fn state(&self, log: &TxTimes, cursor: Cursor) -> (Vec<(Seq, u32)>, usize) {
        let (mut all, mut place, mut index) = (Vec::new(), usize::MAX, self.head);
        while let Some(&Departure { end, at, next }) = log.slots.get(index as usize) {
            if cursor.0 == index {
                place = all.len();
            }
            all.push((end, at));
            index = next;
        }
        all.push((self.end, self.at));
        (all, place)
    }
}

impl Cursor {
    /// Goes to the departure of the byte at `seq`, which lies nowhere before it: when it left, and where what left
    /// then ends. `None` beyond what was sent.
    pub(crate) fn seek(&mut self, sent: &Sent, log: &TxTimes, seq: Seq) -> Option<(Seq, u32)> {
        if self.0 == NONE && log.slots.get(sent.tail as usize).is_some_and(|tail| seq.before(tail.end)) {
            // It stood at what was the latest then.
            *self = sent.cursor();
        }
        while let Some(departure) = log.slots.get(self.0 as usize) {
            if departure.end.after(seq) {
                return Some((departure.end, departure.at));
            }
            self.0 = departure.next;
        }
        seq.before(sent.end).then_some((sent.end, sent.at))
    }
}

#[cfg(test)]
mod tests;
