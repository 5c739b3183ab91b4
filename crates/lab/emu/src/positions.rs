//! Lists of packet positions, for loss that hits exactly the packets an experiment names.

use std::fmt;
use std::str::FromStr;

/// Positions of packets entering a pipe, the first being 1: `1,5-10,30` names eight of them. Kept as disjoint
/// ranges in order, so that asking in order costs nothing.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Positions {
    ranges: Vec<(u64, u64)>,
}

/// Why a list of positions cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PositionsError {
    /// An item is neither a number nor two with a dash between, in decimal digits.
    Malformed,
    /// A position is zero; the first packet is number 1.
    Zero,
    /// A range ends before it starts.
    Reversed,
    /// A position above 2^63.
    TooBig,
}

impl fmt::Display for PositionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PositionsError::Malformed => "want positions like 1,5-10,30",
            PositionsError::Zero => "the first packet is number 1",
            PositionsError::Reversed => "a range ends before it starts",
            PositionsError::TooBig => "a position above 2^63",
        })
    }
}

impl std::error::Error for PositionsError {}

const GREATEST: u64 = 1 << 63;

fn position(text: &str) -> Result<u64, PositionsError> {
    if text.is_empty() || !text.bytes().all(|c| c.is_ascii_digit()) {
        return Err(PositionsError::Malformed);
    }
    match text.parse() {
        Ok(0) => Err(PositionsError::Zero),
        Ok(n) if n <= GREATEST => Ok(n),
        _ => Err(PositionsError::TooBig),
    }
}

impl FromStr for Positions {
    type Err = PositionsError;

    /// Reads `none` or a comma list of positions and inclusive ranges, in any order and overlapping as they
    /// like.
    fn from_str(text: &str) -> Result<Self, PositionsError> {
        if text == "none" {
            return Ok(Positions::default());
        }
        let mut ranges = Vec::new();
        for item in text.split(',') {
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            let (first, last) = (position(first)?, position(last)?);
            if last < first {
                return Err(PositionsError::Reversed);
            }
            ranges.push((first, last));
        }
        ranges.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Ok(Positions { ranges: merged })
    }
}

impl fmt::Display for Positions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ranges.is_empty() {
            return f.write_str("none");
        }
        for (nth, (first, last)) in self.ranges.iter().enumerate() {
            let comma = if nth == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl Positions {
    /// Is packet number `n` named?
    pub fn contains(&self, n: u64) -> bool {
        let after = self.ranges.partition_point(|(first, _)| *first <= n);
        after > 0 && n <= self.ranges[after - 1].1
    }

    /// Is none named?
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many are named.
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|(first, last)| last - first + 1).sum()
    }
}

#[cfg(test)]
mod tests;
