//! What a packet is, from its octets: whose, and whether it carries data.

use crate::port::Medium;
use ::wire::packet::{Content, Packet, parse_frame, parse_ip, plain_tcp_v4};
use ::wire::{ethernet, protocol};
use base::{Endpoint, FlowKey};

/// Where a TCP packet's parts lie, and its flow as its receiver sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) key: FlowKey,
    pub(super) packet: Packet,
    /// There is something behind the TCP header.
    pub(super) data: bool,
}

/// Octets before the IP header.
pub(super) fn ip_start(medium: Medium) -> usize {
    if medium == Medium::Ethernet { ethernet::HEADER_LEN } else { 0 }
}

/// Looks at a packet of `whole` octets, the first of which are in `octets`; `None` if it is no TCP, or not whole.
pub(super) fn look(octets: &[u8], whole: usize, medium: Medium) -> Option<Look> {
    let ip = ip_start(medium);
    let plain = if is_ipv4(octets, medium) { plain_tcp_v4(octets, ip, whole) } else { None };
    let packet = match (plain, medium) {
        (Some(packet), _) => packet,
        (None, Medium::Ip) => parse_ip(octets, whole).ok()?,
        (None, Medium::Ethernet) => match parse_frame(octets, whole).ok()?.content {
            Content::Ip(packet) => packet,
            Content::Arp(_) => return None,
        },
    };
    let upper = packet.upper(octets);
    if packet.protocol != protocol::TCP {
        return None;
    }
    let &[a, b, c, d, .., offset] = upper.first_chunk::<13>()?;
    let remote = Endpoint::new(packet.src, u16::from_be_bytes([a, b]));
    let local = Endpoint::new(packet.dst, u16::from_be_bytes([c, d]));
    let data = packet.len() > u32::from(offset >> 4) * 4;
    Some(Look { key: FlowKey::new(local, remote), packet, data })
}

fn is_ipv4(octets: &[u8], medium: Medium) -> bool {
    medium == Medium::Ip || octets.get(12..14) == Some(&[8, 0])
}
