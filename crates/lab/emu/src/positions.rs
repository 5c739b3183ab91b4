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
mod tests {
    //! Goal: the lists mean what dummynet's `pls` meant, and nonsense is refused by name.
    use super::*;

    fn read(text: &str) -> Result<Positions, PositionsError> {
        text.parse()
    }

    #[test]
    fn the_list_of_the_2009_handbook() {
        let list = read("1,5-10,30").unwrap();
        assert_eq!(list.count(), 8);
        let forwarded: Vec<u64> = (1..=40).filter(|n| !list.contains(*n)).collect();
        assert_eq!(forwarded.len(), 32);
        assert!(forwarded.starts_with(&[2, 3, 4, 11]) && forwarded.ends_with(&[38, 39, 40]));
    }

    #[test]
    fn lists_are_merged_and_printed_in_order() {
        for (text, canonical) in
            [("5,3-4", "3-5"), ("1-3,2-6", "1-6"), ("7-7", "7"), ("none", "none"), ("9,1", "1,9")]
        {
            let list = read(text).unwrap();
            assert_eq!(list.to_string(), canonical);
            assert_eq!(read(canonical).unwrap(), list);
        }
        assert!(read(&GREATEST.to_string()).unwrap().contains(GREATEST));
    }

    #[test]
    fn nonsense_is_refused() {
        use PositionsError::*;
        for (text, why) in [
            ("", Malformed),
            ("0", Zero),
            ("5-", Malformed),
            ("-5", Malformed),
            ("10-5", Reversed),
            ("1,,2", Malformed),
            ("a", Malformed),
            ("+1", Malformed),
            (" 1", Malformed),
            ("9223372036854775809", TooBig),
            ("99999999999999999999", TooBig),
        ] {
            assert_eq!(read(text), Err(why), "{text:?}");
        }
    }
}
