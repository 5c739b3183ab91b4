//! H-TCP (Leith and Shorten, draft-leith-tcp-htcp): the longer congestion has not been heard of, the faster the window
//! grows; and it may keep as much of it as the path's queue is deep.

use crate::classical::{Classical, HALF, Law, Part};
use crate::controller::{AckSample, PathInfo, Signal, SignalInfo};
use crate::reno::Reno;
use crate::tunable::tunables;

/// H-TCP.
///
/// | Tunable | Values | Default | Meaning |
/// |---|---|---|---|
/// | `adaptive_backoff` | 0, 1 | 0 | keep RTT_min/RTT_max of the window, between 0.5 and 0.8, instead of half |
/// | `rtt_scaling` | 0, 1 | 0 | grow in proportion to the round-trip time, relative to 100 ms, between 0.1 and 2 |
///
/// and those of [`Reno::tunables`].
pub type HTcp = Classical<Hamilton>;

/// D_L: for this long after congestion the window grows as NewReno's, milliseconds.
const STANDARD: u32 = 1000;
/// Beyond this time the increase no longer steepens (35 minutes: the window has long met another limit).
const SPAN_MAX: u64 = 1 << 21;
/// Least and greatest part kept with adaptive backoff, thousandths.
const KEEP: (u32, u32) = (500, 800);
/// Samples before the round-trip time is trusted.
const TRUSTED: u8 = 8;

/// The law of [`HTcp`].
#[derive(Clone, Debug)]
pub struct Hamilton {
    /// When congestion was last heard of, and what this was before the last signal; milliseconds, wrapping.
    since: Option<u32>,
    before: Option<u32>,
    /// Extremes of the smoothed round-trip time since they were trusted, microseconds.
    rtt_min: u32,
    rtt_max: u32,
    samples: u8,
    /// Part of the window that congestion leaves, thousandths.
    beta: u32,
    /// A loss or a timeout is being repaired.
    recovering: bool,
    /// The first congestion halves: the extremes have not met a full queue yet.
    seen_congestion: bool,
    adaptive_backoff: bool,
    rtt_scaling: bool,
}

impl Default for Hamilton {
    fn default() -> Self {
        Hamilton {
            since: None,
            before: None,
            rtt_min: u32::MAX,
            rtt_max: 0,
            samples: 0,
            beta: KEEP.0,
            recovering: false,
            seen_congestion: false,
            adaptive_backoff: false,
            rtt_scaling: false,
        }
    }
}

impl Hamilton {
    /// Segments a round trip, in thousandths.
    fn alpha(&self, now: u32, srtt: u32) -> u32 {
        let past = now.wrapping_sub(self.since.unwrap_or(now));
        let mut alpha = increase(past);
        if alpha == Reno::ONE {
            return alpha;
        }
        if self.adaptive_backoff {
            alpha = (u64::from(alpha) * 2 * u64::from(1000 - self.beta) / 1000) as u32;
        }
        if self.rtt_scaling {
            alpha = (u64::from(alpha) * u64::from(srtt.clamp(10_000, 200_000)) / 100_000) as u32;
        }
        alpha.max(Reno::ONE)
    }

    /// Congestion: a queue that has become shorter since is forgotten step by step.
    fn congested(&mut self, now: u32) {
        self.since = Some(now);
        self.beta = KEEP.0;
        if self.rtt_max > self.rtt_min {
            self.rtt_max = self.rtt_min + faded(self.rtt_max - self.rtt_min);
        }
        if self.adaptive_backoff && self.seen_congestion && self.samples >= TRUSTED {
            self.beta = kept(self.rtt_min, self.rtt_max);
        }
        self.seen_congestion = true;
    }
}

/// alpha(D) = 1 + 10 (D - 1) + ((D - 1) / 2)^2 segments a round trip, in thousandths, D in milliseconds.
fn increase(past: u32) -> u32 {
    let x = u64::from(past.saturating_sub(STANDARD)).min(SPAN_MAX);
    (u64::from(Reno::ONE) + 10 * x + x * x / 4000) as u32
}

/// 95 % of the queueing delay.
fn faded(span: u32) -> u32 {
    (u64::from(span) * 95 / 100) as u32
}

/// beta = RTT_min / RTT_max, thousandths.
fn kept(rtt_min: u32, rtt_max: u32) -> u32 {
    let ratio = u64::from(rtt_min) * 1000 / u64::from(rtt_max.max(1));
    (ratio.min(1000) as u32).clamp(KEEP.0, KEEP.1)
}

