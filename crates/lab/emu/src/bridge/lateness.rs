//! How late packets were, counted by the microsecond.

use base::Duration;

/// Microseconds told apart; later ones count as the last.
const MICROS: usize = 10_000;

/// A distribution of delays beyond what was asked for.
#[derive(Clone)]
pub struct Lateness {
    counts: Box<[u64; MICROS]>,
    all: u64,
    most: Duration,
}

impl Default for Lateness {
    fn default() -> Self {
        Lateness { counts: Box::new([0; MICROS]), all: 0, most: Duration::ZERO }
    }
}

impl Lateness {
    /// Counts one.
    pub(crate) fn note(&mut self, late: Duration) {
        self.counts[(late.as_micros() as usize).min(MICROS - 1)] += 1;
        self.all += 1;
        self.most = self.most.max(late);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.all
    }

    /// The latest.
    pub fn most(&self) -> Duration {
        self.most
    }

    /// The part `q` (0 to 1) of all were no later than this, up to the microsecond; zero of none.
    pub fn quantile(&self, q: f64) -> Duration {
        let rank = (q * self.all as f64).ceil() as u64;
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        let micros = found.unwrap_or(MICROS - 1);
        if micros == MICROS - 1 { self.most } else { Duration::from_micros(micros as u64 + 1).min(self.most) }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: quantiles are those of a sorted list, to the microsecond.
    use super::*;

    #[test]
    fn quantiles_are_those_of_a_list() {
        let mut late = Lateness::default();
        assert_eq!(late.quantile(0.5), Duration::ZERO);
        for micros in 1..=1_000 {
            late.note(Duration::from_micros(micros));
        }
        late.note(Duration::from_secs(2));
        assert_eq!(late.count(), 1_001);
        assert_eq!(late.quantile(0.5).as_micros(), 502);
        assert_eq!(late.quantile(0.99).as_micros(), 992);
        assert_eq!((late.quantile(1.0), late.most()), (Duration::from_secs(2), Duration::from_secs(2)));
    }
}
