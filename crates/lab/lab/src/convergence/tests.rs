//! Goal: two flows whose rates approach each other are equal when a window's shares are, and not before.
use super::*;

/// One flow's rate falls from 100 to 50 in ten seconds, the other's rises from 0 to 50; the last began at 3.
fn time(until: u32) -> f64 {
    let mut convergence = Convergence::default();
    let (mut one, mut other) = (0.0, 0.0);
    for tenth in 30..until {
        let rate = (f64::from(tenth - 30) / 2.0).min(50.0);
        (one, other) = (one + 100.0 - rate, other + rate);
        convergence.push(f64::from(tenth) / 10.0, 3.0, || vec![one as u64, other as u64]);
    }
    convergence.time()
}

#[test]
fn rates_that_approach_each_other() {
    // Jain's index is 0.95 at 61.5 to 38.5: the mean of the window is there at 7.7 s, its end a second later.
    assert!((time(200) - 8.7).abs() < 0.2, "{}", time(200));
    assert!((time(100) - 6.9).abs() < 1e-9, "never: the rest of the run, {}", time(100));
    assert!(Convergence::default().time().is_nan());
}

#[test]
fn a_flow_alone_is_equal_to_nobody() {
    let mut convergence = Convergence::default();
    (0..100u32).for_each(|t| convergence.push(f64::from(t), 0.0, || vec![t.into()]));
    assert!(convergence.time().is_nan());
}
