//! Fifth check: the acknowledgment.

use base::{Duration, Seq};
use cc::{AckSample, Controller};
use wire::tcp::{Flags, Segment};

use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::input::WRITER;
use crate::input::{Cause, Check};
use crate::recovery::scoreboard::{DUP_THRESH, Sacked};
use crate::scale::Clock;
use crate::state::Phase;
use crate::{Cx, DropReason, Events, State};

/// From here on a sample by timestamps, which count milliseconds, is precise enough for a policy.
const COARSE_RTT: Duration = Duration::from_millis(10);

impl Connection {
    /// RFC 9293, MAY-12; RFC 5961, 5.2-1.
    pub(crate) fn check_ack(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) -> Check {
        if !seg.flags.has(Flags::ACK) {
            return Err(self.refuse_without_ack(cx, seg));
        }
        let mut proves = false;
        if self.state() == State::SynReceived {
            proves = self.is_early();
            self.check_handshake_ack(cx, seg)?;
            if !proves {
                return Ok(());
            }
        }
        if self.bits.has(Bits::PROBED) && seg.ack == self.snd.nxt() + 1 && self.has_unsent() {
            // The zero-window probe's byte was taken.
            self.probe_taken();
            if seg.window > 0 {
                self.end_window_probes(cx.config);
            }
        }
        // RFC 5961, section 5.2: what was never sent, or was acknowledged more than a window ago, is
        // challenged.
        let ahead = seg.ack.distance_from(self.snd.una());
        if seg.ack.after(self.snd.nxt()) || i64::from(ahead) < -i64::from(self.snd.largest_window()) {
            cx.counters.bad_acks += 1;
            self.challenge(cx, Cause::Ack);
            return Err(DropReason::BadAck);
        }
        if ahead >= 0 {
            self.process_ack(cx, seg, ahead as u32, proves);
        } else if self.recovery.is_active() && self.bits.has(Bits::SACK) {
            self.take_late_sack(cx, seg);
        }
        Ok(())
    }

    /// A segment without ACK is dropped. What the sequence check let through although it ends at RCV.NXT is old, and
    /// answered while the handshake lasts (RFC 9293, section 3.10.7.4): the peer may have missed the SYN-ACK.
    #[cold]
    fn refuse_without_ack(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) -> DropReason {
        let old = seg.seq.before(self.rcv.nxt()) && (seg.seq + seg.seq_len()).at_or_before(self.rcv.nxt());
        if old && self.state() == State::SynReceived {
            self.answer_unacceptable(cx, seg);
        }
        DropReason::NoAck
    }

    /// An acknowledgment that was overtaken: what it SACKs above SND.UNA arrived all the same.
    /// RFC 2018, 5-1.
    #[cold]
    fn take_late_sack(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) {
        let (una, before) = (self.snd.una(), self.sacked());
        let mut all = Sacked::default();
        let blocks = self.marked_blocks(cx, una, seg.options.sack.as_slice());
        for &(left, right) in blocks.as_slice() {
            // Each for itself, and from SND.UNA on: what was no duplicate when this left is none now.
            if right.after(una) && left.before(right) {
                let sacked = self.mark_sacked(una, &[(left.later(una), right)]);
                all.newly += sacked.newly;
                all.lowest = all.lowest.into_iter().chain(sacked.lowest).reduce(Seq::earlier);
            }
        }
        if all.newly > 0 {
            self.note_delivered(cx, seg, &all, blocks.as_slice(), None);
            self.count_list_steps(cx);
            self.learn_from_board(cx, &all, before, 0);
        }
    }

