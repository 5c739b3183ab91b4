//! Whole packets: one pass from a frame to addresses and the place of the upper layer, and back.

use crate::checksum::{Sum, is_partial, pseudo};
use crate::ethernet::{self, Mac};
use crate::ipv4::Header as Header4;
use crate::ipv6::Header as Header6;
use crate::tcp::{self, Header, Segment};
use crate::{Ecn, ParseError, arp, ipv4, ipv6, protocol};
use base::Addr;
use core::ops::Range;

mod plain;
mod question;
mod template;
pub use plain::plain_tcp_v4;
pub use question::Question;
pub use template::{Filling, Template};

/// An IP packet inside a frame, checked as far as its IP headers go. Offsets count from the frame's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Source address.
    pub src: Addr,
    /// Destination address.
    pub dst: Addr,
    /// Upper protocol, after all IPv6 extension headers.
    pub protocol: u8,
    /// DSCP and ECN.
    pub tos: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Where the IP header starts.
    pub ip: u32,
    /// Where the upper layer starts.
    pub start: u32,
    /// Where it ends; what follows is padding.
    pub end: u32,
}

/// Content of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// An IPv4 or IPv6 packet.
    Ip(Packet),
    /// An ARP packet.
    Arp(arp::Packet),
}

/// A received Ethernet frame, read in one pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Its link-layer header.
    pub link: ethernet::Header,
    /// Content of the packet.
    pub content: Content,
}

/// Reads an Ethernet frame of which `bytes` is the head; all of it has `whole` bytes, more than
/// `bytes.len()` where the port hands a packet over in several pieces.
///
/// # Errors
/// The first thing wrong with it, by name.
#[inline]
pub fn parse_frame(bytes: &[u8], whole: usize) -> Result<Frame, ParseError> {
    let (link, rest) = ethernet::parse(bytes)?;
    let content = match link.ethertype {
        ethernet::IPV4 => Content::Ip(parse_v4(bytes, ethernet::HEADER_LEN, whole)?),
        ethernet::IPV6 => Content::Ip(parse_v6(bytes, ethernet::HEADER_LEN, whole)?),
        ethernet::ARP => Content::Arp(arp::parse(rest)?),
        _ => return Err(ParseError::UnknownEthertype),
    };
    Ok(Frame { link, content })
}

/// Reads an IP packet without a link-layer header, its family by the version field.
///
/// # Errors
/// The first thing wrong with it, by name.
#[inline]
pub fn parse_ip(bytes: &[u8], whole: usize) -> Result<Packet, ParseError> {
    match bytes.first().map(|byte| byte >> 4) {
        Some(4) => parse_v4(bytes, 0, whole),
        Some(6) => parse_v6(bytes, 0, whole),
        Some(_) => Err(ParseError::IpVersion),
        None => Err(ParseError::IpTruncated),
    }
}

fn parse_v4(bytes: &[u8], at: usize, whole: usize) -> Result<Packet, ParseError> {
    let (h, len) = ipv4::parse(&bytes[at..], whole.saturating_sub(at))?;
    let start = (at + len) as u32;
    let end = start + u32::from(h.payload_len);
    let Header4 { src, dst, protocol, tos, ttl, .. } = h;
    Ok(Packet { src, dst, protocol, tos, ttl, ip: at as u32, start, end })
}

fn parse_v6(bytes: &[u8], at: usize, whole: usize) -> Result<Packet, ParseError> {
    let (h, len) = ipv6::parse(&bytes[at..], whole.saturating_sub(at))?;
    let start = (at + len) as u32;
    let end = start + u32::from(h.payload_len);
    let Header6 { src, dst, protocol, tos, ttl, .. } = h;
    Ok(Packet { src, dst, protocol, tos, ttl, ip: at as u32, start, end })
}

impl Packet {
    /// The upper layer's place in the frame.
    pub fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The upper layer's bytes in `frame`, the bytes this was read from (cut off where the frame is).
    pub fn upper<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let end = (self.end as usize).min(frame.len());
        frame.get(self.start as usize..end).unwrap_or_default()
    }

    /// Length of the upper layer, bytes.
    pub fn len(&self) -> u32 {
        self.end - self.start
    }

    /// Has the packet nothing above IP?
    pub fn is_empty(&self) -> bool {
        self.end == self.start
    }

    /// The sum of the pseudo header of the upper layer.
    #[inline]
    pub fn pseudo(&self) -> Sum {
        pseudo(self.src, self.dst, self.protocol, self.len())
    }

    /// The TCP segment in `frame`; its checksum is the caller's affair ([`Packet::checksum`]).
    ///
    /// # Errors
    /// Those of [`tcp::parse`].
    #[inline]
    pub fn tcp<'a>(&self, frame: &'a [u8]) -> Result<(u16, u16, Segment<'a>), ParseError> {
        let (src_port, dst_port, mut segment) = tcp::parse(self.upper(frame))?;
        segment.ecn = Ecn::of(self.tos);
        Ok((src_port, dst_port, segment))
    }

    /// Returns the validity of the TCP checksum in `frame`.
    pub fn checksum(&self, frame: &[u8]) -> Checked {
        let upper = self.upper(frame);
        let pseudo = self.pseudo();
        if pseudo.plus(Sum::of(upper)).is_valid() {
            return Checked::Good;
        }
        match crate::bytes::be16(upper, tcp::CHECKSUM_OFFSET) {
            Some(field) if is_partial(field, pseudo) => Checked::Partial,
            _ => Checked::Bad,
        }
    }
}

