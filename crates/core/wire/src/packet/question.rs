//! Questions for the link-layer address of a neighbour, and their answers, whichever protocol asks.

use base::Addr;

use super::{Below, Content, Frame, Link};
use crate::ethernet::{self, Mac};
use crate::{arp, nd, protocol};

/// A question of a host for another host's link address: by ARP (RFC 826) or Neighbour Discovery (RFC 4861, section
/// 7.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// The address that is asked for.
    pub target: Addr,
    asker: Addr,
    asker_mac: Mac,
}

impl Frame {
    /// Returns the question that this frame asks; `bytes` are the frame's. The probe of an
    /// address that is still tentative (RFC 4862) has no source address, and is not meant here.
    pub fn question(&self, bytes: &[u8]) -> Option<Question> {
        match self.content {
            Content::Arp(ask) if ask.operation == arp::Operation::Request => {
                Some(Question { target: ask.target, asker: ask.sender, asker_mac: ask.sender_mac })
            }
            Content::Ip(ip) if ip.protocol == protocol::ICMPV6 && !ip.src.is_unspecified() => {
                match nd::parse(ip.src, ip.dst, ip.ttl, ip.upper(bytes)) {
                    Ok(nd::Message::Solicitation { target, .. }) => {
                        Some(Question { target, asker: ip.src, asker_mac: self.link.src })
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

impl Question {
    /// Writes the frame that says that `mac` has the address, and whether a `router` does (IPv6 alone tells that).
    /// Returns its length.
    ///
    /// # Panics
    /// If `into` is shorter than 86 bytes.
    pub fn answer(&self, mac: Mac, router: bool, into: &mut [u8]) -> usize {
        let Question { target, asker, asker_mac } = *self;
        if target.is_v4() {
            let head = ethernet::Header { dst: asker_mac, src: mac, ethertype: ethernet::ARP };
            let reply = arp::Packet {
                operation: arp::Operation::Reply,
                sender_mac: mac,
                sender: target,
                target_mac: asker_mac,
                target: asker,
            };
            let at = head.emit(into);
            return at + reply.emit(&mut into[at..]);
        }
        let target_mac = Some(mac);
        let tell = nd::Message::Advertisement { target, target_mac, router, solicited: true, replaces: true };
        let link = Some(Link { dst: asker_mac, src: mac });
        let below = Below { link, src: target, dst: asker, tos: 0, ttl: nd::HOP_LIMIT, label: 0 };
        let at = below.emit(protocol::ICMPV6, tell.len(), into);
        at + tell.emit(target, asker, &mut into[at..])
    }
}

#[cfg(test)]
mod tests;
