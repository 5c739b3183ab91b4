//! Goal: growth stops where a queue builds up, goes on where a delay passes, and a short path never notices.
use super::*;
use crate::tests::testing::{Lab, MSS};
use crate::{Controller, Cubic, NewReno};

/// Rounds of the whole window with `rtt(round)` milliseconds, until the threshold is set or `most` are over:
/// the windows after each, in segments.
fn rounds<C: Controller>(
    policy: C,
    most: u64,
    rtt: impl Fn(u64, f64) -> u64,
) -> (std::vec::Vec<f64>, Lab<C>) {
    let mut lab = Lab::new(policy, 10, None);
    let mut windows = std::vec::Vec::new();
    for round in 0..most {
        lab.rtt = rtt(round, lab.cwnd());
        lab.round();
        windows.push(lab.cwnd());
        if lab.policy.window().ssthresh != u32::MAX {
            break;
        }
    }
    (windows, lab)
}

extern crate std;

/// RFC 9406, 4.2-1, 4.2-2, 4.2-3 and 4.2-5; RFC 9438, 4.10-1.
#[test]
fn a_queue_that_grows_ends_slow_start_before_it_overflows() {
    // 100 ms and 1 segment a millisecond: beyond 100 segments each one waits a millisecond longer.
    let queue = |_, cwnd: f64| 100 + (cwnd as u64).saturating_sub(100);
    let (windows, lab) = rounds(Cubic::new(), 40, queue);
    // The queue shows at 160 segments; five rounds of a quarter each follow.
    assert!((400.0..1000.0).contains(&lab.ssthresh()), "{windows:?}");
    assert_eq!(lab.policy.window().cwnd, lab.policy.window().ssthresh);
    let (windows, lab) = rounds(NewReno::new(), 40, queue);
    assert!((400.0..1000.0).contains(&lab.ssthresh()), "{windows:?}");
}

/// The windows after each of twelve rounds of 100 ms, the fifth and all that follow `more` ms longer.
fn with_step(limits: &[(&str, i64)], more: u64) -> (std::vec::Vec<f64>, f64) {
    let mut told = HyStartLimits::STANDARD;
    for &(name, number) in limits {
        told.set(name, number).unwrap();
    }
    let mut lab = Lab::new(Cubic::new(), 10, None);
    lab.hystart = std::boxed::Box::leak(std::boxed::Box::new(told));
    let windows = (0..12).map(|round| {
        lab.rtt = if round < 4 { 100 } else { 100 + more };
        lab.round();
        lab.cwnd()
    });
    (windows.collect(), lab.ssthresh())
}

/// RFC 9406, 4.2-2, 4.2-3 and 4.2-5.
#[test]
fn each_limit_decides_what_it_says() {
    let endless = f64::from(u32::MAX) / f64::from(MSS);
    let growth = |windows: &[f64], i: usize| windows[i] / windows[i - 1];
    // An eighth of 100 ms lies between 4 and 16.
    assert_eq!(with_step(&[], 12).1, endless);
    assert!(with_step(&[], 13).1 < endless);
    // A lower ceiling finds what an eighth does not, a higher floor overlooks what it does.
    assert_eq!(with_step(&[("maxrtt_thresh", 8_000)], 7).1, endless);
    assert!(with_step(&[("maxrtt_thresh", 8_000)], 9).1 < endless);
    let high = [("maxrtt_thresh", 40_000), ("minrtt_thresh", 20_000)];
    assert_eq!(with_step(&high, 19).1, endless);
    assert!(with_step(&high, 21).1 < endless);
    // How much slower it grows meanwhile, and for how long.
    let (quarter, _) = with_step(&[], 20);
    assert!((1.2..1.35).contains(&growth(&quarter, 5)), "{quarter:?}");
    let (none, _) = with_step(&[("css_growth_div", 1)], 20);
    assert!(growth(&none, 5) > 1.9, "{none:?}");
    let slow_rounds = |rounds| {
        let (windows, _) = with_step(&[("css_rounds", rounds)], 20);
        (1..12).filter(|&i| (1.1..1.5).contains(&growth(&windows, i))).count()
    };
    assert_eq!((slow_rounds(1), slow_rounds(3), slow_rounds(5)), (1, 3, 5));
    // More samples than a round has: nothing counts.
    assert_eq!(
        with_step(&[("n_rttsamples", 255)], 20).0[5],
        2.0 * with_step(&[("n_rttsamples", 255)], 20).0[4]
    );
}

