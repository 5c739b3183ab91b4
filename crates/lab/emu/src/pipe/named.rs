//! Packets named by their number, among all, among those of a kind, in the pipe or in each flow.

use super::flows::Flows;
use crate::{Positions, PositionsError};
use std::fmt;
use std::str::FromStr;
use wire::packet::{Content, parse_frame};

/// Which packets are numbered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Among {
    /// All of them.
    #[default]
    All,
    /// TCP segments that carry data.
    Data,
    /// TCP segments with a SACK option.
    Sack,
}

impl Among {
    const WORDS: [(&'static str, Among); 2] = [("data ", Among::Data), ("sack ", Among::Sack)];

    /// Is this frame one of them?
    fn has(self, frame: &[u8]) -> bool {
        let segment = || match parse_frame(frame, frame.len()).ok()?.content {
            Content::Ip(ip) if ip.protocol == wire::protocol::TCP => ip.tcp(frame).ok(),
            _ => None,
        };
        match self {
            Among::All => true,
            Among::Data => segment().is_some_and(|(.., segment)| !segment.payload.is_empty()),
            Among::Sack => segment().is_some_and(|(.., segment)| !segment.options.sack.as_slice().is_empty()),
        }
    }
}

/// Packets named by position, written `[per-flow] [data|sack] POSITIONS`, such as `per-flow data 9-12`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Named {
    /// Their numbers.
    pub positions: Positions,
    /// They are numbered in each flow (protocol, addresses and ports of one direction) by itself. Of the first
    /// 65,536 flows, that is; those after them, and packets that are not IP, count as one flow.
    pub per_flow: bool,
    /// Which packets are numbered.
    pub among: Among,
}

impl FromStr for Named {
    type Err = PositionsError;

    fn from_str(text: &str) -> Result<Named, PositionsError> {
        let whole = text.strip_prefix("per-flow ");
        let rest = whole.unwrap_or(text);
        let of = |(word, among): &(&str, Among)| rest.strip_prefix(word).map(|list| (list, *among));
        let (list, among) = Among::WORDS.iter().find_map(of).unwrap_or((rest, Among::All));
        Ok(Named { positions: list.parse()?, per_flow: whole.is_some(), among })
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Among::WORDS.iter().find(|(_, among)| *among == self.among).map_or("", |(word, _)| word);
        write!(f, "{}{word}{}", if self.per_flow { "per-flow " } else { "" }, self.positions)
    }
}

/// How many packets have been numbered.
#[derive(Default)]
pub(super) struct Numbering {
    flows: Flows,
    all: u64,
}

impl Numbering {
    /// Counts a packet if it is one of those that `named` numbers. Returns true if its number is named.
    pub(super) fn names(&mut self, named: &Named, frame: &[u8]) -> bool {
        if named.positions.is_empty() || !named.among.has(frame) {
            return false;
        }
        let number = if named.per_flow {
            self.flows.position(frame)
        } else {
            self.all += 1;
            self.all
        };
        named.positions.contains(number)
    }
}

#[cfg(test)]
mod tests;
