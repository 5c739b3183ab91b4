//! Goal: whatever the order in which data comes, it is delivered once and as it came first; what a peer can make the
//! queue cost is bounded; what was SACKed once is never asked for again.

use base::{Rng, Seq};
use tcp::{Config, Counters, Events, Pool, ReassemblyInfo, Shutdown, State};
use wire::tcp::Flags;

use crate::rig::{PEER, Rig, Setup};

/// Bytes of a segment in the tests of large windows.
const SEGMENT: usize = 1_000;

/// A receiver that offers a window of `segments` of a thousand bytes.
fn wide(segments: u32, config: Config) -> Rig {
    let mut setup = Setup::modern();
    setup.config = Config { tail_loss_probe: false, ..config };
    setup.options.rcvbuf = segments * SEGMENT as u32 + 500;
    let mut rig = setup.accepted();
    // The window of a SYN-ACK is never scaled: the acknowledgment of some data tells all of it.
    rig.send(&[0; SEGMENT]);
    rig.read(2 * SEGMENT).unwrap();
    rig.send(&[0; 500]);
    rig.read(2 * SEGMENT).unwrap();
    rig.sent();
    rig
}

fn queue(rig: &Rig) -> ReassemblyInfo {
    rig.host.conn().info(rig.now).reassembly
}

fn counters(rig: &Rig) -> &Counters {
    &rig.host.counters
}

fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut data = vec![0; len];
    Rng::new(seed).fill(&mut data);
    data
}

fn read_all(rig: &mut Rig) -> Vec<u8> {
    let mut all = Vec::new();
    while let Ok(some) = rig.read(1 << 16) {
        if some.is_empty() {
            break;
        }
        all.extend(some);
    }
    all
}

fn shuffle(order: &mut [usize], seed: u64) {
    let mut rng = Rng::new(seed);
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i as u64 + 1) as usize);
    }
}

/// Every segment once, in this order: all is delivered, once, and nothing refused.
fn arrives_in(order: &[usize]) {
    let mut rig = wide(order.len() as u32, Config::default());
    let data = bytes(order.len() * SEGMENT, 7);
    for (done, &i) in order.iter().enumerate() {
        rig.send_at((i * SEGMENT) as u32, &data[i * SEGMENT..(i + 1) * SEGMENT]);
        let told = rig.sent();
        if done + 1 < order.len() && i != 0 {
            assert!(!told.is_empty() && !told[0].options.sack.is_empty(), "each is acknowledged at once");
        }
        if i == 0 {
            let readable = rig.host.conn().readable();
            rig.next += readable;
            let rest: Vec<usize> = order[done + 1..].to_vec();
            return finishes(rig, rest, &data, readable);
        }
    }
}

fn finishes(mut rig: Rig, rest: Vec<usize>, data: &[u8], mut delivered: u32) {
    for i in rest {
        let at = (i * SEGMENT) as u32;
        rig.send_at(at - delivered, &data[at as usize..at as usize + SEGMENT]);
        let now = rig.host.conn().readable();
        rig.next += now - delivered;
        delivered = now;
    }
    assert!(read_all(&mut rig) == data, "delivered once, as it was sent");
    assert_eq!(queue(&rig), ReassemblyInfo::default());
    assert_eq!((counters(&rig).reassembly_refused, counters(&rig).duplicates_in), (0, 0));
    assert_eq!(rig.host.pool.out_of_order(), 0);
    rig.host.finish();
}

#[test]
fn a_window_of_a_thousand_segments_in_reverse() {
    arrives_in(&(0..1_000).rev().collect::<Vec<_>>());
}

#[test]
fn a_window_of_a_thousand_segments_in_any_order() {
    for seed in 0..5 {
        let mut order: Vec<usize> = (0..1_000).collect();
        shuffle(&mut order, seed);
        arrives_in(&order);
    }
}

/// Most that a thousand segments can lie apart: every second one first.
#[test]
fn every_second_segment_of_a_window_is_held() {
    let odd_first: Vec<usize> = (1..1_000).step_by(2).chain((0..1_000).step_by(2)).collect();
    arrives_in(&odd_first);
}

