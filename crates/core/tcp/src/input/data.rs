//! Seventh and eighth check: text and FIN.

use base::Seq;
use wire::tcp::{Flags, Pieces, Segment};

use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::input::Check;
use crate::input::WRITER;
use crate::receiver::{Kept, Limit};
use crate::{Config, Cx, DropReason, Error, Events, State};

impl Connection {
    /// Seventh check: the data that lies in the window.
    /// RFC 9293, SHLD-3.
    #[inline(always)]
    pub(crate) fn take_text(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) -> Check {
        if seg.payload.is_empty() {
            return Ok(());
        }
        if !self.state().may_receive() {
            self.answer_old_text(cx, seg);
            return Ok(());
        }
        self.take_payload(cx, seg)
    }

    /// Nothing follows the peer's FIN. What came before it and comes again is not acceptable, and answered: the peer
    /// has missed the acknowledgment (RFC 9293, section 3.10.7.4).
    #[cold]
    fn answer_old_text(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) {
        let end = seg.seq + seg.payload.len() as u32;
        if self.bits.has(Bits::PEER_FIN) && end.at_or_before(self.rcv.nxt()) {
            cx.counters.duplicates_in += 1;
            self.report_duplicate(cx.config, seg.seq, end);
            self.request(Due::ACK);
        }
    }

    #[inline]
    fn take_payload(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) -> Check {
        let data = seg.payload;
        let end = seg.seq + data.len() as u32;
        if end.after(self.rcv.nxt()) && self.has_no_reader() {
            // Nothing will ever read this: the peer must know that it is lost (RFC 2525, section 2.17).
            cx.counters.abort_on_data += 1;
            self.refuse_text(cx, seg);
            return Ok(());
        }
        self.rcv.count_segments(seg.merged);
        self.learn_segment_size(data.len() as u32, seg.merged);
        self.learn_round_trip(cx, seg);
        let old = self.rcv.nxt().distance_from(seg.seq).max(0) as usize;
        if old >= data.len() {
            cx.counters.duplicates_in += 1;
            self.report_duplicate(cx.config, seg.seq, end);
            self.request(Due::ACK);
            if self.bits.has(Bits::ACCECN) {
                self.suspect_option(cx, seg);
            }
            return Ok(());
        }
        let start = seg.seq + old as u32;
        let room = self.rcv.edge().distance_from(start).max(0) as usize;
        let fresh = &data[old..];
        let fresh = &fresh[..fresh.len().min(room)];
        if old > 0 {
            self.report_duplicate(cx.config, seg.seq, self.rcv.nxt());
        }
        if fresh.is_empty() {
            // A probe of our shut window: the answer tells what it is now.
            self.request(Due::ACK);
            return Err(DropReason::OutOfWindow);
        }
        if start == self.rcv.nxt() && !self.rcv.is_missing() {
            return self.take_in_order(cx, (fresh, None), fresh.len(), seg.flags);
        }
        self.take_out_of_order(cx, start, fresh)
    }

    /// Data at RCV.NXT, with nothing missing: a piece, and the rest if there is more, `whole` bytes together. What the
    /// pool has no room for is not acknowledged.
    #[inline]
    pub(crate) fn take_in_order(
        &mut self,
        cx: &mut Cx<'_>,
        data: (&[u8], Option<&dyn Pieces>),
        whole: usize,
        flags: Flags,
    ) -> Check {
        if flags.has(Flags::PSH) {
            self.note_pushed();
        }
        let taken = if self.bits.has(Bits::READ_CLOSED) { whole } else { self.rcv.append(cx, data) };
        self.rcv.advance(taken as u32);
        cx.counters.bytes_in += taken as u64;
        if self.bits.has(Bits::DATED | Bits::MORE) {
            self.on_arrival(cx.now);
        }
        if taken > 0 && self.is_worth_reading() {
            self.raise(Events::READABLE);
        }
        if taken < whole {
            return self.take_least(cx, data, taken);
        }
        self.acknowledge_data(cx);
        Ok(())
    }

    /// Returns the number of the payload in which the oldest data lies, if that was adopted.
    pub fn adopted(&self) -> Option<u32> {
        self.rcv.adopted()
    }

    /// Copies adopted data that was not read, so that its frames are free. Returns its bytes.
    pub fn copy_adopted(&mut self, cx: &mut Cx<'_>) -> u32 {
        self.rcv.copy_adopted(cx)
    }

    /// Data beyond RCV.NXT, or at it while more is held further on. Either is answered at once (RFC 5681,
    /// section 4.2).
    /// RFC 9293, SHLD-31 and MAY-13; RFC 5681, 3.2-1 and 3.2-2.
    fn take_out_of_order(&mut self, cx: &mut Cx<'_>, start: Seq, data: &[u8]) -> Check {
        self.rcv.copy_adopted(cx);
        self.request(Due::ACK);
        self.rcv.set_quick(cx.config.quick_acks);
        self.end_dialogue();
        let offset = start.offset_from(self.rcv.nxt());
        if offset > 0 {
            cx.counters.out_of_order_in += 1;
            self.cold_mut().stats.count_out_of_order();
            self.rcv.owe();
        }
        let end = offset + data.len() as u32;
        let twice = self.rcv.overlap(offset, end);
        let kept = self.rcv.keep(cx, offset, data, self.bits.has(Bits::READ_CLOSED));
        // A segment that is new in part reports the first part that is not (RFC 2883, section 4.2).
        let told = self.rcv.reports_duplicate();
        if let (Some((left, right)), Kept::New | Kept::Cut | Kept::Duplicate, false) = (twice, kept, told) {
            self.report_duplicate(cx.config, self.rcv.nxt() + left, self.rcv.nxt() + right);
        }
        if offset == 0 && matches!(kept, Kept::New | Kept::Cut) {
            self.deliver(cx);
        }
        match kept {
            Kept::New | Kept::Duplicate => Ok(()),
            Kept::Refused(limit) => {
                self.count_refused(cx, limit);
                Err(DropReason::Reassembly)
            }
            Kept::Cut | Kept::NoMemory => {
                cx.counters.no_memory += 1;
                Err(DropReason::NoMemory)
            }
        }
    }

