//! Packets of a flow that follow each other and differ in nothing but where their data belongs.
//!
//! Whether a packet continues a train is decided on its octets, before anything of it is parsed: its headers are those
//! of the first packet but for the few fields that each packet has of its own, and these say what they must. So all
//! that receiving does with a header (parse, look up, check, decide, acknowledge, tell) is done once a train.

use base::Seq;
use wire::checksum::{Sum, Summer};

use crate::layout::{LAYOUTS, Layout, Sight};
use crate::octets::{half, word};

/// Most packets in a train.
pub const TRAIN_MAX: usize = 64;
/// Octets of payload with which a train still would be an IPv4 packet: 65,535 less both headers with timestamps.
const OCTETS_MAX: u32 = 65_483;

/// ACK, and congestion's signals, which TCP's fast path does not take but which agree within a train like all else.
const ACK: u16 = 0x010;
const PSH: u16 = 0x008;
const ACE: u16 = 0x1c0;

/// Why a packet did not join.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The train ended with PSH or a segment shorter than those before it.
    Closed,
    /// The train is as long as may be.
    Full,
    /// The packet says something else, or is not whole.
    Differs,
    /// Something is missing before it, or it comes again.
    Gap,
}

/// Packets that continue each other, of which there is one at least.
#[derive(Clone, Debug)]
pub struct Train {
    layout: &'static Layout,
    /// The first packet's headers.
    shared: Sight,
    /// The sum of the pseudo header but for its length.
    pseudo: Sum,
    /// What the IPv4 header's own fields must sum up to, as the shared ones do not change.
    own: u16,
    /// Identification of the first, where it counts (RFC 6864).
    id: Option<u16>,
    /// The octet that comes next.
    next: Seq,
    /// The last packet's timestamp.
    stamp: u32,
    /// Octets of payload of each packet but the last.
    size: u32,
    octets: u32,
    count: u16,
    pushed: bool,
}

impl Train {
    /// A train of the packet in `first`, whose IP header starts at `ip` and whose checksums are right; `None` if it may
    /// have no followers.
    pub fn begin(first: &[u8], ip: usize) -> Option<Train> {
        let layout = Layout::of(first, ip)?;
        let flags = half(first, layout.tcp + 12)? & 0x1ff;
        let size = layout.end(first)?.checked_sub(layout.text).filter(|size| *size > 0)?;
        if flags & !ACE != ACK {
            return None;
        }
        let dont_fragment = !layout.v4 || half(first, ip + 6)? & 0x4000 != 0;
        Some(Train {
            layout,
            shared: layout.sight(first)?,
            pseudo: Sum::of(layout.addresses(first)?).plus(Sum::of_u16(6)),
            own: if layout.v4 { own_sum(first, ip)? } else { 0 },
            id: if dont_fragment { None } else { half(first, ip + 4) },
            next: Seq::new(word(first, layout.tcp + 4)?) + size as u32,
            stamp: if layout.stamps { word(first, layout.tcp + 24)? } else { 0 },
            size: size as u32,
            octets: size as u32,
            count: 1,
            pushed: false,
        })
    }

    /// The packet in `next` joins, if it continues the train; with `sums`, if its TCP checksum is to be looked at.
    ///
    /// # Errors
    /// Why it does not. The train is as before.
    #[inline]
    pub fn join(&mut self, next: &[u8], sums: Option<Summer>) -> Result<(), Refusal> {
        match self.layout.nth {
            0 => self.join_as::<0>(next, sums),
            1 => self.join_as::<1>(next, sums),
            2 => self.join_as::<2>(next, sums),
            3 => self.join_as::<3>(next, sums),
            4 => self.join_as::<4>(next, sums),
            5 => self.join_as::<5>(next, sums),
            6 => self.join_as::<6>(next, sums),
            _ => self.join_as::<7>(next, sums),
        }
    }

    /// The same, where headers lie as in that one of [`LAYOUTS`].
    fn join_as<const LAYOUT: usize>(&mut self, next: &[u8], sums: Option<Summer>) -> Result<(), Refusal> {
        let layout = const { &LAYOUTS[LAYOUT] };
        if next.len() < layout.text || !layout.shares(next, &self.shared) {
            return Err(Refusal::Differs);
        }
        if self.is_closed() {
            return Err(Refusal::Closed);
        }
        let (len, pushed, stamp) = self.continues(layout, next, sums)?;
        self.next += len;
        self.stamp = stamp;
        self.octets += len;
        self.count += 1;
        self.pushed = pushed;
        Ok(())
    }

    /// What is the packet's own says what it must: its octets of payload, PSH, and its timestamp.
    #[inline(always)]
    fn continues(
        &self,
        layout: &'static Layout,
        next: &[u8],
        sums: Option<Summer>,
    ) -> Result<(u32, bool, u32), Refusal> {
        let end = layout.end(next).filter(|end| *end <= next.len()).ok_or(Refusal::Differs)?;
        let len = end.saturating_sub(layout.text) as u32;
        if len == 0 || len > self.size {
            return Err(Refusal::Differs);
        }
        if self.octets + len > OCTETS_MAX || usize::from(self.count) == TRAIN_MAX {
            return Err(Refusal::Full);
        }
        let read = |at| word(next, at).ok_or(Refusal::Differs);
        if Seq::new(read(layout.tcp + 4)?) != self.next {
            return Err(Refusal::Gap);
        }
        let counts = self.id.is_none_or(|id| half(next, layout.ip + 4) == Some(id.wrapping_add(self.count)));
        if layout.v4 && (own_sum(next, layout.ip) != Some(self.own) || !counts) {
            return Err(Refusal::Differs);
        }
        let stamp = if layout.stamps { read(layout.tcp + 24)? } else { 0 };
        if (stamp.wrapping_sub(self.stamp) as i32) < 0 {
            return Err(Refusal::Differs);
        }
        if let Some(sum) = sums {
            let upper = &next[layout.tcp..end];
            if !self.pseudo.plus(Sum::of_u16(upper.len() as u16)).plus(sum(upper)).is_valid() {
                return Err(Refusal::Differs);
            }
        }
        let pushed = half(next, layout.tcp + 12).is_some_and(|flags| flags & PSH != 0);
        Ok((len, pushed, stamp))
    }

    /// Nothing can follow.
    pub fn is_closed(&self) -> bool {
        self.pushed || self.octets < self.size * u32::from(self.count)
    }

    /// Where TCP starts in its packets.
    pub(crate) fn tcp(&self) -> usize {
        self.layout.tcp
    }

    /// One more as long as its first would be too much.
    pub(crate) fn is_full(&self) -> bool {
        usize::from(self.count) == TRAIN_MAX || self.octets + self.size > OCTETS_MAX
    }

    /// Packets.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Octets of payload of all.
    pub fn octets(&self) -> u32 {
        self.octets
    }

    /// Has the last of them PSH?
    pub fn is_pushed(&self) -> bool {
        self.pushed
    }

    /// Where the payload of the `nth` packet lies in it.
    pub fn text(&self, nth: u16) -> core::ops::Range<usize> {
        let before = self.size * u32::from(nth);
        let len = self.size.min(self.octets.saturating_sub(before));
        self.layout.text..self.layout.text + len as usize
    }
}

/// The sum of what differs between the IPv4 headers of a train: length, identification, checksum.
#[inline(always)]
fn own_sum(packet: &[u8], ip: usize) -> Option<u16> {
    let (first, check) = (word(packet, ip + 2)?, half(packet, ip + 10)?);
    Some(Sum::of_u32(first).plus(Sum::of_u16(check)).fold())
}
