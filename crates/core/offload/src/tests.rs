//! Goal: packets that continue each other go up as one, and nothing else does.

use alloc::vec;
use alloc::vec::Vec;
use base::{Addr, Rng, Seq};
use wire::checksum::{Sum, Summer};
use wire::packet::{Below, Checksum, Link};
use wire::tcp::{Flags, Header, Options, Timestamps};

use crate::{MERGE_MAX, MergedRun, Refusal};

const SUMS: Option<Summer> = Some(Sum::of);

pub(crate) const ETHERNET: usize = 14;
pub(crate) const SIZE: usize = 1448;

/// A segment of a bulk flow, as it lies in a frame: `change` is what differs from the usual.
pub(crate) fn packet(nth: u32, len: usize, change: impl FnOnce(&mut Below, &mut Header)) -> Vec<u8> {
    let link = Link { dst: [2, 0, 0, 0, 0, 1], src: [2, 0, 0, 0, 0, 2] };
    let end = |last| Addr::v4([192, 0, 2, last]);
    let mut below = Below { link: Some(link), src: end(1), dst: end(2), tos: 0, ttl: 64, label: 0 };
    let mut header = Header {
        src_port: 4000,
        dst_port: 80,
        seq: Seq::new(nth.wrapping_mul(SIZE as u32)),
        ack: Seq::new(7),
        flags: Flags::ACK,
        window: 1000,
        options: Options {
            timestamps: Some(Timestamps { val: 100 + nth / 8, ecr: 200 }),
            ..Options::default()
        },
    };
    change(&mut below, &mut header);
    let mut packet = vec![nth as u8; below.len() + header.len() + len];
    below.emit_tcp(&header, len, Checksum::Full, &mut packet);
    packet
}

fn usual(nth: u32) -> Vec<u8> {
    packet(nth, SIZE, |_, _| {})
}

fn begin(nth: u32) -> MergedRun {
    MergedRun::begin(&usual(nth), ETHERNET).expect("data and nothing else")
}

/// How many of the packets with these numbers follow.
fn follow(
    merged_run: &mut MergedRun,
    numbers: core::ops::Range<u32>,
    packet: impl Fn(u32) -> Vec<u8>,
) -> u16 {
    let packets: Vec<_> = numbers.map(packet).collect();
    merged_run.follow(packets.iter().map(|packet| (packet.as_slice(), true)), Sum::of)
}

/// Follows this packet? That is asked before it joins, which it must if it does.
fn follows(merged_run: &MergedRun, next: &[u8]) -> bool {
    merged_run.clone().follow([(next, true)].into_iter(), Sum::of) == 1
}

#[test]
fn what_is_usual_follows_and_what_is_not_joins_or_does_not() {
    let mut merged_run = begin(0);
    // The eighth has another timestamp.
    assert_eq!(follow(&mut merged_run, 1..20, usual), 7);
    assert!(!follows(&merged_run, &usual(8)) && merged_run.join(&usual(8), SUMS).is_ok());
    assert_eq!((follow(&mut merged_run, 9..12, usual), merged_run.count()), (3, 12));
    let pushed = packet(12, SIZE, |_, header| header.flags = Flags::ACK | Flags::PSH);
    let padded = [usual(12), vec![0]].concat();
    let mut ended = merged_run.clone();
    let behind = [pushed, usual(13)];
    assert_eq!(follow(&mut ended, 0..2, |nth| behind[nth as usize].clone()), 1);
    assert!(ended.is_pushed() && ended.is_closed());
    for other in [packet(12, SIZE - 1, |_, _| {}), padded] {
        assert!(!follows(&merged_run, &other) && merged_run.clone().join(&other, SUMS).is_ok());
    }
    assert!(merged_run.join(&packet(12, 700, |_, _| {}), SUMS).is_ok());
    let behind = packet(13, SIZE, |_, header| header.seq += 700_u32.wrapping_sub(SIZE as u32));
    assert!(!follows(&merged_run, &behind), "a short packet is the last");
}

#[test]
fn data_in_order_becomes_one() {
    let mut merged_run = begin(0);
    for nth in 1..5 {
        assert_eq!(merged_run.join(&usual(nth), SUMS), Ok(()));
    }
    assert_eq!((merged_run.count(), merged_run.is_closed(), merged_run.text(4).len()), (5, false, SIZE));
    assert!(usual(4)[merged_run.text(4)].iter().all(|byte| *byte == 4));
}

#[test]
fn d05_a_push_and_a_short_segment_are_the_last() {
    let (mut pushed, mut short) = (begin(0), begin(0));
    assert_eq!(
        pushed.join(&packet(1, SIZE, |_, header| header.flags = Flags::ACK | Flags::PSH), SUMS),
        Ok(())
    );
    assert_eq!(short.join(&packet(1, 600, |_, _| {}), SUMS), Ok(()));
    assert!(pushed.is_pushed() && pushed.is_closed() && short.is_closed() && !short.is_pushed());
    assert_eq!((short.text(0).len(), short.text(1).len()), (SIZE, 600));
    assert_eq!(pushed.join(&usual(2), SUMS), Err(Refusal::Closed));
    assert_eq!(
        MergedRun::begin(&packet(0, SIZE, |_, header| header.flags = Flags::ACK | Flags::PSH), ETHERNET)
            .map(|_| ()),
        None
    );
}

