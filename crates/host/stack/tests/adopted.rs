//! Goal: what connections read from the port's frames is what was sent, however and whenever they read it; a frame is
//! kept until the next turn at most, or by a thread that reads it, and few are, so the port never starves; and nothing
//! else of it outlives its connection.

mod common;

use base::{Duration, Endpoint, Instant, Rng};
use common::*;
use pio::{PairConfig, pair};
use stack::{ConnId, Core, CoreConfig, FrameBytes, Offload};
use tcp::{ReadError, Shutdown, State, WriteError};

const HTTP: Endpoint = Endpoint::new(SERVER, PORT);
const BUDGET: Duration = Duration::from_micros(50);
const MODES: [Offload; 3] = [Offload::Inline, Offload::Hold(BUDGET), Offload::Reorder(BUDGET)];

fn count(core: &Core, name: &str) -> u64 {
    core.stats().iter().find(|(known, _)| *known == name).map(|(_, value)| *value).expect("a counter")
}

fn world(offload: Offload, flows: u32) -> (World, Vec<ConnId>, Vec<ConnId>) {
    world_with(&PairConfig::default(), offload, flows)
}

fn world_with(link: &PairConfig, offload: Offload, flows: u32) -> (World, Vec<ConnId>, Vec<ConnId>) {
    // The smallest pool a port has.
    let link = PairConfig { frames: 512, depth: 256, ..link.clone() };
    let (a, b) = pair(&link).unwrap();
    let server = CoreConfig { offload, ..config(2, SERVER, SERVER_V6) };
    let client = Core::new(config(1, CLIENT, CLIENT_V6), Box::new(a));
    let mut world = World::of(client, Core::new(server, Box::new(b)));
    let listener = world.listen(HTTP, 64);
    let (mut clients, mut servers) = (Vec::new(), Vec::new());
    for owner in 0..flows {
        let client = world.connect(HTTP, owner);
        world.pass(Duration::from_millis(1));
        clients.push(client);
        servers.push(world.server.accept(listener, owner).expect("the handshake completes"));
    }
    (world, clients, servers)
}

/// Bytes that another thread reads at some time, and what they have to be.
#[derive(Default)]
struct Elsewhere(Vec<(FrameBytes, Vec<u8>)>);

impl Elsewhere {
    fn take(&mut self, rng: &mut Rng, core: &mut Core, now: Instant, id: ConnId, got: &mut Vec<u8>) {
        let (max, mut seen) = (1 + rng.below(40_000) as usize, Vec::new());
        let each = &mut |piece: &[u8]| {
            seen.extend_from_slice(piece);
            true
        };
        let waits = core.peek(id, max, each).is_ok();
        if let Some(bytes) = core.take_frames(now, id, max) {
            assert!(waits && (1..=max).contains(&bytes.len()));
            seen.truncate(bytes.len());
            got.extend_from_slice(&seen);
            self.0.push((bytes, seen));
        }
    }

    fn read_one(&mut self, rng: &mut Rng) {
        if self.0.is_empty() {
            return;
        }
        let (mut bytes, expected) = self.0.swap_remove(rng.below(self.0.len() as u64) as usize);
        let mut read = Vec::new();
        while bytes.len() > 0 && !rng.chance(0.05) {
            let n = bytes.front().len().min(1 + rng.below(3_000) as usize);
            read.extend_from_slice(&bytes.front()[..n]);
            bytes.consume(n);
        }
        let (mut left, most) = (0, rng.below(50) as usize);
        let whole = bytes.for_each(&mut |piece| {
            read.extend_from_slice(piece);
            left += 1;
            left < most
        });
        assert!(if whole { read == expected } else { expected.starts_with(&read) });
        assert!(whole || left >= most);
    }
}

