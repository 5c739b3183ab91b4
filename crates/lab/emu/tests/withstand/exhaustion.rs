//! Goal: with too little memory, frames, ports or connections everything goes on more slowly and nothing
//! breaks.

use crate::harness::{Family, Setup, seeded};
use crate::peer::Plan;
use base::{Duration, Rate};
use emu::{PipeConfig, PortConfig, Queue};
use stack::OpError;

fn path() -> PipeConfig {
    PipeConfig {
        rate: Some(Rate::from_bits_per_sec(200_000_000)),
        delay: Duration::from_millis(2),
        queue: Queue::Strict(100_000),
        ..PipeConfig::default()
    }
}

const TIMEOUT: Duration = Duration::from_secs(300);

#[test]
fn too_few_chunks() {
    seeded(1..4, |seed| {
        let mut setup =
            Setup::new(seed, Family::V4, PipeConfig { loss: 0.01, spares_neighbours: true, ..path() });
        // Twenty connections that would like megabytes share 64 KiB on each side: less than the least of each.
        setup.client.max_chunks = 32;
        setup.server.max_chunks = 32;
        let mut pair = setup.build();
        let (client, server) = Plan::both(200_000, 100_000);
        pair.serve(server);
        (0..20).for_each(|_| pair.connect(client));
        pair.finish(TIMEOUT);
        assert_eq!(pair.client().app.tally.complete, 20, "{}", pair.describe());
        assert_eq!(pair.server().app.tally.complete, 20, "{}", pair.describe());
        let starved = pair.client().app.tally.no_memory + pair.server().app.tally.no_memory;
        assert!(starved > 0, "the pool was never empty: the test tests nothing");
        pair.assert_clean();
    });
}

#[test]
fn too_few_frames() {
    seeded(1..3, |seed| {
        let mut setup = Setup::new(seed, Family::V6, path());
        setup.port = PortConfig { frames: 24, rx_ring: 32, tx_ring: 8, ..PortConfig::default() };
        let mut pair = setup.build();
        let (client, server) = Plan::both(500_000, 500_000);
        pair.serve(server);
        (0..4).for_each(|_| pair.connect(client));
        pair.finish(TIMEOUT);
        assert_eq!(pair.client().app.tally.complete, 4, "{}", pair.describe());
        pair.assert_clean();
    });
}

#[test]
fn too_few_connections() {
    let mut setup = Setup::new(1, Family::V4, path());
    setup.client.max_connections = 10;
    let mut pair = setup.build();
    let (client, server) = Plan::both(1_000, 1_000);
    pair.serve(server);
    (0..10).for_each(|_| pair.connect(client));
    let (now, remote) = (pair.net.now(), pair.service());
    let host = pair.net.host_mut(pair.client);
    assert_eq!(host.app.connect(&mut host.core, now, remote, client), Err(OpError::NoBuffers));
    pair.finish(TIMEOUT);
    pair.assert_clean();
    (0..10).for_each(|_| pair.connect(client));
    pair.finish(TIMEOUT);
    assert_eq!(pair.client().app.tally.complete, 20);
    pair.assert_clean();
}

#[test]
fn too_few_ports() {
    let mut setup = Setup::new(1, Family::V4, path());
    setup.client.ephemeral = (50_000, 50_007);
    let mut pair = setup.build();
    let (client, server) = Plan::both(1_000, 1_000);
    pair.serve(server);
    (0..8).for_each(|_| pair.connect(client));
    let (now, remote) = (pair.net.now(), pair.service());
    let host = pair.net.host_mut(pair.client);
    assert_eq!(host.app.connect(&mut host.core, now, remote, client), Err(OpError::AddrNotAvailable));
    pair.finish(TIMEOUT);
    pair.assert_clean();
    (0..8).for_each(|_| pair.connect(client));
    pair.finish(TIMEOUT);
    assert_eq!(pair.client().app.tally.complete, 16);
}
