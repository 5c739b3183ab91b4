//! Goal: a core that holds delivers what one that does not delivers, and gives every frame back.

mod common;

use base::{Duration, Endpoint, Instant};
use common::*;
use pio::PairConfig;
use stack::{ConnId, Offload};
use tcp::{Events, WriteError};

const HTTP: Endpoint = Endpoint::new(SERVER, PORT);
const MICRO: Duration = Duration::from_micros(1);
const BUDGET: Duration = Duration::from_micros(50);

fn world(offload: Offload) -> (World, ConnId, ConnId) {
    let link = PairConfig { frames: 4096, ..PairConfig::default() };
    let mut world = World::with(&link, |_, server| server.offload = offload);
    let listener = world.listen(HTTP, 4);
    let client = world.connect(HTTP, 7);
    // A handshake that takes a while, so that there is a round trip to take an eighth of.
    while !told(&world.client_notices, 7).any(Events::CONNECTED) {
        world.now += Duration::from_millis(1);
        world.step();
    }
    world.now += Duration::from_millis(1);
    world.settle();
    let server = world.server.accept(listener, 9).expect("the handshake completes");
    (world, client, server)
}

/// `octets` from the client, turned every 5 us, read by the server as they come; when the last came.
fn carry(world: &mut World, client: ConnId, server: ConnId, octets: &[u8]) -> Instant {
    let (mut sent, mut got) = (0, Vec::new());
    while got.len() < octets.len() {
        match world.client.write(world.now, client, &octets[sent..]) {
            Ok(n) => sent += n,
            Err(WriteError::Full) => {}
            Err(error) => panic!("write: {error:?}"),
        }
        world.client.turn(world.now).unwrap();
        world.server.turn(world.now).unwrap();
        read_all(&mut world.server, world.now, server, &mut got);
        world.server.flush(world.now).unwrap();
        world.now += 5 * MICRO;
        assert!(world.now < Instant::from_secs(9), "stalled at {} of {}", got.len(), octets.len());
    }
    assert!(got == octets, "octet for octet");
    world.now
}

fn noise(len: usize) -> Vec<u8> {
    let mut octets = vec![0; len];
    base::Rng::new(len as u64).fill(&mut octets);
    octets
}

#[test]
fn every_mode_delivers_the_same() {
    for offload in [
        Offload::Off,
        Offload::Inline,
        Offload::Hold(BUDGET),
        Offload::Early(BUDGET),
        Offload::Reorder(BUDGET),
    ] {
        let (mut world, client, server) = world(offload);
        carry(&mut world, client, server, &noise(3_000_001));
        world.pass(Duration::from_millis(1));
        let held = world.server.held();
        assert_eq!(held.seen > 0, !matches!(offload, Offload::Off | Offload::Inline), "{offload:?}");
        assert_eq!(held.runs + held.merged, held.seen, "everything went up");
    }
}