/// RFC 9406, 4.2-4.
#[test]
fn a_delay_that_passes_does_not() {
    let (windows, lab) = rounds(Cubic::new(), 12, |round, _| if round == 4 { 140 } else { 100 });
    assert_eq!(lab.policy.window().ssthresh, u32::MAX, "{windows:?}");
    let growth = |i: usize| windows[i] / windows[i - 1];
    assert!(growth(3) > 1.9 && growth(8) > 1.9, "{windows:?}");
    assert!((1.0..1.9).contains(&growth(4)), "slower while unsure: {windows:?}");
}

/// RFC 9406, 4.2-2.
#[test]
fn below_four_milliseconds_nothing_counts() {
    let (windows, lab) = rounds(Cubic::new(), 10, |round, _| 1 + round % 4);
    assert_eq!(lab.policy.window().ssthresh, u32::MAX, "{windows:?}");
}

/// RFC 9406, 4.3-1.
#[test]
fn a_later_slow_start_runs_to_its_threshold() {
    let mut lab = Lab::new(Cubic::new(), 10, Some(640 * MSS));
    for doubled in [20.0, 40.0, 80.0, 160.0, 320.0, 640.0] {
        lab.round();
        assert_eq!(lab.cwnd(), doubled);
        lab.rtt *= 2;
    }
}

#[test]
fn switched_off_it_lets_the_queue_overflow() {
    let mut policy = NewReno::new();
    policy.set_tunable("hystart", 0).unwrap();
    let (windows, lab) = rounds(policy, 8, |_, cwnd| 100 + cwnd as u64);
    assert_eq!(lab.policy.window().ssthresh, u32::MAX, "{windows:?}");
    assert!(windows[7] > 2000.0);
}

/// The first acknowledgment at which Linux's rule ends slow start: one every `gap` microseconds, with samples of
/// `rtt` milliseconds where 100 are the least.
fn classic_stop(segments: u32, gap: u64, rtt: u64) -> Option<u64> {
    let mut start = HyStart::new(Rule::Classic);
    let lab = Lab::new(NewReno::new(), segments, None);
    (0..400).find(|&i| {
        let mut ack = lab.sample(MSS);
        ack.now = base::Instant::from_micros(1_000_000 + gap * i);
        ack.rtt = Some(base::Duration::from_millis(rtt));
        start.on_ack(&ack, segments) == Pace::Stop
    })
}

#[test]
fn the_classic_rule_stops_at_the_ninth_long_sample() {
    assert_eq!(classic_stop(400, 3_000, 113), Some(8), "more than an eighth");
    assert_eq!(classic_stop(400, 3_000, 112), None, "less");
    assert_eq!(classic_stop(15, 3_000, 200), None, "below sixteen segments it does not look");
    assert_eq!(Pace::Stop.of(1_000, &HyStartLimits::STANDARD), 0);
}

#[test]
fn a_train_as_long_as_half_the_path_ends_the_classic_slow_start() {
    assert_eq!(classic_stop(400, 1_000, 100), Some(51), "half of 100 ms, and half a millisecond");
    assert_eq!(classic_stop(40, 1_000, 100), None, "a round of forty is over before");
    assert_eq!(classic_stop(400, 3_000, 100), None, "three milliseconds between them are no train");
}

/// RFC 9406, 4.2-2.
#[test]
fn it_takes_eight_samples() {
    let mut start = HyStart::new(Rule::Plus);
    let lab = Lab::new(NewReno::new(), 10, None);
    let sample = |millis: u64, rtt: bool| {
        let mut ack = lab.sample(MSS);
        ack.rtt = rtt.then(|| base::Duration::from_millis(millis));
        ack
    };
    for _ in 0..10 {
        start.on_ack(&sample(100, true), 10);
    }
    for _ in 0..6 {
        assert_eq!(start.on_ack(&sample(200, true), 10), Pace::Full);
    }
    assert_eq!(start.on_ack(&sample(200, false), 10), Pace::Full, "no sample");
}
