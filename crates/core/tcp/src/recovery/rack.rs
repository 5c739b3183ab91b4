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
use crate::recovery::loss::Loss;
use crate::recovery::reordering::Left;
use crate::recovery::scoreboard::Sacked;
use crate::{Config, Cx};

/// Bits of [`Config::rack`]: losses show by time; the window for reordering stays as it is; three segments SACKed do
/// not make sure.
const BY_TIME: u8 = 1;
const STATIC: u8 = 2;
const NO_COUNTING: u8 = 4;

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
        let is_taken = |&(left, right): &(Seq, Seq)| left.after(una) && right.at_or_before(nxt);
        let blocks = blocks.iter().copied().filter(is_taken);
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
            self.hasten_reordering(at, deadline);
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