#[test]
fn ten_thousand_islands_of_one_byte() {
    let mut rig = wide(1_000, Config::default());
    let mut held = 0;
    for i in 0..10_000 {
        rig.send_at(1 + 2 * i, b"x");
        assert!(!rig.sent().is_empty(), "what is refused is answered, too");
        let now = queue(&rig);
        assert!(now.runs <= now.limit && u32::from(now.runs) == now.bytes);
        held = held.max(now.runs);
    }
    let (now, pool) = (queue(&rig), rig.host.pool.out_of_order());
    assert_eq!((now.limit, held), (1_001, now.limit));
    assert_eq!(now.refused, 10_000 - u32::from(held));
    assert_eq!(counters(&rig).reassembly_refused, u64::from(now.refused));
    let chunks = (2 * u32::from(held)).div_ceil(2_048) + 1;
    assert!(now.memory < chunks * 2_048 + 16 * 1_024, "{} bytes for {held} islands", now.memory);
    assert_eq!(pool, u64::from(now.memory));
    rig.assert_state(State::Established);
    // It goes on: what was refused comes again.
    let all = vec![b'x'; 20_001];
    for piece in all.chunks(SEGMENT) {
        rig.send(piece);
    }
    assert!(read_all(&mut rig) == all);
    assert_eq!(queue(&rig).runs, 0);
    rig.host.finish();
}

/// The window, and the size of the peer's segments, decide how many runs there may be, up to what is configured.
#[test]
fn the_limit_follows_the_window() {
    for (segments, configured, limit) in
        [(1_000, 1_024, 1_001), (1_000, 100, 100), (100, 1_024, 101), (10, 1_024, 11)]
    {
        let config = Config { reassembly_runs: configured, ..Config::default() };
        let mut rig = wide(segments, config);
        for i in 0..limit + 5 {
            rig.send_at(1 + 2 * i, b"x");
        }
        let now = queue(&rig);
        assert_eq!((u32::from(now.limit), u32::from(now.runs), now.refused), (limit, limit, 5), "{segments}");
        rig.host.finish();
    }
}

/// A segment at RCV.NXT is taken whatever is held, with everything it reaches.
#[test]
fn a_full_queue_takes_what_fills_the_hole() {
    let mut rig = wide(1_000, Config { reassembly_runs: 4, ..Config::default() });
    for i in 0..5 {
        rig.send_at(10 + 20 * i, &[2; 10]);
    }
    assert_eq!((queue(&rig).runs, queue(&rig).refused), (4, 1));
    rig.sent();
    rig.send(&[1; 10]);
    assert_eq!(rig.one().ack, rig.next + 10, "the hole, and the run behind it");
    assert_eq!(read_all(&mut rig), [[1; 10], [2; 10]].concat());
    rig.host.finish();
}

/// Where all connections together hold their share of the pool, only what fills a hole is taken.
#[test]
fn the_share_of_the_pool_bounds_all_together() {
    let mut rig = wide(1_000, Config { reassembly_share: 25, ..Config::default() });
    rig.host.pool = Pool::new(40);
    let mut refused = 0;
    for i in 1..40 {
        rig.send_at(2_048 * i, &[9; 2_048]);
        let full = rig.sent()[0].options.sack.as_slice()[0].1 != rig.next + 2_048 * (i + 1);
        refused += u64::from(full);
        assert!(rig.host.pool.used() <= 10, "a quarter of the pool");
    }
    assert_eq!((counters(&rig).reassembly_full, u64::from(queue(&rig).refused)), (refused, refused));
    assert!(refused > 25, "{refused}");
    rig.send(&[8; 2_048]);
    assert!(read_all(&mut rig).len() >= 9 * 2_048);
    assert_eq!(rig.host.pool.out_of_order(), 0);
    rig.host.finish();
}

