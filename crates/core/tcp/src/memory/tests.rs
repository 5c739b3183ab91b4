//! Goal: whatever others hold, a connection gets its least and goes on; with memory to spare it gets what it can use;
//! and what is set free comes back.

use alloc::vec;
use alloc::vec::Vec;

use base::Duration;

use super::*;
use crate::tests::ends::{End, MSS, Pair, cx};
use crate::{Config, SocketOptions, WriteError};

const LEAST: usize = 2 * CHUNK;

/// Others take chunks until `used` of them are in use.
fn fill(pool: &mut Pool, used: u32) {
    let more = used - pool.used();
    assert!(pool.dip(Pool::limit, |pool| pool.set_aside(more)));
}

fn write(end: &mut End, now: base::Instant, bytes: usize) -> Result<usize, WriteError> {
    let data = vec![7; bytes];
    end.conn.write(cx!(end, now), &data)
}

#[test]
fn a_write_gets_what_it_can_use_while_chunks_are_scarce() {
    let mut pair = Pair::new();
    let limit = pair.a.pool.limit();
    assert_eq!(write(&mut pair.a, pair.now, 1 << 20), Ok(128 << 10), "below half of the pool as ever");
    let mut pair = Pair::new();
    fill(&mut pair.a.pool, limit / 2);
    // The initial window, and as much again once that has left.
    assert_eq!(write(&mut pair.a, pair.now, 1 << 20), Ok(10 * MSS));
    assert_eq!(write(&mut pair.a, pair.now, 1), Err(WriteError::Full));
    pair.a.drain(pair.now);
    assert_eq!(write(&mut pair.a, pair.now, 1 << 20), Ok(10 * MSS));
    assert!(pair.a.counters.send_buffers_bounded >= 3);
}

#[test]
fn a_peer_that_does_not_read_is_written_the_least() {
    let mut pair = Pair::new();
    let half = pair.a.pool.limit() / 2;
    fill(&mut pair.a.pool, half);
    for _ in 0..1_000 {
        let _ = write(&mut pair.a, pair.now, 1 << 20);
        pair.settle();
        pair.pass(Duration::from_millis(1));
    }
    assert!(pair.a.conn.snd.window() < MSS as u32);
    assert_eq!(write(&mut pair.a, pair.now, 1), Err(WriteError::Full));
    assert_eq!(pair.a.conn.snd.queued() as usize, LEAST);
    assert_eq!(pair.a.conn.writable(), 0, "or an application that polls would spin");
    // It reads after all.
    pair.a.events();
    pair.b.read(pair.now);
    pair.settle();
    assert!(pair.a.events().any(Events::WRITABLE));
    assert!(write(&mut pair.a, pair.now, 1 << 20).is_ok_and(|taken| taken > 2 * LEAST));
}

#[test]
fn the_least_is_there_until_what_arrives_needs_the_rest() {
    let mut pair = Pair::new();
    let limit = pair.a.pool.limit();
    fill(&mut pair.a.pool, limit - limit / 4);
    assert_eq!(write(&mut pair.a, pair.now, 1 << 20), Ok(LEAST));
    assert_eq!(write(&mut pair.a, pair.now, 1), Err(WriteError::Full));
    pair.settle();
    assert_eq!(pair.b.read(pair.now).len(), LEAST);
    pair.settle();
    let end = pair.a.pool.writes_end();
    fill(&mut pair.a.pool, end);
    assert_eq!(write(&mut pair.a, pair.now, 1), Err(WriteError::NoMemory));
    // No event tells it: it looks again.
    pair.a.pool.give_back(end);
    pair.a.events();
    pair.fire();
    assert!(pair.a.events().any(Events::WRITABLE));
    assert_eq!(write(&mut pair.a, pair.now, 1 << 20), Ok(128 << 10), "all of it is back");
}

/// A buffer size that the application has set holds again when memory does not lack any more.
#[test]
fn a_fixed_buffer_is_bounded_and_comes_back() {
    let options = SocketOptions { sndbuf: 60_000, ..SocketOptions::default() };
    let mut pair = Pair::with(Config::default(), options);
    let half = pair.a.pool.limit() / 2;
    fill(&mut pair.a.pool, half);
    assert_eq!(write(&mut pair.a, pair.now, 1 << 20), Ok(10 * MSS));
    pair.a.pool.give_back(half);
    assert_eq!(write(&mut pair.a, pair.now, 1 << 20), Ok(60_000 - 10 * MSS));
}

#[test]
fn what_arrives_finds_the_least_and_the_window_says_so() {
    for high in [false, true] {
        let mut pair = Pair::new();
        let limit = pair.b.pool.limit();
        fill(&mut pair.b.pool, if high { limit - limit / 4 } else { limit / 2 });
        write(&mut pair.a, pair.now, 60 * MSS).expect("there is room");
        let sent = pair.a.drain(pair.now);
        for packet in &sent {
            pair.b.take(pair.now, packet);
        }
        if !high {
            assert_eq!(pair.b.conn.readable() as usize, sent.len() * MSS);
            continue;
        }
        assert_eq!(pair.b.conn.readable() as usize, LEAST);
        assert!(pair.b.counters.no_memory > 0);
        // The reader is no slower than what comes: all of it arrives.
        let (mut got, start) = (0, pair.now);
        while got < 60 * MSS {
            got += pair.b.read(pair.now).len();
            if pair.settle() == 0 {
                pair.fire();
            }
            assert!(pair.now < start + Duration::from_secs(120), "{got} bytes arrived");
        }
        assert!(pair.b.conn.rcv.window() > 0);
    }
}

