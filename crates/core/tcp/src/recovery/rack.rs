//! RACK (RFC 8985): a segment is lost when something that left later was delivered and the segment itself has
//! had a little longer than that took. Time, not counting, decides; so reordering costs no needless repair, and a
//! lost retransmission or the tail of a flight is found like any other loss.
//!
//! Whatever left earlier lies lower, as long as nothing is retransmitted. So of the first transmissions one edge
//! tells all: every byte below it that is not SACKed is lost. Retransmissions are in
//! [`crate::recovery::resent::Resent`].

use base::{Duration, Instant, Seq};
use wire::tcp::Segment;

use crate::connection::{Bits, Connection};
use crate::recovery::Loss;
use crate::recovery::scoreboard::Sacked;
use crate::sender::sent::{Cursor, Sent, TxTimes};
use crate::{Config, Cx};

/// Recoveries that a widened reordering window lasts (RACK.reo_wnd_persist).
const PERSIST: u8 = 16;
/// Bits of [`Config::rack`]: losses show by time; the window for reordering stays as it is; three segments SACKed do
/// not make sure.
const BY_TIME: u8 = 1;
const STATIC: u8 = 2;
const NO_COUNTING: u8 = 4;

/// A time that a transmission left, with the end of what left: RFC 8985's order among transmissions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Left {
    /// Microseconds, modulo 2^32.
    pub(crate) at: u32,
    pub(crate) end: Seq,
    /// Was it a retransmission?
    pub(crate) again: bool,
}

impl Left {
    /// RACK_sent_after (RFC 8985, section 6.2). Within one turn time stands still; first transmissions then leave
    /// in the order of their numbers, and so do retransmissions, but nothing tells one kind from the other.
    pub(crate) fn after(self, other: Left) -> bool {
        match self.at.wrapping_sub(other.at) as i32 {
            0 => self.again == other.again && self.end.after(other.end),
            later => later > 0,
        }
    }
}

/// RACK's state: the latest delivery. It lives as long as the recovery.
#[derive(Debug)]
pub(crate) struct Rack {
    /// Latest transmission among the delivered ones (RACK.segment), once there is one.
    latest: Option<Left>,
    /// Its round trip, microseconds (RACK.rtt).
    rtt: u32,
    /// One past the highest byte delivered (RACK.fack).
    fack: Seq,
    /// Edge below which everything not SACKed is lost.
    pub(crate) lost: Seq,
    /// Where in the log `lost` and `fack` stand.
    pub(crate) cursors: [Cursor; 2],
}

impl Rack {
    pub(crate) fn new(una: Seq, sent: &Sent) -> Rack {
        Rack { latest: None, rtt: 0, fack: una, lost: una, cursors: [sent.cursor(); 2] }
    }

    /// Notes that the transmission `left` was delivered at `now` (microseconds).
    /// RFC 8985, 6.2-1.
    fn deliver(&mut self, left: Left, now: u32) {
        if self.latest.is_none_or(|latest| left.after(latest)) {
            self.latest = Some(left);
            self.rtt = now.wrapping_sub(left.at);
        }
    }

    /// Moves the edge over what is lost at `now`, given the reordering window `wnd`; for how long, if at all,
    /// the next stretch still may be under way.
    /// RFC 8985, 6.2-6.
    fn advance(
        &mut self,
        sent: &Sent,
        log: &TxTimes,
        now: u32,
        wnd: u32,
        missing: impl Fn(Seq, Seq) -> u32,
    ) -> Option<u32> {
        let latest = self.latest?;
        while let Some((end, at)) = self.cursors[0].seek(sent, log, self.lost) {
            let left = Left { at, end: self.lost, again: false };
            if !latest.after(left) {
                return None;
            }
            let end = if at == latest.at { end.earlier(latest.end) } else { end };
            if missing(self.lost, end) > 0
                && let Some(left) = self.remaining(at, now, wnd)
            {
                return Some(left);
            }
            self.lost = end;
        }
        None
    }

