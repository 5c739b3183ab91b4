//! Goal: a sawtooth drawn by hand has the period, the part kept and the growth it was drawn with.
use super::*;

#[test]
fn a_drawn_sawtooth() {
    let mut sawtooth = Sawtooth::default();
    for tenth in 0..1000 {
        // Every 5 s from 50 to 100, ten segments a second.
        sawtooth.push(f64::from(tenth) / 10.0, 50.0 + f64::from(tenth % 50), 0.2, false);
    }
    assert!((sawtooth.period() - 5.0).abs() < 1e-9);
    assert!((sawtooth.kept() - 50.0 / 99.0).abs() < 1e-9);
    assert!((sawtooth.growth_in_first_second() - 10.0).abs() < 1e-9);
    assert!((sawtooth.growth_a_round(0.0) - 2.0).abs() < 1e-9);
    assert!((sawtooth.growth_a_round(3.0) - 2.0).abs() < 1e-9);
    assert!(sawtooth.growth_a_round(4.5).is_nan(), "no fall lasts that long");
}

#[test]
fn a_fall_in_two_steps_is_one() {
    let mut sawtooth = Sawtooth::default();
    for (t, cwnd) in [(0.0, 100.0), (1.0, 80.0), (2.0, 50.0), (3.0, 51.0), (4.0, 100.0), (5.0, 50.0)] {
        sawtooth.push(t, cwnd, 0.1, false);
    }
    assert_eq!((sawtooth.period(), sawtooth.falls().len()), (4.0, 2));
    assert!(Sawtooth::default().period().is_nan());
}

/// The second after a fall is that after its repair, though the window stays where it is for longer.
#[test]
fn a_fall_is_over_when_it_is_repaired() {
    let mut sawtooth = Sawtooth::default();
    for tenth in 0..100i32 {
        let grown = 50.0 + f64::from((tenth - 15).max(0) / 5);
        let cwnd = if tenth < 5 { 100.0 } else { grown };
        sawtooth.push(f64::from(tenth) / 10.0, cwnd, 1.0, (5..10).contains(&tenth));
    }
    // From 0.9 s to 1.9 s, and from there to 2.9 s.
    assert_eq!((sawtooth.kept(), sawtooth.growth_in_first_second()), (0.5, 0.0));
    assert_eq!((sawtooth.growth_a_round(0.0), sawtooth.growth_a_round(1.0)), (0.0, 2.0));
}

#[test]
fn delays_have_quantiles() {
    let mut delays = Delays::default();
    [3.0, 1.0, 2.0].into_iter().for_each(|ms| delays.push(ms));
    assert_eq!(delays.steps(2), [1.0, 2.0, 3.0]);
    assert_eq!(delays.mean(), 2.0);
    assert!(Delays::default().steps(2).is_empty());
}
