//! Goal: the integers follow RFC 9438's equations, worked in floating point, within 3 %: the curve at the points
//! of a table, whole stages against an oracle over random paths, and each special case by hand.

use super::*;
use crate::tests::testing::{Lab, MSS, path};

fn lab(window: u32) -> Lab<Cubic> {
    Lab::new(Cubic::new(), window, Some(window))
}

fn close(got: f64, wanted: f64) -> bool {
    (got - wanted).abs() <= 0.03 * wanted.abs()
}

fn seconds(ms: u32) -> f64 {
    f64::from(ms) / 1000.0
}

#[test]
fn cube_roots_are_exact() {
    assert_eq!((cube_root(0), cube_root(1)), (0, 1));
    for root in [2u64, 999, 1000, 44_814, 1_642_110, (1 << 21) - 1] {
        assert_eq!(u64::from(cube_root(root.pow(3) - 1)), root - 1);
        assert_eq!(u64::from(cube_root(root.pow(3))), root);
        assert_eq!(u64::from(cube_root(root.pow(3) + 1)), root);
    }
}

/// RFC 9438, 4.2-1.
#[test]
fn the_curve_matches_the_table() {
    //          W_max  K       W(0)   W(1)    W(2)    W(K)    W(2K)
    let rows = [
        (10u32, 1.9574, 7.0, 9.649, 10.000, 10.0, 13.0),
        (100, 4.2172, 70.0, 86.681, 95.640, 100.0, 130.0),
        (1000, 9.0856, 700.0, 788.56, 857.71, 1000.0, 1300.0),
    ];
    for (w_max, k, w0, w1, w2, wk, w2k) in rows {
        let mut lab = lab(w_max);
        lab.lose();
        assert!(close(lab.ssthresh(), 0.7 * f64::from(w_max)));
        lab.ack(1);
        let curve = lab.policy.curve;
        assert!(close(seconds(curve.k), k), "K of {w_max}: {}", curve.k);
        let at = |ms| f64::from(curve.at(ms, MSS)) / f64::from(MSS);
        for (ms, wanted) in [(0, w0), (1000, w1), (2000, w2), (curve.k, wk), (2 * curve.k, w2k)] {
            assert!(close(at(ms), wanted), "W({ms} ms) of {w_max}: {} not {wanted}", at(ms));
        }
    }
}

/// RFC 9438, 4.2-1.
#[test]
fn the_window_itself_follows_the_curve() {
    for (w_max, points) in [(100, [(1000, 86.681), (2000, 95.640)]), (1000, [(1000, 788.56), (2000, 857.71)])]
    {
        let mut lab = lab(w_max);
        lab.lose();
        let begin = lab.now;
        for (ms, wanted) in points {
            while lab.now < begin + ms {
                lab.round();
            }
            assert!(close(lab.cwnd(), wanted), "cwnd of {w_max} after {ms} ms: {} not {wanted}", lab.cwnd());
        }
    }
}

/// RFC 9438, 4.7-1.
#[test]
fn fast_convergence_releases_bandwidth() {
    let mut lower = lab(100);
    lower.lose();
    while lower.cwnd() < 80.0 {
        lower.round();
    }
    let at_loss = lower.cwnd();
    lower.lose();
    lower.ack(1);
    let w_max = f64::from(lower.policy.curve.w_max) / f64::from(MSS);
    assert!(close(w_max, 0.85 * at_loss), "{w_max} after {at_loss}");
    assert!(close(lower.ssthresh(), 0.7 * at_loss));
    assert!(close(seconds(lower.policy.curve.k), (0.15 * at_loss / 0.4).cbrt()));

    let mut plain = lab(100);
    plain.policy.set_tunable("fast_convergence", 0).unwrap();
    plain.lose();
    let at_loss = plain.policy.window().cwnd;
    plain.lose();
    assert_eq!(plain.policy.curve.w_max, at_loss);

    let mut higher = lab(100);
    higher.lose();
    while higher.cwnd() < 120.0 {
        higher.round();
    }
    higher.lose();
    higher.ack(1);
    assert!(close(f64::from(higher.policy.curve.w_max) / f64::from(MSS), 120.0));
    assert!(close(seconds(higher.policy.curve.k), 4.4814));
}

