//! Repairing what the network lost: fast recovery by SACK, whose losses [`rack`] finds and whose sending [`prr`]
//! meters; by duplicate acknowledgments where there is no SACK (RFC 6582); after a timeout (RFC
//! 5681, RFC 6298); and after a path MTU reduction.
//!
//! ```text
//!  snd_una             resend                lost            recover            snd_nxt
//!     │ retransmitted    │  still to send again │  under way     │  sent later     │
//! ────┴──────────────────┴──────────────────────┴────────────────┴─────────────────┴────
//! ```

mod frto;
mod loss;
mod prr;
mod rack;
pub(crate) mod reordering;
pub(crate) mod resent;
pub(crate) mod retransmission;
pub(crate) mod scoreboard;
mod tail_probe;

pub(crate) use loss::{Learned, Recovery};

use alloc::boxed::Box;

use base::{Instant, Seq};
use cc::{Controller, Signal, SignalInfo};
use wire::tcp::Segment;

use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::recovery::loss::{Frto, Loss};
use crate::recovery::prr::Prr;
use crate::recovery::reordering::{Rack, Reordering};
use crate::recovery::resent::Resent;
use crate::recovery::scoreboard::{DUP_THRESH, Sacked, Scoreboard};
use crate::scale::ts_before;
use crate::state::Phase;
use crate::{Config, Cx, Incident};

crate::bits::writer!(PROBING, PROBE_RESENT);

impl Config {
    /// Returns the most steps that one segment adds to the counter `list_steps`: what its SACKs or its out-of-order
    /// data cost, and what a search for lost retransmissions costs where all that are remembered are lost at once.
    pub fn list_steps_max(&self) -> u64 {
        let board = scoreboard::STEPS_MAX + resent::STEPS_MAX + resent::LOST_STEPS_MAX;
        board + crate::receiver::assembler::steps_max(self.reassembly_runs)
    }
}

impl Connection {
    pub(crate) fn phase(&self) -> Phase {
        self.recovery.phase()
    }

    /// Knowledge of reordering on the path.
    pub(crate) fn reordering(&self) -> Reordering {
        self.cold().map_or(Reordering::new(), |cold| cold.recovery.reordering)
    }

    /// The peer SACKs `blocks`; those below `una` tell of duplicates.
    pub(crate) fn mark_sacked(&mut self, una: Seq, blocks: &[(Seq, Seq)]) -> Sacked {
        let (nxt, mss) = (self.snd.nxt(), self.snd.mss().into());
        self.loss().board.update(una, nxt, mss, blocks)
    }

    /// The policy has reduced without a loss: until what is in flight is acknowledged, sending is metered.
    pub(crate) fn meter(&mut self) {
        let (nxt, flight, target) = (self.snd.nxt(), self.snd.flight(), self.control.window().cwnd);
        let loss = self.loss();
        loss.phase = Phase::Reduced;
        loss.recover = nxt;
        loss.prr = Prr::new(flight - loss.board.sacked(), target, 0);
    }

    fn loss(&mut self) -> &mut Loss {
        let (una, sent) = (self.snd.una(), self.snd.sent());
        self.recovery.loss.get_or_insert_with(|| {
            Box::new(Loss {
                board: Scoreboard::new(),
                phase: Phase::Disorder,
                recover: una - 1,
                resend: una,
                rack: Rack::new(una, sent),
                resent: Resent::default(),
                prr: Prr::new(0, 0, 0),
                frto: Frto::Off,
                again: 0,
                needless: 0,
                marker: una,
                reports_until: None,
                reduced_at: 0,
                inflation: 0,
                first_ts: None,
                judged: false,
                signal: Signal::Loss,
                restarted: false,
                urgent: false,
            })
        })
    }

    /// Bytes that the peer holds beyond a hole.
    pub(crate) fn sacked(&self) -> u32 {
        self.recovery.loss.as_ref().map_or(0, |loss| loss.board.sacked())
    }

    /// Bytes thought to be in the network (RFC 6675's pipe; FlightSize where nothing is amiss).
    /// RFC 6675, 4-1.
    pub(crate) fn pipe(&self) -> u32 {
        let Some(loss) = &self.recovery.loss else { return self.snd.flight() };
        if loss.phase == Phase::Fast && !self.bits.has(Bits::SACK) {
            return self.snd.flight().saturating_sub(loss.inflation);
        }
        // After a timeout an acknowledgment may run ahead of what was sent again, because the peer held the rest.
        let pipe = loss.board.pipe(self.snd.una(), self.snd.nxt(), loss.rack.lost, loss.resend);
        pipe.saturating_sub(loss.resent.lost_bytes())
    }

