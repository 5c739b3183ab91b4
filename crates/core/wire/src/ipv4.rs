//! IPv4 headers (RFC 791, RFC 1122 section 3.2.1). Fragments are refused by name, options skipped.

use crate::ParseError;
use crate::bytes::put;
use crate::checksum::Sum;
use base::Addr;

/// Bytes of a header without options, the only kind we send.
pub const HEADER_LEN: usize = 20;

/// A header, as plain values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Source.
    pub src: Addr,
    /// Destination.
    pub dst: Addr,
    /// Protocol number of the payload.
    pub protocol: u8,
    /// Type of service: DSCP above, ECN in the low two bits.
    pub tos: u8,
    /// Time to live.
    pub ttl: u8,
    /// Identification; means nothing without fragments (RFC 6864).
    pub id: u16,
    /// May not be fragmented.
    pub dont_fragment: bool,
    /// Bytes after the header; at most 65,515.
    pub payload_len: u16,
}

/// Reads the header of a packet of which `bytes` is at least the head and `whole` bytes exist: the values
/// and the header's length, options included. `payload_len` bytes of payload follow; what lies behind them
/// is the link's padding.
///
/// # Errors
/// Length, version, checksum, source address, or a fragment, each by its name.
/// RFC 9293, MUST-50 and MUST-63.
#[inline]
pub fn parse(bytes: &[u8], whole: usize) -> Result<(Header, usize), ParseError> {
    let h: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(ParseError::IpTruncated)?;
    if h[0] >> 4 != 4 {
        return Err(ParseError::IpVersion);
    }
    let header_len = usize::from(h[0] & 15) * 4;
    if header_len < HEADER_LEN || header_len > bytes.len() {
        return Err(ParseError::IpHeaderLength);
    }
    let total = u16::from_be_bytes([h[2], h[3]]);
    if usize::from(total) < header_len || usize::from(total) > whole {
        return Err(ParseError::IpTotalLength);
    }
    if !Sum::of(&bytes[..header_len]).is_valid() {
        return Err(ParseError::IpChecksum);
    }
    let fragment = u16::from_be_bytes([h[6], h[7]]);
    if fragment & 0x3fff != 0 {
        return Err(ParseError::IpFragment);
    }
    let header = Header {
        src: Addr::v4([h[12], h[13], h[14], h[15]]),
        dst: Addr::v4([h[16], h[17], h[18], h[19]]),
        protocol: h[9],
        tos: h[1],
        ttl: h[8],
        id: u16::from_be_bytes([h[4], h[5]]),
        dont_fragment: fragment & 0x4000 != 0,
        payload_len: total - header_len as u16,
    };
    if header.src.is_multicast_or_broadcast() {
        return Err(ParseError::IpAddress);
    }
    Ok((header, header_len))
}

impl Header {
    /// Writes the header at the front of `into`, checksum and all.
    ///
    /// # Panics
    /// If `into` is shorter than [`HEADER_LEN`].
    pub fn emit(&self, into: &mut [u8]) -> usize {
        let into = &mut into[..HEADER_LEN];
        let total = self.payload_len.saturating_add(HEADER_LEN as u16);
        debug_assert_eq!(usize::from(total), usize::from(self.payload_len) + HEADER_LEN);
        put(into, 0, [0x45, self.tos]);
        put(into, 2, total.to_be_bytes());
        put(into, 4, self.id.to_be_bytes());
        put(into, 6, [if self.dont_fragment { 0x40 } else { 0 }, 0, self.ttl, self.protocol, 0, 0]);
        put(into, 12, self.src.v4_bytes().unwrap_or_default());
        put(into, 16, self.dst.v4_bytes().unwrap_or_default());
        let checksum = Sum::of(into).checksum();
        put(into, 10, checksum.to_be_bytes());
        HEADER_LEN
    }
}
