//! The numbers of HyStart++, as FreeBSD names and bounds them: of a stack, not of a policy or connection, so they are
//! lent with each acknowledgment and a change counts at once.

use crate::tunable::{Tunable, TunableError, tunables};

/// Round-trip times are kept in ticks of 64 microseconds: a sixteenth of the least increase that counts as a rule.
pub(crate) const TICK_US: u128 = 64;
/// Most that a threshold can be, microseconds: a second.
const US_MOST: u32 = 1_000_000;
/// Least: a tick of the clock that round-trip times are kept in.
const US_TICK: u32 = TICK_US as u32;
/// Most that slower growth can be slower by.
const SLOWER_MOST: u8 = 64;
/// Most rounds of it.
const ROUNDS_MOST: u8 = 100;

/// Limits of the first slow start, in [`AckSample::hystart`](crate::AckSample::hystart) (RFC 9406, section 4.3).
///
/// ```
/// use cc::{HyStartLimits, TunableError};
///
/// let mut limits = HyStartLimits::STANDARD;
/// limits.set("minrtt_thresh", 12_000).unwrap();
/// assert_eq!(limits.numbers(), [12_000, 16_000, 8, 4, 5]);
/// let crossed = limits.set("maxrtt_thresh", 11_000);
/// assert_eq!(crossed, Err(TunableError::OutOfRange { min: 12_000, max: 1_000_000 }));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HyStartLimits {
    least: u32,
    most: u32,
    samples: u8,
    slower: u8,
    rounds: u8,
}

impl HyStartLimits {
    /// The recommended values: 4 ms, 16 ms, 8, 4, 5.
    /// RFC 9406, 4.3-2.
    pub const STANDARD: HyStartLimits =
        HyStartLimits { least: 4_000, most: 16_000, samples: 8, slower: 4, rounds: 5 };

    /// The least of each number.
    pub const LEAST: HyStartLimits =
        HyStartLimits { least: US_TICK, most: US_TICK, samples: 1, slower: 1, rounds: 1 };

    /// The greatest of each number.
    pub const MOST: HyStartLimits = HyStartLimits {
        least: US_MOST,
        most: US_MOST,
        samples: u8::MAX,
        slower: SLOWER_MOST,
        rounds: ROUNDS_MOST,
    };

    /// The widest thresholds, and else the standard.
    const WIDE: HyStartLimits = HyStartLimits { least: US_TICK, most: US_MOST, ..Self::STANDARD };

    /// Each number's name, range and meaning, in the order of [`numbers`](Self::numbers).
    pub fn rows() -> &'static [Tunable] {
        Self::STANDARD.tunables()
    }

    /// All of them at once.
    ///
    /// # Errors
    /// One is out of its row's range, or the thresholds are the wrong way round.
    pub fn from_numbers(numbers: [i64; 5]) -> Result<HyStartLimits, TunableError> {
        let mut limits = Self::WIDE;
        for (row, number) in Self::rows().iter().zip(numbers) {
            limits.set(row.name, number)?;
        }
        Ok(limits)
    }

    /// All of them at once, in the same order, from a caller with other ranges: a value out of range becomes the
    /// nearest one in range.
    pub fn clamped([least, most, samples, slower, rounds]: [u32; 5]) -> HyStartLimits {
        let byte = |number: u32, most: u8| number.clamp(1, most.into()) as u8;
        let least = least.clamp(US_TICK, US_MOST);
        HyStartLimits {
            least,
            most: most.clamp(least, US_MOST),
            samples: byte(samples, u8::MAX),
            slower: byte(slower, SLOWER_MOST),
            rounds: byte(rounds, ROUNDS_MOST),
        }
    }

    /// As they are now.
    pub fn numbers(&self) -> [i64; 5] {
        [self.least.into(), self.most.into(), self.samples.into(), self.slower.into(), self.rounds.into()]
    }

    /// The number called `name`, if there is one.
    pub fn get(&self, name: &str) -> Option<i64> {
        self.tunable(name)
    }

    /// Changes the number called `name`.
    ///
    /// # Errors
    /// There is no such number, or it would be out of its range, which for a threshold ends at the other one.
    pub fn set(&mut self, name: &str, number: i64) -> Result<(), TunableError> {
        let mut changed = *self;
        changed.set_tunable(name, number)?;
        if changed.least > changed.most {
            let raised = changed.least != self.least;
            let (min, max) = if raised { (US_TICK, self.most) } else { (self.least, US_MOST) };
            return Err(TunableError::OutOfRange { min: min.into(), max: max.into() });
        }
        *self = changed;
        Ok(())
    }

    tunables! {
        "minrtt_thresh": least, US_TICK => US_MOST,
            "Least growth of the round trip that ends slow start, microseconds (MIN_RTT_THRESH of RFC 9406).";
        "maxrtt_thresh": most, US_TICK => US_MOST,
            "Most that it takes, however long the round trip is, microseconds (MAX_RTT_THRESH).";
        "n_rttsamples": samples, 1 => u8::MAX,
            "Samples of a round before its least counts (N_RTT_SAMPLE).";
        "css_growth_div": slower, 1 => SLOWER_MOST,
            "By how much slower the window grows while it is not sure that there is a queue (CSS_GROWTH_DIVISOR).";
        "css_rounds": rounds, 1 => ROUNDS_MOST,
            "Rounds of that before slow start is over (CSS_ROUNDS).";
    }

    /// The thresholds, in ticks of [`US_TICK`] microseconds.
    pub(crate) fn thresholds(&self) -> (u16, u16) {
        ((self.least / US_TICK) as u16, (self.most / US_TICK) as u16)
    }

    /// N_RTT_SAMPLE.
    pub(crate) fn samples(&self) -> u8 {
        self.samples
    }

    /// CSS_GROWTH_DIVISOR.
    pub(crate) fn slower(&self) -> u32 {
        self.slower.into()
    }

    /// CSS_ROUNDS.
    pub(crate) fn rounds(&self) -> u8 {
        self.rounds
    }
}

const _: () = assert!(
    US_MOST / US_TICK < u16::MAX as u32 / 2,
    "a threshold above a round trip is still a number of ticks"
);

impl Default for HyStartLimits {
    fn default() -> Self {
        HyStartLimits::STANDARD
    }
}

#[cfg(test)]
mod tests;