/// One look of a reader at what is there, in one of many ways.
fn look(
    rng: &mut Rng,
    core: &mut Core,
    now: Instant,
    id: ConnId,
    got: &mut Vec<u8>,
    elsewhere: &mut Elsewhere,
) {
    match rng.below(10) {
        8 => elsewhere.take(rng, core, now, id, got),
        9 => elsewhere.read_one(rng),
        // Not now.
        0 => {}
        1 => {
            let mut seen = Vec::new();
            let max = rng.below(40_000) as usize;
            let each = &mut |piece: &[u8]| {
                seen.extend_from_slice(piece);
                seen.len() < 5_000
            };
            if core.peek(id, max, each).is_ok() {
                assert!(seen.len() <= max);
                let wanted = seen.len() - seen.len() / 3;
                core.consume(now, id, wanted);
                got.extend_from_slice(&seen[..wanted]);
            }
        }
        2 => assert!(matches!(core.read(now, id, &mut []), Ok(0) | Err(ReadError::Empty))),
        3 => {
            let most = if rng.chance(0.5) { 3_000 } else { 100_000 };
            let mut buf = vec![0; 1 + rng.below(most) as usize];
            if let Ok(n) = core.read(now, id, &mut buf) {
                got.extend_from_slice(&buf[..n]);
            }
        }
        _ => {
            read_all(core, now, id, got);
        }
    }
    let readable = core.connection(id).readable();
    let mut seen = 0;
    if core
        .peek(id, usize::MAX, &mut |piece| {
            seen += piece.len();
            true
        })
        .is_ok()
    {
        assert_eq!(seen, readable as usize, "what may be read is there");
    }
}

/// Several flows at once, whose readers look in every way, at any time.
fn model(link: &PairConfig, offload: Offload, seed: u64) -> u64 {
    const FLOWS: u32 = 3;
    let mut rng = Rng::new(seed);
    let (mut world, clients, servers) = world_with(link, offload, FLOWS);
    let mut data = vec![vec![0; 400_000]; FLOWS as usize];
    data.iter_mut().for_each(|bytes| rng.fill(bytes));
    let (mut sent, mut got) = (vec![0; data.len()], vec![Vec::new(); data.len()]);
    let mut elsewhere = Elsewhere::default();
    while got.iter().zip(&data).any(|(got, data)| got.len() < data.len()) {
        for (nth, client) in clients.iter().enumerate() {
            let end = data[nth].len().min(sent[nth] + rng.below(60_000) as usize);
            match world.client.write(world.now, *client, &data[nth][sent[nth]..end]) {
                Ok(n) => sent[nth] += n,
                Err(WriteError::Full) => {}
                Err(error) => panic!("write: {error:?}"),
            }
        }
        world.client.turn(world.now).unwrap();
        world.server.turn(world.now).unwrap();
        for (nth, server) in servers.iter().enumerate() {
            look(&mut rng, &mut world.server, world.now, *server, &mut got[nth], &mut elsewhere);
        }
        if rng.below(3) > 0 {
            world.server.flush(world.now).unwrap();
        }
        world.now += Duration::from_micros(rng.below(40));
        assert!(world.now < Instant::from_secs(60), "stalled");
    }
    assert!(got == data, "byte for byte");
    world.pass(Duration::from_secs(2));
    assert_eq!(count(&world.server, "chunks_used"), 0, "nothing is set aside any more");
    assert_eq!(count(&world.client, "no_frame"), 0);
    count(&world.server, "bytes_in_place")
}

#[test]
fn every_way_of_reading_gives_the_same() {
    for offload in MODES {
        let kept: u64 = (0..8).map(|seed| model(&PairConfig::default(), offload, seed)).sum();
        assert!(kept > 1_000_000, "{offload:?}: {kept}");
    }
}

#[test]
fn what_the_link_has_merged_is_adopted_too() {
    for offload in MODES.into_iter().chain([Offload::Off]) {
        let kept: u64 = (0..8).map(|seed| model(&PairConfig::offloads(), offload, seed)).sum();
        assert!(kept > 1_000_000, "{offload:?}: {kept}");
    }
}

#[test]
fn who_does_not_read_keeps_no_frame() {
    let (mut world, clients, servers) = world(Offload::Inline, 40);
    for client in &clients {
        let _window = world.client.write(world.now, *client, &[7; 60_000]);
    }
    world.pass(Duration::from_millis(50));
    let waiting: u32 = servers.iter().map(|id| world.server.connection(*id).readable()).sum();
    assert!(waiting as usize > 600 * 1448, "more than the port has frames: {waiting}");
    assert!(count(&world.server, "bytes_copied_late") > 0);
    // The port is as good as ever.
    let mut got = Vec::new();
    read_all(&mut world.server, world.now, servers[0], &mut got);
    world.pass(Duration::from_millis(50));
    read_all(&mut world.server, world.now, servers[0], &mut got);
    assert_eq!(got, [7; 60_000]);
}