    /// Bytes in flight that are SACKed, that count as lost, and that were sent again.
    #[cold]
    pub(crate) fn trouble(&self) -> (u32, u32, u32) {
        let Some(loss) = &self.recovery.loss else { return (0, 0, 0) };
        let below = |edge: Seq| match edge.after(self.snd.una()) {
            true => loss.board.unsacked(self.snd.una(), edge),
            false => 0,
        };
        let again = if loss.phase.repairs() { below(loss.resend) } else { 0 };
        (loss.board.sacked(), below(loss.rack.lost), again)
    }

    /// Is what is sent metered by what arrives?
    /// RFC 5681, 4.3-2; RFC 8985, 9.3-2.
    fn is_metered(&self) -> bool {
        match self.phase() {
            Phase::Fast => self.bits.has(Bits::SACK) && !self.control.needs().unmetered,
            Phase::Reduced => !self.control.needs().unmetered,
            _ => false,
        }
    }

    /// While sending is metered: bytes that may be in the network now, which is what PRR calls cwnd.
    /// RFC 9937, 6-5.
    pub(crate) fn metered_window(&self) -> Option<u32> {
        let loss = self.recovery.loss.as_ref().filter(|_| self.is_metered())?;
        Some(self.pipe().saturating_add(loss.prr.space()))
    }

    /// Bytes that the congestion window still lets into the network.
    /// RFC 5681, 3.1-1; RFC 5681, 2-1.
    #[inline(always)]
    pub(crate) fn congestion_room(&self) -> u32 {
        let cwnd = self.control.window().cwnd;
        if self.recovery.loss.is_none() && self.snd.duplicates() == 0 {
            return cwnd.saturating_sub(self.snd.flight());
        }
        self.room_in_trouble(cwnd)
    }

    /// RFC 3042, 2-2; RFC 6675, 5-3; RFC 5681, 3.2-11; RFC 8985, 9.2-1 and 9.3-1.
    #[cold]
    fn room_in_trouble(&self, cwnd: u32) -> u32 {
        let Some(loss) = &self.recovery.loss else {
            return (cwnd + self.limited_transmit()).saturating_sub(self.snd.flight());
        };
        if self.is_metered() {
            return loss.prr.space();
        }
        let extra = if loss.phase == Phase::Disorder { self.limited_transmit() } else { 0 };
        (cwnd + extra).saturating_sub(self.pipe())
    }

    /// `bytes` left, old or new, while a repair is under way.
    /// RFC 9937, 6-5.
    #[cold]
    pub(crate) fn count_repair(&mut self, bytes: u32) {
        if self.is_metered() {
            self.loss().prr.on_sent(bytes);
        }
    }

    /// RFC 3042: the first two duplicate acknowledgments each let one new segment out. With SACK the pipe
    /// shrinks by itself.
    /// RFC 5681, 3.2-4; RFC 3042, 2-1, 2-3 and 2-4; RFC 5681, 3.2-9 and 3.2-10.
    fn limited_transmit(&self) -> u32 {
        if self.snd.duplicates() == 0 || self.bits.has(Bits::SACK) {
            return 0;
        }
        u32::from(self.snd.duplicates().min(2)) * u32::from(self.snd.mss())
    }

    /// Returns the information that accompanies a signal to the policy.
    pub(crate) fn signal_info(&self, cx: &Cx<'_>) -> SignalInfo {
        // A repair under way has taken its share from the window already.
        let whole = cx.config.reduce_from_window && self.phase() != Phase::Fast;
        let cwnd = if whole { self.control.window().cwnd } else { 0 };
        SignalInfo {
            now: cx.now,
            flight_size: self.snd.flight().max(cwnd),
            mss: self.snd.mss().into(),
            metered: self.is_metered(),
            after_mark: self.phase() == Phase::Reduced,
        }
    }