    /// An acknowledgment of SND.UNA + `acked`, in the range of what is in flight; the first one of a handshake with
    /// Fast Open `proves` that the client is there, and is no duplicate.
    /// RFC 9293, MUST-37 and SHLD-17.
    fn process_ack(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>, acked: u32, proves: bool) {
        let fin = acked > self.snd.queued();
        let amiss = self.recovery.is_active() || self.snd.duplicates() > 0 || !seg.options.sack.is_empty();
        if acked > 0 && !amiss && !self.bits.has(Bits::ECN | Bits::ACCECN | Bits::PROBING) {
            self.update_send_window(cx.config, seg, acked);
            self.advance(cx, seg, acked);
            if fin {
                self.on_fin_acknowledged(cx);
            }
            return;
        }
        let in_flight = self.pipe();
        let before = self.sacked();
        let told = if self.bits.has(Bits::SACK) { 0 } else { u32::from(self.snd.duplicates()) };
        let duplicates = told * u32::from(self.snd.mss());
        // SND.WL1's test keeps old windows out; what acknowledges more is newer whatever its number, and left
        // aside it would carry the right edge along with SND.UNA.
        let newer = acked > 0 || self.snd.is_newer(seg.seq);
        let later = self.snd.is_later(seg.seq);
        let window_changed = newer && self.update_send_window(cx.config, seg, acked);
        if self.bits.has(Bits::ECN) {
            self.take_classic(cx, seg, acked);
        }
        let sacked = self.take_sack(cx, seg, window_changed || later);
        if self.bits.has(Bits::ACCECN) {
            self.take_accurate(cx, seg, acked, sacked.newly);
        }
        // Data, or another window, says nothing of what was sent again.
        let answers = acked > 0 || sacked.newly > 0 || seg.seq_len() == 0 && !window_changed;
        let needless = self.recovery.is_active() && answers && self.test_timeout(seg.ack, &sacked);
        if acked > 0 {
            let rtt = self.retire(cx, seg, acked);
            self.recovery_progress(cx, seg, acked, needless);
            // What was SACKED before, or told of by duplicates, let nothing grow then, and does not now: it left the
            // network long ago.
            let now = self.sacked();
            let fresh = (acked + now).saturating_sub(before.max(duplicates.min(acked - 1)));
            self.inform_policy(cx, seg, fresh, sacked.newly, in_flight, rtt);
            self.settle_timer(cx);
        } else if needless {
            self.undo(cx);
        } else if sacked.newly > 0 {
            // RFC 6675, section 2, calls this a duplicate: it tells of a hole.
            cx.counters.duplicate_acks_in += 1;
            self.snd.count_duplicate();
            let fresh = if self.grows_reordered(cx) { sacked.newly } else { 0 };
            self.inform_policy(cx, seg, fresh, sacked.newly, in_flight, None);
        } else if self.snd.flight() == 0 || self.snd.window() == 0 {
            // The answer to a probe: the peer lives, and its window may stay shut as long as it likes (RFC
            // 9293, section 3.8.6.1), also one that shut after what is in flight had left.
            self.timers.answered();
            if self.snd.flight() == 0 && self.snd.window() == 0 && self.timers.is_rtx_armed() {
                // It tells what a probe would ask for.
                self.arm_rtx(cx);
            }
        } else if seg.seq_len() == 0 && !window_changed && !self.bits.has(Bits::SACK) && !proves {
            self.on_duplicate_ack(cx);
        }
        if seg.flags.has(Flags::ECE) && self.bits.has(Bits::ECN) {
            self.count_marked((acked + self.sacked()).saturating_sub(before));
        }
        if self.recovery.is_active() {
            self.learn_from_board(cx, &sacked, before, acked);
        }
        if fin {
            self.on_fin_acknowledged(cx);
        }
    }

    /// An acknowledgment of `acked` bytes, or FIN, while nothing is missing and nothing suspected.
    #[inline(always)]
    pub(crate) fn advance(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>, acked: u32) {
        let in_flight = self.snd.flight();
        let rtt = self.retire(cx, seg, acked);
        self.inform_policy(cx, seg, acked, 0, in_flight, rtt);
        self.settle_timer(cx);
    }

    /// May the window grow for what arrived out of order?
    fn grows_reordered(&self, cx: &Cx<'_>) -> bool {
        cx.config.quirks.grow_reordered && u32::from(self.reordering().degree) > DUP_THRESH
    }

