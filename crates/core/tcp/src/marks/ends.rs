//! Ends of records and calls, and the reports about them.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use base::{Instant, Seq};

/// Most places remembered, and most reports kept for the application, of one connection.
const MOST: usize = 1024;

/// Moments of a call's last byte that the application wants to hear of, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stamps(pub u8);

impl Stamps {
    /// It was put into a segment (SOF_TIMESTAMPING_TX_SCHED).
    pub const SCHEDULED: Stamps = Stamps(1);
    /// The segment was handed to the port (SOF_TIMESTAMPING_TX_SOFTWARE).
    pub const SENT: Stamps = Stamps(2);
    /// The peer acknowledged it and everything before it (SOF_TIMESTAMPING_TX_ACK).
    pub const ACKNOWLEDGED: Stamps = Stamps(4);

    /// Any of `other`'s bits?
    pub const fn any(self, other: Stamps) -> bool {
        self.0 & other.0 != 0
    }
}

/// How the bytes of one call are to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Hints {
    /// More follows soon: a segment that is not full waits for it, until the next call without this, the next
    /// acknowledgment of data, data or the FIN of the peer, or 200 ms have passed (MSG_MORE).
    pub more: bool,
    /// Here ends a record: what is written later never shares a segment with it, not even when it is sent again
    /// (MSG_EOR).
    pub end_of_record: bool,
    /// Report when nothing refers to the call's bytes any more (MSG_ZEROCOPY).
    pub completion: bool,
    /// Report these moments.
    pub stamps: Stamps,
    /// The caller goes on with what is not taken; only the call's last byte ends a record or is reported.
    pub waits: bool,
}

impl Hints {
    /// Has its end a meaning?
    pub fn marks_end(&self) -> bool {
        self.end_of_record || self.completion || self.stamps != Stamps::default()
    }
}

/// Something the application asked to hear of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// The calls with these numbers, counted from 0, are complete: their bytes are acknowledged, or the connection is
    /// over.
    Complete {
        /// Number of the first.
        first: u32,
        /// Number of the last.
        last: u32,
        /// At least one byte was copied on the way.
        copied: bool,
    },
    /// A moment that was asked for.
    Stamp {
        /// Which one: a single bit.
        what: Stamps,
        /// The call's last byte, counted from the stream's first, modulo 2^32.
        byte: u32,
        /// When.
        at: Instant,
    },
}

impl Report {
    /// Completions that follow each other become one report: did `next` become part of this one?
    pub fn absorb(&mut self, next: &Report) -> bool {
        let Report::Complete { last, copied, .. } = self else { return false };
        match next {
            Report::Complete { first, last: end, copied: too }
                if last.wrapping_add(1) == *first && copied == too =>
            {
                *last = *end;
                true
            }
            _ => false,
        }
    }
}

/// The end of a call.
#[derive(Debug)]
pub(super) struct Note {
    /// One past its last byte.
    pub(super) end: Seq,
    /// Its number, if its completion is to be told, and whether a byte of it was copied.
    pub(super) completion: Option<(u32, bool)>,
    /// One past the last byte of the call before, so that it is known whose bytes were copied.
    pub(super) start: Seq,
    pub(super) stamps: Stamps,
}

/// Ends of records of one connection.
#[derive(Debug, Default)]
pub(super) struct RecordEnds {
    /// One past the last byte of each record, in order.
    pub(super) ends: VecDeque<Seq>,
    /// Ends of calls, in order.
    pub(super) notes: VecDeque<Note>,
    pub(super) reports: VecDeque<Report>,
    /// Calls numbered so far.
    pub(super) calls: u32,
    /// Bytes of the call that goes on were copied.
    pub(super) copying: bool,
    /// Arrival times: one past the last byte, and when it arrived.
    pub(super) arrivals: VecDeque<(Seq, Instant)>,
}

/// The application's requests about positions in its stream.
#[derive(Default, Debug)]
pub(crate) struct Marks(pub(super) Option<Box<RecordEnds>>);

impl RecordEnds {
    pub(super) fn is_full(&self) -> bool {
        self.ends.len() >= MOST || self.notes.len() + self.reports.len() >= MOST
    }

    /// Is there anything that acknowledgments and departures must look at?
    pub(super) fn is_watching(&self) -> bool {
        !self.ends.is_empty() || !self.notes.is_empty()
    }

    /// Completions that follow each other become one report, as long as nothing took it.
    pub(super) fn complete(&mut self, number: u32, copied: bool) {
        let next = Report::Complete { first: number, last: number, copied };
        if !self.reports.back_mut().is_some_and(|back| back.absorb(&next)) {
            self.reports.push_back(next);
        }
    }

    /// The application gets to hear of a moment, unless it has not listened for long.
    pub(super) fn stamp(&mut self, what: Stamps, byte: u32, at: Instant) {
        if self.reports.len() < 2 * MOST {
            self.reports.push_back(Report::Stamp { what, byte, at });
        }
    }
}
