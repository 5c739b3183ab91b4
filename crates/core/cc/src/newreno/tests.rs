//! Goal: the numbers of RFC 5681, 6582 and 3465, worked out by hand, in segments; and the law that follows from
//! them, the mean window under random loss.

use super::*;
use crate::tests::testing::{Lab, MSS, path};
use crate::{AckSample, Controller, Signal, TunableError};
use base::{Duration, Instant};

fn lab(initial: u32, ssthresh: Option<u32>) -> Lab<NewReno> {
    Lab::new(NewReno::new(), initial, ssthresh)
}

/// RFC 5681, 3.1-5; RFC 3465, 2.2-1; RFC 9406, 4.3-3.
#[test]
fn slow_start_counts_bytes_up_to_a_limit() {
    let mut lab_two = lab(10, None);
    (0..5).for_each(|_| lab_two.ack(2 * MSS));
    assert_eq!(lab_two.cwnd(), 20.0);

    let mut lab_one = lab(10, None);
    lab_one.policy.set_tunable("abc_limit", 1).unwrap();
    (0..5).for_each(|_| lab_one.ack(2 * MSS));
    assert_eq!(lab_one.cwnd(), 15.0);

    for (limit, grown, paced) in [(None, 18.0, 20.0), (Some(2), 12.0, 12.0), (Some(255), 20.0, 20.0)] {
        let mut stretched = [lab(10, None), lab(10, None)];
        for (lab, is_paced) in stretched.iter_mut().zip([false, true]) {
            if let Some(limit) = limit {
                lab.policy.set_tunable("abc_limit", limit).unwrap();
            }
            let sample = AckSample { paced: is_paced, ..lab.sample(10 * MSS) };
            lab.policy.on_ack(&sample);
        }
        let cwnds = stretched.map(|lab| lab.cwnd());
        assert_eq!(cwnds, [grown, paced], "a stretch acknowledgment is worth L segments, {limit:?}");
    }

    let mut merged = lab(10, None);
    merged.policy.set_tunable("abc_limit", 2).unwrap();
    let sample = AckSample { segments: 5, ..merged.sample(10 * MSS) };
    merged.policy.on_ack(&sample);
    assert_eq!(merged.cwnd(), 20.0, "five merged acknowledgments are worth five");
}

/// Before RFC 3465 an acknowledgment counted, whatever it covered.
#[test]
fn without_byte_counting_an_ack_is_worth_a_segment() {
    let mut starting = lab(10, None);
    starting.policy.set_tunable("abc_limit", 0).unwrap();
    (0..5).for_each(|_| starting.ack(2 * MSS));
    assert_eq!(starting.cwnd(), 15.0);

    let mut avoiding = lab(10, Some(10));
    avoiding.policy.set_tunable("abc_limit", 0).unwrap();
    (0..5).for_each(|_| avoiding.ack(2 * MSS));
    assert!((avoiding.cwnd() - 10.490).abs() < 0.001, "{}", avoiding.cwnd());
}

/// RFC 5681, 3.1-6.
#[test]
fn dividing_an_ack_gains_nothing() {
    let mut divided = lab(10, None);
    (0..10).for_each(|_| divided.ack(MSS / 10));
    assert_eq!(divided.cwnd(), 11.0);
    let mut divided = lab(10, Some(10));
    (0..100).for_each(|_| divided.ack(MSS / 10));
    assert_eq!(divided.cwnd(), 11.0);
}

/// RFC 9293, MUST-19; RFC 5681, 3.1-7 and 3.1-8; RFC 3465, 2.1-1.
#[test]
fn avoidance_adds_one_segment_a_window_and_keeps_the_remainder() {
    let mut lab = lab(10, Some(10));
    (0..4).for_each(|_| lab.ack(2 * MSS));
    assert_eq!(lab.cwnd(), 10.0);
    lab.ack(3 * MSS);
    assert_eq!(lab.cwnd(), 11.0);
    lab.ack(10 * MSS);
    assert_eq!(lab.cwnd(), 12.0, "one segment was left over from the last window");
}

#[test]
fn slow_start_ends_on_the_threshold_and_hands_the_rest_to_avoidance() {
    let mut lab = lab(9, Some(10));
    lab.ack(2 * MSS);
    assert_eq!(lab.cwnd(), 10.0);
    (0..3).for_each(|_| lab.ack(3 * MSS));
    assert_eq!(lab.cwnd(), 11.0);
}