#[test]
fn d06_d07_what_is_not_next_does_not_join() {
    for nth in [0, 2, 3, u32::MAX] {
        assert!(!follows(&begin(0), &usual(nth)), "{nth}");
        assert_eq!(begin(0).join(&usual(nth), SUMS), Err(Refusal::Gap), "{nth}");
    }
}

#[test]
fn d08_merged_runs_go_on_across_the_end_of_sequence_space() {
    let across = |nth: u32| {
        packet(nth, SIZE, |_, header| header.seq = Seq::new((nth * SIZE as u32).wrapping_sub(2000)))
    };
    let mut merged_run = MergedRun::begin(&across(0), ETHERNET).expect("data");
    assert_eq!(follow(&mut merged_run.clone(), 1..4, across), 3);
    assert!((1..4).all(|nth| merged_run.join(&across(nth), SUMS).is_ok()));
}

#[test]
fn d09_a_merged_run_stays_an_ip_packet() {
    let mut merged_run = begin(0);
    let joined = (1..100).take_while(|nth| merged_run.join(&usual(*nth), SUMS).is_ok()).count();
    assert_eq!((joined + 1, merged_run.join(&usual(joined as u32 + 1), SUMS)), (45, Err(Refusal::Full)));
    let at_once = |nth| packet(nth, SIZE, |_, header| header.options.timestamps = None);
    let mut merged_run = MergedRun::begin(&at_once(0), ETHERNET).expect("data");
    assert_eq!(follow(&mut merged_run, 1..100, at_once), 44);
    let small = |nth: u32| packet(nth, 500, |_, header| header.seq = Seq::new(nth * 500));
    let mut merged_run = MergedRun::begin(&small(0), ETHERNET).expect("data");
    let joined = (1..100).take_while(|nth| merged_run.join(&small(*nth), SUMS).is_ok()).count();
    assert_eq!(joined + 1, MERGE_MAX);
    let small = |nth: u32| {
        packet(nth, 500, |_, header| {
            (header.seq, header.options.timestamps) = (Seq::new(nth * 500), None);
        })
    };
    let mut merged_run = MergedRun::begin(&small(0), ETHERNET).expect("data");
    assert_eq!(usize::from(follow(&mut merged_run, 1..100, small)) + 1, MERGE_MAX);
}

#[test]
fn d12_a_wrong_checksum_does_not_join_unless_somebody_else_looked() {
    let mut wrong = usual(1);
    *wrong.last_mut().expect("payload") ^= 1;
    assert_eq!(begin(0).join(&wrong, SUMS), Err(Refusal::Differs));
    assert_eq!(begin(0).join(&wrong, None), Ok(()));
    assert!(!follows(&begin(0), &wrong));
    assert_eq!(begin(0).follow([(wrong.as_slice(), false)].into_iter(), Sum::of), 1);
}

#[test]
fn d17_d18_d22_another_header_is_another_merged_run() {
    type Change = fn(&mut Below, &mut Header);
    let changes: [(&str, Change); 9] = [
        ("acknowledgment", |_, header| header.ack += 1),
        ("window", |_, header| header.window += 1),
        ("flags", |_, header| header.flags = Flags::ACK | Flags::FIN),
        ("echo", |_, header| header.flags = Flags::ACK | Flags::ECE),
        ("a timestamp that goes back", |_, header| {
            header.options.timestamps = Some(Timestamps { val: 99, ecr: 200 })
        }),
        ("timestamp echoed", |_, header| header.options.timestamps = Some(Timestamps { val: 100, ecr: 201 })),
        ("mark", |below, _| below.tos = 3),
        ("hop limit", |below, _| below.ttl = 63),
        ("port", |_, header| header.src_port = 4001),
    ];
    for (what, change) in changes {
        assert_eq!(begin(0).join(&packet(1, SIZE, change), SUMS), Err(Refusal::Differs), "{what}");
        assert!(!follows(&begin(0), &packet(1, SIZE, change)), "{what}");
    }
}

#[test]
fn random_batches_keep_every_promise() {
    for seed in 0..3_000 {
        let mut data = [0; 1_500];
        Rng::new(seed).fill(&mut data);
        crate::fuzz::merged_runs(&data);
    }
}

/// Short lives as the seeds `FIRST,COUNT` of MILLSTREAM_LIVES say: ten million in pieces, by hand.
pub(crate) fn short_lives(model: fn(&[u8])) {
    extern crate std;
    let piece = std::env::var("MILLSTREAM_LIVES").expect("MILLSTREAM_LIVES=FIRST,COUNT");
    let (first, count) = piece.split_once(',').expect("FIRST,COUNT");
    let (first, count): (u64, u64) = (first.parse().expect("a number"), count.parse().expect("a number"));
    let mut data = [0; 400];
    for seed in first..first + count {
        let mut rng = Rng::new(seed);
        let len = 40 + rng.below(data.len() as u64 - 40) as usize;
        rng.fill(&mut data[..len]);
        let life = std::panic::catch_unwind(|| model(&data[..len]));
        assert!(life.is_ok(), "seed {seed}");
    }
}

#[test]
#[ignore = "as long as MILLSTREAM_LIVES says"]
fn many_short_batches_keep_every_promise() {
    short_lives(crate::fuzz::merged_runs);
}
