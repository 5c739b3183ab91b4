//! SYN-SENT, and the acknowledgment of our SYN.

use wire::tcp::{Flags, Segment};

use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::input::Check;
use crate::scale::Clock;
use crate::{Cx, DropReason, Error, State};

impl Connection {
    /// RFC 9293, section 3.10.7.3.
    /// RFC 9293, MUST-10.
    pub(crate) fn on_syn_sent(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) -> Check {
        let flags = seg.flags;
        if flags.has(Flags::ACK) && !(self.acknowledges_syn(seg) && self.echoes_syn(cx, seg)) {
            // First: an acknowledgment of something we never sent, from an old incarnation of the peer
            // perhaps.
            cx.counters.bad_acks += 1;
            if !flags.has(Flags::RST) {
                self.answer_with_reset(seg);
                self.repeat_syn_once(cx, seg);
            }
            return Err(DropReason::BadAck);
        }
        if flags.has(Flags::RST) {
            // Second: only a RST that acknowledges our SYN is the peer's.
            if flags.has(Flags::ACK) {
                cx.counters.resets_in += 1;
                self.fail(cx, Error::Refused);
                return Ok(());
            }
            return Err(DropReason::BadReset);
        }
        if !flags.has(Flags::SYN) {
            return Err(DropReason::NoAck);
        }
        if flags.has(Flags::FIN) && !flags.has(Flags::ACK) && cx.config.drop_synfin {
            return Err(DropReason::BadSyn);
        }
        self.take_syn(cx, seg);
        if !flags.has(Flags::ACK) {
            // Simultaneous open: both SYNs crossed.
            if !cx.config.quirks.drop_crossed_text {
                self.hold_text(cx, &super::behind_syn(seg));
            }
            self.request(Due::SYN);
            self.set_state(cx, State::SynReceived);
            return Ok(());
        }
        if self.bits.has(Bits::FAST_OPEN) {
            self.conclude(cx, seg);
        }
        self.syn_acknowledged(cx, seg);
        // The handshake's third segment; data takes its place if the application writes in this turn.
        self.request(Due::ACK);
        if seg.seq_len() == 1 {
            return Ok(());
        }
        // What came with the SYN-ACK goes the usual way, one number further.
        let rest = super::behind_syn(seg);
        let taken = self.take_text(cx, &rest);
        self.take_fin(cx, &rest);
        taken
    }

    /// Sends the SYN again behind the reset that `seg` gets, if that acknowledges something else: the peer still has an
    /// old connection, open (RFC 5961, section 4.2) or half-open, which the reset ends (RFC 9293, figure 9).
    /// Nothing was lost, so the timer starts again without backoff. As Linux since 5.6 this happens once, before the
    /// first timeout: two ends that disagree do not answer each other for ever.
    #[cold]
    fn repeat_syn_once(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) {
        if !self.acknowledges_syn(seg) && self.counts.retransmits() == 0 && !cx.config.quirks.syn_waits {
            self.request(Due::SYN);
            self.arm_rtx(cx);
        }
    }

    /// `seg` acknowledges our SYN.
    pub(crate) fn syn_acknowledged(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) {
        let data = seg.ack.offset_from(self.snd.una()) - 1;
        let left = self.snd.acknowledge_syn(cx.pool.tx_times_mut(), seg.ack);
        // A SYN that was sent again is measured by the echo of its timestamp alone (RFC 7323, section 4.1).
        self.measure_rtt(cx, seg, left.filter(|_| self.snd.is_timed(seg.ack)));
        if self.snd.queued() > 0 {
            self.settle_syn_data(cx, data);
        }
        if self.bits.has(Bits::MARKED) {
            self.on_marked_acknowledged(cx);
        }
        self.clear_due(Due::SYN);
        self.timers.end_backoff();
        self.timers.stop_rtx();
        self.establish(cx);
    }

    /// Fifth check in SYN-RECEIVED.
    pub(crate) fn check_handshake_ack(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) -> Check {
        if !self.acknowledges_syn(seg) {
            cx.counters.bad_acks += 1;
            self.answer_with_reset(seg);
            return Err(DropReason::BadAck);
        }
        if self.bits.has(Bits::ACCECN) {
            self.take_greeting(cx, seg);
        }
        if self.bits.has(Bits::EARLY) {
            // It may acknowledge data too, which the check goes on with.
            self.prove(cx);
            return Ok(());
        }
        self.syn_acknowledged(cx, seg);
        if !seg.flags.has(Flags::SYN) {
            self.update_send_window(cx.config, seg, 0);
        } else if let Some(ts) = seg.options.timestamps.filter(|_| self.bits.has(Bits::TIMESTAMPS)) {
            // The SYN-ACK of a simultaneous open. Its window is unscaled, its timestamp the latest (RFC 7323, section
            // 4.3).
            self.rcv.note_timestamp(ts.val);
        }
        self.release_text(cx);
        Ok(())
    }

    /// Is our SYN, or SYN-ACK, acknowledged, and nothing that we did not send?
    pub(crate) fn acknowledges_syn(&self, seg: &Segment<'_>) -> bool {
        let first = self.syn_seq();
        let acked = seg.ack.offset_from(first);
        acked > 0 && acked <= self.snd.nxt().offset_from(first)
    }

    /// Returns true if the answer to our SYN echoes a timestamp that one of our SYNs carried, or none at all.
    fn echoes_syn(&self, cx: &Cx<'_>, seg: &Segment<'_>) -> bool {
        let echo = seg.options.timestamps.map_or(0, |ts| ts.ecr);
        let is_young = |clock: Clock| {
            let age = clock.value(cx.now, self.snd.ts_offset()).wrapping_sub(echo);
            age / (1_000 / clock.tick_us()) <= self.opening_ms(cx)
        };
        match echo {
            0 => true,
            _ if self.bits.has(Bits::MILLIS) => is_young(Clock::Millis),
            _ if self.bits.has(Bits::MICROS) => is_young(Clock::Micros),
            _ => true,
        }
    }

    /// `<SEQ=SEG.ACK><CTL=RST>` (RFC 9293, section 3.10.7): the connection itself goes on.
    pub(crate) fn answer_with_reset(&mut self, seg: &Segment<'_>) {
        self.request_reset_at(seg.ack);
    }
}
