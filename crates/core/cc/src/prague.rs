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
mod tests {
    //! Goal: few marks take little, short round trips grow slowly, and a deep queue under marks is answered as ever.
    use super::*;
    use crate::testing::{Lab, MSS};
    use crate::{Controller, TunableError};

    fn lab(segments: u32) -> Lab<Prague> {
        Lab::new(Prague::new(), segments, Some(segments / 2))
    }

    /// A whole window arrives, so many per cent of it marked, after a round trip of `rtt_ms`.
    fn window(lab: &mut Lab<Prague>, percent: u32, rtt_ms: u64) {
        let cwnd = lab.policy.window().cwnd;
        lab.now += rtt_ms;
        let marked = cwnd / 100 * percent;
        lab.policy.on_ecn(&EcnFeedback {
            now: Instant::from_millis(lab.now),
            segments: cwnd.div_ceil(MSS),
            marked_segments: marked.div_ceil(MSS),
            bytes: cwnd,
            marked_bytes: marked,
        });
        let mut sample = lab.sample(cwnd);
        (sample.rtt, sample.srtt) = (Some(Duration::from_millis(rtt_ms)), Duration::from_millis(rtt_ms));
        sample.min_rtt = Duration::from_millis(10);
        lab.policy.on_ack(&sample);
    }

    fn alpha(lab: &Lab<Prague>) -> f64 {
        f64::from(lab.policy.law().alpha) / f64::from(ONE)
    }

    #[test]
    fn it_says_ect1_and_is_paced() {
        let policy = Prague::new();
        assert!(policy.wants_ect1() && policy.needs().pacing && !policy.needs().echoes);
        assert!(!crate::Dctcp::new().wants_ect1());
    }

    #[test]
    fn the_window_gives_way_by_half_of_what_is_marked() {
        let mut lab = lab(100);
        lab.congest(Signal::Ecn, 100);
        assert_eq!(lab.cwnd(), 50.0, "the first mark halves");
        (0..600).for_each(|_| window(&mut lab, 10, 11));
        assert!((alpha(&lab) - 0.1).abs() < 0.001, "{}", alpha(&lab));
        let before = lab.cwnd();
        lab.congest(Signal::Ecn, before as u32);
        assert!((lab.cwnd() / before - 0.95).abs() < 0.02, "{} of {before}", lab.cwnd());
    }

    #[test]
    fn growth_is_that_of_the_virtual_round_trip() {
        for (rtt_ms, rounds, grows) in [(50, 20, 20.0), (25, 20, 20.0), (5, 20, 4.0), (1, 100, 4.0)] {
            let mut lab = lab(200);
            (0..rounds).for_each(|_| window(&mut lab, 0, rtt_ms));
            let grown = lab.cwnd() - 200.0;
            assert!((grown - grows).abs() <= 1.5, "{rtt_ms} ms: {grown} segments in {rounds} round trips");
        }
    }

    #[test]
    fn losses_and_timeouts_are_answered_as_ever() {
        for signal in [Signal::Loss, Signal::Timeout { nth: 1 }] {
            let mut lab = lab(100);
            lab.congest(signal, 100);
            assert_eq!(lab.ssthresh(), 50.0);
        }
    }

    /// RFC 9331, section 4.3: coexistence with classic AQMs that mark.
    #[test]
    fn marks_under_a_deep_queue_are_answered_as_rfc_3168_asks() {
        let kept = |rtt_ms: u64, fallback: i64| {
            let mut lab = lab(200);
            lab.policy.set_tunable("fallback", fallback).unwrap();
            lab.congest(Signal::Ecn, 200);
            for _ in 0..200 {
                window(&mut lab, 5, rtt_ms);
            }
            let before = lab.cwnd();
            lab.congest(Signal::Ecn, before as u32);
            lab.cwnd() / before
        };
        // The least round trip is 10 ms: a queue of 20 ms is classic, one of 1 ms is not.
        assert!((kept(30, 1) - 0.5).abs() < 0.02, "{}", kept(30, 1));
        assert!(kept(11, 1) > 0.95 && kept(30, 0) > 0.95);
    }

    #[test]
    fn without_accurate_feedback_a_mark_halves() {
        let mut lab = lab(100);
        lab.congest(Signal::Ecn, 100);
        lab.congest(Signal::Ecn, 50);
        assert_eq!(lab.cwnd(), 25.0);
    }

    #[test]
    fn tunables_have_bounds() {
        let mut policy = Prague::new();
        for (name, most) in [("shift_g", 10), ("rtt_virtual", 100), ("fallback", 1)] {
            assert_eq!(policy.set_tunable(name, most), Ok(()));
            for value in [-1, most + 1] {
                let error = Err(TunableError::OutOfRange { min: 0, max: most });
                assert_eq!(policy.set_tunable(name, value), error, "{name} {value}");
            }
        }
    }
}
