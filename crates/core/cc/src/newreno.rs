//! NewReno: RFC 5681's additive increase and halving, with RFC 6582's single reduction an episode. The
//! connection finds and repairs losses (RFC 6675); its pipe against this window decides what may be sent. A mark may
//! count for less than a loss (ABE, RFC 8511): queues that mark are short, and half of the window would empty them.

use crate::classical::{Classical, HALF, Law, Part};
use crate::controller::{Signal, SignalInfo};
use crate::reno::Reno;
use crate::tunable::tunables;

/// RFC 5681 and RFC 6582, with RFC 9406, and RFC 8511 where it is wanted. 44 octets.
///
/// | Tunable | Values | Default | Meaning |
/// |---|---|---|---|
/// | `beta` | 1 to 100 | 50 | per cent of what is in flight that a loss leaves |
/// | `abe` | 0 to 1 | 0 | does a mark leave `beta_ecn` instead of `beta`? |
/// | `beta_ecn` | 1 to 100 | 80 | per cent that a mark then leaves |
///
/// and those of [`Reno::tunables`](crate::Reno::tunables).
pub type NewReno = Classical<Standard>;

/// One segment a round trip, half of it on congestion.
#[derive(Clone, Copy, Debug)]
pub struct Standard {
    beta: u8,
    beta_ecn: u8,
    abe: bool,
}

impl Default for Standard {
    fn default() -> Self {
        Standard { beta: 50, beta_ecn: 80, abe: false }
    }
}

impl Law for Standard {
    const NAME: &'static str = "newreno";

    /// A timeout leaves half, whatever a loss leaves.
    /// RFC 8511, 3-1.
    fn keep(&mut self, signal: Signal, _info: &SignalInfo, _reno: &Reno) -> Part {
        match signal {
            Signal::Timeout { .. } => HALF,
            Signal::Ecn if self.abe => (self.beta_ecn.into(), 100),
            Signal::Ecn | Signal::Loss => (self.beta.into(), 100),
        }
    }

    tunables! {
        "beta": beta, 1 => 100, "What a loss leaves of the window, percent.";
        "beta_ecn": beta_ecn, 1 => 100, "What a mark leaves of it with abe, percent.";
        "abe": abe, 0 => 1, "Does a mark take less of the window than a loss (ABE, RFC 8511)?";
    }
}

const _: () = assert!(size_of::<NewReno>() <= 44);

#[cfg(test)]
mod tests;
