//! Goal: few marks take little, short round trips grow slowly, and a deep queue under marks is answered as ever.
use super::*;
use crate::tests::testing::{Lab, MSS};
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
