//! The measures: their names, and how those that are more than a sum are made.

use crate::stats::{mean, quantile};

macro_rules! measures {
    ($($constant:ident = $name:literal, $unit:literal: $help:literal),+ $(,)?) => {
        /// Names of measures.
        pub(crate) mod name {
            $(pub(crate) const $constant: &str = $name;)+
        }
        /// Every measure and what it says. Those of a group of flows, or of a hop, have its number behind a dot, the
        /// first being 1.
        pub fn measures() -> &'static [(&'static str, &'static str)] {
            &[$(($name, $help)),+]
        }

        /// Returns the unit of a measure, or of a group's.
        fn unit_of_measure(name: &str) -> Option<&'static str> {
            let whole = name.split_once('.').map_or(name, |(whole, _)| whole);
            [$(($name, $unit)),+].into_iter().find(|(known, _)| *known == whole).map(|(_, unit)| unit)
        }
    };
}

measures! {
    GOODPUT = "goodput_mbit", "Mbit/s":
        "Payload that receivers read, Mbit/s; `goodput_mbit.1` is that of the first group.",
    FLOW_GOODPUT = "flow_mbit", "Mbit/s":
        "Payload of a flow on average, Mbit/s; `flow_mbit.1` is of those of the first group.",
    SHARE = "share", "ratio": "What a flow of the first group gets on average, as a multiple of one of the second.",
    CONVERGED = "converged_s", "s":
        "Time from the start of the last endless flow until Jain's index over what each got in two seconds is 0.95, \
         seconds; all the rest of the run if never.",
    LINE = "line_mbit", "Mbit/s": "IP packets that left the bottleneck's line, Mbit/s.",
    UTILISATION = "utilisation", "ratio":
        "Payload as a part of the bottleneck's rate; `utilisation.1` is of the first hop, if there are several.",
    FAIRNESS = "fairness", "Jain's index": "Jain's index over the goodput of all flows.",
    RETRANSMITS = "retransmits", "segments": "Segments sent again, a flow on average, over the whole run.",
    CWND_MEAN = "cwnd_mean", "segments": "Congestion window, segments, on average over samples and flows.",
    CWND_MAX = "cwnd_max", "segments": "Greatest sample of it.",
    CWND_MIN = "cwnd_min", "segments": "Least sample of it.",
    RTT_MIN = "rtt_min_ms", "ms": "Least round-trip time, milliseconds.",
    SRTT = "srtt_ms", "ms": "Smoothed round-trip time on average, milliseconds.",
    QUEUE_MEAN = "queue_mean", "bytes": "Bytes before the bottleneck, on average.",
    QUEUE_MAX = "queue_max", "bytes": "Greatest sample of them.",
    WAIT_LOW = "wait_low_ms", "ms": "Time a packet waits in DualPI2's low-latency queue on average, milliseconds.",
    WAIT_CLASSIC = "wait_classic_ms", "ms": "The same of its classic queue.",
    PERIOD = "period_s", "s": "Time between two reductions of the first flow's window, seconds.",
    KEPT = "kept", "ratio": "Part of its window that a reduction leaves.",
    GROWTH = "growth_1s", "segments": "Segments by which it grows in the second after a reduction and its repair.",
    GROWTH_ROUND = "growth_round_1s", "segments/RTT": "The same a round trip, by the smoothed time of one.",
    GROWTH_NEXT = "growth_round_2s", "segments/RTT": "Segments a round trip in the second after that.",
    DELAY_MEAN = "delay_mean_ms", "ms": "Time a datagram waits before the bottleneck, milliseconds.",
    DELAY_P50 = "delay_p50_ms", "ms": "Median of it.",
    DELAY_P95 = "delay_p95_ms", "ms": "95th percentile of it.",
    DELAY_MAX = "delay_max_ms", "ms": "Greatest.",
    CBR_LOSS = "cbr_loss_percent", "%": "Datagrams dropped, per cent.",
    FCT_MEAN = "fct_mean_ms", "ms":
        "Time from connect to the receiver's end of a flow with an end, milliseconds; also by group.",
    FCT_P50 = "fct_p50_ms", "ms": "Median of it.",
    FCT_P95 = "fct_p95_ms", "ms": "95th percentile of it.",
    FCT_P99 = "fct_p99_ms", "ms": "99th percentile of it.",
    TOOK_MEAN = "took_ms", "ms":
        "Time from when the receiver accepts a flow with an end to its end there, milliseconds, on average.",
    TOOK_MAX = "took_max_ms", "ms": "The longest of them.",
    DUPLICATES = "duplicates", "segments": "Segments that receivers had already: what was sent again for nothing.",
    FIRST_AGAIN = "first_again_ms", "ms":
        "Time from the bottleneck's first named loss to the first retransmission of any flow, milliseconds, to a \
         sample.",
    AGAIN = "again_percent", "%":
        "Connections begun from the handshake cache, at both ends, per cent of those that began.",
    MERGED = "merged", "packets": "Packets of the wire in one that a card hands up.",
    FAILED = "failed", "flows": "Flows that could not be opened or broke.",
}

