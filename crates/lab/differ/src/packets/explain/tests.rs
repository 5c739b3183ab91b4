//! Goal: a row explains what its reason says and nothing beside it.
use super::super::trace::{Moment, Seen};
use super::*;
use drill::lang::{Direction, IpInfo, Packet, Segment};

#[test]
fn every_key_has_a_row_and_every_row_a_predicate() {
    let keys: Vec<&str> = PREDICATES
        .iter()
        .map(|(key, ..)| *key)
        .chain(super::super::changes::CHANGES.iter().map(|(key, _)| *key))
        .collect();
    for key in &keys {
        assert!(reasons::by_key(Kind::Packets, key).is_some(), "no row has the key {key}");
    }
    for row in reasons::of(Kind::Packets) {
        assert!(keys.contains(&row.key), "no predicate has the key {}", row.key);
    }
}

fn packet(bits: u8, seq: u32, len: u32, ack: Option<u32>, window: u16) -> Packet {
    let tcp = Segment {
        ports: None,
        flags: Flags { bits, ..Flags::default() },
        seq: Some(Range { start: seq, end: seq.wrapping_add(len) }),
        len,
        absolute: false,
        ack,
        window: Some(window),
        urgent: None,
        options: None,
        udp: None,
    };
    let ip = IpInfo::default();
    Packet { direction: Direction::Out, outer: Vec::new(), ip, body: Body::Tcp(tcp) }
}

fn answer(packet: Packet) -> Moment {
    let (at, gap, unread) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    Moment { answer: None, seen: vec![Seen { at, gap, unread, packet }] }
}

/// Judges a segment of the peer in an established connection, answered by acknowledgments of `kernel` and `ours`, after
/// windows of 64240 and 65535 bytes.
fn judged(flags: u8, seq: u32, len: u32, kernel: u32, ours: u32) -> Verdict {
    let send = |packet| Step { after: 10, action: Action::Send(Box::new(packet), Echo::Latest(0)) };
    let syn = packet(Flags::SYN, 0, 0, None, 65_535);
    let ack = packet(Flags::ACK, 1, 0, Some(1), 65_535);
    let steps = vec![send(syn), send(ack), send(packet(flags, seq, len, Some(1), 65_535))];
    let trace = |window, last: u32| Trace {
        moments: vec![
            answer(packet(Flags::SYN | Flags::ACK, 0, 0, Some(1), window)),
            Moment::default(),
            answer(packet(Flags::ACK, 1, 0, Some(last), 60_000)),
        ],
        ..Trace::default()
    };
    judge(&Input { seed: 0, isn: 0, v6: false, steps }, &trace(64_240, kernel), &trace(65_535, ours))
}

#[test]
fn what_lies_beyond_both_windows_is_refused_by_both() {
    let names = |verdict: &Verdict| verdict.explained.iter().map(|row| row.key).collect::<Vec<_>>();
    let between = judged(Flags::ACK, 65_535, 1, 1, 2);
    assert_eq!((names(&between), between.open), (vec!["beyond_window"], None));
    assert!(judged(Flags::ACK, 65_535, 2, 1, 65_537).open.is_some(), "more than was offered");
    let across = judged(Flags::ACK, 64_000, 1_000, 1, 2);
    assert_eq!((names(&across), across.open), (vec!["beyond_window"], None));
    assert!(judged(Flags::ACK, 65_536, 1, 1, 2).open.is_some(), "beyond both");
    assert!(judged(Flags::ACK, 63_000, 1_000, 1, 2).open.is_some(), "within both");
}
