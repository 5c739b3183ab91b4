//! Prague (draft-briscoe-iccrg-prague-congestion-control): a scalable sender for networks with a low-latency queue
//! (L4S, RFC 9330, 9331 and 9332).
//!
//! ```text
//!   marks ──> alpha, a moving average of the marked part ──> once a round trip: cwnd = cwnd (1 - alpha / 2)
//!   acknowledged bytes ──> cwnd grows by rtt / 25 ms of a segment a round trip, a whole one above 25 ms
//!   a queue that grows under marks ──> a classic AQM: alpha counts as 1, as RFC 3168 asks
//! ```
//! Its packets say ECT(1), and it needs accurate feedback (RFC 9768). Where the peer does not give that they say
//! ECT(0), and a mark halves the window.

use base::{Duration, Instant};

use crate::classical::{Classical, HALF, Law, Part};
use crate::controller::{AckSample, EcnFeedback, PathInfo, Signal, SignalInfo};
use crate::reno::Reno;
use crate::round::Round;
use crate::tunable::tunables;

/// Prague.
///
/// | Tunable | Values | Default | Meaning |
/// |---|---|---|---|
/// | `shift_g` | 0 to 10 | 4 | g = 2^-`shift_g`: the weight of the last round trip in the average |
/// | `rtt_virtual` | 0 to 100 | 25 | milliseconds: growth is that of no shorter round trip |
/// | `fallback` | 0, 1 | 1 | a queue that looks like a classic AQM's is answered as RFC 3168 asks |
///
/// and those of [`Reno::tunables`].
pub type Prague = Classical<Scalable>;

/// 1 in the fixed point of alpha.
const ONE: u32 = 1 << 24;
const SHIFT_MAX: u8 = 10;
const EARNED_BITS: u32 = u16::BITS;
const RTT_VIRTUAL_MAX: u16 = 100;

/// Most that a round trip with marks adds to, or takes from, the evidence for a classic AQM.
const EVIDENCE_STEP: i32 = 4;
/// The evidence counts from here on, and never grows beyond twice as much. A dual queue needs as long to be believed
/// again.
const EVIDENCE: i32 = 16;
/// Queueing delay that marks of a low-latency queue leave far behind, and that those of a classic one exceed (its
/// target is 5 to 20 ms).
const SHALLOW: Duration = Duration::from_millis(2);
const DEEP: Duration = Duration::from_millis(4);

/// The law of [`Prague`].
#[derive(Clone, Debug)]
pub struct Scalable {
    round: Round,
    /// The part that is marked on average, of [`ONE`].
    alpha: u32,
    /// Bytes that arrived in this round trip, and those that arrived marked.
    arrived: u64,
    marked: u64,
    /// Greatest round-trip time of this round.
    longest: Duration,
    /// When the average last moved.
    learned: Option<Instant>,
    /// For a classic AQM at the bottleneck: positive, and from [`EVIDENCE`] on enough.
    evidence: i32,
    /// The part of a byte, of 2^[`EARNED_BITS`], that is earned and not in the window yet.
    earned: u16,
    /// The data in flight left before the last mark was answered.
    reduced_by_mark: bool,
    /// No mark was answered yet.
    fresh: bool,
    /// Feedback tells how much is marked.
    accurate: bool,
    shift_g: u8,
    rtt_virtual: u16,
    fallback: bool,
}

impl Default for Scalable {
    fn default() -> Self {
        Scalable {
            round: Round::new(),
            alpha: ONE,
            arrived: 0,
            marked: 0,
            longest: Duration::ZERO,
            learned: None,
            evidence: 0,
            earned: 0,
            reduced_by_mark: false,
            fresh: true,
            accurate: false,
            shift_g: 4,
            rtt_virtual: 25,
            fallback: true,
        }
    }
}

impl Scalable {
    /// The round trip whose growth the flow has.
    fn virtual_rtt(&self) -> Duration {
        Duration::from_millis(u64::from(self.rtt_virtual))
    }

