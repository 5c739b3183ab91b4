//! Positions in the stream that the application marked: ends of records (MSG_EOR), of calls whose departure
//! (SO_TIMESTAMPING) or completion (MSG_ZEROCOPY) is to be reported; and the reports.

pub(crate) mod ends;

use alloc::boxed::Box;

use base::{Instant, Seq};

use crate::connection::{Bits, Connection};
use crate::marks::ends::{Note, RecordEnds};
use crate::{Cx, Events, Hints, Report, Stamps, State, Transmit, WriteError};

crate::bits::writer!(MARKED);

/// Most arrivals remembered; what comes then counts as having come with what came last before.
const ARRIVALS: usize = 256;

impl Connection {
    fn marks(&self) -> Option<&RecordEnds> {
        self.cold()?.marks.0.as_deref()
    }

    fn marks_mut(&mut self) -> &mut RecordEnds {
        self.cold_mut().marks.0.get_or_insert_with(Box::default)
    }

    /// No place for another mark: writing goes on when some of what is marked was acknowledged.
    pub(crate) fn marks_full(&self) -> bool {
        self.bits.has(Bits::MARKED) && self.marks().is_some_and(RecordEnds::is_full)
    }

    /// May the end of a call be marked? A report that nothing takes is no reason to wait for an acknowledgment.
    pub(crate) fn may_mark(&mut self) -> Result<(), WriteError> {
        match self.marks() {
            Some(marks) if marks.is_full() && marks.is_watching() => Err(WriteError::Full),
            Some(marks) if marks.is_full() => Err(WriteError::NoMemory),
            _ => Ok(()),
        }
    }

    /// Bytes of a call whose completion is wanted are copied into the send buffer.
    #[cold]
    pub(crate) fn on_copied_in(&mut self) {
        self.marks_mut().copying = true;
    }

    /// A call ends behind what was written last.
    pub fn end_call(&mut self, cx: &mut Cx<'_>, hints: &Hints) {
        if !hints.marks_end() || self.state() == State::Closed {
            return;
        }
        // What is to go with our SYN lies behind it, and was copied.
        let opening = self.state() == State::SynSent;
        let (una, nxt) = (self.first_byte(), self.snd.nxt());
        let end = una + self.snd.queued();
        let marks = self.marks_mut();
        if hints.end_of_record && marks.ends.back() != Some(&end) {
            marks.ends.push_back(end);
        }
        if hints.completion || hints.stamps != Stamps::default() {
            let start = marks.notes.back().map_or(una, |note| note.end);
            let completion = hints.completion.then(|| {
                let number = marks.calls;
                marks.calls = number.wrapping_add(1);
                (number, core::mem::take(&mut marks.copying) | opening)
            });
            marks.notes.push_back(Note { end, completion, start, stamps: hints.stamps });
        }
        self.bits.set(Bits::MARKED, WRITER);
        if end == una && !opening {
            // It was acknowledged while the call waited.
            return self.on_marked_acknowledged(cx);
        }
        if end.at_or_before(nxt) {
            self.on_marked_transmit(cx, una);
        }
    }

    /// Keeps the segment that ends at `end` whole: data written later goes behind it. Nothing is
    /// marked yet below that.
    pub(crate) fn keep_boundary(&mut self, end: Seq) {
        let ends = &mut self.marks_mut().ends;
        if ends.front() != Some(&end) {
            ends.push_front(end);
        }
        self.bits.set(Bits::MARKED, WRITER);
    }

    /// The number of the oldest byte of the send buffer.
    fn first_byte(&self) -> Seq {
        self.snd.una() + u32::from(self.state() == State::SynSent)
    }

    /// Bytes from `seq` on that may share a segment, at most `len`: up to the end of the record.
    #[cold]
    pub(crate) fn within_record(&self, seq: Seq, len: u32) -> u32 {
        let Some(marks) = self.marks() else { return len };
        let next = marks.ends.partition_point(|end| end.at_or_before(seq));
        marks.ends.get(next).map_or(len, |end| end.offset_from(seq).min(len))
    }

    /// Does a record end at `seq`?
    #[cold]
    pub(crate) fn ends_record(&self, seq: Seq) -> bool {
        self.marks().is_some_and(|marks| {
            let next = marks.ends.partition_point(|end| end.before(seq));
            marks.ends.get(next) == Some(&seq)
        })
    }

    /// Where the record begins that the byte before `seq` is in; SND.UNA if it began before.
    #[cold]
    pub(crate) fn record_start(&self, seq: Seq) -> Seq {
        let Some(marks) = self.marks() else { return self.snd.una() };
        let next = marks.ends.partition_point(|end| end.before(seq));
        let before = next.checked_sub(1).and_then(|at| marks.ends.get(at));
        before.map_or(self.snd.una(), |&end| end.later(self.snd.una()))
    }

