//! Rates, with the unit in the type.

use crate::Duration;

/// A data rate in bytes per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Rate(u64);

impl Rate {
    /// From bytes per second.
    pub const fn from_bytes_per_sec(rate: u64) -> Self {
        Rate(rate)
    }

    /// From bits per second.
    pub const fn from_bits_per_sec(rate: u64) -> Self {
        Rate(rate / 8)
    }

    /// `bytes` in `time`; saturates, and is zero over no time.
    pub fn over(bytes: u64, time: Duration) -> Self {
        match time.as_nanos() {
            0 => Rate(0),
            nanos => Rate(u64::try_from(u128::from(bytes) * 1_000_000_000 / nanos).unwrap_or(u64::MAX)),
        }
    }

    /// Bytes per second.
    pub const fn bytes_per_sec(self) -> u64 {
        self.0
    }

    /// Bits per second; saturates.
    pub const fn bits_per_sec(self) -> u64 {
        self.0.saturating_mul(8)
    }

    /// How long after `bytes` the next may leave so that this rate is never exceeded: [`Rate::time_for`] rounded up.
    pub fn spacing(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let nanos = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(self.0));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// How long `bytes` take at this rate; [`Duration::MAX`] at rate zero.
    pub fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
