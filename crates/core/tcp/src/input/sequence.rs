//! PAWS, the sequence check, and SYNs out of place.

use wire::tcp::{Flags, Segment};

use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::input::{Cause, Check};
use crate::scale::ts_before;
use crate::{Cx, DropReason, Error, State};

impl Connection {
    /// RFC 7323, section 5.3, step R1; RSTs are exempt.
    /// RFC 7323, 3.2-3, 3.2-4, 3.2-6, 5.3-1, 5.3-4 and 5.5-1.
    pub(crate) fn check_timestamp(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) -> Check {
        if !self.bits.has(Bits::TIMESTAMPS) || seg.flags.has(Flags::RST) {
            return Ok(());
        }
        let Some(ts) = seg.options.timestamps else {
            // The host that sent a SYN may not know this connection: it must be answered (RFC 5961, section 4.2).
            if cx.config.tolerate_missing_timestamps || seg.flags.has(Flags::SYN) {
                return Ok(());
            }
            // RFC 7323, section 3.2: without its timestamp a segment is dropped in silence.
            cx.counters.missing_timestamps += 1;
            return Err(DropReason::NoTimestamp);
        };
        let silent = (cx.now.as_millis() as u32).wrapping_sub(self.rcv.last_ms());
        if ts_before(ts.val, self.rcv.ts_recent()) && silent < self.bits.clock().recent_life_ms() {
            cx.counters.paws_drops += 1;
            // An old copy of the SYN that began this needs no answer; any other SYN does.
            if !self.is_first_syn(seg) {
                self.answer_unacceptable(cx, seg);
            }
            return Err(DropReason::Paws);
        }
        Ok(())
    }

    /// RFC 7323, section 5.3, step R3, with section 4.3's rule: the segment must not lie beyond what was last
    /// acknowledged, so that delayed acknowledgments echo the oldest. Only what passed the other checks gets
    /// here, or a guess could make PAWS drop all the peer sends.
    /// RFC 7323, 4.3-1.
    #[inline(always)]
    pub(crate) fn note_timestamp(&mut self, seg: &Segment<'_>) {
        if let Some(ts) = seg.options.timestamps.filter(|_| self.bits.has(Bits::TIMESTAMPS))
            && seg.seq.at_or_before(self.rcv.acked())
            && !seg.flags.has(Flags::SYN)
        {
            self.rcv.note_timestamp(ts.val);
        }
    }

    /// First check. A segment is acceptable if it overlaps the window. Two things that the letter of RFC 9293
    /// (section 3.4) would refuse are let through to the acknowledgment check, which does not believe them
    /// blindly: what ends between the last acknowledgment sent and RCV.NXT, which reordering brings, and what
    /// starts at RCV.NXT while the window is shut (section 3.10.7.4: "special allowance should be made to
    /// accept valid ACKs"). For the same reason a bare acknowledgment may lie just behind the window: its sender has
    /// filled that, and something in it was lost.
    /// RFC 5961, 3.2-1; RFC 7323, 2.4-2.
    pub(crate) fn check_sequence(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) -> Check {
        let end = seg.seq + seg.seq_len();
        let bare = seg.seq == self.rcv.edge() && seg.seq_len() == 0 && !seg.flags.has(Flags::RST);
        let starts = seg.seq.before(self.rcv.edge()) || seg.seq.at_or_before(self.rcv.nxt()) || bare;
        if (starts || self.starts_in_buffer(cx, seg)) && end.at_or_after(self.rcv.acked()) {
            return Ok(());
        }
        if self.is_first_syn(seg) {
            // Without the data that it brought before.
            return Ok(());
        }
        cx.counters.out_of_window += 1;
        if !seg.flags.has(Flags::RST) {
            self.answer_unacceptable(cx, seg);
        }
        Err(DropReason::OutOfWindow)
    }

