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
