//! Output of a connection, in order of urgency.

mod data;
mod opening;
mod segment;

pub use opening::Opening;

use base::Seq;
use wire::tcp::{Flags, Options};

use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::transmit::TxPlan;
use crate::{Cx, State, Transmit, TransmitClass, TxLimits};

crate::bits::writer!(CWND_LIMITED, INTERACTIVE, PUSHED, PROBED, FORCE, FLUSH, LONE_FIN, CHALLENGED, OPENING);

impl Connection {
    /// Is it worth asking [`Connection::poll_transmit`]?
    #[inline]
    pub fn wants_to_transmit(&self) -> bool {
        !self.due().is_empty()
    }

    /// The next segment to send, if any. It counts as sent: the caller has a frame for it.
    #[inline]
    pub fn poll_transmit(&mut self, cx: &mut Cx<'_>, limits: &TxLimits) -> Option<Transmit> {
        let next = self.next_segment(cx, limits);
        if cx.probe.is_some()
            && let Some(tx) = &next
        {
            self.show_outbound(cx, tx);
        }
        next
    }

    fn next_segment(&mut self, cx: &mut Cx<'_>, limits: &TxLimits) -> Option<Transmit> {
        if !self.wants_to_transmit() {
            return None;
        }
        let plan = self.plan(cx, limits)?;
        cx.counters.segments_out += 1;
        self.counts.sent(1);
        // Mostly the timestamps are all there is to tell. Such a segment is written straight to where it is
        // returned: it is too large to be moved for every one.
        let usual = !plan.flags.has(Flags::SYN) && !self.bits.has(Bits::OWN_HEADER);
        if !usual || self.rcv.is_missing() {
            return Some(self.build_fully(cx, &plan));
        }
        let options = Options { timestamps: self.stamps(cx, plan.flags), ..Options::NONE };
        Some(self.build(cx, &plan, options))
    }

    /// With whatever options and marks.
    #[inline(never)]
    fn build_fully(&mut self, cx: &mut Cx<'_>, plan: &TxPlan) -> Transmit {
        if self.bits.has(Bits::REPEATS_FIN | Bits::TELLS_ALL) {
            return self.build_as_others_do(cx, plan);
        }
        let window = self.window_field::<false>(cx, plan.flags);
        self.build_marked(cx, plan, window)
    }

    #[inline(always)]
    fn build_marked(&mut self, cx: &mut Cx<'_>, plan: &TxPlan, window: u16) -> Transmit {
        let options = self.header_options(cx, plan);
        let mut tx = self.build_with(plan, options, window);
        if self.bits.has(Bits::ECN | Bits::ACCECN) {
            self.mark(cx, plan, &mut tx);
        }
        tx
    }

    /// As the systems do that repeat a FIN or tell all the room there is.
    #[cold]
    #[inline(never)]
    fn build_as_others_do(&mut self, cx: &mut Cx<'_>, plan: &TxPlan) -> Transmit {
        let plan = if self.bits.has(Bits::REPEATS_FIN) { self.with_fin_again(*plan) } else { *plan };
        let window = match self.bits.has(Bits::TELLS_ALL) {
            true => self.window_field::<true>(cx, plan.flags),
            false => self.window_field::<false>(cx, plan.flags),
        };
        self.build_marked(cx, &plan, window)
    }

    fn plan(&mut self, cx: &mut Cx<'_>, limits: &TxLimits) -> Option<TxPlan> {
        if self.is_due(Due::FIRST) {
            return Some(self.plan_first(cx));
        }
        if self.is_due(Due::TAIL_PROBE) {
            self.clear_due(Due::TAIL_PROBE);
            if let Some(plan) = self.plan_tail_probe(cx) {
                return Some(plan);
            }
        }
        if self.is_due(Due::DATA) {
            if let Some(plan) = self.plan_data(cx, limits) {
                return Some(plan);
            }
            self.clear_due(Due::DATA);
            self.recovery.on_occasion();
            if self.bits.has(Bits::NO_SPACE) {
                self.offer_space_now(cx);
            }
        }
        if self.is_due(Due::PROBE) {
            self.clear_due(Due::PROBE);
            if let Some(plan) = self.plan_window_probe(cx) {
                return Some(plan);
            }
        }
        if self.is_due(Due::KEEPALIVE) {
            self.clear_due(Due::KEEPALIVE);
            cx.counters.keepalive_probes += 1;
            // One byte below SND.UNA and no data: old, so the peer must answer (RFC 9293, SHLD-12).
            return Some(TxPlan::bare(self.snd.una() - 1, Flags::ACK, TransmitClass::Ack));
        }
        if self.is_due(Due::ACK) {
            cx.counters.pure_acks_out += 1;
            return Some(TxPlan::bare(self.bare_seq(), Flags::ACK, TransmitClass::Ack));
        }
        None
    }

