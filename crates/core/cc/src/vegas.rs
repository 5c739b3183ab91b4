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
mod tests {
    //! Goal: the queue settles between alpha and beta segments, slow start ends at gamma, losses still halve.
    use super::*;
    use crate::testing::Lab;
    use crate::{Controller, Signal};

    /// Rounds over a path of 100 ms that carries one segment a millisecond: each queued one adds a millisecond.
    fn on_a_path(lab: &mut Lab<Vegas>, rounds: u32) -> std::vec::Vec<f64> {
        let mut windows = std::vec::Vec::new();
        lab.least = 100;
        for _ in 0..rounds {
            lab.rtt = 100 + (lab.cwnd() as u64).saturating_sub(100);
            lab.round();
            windows.push(lab.cwnd());
        }
        windows
    }

    extern crate std;

    #[test]
    fn the_window_settles_where_a_few_segments_queue() {
        for start in [50, 100, 104, 130, 200] {
            let mut lab = Lab::new(Vegas::new(), start, Some(2));
            let windows = on_a_path(&mut lab, 200);
            for cwnd in &windows[150..] {
                assert!((101.0..=105.0).contains(cwnd), "from {start}: {windows:?}");
            }
        }
    }

    #[test]
    fn slow_start_ends_when_the_queue_shows() {
        let mut policy = Vegas::new();
        policy.set_tunable("hystart", 0).unwrap();
        let mut lab = Lab::new(policy, 10, None);
        let windows = on_a_path(&mut lab, 8);
        assert!(lab.ssthresh() < 200.0, "{windows:?}");
        assert!(windows.iter().all(|cwnd| *cwnd <= 320.0), "{windows:?}");
        let windows = on_a_path(&mut lab, 100);
        assert!(lab.cwnd() <= 105.0, "{windows:?}");
    }

    #[test]
    fn a_loss_halves() {
        let mut lab = Lab::new(Vegas::new(), 100, Some(2));
        lab.congest(Signal::Loss, 100);
        assert_eq!((lab.cwnd(), lab.ssthresh()), (50.0, 50.0));
    }

    #[test]
    fn a_tiny_window_grows_as_reno_does() {
        let mut lab = Lab::new(Vegas::new(), 2, Some(2));
        (0..5).for_each(|_| lab.round());
        assert!(lab.cwnd() >= 4.0, "{}", lab.cwnd());
    }
}
