//! Goal: bytes arrive as they were sent, both ways at once, over a path with every ill, without a stall.

use crate::harness::{Family, Pair, Setup, from_env, seeded, stat};
use crate::peer::Plan;
use base::{Duration, Rate};
use emu::{PipeConfig, PortConfig, Queue};
use std::cell::Cell;
use std::rc::Rc;
use tcp::SocketOptions;
use wire::packet::{Content, parse_frame};

/// 5 % loss, and reordering, duplication, corruption and jitter besides.
fn awful() -> PipeConfig {
    PipeConfig {
        rate: Some(Rate::from_bits_per_sec(100_000_000)),
        delay: Duration::from_millis(5),
        jitter: Duration::from_millis(2),
        queue: Queue::Strict(128 << 10),
        loss: 0.05,
        duplicate: 0.01,
        corrupt: 0.01,
        reorder: 0.05,
        reorder_by: Duration::from_millis(8),
        spares_neighbours: true,
        ..PipeConfig::default()
    }
}

/// Nothing moves for this long: a stall. Several timeouts in a row are in order on such a path.
const TIMEOUT: Duration = Duration::from_secs(120);

fn both_ways(seed: u64, family: Family, port: PortConfig, lazy: f64, bytes: u64) {
    let mut setup = Setup::new(seed, family, awful());
    let gathers = port.gathers.is_some();
    setup.port = port;
    let mut pair = setup.build();
    let (client, server) = Plan::both(bytes, bytes);
    let lends = if gathers { 0.5 } else { 0.0 };
    pair.serve(Plan { lazy, lends, ..server });
    pair.connect(Plan { lazy, lends, ..client });
    pair.finish(TIMEOUT);
    for host in [pair.client(), pair.server()] {
        assert_eq!((host.app.tally.complete, host.app.tally.received), (1, bytes), "{}", pair.describe());
    }
    // At less than 50 kB/s something is wrong even here.
    let limit = Duration::from_secs(120 + bytes / 50_000);
    assert!(pair.net.now().since(crate::harness::START) < limit, "slow: {}", pair.describe());
    if bytes >= 1 << 20 {
        assert_ill(&pair);
    }
    pair.assert_clean();
}

/// The path did what it was told to, and the stacks noticed.
fn assert_ill(pair: &Pair) {
    for pipe in [pair.there, pair.back] {
        let counters = pair.net.pipe(pipe).counters();
        let ills = [counters.lost, counters.duplicated, counters.corrupted, counters.reordered];
        assert!(ills.iter().all(|count| *count > 0), "{counters:?}");
    }
    for host in [pair.client(), pair.server()] {
        assert!(host.core.tcp_counters().retransmits > 0);
        assert!(stat(&host.core, "drop_checksum") > 0);
    }
}

/// Bytes each way.
fn soak() -> u64 {
    from_env("MILLSTREAM_SOAK_BYTES", 8 << 20)
}

#[test]
fn ipv4_over_an_awful_path() {
    seeded(1..2, |seed| both_ways(seed, Family::V4, PortConfig::default(), 0.0, soak()));
}

#[test]
fn ipv6_over_an_awful_path() {
    seeded(2..3, |seed| both_ways(seed, Family::V6, PortConfig::default(), 0.0, soak()));
}

#[test]
fn with_segmentation_and_checksum_offload() {
    let port = || PortConfig { tx_checksum: true, tso_max: 65_535, ..PortConfig::default() };
    seeded(3..5, |seed| {
        let family = Family::of(seed);
        both_ways(seed, family, port(), 0.0, soak() / 4);
    });
}

/// As between two stacks on one machine: what arrives stands for many segments, and carries no checksum.
#[test]
fn with_super_segments_that_arrive_whole() {
    let port =
        || PortConfig { tx_checksum: true, tso_max: 65_535, passes_whole: true, ..PortConfig::default() };
    seeded(11..15, |seed| both_ways(seed, Family::of(seed), port(), 0.01, soak() / 16));
}

/// As on a tap: payloads leave from the send buffer, or from where the application has them.
#[test]
fn from_where_the_bytes_lie() {
    let port = |gathers, passes_whole| PortConfig {
        tx_checksum: true,
        tso_max: 65_535,
        passes_whole,
        gathers: Some(gathers),
        ..PortConfig::default()
    };
    for (gathers, whole) in [(1, false), (1, true), (4_096, true)] {
        seeded(15..18, |seed| both_ways(seed, Family::of(seed), port(gathers, whole), 0.01, soak() / 16));
    }
}

#[test]
fn readers_that_look_away_close_the_window_and_open_it_again() {
    seeded(5..9, |seed| {
        let family = Family::of(seed);
        both_ways(seed, family, PortConfig::default(), 0.02, soak() / 16);
    });
}

#[test]
fn many_seeds_a_little_each() {
    seeded(100..140, |seed| {
        let family = Family::of(seed);
        both_ways(seed, family, PortConfig::default(), 0.001, soak() / 64);
    });
}

/// Without segmentation offload no segment is larger than the peer said, whatever the link would carry.
#[test]
fn a_small_mss_is_obeyed() {
    for family in [Family::V4, Family::V6] {
        let path = PipeConfig { delay: Duration::from_millis(5), ..PipeConfig::default() };
        let mut pair = Setup::new(1, family, path).build();
        let (client, server) = Plan::both(200_000, 200_000);
        pair.serve(Plan { options: SocketOptions { max_seg: 600, ..SocketOptions::default() }, ..server });
        pair.connect(client);
        let largest = Rc::new(Cell::new(0));
        let watched = largest.clone();
        pair.net.watch(move |sight| {
            let read = parse_frame(sight.packet, sight.packet.len()).expect("a sound frame");
            if let Content::Ip(ip) = read.content
                && ip.protocol == wire::protocol::TCP
            {
                let (_, _, segment) = ip.tcp(sight.packet).expect("a sound segment");
                watched.set(watched.get().max(segment.payload.len()));
            }
        });
        pair.finish(TIMEOUT);
        // The timestamps come out of the 600.
        assert_eq!(largest.get(), 588);
    }
}