impl Law for Hamilton {
    const NAME: &'static str = "htcp";

    fn begin(&mut self, _path: &PathInfo) {
        let (adaptive_backoff, rtt_scaling) = (self.adaptive_backoff, self.rtt_scaling);
        *self = Hamilton { adaptive_backoff, rtt_scaling, ..Hamilton::default() };
    }

    fn observe(&mut self, _reno: &mut Reno, ack: &AckSample) {
        let now = ack.now.as_millis() as u32;
        self.since.get_or_insert(now);
        if ack.rtt.is_none() {
            return;
        }
        self.samples = self.samples.saturating_add(1);
        if self.samples >= TRUSTED {
            let srtt = micros(ack);
            self.rtt_min = self.rtt_min.min(srtt);
            self.rtt_max = self.rtt_max.max(srtt);
        }
    }

    fn avoid(&mut self, reno: &mut Reno, bytes: u32, ack: &AckSample) {
        let alpha = self.alpha(ack.now.as_millis() as u32, micros(ack));
        reno.add_per_window(alpha, bytes, ack);
    }

    fn keep(&mut self, signal: Signal, info: &SignalInfo, _reno: &Reno) -> Part {
        let now = info.now.as_millis() as u32;
        self.before = self.since;
        match signal {
            Signal::Loss | Signal::Ecn => {
                self.congested(now);
                self.recovering |= signal == Signal::Loss;
                (self.beta, 1000)
            }
            // A first timeout may be a mistake: time goes on counting.
            Signal::Timeout { nth } => {
                if nth > 1 {
                    self.since = Some(now);
                }
                self.recovering = true;
                HALF
            }
        }
    }

    /// Congestion lasts until it is repaired, which takes many round trips without SACK: else the window would leap.
    fn recovered(&mut self, info: &SignalInfo) {
        if self.recovering {
            self.recovering = false;
            self.since = Some(info.now.as_millis() as u32);
        }
    }

    fn undo(&mut self) {
        self.recovering = false;
        self.since = self.before;
    }

    tunables! {
        "adaptive_backoff": adaptive_backoff, 0 => 1,
            "Does congestion leave the least round-trip time's part of the greatest, 0.5 to 0.8, and not 0.5?";
        "rtt_scaling": rtt_scaling, 0 => 1,
            "Is the increase scaled by the round-trip time, 100 ms being 1?";
    }
}

