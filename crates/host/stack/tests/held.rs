//! Goal: a core that holds delivers what one that does not delivers, and gives every frame back.

mod common;

use base::{Duration, Endpoint, FlowKey, Instant};
use common::*;
use pio::{Caps, Delays, Layer, PacketIo, Pair, PairConfig, pair};
use stack::{ConnId, Core, Offload};
use std::sync::{Arc, Mutex};
use tcp::{Events, WriteError};

const HTTP: Endpoint = Endpoint::new(SERVER, PORT);
const MICRO: Duration = Duration::from_micros(1);
const MILLI: Duration = Duration::from_millis(1);
const BUDGET: Duration = Duration::from_micros(50);

fn world(offload: Offload) -> (World, ConnId, ConnId) {
    let link = PairConfig { frames: 4096, ..PairConfig::default() };
    connected(World::with(&link, |_, server| server.offload = offload))
}

/// A connection between the two.
fn connected(mut world: World) -> (World, ConnId, ConnId) {
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

/// `bytes` from the client, turned every 5 us, read by the server as they come; when the last came.
fn carry(world: &mut World, client: ConnId, server: ConnId, bytes: &[u8]) -> Instant {
    let (mut sent, mut got) = (0, Vec::new());
    while got.len() < bytes.len() {
        match world.client.write(world.now, client, &bytes[sent..]) {
            Ok(n) => sent += n,
            Err(WriteError::Full) => {}
            Err(error) => panic!("write: {error:?}"),
        }
        world.client.turn(world.now).unwrap();
        world.server.turn(world.now).unwrap();
        read_all(&mut world.server, world.now, server, &mut got);
        world.server.flush(world.now).unwrap();
        world.now += 5 * MICRO;
        assert!(world.now < Instant::from_secs(9), "stalled at {} of {}", got.len(), bytes.len());
    }
    assert!(got == bytes, "byte for byte");
    world.now
}

fn noise(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    base::Rng::new(len as u64).fill(&mut bytes);
    bytes
}

#[test]
fn every_mode_delivers_the_same() {
    for offload in [Offload::Off, Offload::Inline, Offload::Hold(BUDGET), Offload::Reorder(BUDGET)] {
        let (mut world, client, server) = world(offload);
        carry(&mut world, client, server, &noise(3_000_001));
        world.pass(Duration::from_millis(1));
        let held = world.server.held();
        assert_eq!(held.seen > 0, !matches!(offload, Offload::Off | Offload::Inline), "{offload:?}");
        assert_eq!(held.runs + held.merged, held.seen, "everything went up");
    }
}

/// A port that asks for round trips, and writes down what it hears.
struct Asking {
    caps: Caps,
    pair: Pair,
    heard: Arc<Mutex<Vec<(FlowKey, Duration)>>>,
}

impl Layer for Asking {
    type Below = Pair;

    fn below(&self) -> &Pair {
        &self.pair
    }

    fn below_mut(&mut self) -> &mut Pair {
        &mut self.pair
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn delays(&self) -> Option<&dyn Delays> {
        Some(self)
    }
}

impl Delays for Asking {
    fn due(&self) -> Option<Instant> {
        None
    }

    fn on_round_trip(&self, key: &FlowKey, srtt: Duration) {
        self.heard.lock().unwrap().push((*key, srtt));
    }
}

#[test]
fn a_port_that_merges_hears_how_long_the_round_trip_takes() {
    let heard: Arc<Mutex<Vec<_>>> = Arc::default();
    let (near, pair) = pair(&PairConfig { frames: 64, ..PairConfig::offloads() }).unwrap();
    let caps = Caps { wants_round_trips: true, ..pair.caps().clone() };
    let port = Asking { caps, pair, heard: heard.clone() };
    let cores = (config(1, CLIENT, CLIENT_V6), config(2, SERVER, SERVER_V6));
    let world = World::of(Core::new(cores.0, Box::new(near)), Core::new(cores.1, Box::new(port)));
    let (mut world, client, server) = connected(world);
    carry(&mut world, client, server, b"less than a segment");
    assert_eq!(*heard.lock().unwrap(), [], "nothing was merged");
    carry(&mut world, client, server, &noise(300_000));
    let heard = heard.lock().unwrap();
    assert!(!heard.is_empty(), "super-segments came");
    for (key, srtt) in &*heard {
        assert_eq!((key.local(), key.remote().addr), (HTTP, CLIENT));
        assert!((MILLI..=3 * MILLI).contains(srtt), "{srtt:?} is what the handshake took");
    }
}