    /// Updates the recovery under way by an acknowledgment: `before` bytes were SACKed when it came.
    fn learn_from_board(&mut self, cx: &mut Cx<'_>, sacked: &Sacked, before: u32, acked: u32) {
        if let Some(report) = sacked.dsack {
            self.on_duplicate_reported(cx, report);
        }
        let now = self.sacked();
        let delivered = (acked + now).saturating_sub(before);
        if delivered > 0 {
            self.go_on_repairing(cx, delivered, acked > 0);
        }
        self.tidy_loss();
    }

    /// The blocks of a SACK option (RFC 2018, section 5), and what they say about deliveries.
    fn take_sack(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>, is_news: bool) -> Sacked {
        let blocks = seg.options.sack.as_slice();
        if !self.bits.has(Bits::SACK) {
            return Sacked::default();
        }
        let mut sacked = Sacked::default();
        let mut marked = Blocks::default();
        let filled = self.recovery.first_original(self.snd.una(), seg.ack);
        if !blocks.is_empty() {
            cx.counters.sack_blocks_in += blocks.len() as u64;
            let una = seg.ack.later(self.snd.una());
            marked = self.marked_blocks(cx, una, blocks);
            sacked = self.mark_sacked(una, marked.as_slice());
            if sacked.newly > 0 {
                if self.bits.has(Bits::PROBING_MTU) {
                    self.look_for_mtu_probe(cx);
                }
                self.request(Due::DATA);
            }
        }
        if let Some(report) = sacked.dsack {
            self.count_duplicate(cx, report);
            if self.take_probe_report(report) {
                sacked.dsack = None;
            }
        }
        if self.bits.has(Bits::PROBING) {
            self.settle_probe(cx, seg, is_news);
        }
        if self.recovery.is_active() {
            self.note_delivered(cx, seg, &sacked, marked.as_slice(), filled);
            self.count_list_steps(cx);
        }
        sacked
    }

    fn count_list_steps(&mut self, cx: &mut Cx<'_>) {
        cx.counters.list_steps += self.recovery.take_steps();
    }

    /// Returns the part of the blocks that counts: whole segments, where it is known where they were cut. An honest
    /// receiver holds whole segments. One that SACKs every other byte would have the gaps sent again byte by byte,
    /// and each SACK looked for in thousands of runs (CVE-2019-11478). Where segments of several sizes are in
    /// flight, the scoreboard bounds the runs.
    fn marked_blocks(&self, cx: &Cx<'_>, una: Seq, blocks: &[(Seq, Seq)]) -> Blocks {
        let (nxt, mss) = (self.snd.nxt(), u32::from(self.snd.mss()));
        let mut marked = Blocks::default();
        let uneven = self.cold().is_some_and(|cold| cold.sizes.is_uneven_behind(una));
        let even = !self.bits.has(Bits::SEARCHING) && self.phase() != Phase::Resegment && !uneven;
        // Full segments, all of one size, end where SND.NXT does, or before the FIN.
        let full = self.snd.is_full_from(una) && even;
        let end = nxt - u32::from(self.snd.fin_in_flight());
        for (to, &block) in marked.blocks.iter_mut().zip(blocks) {
            *to = if cx.config.whole_sacks && full {
                whole_segments(una, [end, nxt], mss, block)
            } else {
                block
            };
            marked.len += 1;
        }
        marked
    }

    /// Takes `acked` bytes off the front of the flight.
    /// RFC 2018, 5-3.
    #[inline(always)]
    pub(crate) fn retire(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>, acked: u32) -> Option<Duration> {
        cx.counters.acks_in += 1;
        let (data, left) = self.snd.acknowledge(cx.pool, acked, self.recovery.cursors());
        let rtt = self.measure_rtt(cx, seg, left);
        if self.bits.has(Bits::PROBING)
            && !self.bits.has(Bits::PROBE_RESENT)
            && self.snd.una().at_or_after(self.probe_end())
        {
            self.end_tail_probe();
        }
        self.counts.acknowledged(data);
        if self.snd.queued() == 0 && data > 0 {
            self.note_busy(self.rcv.last_ms(), false);
        }
        if self
            .bits
            .has(Bits::MARKED | Bits::MORE | Bits::WINDOW_STARVED | Bits::BUFFER_STARVED | Bits::PROBING_MTU)
        {
            self.on_progress(cx);
        }
        self.timers.answered();
        if !self.recovery.is_active() {
            self.snd.forget_duplicates();
        }
        if self.bits.has(Bits::NO_SPACE) {
            self.offer_space(cx);
        }
        if self.has_unsent() || self.recovery.is_active() {
            self.request(Due::DATA);
        }
        rtt
    }

