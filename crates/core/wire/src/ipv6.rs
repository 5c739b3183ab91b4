//! IPv6 headers (RFC 8200). Extension headers that concern only routers and options are walked, at most
//! [`MAX_EXTENSIONS`]; fragments and source routes are refused by name.

use crate::ParseError;
use crate::bytes::{array, put};
use base::Addr;

/// Bytes of the fixed header, the only kind we send.
pub const HEADER_LEN: usize = 40;

/// Most extension headers a packet may carry before its upper layer.
pub const MAX_EXTENSIONS: usize = 8;

/// Number of the hop-by-hop options header.
pub const HOP_BY_HOP: u8 = 0;
/// Number of the routing header.
pub const ROUTING: u8 = 43;
/// Number of the fragment header.
pub const FRAGMENT: u8 = 44;
/// Number of the destination options header.
pub const DESTINATION_OPTIONS: u8 = 60;

/// A header, as plain values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Source.
    pub src: Addr,
    /// Destination.
    pub dst: Addr,
    /// Protocol number of the payload, after all extension headers.
    pub protocol: u8,
    /// Traffic class: DSCP above, ECN in the low two bits.
    pub tos: u8,
    /// Hop limit.
    pub ttl: u8,
    /// Flow label, 20 bits (RFC 6437).
    pub flow_label: u32,
    /// Bytes after the headers.
    pub payload_len: u16,
}

/// Reads the headers of a packet of which `bytes` is at least the head and `whole` bytes exist: the values
/// and the length of all headers before the upper layer.
///
/// # Errors
/// Length, version, addresses, extension headers we may not ignore, or a fragment, each by its name.
#[inline]
pub fn parse(bytes: &[u8], whole: usize) -> Result<(Header, usize), ParseError> {
    let h: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(ParseError::IpTruncated)?;
    if h[0] >> 4 != 6 {
        return Err(ParseError::IpVersion);
    }
    let payload_len = usize::from(u16::from_be_bytes([h[4], h[5]]));
    let end = HEADER_LEN + payload_len;
    if end > whole {
        return Err(ParseError::IpTotalLength);
    }
    let (src, dst) = addresses(h);
    // A mapped address means IPv4 in this stack and may not come over the wire; nor may a group send.
    if src.is_v4() || dst.is_v4() || src.is_multicast_or_broadcast() {
        return Err(ParseError::IpAddress);
    }
    let (protocol, upper) = match h[6] {
        HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS => {
            skip_extensions(&bytes[..end.min(bytes.len())], h[6])?
        }
        protocol => (protocol, HEADER_LEN),
    };
    let header = Header {
        src,
        dst,
        protocol,
        tos: h[0] << 4 | h[1] >> 4,
        ttl: h[7],
        flow_label: u32::from_be_bytes([0, h[1] & 15, h[2], h[3]]),
        payload_len: (end - upper) as u16,
    };
    Ok((header, upper))
}

fn addresses(h: &[u8; HEADER_LEN]) -> (Addr, Addr) {
    let addr = |at| Addr::v6(array(h, at).unwrap_or_default());
    (addr(8), addr(24))
}

/// Walks the extension headers of `packet`, the first of kind `next`: the upper layer's protocol and offset.
fn skip_extensions(packet: &[u8], mut next: u8) -> Result<(u8, usize), ParseError> {
    let mut at = HEADER_LEN;
    for nth in 0..MAX_EXTENSIONS {
        match next {
            // Only at the very front (RFC 8200, section 4.1).
            HOP_BY_HOP if nth > 0 => return Err(ParseError::ExtensionMalformed),
            FRAGMENT => return Err(ParseError::IpFragment),
            HOP_BY_HOP | DESTINATION_OPTIONS | ROUTING => {}
            protocol => return Ok((protocol, at)),
        }
        let rest = packet.get(at..).ok_or(ParseError::ExtensionMalformed)?;
        let [following, len, ..] = *rest else { return Err(ParseError::ExtensionMalformed) };
        let len = (usize::from(len) + 1) * 8;
        let extension = rest.get(..len).ok_or(ParseError::ExtensionMalformed)?;
        match next {
            // Segments left (section 4.4): zero means we are the last stop and ignore it.
            ROUTING if extension[3] != 0 => return Err(ParseError::RoutingHeader),
            ROUTING => {}
            _ => check_options(&extension[2..])?,
        }
        next = following;
        at += len;
    }
    match next {
        HOP_BY_HOP | DESTINATION_OPTIONS | ROUTING => Err(ParseError::ExtensionCount),
        FRAGMENT => Err(ParseError::IpFragment),
        protocol => Ok((protocol, at)),
    }
}

/// Options may be ignored unless the top bits of their type say otherwise (RFC 8200, section 4.2).
fn check_options(mut options: &[u8]) -> Result<(), ParseError> {
    loop {
        options = match options {
            [] => return Ok(()),
            [0, rest @ ..] => rest,
            [kind, len, rest @ ..] => {
                if kind >> 6 != 0 {
                    return Err(ParseError::ExtensionOption);
                }
                rest.get(usize::from(*len)..).ok_or(ParseError::ExtensionMalformed)?
            }
            [_] => return Err(ParseError::ExtensionMalformed),
        };
    }
}

/// Identifies a packet that may be cut off (quoted by ICMP): addresses, upper protocol and its offset.
pub(crate) fn identify(bytes: &[u8]) -> Option<(Addr, Addr, u8, usize)> {
    let h: &[u8; HEADER_LEN] = bytes.first_chunk()?;
    if h[0] >> 4 != 6 {
        return None;
    }
    let (src, dst) = addresses(h);
    if src.is_v4() || dst.is_v4() {
        return None;
    }
    let (protocol, at) = skip_extensions(bytes, h[6]).ok()?;
    Some((src, dst, protocol, at))
}

impl Header {
    /// Writes the header at the front of `into`.
    ///
    /// # Panics
    /// If `into` is shorter than [`HEADER_LEN`].
    pub fn emit(&self, into: &mut [u8]) -> usize {
        let into = &mut into[..HEADER_LEN];
        let first = 6 << 28 | u32::from(self.tos) << 20 | self.flow_label & 0x000f_ffff;
        put(into, 0, first.to_be_bytes());
        put(into, 4, self.payload_len.to_be_bytes());
        put(into, 6, [self.protocol, self.ttl]);
        put(into, 8, self.src.bytes());
        put(into, 24, self.dst.bytes());
        HEADER_LEN
    }
}
