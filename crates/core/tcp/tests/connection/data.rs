//! Goal: what goes out when (Nagle, cork, PSH, delayed ACK), and what comes in however it is cut.

use base::{Duration, Rng};
use tcp::{Disposition, Events, ReadError, SocketOptions};
use wire::tcp::{Flags, Segment};

use crate::host::ms;
use crate::rig::{OURS, Rig, Setup};

fn nodelay() -> SocketOptions {
    SocketOptions { nodelay: true, ..SocketOptions::default() }
}

/// RFC 9293, SHLD-7, MAY-16, SHLD-27 and SHLD-28.
#[test]
fn nagle_holds_small_data_while_something_is_unacknowledged() {
    let mut rig = Setup::default().connected();
    rig.write(b"one").unwrap();
    assert_eq!(rig.one().payload, b"one", "nothing outstanding: at once");
    rig.write(b"two").unwrap();
    rig.write(b"three").unwrap();
    rig.none();
    rig.ack(OURS + 4, &[]);
    assert_eq!(rig.one().payload, b"twothree");
    rig.write(&[4; 1460 + 10]).unwrap();
    assert_eq!(rig.one().len(), 1460, "full segments go, the rest waits");
}

/// RFC 9293, MUST-17.
#[test]
fn nodelay_sends_at_once_and_flushes() {
    let mut rig = Setup { options: nodelay(), ..Setup::default() }.connected();
    for word in [b"one", b"two"] {
        rig.write(word).unwrap();
        assert_eq!(rig.one().payload, word);
    }
    let mut rig = Setup::default().connected();
    rig.write(b"one").unwrap();
    rig.write(b"two").unwrap();
    rig.one();
    let now = rig.now;
    rig.host.with(now, |conn, cx| conn.set_options(cx, nodelay()));
    assert_eq!(rig.one().payload, b"two");
}

#[test]
fn cork_holds_every_partial_segment() {
    let corked = SocketOptions { cork: true, ..nodelay() };
    let mut rig = Setup { options: corked, ..Setup::default() }.connected();
    rig.write(&[1; 1000]).unwrap();
    rig.none();
    rig.write(&[1; 1000]).unwrap();
    assert_eq!(rig.one().len(), 1460);
    let now = rig.now;
    rig.host.with(now, |conn, cx| conn.set_options(cx, nodelay()));
    assert_eq!(rig.one().len(), 540);
}

#[test]
fn a_fin_takes_the_last_partial_segment_along() {
    let mut rig = Setup::default().connected();
    rig.write(b"one").unwrap();
    rig.write(b"two").unwrap();
    rig.sent();
    rig.shutdown();
    let last = rig.one();
    assert_eq!(last.payload, b"two");
    assert!(last.flags.has(Flags::FIN));
}

/// RFC 9293, MUST-61.
#[test]
fn push_marks_the_end_of_what_was_written() {
    let mut rig = Setup::default().connected();
    rig.write(&[1; 4000]).unwrap();
    rig.shutdown();
    let sent = rig.sent();
    assert!(sent.iter().rev().find(|s| s.len() > 0).unwrap().flags.has(Flags::PSH));
    let mut rig = Setup { options: nodelay(), ..Setup::default() }.connected();
    rig.write(b"hello").unwrap();
    assert!(rig.one().flags.has(Flags::PSH));
}

/// RFC 9293, SHLD-18 and MUST-40; RFC 5681, 4.2-2.
#[test]
fn acknowledgments_are_delayed_but_not_for_long() {
    let mut rig = Setup::default().accepted();
    // Whatever quick acknowledgments the start of a connection brings are over after some exchanges; a pause as long as
    // the retransmission timeout would begin them again.
    for _ in 0..40 {
        rig.send(&[1; 100]);
        rig.pass(ms(150));
    }
    rig.sent();
    rig.send(&[1; 100]);
    rig.none();
    let waited = rig.until_sent(Duration::from_secs(2));
    assert!(waited <= ms(40), "RFC 9293, MUST-40: {waited:?}");
    assert_eq!(rig.one().ack, rig.next);
}

/// RFC 9293, SHLD-19; RFC 5681, 4.2-1.
#[test]
fn every_second_full_segment_is_acknowledged_at_once() {
    let mut rig = Setup::default().accepted();
    let mut segments = 0;
    let mut acks = 0;
    for _ in 0..40 {
        rig.send(&[1; 1460]);
        segments += 1;
        acks += rig.sent().len();
        while rig.read(10_000).is_ok() {}
        acks += rig.sent().len();
        assert!(segments - 2 * acks as i32 <= 1, "{acks} acknowledgments of {segments} segments");
    }
}

#[test]
fn quickack_acknowledges_at_once() {
    let options = SocketOptions { quickack: Some(true), ..SocketOptions::default() };
    let mut rig = Setup { options, ..Setup::default() }.accepted();
    for _ in 0..50 {
        rig.send(b"x");
        assert_eq!(rig.one().ack, rig.next);
    }
}

/// RFC 9293, MUST-58.
#[test]
fn an_acknowledgment_rides_on_data() {
    let mut rig = Setup::default().accepted();
    for _ in 0..40 {
        rig.send(&[1; 100]);
        rig.pass(ms(150));
    }
    rig.sent();
    rig.send(b"request");
    rig.write(b"answer").unwrap();
    let sent = rig.one();
    assert_eq!((sent.payload.as_slice(), sent.ack), (b"answer".as_slice(), rig.next));
    rig.ack(sent.end(), &[]);
    rig.pass(ms(500));
    rig.none();
}