/// RFC 9438 in floating point, segments and seconds, one acknowledgment at a time.
struct Oracle {
    cwnd: f64,
    w_max: f64,
    cwnd_prior: f64,
    w_est: f64,
    k: f64,
    start: f64,
}

impl Oracle {
    fn after_loss(cwnd: f64, start: f64) -> Self {
        let (w_max, low) = (cwnd, 0.7 * cwnd);
        Oracle { cwnd: low, w_max, cwnd_prior: cwnd, w_est: low, k: ((w_max - low) / 0.4).cbrt(), start }
    }

    fn ack(&mut self, segments: f64, now: f64, rtt: f64) {
        let t = now - self.start;
        let alpha = if self.w_est >= self.cwnd_prior { 1.0 } else { 3.0 * 0.3 / 1.7 };
        self.w_est += alpha * segments / self.cwnd;
        let curve = |t: f64| 0.4 * (t - self.k).powi(3) + self.w_max;
        if curve(t) < self.w_est {
            self.cwnd = self.cwnd.max(self.w_est);
        } else {
            let target = curve(t + rtt).clamp(self.cwnd, 1.5 * self.cwnd);
            self.cwnd += segments * (target - self.cwnd) / self.cwnd;
        }
    }
}

/// RFC 9438, 4.4-1 and 4.6-1.
#[test]
fn stages_follow_the_oracle_over_random_paths() {
    for seed in 0..60 {
        let mut rng = base::Rng::new(seed);
        let mut lab = lab(20 + rng.below(1500) as u32);
        lab.rtt = 10 + rng.below(190);
        let mut oracle = Oracle::after_loss(lab.cwnd(), lab.now as f64 / 1000.0);
        lab.lose();
        let end = lab.now + 12_000;
        lab.ack(1);
        while lab.now < end {
            lab.round_with(|lab| {
                let (now, rtt) = lab.seconds();
                oracle.ack(2.0, now, rtt);
            });
            let (got, wanted) = (lab.cwnd(), oracle.cwnd);
            // Within 3 %, or a segment and a half: byte counting steps by whole windows where the oracle glides.
            assert!(
                close(got, wanted) || (got - wanted).abs() <= 1.5,
                "seed {seed}, {} ms: {got} not {wanted}",
                lab.now
            );
        }
    }
}

/// RFC 9438, 4.3-1.
#[test]
fn reno_wins_where_the_round_trip_is_short() {
    // Closed form for a plateau of 100: always at 20 ms until 13.6 s, never at 100 ms.
    for (rtt, friendly) in [(20, true), (100, false)] {
        let mut lab = lab(100);
        lab.rtt = rtt;
        lab.lose();
        let begin = lab.now;
        while lab.now < begin + 3000 {
            lab.round();
        }
        let curve = lab.policy.curve;
        let reno_rules = curve.w_est > curve.at((lab.now - begin) as u32, MSS);
        assert_eq!(reno_rules, friendly, "at {rtt} ms: {curve:?}");
    }
}

/// RFC 9438, 4.2-2.
#[test]
fn time_with_too_little_to_send_does_not_count() {
    let mut lab = lab(100);
    lab.lose();
    for _ in 0..10 {
        lab.round();
    }
    let (cwnd, twin_cwnd) = {
        let mut twin = Lab { policy: lab.policy.clone(), ..lab };
        twin.round();
        let idle = AckSample { window_limited: false, ..lab.sample(2 * MSS) };
        lab.policy.on_ack(&idle);
        lab.now += 60_000;
        lab.policy.on_ack(&AckSample { now: Instant::from_millis(lab.now), ..idle });
        lab.round();
        (lab.cwnd(), twin.cwnd())
    };
    assert!(close(cwnd, twin_cwnd), "{cwnd} after a minute's pause, {twin_cwnd} without");
}