/// Is it a measure, or one of a group?
pub(crate) fn is_measure(name: &str) -> bool {
    unit_of_measure(name).is_some()
}

/// Returns `name` with its unit, of a measure, a series (`cwnd 1`) or a place in an experiment's file; `name` alone if
/// it has none, as texts have none.
pub(crate) fn with_unit(name: &str) -> String {
    match unit_of_measure(name).or_else(|| unit_of_key(name)) {
        Some(unit) => format!("{name} ({unit})"),
        None => name.into(),
    }
}

/// Returns the unit of a series or a parameter, which its last word says.
fn unit_of_key(place: &str) -> Option<&'static str> {
    let place = place.split_once(' ').map_or(place, |(series, _)| series);
    let key = place.rsplit('.').next().unwrap_or(place);
    let ends = |endings: &[&str]| endings.iter().any(|ending| key.ends_with(ending));
    Some(match key {
        "cwnd" | "ssthresh" | "initial_window" | "abc_limit" => "segments",
        "queue_packets" | "every" | "ring" => "packets",
        "bytes" | "queue_bytes" | "piece" | "mtu" | "rcvbuf" | "sndbuf" => "bytes",
        "queue" | "up_queue" => "bytes, of slots packets",
        "count" if place.starts_with("hop") => "hops",
        "count" | "n" => "flows",
        "seconds" | "discard" | "start" | "stagger" | "spread" => "s",
        "loss" | "reorder" | "duplicate" | "corrupt" => "probability",
        "per_second" => "flows/s",
        _ if ends(&["_ms"]) => "ms",
        _ if ends(&["_us"]) => "us",
        _ if ends(&["_kbit"]) => "kbit/s",
        _ if ends(&["_mbit"]) => "Mbit/s",
        _ => return None,
    })
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

/// A window over time, and its falls: a sample at most nine tenths of the one before begins one, and it lasts until
/// what was lost is repaired; of falls without a repair, until the window grows again.
#[derive(Default)]
pub(crate) struct Sawtooth {
    samples: Vec<(f64, f64)>,
    /// The smoothed round-trip time at each, seconds.
    rounds: Vec<f64>,
    /// Was something being repaired at each?
    repairs: Vec<bool>,
}

struct Fall {
    /// When it began, when it was over.
    at: f64,
    bottom: f64,
    kept: f64,
}

impl Sawtooth {
    pub(crate) fn push(&mut self, t: f64, cwnd: f64, srtt: f64, repairs: bool) {
        self.samples.push((t, cwnd));
        self.rounds.push(srtt);
        self.repairs.push(repairs);
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
            let mut repaired = self.repairs[nth];
            while nth + 1 < self.samples.len()
                && (self.repairs[nth + 1] || !repaired && self.samples[nth + 1].1 <= self.samples[nth].1)
            {
                nth += 1;
                repaired |= self.repairs[nth];
            }
            let (bottom, low) = self.samples[nth];
            falls.push(Fall { at, bottom, kept: low / before });
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

    /// Returns the mean share of the window that a reduction leaves; NaN without one.
    pub(crate) fn kept(&self) -> f64 {
        let kept: Vec<f64> = self.falls().iter().map(|fall| fall.kept).collect();
        mean(&kept)
    }

    /// Growth in the second after the bottom on average, without falls that end sooner; NaN without one.
    pub(crate) fn growth_in_first_second(&self) -> f64 {
        mean(&self.growths(0.0).map(|(grown, _)| grown).collect::<Vec<_>>())
    }

    /// Growth a round trip in the second that begins `after` seconds behind the bottom; likewise.
    pub(crate) fn growth_a_round(&self, after: f64) -> f64 {
        mean(&self.growths(after).map(|(grown, round)| grown * round).collect::<Vec<_>>())
    }

    /// For each fall that lasts long enough: growth in the second from `after` behind the bottom on, and the mean of
    /// the round-trip times in it.
    fn growths(&self, after: f64) -> impl Iterator<Item = (f64, f64)> {
        let falls = self.falls();
        let ends: Vec<f64> = falls.iter().skip(1).map(|next| next.at).chain([f64::INFINITY]).collect();
        falls.into_iter().zip(ends).filter_map(move |(fall, end)| {
            let (from, to) = (fall.bottom + after, fall.bottom + after + 1.0);
            let until = |time: f64| self.samples.partition_point(|(t, _)| *t <= time);
            let (first, last) = (until(from), until(to));
            let whole = to < end && first > 0 && last < self.samples.len();
            whole.then(|| {
                (self.samples[last - 1].1 - self.samples[first - 1].1, mean(&self.rounds[first - 1..last]))
            })
        })
    }
}

#[cfg(test)]
mod tests;
