//! Packets of a flow that follow each other and differ in nothing but where their data belongs.
//!
//! Whether a packet continues a merged run is decided on its bytes, before anything of it is parsed: its headers are
//! those of the first packet but for the few fields that each packet has of its own, and these say what they must. So
//! all that receiving does with a header (parse, look up, check, decide, acknowledge, tell) is done once a merged run.

use core::iter;

use base::Seq;
use wire::checksum::{Sum, Summer};

use crate::layout::{LAYOUTS, Layout, Sight, half, word};

/// Most packets in a merged run.
pub const MERGE_MAX: usize = 64;
/// Bytes of payload with which a merged run still would be an IPv4 packet: 65,535 less both headers with timestamps.
const BYTES_MAX: u32 = 65_483;

/// ACK, and congestion's signals, which TCP's fast path does not take but which agree within a merged run like all
/// else.
const ACK: u16 = 0x010;
const PSH: u16 = 0x008;
const ACE: u16 = 0x1c0;

/// Why a packet did not join.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The merged run ended with PSH or a segment shorter than those before it.
    Closed,
    /// The merged run is as long as may be.
    Full,
    /// The packet says something else, or is not whole.
    Differs,
    /// Something is missing before it, or it comes again.
    Gap,
}

/// Packets that continue each other, of which there is one at least.
#[derive(Clone, Debug)]
pub struct MergedRun {
    layout: &'static Layout,
    /// The headers of the first packet, or of one with its length and the timestamp of the last.
    shared: Sight,
    /// The sum of the pseudo header but for its length.
    pseudo: Sum,
    /// Checksum of TCP header and payload that a packet as long as the first must have.
    wanted: u16,
    /// Sum of identification and checksum of the IPv4 header of a packet as long as the first, as all else of it is
    /// equal.
    own: u16,
    /// Identification of the first, where it counts (RFC 6864).
    id: Option<u16>,
    /// The byte that comes next.
    next: Seq,
    /// The last packet's timestamp.
    stamp: u32,
    /// Bytes of payload of each packet but the last.
    size: u32,
    bytes: u32,
    /// Packets as long as the first at most.
    most: u16,
    count: u16,
    pushed: bool,
}

/// `$call` with the number of a layout as the constant `$nth`, so that it is compiled for each.
macro_rules! by_layout {
    ($layout:expr, $nth:ident => $call:expr) => {
        match $layout.nth {
            0 => by_layout!(@ $nth 0 $call),
            1 => by_layout!(@ $nth 1 $call),
            2 => by_layout!(@ $nth 2 $call),
            3 => by_layout!(@ $nth 3 $call),
            4 => by_layout!(@ $nth 4 $call),
            5 => by_layout!(@ $nth 5 $call),
            6 => by_layout!(@ $nth 6 $call),
            _ => by_layout!(@ $nth 7 $call),
        }
    };
    (@ $nth:ident $number:literal $call:expr) => {{
        const $nth: usize = $number;
        $call
    }};
}

impl MergedRun {
    /// A merged run of the packet in `first`, whose IP header starts at `ip` and whose checksums are right; `None` if
    /// it may have no followers.
    pub fn begin(first: &[u8], ip: usize) -> Option<MergedRun> {
        let layout = Layout::of(first, ip)?;
        by_layout!(layout, NTH => MergedRun::begin_as::<NTH>(layout, first))
    }

    /// Where TCP starts in the packet in `first`, if a merged run may begin with it.
    pub(crate) fn tcp_of(first: &[u8], ip: usize) -> Option<usize> {
        let layout = Layout::of(first, ip)?;
        leads(layout, first).map(|_| layout.tcp)
    }

    /// [`MergedRun::begin`] where headers lie as in that one of [`LAYOUTS`].
    fn begin_as<const LAYOUT: usize>(known: &'static Layout, first: &[u8]) -> Option<MergedRun> {
        let layout = const { &LAYOUTS[LAYOUT] };
        let size = leads(layout, first)?;
        let dont_fragment = !layout.v4 || half(first, layout.ip + 6)? & 0x4000 != 0;
        let pseudo = layout.addresses(first)?.plus(Sum::of_u16(6));
        let upper = layout.text - layout.tcp + size;
        Some(MergedRun {
            layout: known,
            shared: layout.sight(first)?,
            pseudo,
            wanted: pseudo.plus(Sum::of_u16(upper as u16)).checksum(),
            own: if layout.v4 { own_sum(first, layout.ip)? } else { 0 },
            id: if dont_fragment { None } else { half(first, layout.ip + 4) },
            next: Seq::new(word(first, layout.tcp + 4)?) + size as u32,
            stamp: if layout.stamps { word(first, layout.tcp + 24)? } else { 0 },
            size: size as u32,
            bytes: size as u32,
            most: MERGE_MAX.min(BYTES_MAX as usize / size) as u16,
            count: 1,
            pushed: false,
        })
    }

    /// The packet in `next` joins, if it continues the merged run; with `sums`, if its TCP checksum is to be looked at.
    ///
    /// # Errors
    /// Why it does not. The merged run is as before.
    #[inline]
    pub fn join(&mut self, next: &[u8], sums: Option<Summer>) -> Result<(), Refusal> {
        by_layout!(self.layout, NTH => self.join_as::<NTH>(next, sums))
    }