/// RFC 9438, 4.8-1.
#[test]
fn the_curve_is_flat_after_a_timeout() {
    let mut lab = lab(100);
    lab.congest(Signal::Timeout { nth: 1 }, 100);
    assert_eq!((lab.cwnd(), lab.ssthresh()), (1.0, 70.0));
    while lab.policy.reno.in_slow_start() {
        lab.round();
    }
    lab.round();
    assert_eq!(lab.policy.curve.k, 0);
    assert!(close(f64::from(lab.policy.curve.w_max) / f64::from(MSS), 70.0));
}

/// RFC 9438, 4.9-1.
#[test]
fn a_mistake_gives_everything_back() {
    for signal in [Signal::Loss, Signal::Timeout { nth: 1 }] {
        let mut lab = lab(100);
        lab.lose();
        for _ in 0..20 {
            lab.round();
        }
        let mut twin = Lab { policy: lab.policy.clone(), ..lab };
        lab.congest(signal, 90);
        if matches!(signal, Signal::Timeout { .. }) {
            lab.congest(Signal::Timeout { nth: 2 }, 90);
        }
        lab.now += 5000;
        lab.policy.on_spurious(signal, Instant::from_millis(lab.now));
        assert_eq!(lab.policy.window(), twin.policy.window());
        for _ in 0..20 {
            lab.round();
            twin.round();
            assert!(close(lab.cwnd(), twin.cwnd()), "{signal:?}: {} not {}", lab.cwnd(), twin.cwnd());
        }
        let window = lab.policy.window();
        lab.policy.on_spurious(signal, Instant::from_millis(lab.now));
        assert_eq!(lab.policy.window(), window, "only once");
    }
}

/// RFC 9438, 4.8-1.
#[test]
fn a_second_timeout_keeps_the_threshold() {
    let mut lab = lab(100);
    lab.congest(Signal::Timeout { nth: 1 }, 100);
    lab.congest(Signal::Timeout { nth: 2 }, 100);
    assert_eq!((lab.cwnd(), lab.ssthresh()), (1.0, 70.0));
}

#[test]
fn a_restart_after_idling_climbs_back_towards_the_plateau() {
    let mut lab = lab(100);
    lab.lose();
    (0..20).for_each(|_| lab.round());
    lab.policy.on_idle_restart(Instant::from_millis(lab.now), Duration::from_secs(9), &path(10, None));
    assert_eq!(lab.cwnd(), 10.0);
    lab.now += 9000;
    while lab.policy.reno.in_slow_start() {
        lab.round();
    }
    let resumed = lab.cwnd();
    lab.round();
    assert!(lab.cwnd() < resumed * 1.1, "no leap: {} from {resumed}", lab.cwnd());
    assert!(lab.policy.curve.k > 0);
}

#[test]
fn a_new_mss_begins_a_new_stage() {
    let mut lab = lab(100);
    lab.lose();
    (0..5).for_each(|_| lab.round());
    let before = lab.policy.window();
    lab.policy.on_mss_change(500);
    let window = lab.policy.window();
    assert_eq!(window.cwnd / 500, before.cwnd / MSS);
    lab.ack(1);
    let plateau = f64::from(lab.policy.curve.w_max - window.cwnd) / 500.0;
    assert!(close(seconds(lab.policy.curve.k), (plateau / 0.4).cbrt()));
}

/// RFC 8511, 3-1.
#[test]
fn a_mark_takes_less_than_a_loss_if_abe_is_on() {
    let left = |signal, abe| {
        let mut lab = lab(100);
        lab.policy.set_tunable("abe", abe).unwrap();
        lab.congest(signal, 100);
        lab.ssthresh()
    };
    assert_eq!(lab(100).policy.tunable("abe"), Some(0), "off at first");
    assert_eq!((left(Signal::Ecn, 0), left(Signal::Ecn, 1)), (70.0, 85.0));
    assert_eq!(left(Signal::Loss, 1), 70.0, "a loss is a loss");
    assert_eq!(left(Signal::Timeout { nth: 1 }, 1), 70.0);
}
