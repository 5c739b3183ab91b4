//! Vegas (Brakmo and Peterson, 1995): keeps a few segments in the path's queue, by comparing each round's round-trip
//! time with the smallest ever seen, and so mostly needs no loss to know when to stop.

use base::Duration;

use crate::classical::{Classical, Law};
use crate::controller::{AckSample, PathInfo};
use crate::reno::Reno;
use crate::round::Round;
use crate::tunable::tunables;

/// Vegas.
///
/// | Tunable | Values | Default | Meaning |
/// |---|---|---|---|
/// | `alpha` | 1 to 255 | 2 | fewer segments in the queue: grow |
/// | `beta` | 1 to 255 | 4 | more segments in the queue: shrink |
/// | `gamma` | 1 to 255 | 1 | more segments in the queue: slow start is over |
///
/// and those of [`Reno::tunables`].
pub type Vegas = Classical<Queue>;

/// Samples that make a round's smallest round-trip time believable: one may be a delayed acknowledgment's.
const SAMPLES: u8 = 3;

/// The law of [`Vegas`].
#[derive(Clone, Debug)]
pub struct Queue {
    round: Round,
    /// Window when the round began, bytes: it is what this round's round-trip times tell about.
    window: u32,
    /// Smallest round-trip time of this round.
    rtt: Duration,
    samples: u8,
    alpha: u8,
    beta: u8,
    gamma: u8,
}

impl Default for Queue {
    fn default() -> Self {
        Queue { round: Round::new(), window: 0, rtt: Duration::MAX, samples: 0, alpha: 2, beta: 4, gamma: 1 }
    }
}

impl Queue {
    /// A round is over: one segment more or less, or as it is.
    fn adjust(&self, reno: &mut Reno, ack: &AckSample) {
        let base = ack.min_rtt.min(self.rtt).as_nanos().max(1);
        let rtt = self.rtt.as_nanos().max(1);
        let window = u128::from(self.window.min(reno.cwnd()));
        let mss = u128::from(reno.mss());
        // What waits in the queue: the window less what the path itself holds.
        let queued = window * (rtt - base) / rtt;
        if reno.in_slow_start() {
            if queued > u128::from(self.gamma) * mss {
                reno.yield_to((window - queued + mss) as u32);
            }
        } else if queued > u128::from(self.beta) * mss {
            reno.yield_to(reno.cwnd() - reno.mss().min(reno.cwnd()));
        } else if queued < u128::from(self.alpha) * mss && !ack.in_recovery && ack.window_limited {
            reno.grow(reno.mss().min(ack.bytes.max(1)));
        }
    }
}

impl Law for Queue {
    const NAME: &'static str = "vegas";

    fn begin(&mut self, _path: &PathInfo) {
        *self = Queue { alpha: self.alpha, beta: self.beta, gamma: self.gamma, ..Queue::default() };
    }

    fn observe(&mut self, reno: &mut Reno, ack: &AckSample) {
        if let Some(rtt) = ack.rtt {
            self.rtt = self.rtt.min(rtt);
            self.samples = self.samples.saturating_add(1);
        }
        if !self.round.ends_with(ack) {
            return;
        }
        // During recovery the window is loss's affair; a round with few samples says nothing.
        if self.samples >= SAMPLES && !ack.in_recovery {
            self.adjust(reno, ack);
        }
        (self.window, self.rtt, self.samples) = (reno.cwnd(), Duration::MAX, 0);
    }

    /// The rounds decide; but a window of a few segments never gives a round its samples, and then grows as Reno's.
    fn avoid(&mut self, reno: &mut Reno, bytes: u32, ack: &AckSample) {
        if reno.cwnd() < 2 * u32::from(SAMPLES) * reno.mss() {
            reno.add_per_window(Reno::ONE, bytes, ack);
        }
    }

    tunables! {
        "alpha": alpha, 1 => u8::MAX, "Fewer segments than this in the queue: the window grows.";
        "beta": beta, 1 => u8::MAX, "More segments than this in the queue: the window shrinks.";
        "gamma": gamma, 1 => u8::MAX, "More segments than this in the queue end slow start.";
    }
}

#[cfg(test)]
mod tests;