    /// Tells the policy of congestion, and the observer.
    pub(crate) fn tell_congestion(&mut self, cx: &mut Cx<'_>, signal: Signal) {
        let info = self.signal_info(cx);
        self.control.on_congestion(signal, &info);
        self.note(cx, Incident::Congestion(signal));
    }

    /// A duplicate acknowledgment where there is no SACK (RFC 5681, section 3.2; RFC 6582).
    /// RFC 5681, 3.2-3 and 3.2-7; RFC 6582, 3.2-1.
    pub(crate) fn on_duplicate_ack(&mut self, cx: &mut Cx<'_>) {
        cx.counters.duplicate_acks_in += 1;
        self.snd.count_duplicate();
        self.request(Due::DATA);
        match self.phase() {
            Phase::Disorder | Phase::Reduced => {}
            Phase::Fast => {
                let mss = u32::from(self.snd.mss());
                let flight = self.snd.flight();
                let loss = self.loss();
                loss.inflation = (loss.inflation + mss).min(flight);
                return;
            }
            Phase::Timeout | Phase::Resegment => return,
        }
        // RFC 6582, section 3.2, step 1: duplicates of what an earlier repair sent twice are no new loss.
        let repaired =
            |loss: &Loss| loss.phase == Phase::Disorder && self.snd.una().at_or_before(loss.recover);
        let old = self.recovery.loss.as_deref().is_some_and(repaired);
        if !old && u32::from(self.snd.duplicates()) >= DUP_THRESH {
            self.begin_fast_recovery(cx, 0);
        }
    }

    /// An acknowledgment during a repair, or when one may begin: it delivered `delivered` bytes, and moved SND.UNA
    /// if `advanced`.
    /// RFC 8985, 4-1.
    pub(crate) fn go_on_repairing(&mut self, cx: &mut Cx<'_>, delivered: u32, advanced: bool) {
        let mut lost = false;
        if self.bits.has(Bits::SACK) {
            lost = self.find_losses(cx);
            self.enter_fast_recovery_if_due(cx, delivered);
        }
        if !self.is_metered() {
            return;
        }
        let (pipe, mss) = (self.pipe(), u32::from(self.snd.mss()));
        // After a mark nothing is missing: if the pipe is below the target, there was too little to send.
        let catch_up = advanced && !lost && self.phase() == Phase::Fast;
        let window = self.control.window().cwnd;
        let prr = &mut self.loss().prr;
        prr.aim(window);
        prr.on_ack(delivered, pipe, catch_up, mss);
        self.request(Due::DATA);
    }

    /// The reordering timer: what could have been overtaken has had its time (RFC 8985, section 6.2, step 5).
    /// RFC 8985, 6.2-6.
    pub(crate) fn on_reordering_timeout(&mut self, cx: &mut Cx<'_>, deadline: Instant) {
        self.resume_rto(cx, deadline);
        if self.find_losses(cx) {
            cx.counters.reordering_timeouts += 1;
            self.enter_fast_recovery_if_due(cx, 0);
            self.request(Due::DATA);
        }
        if self.timers.is_rtx_due(cx.now) {
            // Late, and nothing is repaired: the timeout is due as well.
            self.on_rto(cx);
        }
    }

    /// RFC 6675, 5-1; RFC 6675, 5.1-3.
    fn enter_fast_recovery_if_due(&mut self, cx: &mut Cx<'_>, delivered: u32) {
        let (una, nxt) = (self.snd.una(), self.snd.nxt());
        let due = self.recovery.loss.as_ref().is_some_and(|loss| {
            let edge = loss.rack.lost.later(una).earlier(nxt);
            // What was sent again, by a probe, is judged as that.
            let is_missing = loss.first_original(una, edge).is_some() || loss.resent.lost_bytes() > 0;
            matches!(loss.phase, Phase::Disorder | Phase::Reduced) && is_missing
        });
        if due {
            self.begin_fast_recovery(cx, delivered);
        }
    }

