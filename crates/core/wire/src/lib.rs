//! Bytes to headers and back: Ethernet, ARP, IPv4 and IPv6, ICMP and Neighbour Discovery, TCP and its
//! options, checksums, the virtio-net header, captures, and a printer in tcpdump's manner.
//!
//! Each protocol has a `parse` that checks everything once and gives plain values with the payload still in
//! place, and a header of plain values that emits itself, so an illegal one cannot be built. No parser panics
//! on any input; every refusal is a named [`ParseError`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod arp;
mod bytes;
pub mod checksum;
mod ecn;
mod error;
pub mod ethernet;
#[doc(hidden)]
pub mod fuzz;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
pub mod nd;
pub mod packet;
pub mod pcap;
pub mod print;
pub mod rss;
pub mod tcp;
pub mod template;
#[cfg(test)]
mod tests;
pub mod virtio;

pub use ecn::Ecn;
pub use error::ParseError;

/// Protocol numbers of the IP header (IANA).
pub mod protocol {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP, which this stack only prints.
    pub const UDP: u8 = 17;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
}