#[test]
fn less_is_adopted_for_late_readers() {
    let (mut world, clients, servers) = world(Offload::Inline, 1);
    let mut got = Vec::new();
    for _ in 0..600 {
        let _window = world.client.write(world.now, clients[0], &[1; 10 * 1448]);
        world.client.turn(world.now).unwrap();
        world.server.turn(world.now).unwrap();
        // As a thread of its own reads: another turn has passed.
        world.server.turn(world.now).unwrap();
        read_all(&mut world.server, world.now, servers[0], &mut got);
        world.server.flush(world.now).unwrap();
        world.now += Duration::from_micros(50);
    }
    let (kept, settled) = (count(&world.server, "bytes_in_place"), count(&world.server, "bytes_copied_late"));
    assert_eq!(kept, settled);
    assert!(kept > 0 && kept < got.len() as u64 / 20, "{kept} of {}", got.len());
}

#[test]
fn what_another_thread_keeps_is_bounded_and_the_rest_is_copied() {
    let (mut world, clients, servers) = world(Offload::Inline, 1);
    let (mut kept, mut got, mut written) = (Vec::new(), Vec::new(), 0);
    let mut turn = |world: &mut World, kept: &mut Vec<FrameBytes>| {
        written += world.client.write(world.now, clients[0], &[7; 10 * 1448]).unwrap_or(0);
        world.client.turn(world.now).unwrap();
        world.server.turn(world.now).unwrap();
        while let Some(bytes) = world.server.take_frames(world.now, servers[0], usize::MAX) {
            kept.push(bytes);
        }
        read_all(&mut world.server, world.now, servers[0], &mut got);
        world.server.flush(world.now).unwrap();
        world.now += Duration::from_micros(50);
        (written, got.len())
    };
    let bytes = |kept: &[FrameBytes]| kept.iter().map(FrameBytes::len).sum::<usize>();
    for _ in 0..200 {
        turn(&mut world, &mut kept);
    }
    let first = bytes(&kept);
    assert!((64 * 1448..=128 * 1448).contains(&first), "two batches at most: {first}");
    // As soon as the frames are free, others are taken.
    kept.clear();
    for _ in 0..20 {
        turn(&mut world, &mut kept);
    }
    let second = bytes(&kept);
    assert!(second >= 64 * 1448, "{second}");
    let (written, copied) = turn(&mut world, &mut kept);
    assert!(copied > 2_000_000, "{copied} of {written}");
    // They outlive the stack.
    drop(world);
    assert!(kept.iter().all(|bytes| bytes.for_each(&mut |piece| piece.iter().all(|byte| *byte == 7))));
}

#[test]
fn what_was_adopted_ends_with_its_connection() {
    type End = fn(&mut World, ConnId, ConnId);
    let ends: [(&str, End); 5] = [
        ("aborted", |world, _, server| world.server.abort(world.now, server)),
        ("closed", |world, _, server| world.server.close(world.now, server)),
        ("reset", |world, client, _| world.client.abort(world.now, client)),
        ("deaf", |world, _, server| world.server.shutdown(world.now, server, Shutdown::Both)),
        ("finished", |world, client, _| world.client.close(world.now, client)),
    ];
    for (how, end) in ends {
        let (mut world, clients, servers) = world(Offload::Inline, 2);
        for client in &clients {
            world.client.write(world.now, *client, &[3; 8 * 1448]).unwrap();
        }
        world.client.turn(world.now).unwrap();
        world.server.turn(world.now).unwrap();
        assert!(count(&world.server, "bytes_in_place") >= 2 * 8 * 1448, "{how}");
        end(&mut world, clients[0], servers[0]);
        // A thread that takes its place has nothing to do with it, and its neighbour reads on.
        let mut got = Vec::new();
        read_all(&mut world.server, world.now, servers[1], &mut got);
        assert_eq!(got, [3; 8 * 1448], "{how}");
        world.pass(Duration::from_millis(300));
        if matches!(how, "deaf" | "finished") {
            let mut left = Vec::new();
            read_all(&mut world.server, world.now, servers[0], &mut left);
            assert_eq!(left.len(), 8 * 1448, "{how}: what came before stays");
        }
        if !matches!(how, "aborted" | "closed") {
            world.server.close(world.now, servers[0]);
        }
        world.pass(Duration::from_secs(1));
        assert_eq!(count(&world.server, "chunks_used"), 0, "{how}");
        assert_ne!(world.server.connection(servers[1]).state(), State::Closed, "{how}");
    }
}
