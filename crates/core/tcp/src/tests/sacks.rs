//! Goal: what SACKs tell is used as far as it can be true, and a peer that lies in them causes no more work than an
//! honest one.

use alloc::vec::Vec;

use base::Seq;
use wire::tcp::{Flags, SackBlocks};

use super::{bytes, flight, ms};
use crate::tests::ends::{MSS, Packet, Pair};
use crate::{Config, SocketOptions};

/// Without timestamps, so that bare headers do for acknowledgments.
fn plain() -> Pair {
    let options = SocketOptions { nodelay: true, ..SocketOptions::default() };
    Pair::with(Config { timestamps: false, ..Config::default() }, options)
}

/// Hands `packets` to b, one by one, and every answer to a; what a sends then.
fn exchange(pair: &mut Pair, packets: &[Packet]) -> Vec<Packet> {
    let mut acks = Vec::new();
    for packet in packets {
        pair.b.take(pair.now, packet);
        acks.extend(pair.b.drain(pair.now));
    }
    for ack in &acks {
        pair.a.take(pair.now, ack);
    }
    pair.a.drain(pair.now)
}

/// A bare acknowledgment from b of `ack` with `blocks`.
fn sack(pair: &Pair, ack: Seq, blocks: &[(Seq, Seq)]) -> Packet {
    let mut packet = Packet {
        header: wire::tcp::Header {
            src_port: 80,
            dst_port: 40_000,
            seq: pair.b.conn.snd.nxt(),
            ack,
            flags: Flags::ACK,
            window: u16::MAX,
            options: wire::tcp::Options::default(),
        },
        payload: Vec::new(),
        retransmit: false,
    };
    let mut told = SackBlocks::none();
    for &(left, right) in blocks {
        assert!(told.push(left, right));
    }
    packet.header.options.sack = told;
    packet
}

/// The burst that repairs three losses is lost but for its last segment. That one arrived though the others left
/// before it: they are sent once more, and no timer has to run out.
/// RFC 8985, 6.2-6.
#[test]
fn a_loss_in_the_last_retransmitted_burst_needs_no_timeout() {
    let mut pair = Pair::new();
    let sent = flight(&mut pair, 10);
    pair.pass(ms(10));
    let burst = exchange(&mut pair, &sent[3..]);
    let again: Vec<Seq> = burst.iter().filter(|p| p.retransmit).map(|p| p.header.seq).collect();
    let lost: Vec<Seq> = sent[..3].iter().map(|p| p.header.seq).collect();
    assert_eq!(again, lost, "one burst repairs all three");
    let sent_at = pair.now;
    pair.pass(ms(10));
    let mut repaired = exchange(&mut pair, &burst[2..3]);
    if repaired.is_empty() {
        pair.fire();
        repaired = pair.a.drain(pair.now);
    }
    assert!(repaired[0].retransmit && repaired[0].header.seq == lost[0], "{repaired:?}");
    assert!(pair.now < sent_at + ms(40), "at {:?}", pair.now);
    while !repaired.is_empty() {
        pair.pass(ms(10));
        repaired = exchange(&mut pair, &repaired);
    }
    assert_eq!(pair.b.read(pair.now).len(), 10 * MSS);
    assert_eq!((pair.a.counters.timeouts, pair.a.counters.tail_probes), (0, 0));
}

/// The attack of CVE-2019-11478: every other byte is SACKed. None of the blocks covers a segment, so none counts.
/// RFC 2018, 5-1.
#[test]
fn sacks_of_every_other_byte_say_nothing() {
    let mut pair = plain();
    let mss = u32::from(pair.a.conn.snd.mss());
    pair.a.write(pair.now, &bytes(10 * mss as usize));
    let sent = pair.a.drain(pair.now);
    assert_eq!(sent.len(), 10);
    let una = sent[0].header.seq;
    pair.pass(ms(10));
    for i in 0..3_000u32 {
        let block = |n: u32| (una + 8 * i % 12_000 + 2 * n + 1, una + 8 * i % 12_000 + 2 * n + 2);
        let packet = sack(&pair, una, &[0, 1, 2, 3].map(block));
        pair.a.take(pair.now, &packet);
    }
    assert_eq!((pair.a.counters.sack_blocks_in, pair.a.conn.sacked()), (12_000, 0));
    assert!(pair.a.drain(pair.now).iter().all(|packet| !packet.retransmit));
    // Parts of two segments and a whole one between them: that one counts.
    let packet = sack(&pair, una, &[(una + mss + 1, una + 4 * mss - 1)]);
    pair.a.take(pair.now, &packet);
    assert_eq!(pair.a.conn.sacked(), mss);
}

/// Where segments of several sizes are in flight blocks count as they are, so that short segments are repaired, too.
#[test]
fn short_segments_are_sacked_one_by_one() {
    let mut pair = plain();
    let mut sent = Vec::new();
    for i in 0..5 {
        pair.a.write(pair.now, &bytes(100 + i));
        sent.extend(pair.a.drain(pair.now));
    }
    assert_eq!(sent.len(), 5);
    pair.pass(ms(10));
    assert!(exchange(&mut pair, &sent[1..]).is_empty());
    assert_eq!(pair.a.conn.sacked(), 101 + 102 + 103 + 104);
    pair.fire();
    let again = pair.a.drain(pair.now);
    assert_eq!(again.iter().filter(|packet| packet.retransmit).count(), 1);
    assert_eq!((again[0].header.seq, again[0].payload.len()), (sent[0].header.seq, 100));
    assert_eq!(pair.a.counters.timeouts, 0);
}

/// There, too, only so many runs may be shorter than a segment.
#[test]
fn short_runs_are_few() {
    let mut pair = plain();
    let una = pair.a.conn.snd.una();
    pair.a.write(pair.now, &bytes(101));
    pair.a.drain(pair.now);
    pair.a.write(pair.now, &bytes(9 * MSS));
    pair.a.drain(pair.now);
    for i in 0..3_000u32 {
        let packet = sack(&pair, una, &[(una + 4 * i + 1, una + 4 * i + 2)]);
        pair.a.take(pair.now, &packet);
    }
    assert_eq!(pair.a.conn.sacked(), crate::recovery::scoreboard::SHORT_RUNS as u32);
}

/// SACKs with random edges come with every flight: nothing breaks, and all of it arrives.
#[test]
fn random_edges_only_cost_time() {
    let mut rng = base::Rng::new(7);
    let mut pair = plain();
    let start = pair.now;
    let (mut written, mut got) = (0, 0);
    while got < 60 * MSS {
        if written < 60 * MSS {
            written += pair.a.write(pair.now, &bytes(60 * MSS - written));
        }
        let sent = pair.a.drain(pair.now);
        let (una, flight) = (pair.a.conn.snd.una(), pair.a.conn.snd.flight().max(1));
        for _ in 0..20 {
            let left = una + rng.below(flight.into()) as u32;
            let packet = sack(&pair, una, &[(left, left + 1 + rng.below(3_000) as u32)]);
            pair.a.take(pair.now, &packet);
        }
        pair.pass(ms(5));
        for packet in &sent {
            pair.b.take(pair.now, packet);
        }
        for ack in pair.b.drain(pair.now) {
            pair.a.take(pair.now, &ack);
        }
        got += pair.b.read(pair.now).len();
        if sent.is_empty() {
            pair.fire();
        }
        assert!(pair.now < start + ms(600_000), "{got} bytes arrived");
    }
}