/// One byte at the window's far end occupies all the memory before it, and counts for all of it.
#[test]
fn holes_are_counted_as_the_memory_they_are() {
    let mut rig = wide(100, Config::default());
    rig.send_at(90_000, b"x");
    let now = queue(&rig);
    assert_eq!((now.runs, now.bytes), (1, 1));
    assert!(now.memory > 88_000 && now.memory < 92_000, "{}", now.memory);
    assert_eq!(u64::from(rig.host.pool.used()), u64::from(now.memory) / 2_048);
    rig.host.finish();
}

/// The pool is exhausted, and a segment fills the hole and reaches beyond all that is held: what there is memory for is
/// taken, and nothing that was SACKed is given up for it.
#[test]
fn memory_for_the_next_byte_is_not_taken_from_what_was_sacked() {
    let mut rig = wide(100, Config { reassembly_share: 100, ..Config::default() });
    rig.host.pool = Pool::new(2);
    rig.send_at(2_000, &[3; 1_000]);
    rig.sent();
    rig.inject(rig.segment(Flags::ACK, &[1; 6_000]));
    let told = rig.one();
    assert_eq!(told.ack, rig.next + 4_096, "as far as two chunks go");
    let all = read_all(&mut rig);
    assert_eq!(all[..2_000], [1; 2_000]);
    assert_eq!(all[2_000..3_000], [3; 1_000], "what came first stays");
    assert_eq!(all[3_000..], [1; 1_096]);
    rig.host.finish();
}

/// Two segments in each of Allen's thirteen relations: the bytes of the first one to come stay.
#[test]
fn overlaps_in_all_thirteen_relations() {
    let first = (200u32, 300u32);
    let relations = [
        ("before", 100, 150),
        ("meets", 100, 200),
        ("overlaps", 150, 250),
        ("starts", 200, 250),
        ("during", 220, 280),
        ("finishes", 250, 300),
        ("equals", 200, 300),
        ("finished by", 150, 300),
        ("contains", 150, 350),
        ("started by", 200, 350),
        ("overlapped by", 250, 350),
        ("met by", 300, 350),
        ("after", 320, 350),
    ];
    let blank = bytes(400, 1);
    for (name, start, end) in relations {
        let mut rig = wide(100, Config::default());
        let mut expected: Vec<u8> = blank.clone();
        let (one, two) = (bytes(100, 2), bytes((end - start) as usize, 3));
        rig.send_at(first.0, &one);
        rig.send_at(start, &two);
        expected[start as usize..end as usize].copy_from_slice(&two);
        expected[first.0 as usize..first.1 as usize].copy_from_slice(&one);
        // Everything again, with other bytes: only the holes take them.
        rig.send(&blank);
        assert!(read_all(&mut rig) == expected, "{name}");
        rig.host.finish();
    }
}

/// Random pieces of different streams, over and over: each byte is the one that came first.
#[test]
fn whatever_overlaps_the_first_arrival_wins() {
    for seed in 0..30 {
        let mut rig = wide(20, Config::default());
        let mut rng = Rng::new(seed);
        let mut expected: Vec<Option<u8>> = vec![None; 10_000];
        for round in 0..60 {
            let start = 1 + rng.below(9_000) as usize;
            let data = bytes(1 + rng.below(999) as usize, 100 * seed + round);
            rig.send_at(start as u32, &data);
            for (held, &new) in expected[start..start + data.len()].iter_mut().zip(&data) {
                held.get_or_insert(new);
            }
        }
        let blank = bytes(10_000, seed);
        rig.inject(rig.segment(Flags::ACK, &blank));
        let expected: Vec<u8> = expected.iter().zip(&blank).map(|(held, &new)| held.unwrap_or(new)).collect();
        assert!(read_all(&mut rig) == expected, "seed {seed}");
        rig.host.finish();
    }
}

