//! Goal: numbers of the near end are told from its initial ones, and an echo finds its way back.
use super::*;
use crate::lang::{Direction, IpInfo, Range, Segment};
use base::Addr;

#[test]
fn numbers_and_timestamps_are_mapped_both_ways() {
    let end = |last, port| Endpoint::new(Addr::v4([10, 0, 0, last]), port);
    let packet = |flags, start, ack, val, ecr| {
        let stamps = TcpOption::Timestamps { val: Some(val), ecr, absolute: false };
        let body = Body::Tcp(Segment {
            ports: None,
            flags: Flags { bits: flags, ..Flags::default() },
            seq: Some(Range { start, end: start }),
            len: 0,
            absolute: false,
            ack: Some(ack),
            window: Some(100),
            urgent: None,
            options: Some(vec![stamps, TcpOption::Nop, TcpOption::Nop]),
            udp: None,
        });
        Packet { direction: Direction::In, outer: Vec::new(), ip: IpInfo::default(), body }
    };
    // The near end is played by a peer whose near end is this one's far end.
    let (mut peer, mut near) =
        (Peer::new(end(1, 0), end(2, 80), 5), Peer::new(end(2, 80), end(1, 4000), 7_000));
    let syn = near.build(&packet(Flags::SYN, 7_000, 0, 90_000, 0)).expect("a SYN");
    let seen = peer.read(syn).expect("good").expect("to this peer");
    assert!(seen.to_string().ends_with(" S 0:0(0) win 100 <TS val 1000 ecr 0,nop,nop>"), "{seen}");
    assert_eq!(peer.latest_stamp(), FIRST_STAMP);
    let answer = peer.build(&packet(Flags::SYN | Flags::ACK, 5, 1, 400, 1_000)).expect("a SYN-ACK");
    let word = |at: usize| u32::from_be_bytes(answer[at..at + 4].try_into().expect("four bytes"));
    assert_eq!((word(24), word(28), word(20 + 20 + 6)), (5, 7_001, 90_000));
}