    /// Updates the marks of the application's writes by an acknowledgment.
    #[cold]
    fn on_progress(&mut self, cx: &mut Cx<'_>) {
        self.release_held();
        if self.bits.has(Bits::PROBING_MTU) {
            self.look_for_mtu_probe(cx);
        }
        if self.bits.has(Bits::MARKED) {
            self.on_marked_acknowledged(cx);
        }
        if self.snd.queued() == 0 {
            self.stop_watches(cx);
        }
    }

    /// One sample a round trip by our own clock: what `left` the latest of all that is acknowledged here, unless it
    /// left twice ([`Connection::stop_timing`]). During a repair by the timestamp echo, which tells retransmissions
    /// apart (RFC 7323, section 4.1). What the policy gets: that of every acknowledgment.
    /// RFC 6298, 3-1 and 3-2.
    #[inline(always)]
    pub(crate) fn measure_rtt(
        &mut self,
        cx: &mut Cx<'_>,
        seg: &Segment<'_>,
        left: Option<u32>,
    ) -> Option<Duration> {
        if let Some(left) = left.filter(|_| self.snd.is_timed(seg.ack) || !self.recovery.is_active()) {
            let micros = (cx.now.as_micros() as u32).wrapping_sub(left);
            if self.snd.is_timed(seg.ack) {
                self.snd.stop_timing();
                self.timers.sample(micros, cx.now);
                if cx.probe.is_some() {
                    self.show_round_trip(cx, Duration::from_micros(micros.into()));
                }
                self.refresh_rto(cx.config);
                self.heed_round_trip(cx);
            }
            return Some(Duration::from_micros(micros.into()));
        }
        if self.bits.has(Bits::MILLIS) {
            self.measure_by_echo(Clock::Millis, cx, seg)
        } else {
            self.measure_by_other_echo(cx, seg)
        }
    }

    #[cold]
    fn measure_by_other_echo(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) -> Option<Duration> {
        if self.bits.has(Bits::MICROS) { self.measure_by_echo(Clock::Micros, cx, seg) } else { None }
    }

    /// RFC 7323, 4.1-1.
    #[inline(always)]
    fn measure_by_echo(&mut self, clock: Clock, cx: &mut Cx<'_>, seg: &Segment<'_>) -> Option<Duration> {
        let echo = seg.options.timestamps.map_or(0, |ts| ts.ecr);
        let ticks = clock.value(cx.now, self.snd.ts_offset()).wrapping_sub(echo);
        if echo == 0 || ticks > clock.echo_limit() {
            return None;
        }
        let rtt = Duration::from_micros(u64::from(ticks.max(1)) * u64::from(clock.tick_us()));
        if self.timers.backoff() > 0 || self.recovery.is_active() || !self.timers.rtt().is_measured() {
            // Nothing is timed during a repair; there is one sample for about every two segments then.
            let samples = self.snd.flight() / (2 * u32::from(self.snd.mss()));
            self.timers.sample_of(rtt, samples, cx.now);
            if cx.probe.is_some() {
                self.show_round_trip(cx, rtt);
            }
            self.refresh_rto(cx.config);
            self.heed_round_trip(cx);
        }
        (rtt >= COARSE_RTT || clock == Clock::Micros).then_some(rtt)
    }

