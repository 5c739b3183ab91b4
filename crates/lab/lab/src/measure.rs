//! The measures: their names, and how those that are more than a sum are made.

use crate::stats::{mean, quantile};

macro_rules! measures {
    ($($constant:ident = $name:literal: $help:literal),+ $(,)?) => {
        /// Names of measures.
        pub(crate) mod name {
            $(pub(crate) const $constant: &str = $name;)+
        }
        /// Every measure and what it says. Those of a group of flows have its number behind a dot, the first being 1.
        pub fn measures() -> &'static [(&'static str, &'static str)] {
            &[$(($name, $help)),+]
        }
    };
}

measures! {
    GOODPUT = "goodput_mbit": "Payload that receivers read, Mbit/s; `goodput_mbit.1` is that of the first group.",
    UTILISATION = "utilisation": "Payload as a part of the bottleneck's rate.",
    FAIRNESS = "fairness": "Jain's index over the goodput of all flows.",
    RETRANSMITS = "retransmits": "Segments sent again, a flow on average, over the whole run.",
    CWND_MEAN = "cwnd_mean": "Congestion window, segments, on average over samples and flows.",
    CWND_MAX = "cwnd_max": "Greatest sample of it.",
    CWND_MIN = "cwnd_min": "Least sample of it.",
    SRTT = "srtt_ms": "Smoothed round-trip time on average, milliseconds.",
    QUEUE_MEAN = "queue_mean": "Octets before the bottleneck, on average.",
    QUEUE_MAX = "queue_max": "Greatest sample of them.",
    PERIOD = "period_s": "Time between two reductions of the first flow's window, seconds.",
    KEPT = "kept": "Part of its window that a reduction leaves.",
    GROWTH = "growth_1s": "Segments by which it grows in the second after a reduction.",
    DELAY_MEAN = "delay_mean_ms": "Time a datagram waits before the bottleneck, milliseconds.",
    DELAY_P50 = "delay_p50_ms": "Median of it.",
    DELAY_P95 = "delay_p95_ms": "95th percentile of it.",
    DELAY_MAX = "delay_max_ms": "Greatest.",
    CBR_LOSS = "cbr_loss_percent": "Datagrams dropped, per cent.",
    FCT_MEAN = "fct_mean_ms": "Time from connect to the receiver's end of a flow with an end, milliseconds.",
    FCT_P50 = "fct_p50_ms": "Median of it.",
    FCT_P95 = "fct_p95_ms": "95th percentile of it.",
    FCT_P99 = "fct_p99_ms": "99th percentile of it.",
    FAILED = "failed": "Flows that could not be opened or broke.",
}

/// Is it a measure, or one of a group?
pub(crate) fn is_measure(name: &str) -> bool {
    let whole = name.split_once('.').map_or(name, |(whole, _)| whole);
    measures().iter().any(|(known, _)| *known == whole)
}

/// Queueing delays, milliseconds.
#[derive(Default)]
pub(crate) struct Delays {
    all: Vec<f64>,
    sorted: bool,
}

impl Delays {
    pub(crate) fn push(&mut self, ms: f64) {
        self.all.push(ms);
        self.sorted = false;
    }

    pub(crate) fn mean(&self) -> f64 {
        mean(&self.all)
    }

    pub(crate) fn quantile(&mut self, q: f64) -> f64 {
        if !self.sorted {
            self.all.sort_by(f64::total_cmp);
            self.sorted = true;
        }
        quantile(&self.all, q)
    }

    /// The whole distribution in so many equal steps; empty if there is none.
    pub(crate) fn steps(&mut self, steps: usize) -> Vec<f64> {
        let count = if self.all.is_empty() { 0 } else { steps + 1 };
        (0..count).map(|nth| self.quantile(nth as f64 / steps as f64)).collect()
    }
}

/// A window over time, and its falls: a sample at most nine tenths of the one before begins one, and it lasts until the
/// window grows again.
#[derive(Default)]
pub(crate) struct Sawtooth {
    samples: Vec<(f64, f64)>,
}