fn micros(ack: &AckSample) -> u32 {
    u32::try_from(ack.srtt.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    //! Goal: the published table of increases, the backoff's bounds, and neither of the two known mistakes of an older
    //! implementation: the fade divides the queueing delay only, and congestion by ECN starts the clock once.
    use super::*;
    use crate::Controller;
    use crate::testing::{Lab, MSS};

    #[test]
    fn the_increase_follows_the_published_curve() {
        // D in milliseconds, alpha in thousandths, alpha at beta 0.8.
        let table = [
            (0, 1000, 1000),
            (1000, 1000, 1000),
            (1500, 6_062, 2425),
            (2000, 11_250, 4500),
            (3000, 22_000, 8800),
            (5000, 45_000, 18_000),
            (10_000, 111_250, 44_500),
        ];
        for (d, alpha, with_backoff) in table {
            assert_eq!(increase(d), alpha, "D = {d} ms");
            let law = Hamilton { since: Some(0), beta: 800, adaptive_backoff: true, ..Hamilton::default() };
            assert!(law.alpha(d, 0).abs_diff(with_backoff) <= 1, "D = {d} ms, beta 0.8");
        }
        assert!(increase(u32::MAX) > increase(1 << 20), "no wrap at the end");
    }

    #[test]
    fn the_increase_agrees_with_real_numbers() {
        for d in (1000..600_000).step_by(777) {
            let x = f64::from(d) / 1000.0 - 1.0;
            let real = 1.0 + 10.0 * x + (x / 2.0) * (x / 2.0);
            assert!((f64::from(increase(d)) / 1000.0 - real).abs() < 0.002 * real, "D = {d} ms");
        }
    }

    #[test]
    fn the_part_kept_is_the_ratio_of_round_trip_times_within_bounds() {
        for (max, beta) in [(100, 800), (110, 800), (125, 800), (150, 666), (200, 500), (400, 500)] {
            assert_eq!(kept(100_000, max * 1000), beta, "100 ms / {max} ms");
        }
        assert_eq!(100_000 + faded(200_000), 290_000, "only the queueing delay fades");
    }

    #[test]
    fn growth_waits_a_second_and_then_accelerates() {
        let mut lab = Lab::new(HTcp::new(), 100, Some(100));
        lab.round();
        lab.lose();
        let start = lab.cwnd();
        assert_eq!(start, 50.5);
        (0..10).for_each(|_| lab.round());
        assert!((9.0..=11.0).contains(&(lab.cwnd() - start)), "a segment a round: {}", lab.cwnd());
        // The integral of alpha over the second after: (1 + 5 + 1/12) x 10 rounds, as the window is acknowledged.
        let then = lab.cwnd();
        (0..10).for_each(|_| lab.round());
        assert!((48.0..75.0).contains(&(lab.cwnd() - then)), "{} from {then}", lab.cwnd());
    }

    #[test]
    fn the_first_congestion_halves_and_later_ones_keep_what_the_queue_allows() {
        let mut policy = HTcp::new();
        policy.set_tunable("adaptive_backoff", 1).unwrap();
        let mut lab = Lab::new(policy, 100, Some(100));
        lab.rtt = 100;
        lab.round();
        lab.rtt = 120;
        lab.round();
        lab.lose();
        assert!(lab.ssthresh() <= 51.5, "half: {}", lab.ssthresh());
        let before = lab.cwnd();
        lab.round();
        lab.lose();
        let part = lab.cwnd() / before;
        assert!((0.78..0.83).contains(&part), "kept {part}");
    }

    #[test]
    fn a_single_timeout_leaves_the_clock_and_a_second_sets_it() {
        let mut lab = Lab::new(HTcp::new(), 100, Some(100));
        lab.round();
        let since = lab.policy.law().since;
        lab.now += 5000;
        lab.congest(Signal::Timeout { nth: 1 }, 100);
        assert_eq!(lab.policy.law().since, since);
        assert_eq!((lab.cwnd(), lab.ssthresh()), (1.0, 50.0));
        lab.congest(Signal::Timeout { nth: 2 }, 1);
        assert_eq!(lab.policy.law().since, Some(lab.now as u32));
        assert_eq!(lab.ssthresh(), 50.0);
    }

    #[test]
    fn time_in_recovery_does_not_count() {
        let mut lab = Lab::new(HTcp::new(), 100, Some(100));
        lab.round();
        lab.congest(Signal::Loss, 100);
        lab.now += 20_000;
        lab.recovered(50);
        assert_eq!(lab.policy.law().since, Some(lab.now as u32));
        lab.now += 500;
        lab.recovered(50);
        assert_eq!(lab.policy.law().since, Some(lab.now as u32 - 500), "only a loss is repaired");
    }

    #[test]
    fn a_mistake_gives_the_time_back_too() {
        let mut lab = Lab::new(HTcp::new(), 100, Some(100));
        lab.round();
        let (cwnd, since) = (lab.cwnd(), lab.policy.law().since);
        lab.congest(Signal::Loss, 100);
        assert_ne!(lab.policy.law().since, since);
        lab.policy.on_spurious(Signal::Loss, base::Instant::from_millis(lab.now));
        assert_eq!((lab.cwnd(), lab.policy.law().since), (cwnd, since));

        lab.congest(Signal::Loss, 100);
        let heard = lab.policy.law().since;
        lab.now += 700;
        lab.congest(Signal::Timeout { nth: 1 }, 50);
        lab.policy.on_spurious(Signal::Timeout { nth: 1 }, base::Instant::from_millis(lab.now));
        assert_eq!(lab.policy.law().since, heard, "only the timeout was a mistake, not the loss before it");
    }

    #[test]
    fn round_trip_scaling_is_relative_to_100_ms() {
        let law = Hamilton { since: Some(0), rtt_scaling: true, ..Hamilton::default() };
        for (rtt, part) in [(100_000, 1.0), (50_000, 0.5), (1_000, 0.1), (200_000, 2.0), (900_000, 2.0)] {
            let alpha = f64::from(law.alpha(5000, rtt)) / 1000.0;
            assert!((alpha - 45.0 * part).abs() < 0.01, "{rtt} us: {alpha}");
        }
        assert_eq!(law.alpha(0, 1), Reno::ONE);
    }

    #[test]
    fn without_a_loss_for_minutes_the_window_grows_no_faster_than_slow_start() {
        let mut lab = Lab::new(HTcp::new(), 10, Some(10));
        lab.ack(MSS);
        lab.now += 600_000;
        let before = lab.cwnd();
        lab.ack(2 * MSS);
        assert_eq!(lab.cwnd(), before + 2.0);
    }
}