    /// Returns the end of what a timeout shows to be lost at `now` (RACK_mark_losses_on_RTO of RFC 8985, section 6.3):
    /// the first segment, which ends at `first`, and whatever left `limit` microseconds ago or earlier.
    /// RFC 8985, 6.3-2.
    pub(crate) fn lost_by_timeout(
        &mut self,
        sent: &Sent,
        log: &TxTimes,
        first: Seq,
        now: u32,
        limit: u32,
    ) -> Seq {
        let mut edge = self.lost.later(first);
        while let Some((end, at)) = self.cursors[0].seek(sent, log, edge) {
            if now.wrapping_sub(at) < limit {
                break;
            }
            edge = end;
        }
        edge
    }

    /// How much longer what left at `at` may be under way.
    fn remaining(&self, at: u32, now: u32, wnd: u32) -> Option<u32> {
        let left = self.rtt.saturating_add(wnd).saturating_sub(now.wrapping_sub(at));
        (left > 0).then_some(left)
    }
}

/// A connection's knowledge of reordering on its path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reordering {
    /// How often something was seen to be overtaken.
    pub(crate) seen: u32,
    /// By how many segments at most something was overtaken (Linux's measure, in its TCP_INFO).
    pub(crate) degree: u16,
    /// The window in quarters of the smallest round-trip time (RACK.reo_wnd_mult).
    mult: u8,
    persist: u8,
    /// SND.NXT when a duplicate was last reported, if it is `fresh`: more of them below it are no news
    /// (RACK.dsack_round).
    round: Seq,
    fresh: bool,
}

impl Reordering {
    pub(crate) const fn new() -> Reordering {
        Reordering { seen: 0, degree: 3, mult: 1, persist: 0, round: Seq::new(0), fresh: false }
    }

    /// The peer got something twice: the window was too narrow (RFC 8985, section 6.2, step 4).
    /// RFC 8985, 6.2-5.
    fn on_duplicate(&mut self, una: Seq, nxt: Seq) {
        if !self.fresh || una.at_or_after(self.round) {
            (self.round, self.fresh) = (nxt, true);
            self.mult = self.mult.saturating_add(1);
            self.persist = PERSIST;
        }
    }

    /// Something arrived although what left later, `segments` of it, had been there before.
    /// RFC 8985, 6.2-3.
    pub(crate) fn on_overtaken(&mut self, segments: u32) {
        self.seen = self.seen.saturating_add(1);
        self.degree = self.degree.max(segments.min(300) as u16);
    }

    /// A recovery is over.
    /// RFC 8985, 6.2-5.
    pub(crate) fn on_recovery_end(&mut self) {
        // Long ago it would be ahead of SND.UNA again.
        self.fresh = false;
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.mult = 1;
        }
    }
}

