//! Goal: the textbook's numbers.
use super::*;

#[test]
fn the_interval_is_students() {
    let estimate = Estimate::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
    assert!((estimate.mean - 5.0).abs() < 1e-12);
    assert!((estimate.half - 2.365 * 2.138 / 8f64.sqrt()).abs() < 1e-3, "{estimate:?}");
    assert_eq!(Estimate::of(&[3.0]), Some(Estimate { mean: 3.0, half: 0.0, count: 1 }));
    assert_eq!(Estimate::of(&[]), None);
    assert!((student(31) - 2.0395).abs() < 0.003 && (student(1000) - 1.9623).abs() < 1e-3);
}

#[test]
fn quantiles_and_fairness() {
    let sorted = [1.0, 2.0, 3.0, 4.0];
    assert_eq!((quantile(&sorted, 0.0), quantile(&sorted, 0.5), quantile(&sorted, 1.0)), (1.0, 2.5, 4.0));
    assert!(quantile(&[], 0.5).is_nan() && median(&[]).is_nan());
    assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 3.0])), (2.0, 2.5));
    assert_eq!(ratio(&[2.0, 8.0, 3.0], &[1.0, 2.0, 3.0]), 2.0);
    assert_eq!(jain(&[1.0, 1.0, 1.0, 1.0]), 1.0);
    assert_eq!(jain(&[4.0, 0.0, 0.0, 0.0]), 0.25);
}