/// The window lies across the end of the circle, and data comes in any order.
#[test]
fn sequence_numbers_wrap_in_the_middle() {
    let mut rig = wide(10, Config::default());
    let left = Seq::new(0).offset_from(rig.next) as usize;
    assert!(rig.next.before(Seq::new(0)) && rig.next.after(PEER) && left < 1_000, "it wraps soon");
    let data = bytes(4_000, 5);
    for at in [left + 700, left, left - 1, 1] {
        rig.send_at(at as u32, &data[at..at + 650]);
    }
    let told = rig.sent();
    assert!(told.iter().flat_map(|s| s.options.sack.as_slice()).all(|(left, right)| left.before(*right)));
    rig.send(&data);
    assert!(read_all(&mut rig) == data);
    rig.host.finish();
}

/// A FIN that came first waits for what precedes it, whichever segment carried it.
#[test]
fn a_fin_that_overtakes_waits() {
    for with_data in [false, true] {
        let mut rig = wide(10, Config::default());
        let data = bytes(3_000, 6);
        let mut last = rig.segment(Flags::FIN | Flags::ACK, if with_data { &data[2_000..] } else { &[] });
        last.seq += if with_data { 2_000 } else { 3_000 };
        rig.inject(last);
        rig.send_at(1_000, &data[1_000..2_000]);
        if !with_data {
            rig.send_at(2_000, &data[2_000..]);
        }
        assert!(!rig.events().any(Events::PEER_CLOSED));
        rig.send(&data[..1_000]);
        assert!(rig.events().any(Events::PEER_CLOSED), "with data: {with_data}");
        rig.assert_state(State::CloseWait);
        assert!(read_all(&mut rig) == data);
        rig.host.finish();
    }
}

/// Nothing can lie behind a FIN: such data is refused, and not SACKed. Nor is it a FIN that lies before what came.
#[test]
fn nothing_lies_behind_a_fin() {
    let mut rig = wide(10, Config::default());
    let mut fin = rig.segment(Flags::FIN | Flags::ACK, &[]);
    fin.seq += 1_000;
    rig.inject(fin);
    rig.send_at(1_000, &[6; 100]);
    assert!(rig.sent().iter().all(|s| s.options.sack.is_empty()));
    assert_eq!((counters(&rig).beyond_fin, queue(&rig).refused), (1, 1));
    rig.send_at(900, &[7; 300]);
    assert_eq!(rig.one().options.sack.as_slice(), [(rig.next + 900, rig.next + 1_000)]);
    rig.send(&[8; 900]);
    rig.assert_state(State::CloseWait);
    assert_eq!(read_all(&mut rig).len(), 1_000);
    rig.host.finish();

    let mut rig = wide(10, Config::default());
    rig.send_at(500, &[1; 100]);
    let mut fin = rig.segment(Flags::FIN | Flags::ACK, &[]);
    fin.seq += 300;
    rig.inject(fin);
    rig.send(&[2; 500]);
    rig.assert_state(State::Established);
    assert_eq!(read_all(&mut rig).len(), 600);
    rig.host.finish();
}

/// Nothing reads any more, and what comes is thrown away: what had been SACKed is acknowledged all the same once the
/// hole is filled.
#[test]
fn a_closed_reader_does_not_ask_again_for_what_was_sacked() {
    let mut rig = wide(
        10,
        Config {
            quirks: tcp::Quirks { discard_after_shutdown: true, ..Default::default() },
            ..Config::default()
        },
    );
    rig.send_at(1_000, &[1; 1_000]);
    let now = rig.now;
    rig.host.with(now, |conn, cx| conn.shutdown(cx, Shutdown::Read));
    assert_eq!(rig.host.pool.used(), 0, "no memory is needed for it");
    rig.send_at(3_000, &[1; 1_000]);
    rig.sent();
    rig.send(&[1; 1_000]);
    let told = rig.one();
    assert_eq!(told.ack, rig.next + 1_000);
    assert_eq!(told.options.sack.as_slice(), [(rig.next + 2_000, rig.next + 3_000)]);
    rig.next += 1_000;
    rig.send(&[1; 1_000]);
    assert_eq!(rig.one().ack, rig.next + 1_000);
    assert_eq!((rig.host.conn().readable(), rig.host.pool.used()), (0, 0));
    rig.host.finish();
}