    /// `delivered`: bytes that the acknowledgment which shows the loss newly delivered.
    /// RFC 5681, 3.2-6; RFC 9937, 6-1.
    fn begin_fast_recovery(&mut self, cx: &mut Cx<'_>, delivered: u32) {
        if self.bits.has(Bits::PROBING_MTU) && self.blames_mtu_probe(cx) {
            return;
        }
        cx.counters.fast_retransmits += 1;
        self.note(cx, Incident::RecoveryEntered);
        // What an echo told of was this congestion, unless the policy says otherwise.
        let told = self.phase() == Phase::Reduced && !self.control.needs().losses_after_marks;
        if !told {
            self.tell_congestion(cx, Signal::Loss);
        }
        let (una, nxt, mss, flight) =
            (self.snd.una(), self.snd.nxt(), u32::from(self.snd.mss()), self.snd.flight());
        let inflation = u32::from(self.snd.duplicates()) * mss;
        let target = self.control.window().cwnd;
        let loss = self.loss();
        if !told {
            loss.prr = Prr::new((flight + delivered).saturating_sub(loss.board.sacked()), target, mss);
        }
        // The repair before may have sent this hole again already, though it lies behind where that one ended: once is
        // enough, and an acknowledgment of that transmission is no news about this repair.
        let again = loss.resend.after(una);
        if !again {
            loss.resend = una;
            loss.resent.clear();
        }
        loss.phase = Phase::Fast;
        loss.recover = nxt;
        loss.reduced_at = cx.now.as_micros() as u32;
        loss.inflation = inflation;
        loss.signal = Signal::Loss;
        loss.restarted = false;
        loss.urgent = !again;
        // A repair that goes on where another stopped answers only for what it sends itself.
        let marker = if again { loss.resend } else { una };
        loss.begin_judging(marker, again);
        // The probe's part is over: what it showed is being repaired, and the policy knows.
        self.bits.clear(Bits::PROBING, WRITER);
        self.snd.stop_timing();
        self.arm_rtx(cx);
    }

    /// A retransmission that left at `at` is lost. If the policy has not reduced since, it reduces again (RFC 5681,
    /// section 4.3).
    /// RFC 5681, 4.3-1; RFC 8985, 6.3-1; RFC 8985, 9.3-3.
    pub(crate) fn on_retransmission_lost(&mut self, cx: &mut Cx<'_>, at: u32) {
        let (nxt, now) = (self.snd.nxt(), cx.now.as_micros() as u32);
        let Some(loss) = &mut self.recovery.loss else { return };
        // The repair now takes longer, and a timeout of the first retransmission would only disturb it.
        loss.first_ts = None;
        loss.judged = true;
        if cx.config.reduce_again && loss.phase == Phase::Fast && at.wrapping_sub(loss.reduced_at) as i32 >= 0
        {
            loss.recover = nxt;
            loss.reduced_at = now;
            self.tell_congestion(cx, Signal::Loss);
            let (pipe, target) = (self.pipe(), self.control.window().cwnd);
            let mss = u32::from(self.snd.mss());
            self.loss().prr.reduce_again(pipe, target, mss);
        }
        self.arm_rtx(cx);
    }

    /// The timer ran out; the policy knows. What was SACKed stays so (RFC 6675, section 5.1), unless the peer has
    /// reneged: it holds the very byte that it does not acknowledge (RFC 2018, section 8). What left within the
    /// last round trip is still in flight where time tells losses (RFC 8985, section 6.3).
    /// RFC 6298, 5-4; RFC 2018, 5-2 and 8-1; RFC 6675, 5.1-1; RFC 5682, 2.1-1; RFC 6675, 4-2 and 5.1-2.
    pub(crate) fn begin_timeout_recovery(&mut self, cx: &Cx<'_>) {
        let (una, nxt, nth) = (self.snd.una(), self.snd.nxt(), u32::from(self.timers.retries()));
        let (before, age) = (self.pipe(), self.age_of_lost(cx.config));
        let first = (una + u32::from(self.snd.mss())).earlier(nxt);
        self.loss();
        let Some(loss) = &mut self.recovery.loss else { return };
        if loss.board.is_sacked(una) {
            loss.board.clear();
        }
        let now = cx.now.as_micros() as u32;
        let log = cx.pool.tx_times();
        let lost = age.map_or(nxt, |age| loss.rack.lost_by_timeout(self.snd.sent(), log, first, now, age));
        // In the middle of a repair, or once more in a row, there is no telling.
        let test = cx.config.frto && nth == 1 && !loss.phase.repairs();
        self.send_between(Phase::Timeout, una, nxt, lost);
        if self.bits.has(Bits::SAMPLED) {
            self.note_lost(before.saturating_sub(self.pipe()));
        }
        let loss = self.loss();
        loss.signal = Signal::Timeout { nth };
        loss.frto = if test { Frto::One } else { Frto::Off };
    }

