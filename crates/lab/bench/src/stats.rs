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

#[cfg(test)]
mod tests {
    //! Goal: odd, even and empty sets.
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(ratio(&[2.0, 8.0, 3.0], &[1.0, 2.0, 3.0]), 2.0);
    }
}