    /// As BSD's acknowledgments are: one that is no challenge carries a FIN that is under way.
    #[cold]
    fn with_fin_again(&mut self, plan: TxPlan) -> TxPlan {
        if plan.flags != Flags::ACK || plan.len > 0 || plan.seq != self.snd.nxt() {
            return plan;
        }
        let challenge = self.bits.has(Bits::CHALLENGED);
        self.bits.clear(Bits::CHALLENGED, WRITER);
        if challenge || !self.may_send() || !self.snd.fin_in_flight() {
            return plan;
        }
        self.snd.stop_timing();
        let again = TxPlan::bare(self.snd.nxt() - 1, Flags::FIN | Flags::ACK, TransmitClass::Control);
        TxPlan { retransmit: true, ..again }
    }

    /// An acknowledgment is to be sent that is a challenge.
    pub(crate) fn request_challenge(&mut self) {
        self.bits.put(Bits::CHALLENGED, self.bits.has(Bits::REPEATS_FIN), WRITER);
        self.request(Due::ACK);
    }

    #[inline]
    fn plan_first(&mut self, cx: &mut Cx<'_>) -> TxPlan {
        if self.is_due(Due::RST) {
            return self.plan_reset(cx);
        }
        if self.is_due(Due::SYN) {
            return self.plan_syn(cx);
        }
        self.clear_due(Due::GREETING);
        cx.counters.pure_acks_out += 1;
        TxPlan { tells: false, ..TxPlan::bare(self.bare_seq(), Flags::ACK, TransmitClass::Ack) }
    }

    fn plan_reset(&mut self, cx: &mut Cx<'_>) -> TxPlan {
        self.clear_due(Due::RST);
        cx.counters.resets_out += 1;
        if let Some(seq) = self.take_reset_seq() {
            return TxPlan::bare(seq, Flags::RST, TransmitClass::Control);
        }
        TxPlan::bare(self.bare_seq(), Flags::RST | Flags::ACK, TransmitClass::Control)
    }

    /// Returns the sequence number of a segment without data: SND.NXT, or the peer's right edge where the peer took
    /// back a window that was filled. Beyond that edge the peer would drop it, and the acknowledgment that it carries.
    /// RFC 9293, MUST-34.
    #[inline(always)]
    pub(crate) fn bare_seq(&self) -> Seq {
        if self.snd.flight() <= self.snd.window() { self.snd.nxt() } else { self.seq_at_edge() }
    }

    #[cold]
    #[inline(never)]
    fn seq_at_edge(&self) -> Seq {
        // A window field is rounded down to its unit. By less than that the edge moves without having been taken back
        // (RFC 7323, section 2.4).
        let beyond = self.snd.flight().saturating_sub(self.snd.window());
        let offered = self.snd.largest_window() > 0;
        if offered && beyond >> self.snd.scale() > 0 {
            self.snd.una() + self.snd.window()
        } else {
            self.snd.nxt()
        }
    }

    fn plan_syn(&mut self, cx: &mut Cx<'_>) -> TxPlan {
        self.clear_due(Due::SYN);
        let early = self.bits.has(Bits::EARLY);
        let retransmit = if early { self.counts.segments_out() > 0 } else { self.snd.flight() > 0 };
        let passive = self.state() != State::SynSent;
        let mut data = 0;
        if retransmit {
            cx.counters.syn_retransmits += 1;
            self.counts.retransmitted();
            self.snd.stop_timing();
        } else if !early {
            data = self.snd.queued();
            cx.counters.bytes_out += u64::from(data);
            self.snd.transmitted_syn(data);
            self.timers.note_opening(cx.now);
            self.snd.note_tx_time(cx.pool.tx_times_mut(), cx.now);
            if self.bits.has(Bits::MARKED) {
                self.on_marked_transmit(cx, self.snd.una());
            }
        }
        if self.bits.has(Bits::COOKIE) || early {
            self.note_syn(cx, retransmit);
        }
        if !self.timers.is_rtx_armed() {
            self.start_rtx(cx);
        }
        let flags = if passive { Flags::SYN | Flags::ACK } else { Flags::SYN };
        let flags = flags | self.ecn_setup();
        let bare = TxPlan::bare(self.syn_seq(), flags, TransmitClass::Control);
        TxPlan { retransmit, len: data, mss: data as u16, ..bare }
    }
}
