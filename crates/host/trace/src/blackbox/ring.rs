//! The last records of one connection.

use super::record::{Record, Segment, What};
use base::{FlowKey, Instant, Seq};
use tcp::{Error, State, Vitals};
use wire::tcp::{Flags, Header};

/// A segment that passed.
pub(super) struct Passed<'a> {
    pub(super) now: Instant,
    pub(super) outbound: bool,
    /// State of its connection before the segment came or after it left.
    pub(super) vitals: Vitals,
    pub(super) header: &'a Header,
    /// Bytes of data.
    pub(super) len: u32,
}

/// The last records of a connection, the oldest overwritten by the newest.
#[derive(Clone, Debug)]
pub struct Ring {
    /// Flow of the records.
    pub key: FlowKey,
    /// When the first was made.
    pub begun: Instant,
    /// When the connection was over.
    pub closed: Option<Instant>,
    /// Why, if it failed.
    pub error: Option<Error>,
    /// We reset it.
    pub reset: bool,
    /// Our initial sequence number and the peer's, if their SYNs were seen.
    pub initial: (Option<Seq>, Option<Seq>),
    /// Records made, of which as many as fit are kept.
    pub made: u64,
    room: usize,
    records: Vec<Record>,
    window: Option<(u32, u32)>,
    /// One past the highest byte that has left.
    high: Option<Seq>,
    /// The peer has shown that it is where it says, or we chose it.
    pub(super) proven: bool,
}

impl Ring {
    pub(super) fn new(room: usize, key: FlowKey, now: Instant) -> Ring {
        Ring {
            key,
            begun: now,
            closed: None,
            error: None,
            reset: false,
            proven: false,
            initial: (None, None),
            made: 0,
            room,
            records: Vec::with_capacity(room),
            window: None,
            high: None,
        }
    }

    /// Forgets everything, for another connection; the memory stays.
    pub(super) fn begin(&mut self, key: FlowKey, now: Instant) {
        (self.key, self.begun, self.closed, self.error) = (key, now, None, None);
        (self.initial, self.made, self.window, self.high) = ((None, None), 0, None, None);
        (self.reset, self.proven) = (false, false);
        self.records.clear();
    }

    pub(super) fn push(&mut self, at: Instant, what: What) {
        let record = Record { at, what };
        if self.records.len() < self.room {
            self.records.push(record);
        } else {
            self.records[(self.made % self.room as u64) as usize] = record;
        }
        self.made += 1;
    }

    /// The records kept, the oldest first.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        let oldest = if self.made > self.room as u64 { (self.made % self.room as u64) as usize } else { 0 };
        let (newer, older) = self.records.split_at(oldest.min(self.records.len()));
        older.iter().chain(newer)
    }

    /// Records that were overwritten.
    pub fn overwritten(&self) -> u64 {
        self.made - self.records.len() as u64
    }

    /// Bytes held.
    pub fn footprint(&self) -> usize {
        size_of::<Ring>() + self.records.capacity() * size_of::<Record>()
    }

    /// A segment passed, and what it tells beside itself.
    pub(super) fn segment(&mut self, passed: &Passed<'_>) {
        let Passed { now, outbound, vitals, header, len } = *passed;
        self.proven |= vitals.state != State::SynReceived;
        let syn = header.flags.has(Flags::SYN);
        let scale = match (syn, outbound) {
            (true, _) => 0,
            (false, true) => vitals.scale.1,
            (false, false) => vitals.scale.0,
        };
        let Header { seq, ack, flags, .. } = *header;
        let segment = Segment { seq, ack, len, window: u32::from(header.window) << scale, flags };
        let window = (vitals.cwnd, vitals.ssthresh);
        if self.window.replace(window).is_some_and(|before| before != window) {
            self.push(now, What::Window { cwnd: window.0, ssthresh: window.1 });
        }
        if !outbound {
            if syn {
                self.initial.1 = Some(seq);
            }
            return self.push(now, What::In(segment));
        }
        if syn {
            self.initial.0 = Some(seq);
        }
        let takes = len + u32::from(syn) + u32::from(flags.has(Flags::FIN));
        let again = takes > 0 && self.high.is_some_and(|high| seq.before(high));
        if self.high.is_none_or(|high| (seq + takes).after(high)) {
            self.high = Some(seq + takes);
        }
        self.push(now, if again { What::Again(segment) } else { What::Out(segment) });
    }
}
