//! Goal: logarithms are those of the library, and times of chance have the distribution they say.
use super::*;

#[test]
fn logarithms_are_right() {
    for x in [1.0, 0.5, 0.7, 0.71, 1e-16, 1.4, 1.5, 2.0, 1e300, 0.999_999_999] {
        assert!((ln(x) - f64::ln(x)).abs() <= 4.0 * f64::EPSILON * f64::ln(x).abs().max(0.01), "{x}");
    }
}

#[test]
fn exponential_times_have_their_mean_and_tail() {
    let mut rng = Rng::new(1);
    let all: [f64; 4] = core::array::from_fn(|_| {
        let times = (0..100_000).map(|_| rng.exponential());
        let (sum, late) = times.fold((0.0, 0), |(sum, late), t| (sum + t, late + u32::from(t > 3.0)));
        assert!((f64::from(late) / 1e5 - 0.0498).abs() < 0.003, "{late}");
        sum / 1e5
    });
    assert!(all.iter().all(|mean| (mean - 1.0).abs() < 0.02), "{all:?}");
}