    /// A round trip is over: the average moves, once a virtual round trip.
    fn learn(&mut self, ack: &AckSample) {
        let early = |at: Instant| ack.now.since(at) < self.virtual_rtt();
        if self.arrived == 0 || self.learned.is_some_and(early) {
            return;
        }
        let marked = self.marked.min(self.arrived);
        let part = (u128::from(marked) * u128::from(ONE) / u128::from(self.arrived)) as u32;
        self.alpha = self.alpha - (self.alpha >> self.shift_g) + (part >> self.shift_g);
        if marked > 0 && !self.fresh {
            self.weigh(ack);
        }
        (self.arrived, self.marked, self.longest) = (0, 0, Duration::ZERO);
        self.learned = Some(ack.now);
    }

    /// Marks and a deep queue speak for a classic AQM, marks and a shallow one against it (section 2.4.6 of the
    /// draft).
    fn weigh(&mut self, ack: &AckSample) {
        let queue = self.longest.saturating_sub(ack.min_rtt);
        let step = match queue {
            queue if queue > DEEP => 1,
            queue if queue < SHALLOW => -EVIDENCE_STEP,
            _ => 0,
        };
        self.evidence = (self.evidence + step).clamp(-EVIDENCE, 2 * EVIDENCE);
    }

    /// Does a queue that is not meant for scalable flows mark?
    fn meets_classic(&self) -> bool {
        self.fallback && self.evidence >= EVIDENCE
    }
}

impl Law for Scalable {
    const NAME: &'static str = "prague";
    const SCALABLE: bool = true;

    fn wants_pacing(&self) -> bool {
        true
    }

    fn begin(&mut self, _path: &PathInfo) {
        let Scalable { shift_g, rtt_virtual, fallback, .. } = *self;
        *self = Scalable { shift_g, rtt_virtual, fallback, ..Scalable::default() };
    }

    fn marks(&mut self, feedback: &EcnFeedback) {
        self.accurate = true;
        self.arrived += u64::from(feedback.bytes);
        self.marked += u64::from(feedback.marked_bytes.min(feedback.bytes));
    }

    fn observe(&mut self, _reno: &mut Reno, ack: &AckSample) {
        self.longest = self.longest.max(ack.rtt.unwrap_or_default());
        if self.round.ends_with(ack) {
            self.learn(ack);
        }
    }

    /// The window gives way once in each real round trip, so growth by the ratio of the round trips makes the rate
    /// that of a flow with the longer one. Bytes are added as they are earned: marks come more often than whole
    /// segments.
    fn avoid(&mut self, reno: &mut Reno, bytes: u32, ack: &AckSample) {
        let (real, assumed) = (ack.srtt.as_micros(), self.virtual_rtt().as_micros());
        let (part, whole) = if real < assumed { (real, assumed) } else { (1, 1) };
        let earned = (u128::from(bytes.min(reno.cwnd)) * u128::from(reno.mss()) * part) << EARNED_BITS;
        let total = (earned / (u128::from(reno.cwnd.max(1)) * whole)) as u64 + u64::from(self.earned);
        reno.grow((total >> EARNED_BITS) as u32);
        self.earned = total as u16;
    }

    /// A round trip that begins with a mark grows as any other (section 2.4.2 of the draft); one with a loss does
    /// not.
    fn repair(&mut self, reno: &mut Reno, delivered: u32, ack: &AckSample) {
        if self.reduced_by_mark && !reno.in_slow_start() {
            self.avoid(reno, delivered, ack);
        }
    }

    fn recovered(&mut self, _info: &SignalInfo) {
        self.reduced_by_mark = false;
    }

    fn keep(&mut self, signal: Signal, _info: &SignalInfo, _reno: &Reno) -> Part {
        self.reduced_by_mark = signal == Signal::Ecn;
        if signal != Signal::Ecn {
            return HALF;
        }
        // The first mark ends slow start: how much will be marked is not known.
        let first = core::mem::replace(&mut self.fresh, false);
        if first || !self.accurate || self.meets_classic() {
            return HALF;
        }
        (2 * ONE - self.alpha, 2 * ONE)
    }

    tunables! {
        "shift_g": shift_g, 0 => SHIFT_MAX, "The average moves by 2^-shift_g of what is new.";
        "rtt_virtual": rtt_virtual, 0 => RTT_VIRTUAL_MAX, "Growth is that of no shorter round trip, milliseconds.";
        "fallback": fallback, 0 => 1, "Is a queue that looks like a classic AQM's answered as RFC 3168 asks?";
    }
}

#[cfg(test)]
mod tests;
