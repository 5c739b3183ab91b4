//! The tail loss probe (RFC 8985, section 7): when the end of a flight stays unacknowledged, one segment is sent
//! well before the retransmission timeout. What it brings back shows losses to RACK that nothing else would.

use base::Seq;
use cc::{Controller, Signal};
use wire::tcp::Segment;

use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::recovery::WRITER;
use crate::state::Phase;
use crate::timers::Tick;
use crate::transmit::{SeqRange, TxPlan};
use crate::{Config, Cx};

/// Lateness allowed for timers, microseconds: added to two round trips, so that the probe does not race the
/// acknowledgment.
const SLACK_US: u32 = 2_000;
/// How long a peer may delay an acknowledgment (WCDelAckT of RFC 8985, section 7.2), microseconds.
const DELAYED_ACK_US: u32 = 200_000;
/// Beyond this retransmission timeout there are no probes: it was doubled so often that the round trip is unknown.
const LONGEST_RTO_US: u32 = Tick::REACH.as_micros() as u32;

impl Connection {
    /// May the timer now being armed be a probe's? Only where nothing is missing, as far as is known, and once per
    /// flight; a mark that reduced the window is no loss.
    /// RFC 8985, 4-1, 7.3-1 and 7.3-2.
    #[inline(always)]
    pub(crate) fn may_probe(&self) -> bool {
        const BOTH: Bits = Bits::SACK.or(Bits::PROBING);
        self.snd.flight() > 0
            && self.bits.raw() & BOTH.raw() == Bits::SACK.raw()
            && self.recovery.loss.as_ref().is_none_or(|loss| !loss.phase.repairs() && loss.board.is_empty())
    }

    /// PTO of RFC 8985, section 7.2, microseconds. The acknowledgment of a single segment may be delayed. Where the
    /// retransmission timeout comes first, the probe leaves then.
    /// RFC 8985, 7.2-1.
    #[inline(always)]
    pub(crate) fn probe_wait(&self, config: &Config) -> Option<u32> {
        if !config.tail_loss_probe || !self.may_probe() || self.timers.rto_us() > LONGEST_RTO_US {
            return None;
        }
        let srtt = self.timers.rtt().srtt_micros()?;
        // A FIN takes no room in the segment of the last data.
        let data = self.snd.data_in(self.snd.flight());
        let single = data <= u32::from(self.snd.mss()) && !self.has_several();
        let slack = if single { DELAYED_ACK_US } else { SLACK_US };
        Some(srtt.saturating_mul(2).saturating_add(slack))
    }

    /// Is less than a full segment in flight known to be several: data and a FIN of its own, or what left at several
    /// times?
    #[cold]
    fn has_several(&self) -> bool {
        (self.bits.has(Bits::LONE_FIN) && self.snd.flight() > 1 && self.snd.fin_in_flight())
            || self.snd.sent().has_several()
    }

    /// It is known what became of the probe, or it does not matter any more.
    #[inline(always)]
    pub(crate) fn end_tail_probe(&mut self) {
        self.bits.clear(Bits::PROBING, WRITER);
    }

    /// The probe timeout: a probe leaves, and the retransmission timer starts again (section 7.3).
    /// RFC 8985, 7.3-4.
    pub(crate) fn on_probe_due(&mut self, cx: &mut Cx<'_>) {
        self.bits.set(Bits::PROBING, WRITER);
        self.request(Due::TAIL_PROBE);
        self.arm_rtx(cx);
    }

    /// Returns true if there is something to probe with that the peer's window takes.
    pub(crate) fn has_probe(&self) -> bool {
        self.state().may_send() && (self.new_probe() > 0 || self.last_segment().is_some())
    }

    /// Returns the number of bytes never sent of which a probe may consist.
    fn new_probe(&self) -> u32 {
        let mss = u32::from(self.snd.mss() - self.blocks_len());
        let len = self.snd.unsent().min(mss);
        // A part of a segment would be a silly one (RFC 9293, section 3.8.6.2.1).
        let len = if len <= self.snd.usable_window() { len } else { 0 };
        if self.bits.has(Bits::MARKED) { self.within_record(self.snd.nxt(), len) } else { len }
    }