/// RFC 9293, SHLD-31 and MAY-13; RFC 5681, 3.2-1 and 3.2-2; RFC 2018, 4-2, 4-3 and 4-5.
#[test]
fn out_of_order_data_is_reported_at_once() {
    let mut rig = Setup::sack().accepted();
    let base = rig.next;
    rig.send_at(1000, &[3; 500]);
    assert_eq!(rig.one().options.sack.as_slice(), [(base + 1000, base + 1500)]);
    rig.send_at(3000, &[5; 500]);
    assert_eq!(rig.one().options.sack.as_slice(), [(base + 3000, base + 3500), (base + 1000, base + 1500)]);
    rig.send_at(1500, &[4; 100]);
    let ack = rig.one();
    assert_eq!(ack.options.sack.as_slice(), [(base + 1000, base + 1600), (base + 3000, base + 3500)]);
    assert_eq!(ack.ack, base);
    assert!(!rig.events().any(Events::READABLE));
    rig.send_at(0, &[1; 1000]);
    let ack = rig.one();
    assert_eq!(
        (ack.ack, ack.options.sack.as_slice()),
        (base + 1600, [(base + 3000, base + 3500)].as_slice())
    );
    assert!(rig.events().any(Events::READABLE));
    assert_eq!(rig.host.conn().readable(), 1600);
}

/// RFC 2883, 4-1, 4-2 and 4-3.
#[test]
fn a_duplicate_is_reported_by_dsack() {
    let mut rig = Setup::sack().accepted();
    rig.send(&[1; 1000]);
    rig.sent();
    let base = rig.next;
    rig.inject(Segment { seq: base - 1000, ..rig.segment(Flags::ACK, &[1; 1000]) });
    let ack = rig.one();
    assert_eq!((ack.ack, ack.options.sack.as_slice()), (base, [(base - 1000, base)].as_slice()));
    rig.send_at(500, &[2; 100]);
    rig.sent();
    rig.send_at(500, &[2; 100]);
    let blocks = rig.one().options.sack;
    assert_eq!(blocks.as_slice()[0], (base + 500, base + 600));
    assert_eq!(blocks.as_slice()[1], (base + 500, base + 600), "RFC 2883: the run around the duplicate");
}

/// RFC 5681, 3.2-1; RFC 2018, 4-1.
#[test]
fn without_sack_there_are_plain_duplicate_acks() {
    let mut rig = Setup::default().accepted();
    for i in 1..4 {
        rig.send_at(1000 * i, &[3; 500]);
        let ack = rig.one();
        assert_eq!((ack.ack, ack.options.sack.is_empty()), (rig.next, true));
    }
}

/// The bytes of the peer's stream, cut and mixed in every way, arrive once and in order.
#[test]
fn overlaps_are_resolved() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut rig = Setup::sack().accepted();
        let stream: Vec<u8> = (0..6000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        let base = rig.next;
        let mut read = Vec::new();
        while read.len() < stream.len() {
            let start = rng.below(stream.len() as u64) as usize;
            let end = (start + 1 + rng.below(1500) as usize).min(stream.len());
            let seg = Segment { seq: base + start as u32, ..rig.segment(Flags::ACK, &stream[start..end]) };
            let disposition = rig.inject(seg);
            assert_ne!(disposition, Some(Disposition::Closed));
            rig.sent();
            if rng.chance(0.3) {
                match rig.read(1 + rng.below(3000) as usize) {
                    Ok(data) => read.extend(data),
                    Err(ReadError::Empty) => {}
                    Err(other) => panic!("seed {seed}: {other:?}"),
                }
            }
        }
        assert!(read == stream, "seed {seed}");
        rig.host.finish();
    }
}

#[test]
fn peek_and_consume_agree_with_read() {
    let mut rig = Setup::default().accepted();
    let stream: Vec<u8> = (0..5000u32).map(|i| (i * 3 + i / 256) as u8).collect();
    for piece in stream.chunks(1000) {
        rig.send(piece);
    }
    rig.sent();
    let mut peeked = Vec::new();
    rig.host.conn().peek(&rig.host.pool, None, 3000, &mut |piece| {
        peeked.extend_from_slice(piece);
        true
    });
    assert_eq!(peeked, stream[..3000]);
    let now = rig.now;
    rig.host.with(now, |conn, cx| conn.consume(cx, 2500));
    assert_eq!(rig.read(10_000).unwrap(), stream[2500..]);
}

fn exchange(rig: &mut Rig, round: u32) {
    let data: Vec<u8> = (0..1000u32).map(|i| (i + round) as u8).collect();
    rig.send(&data);
    assert_eq!(rig.read(2000).unwrap(), data);
    rig.write(&data).unwrap();
    rig.pass(ms(50));
    let sent: Vec<u8> = rig.sent().iter().flat_map(|s| s.payload.clone()).collect();
    assert_eq!(sent, data);
    let end = rig.ack + 1000;
    rig.ack(end, &[]);
    rig.sent();
}

#[test]
fn both_sequence_spaces_wrap() {
    for setup in [Setup::default(), Setup::modern()] {
        let mut rig = setup.accepted();
        for round in 0..8 {
            exchange(&mut rig, round);
        }
        let info = rig.host.conn().info(rig.now);
        assert_eq!((info.bytes_received, info.bytes_acked), (8000, 8000));
        assert!(info.snd_una.raw() < 10_000 && info.rcv_nxt.raw() < 10_000, "both wrapped");
    }
}