    fn count_refused(&mut self, cx: &mut Cx<'_>, limit: Limit) {
        self.cold_mut().stats.count_refused();
        *match limit {
            Limit::Runs => &mut cx.counters.reassembly_refused,
            Limit::Share => &mut cx.counters.reassembly_full,
            Limit::Fin => &mut cx.counters.beyond_fin,
        } += 1;
    }

    /// Has the application said that it will neither read nor write any more (RFC 1122, section 4.2.2.13)?
    pub(crate) fn has_no_reader(&self) -> bool {
        let both_shut = self.bits.has(Bits::READ_SHUT) && !self.bits.has(Bits::READ_CLOSED);
        let finished = matches!(self.state(), State::FinWait1 | State::FinWait2);
        self.bits.has(Bits::ORPHAN) || (both_shut && finished)
    }

    /// The end, with the RST that `seg` would get if the connection had been gone before it (RFC 9293, section
    /// 3.10.7.1): its number is the one that the peer expects, whatever else of ours is under way.
    #[cold]
    fn refuse_text(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) {
        if !self.bits.has(Bits::ORPHAN) {
            self.set_error(Error::Reset);
            self.raise(Events::ERROR | Events::WRITABLE | Events::READABLE);
        }
        self.reset(cx);
        self.answer_with_reset(seg);
    }

    /// Keeps the data of a SYN until the connection stands (RFC 9293, section 3.10.7.3).
    #[cold]
    pub(crate) fn hold_text(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) {
        let room = self.rcv.window() as usize;
        let data = &seg.payload[..seg.payload.len().min(room)];
        // What there is no memory for comes again: it is not acknowledged.
        if !data.is_empty()
            && matches!(
                self.rcv.keep(cx, 0, data, self.bits.has(Bits::READ_CLOSED)),
                Kept::NoMemory | Kept::Cut
            )
        {
            cx.counters.no_memory += 1;
        }
    }

    /// The connection stands: what was held is received.
    pub(crate) fn release_text(&mut self, cx: &mut Cx<'_>) {
        if self.rcv.is_missing() {
            let nxt = self.rcv.nxt();
            self.deliver(cx);
            self.rcv.tidy(cx);
            // What lies behind a hole was acknowledged as it came.
            if self.rcv.nxt() != nxt {
                self.acknowledge_data(cx);
            }
        }
    }

    /// A hole was filled: RCV.NXT moves over it and over what lay behind.
    fn deliver(&mut self, cx: &mut Cx<'_>) {
        let n = self.rcv.fill(cx, self.bits.has(Bits::READ_CLOSED));
        cx.counters.bytes_in += u64::from(n);
        if self.bits.has(Bits::DATED | Bits::MORE) {
            self.on_arrival(cx.now);
        }
        if n > 0 && self.is_worth_reading() {
            self.raise(Events::READABLE);
        }
    }

    /// Remembers a duplicate for the next SACK option (RFC 2883, section 4).
    pub(crate) fn report_duplicate(&mut self, config: &Config, left: Seq, right: Seq) {
        if self.bits.has(Bits::SACK) && config.dsack {
            self.rcv.report_duplicate(left, right);
        }
    }

    /// Eighth check: FIN, taken when everything before it was. One that came early waits.
    #[inline(always)]
    pub(crate) fn take_fin(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) {
        if seg.flags.has(Flags::FIN) || self.rcv.is_missing() {
            self.look_for_fin(cx, seg);
        }
    }

    fn look_for_fin(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) {
        if !self.state().may_receive() {
            let is_old = (seg.seq + seg.payload.len() as u32).before(self.rcv.nxt());
            if seg.flags.has(Flags::FIN) && is_old && self.state() != State::Closed {
                // Again: our acknowledgment was lost. One further on is ignored.
                self.request(Due::ACK);
            }
            return;
        }
        if self.rcv.is_at_fin() {
            // Another one, further on, changes nothing.
            return self.on_fin(cx);
        }
        if seg.flags.has(Flags::FIN) {
            let at = seg.seq + seg.payload.len() as u32;
            if at.after(self.rcv.nxt()) {
                self.rcv.note_fin(at);
                // The peer learns of the hole before it, as it does from data (RFC 5681, section 4.2).
                self.request(Due::ACK);
                return;
            }
            if at == self.rcv.nxt() {
                return self.on_fin(cx);
            }
            // An old one, which is not acceptable (RFC 9293, section 3.10.7.4).
            self.request(Due::ACK);
        }
        self.rcv.tidy(cx);
    }

    #[inline(always)]
    fn on_fin(&mut self, cx: &mut Cx<'_>) {
        self.rcv.forget_out_of_order(cx);
        self.rcv.take_fin();
        self.request(Due::ACK);
        self.bits.set(Bits::PEER_FIN, WRITER);
        self.let_go();
        self.raise(Events::READABLE | Events::PEER_CLOSED);
        match self.state() {
            State::Established => self.set_state(cx, State::CloseWait),
            // Our FIN is not acknowledged, or this check would find FIN-WAIT-2: simultaneous close.
            State::FinWait1 => self.set_state(cx, State::Closing),
            State::FinWait2 => self.enter_time_wait(cx),
            _ => {}
        }
    }
}