impl Connection {
    /// Takes in what an acknowledgment with a scoreboard says was delivered, before SND.UNA moves (RFC 8985,
    /// section 6.2, steps 1 to 4). `blocks`: what it SACKs, as the scoreboard took it. `filled`: the first byte it
    /// acknowledges that was neither SACKed nor retransmitted before.
    /// RFC 8985, 6.2-1 and 6.2-2.
    pub(crate) fn note_delivered(
        &mut self,
        cx: &Cx<'_>,
        seg: &Segment<'_>,
        sacked: &Sacked,
        blocks: &[(Seq, Seq)],
        filled: Option<Seq>,
    ) {
        let (una, nxt) = (seg.ack.later(self.snd.una()), self.snd.nxt());
        let Some(loss) = &mut self.recovery.loss else { return };
        let now = cx.now.as_micros() as u32;
        let log = cx.pool.tx_times();
        let high = loss.board.highest_sacked().unwrap_or(una).later(una);
        // Below what was delivered, never retransmitted, and here now: it was overtaken.
        let overtaken = |seq: &Seq| seq.before(loss.rack.fack) && !loss.was_resent(*seq);
        let overtaken = filled.filter(overtaken).or(sacked.lowest.filter(overtaken));
        let degree = overtaken.map(|seq| loss.rack.fack.offset_from(seq).div_ceil(self.snd.mss().into()));
        if high.after(loss.rack.fack) {
            // Where the highest is a probe's, what was SACKed below it tells: the probe may have come too late to.
            let probe = loss.resent.start_of(high - 1).filter(|_| !loss.phase.repairs());
            let told = |start: &Seq| start.after(loss.rack.fack) && loss.board.is_sacked(*start - 1);
            let end = probe.filter(told).unwrap_or(high);
            let departure = loss.rack.cursors[1].seek(self.snd.sent(), log, end - 1);
            if let Some((_, at)) = departure.filter(|_| !loss.was_resent(end - 1)) {
                loss.rack.deliver(Left { at, end, again: false }, now);
            }
            loss.rack.fack = high;
        }
        let (clock, offset) = (self.bits.clock(), self.snd.ts_offset());
        let echo = seg.options.timestamps.filter(|_| self.bits.has(Bits::TIMESTAMPS));
        let least = self.timers.rtt().min_rtt().as_micros() as u32;
        // What was overtaken shows how long a delivery may take: it is the latest of this acknowledgment in the order
        // of their numbers, which sets RACK.rtt whatever left last.
        let late = overtaken
            .filter(|seq| seq.before(una))
            .and_then(|seq| self.snd.sent().cursor().seek(self.snd.sent(), log, seq));
        let blocks = blocks.iter().copied().filter(|(_, right)| right.at_or_before(nxt));
        if let Some(left) = loss.resent.take_delivered(una, blocks) {
            let took = now.wrapping_sub(left.at);
            // It may be the first transmission that arrived: the echo is older than the second, or the second
            // cannot have arrived yet. Above a hole the echo is that of what came before the hole, whichever arrived,
            // and tells nothing (RFC 7323, section 4.3).
            let tells = left.end.at_or_before(una);
            let older = tells
                && echo.is_some_and(|ts| {
                    clock.value(cx.now, offset).wrapping_sub(ts.ecr) > clock.ticks(took) + 1
                });
            if !older && took >= least {
                loss.rack.deliver(left, now);
            } else if let Some((_, at)) = self.snd.sent().cursor().seek(self.snd.sent(), log, left.end - 1) {
                // Then it is the first that arrived, and tells of what left before it.
                loss.rack.deliver(Left { at, end: left.end, again: false }, now);
            }
        }
        if let Some((_, at)) = late {
            loss.rack.rtt = loss.rack.rtt.max(now.wrapping_sub(at));
        }
        if let Some(segments) = degree {
            self.cold_mut().recovery.reordering.on_overtaken(segments);
        }
        // Before anything was overtaken the window was not too narrow: the duplicate has another cause.
        if sacked.dsack.is_some() && self.reordering().seen > 0 {
            self.cold_mut().recovery.reordering.on_duplicate(una, nxt);
        }
    }

    /// RACK_detect_loss (RFC 8985, section 6.2, step 5): has anything been found lost? What may be lost a little
    /// later is looked at again then.
    /// RFC 8985, 6.2-6.
    pub(crate) fn find_losses(&mut self, cx: &mut Cx<'_>) -> bool {
        let wnd = self.reordering_window(cx.config);
        let (una, nxt) = (self.snd.una(), self.snd.nxt());
        let Some(loss) = &mut self.recovery.loss else { return false };
        let now = cx.now.as_micros() as u32;
        let rack = &mut loss.rack;
        let before = rack.lost.later(una);
        rack.lost = before;
        let board = &loss.board;
        let first =
            rack.advance(self.snd.sent(), cx.pool.tx_times(), now, wnd, |from, to| board.unsacked(from, to));
        let fresh = board.unsacked(before, rack.lost.earlier(nxt).later(before));
        let Some(latest) = rack.latest else { return false };
        let (again, second) = loss.resent.find_lost(una, |left| {
            latest.after(left).then(|| rack.remaining(left.at, now, wnd).unwrap_or(0))
        });
        cx.counters.list_steps += loss.resent.take_steps();
        let wait = [first, second].into_iter().flatten().min();
        if let Some(wait) = wait.filter(|_| cx.config.rack & BY_TIME != 0) {
            self.arm_reordering(
                cx.now + in_ticks(Duration::from_micros(wait.into()), cx.config.quirks.reordering_tick),
            );
        }
        if fresh > 0 && self.bits.has(Bits::SAMPLED) {
            self.note_lost(fresh);
        }
        let Some(at) = again else { return fresh > 0 };
        self.on_retransmission_lost(cx, at);
        true
    }

