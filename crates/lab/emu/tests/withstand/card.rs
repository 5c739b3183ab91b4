//! Goal: behind a card in software, with any number of workers in any order of turns, applications read the bytes that
//! were sent, whatever the path does to packets.

use crate::harness::{Family, Pair, Setup, seeded};
use crate::peer::Plan;
use base::{Duration, Rate, Rng};
use emu::{PipeConfig, PortConfig, Queue};

const TIMEOUT: Duration = Duration::from_secs(60);

/// A path that loses, reorders and doubles, as the seed says.
fn path(rng: &mut Rng) -> PipeConfig {
    let often = |rng: &mut Rng, most: f64| if rng.chance(0.5) { most } else { 0.0 };
    PipeConfig {
        rate: Some(Rate::from_bits_per_sec(20_000_000 + rng.below(2_000_000_000))),
        delay: Duration::from_nanos(1 + rng.below(20_000_000)),
        queue: Queue::Slots(20 + rng.below(200) as u32),
        loss: often(rng, 0.02),
        reorder: often(rng, 0.05),
        reorder_by: Duration::from_millis(1),
        duplicate: often(rng, 0.03),
        ..PipeConfig::default()
    }
}

/// Moves bytes both ways, most of them to the host behind the card.
fn finished(seed: u64, card: usize, lanes: u16) -> Pair {
    let mut rng = Rng::new(seed);
    let path = path(&mut rng);
    let port = match rng.below(3) {
        0 => PortConfig { tx_checksum: true, tso_max: 65_535, ..PortConfig::default() },
        _ => PortConfig::default(),
    };
    let mut pair = Setup { card, lanes, port, ..Setup::new(seed, Family::of(seed), path) }.build();
    let (client, server) = Plan::both(150_000, 1_500_000);
    pair.serve(server);
    for _ in 0..=rng.below(3) {
        pair.connect(client);
    }
    pair.finish(TIMEOUT);
    pair
}

fn of(pair: &mut Pair, what: &str) -> u64 {
    let stats = pair.net.host_mut(pair.client).core.io().stats();
    stats.iter().filter(|(name, _)| name.ends_with(what)).map(|row| row.1).sum()
}

#[test]
fn behind_any_number_of_workers_the_same_bytes_arrive() {
    let merged = std::cell::Cell::new(0);
    seeded(0..30, |seed| {
        let mut moved = Vec::new();
        for card in [0, 1, 2, 5, 13] {
            let mut pair = finished(seed, card, (seed % 3) as u16);
            let (client, server) = (&pair.client().app.tally, &pair.server().app.tally);
            assert_eq!(client.complete, server.complete, "{}", pair.describe());
            moved.push((client.complete, client.received, server.received));
            pair.assert_clean();
            if card > 0 {
                merged.set(merged.get() + of(&mut pair, "_merged"));
            }
        }
        assert!(moved.iter().all(|all| *all == moved[0]), "{moved:?}");
    });
    assert!(merged.get() > 10_000, "only {} packets were merged", merged.get());
}
