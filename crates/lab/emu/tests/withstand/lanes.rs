//! Goal: how many lanes make segments changes nothing on the wire: not a byte, not the order,
//! not a nanosecond; also where much is lost, damaged and overtaken, and where the link takes little at a time.

use crate::harness::{Family, Pair, Setup, seeded, stat};
use crate::peer::Plan;
use base::{Duration, Instant, Rate, Rng, SipKey};
use emu::{PipeConfig, PortConfig, Queue};
use std::cell::Cell;
use std::rc::Rc;

const TIMEOUT: Duration = Duration::from_secs(60);

fn path(rng: &mut Rng) -> PipeConfig {
    PipeConfig {
        rate: Some(Rate::from_bits_per_sec(20_000_000 + rng.below(2_000_000_000))),
        delay: Duration::from_nanos(1 + rng.below(20_000_000)),
        queue: Queue::Slots(20 + rng.below(200) as u32),
        loss: if rng.chance(0.5) { 0.01 } else { 0.0 },
        reorder: if rng.chance(0.3) { 0.02 } else { 0.0 },
        reorder_by: Duration::from_millis(1),
        spares_neighbours: true,
        ..PipeConfig::default()
    }
}

/// Moves bytes both ways; when all were done, what passed the network, and the hosts.
fn finished(seed: u64, lanes: u16) -> (Instant, (u64, u64), Pair) {
    let mut rng = Rng::new(seed);
    let setup = Setup::new(seed, Family::of(seed), path(&mut rng));
    moved(rng, Setup { lanes, ..setup }, Plan::both(3_000_000, 200_000))
}

fn moved(mut rng: Rng, setup: Setup, (client, server): (Plan, Plan)) -> (Instant, (u64, u64), Pair) {
    let mut pair = setup.build();
    let sum = Rc::new(Cell::new((0u64, 0u64)));
    let (running, key) = (sum.clone(), SipKey::new(1, 2));
    pair.net.watch(move |sight| {
        let (count, sum) = running.get();
        let mut words = vec![sum, sight.at.as_nanos(), u64::from(sight.pipe.0)];
        words.extend(sight.packet.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        }));
        running.set((count + 1, key.fast(&words)));
    });
    let lends = if rng.chance(0.5) { 0.5 } else { 0.0 };
    pair.serve(server);
    pair.connect(Plan { lends, ..client });
    pair.finish(TIMEOUT);
    for host in [pair.client(), pair.server()] {
        assert_eq!(host.app.tally.complete, 1, "{}", pair.describe());
    }
    (pair.net.now(), sum.get(), pair)
}

#[test]
fn any_number_of_lanes_sends_the_same() {
    seeded(0..12, |seed| {
        let (end, wire, mut pair) = finished(seed, 1);
        let cut = pair.net.host_mut(pair.client).core.io().stats();
        let of = |name| cut.iter().find(|(row, _)| *row == name).map_or(0, |row| row.1);
        assert!(of("lanes_segments") > 1_000, "super-segments were cut: {cut:?}");
        assert!(stat(&pair.server().core, "drop_checksum") == 0, "checksums are right");
        pair.assert_clean();
        for lanes in [2, 3] {
            let (other_end, other_wire, _) = finished(seed, lanes);
            assert_eq!((other_end, other_wire), (end, wire), "{lanes} lanes, seed {seed}");
        }
    });
}

/// Without lanes a stack builds each segment for itself: the same bytes arrive, however they were cut.
#[test]
fn with_lanes_and_without_the_same_arrives() {
    seeded(20..24, |seed| {
        for lanes in [0, 1] {
            let (_, _, mut pair) = finished(seed, lanes);
            assert_eq!(pair.server().app.tally.received, 3_000_000);
            assert_eq!(pair.client().app.tally.received, 200_000);
            pair.assert_clean();
        }
    });
}

/// A segment may be long enough to be taken from where it lies, and still be no super-segment.
#[test]
fn long_segments_that_need_no_cutting_pass() {
    seeded(60..64, |seed| {
        for (lanes, tx_checksum) in [(1, false), (2, false), (2, true)] {
            let mut rng = Rng::new(seed);
            let path = path(&mut rng);
            let port = PortConfig { mtu: 9_000, tx_checksum, ..PortConfig::default() };
            let setup = Setup { lanes, port, ..Setup::new(seed, Family::of(seed), path) };
            let (_, _, mut pair) = moved(rng, setup, Plan::both(3_000_000, 200_000));
            let stats = pair.net.host_mut(pair.client).core.io().stats();
            let of = |name| stats.iter().find(|(row, _)| *row == name).map(|row| row.1);
            assert_eq!(of("lanes_invalid"), Some(0), "{lanes} lanes, seed {seed}");
            assert!(of("lanes_segments").is_some_and(|count| count > 50), "{stats:?}");
            assert!(stat(&pair.server().core, "drop_checksum") == 0, "checksums are right");
            pair.assert_clean();
        }
    });
}

/// Where the link cuts and sums by itself there is nothing to share.
#[test]
fn where_the_link_does_it_all_there_are_no_lanes() {
    let port = PortConfig { tx_checksum: true, tso_max: 65_535, ..PortConfig::default() };
    let mut pair = Setup { lanes: 4, port, ..Setup::new(1, Family::V4, PipeConfig::default()) }.build();
    let stats = pair.net.host_mut(pair.client).core.io().stats();
    assert!(stats.iter().all(|(name, _)| *name != "lanes"), "but for what arrives: {stats:?}");
}
