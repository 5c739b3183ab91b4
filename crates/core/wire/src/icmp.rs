//! ICMP for both families (RFC 792, RFC 1191, RFC 4443): echo, and the errors that concern a connection with
//! the packet they quote. Neighbour Discovery is in [`crate::nd`].

use crate::bytes::{array, be16, be32, put};
use crate::checksum::{Sum, pseudo};
use crate::{ParseError, ipv6, protocol};
use base::{Addr, Seq};

/// Bytes before the data of an echo or the packet quoted by an error.
pub const HEADER_LEN: usize = 8;

/// Why a destination cannot be reached, as far as TCP tells them apart (RFC 1122 section 4.2.3.9, RFC 5927).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreachable {
    /// No route.
    Network,
    /// The host does not answer.
    Host,
    /// No such protocol there.
    Protocol,
    /// No such port there.
    Port,
    /// An administrator forbids it.
    Prohibited,
    /// Another code.
    Other(u8),
}

/// A message, the same for both families where they mean the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// Are you there?
    EchoRequest {
        /// Identifier and sequence number, given back as they came.
        token: u32,
        /// Data, given back.
        data: &'a [u8],
    },
    /// I am.
    EchoReply {
        /// Identifier and sequence number of the request.
        token: u32,
        /// Its data.
        data: &'a [u8],
    },
    /// The packet quoted did not arrive.
    Unreachable {
        /// Why.
        why: Unreachable,
        /// The packet, possibly cut off.
        quote: &'a [u8],
    },
    /// The packet quoted was too big for a link on the way.
    TooBig {
        /// MTU of that link in bytes of IP packet; 0 where an old router does not say (IPv4).
        mtu: u32,
        /// The packet, possibly cut off.
        quote: &'a [u8],
    },
    /// The packet quoted ran out of hops, or its fragments out of time.
    TimeExceeded {
        /// 0 in transit, 1 in reassembly.
        code: u8,
        /// The packet, possibly cut off.
        quote: &'a [u8],
    },
    /// Anything else.
    Other {
        /// ICMP type.
        kind: u8,
        /// ICMP code.
        code: u8,
        /// Message behind the first eight bytes.
        data: &'a [u8],
    },
}

/// Reads an ICMP message of IPv4 and verifies its checksum.
///
/// # Errors
/// [`ParseError::IcmpTruncated`], [`ParseError::IcmpChecksum`].
pub fn parse_v4(bytes: &[u8]) -> Result<Message<'_>, ParseError> {
    let (kind, code, word, data) = split(bytes, Sum::ZERO)?;
    Ok(match (kind, code) {
        (0, 0) => Message::EchoReply { token: word, data },
        (8, 0) => Message::EchoRequest { token: word, data },
        (3, 4) => Message::TooBig { mtu: word & 0xffff, quote: data },
        (3, _) => Message::Unreachable { why: unreachable_v4(code), quote: data },
        (11, _) => Message::TimeExceeded { code, quote: data },
        _ => Message::Other { kind, code, data },
    })
}

fn unreachable_v4(code: u8) -> Unreachable {
    match code {
        0 => Unreachable::Network,
        1 => Unreachable::Host,
        2 => Unreachable::Protocol,
        3 => Unreachable::Port,
        13 => Unreachable::Prohibited,
        code => Unreachable::Other(code),
    }
}

/// Reads an ICMP message of IPv6, whose checksum covers the pseudo header too. Neighbour Discovery comes out
/// as [`Message::Other`].
///
/// # Errors
/// [`ParseError::IcmpTruncated`], [`ParseError::IcmpChecksum`].
pub fn parse_v6(src: Addr, dst: Addr, bytes: &[u8]) -> Result<Message<'_>, ParseError> {
    let (kind, code, word, data) = split(bytes, pseudo(src, dst, protocol::ICMPV6, bytes.len() as u32))?;
    Ok(match (kind, code) {
        (129, 0) => Message::EchoReply { token: word, data },
        (128, 0) => Message::EchoRequest { token: word, data },
        (2, _) => Message::TooBig { mtu: word, quote: data },
        (1, _) => Message::Unreachable { why: unreachable_v6(code), quote: data },
        (3, _) => Message::TimeExceeded { code, quote: data },
        _ => Message::Other { kind, code, data },
    })
}

fn unreachable_v6(code: u8) -> Unreachable {
    match code {
        0 => Unreachable::Network,
        1 => Unreachable::Prohibited,
        3 => Unreachable::Host,
        4 => Unreachable::Port,
        code => Unreachable::Other(code),
    }
}

fn split(bytes: &[u8], pseudo: Sum) -> Result<(u8, u8, u32, &[u8]), ParseError> {
    let (h, data) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(ParseError::IcmpTruncated)?;
    if !pseudo.plus(Sum::of(bytes)).is_valid() {
        return Err(ParseError::IcmpChecksum);
    }
    Ok((h[0], h[1], u32::from_be_bytes([h[4], h[5], h[6], h[7]]), data))
}

