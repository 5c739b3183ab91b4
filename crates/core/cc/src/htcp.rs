//! H-TCP (Leith and Shorten, draft-leith-tcp-htcp): the longer congestion has not been heard of, the faster the window
//! grows; and it may keep as much of it as the path's queue is deep.

use crate::classical::{Classical, HALF, Law, Part};
use crate::controller::{AckSample, PathInfo, Signal, SignalInfo};
use crate::reno::Reno;
use crate::tunable::tunables;

/// H-TCP.
///
/// | Tunable | Values | Default | Meaning |
/// |---|---|---|---|
/// | `adaptive_backoff` | 0, 1 | 0 | keep RTT_min/RTT_max of the window, between 0.5 and 0.8, instead of half |
/// | `rtt_scaling` | 0, 1 | 0 | grow in proportion to the round-trip time, relative to 100 ms, between 0.1 and 2 |
///
/// and those of [`Reno::tunables`].
pub type HTcp = Classical<Hamilton>;

/// D_L: for this long after congestion the window grows as NewReno's, milliseconds.
const STANDARD: u32 = 1000;
/// Beyond this time the increase no longer steepens (35 minutes: the window has long met another limit).
const SPAN_MAX: u64 = 1 << 21;
/// Least and greatest part kept with adaptive backoff, thousandths.
const KEEP: (u32, u32) = (500, 800);
/// Samples before the round-trip time is trusted.
const TRUSTED: u8 = 8;

/// The law of [`HTcp`].
#[derive(Clone, Debug)]
pub struct Hamilton {
    /// When congestion was last heard of, and what this was before the last signal; milliseconds, wrapping.
    since: Option<u32>,
    before: Option<u32>,
    /// Extremes of the smoothed round-trip time since they were trusted, microseconds.
    rtt_min: u32,
    rtt_max: u32,
    samples: u8,
    /// Part of the window that congestion leaves, thousandths.
    beta: u32,
    /// A loss or a timeout is being repaired.
    recovering: bool,
    /// The first congestion halves: the extremes have not met a full queue yet.
    seen_congestion: bool,
    adaptive_backoff: bool,
    rtt_scaling: bool,
}

impl Default for Hamilton {
    fn default() -> Self {
        Hamilton {
            since: None,
            before: None,
            rtt_min: u32::MAX,
            rtt_max: 0,
            samples: 0,
            beta: KEEP.0,
            recovering: false,
            seen_congestion: false,
            adaptive_backoff: false,
            rtt_scaling: false,
        }
    }
}

impl Hamilton {
    /// Segments a round trip, in thousandths.
    fn alpha(&self, now: u32, srtt: u32) -> u32 {
        let past = now.wrapping_sub(self.since.unwrap_or(now));
        let mut alpha = increase(past);
        if alpha == Reno::ONE {
            return alpha;
        }
        if self.adaptive_backoff {
            alpha = (u64::from(alpha) * 2 * u64::from(1000 - self.beta) / 1000) as u32;
        }
        if self.rtt_scaling {
            alpha = (u64::from(alpha) * u64::from(srtt.clamp(10_000, 200_000)) / 100_000) as u32;
        }
        alpha.max(Reno::ONE)
    }

    /// Congestion: a queue that has become shorter since is forgotten step by step.
    fn congested(&mut self, now: u32) {
        self.since = Some(now);
        self.beta = KEEP.0;
        if self.rtt_max > self.rtt_min {
            self.rtt_max = self.rtt_min + faded(self.rtt_max - self.rtt_min);
        }
        if self.adaptive_backoff && self.seen_congestion && self.samples >= TRUSTED {
            self.beta = kept(self.rtt_min, self.rtt_max);
        }
        self.seen_congestion = true;
    }
}

/// alpha(D) = 1 + 10 (D - 1) + ((D - 1) / 2)^2 segments a round trip, in thousandths, D in milliseconds.
fn increase(past: u32) -> u32 {
    let x = u64::from(past.saturating_sub(STANDARD)).min(SPAN_MAX);
    (u64::from(Reno::ONE) + 10 * x + x * x / 4000) as u32
}

/// 95 % of the queueing delay.
fn faded(span: u32) -> u32 {
    (u64::from(span) * 95 / 100) as u32
}

/// beta = RTT_min / RTT_max, thousandths.
fn kept(rtt_min: u32, rtt_max: u32) -> u32 {
    let ratio = u64::from(rtt_min) * 1000 / u64::from(rtt_max.max(1));
    (ratio.min(1000) as u32).clamp(KEEP.0, KEEP.1)
}

impl Law for Hamilton {
    const NAME: &'static str = "htcp";

    fn begin(&mut self, _path: &PathInfo) {
        let (adaptive_backoff, rtt_scaling) = (self.adaptive_backoff, self.rtt_scaling);
        *self = Hamilton { adaptive_backoff, rtt_scaling, ..Hamilton::default() };
    }

    fn observe(&mut self, _reno: &mut Reno, ack: &AckSample) {
        let now = ack.now.as_millis() as u32;
        self.since.get_or_insert(now);
        if ack.rtt.is_none() {
            return;
        }
        self.samples = self.samples.saturating_add(1);
        if self.samples >= TRUSTED {
            let srtt = micros(ack);
            self.rtt_min = self.rtt_min.min(srtt);
            self.rtt_max = self.rtt_max.max(srtt);
        }
    }

    fn avoid(&mut self, reno: &mut Reno, bytes: u32, ack: &AckSample) {
        let alpha = self.alpha(ack.now.as_millis() as u32, micros(ack));
        reno.add_per_window(alpha, bytes, ack);
    }

    fn keep(&mut self, signal: Signal, info: &SignalInfo, _reno: &Reno) -> Part {
        let now = info.now.as_millis() as u32;
        self.before = self.since;
        match signal {
            Signal::Loss | Signal::Ecn => {
                self.congested(now);
                self.recovering |= signal == Signal::Loss;
                (self.beta, 1000)
            }
            // A first timeout may be a mistake: time goes on counting.
            Signal::Timeout { nth } => {
                if nth > 1 {
                    self.since = Some(now);
                }
                self.recovering = true;
                HALF
            }
        }
    }

    /// Congestion lasts until it is repaired, which takes many round trips without SACK: else the window would leap.
    fn recovered(&mut self, info: &SignalInfo) {
        if self.recovering {
            self.recovering = false;
            self.since = Some(info.now.as_millis() as u32);
        }
    }

    fn undo(&mut self) {
        self.recovering = false;
        self.since = self.before;
    }

    tunables! {
        "adaptive_backoff": adaptive_backoff, 0 => 1,
            "Does congestion leave the least round-trip time's part of the greatest, 0.5 to 0.8, and not 0.5?";
        "rtt_scaling": rtt_scaling, 0 => 1,
            "Is the increase scaled by the round-trip time, 100 ms being 1?";
    }
}

fn micros(ack: &AckSample) -> u32 {
    u32::try_from(ack.srtt.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
