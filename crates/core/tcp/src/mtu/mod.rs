//! Segment sizes: what the path carries, by ICMP and by probes, and what a segment has room for.

pub(crate) mod icmp;
pub(crate) mod mtu_search;
pub(crate) mod path;

use alloc::boxed::Box;

use base::{Instant, Seq};

use crate::Error;

/// Knowledge of the path beside the MTU in use.
#[derive(Default, Debug)]
pub(crate) struct PathState {
    /// Soft error, and SND.UNA at that time: the error if nothing is acknowledged any more (RFC 1122, section 4.2.3.9).
    soft_error: Option<(Error, Seq)>,
    /// When the second began in which path MTU reductions are counted, milliseconds, and their number.
    resegments: (u32, u8),
    /// Exists while [`Bits::SEARCHING`](crate::connection::Bits::SEARCHING).
    search: Option<Box<MtuSearch>>,
    /// Which of the paths to the peer, as far as a flow label can choose: another after each timeout.
    number: u16,
}

impl PathState {
    /// Chooses another of the paths.
    pub(crate) fn choose_another(&mut self) {
        self.number = self.number.wrapping_add(1).max(1);
    }

    /// Returns which of the paths was chosen.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

/// A probe in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Probe {
    start: Seq,
    end: Seq,
    mtu: u16,
}

impl Probe {
    fn holds(&self, seq: Seq) -> bool {
        seq.in_window(self.start, self.end.offset_from(self.start))
    }
}

/// One connection's search, in bytes of IP packet.
#[derive(Debug)]
struct MtuSearch {
    /// The path carries this.
    low: u16,
    /// Largest segment size not known to fail, bytes.
    high: u16,
    /// Largest segment size that the route allows, bytes.
    most: u16,
    probe: Option<Probe>,
    /// Probes of one size that were lost in a row (PROBE_COUNT).
    lost: u8,
    /// A router named `high`: that is the size to try next.
    told: bool,
    /// When the search last learned something.
    at: Instant,
}

impl MtuSearch {
    /// The next size to try, larger than the `current` one, if what is open is worth a probe.
    /// RFC 8899, 5.3.2-1.
    fn next(&self, threshold: u16, current: u16) -> Option<u16> {
        if self.told && self.high > current {
            return Some(self.high);
        }
        let middle = |low: u16| {
            let open = self.high.saturating_sub(low);
            (open >= threshold.max(1)).then_some(low + open / 2)
        };
        // A route that an administrator gave a small MTU carries that before the search knows of it.
        middle(self.low).filter(|&size| size > current).or_else(|| middle(current))
    }

    /// A probe of `mtu` is lost; so often, and the size is too large.
    /// RFC 8899, 5.1.2-1.
    fn on_lost(&mut self, now: Instant, mtu: u16, most: u8) {
        self.at = now;
        self.lost = self.lost.saturating_add(1);
        if self.lost >= most {
            (self.high, self.lost, self.told) = (mtu - 1, 0, false);
        }
    }

    /// Nothing above `mtu` passes.
    fn bound(&mut self, mtu: u16) {
        (self.high, self.low) = (self.high.min(mtu), self.low.min(mtu));
    }
}