impl Message<'_> {
    /// Bytes the message takes.
    pub fn len(&self) -> usize {
        HEADER_LEN + self.data().len()
    }

    /// Never: a message has eight bytes at least.
    pub fn is_empty(&self) -> bool {
        false
    }

    fn data(&self) -> &[u8] {
        match *self {
            Message::EchoRequest { data, .. }
            | Message::EchoReply { data, .. }
            | Message::Other { data, .. } => data,
            Message::Unreachable { quote, .. }
            | Message::TooBig { quote, .. }
            | Message::TimeExceeded { quote, .. } => quote,
        }
    }

    /// Writes the message at the front of `into`, in the family of `src`, checksum and all; its length.
    ///
    /// # Panics
    /// If `into` is shorter than [`Message::len`].
    pub fn emit(&self, src: Addr, dst: Addr, into: &mut [u8]) -> usize {
        let len = self.len();
        let into = &mut into[..len];
        let v4 = src.is_v4();
        let (kind, code, word) = if v4 { self.fields_v4() } else { self.fields_v6() };
        put(into, 0, [kind, code, 0, 0]);
        put(into, 4, word.to_be_bytes());
        into[HEADER_LEN..].copy_from_slice(self.data());
        let pseudo = if v4 { Sum::ZERO } else { pseudo(src, dst, protocol::ICMPV6, len as u32) };
        let checksum = pseudo.plus(Sum::of(into)).checksum();
        put(into, 2, checksum.to_be_bytes());
        len
    }

    fn fields_v4(&self) -> (u8, u8, u32) {
        match *self {
            Message::EchoReply { token, .. } => (0, 0, token),
            Message::EchoRequest { token, .. } => (8, 0, token),
            Message::TooBig { mtu, .. } => (3, 4, mtu & 0xffff),
            Message::TimeExceeded { code, .. } => (11, code, 0),
            Message::Other { kind, code, .. } => (kind, code, 0),
            Message::Unreachable { why, .. } => {
                let code = match why {
                    Unreachable::Network => 0,
                    Unreachable::Host => 1,
                    Unreachable::Protocol => 2,
                    Unreachable::Port => 3,
                    Unreachable::Prohibited => 13,
                    Unreachable::Other(code) => code,
                };
                (3, code, 0)
            }
        }
    }

    fn fields_v6(&self) -> (u8, u8, u32) {
        match *self {
            Message::EchoReply { token, .. } => (129, 0, token),
            Message::EchoRequest { token, .. } => (128, 0, token),
            Message::TooBig { mtu, .. } => (2, 0, mtu),
            Message::TimeExceeded { code, .. } => (3, code, 0),
            Message::Other { kind, code, .. } => (kind, code, 0),
            Message::Unreachable { why, .. } => {
                let code = match why {
                    Unreachable::Network => 0,
                    Unreachable::Prohibited => 1,
                    Unreachable::Host => 3,
                    // IPv6 says "unknown next header" by a parameter problem; the nearest is the port.
                    Unreachable::Port | Unreachable::Protocol => 4,
                    Unreachable::Other(code) => code,
                };
                (1, code, 0)
            }
        }
    }
}

/// Quoted packet of an ICMP error: enough to find the connection and to check that the packet
/// was ours (RFC 5927, section 4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quote {
    /// Source of the packet: us.
    pub src: Addr,
    /// Its destination.
    pub dst: Addr,
    /// Its upper protocol.
    pub protocol: u8,
    /// Its first sixteen bits there: the source port of TCP or UDP.
    pub src_port: u16,
    /// The next sixteen: the destination port.
    pub dst_port: u16,
    /// The sequence number, if this is TCP.
    pub seq: Option<Seq>,
}

/// Identifies the packet an error quotes; only its first eight bytes above IP need be there.
///
/// # Errors
/// [`ParseError::IcmpQuote`] if that cannot be read.
pub fn parse_quote(bytes: &[u8]) -> Result<Quote, ParseError> {
    identify(bytes).ok_or(ParseError::IcmpQuote)
}

fn identify(bytes: &[u8]) -> Option<Quote> {
    let (src, dst, protocol, at) = match bytes.first()? >> 4 {
        4 => identify_v4(bytes)?,
        6 => ipv6::identify(bytes)?,
        _ => return None,
    };
    let seq = if protocol == protocol::TCP { Some(Seq::new(be32(bytes, at + 4)?)) } else { None };
    Some(Quote { src, dst, protocol, src_port: be16(bytes, at)?, dst_port: be16(bytes, at + 2)?, seq })
}

/// Length and checksum are left alone: routers on the way have changed what they cover.
fn identify_v4(bytes: &[u8]) -> Option<(Addr, Addr, u8, usize)> {
    let header_len = usize::from(bytes.first()? & 15) * 4;
    let first_fragment = be16(bytes, 6)? & 0x1fff == 0;
    if header_len < 20 || !first_fragment {
        return None;
    }
    Some((Addr::v4(array(bytes, 12)?), Addr::v4(array(bytes, 16)?), *bytes.get(9)?, header_len))
}
