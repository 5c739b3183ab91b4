//! NewReno: RFC 5681's additive increase and halving, with RFC 6582's single reduction an episode. The
//! connection finds and repairs losses (RFC 6675); its pipe against this window decides what may be sent.

use crate::classical::{Classical, Law};

/// RFC 5681 and RFC 6582, with RFC 9406. 40 octets.
///
/// Tunables: those of [`Reno::tunables`](crate::Reno::tunables).
pub type NewReno = Classical<Standard>;

/// One segment a round trip, half of it on congestion.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standard;

impl Law for Standard {
    const NAME: &'static str = "newreno";
}

const _: () = assert!(size_of::<NewReno>() <= 44);

#[cfg(test)]
mod tests;