/// Validity of a TCP checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checked {
    /// It is right.
    Good,
    /// Only the pseudo header is summed: the sender left the rest to hardware. Worth something only where the
    /// sender is on this machine.
    Partial,
    /// It is wrong.
    Bad,
}

/// Everything below TCP of a segment to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Below {
    /// Link-layer destination and source; `None` where the port takes bare IP packets.
    pub link: Option<Link>,
    /// Source address.
    pub src: Addr,
    /// Destination address, of the same family.
    pub dst: Addr,
    /// DSCP and ECN.
    pub tos: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Identification (IPv4) or flow label (IPv6, 20 bits).
    pub label: u32,
}

/// The two link-layer addresses of a frame to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Where to.
    pub dst: Mac,
    /// Where from.
    pub src: Mac,
}

/// Content of the TCP checksum field of a packet to send.
#[derive(Clone, Copy, Debug)]
pub enum Checksum {
    /// The checksum, computed over the payload that stands behind the headers.
    Full,
    /// The pseudo-header sum: the port completes it.
    Offloaded,
}

impl Below {
    /// Bytes of the link-layer and IP headers.
    #[inline]
    pub fn len(&self) -> usize {
        let link = if self.link.is_some() { ethernet::HEADER_LEN } else { 0 };
        link + if self.src.is_v4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN }
    }

    /// Never: an IP header has twenty bytes at least.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes the link-layer and IP headers of an upper layer of `payload_len` bytes; their length. IPv4
    /// goes out with DF set, since path MTU discovery is on throughout.
    ///
    /// # Panics
    /// If `into` is shorter than [`Below::len`], or the payload does not fit the length field.
    /// RFC 1191, 3-4.
    pub fn emit(&self, protocol: u8, payload_len: usize, into: &mut [u8]) -> usize {
        let Below { src, dst, tos, ttl, label, .. } = *self;
        let v4 = src.is_v4();
        let limit = if v4 { 65_535 - ipv4::HEADER_LEN } else { 65_535 };
        assert!(payload_len <= limit, "payload longer than an IP packet");
        let payload_len = payload_len as u16;
        let mut at = 0;
        if let Some(Link { dst, src }) = self.link {
            let ethertype = if v4 { ethernet::IPV4 } else { ethernet::IPV6 };
            at = ethernet::Header { dst, src, ethertype }.emit(into);
        }
        let into = &mut into[at..];
        at + if v4 {
            Header4 { src, dst, protocol, tos, ttl, id: label as u16, dont_fragment: true, payload_len }
                .emit(into)
        } else {
            Header6 { src, dst, protocol, tos, ttl, flow_label: label, payload_len }.emit(into)
        }
    }

    /// Writes all headers of a TCP segment in front of its payload: `into` starts with room for
    /// `self.len() + header.len()` bytes, and `payload_len` bytes of payload follow. The packet's length.
    ///
    /// # Panics
    /// If `into` is shorter than that.
    /// RFC 9293, MUST-2.
    #[inline]
    pub fn emit_tcp(
        &self,
        header: &Header,
        payload_len: usize,
        checksum: Checksum,
        into: &mut [u8],
    ) -> usize {
        match plain::emit(self, header, payload_len, checksum, into) {
            Some(len) => len,
            None => self.emit_tcp_generally(header, payload_len, checksum, into),
        }
    }

    /// The checksum of a segment that was changed after its headers were written.
    ///
    /// # Panics
    /// If `tcp` is shorter than a header.
    pub fn seal_tcp(&self, tcp: &mut [u8]) {
        tcp::set_checksum(tcp, 0);
        let pseudo = pseudo(self.src, self.dst, protocol::TCP, tcp.len() as u32);
        let field = pseudo.plus(Sum::of(tcp)).checksum();
        tcp::set_checksum(tcp, field);
    }

    #[inline(never)]
    fn emit_tcp_generally(
        &self,
        header: &Header,
        payload_len: usize,
        checksum: Checksum,
        into: &mut [u8],
    ) -> usize {
        let header_len = header.len();
        let upper_len = header_len + payload_len;
        let at = self.emit(protocol::TCP, upper_len, into);
        let upper = &mut into[at..at + upper_len];
        header.emit(upper);
        let pseudo = pseudo(self.src, self.dst, protocol::TCP, upper_len as u32);
        let field = match checksum {
            Checksum::Offloaded => pseudo.fold(),
            Checksum::Full => pseudo.plus(Sum::of(upper)).checksum(),
        };
        tcp::set_checksum(upper, field);
        at + upper_len
    }
}
