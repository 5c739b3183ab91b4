//! How connections differ now, by buckets.

use super::{Unit, line, number};

/// How many of what is there now are at most so large.
pub(super) struct Histogram {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) unit: Unit,
    bounds: &'static [u64],
    counts: Vec<u64>,
    sum: u64,
}

/// Microseconds.
const ROUND_TRIPS: [u64; 12] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000];
const BYTES: [u64; 8] = [0, 1 << 10, 1 << 13, 1 << 16, 1 << 20, 1 << 24, 1 << 28, 1 << 32];

impl Histogram {
    fn new(name: &'static str, help: &'static str, unit: Unit, bounds: &'static [u64]) -> Histogram {
        Histogram { name, help, unit, bounds, counts: vec![0; bounds.len() + 1], sum: 0 }
    }

    /// Round trips and bytes of the connections there are.
    pub(super) fn of_connections() -> [Histogram; 2] {
        [
            Histogram::new(
                "millstream_connection_rtt_seconds",
                "Smoothed round-trip times of the connections there are, 0 before the first sample.",
                Unit::Seconds,
                &ROUND_TRIPS,
            ),
            Histogram::new(
                "millstream_connection_bytes",
                "Bytes that the connections there are have moved, both ways.",
                Unit::Bytes,
                &BYTES,
            ),
        ]
    }

    pub(super) fn add(&mut self, value: u64) {
        let bucket = self.bounds.iter().position(|&bound| value <= bound).unwrap_or(self.bounds.len());
        self.counts[bucket] += 1;
        self.sum = self.sum.saturating_add(value);
    }

    pub(super) fn write(&self, out: &mut String, core: usize, process: u32) {
        let (name, labels) = (self.name, format!("core=\"{core}\",process=\"{process}\""));
        let mut so_far = 0;
        for (at, count) in self.counts.iter().enumerate() {
            so_far += count;
            // Bounds are numbers with a point: 1.0, not 1.
            let bound = match (self.bounds.get(at), self.unit) {
                (None, _) => "+Inf".into(),
                (Some(&bound), Unit::Seconds) => number(bound, self.unit),
                (Some(&bound), _) => format!("{bound}.0"),
            };
            line(out, format_args!("{name}_bucket{{{labels},le=\"{bound}\"}} {so_far}"));
        }
        line(out, format_args!("{name}_gcount{{{labels}}} {so_far}"));
        line(out, format_args!("{name}_gsum{{{labels}}} {}", number(self.sum, self.unit)));
    }
}
