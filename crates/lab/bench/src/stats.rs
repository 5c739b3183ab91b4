//! Medians and ratios of few noisy measurements.

/// The median; 0 of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// The median of the pairwise ratios `a[i] / b[i]`: fair to drift, which hits both of a pair alike.
pub fn ratio(a: &[f64], b: &[f64]) -> f64 {
    let ratios: Vec<_> = a.iter().zip(b).map(|(a, b)| a / b).collect();
    median(&ratios)
}

/// The ends of an interval that holds the median of what `values` are drawn from with at least 93 %: the closest pair
/// of the values, counted from both ends, for which that is true, whatever their distribution; the least and the
/// greatest where they are too few. 0 of nothing.
pub fn interval(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (Some(&low), Some(&high)) = (sorted.first(), sorted.last()) else { return (0.0, 0.0) };
    // The chance that the median lies below the k-th value is that of fewer than k of n tosses: (n over i) / 2^n
    // summed.
    let n = sorted.len();
    let (mut below, mut term, mut ends) = (0.0, 0.5f64.powi(n as i32), (low, high));
    for k in 0..n / 2 {
        below += term;
        if 1.0 - 2.0 * below < 0.93 {
            break;
        }
        ends = (sorted[k], sorted[n - 1 - k]);
        term *= (n - k) as f64 / (k + 1) as f64;
    }
    ends
}

#[cfg(test)]
mod tests {
    //! Goal: odd, even and empty sets, and the intervals of the sign test's tables.
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(interval(&[]), (0.0, 0.0));
        let first = |n: u32| (1..=n).map(f64::from).collect::<Vec<_>>();
        assert_eq!(
            [3, 5, 7, 8].map(|n| interval(&first(n))),
            [(1.0, 3.0), (1.0, 5.0), (1.0, 7.0), (1.0, 8.0)]
        );
        assert_eq!([9, 12, 20].map(|n| interval(&first(n))), [(2.0, 8.0), (3.0, 10.0), (6.0, 15.0)]);
        assert_eq!(ratio(&[2.0, 8.0, 3.0], &[1.0, 2.0, 3.0]), 2.0);
    }
}
