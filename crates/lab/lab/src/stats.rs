//! Means, quantiles, confidence.

/// A mean over seeds with its 95 % confidence interval (Student's t).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the interval; 0 for a single value.
    pub half: f64,
    /// Values it is of.
    pub count: usize,
}

impl Estimate {
    /// Of `values`; `None` of nothing.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = mean(values);
        let half = if count < 2 {
            0.0
        } else {
            let variance =
                values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1) as f64;
            student(count - 1) * (variance / count as f64).sqrt()
        };
        Some(Estimate { mean, half, count })
    }

    /// Lower and upper end.
    pub fn interval(&self) -> (f64, f64) {
        (self.mean - self.half, self.mean + self.half)
    }
}

/// The mean of `values`; NaN of nothing.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The 97.5 % quantile of Student's distribution with so many degrees of freedom (1 and more).
fn student(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    TABLE.get(degrees - 1).copied().unwrap_or(1.96 + 2.4 / degrees as f64)
}

/// The `q` quantile (0 to 1) of values in ascending order, between neighbours by proportion; NaN of nothing.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = q.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * at.fract()
}

/// The median of values in any order; NaN of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, 0.5)
}

/// The median of the pairwise ratios `a[i] / b[i]`: fair to drift, which hits both of a pair alike.
pub fn ratio(a: &[f64], b: &[f64]) -> f64 {
    let ratios: Vec<_> = a.iter().zip(b).map(|(a, b)| a / b).collect();
    median(&ratios)
}

/// Jain's index of fairness: 1 if all shares are equal, 1/n if one has everything; NaN of nothing.
pub fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = (shares.iter().sum::<f64>(), shares.iter().map(|share| share * share).sum::<f64>());
    sum * sum / (shares.len() as f64 * squares)
}

#[cfg(test)]
mod tests;