    /// Notes the first transmission of the data between `from` and SND.NXT. Both moments are the turn's: the port
    /// takes the segment before it ends.
    #[cold]
    pub(crate) fn on_marked_transmit(&mut self, cx: &mut Cx<'_>, from: Seq) {
        let (una, nxt, acked) = (self.first_byte(), self.snd.nxt(), self.counts.bytes_acked() as u32);
        let Some(marks) = self.cold_mut().marks.0.as_deref_mut() else { return };
        let mut told = false;
        for at in 0..marks.notes.len() {
            let note = &mut marks.notes[at];
            if note.end.at_or_before(from) {
                continue;
            }
            if note.end.after(nxt) {
                break;
            }
            let wanted = note.stamps;
            note.stamps = Stamps(wanted.0 & Stamps::ACKNOWLEDGED.0);
            let byte = acked.wrapping_add(note.end.offset_from(una)).wrapping_sub(1);
            for what in [Stamps::SCHEDULED, Stamps::SENT] {
                if wanted.any(what) {
                    marks.stamp(what, byte, cx.now);
                    told = true;
                }
            }
        }
        if told {
            self.raise(Events::REPORT);
        }
    }

    /// SND.UNA has moved.
    #[cold]
    pub(crate) fn on_marked_acknowledged(&mut self, cx: &mut Cx<'_>) {
        let (una, acked) = (self.snd.una(), self.counts.bytes_acked() as u32);
        let Some(marks) = self.cold_mut().marks.0.as_deref_mut() else { return };
        while marks.ends.front().is_some_and(|end| end.at_or_before(una)) {
            marks.ends.pop_front();
        }
        let mut told = false;
        while let Some(note) = marks.notes.pop_front_if(|note| note.end.at_or_before(una)) {
            let byte = acked.wrapping_sub(una.offset_from(note.end)).wrapping_sub(1);
            for what in [Stamps::SCHEDULED, Stamps::SENT, Stamps::ACKNOWLEDGED] {
                if note.stamps.any(what) {
                    marks.stamp(what, byte, cx.now);
                    told = true;
                }
            }
            if let Some((number, copied)) = note.completion {
                marks.complete(number, copied);
                told = true;
            }
        }
        let watching = marks.is_watching();
        self.bits.put(Bits::MARKED, watching, WRITER);
        if told {
            self.raise(Events::REPORT);
        }
    }

    /// The connection is over: nothing refers to what was written any more.
    #[cold]
    pub(crate) fn settle_marks(&mut self) {
        self.bits.clear(Bits::MARKED, WRITER);
        let Some(marks) = self.cold_mut().marks.0.as_deref_mut() else { return };
        marks.ends.clear();
        let mut told = false;
        while let Some(note) = marks.notes.pop_front() {
            if let Some((number, copied)) = note.completion {
                marks.complete(number, copied);
                told = true;
            }
        }
        if told {
            self.raise(Events::REPORT);
        }
    }

    /// Does the program want to know whether payload is copied on its way to the port?
    #[inline]
    pub fn counts_copies(&self) -> bool {
        self.bits.has(Bits::MARKED)
    }

    /// The payload of `tx` was copied.
    #[cold]
    pub fn on_copied(&mut self, tx: &Transmit) {
        let (start, end) = (tx.header.seq, tx.header.seq + tx.len);
        let Some(marks) = self.cold_mut().marks.0.as_deref_mut() else { return };
        for note in &mut marks.notes {
            if let Some((_, copied)) = &mut note.completion {
                *copied |= note.start.before(end) && note.end.after(start);
            }
        }
    }

    /// Is there something to report?
    #[inline]
    pub fn has_reports(&self) -> bool {
        self.marks().is_some_and(|marks| !marks.reports.is_empty())
    }

    /// The oldest report, taken.
    pub fn poll_report(&mut self) -> Option<Report> {
        self.marks()?;
        self.marks_mut().reports.pop_front()
    }

    /// Data arrived whose time is asked for, or while MSG_MORE holds data back.
    #[cold]
    pub(crate) fn on_arrival(&mut self, now: Instant) {
        if self.bits.has(Bits::DATED) {
            self.note_arrival(now);
        }
        self.let_go();
    }

    // --- arrivals --------------------------------------------------------------------------------------------

    /// Everything up to RCV.NXT is here.
    #[cold]
    fn note_arrival(&mut self, now: Instant) {
        let end = self.rcv.nxt();
        let arrivals = &mut self.marks_mut().arrivals;
        let full = arrivals.len() >= ARRIVALS;
        match arrivals.back_mut() {
            Some(last) if full || last.1 == now => *last = (end, now),
            _ => arrivals.push_back((end, now)),
        }
    }

    /// When the last of the bytes came that were read up to now (SO_TIMESTAMP on a stream); `None` if nothing was, or
    /// no peer asked for it when it came.
    pub fn last_read_arrived(&mut self) -> Option<Instant> {
        let read = self.rcv.nxt() - u32::from(self.bits.has(Bits::PEER_FIN)) - self.rcv.readable();
        self.marks()?;
        let arrivals = &mut self.marks_mut().arrivals;
        // The one that the last byte read came with stays: more of it may be unread.
        while arrivals.front().is_some_and(|(end, _)| end.before(read)) {
            arrivals.pop_front();
        }
        let (end, at) = *arrivals.front()?;
        if end == read {
            arrivals.pop_front();
        }
        Some(at)
    }
}
