//! Questions for the link-layer address of a neighbour, and their answers, whichever protocol asks.

use base::Addr;

use super::{Below, Content, Frame, Link};
use crate::ethernet::{self, Mac};
use crate::{arp, nd, protocol};

/// A host that has an address asks who has another one: by ARP (RFC 826) or Neighbour Discovery (RFC 4861, section
/// 7.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// The address that is asked for.
    pub target: Addr,
    asker: Addr,
    asker_mac: Mac,
}

impl Frame {
    /// Returns the question that this frame asks; `bytes` are the frame's. Who is not sure of an IPv6 address yet asks
    /// without one (RFC 4862), and is not meant here.
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
mod tests {
    //! Goal: what asks is told from what does not, and the answer says who has the address.
    use super::*;
    use crate::packet::parse_frame;

    const ASKER: Mac = [2; 6];
    const OURS: Mac = [4; 6];

    fn read(frame: &[u8]) -> Frame {
        parse_frame(frame, frame.len()).expect("a frame")
    }

    #[test]
    fn arp() {
        let [sender, target] = [Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2])];
        let (operation, target_mac) = (arp::Operation::Request, [0; 6]);
        let ask = arp::Packet { operation, sender_mac: ASKER, sender, target_mac, target };
        let (mut frame, mut answer) = ([0; 64], [0; 86]);
        let at = ethernet::Header { dst: [255; 6], src: ASKER, ethertype: ethernet::ARP }.emit(&mut frame);
        ask.emit(&mut frame[at..]);
        let question = read(&frame).question(&frame).expect("a question");
        assert_eq!(question.target, target);
        let len = question.answer(OURS, true, &mut answer);
        let said = read(&answer[..len]);
        assert_eq!((said.link.dst, said.link.src), (ASKER, OURS));
        let Content::Arp(reply) = said.content else { panic!("{said:?}") };
        assert_eq!((reply.operation, reply.sender, reply.sender_mac), (arp::Operation::Reply, target, OURS));
        assert_eq!((reply.target, reply.target_mac), (sender, ASKER));
        assert_eq!(said.question(&answer[..len]), None, "an answer asks nothing");
    }

    #[test]
    fn neighbour_discovery() {
        let [sender, target] = [1, 2].map(|n| Addr::v6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n]));
        let asks = |src: Addr, frame: &mut [u8]| {
            let message = nd::Message::Solicitation { target, source_mac: None };
            let link = Some(Link { dst: OURS, src: ASKER });
            let below = Below { link, src, dst: target, tos: 0, ttl: nd::HOP_LIMIT, label: 0 };
            let at = below.emit(protocol::ICMPV6, message.len(), frame);
            at + message.emit(src, target, &mut frame[at..])
        };
        let (mut frame, mut answer) = ([0; 128], [0; 86]);
        let len = asks(sender, &mut frame);
        let question = read(&frame[..len]).question(&frame[..len]).expect("a question");
        for router in [false, true] {
            let len = question.answer(OURS, router, &mut answer);
            let said = read(&answer[..len]);
            assert_eq!((said.link.dst, said.link.src), (ASKER, OURS));
            let Content::Ip(ip) = said.content else { panic!("{said:?}") };
            assert_eq!((ip.src, ip.dst), (target, sender));
            let (target_mac, solicited) = (Some(OURS), true);
            assert_eq!(
                nd::parse(ip.src, ip.dst, ip.ttl, ip.upper(&answer[..len])),
                Ok(nd::Message::Advertisement { target, target_mac, router, solicited, replaces: true })
            );
            assert_eq!(said.question(&answer[..len]), None);
        }
        let len = asks(Addr::UNSPECIFIED_V6, &mut frame);
        assert_eq!(read(&frame[..len]).question(&frame[..len]), None, "no peer could be told");
    }
}
