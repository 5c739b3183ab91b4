//! Goal: the published table of increases, the backoff's bounds, and neither of the two known mistakes of an older
//! implementation: the fade divides the queueing delay only, and congestion by ECN starts the clock once.
use super::*;
use crate::Controller;
use crate::tests::testing::{Lab, MSS};

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
