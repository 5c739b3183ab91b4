//! The headers of a segment, written once for all that differ in addresses, ports, numbers, window and timestamps only:
//! the next one is a copy with those filled in, and sums that go on from those of the rest (RFC 1624).

use super::{Below, Checksum, Link};
use crate::checksum::Sum;
use crate::ethernet;
use crate::tcp::{CHECKSUM_OFFSET, Header, MAX_OPTIONS_LEN, Timestamps};
use base::{Addr, Endpoint, Seq};

/// Ethernet, IPv6 and TCP headers, all options included.
const ROOM: usize = 14 + 40 + 20 + MAX_OPTIONS_LEN;
/// The kind of the timestamps option, and of the byte between options.
const TIMESTAMPS: u8 = 8;
const NOP: u8 = 1;
const END: u8 = 0;
/// Where the checksum stands in an IPv4 header; the addresses follow.
const IP_CHECKSUM: usize = 10;
/// Bits of an IPv6 flow label.
const LABEL: u32 = 0x000f_ffff;

/// Headers without what changes from one segment to the next.
#[derive(Clone, Copy, Debug)]
pub struct Template {
    bytes: [u8; ROOM],
    len: u8,
    /// Where the IP and TCP headers begin, and the two timestamps: 0 for none.
    ip: u8,
    tcp: u8,
    stamps: u8,
    /// Of the IPv4 header, of the pseudo header, and of that and all of TCP: as far as they are known.
    ip_sum: Sum,
    pseudo: Sum,
    sum: Sum,
}

/// Fields that change.
#[derive(Clone, Copy, Debug)]
pub struct Filling {
    /// The link-layer addresses, where there are any.
    pub link: Option<Link>,
    /// The IPv6 flow label; nothing on IPv4.
    pub label: u32,
    /// Source and destination, of the template's family.
    pub ends: [Endpoint; 2],
    /// Sequence number.
    pub seq: Seq,
    /// Acknowledgment number: 0 on a segment without ACK.
    pub ack: Seq,
    /// Window field.
    pub window: u16,
    /// The timestamps, if the segment carries any.
    pub stamps: Option<Timestamps>,
}

impl Template {
    /// That of segments like `header` below which `below` lies. `None` where timestamps stand at an odd place, which
    /// nothing lays out.
    pub fn new(below: &Below, header: &Header) -> Option<Template> {
        let stamps = header.options.timestamps.map(|_| Timestamps { val: 0, ecr: 0 });
        let mut header = *header;
        (header.src_port, header.dst_port, header.window) = (0, 0, 0);
        (header.seq, header.ack) = (Seq::new(0), Seq::new(0));
        header.options.timestamps = stamps;
        let none = if below.src.is_v4() { Addr::UNSPECIFIED_V4 } else { Addr::UNSPECIFIED_V6 };
        let below = Below { label: 0, src: none, dst: none, ..*below };
        let (tcp, mut bytes) = (below.len(), [0; ROOM]);
        let len = below.emit_tcp(&header, 0, Checksum::Offloaded, &mut bytes[..tcp + header.len()]);
        let stamps = match stamps {
            Some(_) => tcp + find_stamps(&bytes[tcp..len])?,
            None => 0,
        };
        // The field holds the pseudo header's sum.
        let field = tcp + CHECKSUM_OFFSET;
        let (sum, pseudo) = (Sum::of(&bytes[tcp..len]), Sum::of(&bytes[field..field + 2]));
        let ip = if below.link.is_some() { ethernet::HEADER_LEN } else { 0 };
        let check = u16::from_be_bytes([bytes[ip + IP_CHECKSUM], bytes[ip + IP_CHECKSUM + 1]]);
        let (ip_sum, stamps) = (Sum::of_u16(!check), stamps as u8);
        Some(Template { bytes, len: len as u8, ip: ip as u8, tcp: tcp as u8, stamps, ip_sum, pseudo, sum })
    }

    /// Bytes of all headers.
    #[inline]
    pub fn len(&self) -> usize {
        self.len.into()
    }