    /// RFC 3168, 6.1.2-5.
    #[inline(always)]
    pub(crate) fn inform_policy(
        &mut self,
        cx: &Cx<'_>,
        seg: &Segment<'_>,
        acked: u32,
        sacked: u32,
        in_flight: u32,
        rtt: Option<Duration>,
    ) {
        let window = self.control.window();
        // In slow start the window may double, so half of it in use in this round trip is enough (RFC 7661, section
        // 4.2).
        let most = in_flight.max(self.snd.round_flight());
        let used = window.cwnd < window.ssthresh && most > window.cwnd / 2;
        let limited = used || self.bits.has(Bits::CWND_LIMITED);
        if !limited && !self.bits.has(Bits::SAMPLED) && self.control.on_unlimited(cx.now) {
            return;
        }
        let sample = AckSample {
            now: cx.now,
            bytes: acked,
            sacked,
            segments: seg.merged.max(1),
            in_flight,
            rtt,
            srtt: self.timers.rtt().srtt(),
            min_rtt: self.timers.rtt().min_rtt(),
            rate: None,
            window_limited: limited,
            in_recovery: matches!(self.phase(), Phase::Fast | Phase::Reduced),
            paced: self.bits.has(Bits::PACED | Bits::AUTOSIZED),
            hystart: &cx.config.hystart_limits,
        };
        if self.bits.has(Bits::SAMPLED) {
            return self.inform_of_rate(cx, &sample);
        }
        self.control.on_ack(&sample);
    }

    /// RFC 6298, rules 5.2 and 5.3.
    #[inline(always)]
    pub(crate) fn settle_timer(&mut self, cx: &Cx<'_>) {
        if self.snd.flight() == 0 {
            self.timers.stop_rtx();
        } else if !self.recovery.is_active() || self.restarts_timer(cx.config) {
            self.start_rtx(cx);
        } else {
            self.note_progress(cx);
        }
    }

    fn on_fin_acknowledged(&mut self, cx: &mut Cx<'_>) {
        self.raise(Events::DRAINED);
        match self.state() {
            State::FinWait1 => {
                self.set_state(cx, State::FinWait2);
                if self.bits.has(Bits::ORPHAN) {
                    self.await_fin(cx);
                }
            }
            State::Closing => self.enter_time_wait(cx),
            State::LastAck => self.finish(cx),
            _ => {}
        }
    }

    /// The connection is over; what is left of it is [`crate::TimeWait`]. A pending acknowledgment still
    /// leaves.
    /// RFC 9293, MUST-13.
    pub(crate) fn enter_time_wait(&mut self, cx: &mut Cx<'_>) {
        cx.counters.time_waits += 1;
        self.bits.set(Bits::TIME_WAIT, WRITER);
        let owed = self.is_due(Due::ACK);
        self.finish(cx);
        if owed {
            self.request_only(Due::ACK);
        }
    }
}

/// The blocks of an acknowledgment, as far as they count.
#[derive(Clone, Copy)]
struct Blocks {
    blocks: [(Seq, Seq); 4],
    len: usize,
}

impl Default for Blocks {
    fn default() -> Self {
        Blocks { blocks: [(Seq::new(0), Seq::new(0)); 4], len: 0 }
    }
}

impl Blocks {
    fn as_slice(&self) -> &[(Seq, Seq)] {
        &self.blocks[..self.len]
    }
}

/// Returns the part of a SACK block above `una` that covers whole segments of `mss` bytes, of which the last ends
/// at `end`: perhaps nothing. A FIN that lies between `end` and `nxt` counts if the block holds it.
fn whole_segments(una: Seq, [end, nxt]: [Seq; 2], mss: u32, (left, right): (Seq, Seq)) -> (Seq, Seq) {
    let fin_alone = left.at_or_after(end);
    if right.at_or_before(una) || right.after(nxt) || left.at_or_after(right) || fin_alone {
        return (left, right);
    }
    let fin = u32::from(right.after(end));
    let (left, right) = (end.offset_from(left.later(una)), end.offset_from(right.earlier(end)));
    let (left, right) = (left / mss * mss, right.next_multiple_of(mss));
    if right < left { (end - left, end - right + fin) } else { (una, una) }
}
