//! Goal: alpha is what real numbers say, the window gives way by half of it, and losses still halve.
use super::*;
use crate::tests::testing::{Lab, MSS};
use crate::{Controller, TunableError};
use base::{Instant, Rng};

/// In avoidance, alpha being so many 1024ths.
fn lab(alpha: i64) -> Lab<Dctcp> {
    let mut policy = Dctcp::new();
    policy.set_tunable("alpha", alpha).unwrap();
    Lab::new(policy, 100, Some(50))
}

/// `bytes` arrive, of which `marked` with a mark.
fn arrive(lab: &mut Lab<Dctcp>, bytes: u32, marked: u32) {
    let feedback = EcnFeedback {
        now: Instant::from_millis(lab.now),
        segments: bytes.div_ceil(MSS),
        marked_segments: marked.div_ceil(MSS),
        bytes,
        marked_bytes: marked,
    };
    lab.policy.on_ecn(&feedback);
    lab.ack(bytes);
}

/// A whole window arrives and ends the round: so many per cent of it marked.
fn window(lab: &mut Lab<Dctcp>, percent: u32) {
    let cwnd = lab.policy.window().cwnd;
    arrive(lab, cwnd, cwnd / 100 * percent);
}

fn alpha(lab: &Lab<Dctcp>) -> f64 {
    f64::from(lab.policy.law().alpha) / f64::from(ONE)
}

/// RFC 8257, 3.3-3.
#[test]
fn one_marked_window_takes_a_thirty_second_and_full_alpha_halves() {
    let mut lab = lab(0);
    window(&mut lab, 100);
    assert_eq!(alpha(&lab), 0.0625);
    let before = lab.cwnd();
    lab.congest(Signal::Ecn, before as u32);
    assert!((lab.cwnd() - before * 0.96875).abs() < 0.001, "to the byte: {} of {before}", lab.cwnd());

    let mut lab = self::lab(1024);
    assert_eq!(alpha(&lab), 1.0);
    lab.congest(Signal::Ecn, 100);
    assert_eq!((lab.cwnd(), lab.ssthresh()), (50.0, 50.0));
}

/// RFC 8257, 3.3-1 and 4.2-1.
#[test]
fn alpha_agrees_with_real_numbers() {
    for shift in 0..=SHIFT_MAX {
        let mut policy = Dctcp::new();
        policy.set_tunable("shift_g", shift.into()).unwrap();
        let mut lab = Lab::new(policy, 100, Some(50));
        let (mut rng, mut real) = (Rng::new(shift.into()), 1.0);
        let g = 0.5f64.powi(shift.into());
        for nth in 0..3000u64 {
            // Seasons, so that it goes up and down.
            let percent = if nth / 300 % 2 == 0 { rng.below(101) } else { 0 };
            let cwnd = lab.policy.window().cwnd;
            let marked = cwnd / 100 * percent as u32;
            arrive(&mut lab, cwnd, marked);
            real = real * (1.0 - g) + g * f64::from(marked) / f64::from(cwnd);
            // Each step rounds by a unit or two, and forgets with g what earlier ones did.
            let error = 3.0 / f64::from(ONE) / g;
            assert!((alpha(&lab) - real).abs() <= error, "g 2^-{shift}: {} {real}", alpha(&lab));
        }
    }
}

/// RFC 8257, 3.3-2.
#[test]
fn a_window_is_counted_whole_however_its_acknowledgments_come() {
    let mut lab = lab(0);
    // What is in flight when a round ends makes the next: nothing is learned before it has arrived.
    lab.ack(MSS);
    for nth in 0..98 {
        arrive(&mut lab, MSS, if nth % 2 == 0 { MSS } else { 0 });
        assert_eq!(alpha(&lab), 0.0, "after {nth}");
    }
    arrive(&mut lab, MSS, MSS);
    assert!((alpha(&lab) - 50.0 / 99.0 / 16.0).abs() < 1e-6, "{}", alpha(&lab));
}

/// RFC 8257, 3.5-1 and 3.5-2.
#[test]
fn losses_and_timeouts_are_answered_as_ever() {
    for signal in [Signal::Loss, Signal::Timeout { nth: 1 }] {
        let mut lab = lab(0);
        lab.congest(signal, 100);
        assert_eq!(lab.ssthresh(), 50.0);
    }
}

#[test]
fn the_first_mark_may_halve() {
    let mut policy = Dctcp::new();
    for (name, value) in [("alpha", 0), ("slowstart", 1)] {
        policy.set_tunable(name, value).unwrap();
    }
    let mut lab = Lab::new(policy, 100, None);
    lab.congest(Signal::Ecn, 100);
    assert_eq!(lab.cwnd(), 50.0);
    lab.congest(Signal::Ecn, 50);
    assert_eq!(lab.cwnd(), 50.0, "alpha is still 0");
}

#[test]
fn tunables_have_bounds() {
    let mut policy = Dctcp::new();
    for (name, most) in [("shift_g", 10), ("alpha", 1024), ("slowstart", 1)] {
        assert_eq!(policy.set_tunable(name, most), Ok(()));
        for value in [-1, most + 1] {
            let error = Err(TunableError::OutOfRange { min: 0, max: most });
            assert_eq!(policy.set_tunable(name, value), error, "{name} {value}");
        }
    }
}