    /// Everything in flight is sent anew, but for what was SACKed.
    /// RFC 6582, 4-1.
    pub(crate) fn send_again(&mut self, phase: Phase) {
        self.send_between(phase, self.snd.una(), self.snd.nxt(), self.snd.nxt());
    }

    /// Sends `start` to `end` again in segments of another size: it was too large, and no sign of congestion.
    #[cold]
    pub(crate) fn resegment(&mut self, start: Seq, end: Seq) {
        self.send_between(Phase::Resegment, start, end, end);
        if !self.bits.has(Bits::SACK) {
            // Duplicates that ask for `end` itself are about something else.
            self.loss().recover = end - 1;
        }
    }

    /// Retransmits the part of `start..end` before `lost`; the rest once it is found lost as well.
    fn send_between(&mut self, phase: Phase, start: Seq, end: Seq, lost: Seq) {
        let una = self.snd.una();
        let loss = self.loss();
        loss.phase = phase;
        loss.recover = end;
        loss.resend = start;
        loss.resent.clear();
        loss.rack.lost = loss.rack.lost.later(lost);
        loss.inflation = 0;
        loss.urgent = start == una;
        loss.begin_judging(start, false);
        self.snd.forget_duplicates();
        self.bits.clear(Bits::PROBING, WRITER);
        self.snd.stop_timing();
        self.request(Due::DATA);
    }

    /// Remembers when a repair began to send, for [`Connection::is_spurious`].
    /// RFC 3522, 3.2-1.
    pub(crate) fn note_first_retransmission(&mut self, cx: &Cx<'_>) {
        let ts = self.bits.clock().value(cx.now, self.snd.ts_offset());
        if let Some(loss) = self.recovery.loss.as_mut().filter(|loss| !loss.judged) {
            loss.first_ts.get_or_insert(ts);
        }
    }

    /// Does the acknowledgment answer the original transmission rather than the retransmission (RFC 3522)?
    /// Only the first one that moves SND.UNA can tell.
    /// RFC 3522, 3.2-2.
    fn is_spurious(&mut self, seg: &Segment<'_>) -> bool {
        let timestamps = self.bits.has(Bits::TIMESTAMPS);
        let Some(loss) = &mut self.recovery.loss else { return false };
        let repairing = matches!(loss.phase, Phase::Fast | Phase::Timeout);
        // After a second timeout in a row it is unknown which transmission an answer belongs to.
        let ambiguous = matches!(loss.signal, Signal::Timeout { nth: 2.. });
        let first = loss.first_ts.take();
        loss.judged |= first.is_some();
        match (first, seg.options.timestamps) {
            (Some(first), Some(ts)) if timestamps && repairing && !ambiguous => ts_before(ts.ecr, first),
            _ => false,
        }
    }

    /// SND.UNA has moved by `acked` bytes; a repair may be over, go on, or have been a mistake (`needless` says so
    /// already).
    /// RFC 6582, 3.2-2 and 3.2-3; RFC 6675, 5-6 and 5-7.
    pub(crate) fn recovery_progress(
        &mut self,
        cx: &mut Cx<'_>,
        seg: &Segment<'_>,
        acked: u32,
        needless: bool,
    ) {
        if self.is_spurious(seg) || needless {
            return self.undo(cx);
        }
        let (una, mss) = (self.snd.una(), u32::from(self.snd.mss()));
        let sack = self.bits.has(Bits::SACK);
        let Some(loss) = &mut self.recovery.loss else { return };
        loss.board.advance(una);
        if loss.reports_until.is_some_and(|until| una.after(until)) {
            loss.begin_judging(una, true);
        }
        if loss.phase == Phase::Disorder {
            self.snd.forget_duplicates();
        } else if una.at_or_after(loss.recover) {
            self.snd.forget_duplicates();
            // The peer's reports of duplicates come within a round trip, if at all.
            loss.reports_until = Some(self.snd.nxt()).filter(|_| sack && loss.again > loss.needless);
            if self.cold().is_some() {
                self.cold_mut().recovery.reordering.on_recovery_end();
            }
            let info = self.signal_info(cx);
            let ended = core::mem::replace(&mut self.loss().phase, Phase::Disorder);
            self.note(cx, Incident::RecoveryLeft { needless: false });
            if ended != Phase::Resegment {
                self.control.on_recovery_end(&info);
            }
            if ended == Phase::Timeout {
                self.note_timeout_over(cx);
            }
        } else if loss.phase == Phase::Fast && !sack {
            // RFC 6582, section 3.2, step 3: the next segment is missing too.
            loss.resend = una;
            loss.urgent = true;
            let back = if acked >= mss { mss } else { 0 };
            loss.inflation = loss.inflation.saturating_sub(acked) + back;
        }
        self.tidy_loss();
    }