    /// RACK_update_reo_wnd: how long to wait for what was perhaps only overtaken, microseconds.
    /// RFC 8985, 6.2-4.
    /// Without [`BY_TIME`] for ever, unless counting makes it sure (RFC 6675).
    fn reordering_window(&self, config: &Config) -> u32 {
        let counts = config.rack & NO_COUNTING == 0;
        let sure = self.recovery.loss.as_ref().is_some_and(|loss| {
            loss.phase.repairs() || (counts && loss.board.reaches_dup_thresh(self.snd.mss().into()))
        });
        if config.rack & BY_TIME == 0 {
            return if sure { 0 } else { u32::MAX };
        }
        let reordering = self.reordering();
        if reordering.seen == 0 && sure {
            return 0;
        }
        let mult = if config.rack & STATIC == 0 { reordering.mult } else { 1 };
        let quarter = self.timers.rtt().min_rtt().as_micros() as u32 / 4;
        quarter.saturating_mul(mult.into()).min(self.timers.rtt().srtt_micros().unwrap_or(0))
    }

    /// Returns the age, in microseconds, from which on a timeout calls lost what is in flight: the latest round trip
    /// and the reordering window. `None` where time does not tell losses.
    pub(crate) fn age_of_lost(&self, config: &Config) -> Option<u32> {
        if !self.bits.has(Bits::SACK) || config.rack & BY_TIME == 0 {
            return None;
        }
        let latest = self.recovery.loss.as_ref().and_then(|loss| loss.rack.latest.map(|_| loss.rack.rtt));
        let rtt = latest.or(self.timers.rtt().srtt_micros())?;
        Some(rtt.saturating_add(self.reordering_window(config)))
    }

    /// The reordering timer shares the retransmission timer's place; it is always the earlier of the two. The probe
    /// timeout gives way to it: what is SACKed needs no probe.
    /// RFC 8985, 6.2-6.
    fn arm_reordering(&mut self, at: Instant) {
        let deadline = self.rto_deadline();
        if at < deadline {
            self.timers.set_rtx_before(at, deadline);
            self.bits.set(Bits::REORDERING);
            self.bits.clear(Bits::TAIL_PROBE);
        }
    }
}

/// `wait` in whole ticks, and two more: the timer's first tick may be nearly over, and so may the clock's that
/// measured.
fn in_ticks(wait: Duration, tick: Duration) -> Duration {
    if tick.is_zero() {
        return wait;
    }
    let ticks = wait.as_nanos().div_ceil(tick.as_nanos()) as u32;
    tick * (ticks + 2)
}

impl Loss {
    /// The first byte in `from..to` that is neither SACKed nor was retransmitted.
    pub(super) fn first_original(&self, from: Seq, to: Seq) -> Option<Seq> {
        let from = if self.resent.covers(from) { self.resend.later(from) } else { from.later(self.resend) };
        let seq = self.board.next_unsacked(from);
        (seq.before(to) && !self.was_resent(seq)).then_some(seq)
    }

    /// Was the byte at `seq`, not SACKed so far, retransmitted?
    fn was_resent(&self, seq: Seq) -> bool {
        seq.before(self.resend) || self.resent.covers(seq)
    }
}
