//! Neighbour Discovery: solicitations and advertisements (RFC 4861, sections 4.3, 4.4 and 7.1).

use crate::bytes::{array, put};
use crate::checksum::{Sum, pseudo};
use crate::ethernet::Mac;
use crate::{ParseError, protocol};
use base::Addr;

/// ICMPv6 type of a solicitation.
pub const SOLICITATION: u8 = 135;
/// ICMPv6 type of an advertisement.
pub const ADVERTISEMENT: u8 = 136;

/// Hop limit every message must have, so that none comes from beyond the link.
pub const HOP_LIMIT: u8 = 255;

/// Bytes of a message with one link-layer address.
pub const LEN: usize = 32;

const SOURCE_LINK: u8 = 1;
const TARGET_LINK: u8 = 2;

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// Request for the link address of `target`.
    Solicitation {
        /// The address asked for.
        target: Addr,
        /// Link address of the sender; absent during duplicate address detection (RFC 4862).
        source_mac: Option<Mac>,
    },
    /// `target` is at `target_mac`.
    Advertisement {
        /// The address spoken of.
        target: Addr,
        /// Its link-layer address; may be absent in an answer to one neighbour.
        target_mac: Option<Mac>,
        /// The sender is a router.
        router: bool,
        /// It answers a question.
        solicited: bool,
        /// It replaces what is known.
        replaces: bool,
    },
}

/// Is this the ICMPv6 type of a message this module reads?
pub const fn is_nd(kind: u8) -> bool {
    kind == SOLICITATION || kind == ADVERTISEMENT
}

/// Reads a message with the checks of RFC 4861, section 7.1; `ttl` is the hop limit it came with.
///
/// # Errors
/// [`ParseError::IcmpTruncated`], [`ParseError::IcmpChecksum`], or [`ParseError::NdMalformed`] for all that
/// the RFC says to discard in silence.
pub fn parse(src: Addr, dst: Addr, ttl: u8, bytes: &[u8]) -> Result<Message, ParseError> {
    let fixed: &[u8; 24] = bytes.first_chunk().ok_or(ParseError::IcmpTruncated)?;
    if !pseudo(src, dst, protocol::ICMPV6, bytes.len() as u32).plus(Sum::of(bytes)).is_valid() {
        return Err(ParseError::IcmpChecksum);
    }
    let target = Addr::v6(array(fixed, 8).ok_or(ParseError::NdMalformed)?);
    let (source_mac, target_mac) = link_options(&bytes[24..]).ok_or(ParseError::NdMalformed)?;
    let group = dst.is_multicast_or_broadcast();
    let message = match fixed[0] {
        SOLICITATION => Message::Solicitation { target, source_mac },
        ADVERTISEMENT => Message::Advertisement {
            target,
            target_mac,
            router: fixed[4] & 0x80 != 0,
            solicited: fixed[4] & 0x40 != 0,
            replaces: fixed[4] & 0x20 != 0,
        },
        _ => return Err(ParseError::NdMalformed),
    };
    let sound = match message {
        // A question without a source asks whether an address is free: to its own group, and nameless.
        Message::Solicitation { .. } => {
            !src.is_unspecified() || (is_solicited_node(dst) && source_mac.is_none())
        }
        Message::Advertisement { solicited, .. } => !(group && solicited),
    };
    if ttl != HOP_LIMIT || fixed[1] != 0 || target.is_multicast_or_broadcast() || target.is_v4() || !sound {
        return Err(ParseError::NdMalformed);
    }
    Ok(message)
}

/// The two link-layer options; `None` when an option has length zero or runs over the end. Unknown ones and
/// addresses of another length are skipped.
fn link_options(mut options: &[u8]) -> Option<(Option<Mac>, Option<Mac>)> {
    let (mut source, mut target) = (None, None);
    while !options.is_empty() {
        let &[kind, units, ..] = options else { return None };
        if units == 0 {
            return None;
        }
        let (option, rest) = options.split_at_checked(usize::from(units) * 8)?;
        match (kind, units) {
            (SOURCE_LINK, 1) => source = array(option, 2),
            (TARGET_LINK, 1) => target = array(option, 2),
            _ => {}
        }
        options = rest;
    }
    Some((source, target))
}

impl Message {
    /// Bytes the message takes.
    pub fn len(&self) -> usize {
        let mac = match self {
            Message::Solicitation { source_mac, .. } => source_mac,
            Message::Advertisement { target_mac, .. } => target_mac,
        };
        if mac.is_some() { LEN } else { LEN - 8 }
    }

    /// Never: a message has 24 bytes at least.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes the message at the front of `into`, checksum and all; its length. It travels with
    /// [`HOP_LIMIT`].
    ///
    /// # Panics
    /// If `into` is shorter than [`Message::len`].
    pub fn emit(&self, src: Addr, dst: Addr, into: &mut [u8]) -> usize {
        let len = self.len();
        let into = &mut into[..len];
        let (kind, flags, target, option, mac) = match *self {
            Message::Solicitation { target, source_mac } => {
                (SOLICITATION, 0, target, SOURCE_LINK, source_mac)
            }
            Message::Advertisement { target, target_mac, router, solicited, replaces } => {
                let flags = u8::from(router) << 7 | u8::from(solicited) << 6 | u8::from(replaces) << 5;
                (ADVERTISEMENT, flags, target, TARGET_LINK, target_mac)
            }
        };
        put(into, 0, [kind, 0, 0, 0, flags, 0, 0, 0]);
        put(into, 8, target.bytes());
        if let Some(mac) = mac {
            put(into, 24, [option, 1]);
            put(into, 26, mac);
        }
        let checksum = pseudo(src, dst, protocol::ICMPV6, len as u32).plus(Sum::of(into)).checksum();
        put(into, 2, checksum.to_be_bytes());
        len
    }
}

const SOLICITED_PREFIX: [u8; 13] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff];

/// The group that every host with an address like `addr` listens to (RFC 4291, section 2.7.1).
pub fn solicited_node(addr: Addr) -> Addr {
    let mut bytes = addr.bytes();
    bytes[..13].copy_from_slice(&SOLICITED_PREFIX);
    Addr::v6(bytes)
}

fn is_solicited_node(addr: Addr) -> bool {
    addr.bytes().starts_with(&SOLICITED_PREFIX)
}

/// The Ethernet address of an IPv6 group (RFC 2464, section 7).
pub fn multicast_mac(group: Addr) -> Mac {
    let [a, b, c, d] = group.words()[3].to_be_bytes();
    [0x33, 0x33, a, b, c, d]
}