    /// Does `seg` start before the window would end if all the buffer's room were told, where that counts?
    #[cold]
    fn starts_in_buffer(&self, cx: &Cx<'_>, seg: &Segment<'_>) -> bool {
        // A listener's half-open connection has no buffer there yet.
        let half_open = self.state() == State::SynReceived && !self.bits.has(Bits::ACTIVE);
        cx.config.quirks.window_by_buffer
            && seg.flags.any(Flags::RST | Flags::SYN)
            && !half_open
            && seg.seq.before(self.rcv.nxt() + self.buffer_room())
    }

    /// The acknowledgment that an unacceptable segment gets. Data is always answered: the sender needs to
    /// know. What carries none could bounce between two confused ends for ever, so it falls under the limit
    /// of RFC 5961.
    pub(crate) fn answer_unacceptable(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) {
        let end = seg.seq + seg.seq_len();
        if seg.payload.is_empty() && !seg.flags.has(Flags::FIN) {
            return self.challenge(cx, Cause::Place);
        }
        self.request(Due::ACK);
        // What begins half of all sequence numbers ahead ends on the other side, and is no duplicate.
        if !seg.payload.is_empty() && seg.seq.before(self.rcv.nxt()) && end.at_or_before(self.rcv.nxt()) {
            cx.counters.duplicates_in += 1;
            self.report_duplicate(cx.config, seg.seq, end);
        }
    }

    /// Fourth check: a SYN in a synchronized state gets a challenge ACK (RFC 5961, section 4). In SYN-RECEIVED the
    /// peer's own SYN may come again: a passive open repeats its SYN-ACK, and in a simultaneous open it gets an
    /// acknowledgment, and may come as SYN-ACK (RFC 9293, figure 8); another SYN is challenged there too, where RFC
    /// 9293 would fall back to LISTEN at an attacker's word.
    /// RFC 5961, 4.2-1 and 4.2-2.
    pub(crate) fn check_syn(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) -> Check {
        if !seg.flags.has(Flags::SYN) {
            return Ok(());
        }
        if self.is_first_syn(seg) {
            if seg.flags.has(Flags::ACK) {
                if !self.acknowledges_syn(seg) {
                    // No half of this connection: one answer, from here or from the fifth check.
                    return if self.bits.has(Bits::ACTIVE) { self.challenge_syn(cx) } else { Ok(()) };
                }
                // The other half of a simultaneous open. It wants to hear that its SYN-ACK arrived, and that the
                // number of its SYN came before (RFC 2883).
                self.report_duplicate(cx.config, seg.seq, seg.seq + 1);
                self.request(Due::ACK);
                self.meet_syn_ack_again(seg);
                return Ok(());
            }
            if self.bits.has(Bits::ACTIVE) {
                // The SYN that crossed ours is old, and the first check has it acknowledged. The timer repeats our
                // SYN-ACK.
                return self.challenge_syn(cx);
            }
            // It was sent again, so our answer must echo the later timestamp: the peer's round trip began there.
            if let Some(ts) = seg.options.timestamps.filter(|_| self.bits.has(Bits::TIMESTAMPS)) {
                self.rcv.note_timestamp(ts.val);
            }
            if self.meet_syn_again(cx, seg) {
                self.request(Due::SYN);
                // The peer has an answer now: the next is due a whole timeout later.
                self.arm_rtx(cx);
            }
            return Err(DropReason::BadSyn);
        }
        if cx.config.quirks.insecure_syn
            && self.state() != State::SynReceived
            && seg.seq.at_or_after(self.rcv.nxt())
        {
            self.fail(cx, Error::Reset);
            self.request_only(Due::RST);
            return Err(DropReason::BadSyn);
        }
        let owed = self.is_due(Due::ACK);
        self.challenge(cx, Cause::Syn);
        if self.bits.has(Bits::ACCECN) && !owed && self.is_due(Due::ACK) && self.is_syn_ack_again(seg) {
            self.meet_syn_ack_again(seg);
        }
        Err(DropReason::BadSyn)
    }

    fn challenge_syn(&mut self, cx: &mut Cx<'_>) -> Check {
        self.challenge(cx, Cause::Syn);
        Err(DropReason::BadSyn)
    }
}