    /// Plans the probe: new data if there is any and the peer's window takes it, otherwise the last segment again
    /// (section 7.3). `None` if the window has shrunk meanwhile.
    /// RFC 8985, 7.3-3 and 7.3-6.
    #[cold]
    pub(crate) fn plan_tail_probe(&mut self, cx: &mut Cx<'_>) -> Option<TxPlan> {
        let possible = self.bits.has(Bits::PROBING) && self.snd.flight() > 0 && self.has_probe();
        if !possible {
            self.bits.clear(Bits::PROBING, WRITER);
            return None;
        }
        cx.counters.tail_probes += 1;
        let len = self.new_probe();
        self.bits.put(Bits::PROBE_RESENT, len == 0, WRITER);
        let plan = if len > 0 {
            let mss = u32::from(self.snd.mss() - self.blocks_len());
            self.plan_fresh(cx, SeqRange { seq: self.snd.nxt(), len, fin: false }, mss)
        } else {
            let range = self.last_segment()?;
            self.resent(cx, range);
            self.plan_old(cx, range)
        };
        self.cold_mut().recovery.probe_end = self.snd.nxt();
        Some(plan)
    }

    /// The last segment in flight, as it was cut.
    fn last_segment(&self) -> Option<SeqRange> {
        let (flight, mss) = (self.snd.flight(), u32::from(self.snd.mss()));
        let fin = self.snd.fin_in_flight();
        let mut data = flight - u32::from(fin);
        if self.bits.has(Bits::MARKED) {
            let end = self.snd.una() + data;
            data = end.offset_from(self.record_start(end));
        }
        let alone = data == 0 || self.bits.has(Bits::LONE_FIN);
        let len = if alone { 0 } else { (data - 1) % mss + 1 };
        let seq = self.snd.nxt() - len - u32::from(fin);
        let room = self.snd.window().saturating_sub(seq.offset_from(self.snd.una()));
        (room >= len && (len > 0 || fin)).then_some(SeqRange { seq, len, fin })
    }

    /// Where the flight ended when the probe had left (TLP.end_seq).
    pub(crate) fn probe_end(&self) -> Seq {
        self.cold().map_or(self.snd.una(), |cold| cold.recovery.probe_end)
    }

    /// An acknowledgment while a probe is out, before SND.UNA moves (section 7.4.2): is the flight's end known to
    /// have arrived, and did only the probe bring it there? An acknowledgment that brings news, of the window or of
    /// what the peer has sent since, is no answer to the probe alone.
    /// RFC 8985, 7.4-1.
    pub(crate) fn settle_probe(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>, is_news: bool) {
        let end = self.probe_end();
        if seg.ack.before(end) {
            return;
        }
        if !self.bits.has(Bits::PROBE_RESENT) {
            return self.bits.clear(Bits::PROBING, WRITER);
        }
        let again = seg.ack == self.snd.una() && seg.seq_len() == 0 && seg.options.sack.is_empty();
        if again && !is_news {
            // A duplicate (RFC 5681, section 2).
            self.bits.clear(Bits::PROBING, WRITER);
        } else if seg.ack.after(end) {
            self.bits.clear(Bits::PROBING, WRITER);
            self.on_probe_repaired(cx);
        }
    }

    /// Takes a report of a duplicate if it tells of the probe: true if it does. The flight's end had arrived before the
    /// probe, and the report tells nothing else: a probe leaves by the clock, not because of reordering or a repair. A
    /// report of more than a segment is not one of the probe alone.
    /// RFC 8985, 7.4-1.
    pub(crate) fn take_probe_report(&mut self, (left, right): (Seq, Seq)) -> bool {
        let is_one = right.offset_from(left) <= u32::from(self.snd.mss());
        let told = self.bits.has(Bits::PROBE_RESENT) && right == self.probe_end() && is_one;
        if told {
            self.bits.clear(Bits::PROBE_RESENT, WRITER);
            self.end_tail_probe();
        }
        told
    }

    /// The probe replaced what was lost: a loss all the same, to which the policy answers.
    fn on_probe_repaired(&mut self, cx: &mut Cx<'_>) {
        cx.counters.tail_probe_recoveries += 1;
        if self.phase() != Phase::Disorder {
            return;
        }
        let (info, una) = (self.signal_info(cx), self.snd.una());
        if let Some(loss) = &mut self.recovery.loss {
            loss.end_judging(una);
        }
        self.tell_congestion(cx, Signal::Loss);
        self.control.on_recovery_end(&info);
    }
}