#[test]
fn a_loss_halves_once_and_recovery_holds() {
    let mut lab = lab(10, None);
    lab.congest(Signal::Loss, 10);
    assert_eq!((lab.ssthresh(), lab.cwnd()), (5.0, 5.0));
    let held = AckSample { in_recovery: true, ..lab.sample(3 * MSS) };
    lab.policy.on_ack(&held);
    assert_eq!(lab.cwnd(), 5.0);
    lab.recovered(4);
    assert_eq!(lab.cwnd(), 5.0);
    lab.congest(Signal::Loss, 5);
    assert_eq!(lab.ssthresh(), 2.5);
    lab.congest(Signal::Loss, 1);
    assert_eq!(lab.ssthresh(), 2.0, "two segments at least");
}

/// RFC 5681, 3.2-8; RFC 6582, 3.2-2.
#[test]
fn recovery_ends_without_a_burst() {
    let mut lab = lab(20, None);
    lab.congest(Signal::Loss, 20);
    lab.recovered(0);
    assert_eq!((lab.cwnd(), lab.ssthresh()), (2.0, 10.0));
}

/// RFC 5681, 3.2-5.
#[test]
fn limited_transmit_does_not_count_as_flight() {
    let mut lab = lab(10, None);
    lab.congest(Signal::Loss, 12);
    assert_eq!(lab.ssthresh(), 5.0);
}

/// RFC 5681, 3.1-9, 3.1-10 and 3.1-11; RFC 3465, 2.3-1.
#[test]
fn a_timeout_starts_over_and_backing_off_keeps_the_threshold() {
    let mut lab = lab(20, None);
    lab.congest(Signal::Timeout { nth: 1 }, 20);
    assert_eq!((lab.cwnd(), lab.ssthresh()), (1.0, 10.0));
    lab.congest(Signal::Timeout { nth: 2 }, 20);
    assert_eq!((lab.cwnd(), lab.ssthresh()), (1.0, 10.0));
    lab.ack(2 * MSS);
    assert_eq!(lab.cwnd(), 2.0, "L is 1 while repairing");
    lab.recovered(2);
    lab.ack(2 * MSS);
    assert_eq!(lab.cwnd(), 3.0, "also for the acknowledgment that ends the repair");
    lab.ack(2 * MSS);
    assert_eq!(lab.cwnd(), 5.0, "and 2 again after");
}

#[test]
fn a_timeout_in_recovery_does_not_halve_twice() {
    let mut lab = lab(20, None);
    lab.congest(Signal::Loss, 20);
    lab.congest(Signal::Timeout { nth: 1 }, 20);
    assert_eq!((lab.cwnd(), lab.ssthresh()), (1.0, 10.0));
}

#[test]
fn mistakes_are_undone_once_and_ecn_is_no_mistake() {
    let mut lab = lab(20, None);
    lab.congest(Signal::Timeout { nth: 1 }, 20);
    lab.congest(Signal::Timeout { nth: 2 }, 20);
    lab.policy.on_spurious(Signal::Timeout { nth: 2 }, Instant::ZERO);
    assert_eq!((lab.cwnd(), lab.policy.window().ssthresh), (20.0, u32::MAX));
    lab.lose();
    lab.congest(Signal::Ecn, 10);
    let reduced = lab.policy.window();
    lab.policy.on_spurious(Signal::Loss, Instant::ZERO);
    assert_eq!(lab.policy.window(), reduced);
}

/// RFC 5681, 4.1-1.
#[test]
fn idling_restarts_from_the_initial_window_and_remembers() {
    let mut lab = lab(40, Some(10));
    lab.policy.on_idle_restart(Instant::ZERO, Duration::from_secs(3), &path(10, None));
    assert_eq!((lab.cwnd(), lab.ssthresh()), (10.0, 30.0));
    lab.policy.on_idle_restart(Instant::ZERO, Duration::from_secs(3), &path(10, None));
    assert_eq!((lab.cwnd(), lab.ssthresh()), (10.0, 30.0));
}

/// RFC 1191, 6.4-1; RFC 5681, 3.1-13.
#[test]
fn a_smaller_mss_keeps_the_segments_and_a_larger_one_the_bytes() {
    let mut lab = lab(10, Some(10));
    lab.policy.on_mss_change(500);
    assert_eq!((lab.policy.window().cwnd, lab.policy.window().ssthresh), (5_000, 5_000));
    lab.policy.on_mss_change(1_000);
    assert_eq!((lab.policy.window().cwnd, lab.policy.window().ssthresh), (5_000, 5_000));
    lab.policy.on_mss_change(40_000);
    assert_eq!((lab.policy.window().cwnd, lab.policy.window().ssthresh), (40_000, 80_000));
}

#[test]
fn an_application_that_does_not_fill_the_window_does_not_widen_it() {
    let mut lab = lab(10, None);
    let sample = AckSample { window_limited: false, ..lab.sample(2 * MSS) };
    (0..50).for_each(|_| lab.policy.on_ack(&sample));
    assert_eq!(lab.cwnd(), 10.0);
}