    /// Should this acknowledgment restart the retransmission timer? During a recovery without SACK only the first
    /// partial one does where the settings are impatient (RFC 6582, section 3.2); otherwise each of them, so that a
    /// window with many losses is repaired hole by hole instead of by a timeout.
    /// RFC 6582, 3.2-4.
    pub(crate) fn restarts_timer(&mut self, config: &Config) -> bool {
        let sack = self.bits.has(Bits::SACK) || config.steady_repair;
        let Some(loss) = self.recovery.loss.as_mut().filter(|loss| loss.phase == Phase::Fast && !sack) else {
            return true;
        };
        !core::mem::replace(&mut loss.restarted, true)
    }

    /// Gives the memory back once nothing is amiss.
    pub(crate) fn tidy_loss(&mut self) {
        let Some(loss) = &self.recovery.loss else { return };
        let una = self.snd.una();
        let over = loss.is_calm()
            && !self.bits.has(Bits::PROBING)
            && loss.reports_until.is_none_or(|until| una.after(until))
            && (self.bits.has(Bits::SACK) || una.after(loss.recover) || self.snd.flight() == 0);
        if over {
            self.recovery.loss = None;
        }
    }

    /// Counts a report that the peer got what lies from `left` to `right` twice.
    pub(crate) fn count_duplicate(&mut self, cx: &mut Cx<'_>, (left, right): (Seq, Seq)) {
        cx.counters.dsacks_in += 1;
        let segments = self.segments(right.offset_from(left));
        self.cold_mut().stats.count_duplicates(segments);
    }

    /// Judges the repair by a report that the peer got something twice, which was no probe. Once that is true of
    /// everything this repair sent, it was needless (RFC 3708; a duplicate made by the network is rare enough). What
    /// this repair did not send says nothing.
    /// RFC 3708, 3-1.
    pub(crate) fn on_duplicate_reported(&mut self, cx: &mut Cx<'_>, (left, right): (Seq, Seq)) {
        let Some(loss) = &mut self.recovery.loss else { return };
        let (left, right) = (left.later(loss.marker), right.earlier(loss.resend));
        if loss.again == 0 || !left.before(right) {
            return;
        }
        loss.needless = loss.needless.saturating_add(right.offset_from(left));
        if loss.needless >= loss.again {
            self.undo(cx);
        }
    }

    /// The repair was needless: the policy takes its window back, and what was not sent again yet need not
    /// be.
    pub(crate) fn undo(&mut self, cx: &mut Cx<'_>) {
        cx.counters.spurious_recoveries += 1;
        let (una, mss) = (self.snd.una(), self.snd.mss());
        let loss = self.loss();
        let signal = loss.signal;
        let ended = core::mem::replace(&mut loss.phase, Phase::Disorder);
        if loss.again < DUP_THRESH * u32::from(mss) {
            // Too little was sent again for as many duplicates as call for a repair: they are of a loss.
            loss.recover = una - 1;
        }
        loss.resend = una;
        loss.frto = Frto::Off;
        loss.resent.clear();
        loss.rack.lost = una;
        loss.board.advance(una);
        loss.begin_judging(una, true);
        self.snd.forget_duplicates();
        if signal == Signal::Loss {
            // What was taken for lost was late: the path reorders, though no SACK may have shown it (RFC 8985, section
            // 6.2, step 2).
            self.cold_mut().recovery.reordering.on_overtaken(0);
        }
        self.control.on_spurious(signal, cx.now);
        self.note(cx, Incident::RecoveryLeft { needless: true });
        if ended == Phase::Timeout {
            // A window of one segment was full, which says nothing about the one that is back.
            self.note_cwnd_limited(false);
            self.note_timeout_over(cx);
        }
        self.tidy_loss();
    }
}
