//! Ethernet II frames (RFC 894, RFC 2464).

use crate::ParseError;
use crate::bytes::put;

/// A link-layer address.
pub type Mac = [u8; 6];

/// The broadcast address.
pub const BROADCAST: Mac = [0xff; 6];

/// Bytes of the header.
pub const HEADER_LEN: usize = 14;

/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ARP: u16 = 0x0806;
/// EtherType of IPv6.
pub const IPV6: u16 = 0x86dd;

/// A frame's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Where to.
    pub dst: Mac,
    /// Where from.
    pub src: Mac,
    /// Protocol of the payload.
    pub ethertype: u16,
}

/// Reads the header; the rest is the packet, and padding if that is short.
///
/// # Errors
/// [`ParseError::LinkTruncated`].
#[inline]
pub fn parse(bytes: &[u8]) -> Result<(Header, &[u8]), ParseError> {
    let (h, rest) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(ParseError::LinkTruncated)?;
    let dst = [h[0], h[1], h[2], h[3], h[4], h[5]];
    let src = [h[6], h[7], h[8], h[9], h[10], h[11]];
    Ok((Header { dst, src, ethertype: u16::from_be_bytes([h[12], h[13]]) }, rest))
}

impl Header {
    /// Writes the header at the front of `into`.
    ///
    /// # Panics
    /// If `into` is shorter than [`HEADER_LEN`].
    pub fn emit(&self, into: &mut [u8]) -> usize {
        put(into, 0, self.dst);
        put(into, 6, self.src);
        put(into, 12, self.ethertype.to_be_bytes());
        HEADER_LEN
    }
}

/// Is this a group address (multicast or broadcast)?
pub const fn is_group(mac: &Mac) -> bool {
    mac[0] & 1 == 1
}