    fn join_as<const LAYOUT: usize>(&mut self, next: &[u8], sums: Option<Summer>) -> Result<(), Refusal> {
        let layout = const { &LAYOUTS[LAYOUT] };
        // Mostly it is a usual one.
        if self.follow_as::<LAYOUT>(iter::once((next, sums.is_some())), sums.unwrap_or(Sum::of)) == 1 {
            return Ok(());
        }
        if next.len() < layout.text || !layout.shares(next, &self.shared) {
            return Err(Refusal::Differs);
        }
        if self.is_closed() {
            return Err(Refusal::Closed);
        }
        let (len, pushed, stamp) = self.continues(layout, next, sums)?;
        self.next += len;
        if stamp != self.stamp && len == self.size && !pushed {
            self.shared = layout.sight(next).ok_or(Refusal::Differs)?;
        }
        self.stamp = stamp;
        self.bytes += len;
        self.count += 1;
        self.pushed = pushed;
        Ok(())
    }

    /// Packets of the front join that continue the merged run and are the usual ones of a bulk flow: as long as its
    /// first, with nothing behind them, and with the timestamp of the last. How many: the one behind them may join
    /// yet. With each packet comes whether its TCP checksum is to be looked at, with `sum`.
    #[inline]
    pub fn follow<'a>(&mut self, packets: impl Iterator<Item = (&'a [u8], bool)>, sum: Summer) -> u16 {
        by_layout!(self.layout, NTH => self.follow_as::<NTH>(packets, sum))
    }

    /// By itself, so that what the loop needs stays in registers.
    #[inline(never)]
    fn follow_as<'a, const LAYOUT: usize>(
        &mut self,
        packets: impl Iterator<Item = (&'a [u8], bool)>,
        sum: Summer,
    ) -> u16 {
        let layout = const { &LAYOUTS[LAYOUT] };
        if self.is_closed() {
            return 0;
        }
        let len = layout.text + self.size as usize;
        if len < layout.text {
            return 0;
        }
        let room = self.most.saturating_sub(self.count);
        let (mut joined, mut next, mut pushed) = (0, self.next, false);
        for (packet, unsure) in packets.take(room.into()) {
            let usual = packet.len() == len
                && layout.is_alike(packet, &self.shared)
                && word(packet, layout.tcp + 4) == Some(next.raw())
                && (!layout.v4
                    || own_sum(packet, layout.ip) == Some(self.own)
                        && self.is_counted(layout, packet, joined));
            if !usual || unsure && !sum(&packet[layout.tcp..]).is(self.wanted) {
                break;
            }
            next += self.size;
            joined += 1;
            pushed = packet[layout.tcp + 13] & PSH as u8 != 0;
            if pushed {
                break;
            }
        }
        self.pushed = pushed;
        self.next = next;
        self.bytes += u32::from(joined) * self.size;
        self.count += joined;
        joined
    }

    /// Has it, where that counts, the identification of the packet `ahead` places behind the next?
    #[inline(always)]
    fn is_counted(&self, layout: &Layout, packet: &[u8], ahead: u16) -> bool {
        let count = self.count + ahead;
        self.id.is_none_or(|id| half(packet, layout.ip + 4) == Some(id.wrapping_add(count)))
    }

    /// Is the IPv4 header's checksum right, though it be shorter than the first, and its identification the next?
    fn is_numbered(&self, layout: &Layout, packet: &[u8]) -> bool {
        let summed = |own: u16, end: usize| {
            let len = ((end - layout.ip) as u16).to_be();
            let sum = u32::from(own) + u32::from(len);
            (sum + (sum >> 16)) & 0xffff
        };
        let whole = own_sum(packet, layout.ip).zip(layout.end(packet)).map(|(own, end)| summed(own, end));
        whole == Some(summed(self.own, layout.text + self.size as usize))
            && self.is_counted(layout, packet, 0)
    }

    /// Returns true if the packet's own fields continue the run: payload bytes, PSH and timestamp.
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
        if self.bytes + len > BYTES_MAX || usize::from(self.count) == MERGE_MAX {
            return Err(Refusal::Full);
        }
        let read = |at| word(next, at).ok_or(Refusal::Differs);
        if Seq::new(read(layout.tcp + 4)?) != self.next {
            return Err(Refusal::Gap);
        }
        if layout.v4 && !self.is_numbered(layout, next) {
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
        self.pushed || self.bytes < self.size * u32::from(self.count)
    }

    /// One more as long as its first would be too much.
    pub(crate) fn is_full(&self) -> bool {
        self.count >= self.most
    }

    /// Packets.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Bytes of payload of all.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Has the last of them PSH?
    pub fn is_pushed(&self) -> bool {
        self.pushed
    }

    /// Where the payload of the `nth` packet lies in it.
    pub fn text(&self, nth: u16) -> core::ops::Range<usize> {
        let before = self.size * u32::from(nth);
        let len = self.size.min(self.bytes.saturating_sub(before));
        let text = self.layout.text;
        text..text + len as usize
    }
}

/// Bytes of payload of a packet, if it has some and may have followers.
#[inline(always)]
fn leads(layout: &Layout, first: &[u8]) -> Option<usize> {
    let flags = half(first, layout.tcp + 12)? & 0x1ff;
    let size = layout.end(first)?.checked_sub(layout.text).filter(|size| *size > 0)?;
    (flags & !ACE == ACK).then_some(size)
}

/// The sum of identification and checksum of an IPv4 header. In whichever order their bytes lie: it is compared with
/// its like.
#[inline(always)]
fn own_sum(packet: &[u8], ip: usize) -> Option<u16> {
    let read = |at: usize| Some(u32::from(u16::from_ne_bytes(*packet.get(at..)?.first_chunk()?)));
    let sum = read(ip + 4)? + read(ip + 10)?;
    Some((sum + (sum >> 16)) as u16)
}