/// One segment of one byte at the far edge of the window, and `data` bytes in between in front of it.
fn edge(pair: &mut Pair, data: usize) -> Vec<crate::tests::ends::Packet> {
    write(&mut pair.a, pair.now, 64 << 10).expect("there is room");
    let sent = pair.a.drain(pair.now);
    let mut last = sent.last().expect("something left").clone();
    last.header.seq = pair.b.conn.rcv.nxt() + pair.b.conn.rcv.window() - 1;
    last.payload.truncate(1);
    let mut packets: Vec<_> = sent[1..].iter().take(data).cloned().collect();
    packets.push(last);
    packets
}

/// RFC 2018, section 8, lets a receiver give up what it has SACKed; it still asks for it, so nothing is lost.
#[test]
fn one_byte_at_the_far_edge_does_not_pin_a_window_of_holes() {
    let mut pair = Pair::new();
    let half = pair.b.pool.limit() / 2;
    let packets = edge(&mut pair, 0);
    pair.b.take(pair.now, &packets[0]);
    assert_eq!(pair.b.conn.rcv.info(0).bytes, 1);
    assert!(pair.b.pool.used() >= 30, "with memory to spare it is kept");
    pair.b.conn.prune(cx!(pair.b, pair.now));
    assert!(pair.b.pool.used() >= 30);
    fill(&mut pair.b.pool, half + 100);
    assert!(pair.b.conn.prune(cx!(pair.b, pair.now)));
    assert_eq!((pair.b.pool.out_of_order(), pair.b.conn.rcv.info(0).bytes), (0, 0));
    assert_eq!(pair.b.counters.out_of_order_pruned, 1);
    let used = pair.b.pool.used();
    pair.b.take(pair.now, &packets[0]);
    assert_eq!((pair.b.pool.used(), pair.b.counters.reassembly_full), (used, 1), "nor is it taken again");
}

/// A lost segment with a flight behind it is no attack: what arrives out of order is kept while chunks are scarce.
#[test]
fn data_behind_a_lost_segment_is_kept() {
    let mut pair = Pair::new();
    let half = pair.b.pool.limit() / 2;
    fill(&mut pair.b.pool, half);
    let packets = edge(&mut pair, 9);
    for packet in &packets[..9] {
        pair.b.take(pair.now, packet);
    }
    assert_eq!(pair.b.conn.rcv.info(0).bytes as usize, 9 * MSS);
    assert!(!pair.b.conn.prune(cx!(pair.b, pair.now)));
}

#[test]
fn orphans_are_counted_and_bounded() {
    let config = Config { max_orphans: 1, ..Config::default() };
    let mut pair = Pair::with(config.clone(), SocketOptions::default());
    write(&mut pair.a, pair.now, 1_000).expect("there is room");
    pair.a.close(pair.now);
    assert_eq!((pair.a.pool.orphans(), pair.a.counters.orphans_reset), (1, 0));
    let mut other = Pair::with(config, SocketOptions::default());
    core::mem::swap(&mut other.a.pool, &mut pair.a.pool);
    write(&mut other.a, other.now, 1_000).expect("there is room");
    other.a.close(other.now);
    assert_eq!((other.a.pool.orphans(), other.a.counters.orphans_reset), (1, 1));
    assert!(other.a.drain(other.now)[0].flags().has(wire::tcp::Flags::RST));
    core::mem::swap(&mut other.a.pool, &mut pair.a.pool);
    // Once all of it is acknowledged the connection waits for the peer's FIN, and keeps nothing.
    pair.settle();
    assert_eq!((pair.a.conn.state(), pair.a.pool.orphans()), (State::FinWait2, 0));
    pair.b.read(pair.now);
    pair.b.close(pair.now);
    pair.settle();
    assert_eq!((pair.a.pool.orphans(), pair.a.pool.used()), (0, 0));
}

#[test]
fn an_orphan_yields_its_memory_where_it_is_used_up() {
    let mut pair = Pair::new();
    let limit = pair.a.pool.limit();
    write(&mut pair.a, pair.now, 100_000).expect("there is room");
    pair.a.drain(pair.now);
    pair.a.close(pair.now);
    assert_eq!(pair.a.pool.orphans(), 1);
    fill(&mut pair.a.pool, limit - limit / 4);
    let others = pair.a.pool.used() - (100_000u32).div_ceil(CHUNK as u32);
    while pair.a.conn.state() != State::Closed {
        pair.fire();
        assert!(pair.a.counters.timeouts < 4, "it looks at the next timeout");
        pair.a.drain(pair.now);
    }
    assert_eq!((pair.a.counters.orphans_reset, pair.a.pool.orphans(), pair.a.pool.used()), (1, 0, others));
}

#[test]
fn an_abandoned_connection_is_no_orphan() {
    let mut pair = Pair::new();
    write(&mut pair.a, pair.now, 1_000).expect("there is room");
    pair.a.close(pair.now);
    pair.a.conn.release(&mut pair.a.pool);
    assert_eq!(pair.a.pool.orphans(), 0);
}
