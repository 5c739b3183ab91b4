//! Many flows in one: laws by which a connection takes the share of N of NewReno's. They are not fair to other flows,
//! so a registry refuses them until that is allowed ([`Registry::allow_unfair`](crate::Registry::allow_unfair)).
//!
//! | | Growth, segments a round trip | What a loss leaves | Beside one NewReno flow |
//! |---|---|---|---|
//! | NewReno | 1 | 1/2 | 1 |
//! | MulTCP | N | 1 - 1/(2N) | the same |
//! | MulWin | N^2 | 1/2 | N where each packet is lost with the same chance; up to N^2 where a queue drops of both |
//!
//! Where losses come at equal distances, a part p of all packets, the window is N sqrt(3/(2p)) segments on average for
//! MulWin, N sqrt((2 - 1/(2N))/p) for MulTCP. With N = 1 both are NewReno, byte for byte. Neither is compatible with
//! TCP in the sense of RFC 5033.

use crate::classical::{Classical, HALF, Law, Part};
use crate::controller::{AckSample, Signal, SignalInfo};
use crate::reno::Reno;
use crate::tunable::tunables;

/// Most flows in one, of either law: the models of MulWinTCP are measured as far.
const MOST: u8 = 16;

/// Beyond the ten segments of RFC 6928 a first window is spread over the round trip.
const BURST: u8 = 10;

/// MulWinTCP: one window that grows as N sub-windows would that feed each other, by N^2 segments a round trip, and is
/// halved by a loss, once an episode.
///
/// | Tunable | Values | Default | Meaning |
/// |---|---|---|---|
/// | `n` | 1 to 16 | 1 | sub-windows |
///
/// and those of [`Reno::tunables`](crate::Reno::tunables).
pub type MulWin = Classical<Squared>;

/// The law of [`MulWin`].
///
/// The paper's sub-windows are views of one window: chunk k belongs to sub-window k mod N, each has 1/N of the window,
/// and each chunk that is acknowledged widens the window by N^2/cwnd chunks (its equation 6), which is N chunks a round
/// trip for each of the N. While one repairs its loss the others go on growing: NewReno's round trip without growth
/// would be a quarter of all at N = 8 and p = 1/1,000. A sub-window holds a chunk at least: the first window is N
/// segments (the greater of that and the setting `initial_window`, which the paper had at 1), and so is what a timeout
/// leaves, with a threshold of 2N.
#[derive(Clone, Copy, Debug)]
pub struct Squared {
    n: u8,
}

impl Default for Squared {
    fn default() -> Self {
        Squared { n: 1 }
    }
}

impl Law for Squared {
    const NAME: &'static str = "mulwin";

    fn flows(&self) -> u32 {
        self.n.into()
    }

    fn wants_pacing(&self) -> bool {
        self.n > BURST
    }

    fn avoid(&mut self, reno: &mut Reno, bytes: u32, ack: &AckSample) {
        reno.add_per_window(u32::from(self.n).pow(2) * Reno::ONE, bytes, ack);
    }

    /// The round trip of a repair delivers what was in flight before it, twice the window.
    fn repair(&mut self, reno: &mut Reno, delivered: u32, ack: &AckSample) {
        let n = u32::from(self.n);
        if n > 1 {
            reno.add_per_window(n * (n - 1) / 2 * Reno::ONE, delivered, ack);
        }
    }

    tunables! {
        "n": n, 1 => MOST, "Sub-windows: the window grows by the square of it, segments a round trip.";
    }
}

/// MulTCP (Crowcroft and Oechslin, 1998): N segments a round trip, and a loss is one of N flows' loss, so that it takes
/// half of a flow's share. A timeout concerns every flow: it halves the threshold and leaves one segment.
///
/// | Tunable | Values | Default | Meaning |
/// |---|---|---|---|
/// | `n` | 1 to 16 | 1 | flows |
///
/// and those of [`Reno::tunables`](crate::Reno::tunables).
pub type MulTcp = Classical<Several>;

/// The law of [`MulTcp`].
#[derive(Clone, Copy, Debug)]
pub struct Several {
    n: u8,
}

impl Default for Several {
    fn default() -> Self {
        Several { n: 1 }
    }
}

impl Law for Several {
    const NAME: &'static str = "multcp";

    fn avoid(&mut self, reno: &mut Reno, bytes: u32, ack: &AckSample) {
        reno.add_per_window(u32::from(self.n) * Reno::ONE, bytes, ack);
    }

    fn repair(&mut self, reno: &mut Reno, delivered: u32, ack: &AckSample) {
        if self.n > 1 {
            reno.add_per_window(u32::from(self.n - 1) * Reno::ONE, delivered, ack);
        }
    }

    fn keep(&mut self, signal: Signal, _info: &SignalInfo, _reno: &Reno) -> Part {
        match signal {
            Signal::Timeout { .. } => HALF,
            Signal::Loss | Signal::Ecn => (2 * u32::from(self.n) - 1, 2 * u32::from(self.n)),
        }
    }

    tunables! {
        "n": n, 1 => MOST, "Flows: so many segments a round trip, and a loss takes half of one flow's share.";
    }
}

#[cfg(test)]
mod tests;