struct Fall {
    /// When it began, when the window was least.
    at: f64,
    bottom: f64,
    kept: f64,
    low: f64,
}

impl Sawtooth {
    pub(crate) fn push(&mut self, t: f64, cwnd: f64) {
        self.samples.push((t, cwnd));
    }

    fn falls(&self) -> Vec<Fall> {
        let mut falls = Vec::new();
        let mut nth = 1;
        while nth < self.samples.len() {
            let (before, (at, cwnd)) = (self.samples[nth - 1].1, self.samples[nth]);
            if cwnd > 0.9 * before {
                nth += 1;
                continue;
            }
            while nth + 1 < self.samples.len() && self.samples[nth + 1].1 <= self.samples[nth].1 {
                nth += 1;
            }
            let (bottom, low) = self.samples[nth];
            falls.push(Fall { at, bottom, kept: low / before, low });
            nth += 1;
        }
        falls
    }

    /// Seconds between two falls on average; NaN of fewer than two.
    pub(crate) fn period(&self) -> f64 {
        let falls = self.falls();
        match (falls.first(), falls.last()) {
            (Some(first), Some(last)) if falls.len() > 1 => (last.at - first.at) / (falls.len() - 1) as f64,
            _ => f64::NAN,
        }
    }

    /// What a fall leaves of the window on average; NaN without one.
    pub(crate) fn kept(&self) -> f64 {
        let kept: Vec<f64> = self.falls().iter().map(|fall| fall.kept).collect();
        mean(&kept)
    }

    /// Growth in the second after the bottom on average, without falls that end sooner; NaN without one.
    pub(crate) fn growth_in_first_second(&self) -> f64 {
        let falls = self.falls();
        let ends = falls.iter().skip(1).map(|next| next.at).chain([f64::INFINITY]);
        let grown: Vec<f64> = falls
            .iter()
            .zip(ends)
            .filter(|(fall, end)| fall.bottom + 1.0 < *end)
            .filter_map(|(fall, _)| {
                let after = self.samples.partition_point(|(t, _)| *t <= fall.bottom + 1.0);
                (after < self.samples.len()).then(|| self.samples[after - 1].1 - fall.low)
            })
            .collect();
        mean(&grown)
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a sawtooth drawn by hand has the period, the part kept and the growth it was drawn with.
    use super::*;

    #[test]
    fn a_drawn_sawtooth() {
        let mut sawtooth = Sawtooth::default();
        for tenth in 0..1000 {
            // Every 5 s from 50 to 100, ten segments a second.
            sawtooth.push(f64::from(tenth) / 10.0, 50.0 + f64::from(tenth % 50));
        }
        assert!((sawtooth.period() - 5.0).abs() < 1e-9);
        assert!((sawtooth.kept() - 50.0 / 99.0).abs() < 1e-9);
        assert!((sawtooth.growth_in_first_second() - 10.0).abs() < 1e-9);
    }

    #[test]
    fn a_fall_in_two_steps_is_one() {
        let mut sawtooth = Sawtooth::default();
        for (t, cwnd) in [(0.0, 100.0), (1.0, 80.0), (2.0, 50.0), (3.0, 51.0), (4.0, 100.0), (5.0, 50.0)] {
            sawtooth.push(t, cwnd);
        }
        assert_eq!((sawtooth.period(), sawtooth.falls().len()), (4.0, 2));
        assert!(Sawtooth::default().period().is_nan());
    }

    #[test]
    fn delays_have_quantiles() {
        let mut delays = Delays::default();
        [3.0, 1.0, 2.0].into_iter().for_each(|ms| delays.push(ms));
        assert_eq!(delays.steps(2), [1.0, 2.0, 3.0]);
        assert_eq!(delays.mean(), 2.0);
        assert!(Delays::default().steps(2).is_empty());
    }
}
