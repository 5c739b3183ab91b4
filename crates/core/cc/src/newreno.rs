//! NewReno: RFC 5681's additive increase and halving, with RFC 6582's single reduction an episode. The
//! connection finds and repairs losses (RFC 6675); its pipe against this window decides what may be sent. A mark may
//! count for less than a loss (ABE, RFC 8511): queues that mark are short, and half of the window would empty them.

use crate::classical::{Classical, HALF, Law, Part};
use crate::controller::{Signal, SignalInfo};
use crate::reno::Reno;
use crate::tunable::tunables;

/// RFC 5681 and RFC 6582, with RFC 9406, and RFC 8511 where it is wanted. 48 bytes.
///
/// | Tunable | Values | Default | Meaning |
/// |---|---|---|---|
/// | `beta` | 1 to 100 | 50 | per cent of what is in flight that a loss leaves |
/// | `abe` | 0 to 1 | 0 | does a mark leave `beta_ecn` instead of `beta`? |
/// | `beta_ecn` | 1 to 100 | 80 | per cent that a mark then leaves |
/// | `abe_frlossreduce` | 0 to 1 | 0 | does a loss of the window that was marked take what `beta` takes beyond that? |
///
/// and those of [`Reno::tunables`](crate::Reno::tunables).
pub type NewReno = Classical<Standard>;

/// One segment a round trip, half of it on congestion.
#[derive(Clone, Copy, Debug)]
pub struct Standard {
    beta: u8,
    beta_ecn: u8,
    abe: bool,
    frlossreduce: bool,
}

impl Default for Standard {
    fn default() -> Self {
        Standard { beta: 50, beta_ecn: 80, abe: false, frlossreduce: false }
    }
}

impl Law for Standard {
    const NAME: &'static str = "newreno";

    fn answers_losses_after_marks(&self) -> bool {
        self.abe && self.frlossreduce
    }

    /// A timeout leaves half, whatever a loss leaves.
    /// RFC 8511, 3-1.
    fn keep(&mut self, signal: Signal, info: &SignalInfo, _reno: &Reno) -> Part {
        match signal {
            Signal::Timeout { .. } => HALF,
            Signal::Ecn if self.abe => (self.beta_ecn.into(), 100),
            // All told what the loss alone would have left, and never more than the mark did.
            Signal::Loss if info.after_mark => (self.beta.min(self.beta_ecn).into(), self.beta_ecn.into()),
            Signal::Ecn | Signal::Loss => (self.beta.into(), 100),
        }
    }

    tunables! {
        "beta": beta, 1 => 100, "What a loss leaves of the window, percent.";
        "beta_ecn": beta_ecn, 1 => 100, "What a mark leaves of it with abe, percent.";
        "abe": abe, 0 => 1, "Does a mark take less of the window than a loss (ABE, RFC 8511)?";
        "abe_frlossreduce": frlossreduce, 0 => 1,
            "With abe, does a loss of the window that was marked take the rest of what a loss takes?";
    }
}

const _: () = assert!(size_of::<NewReno>() <= 48);

#[cfg(test)]
mod tests;