#[test]
fn tunables_have_names_and_bounds() {
    let mut policy = NewReno::new();
    assert_eq!(policy.set_tunable("abc_limit", 256), Err(TunableError::OutOfRange { min: 0, max: 255 }));
    assert_eq!(policy.set_tunable("abc_limit", -1), Err(TunableError::OutOfRange { min: 0, max: 255 }));
    assert_eq!(policy.set_tunable("fast_convergence", 1), Err(TunableError::Unknown));
}

/// Mathis, Semke, Mahdavi and Ott 1997: the mean window is 3/4 sqrt(8 / (3p)) segments.
#[test]
fn the_mean_window_follows_the_square_root_law() {
    const P: f64 = 1e-3;
    const SEED: u64 = 5681;
    let mut rng = base::Rng::new(SEED);
    let mut lab = lab(10, Some(40));
    let (mut sum, rounds) = (0.0, 40_000);
    for _ in 0..rounds {
        sum += lab.cwnd();
        let lost = rng.chance(1.0 - (1.0 - P).powf(lab.cwnd()));
        lab.round();
        if lost {
            lab.lose();
        }
    }
    let (mean, law) = (sum / f64::from(rounds), 0.75 * (8.0 / (3.0 * P)).sqrt());
    let ratio = mean / law;
    assert!((0.95..1.15).contains(&ratio), "mean {mean}, law {law}, ratio {ratio}, seed {SEED}");
}

/// Windows, in segments, that one signal leaves of 100.
fn left(signal: Signal, tunables: &[(&str, i64)]) -> f64 {
    let mut lab = lab(100, Some(100));
    for (name, value) in tunables {
        lab.policy.set_tunable(name, *value).unwrap();
    }
    lab.congest(signal, 100);
    lab.ssthresh()
}

/// RFC 8511, 3-1.
#[test]
fn a_mark_takes_less_than_a_loss_if_abe_is_on() {
    let timeout = Signal::Timeout { nth: 1 };
    assert_eq!(left(Signal::Ecn, &[]), 50.0, "off at first");
    assert_eq!(left(Signal::Ecn, &[("beta_ecn", 90)]), 50.0, "without abe it says nothing");
    assert_eq!(left(Signal::Ecn, &[("abe", 1)]), 80.0);
    assert_eq!(left(Signal::Ecn, &[("abe", 1), ("beta_ecn", 90), ("beta", 40)]), 90.0);
    assert_eq!(left(Signal::Ecn, &[("beta", 40)]), 40.0);
    assert_eq!(left(Signal::Loss, &[("abe", 1)]), 50.0, "a loss is a loss");
    assert_eq!(left(Signal::Loss, &[("abe", 1), ("beta", 60)]), 60.0);
    assert_eq!(left(timeout, &[("abe", 1), ("beta", 60)]), 50.0);
}

/// Returns the window after a loss, of 100 segments that a mark has reduced before.
fn left_after_a_mark(tunables: &[(&str, i64)]) -> (bool, f64) {
    let mut lab = lab(100, Some(100));
    for (name, value) in tunables {
        lab.policy.set_tunable(name, *value).unwrap();
    }
    lab.congest(Signal::Ecn, 100);
    lab.after_mark = true;
    // Fewer are in flight by now, and that is no reason to take more.
    lab.congest(Signal::Loss, 60);
    (lab.policy.needs().losses_after_marks, lab.ssthresh())
}

/// RFC 8511, 3-1.
#[test]
fn a_loss_after_a_mark_takes_the_rest_if_it_is_asked_to() {
    let on = [("abe", 1), ("abe_frlossreduce", 1)];
    assert_eq!(left_after_a_mark(&on), (true, 50.0), "eighty by the mark, fifty by both");
    assert_eq!(left_after_a_mark(&[on[0], on[1], ("beta_ecn", 90), ("beta", 60)]), (true, 60.0));
    assert_eq!(left_after_a_mark(&[on[0], on[1], ("beta_ecn", 40)]), (true, 40.0), "never more than before");
    assert!(!left_after_a_mark(&on[..1]).0, "off at first");
    assert!(!left_after_a_mark(&on[1..]).0, "without abe the mark has taken it all");
    let mut lab = lab(100, Some(100));
    lab.policy.set_tunable("abe", 1).unwrap();
    lab.congest(Signal::Ecn, 100);
    lab.after_mark = true;
    lab.congest(Signal::Loss, 80);
    lab.policy.on_spurious(Signal::Loss, Instant::from_millis(lab.now));
    assert_eq!(lab.ssthresh(), 80.0, "a mistaken loss gives back what it took, and not what the mark took");
}
