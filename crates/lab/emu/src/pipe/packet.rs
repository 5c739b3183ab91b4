//! Fields of packets that a pipe reads and changes.

use base::Rng;
use wire::checksum::Sum;
use wire::ethernet;

/// Returns true for ARP and Neighbour Discovery.
pub(super) fn is_neighbour_talk(packet: &[u8]) -> bool {
    let Ok((link, ip)) = ethernet::parse(packet) else { return false };
    let icmp6 = |ip: &[u8]| ip.len() > 40 && ip[6] == wire::protocol::ICMPV6 && (133..=137).contains(&ip[40]);
    link.ethertype == ethernet::ARP || (link.ethertype == ethernet::IPV6 && icmp6(ip))
}

/// Flips one bit behind the Ethernet header of an IP packet; false if this is none. One flipped bit is always
/// caught by the checksums of IPv4, TCP and ICMP, or it is in a field that no checksum covers and no data is.
pub(super) fn flip_a_bit(rng: &mut Rng, packet: &mut [u8]) -> bool {
    let Ok((link, _)) = ethernet::parse(packet) else { return false };
    let behind = &mut packet[ethernet::HEADER_LEN..];
    if !matches!(link.ethertype, ethernet::IPV4 | ethernet::IPV6) || behind.is_empty() {
        return false;
    }
    let bit = rng.below(behind.len() as u64 * 8);
    behind[(bit / 8) as usize] ^= 1 << (bit % 8);
    true
}

/// The ECN codepoint of an IP packet; 0 if this is none.
pub(super) fn codepoint(packet: &[u8]) -> u8 {
    let Ok((link, ip)) = ethernet::parse(packet) else { return 0 };
    match (link.ethertype, ip) {
        (ethernet::IPV4, [_, tos, ..]) => tos & 3,
        (ethernet::IPV6, [_, class, ..]) => class >> 4 & 3,
        _ => 0,
    }
}

/// Sets Congestion Experienced in an IP packet whose sender can hear it; false if it cannot, or if this is no IP.
pub(super) fn mark(packet: &mut [u8]) -> bool {
    let Ok((link, _)) = ethernet::parse(packet) else { return false };
    let ip = &mut packet[ethernet::HEADER_LEN..];
    match link.ethertype {
        ethernet::IPV4 if ip.len() >= wire::ipv4::HEADER_LEN => mark_v4(ip),
        ethernet::IPV6 if ip.len() >= wire::ipv6::HEADER_LEN => mark_v6(ip),
        _ => false,
    }
}

fn mark_v4(ip: &mut [u8]) -> bool {
    let header = usize::from(ip[0] & 15) * 4;
    if ip[1] & 3 == 0 || ip.len() < header {
        return false;
    }
    ip[1] |= 3;
    ip[10..12].fill(0);
    let sum = Sum::of(&ip[..header]).checksum();
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    true
}

/// The traffic class lies across the first two bytes; ECN are bits 4 and 5 of the second.
fn mark_v6(ip: &mut [u8]) -> bool {
    if ip[1] & 0x30 == 0 {
        return false;
    }
    ip[1] |= 0x30;
    true
}
