//! ARP for IPv4 over Ethernet (RFC 826).

use crate::ParseError;
use crate::bytes::{array, put};
use crate::ethernet::Mac;
use base::Addr;

/// Bytes of a packet.
pub const LEN: usize = 28;

/// Hardware type 1, protocol IPv4, address lengths 6 and 4.
const PREFIX: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// Operation of an ARP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Request for the target's link address.
    Request,
    /// The sender address is mine.
    Reply,
}

/// An ARP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Question or answer.
    pub operation: Operation,
    /// Sender's link-layer address.
    pub sender_mac: Mac,
    /// Sender's IPv4 address.
    pub sender: Addr,
    /// Target's link-layer address; zeros in a question.
    pub target_mac: Mac,
    /// Target's IPv4 address.
    pub target: Addr,
}

/// Reads a packet; what follows its 28 bytes is padding.
///
/// # Errors
/// [`ParseError::ArpMalformed`] for anything but IPv4 over Ethernet, question or answer.
pub fn parse(bytes: &[u8]) -> Result<Packet, ParseError> {
    let b: &[u8; LEN] = bytes.first_chunk().ok_or(ParseError::ArpMalformed)?;
    let operation = match (b.first_chunk(), b[6], b[7]) {
        (Some(&PREFIX), 0, 1) => Operation::Request,
        (Some(&PREFIX), 0, 2) => Operation::Reply,
        _ => return Err(ParseError::ArpMalformed),
    };
    let mac = |at| array(b, at).ok_or(ParseError::ArpMalformed);
    let addr = |at| array(b, at).map(Addr::v4).ok_or(ParseError::ArpMalformed);
    Ok(Packet { operation, sender_mac: mac(8)?, sender: addr(14)?, target_mac: mac(18)?, target: addr(24)? })
}

impl Packet {
    /// Writes the packet at the front of `into`. Addresses that are not IPv4 go out as `0.0.0.0`.
    ///
    /// # Panics
    /// If `into` is shorter than [`LEN`].
    pub fn emit(&self, into: &mut [u8]) -> usize {
        let operation: u16 = match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        put(into, 0, PREFIX);
        put(into, 6, operation.to_be_bytes());
        put(into, 8, self.sender_mac);
        put(into, 14, self.sender.v4_bytes().unwrap_or_default());
        put(into, 18, self.target_mac);
        put(into, 24, self.target.v4_bytes().unwrap_or_default());
        LEN
    }
}