    /// Never: there is a TCP header at least.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Bytes below TCP.
    #[inline]
    pub fn below(&self) -> usize {
        self.tcp.into()
    }

    /// Is it over IPv4?
    #[inline]
    pub fn is_v4(&self) -> bool {
        self.tcp - self.ip == 20
    }

    /// Writes the headers to the front of `into`, with the whole checksum or what a port completes.
    ///
    /// # Panics
    /// If `into` is shorter than [`Template::len`].
    #[inline]
    pub fn fill(&self, filling: &Filling, full: bool, into: &mut [u8]) {
        let Filling { link, label, ends: [from, to], seq, ack, window, stamps } = *filling;
        let into = &mut into[..usize::from(self.len)];
        into.copy_from_slice(&self.bytes[..usize::from(self.len)]);
        if let (Some(Link { dst, src }), Some(place)) = (link, into.first_chunk_mut::<12>()) {
            place[..6].copy_from_slice(&dst);
            place[6..].copy_from_slice(&src);
        }
        let (below, tcp) = into.split_at_mut(self.tcp.into());
        let addresses = self.address(&mut below[usize::from(self.ip)..], from.addr, to.addr, label);
        let ports = u32::from(from.port) << 16 | u32::from(to.port);
        let mut sum = u64::from(ports) + u64::from(seq.raw()) + u64::from(ack.raw()) + u64::from(window);
        if let Some(Timestamps { val, ecr }) = stamps.filter(|_| self.stamps != 0)
            && let Some(place) = tcp[usize::from(self.stamps - self.tcp)..].first_chunk_mut::<8>()
        {
            *place = (u64::from(val) << 32 | u64::from(ecr)).to_be_bytes();
            sum += u64::from(val) + u64::from(ecr);
        }
        let Some(fixed) = tcp.first_chunk_mut::<20>() else { return };
        fixed[..4].copy_from_slice(&ports.to_be_bytes());
        fixed[4..8].copy_from_slice(&seq.raw().to_be_bytes());
        fixed[8..12].copy_from_slice(&ack.raw().to_be_bytes());
        fixed[14..16].copy_from_slice(&window.to_be_bytes());
        let field = match full {
            true => self.sum.plus(Sum::of_wide(sum + addresses)).checksum(),
            false => self.pseudo.plus(Sum::of_wide(addresses)).fold(),
        };
        fixed[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].copy_from_slice(&field.to_be_bytes());
    }

    /// Writes the addresses into the IP header; their 32-bit words added up.
    #[inline(always)]
    fn address(&self, ip: &mut [u8], from: Addr, to: Addr, label: u32) -> u64 {
        let (src, dst) = (from.words(), to.words());
        if self.is_v4() {
            let sum = u64::from(src[3]) + u64::from(dst[3]);
            let check = self.ip_sum.plus(Sum::of_wide(sum)).checksum();
            if let Some(place) = ip[IP_CHECKSUM..].first_chunk_mut::<10>() {
                place[..2].copy_from_slice(&check.to_be_bytes());
                place[2..6].copy_from_slice(&src[3].to_be_bytes());
                place[6..].copy_from_slice(&dst[3].to_be_bytes());
            }
            return sum;
        }
        if let Some(place) = ip.first_chunk_mut::<40>() {
            let first = u32::from_be_bytes([place[0], place[1], place[2], place[3]]) | label & LABEL;
            place[..4].copy_from_slice(&first.to_be_bytes());
            place[8..24].copy_from_slice(&from.bytes());
            place[24..].copy_from_slice(&to.bytes());
        }
        src.iter().chain(&dst).fold(0, |sum, word| sum + u64::from(*word))
    }
}

/// Where the timestamps stand in a TCP header that has them.
fn find_stamps(tcp: &[u8]) -> Option<usize> {
    let mut at = 20;
    loop {
        match *tcp.get(at)? {
            TIMESTAMPS => return Some(at + 2).filter(|at| at % 2 == 0),
            NOP => at += 1,
            END => return None,
            _ => at += usize::from(*tcp.get(at + 1)?).max(2),
        }
    }
}

#[cfg(test)]
mod tests;
