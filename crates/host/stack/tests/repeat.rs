//! Goal: connections that are like one before begin from the handshake cache, and on the wire nothing can tell;
//! strangers and forged SYNs neither fill it nor empty it; nothing of an old connection shows in a new one, nor can
//! one number be told from another; and nothing grows.

mod common;

use base::{Addr, Duration, Endpoint, Instant, Rng, Seq};
use common::*;
use pio::{IoError, Layer, PacketIo, Pair, PairConfig, RxBatch, TxBatch, TxMeta, TxPacket, pair};
use stack::{ConnId, Connect, Core, CoreConfig, ListenerId};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use tcp::{ReadError, Shutdown, SocketOptions};
use wire::packet::{Below, Checksum, Link};
use wire::tcp::{Flags, Header, Options, Timestamps};

/// Packets sent, with sender and time.
type Log = Arc<Mutex<Sent>>;
type Sent = Vec<(u8, Vec<u8>)>;

/// A port on which everything that leaves is written down.
struct Recorder {
    below: Pair,
    who: u8,
    log: Log,
}

impl Layer for Recorder {
    type Below = Pair;

    fn below(&self) -> &Pair {
        &self.below
    }

    fn below_mut(&mut self) -> &mut Pair {
        &mut self.below
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        let mut log = self.log.lock().unwrap();
        log.extend(batch.iter().map(|packet| (self.who, packet.frame.data().to_vec())));
        self.below.tx(batch)
    }
}

/// Two hosts whose packets are written down.
fn recorded(link: &PairConfig, change: impl Fn(&mut CoreConfig)) -> (World, Log) {
    let (a, b) = pair(link).unwrap();
    let log = Log::default();
    let port = |below, who| Recorder { below, who, log: log.clone() };
    let (mut c, mut s) = (config(1, CLIENT, CLIENT_V6), config(2, SERVER, SERVER_V6));
    change(&mut c);
    change(&mut s);
    let (client, server) = (Core::new(c, Box::new(port(a, 0))), Core::new(s, Box::new(port(b, 1))));
    let now = Instant::from_secs(1);
    (World { client, server, now, client_notices: vec![], server_notices: vec![] }, log)
}

/// Actions of the applications of both hosts, in order.
struct Play {
    world: World,
    rng: Rng,
    listeners: Vec<(Endpoint, ListenerId)>,
    open: Vec<[ConnId; 2]>,
    heard: Vec<u8>,
}

const PORTS: [u16; 3] = [80, 81, 443];

impl Play {
    fn options(&mut self) -> SocketOptions {
        let mut options = SocketOptions { nodelay: self.rng.chance(0.5), ..SocketOptions::default() };
        if self.rng.chance(0.1) {
            (options.ttl, options.tos, options.max_seg) = (Some(9), 0x28, 700);
        }
        options
    }

    fn listen(&mut self) {
        for port in PORTS {
            for addr in [SERVER, SERVER_V6] {
                let local = Endpoint::new(addr, port);
                let (id, _) = self.world.server.listen(self.world.now, &listen(local, 4)).unwrap();
                self.listeners.push((local, id));
            }
        }
    }

    fn connect(&mut self) {
        let nth = self.rng.below(self.listeners.len() as u64) as usize;
        let ((remote, id), options) = (self.listeners[nth], self.options());
        let request = Connect { options, ..connect(remote, 1) };
        let World { client, now, .. } = &mut self.world;
        let near = client.connect(*now, &request).unwrap();
        if self.rng.chance(0.05) {
            // Given up at once.
            return client.abort(*now, near);
        }
        self.world.settle();
        let World { server, client, now, .. } = &mut self.world;
        match server.accept(id, 2) {
            Some(far) => self.open.push([near, far]),
            None => client.abort(*now, near),
        }
    }

    /// One end of a connection does something.
    fn live(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let nth = self.rng.below(self.open.len() as u64) as usize;
        let [near, far] = self.open[nth];
        let len = 1 + self.rng.below(9_000) as usize;
        let World { client, server, now, .. } = &mut self.world;
        let (core, id) = if self.rng.chance(0.5) { (client, near) } else { (server, far) };
        match self.rng.below(4) {
            0 => drop(read_all(core, *now, id, &mut self.heard)),
            1 => drop(core.write(*now, id, &vec![0xa5; len])),
            2 => core.shutdown(*now, id, Shutdown::Write),
            _ => {
                let [near, far] = self.open.swap_remove(nth);
                let abort = self.rng.chance(0.2);
                let World { client, server, now, .. } = &mut self.world;
                for (core, id) in [(client, near), (server, far)] {
                    read_all(core, *now, id, &mut self.heard);
                    if abort { core.abort(*now, id) } else { core.close(*now, id) }
                }
            }
        }
    }

    /// The world changes under both.
    fn upset(&mut self) {
        let now = self.world.now;
        match self.rng.below(4) {
            0 => {
                let (local, id) = self.listeners.swap_remove(0);
                self.world.server.close_listener(now, id);
                self.world.settle();
                self.listeners.push((local, self.world.server.listen(now, &listen(local, 4)).unwrap().0));
            }
            1 => {
                let options = self.options();
                let id = self.listeners[0].1;
                self.world.server.set_listener_options(id, options);
            }
            2 => {
                let core = if self.rng.chance(0.5) { &mut self.world.client } else { &mut self.world.server };
                let sack = self.rng.chance(0.7);
                core.set_config(tcp::Config { sack, ..core.config().clone() });
            }
            _ => self.world.pass(Duration::from_secs(1 + self.rng.below(200))),
        }
    }
}

/// A seeded play; everything that was sent and read, and how often either side used the handshake cache.
fn play(seed: u64, cached: bool, offloads: bool) -> (Sent, Vec<u8>, [u64; 2]) {
    let link = if offloads { PairConfig::offloads() } else { PairConfig::default() };
    let (world, log) = recorded(&link, |config| {
        config.tcp.handshake_cache = cached;
        config.tcp.handshake_cache_entries = 8;
        config.tcp.handshake_cache_age = Duration::from_secs(100);
        config.tcp.time_wait = Duration::from_secs(2);
    });
    let (rng, listeners, open, heard) = (Rng::new(seed), vec![], vec![], vec![]);
    let mut play = Play { world, rng, listeners, open, heard };
    play.listen();
    for _ in 0..400 {
        match play.rng.below(20) {
            0 => play.upset(),
            1..=7 => play.connect(),
            _ => play.live(),
        }
        play.world.pass(Duration::from_millis(3));
    }
    let hits =
        [stat(&play.world.client, "handshake_cache_hits"), stat(&play.world.server, "handshake_cache_hits")];
    let log = std::mem::take(&mut *log.lock().unwrap());
    (log, play.heard, hits)
}

/// RFC 6528, 3-1.
#[test]
fn on_the_wire_nobody_can_tell() {
    let mut hits = [0; 2];
    for seed in 0..24 {
        let (with, without) = (play(seed, true, seed % 3 == 0), play(seed, false, seed % 3 == 0));
        for (nth, (one, other)) in with.0.iter().zip(&without.0).enumerate() {
            assert_eq!(one, other, "seed {seed}, packet {nth}");
        }
        assert_eq!((with.0.len(), with.1), (without.0.len(), without.1), "seed {seed}");
        assert_eq!(without.2, [0; 2]);
        hits.iter_mut().zip(with.2).for_each(|(sum, count)| *sum += count);
    }
    assert!(hits.iter().all(|&count| count > 150), "{hits:?}");
}

/// Opens, says `said` there and back, and closes; what the client heard.
fn exchange(world: &mut World, listener: ListenerId, remote: Endpoint, said: &[u8]) -> Vec<u8> {
    let near = world.connect(remote, 1);
    world.settle();
    let far = world.server.accept(listener, 2).expect("the handshake completes");
    world.client.write(world.now, near, said).unwrap();
    world.settle();
    let mut heard = Vec::new();
    read_all(&mut world.server, world.now, far, &mut heard);
    world.server.write(world.now, far, &heard).unwrap();
    world.server.close(world.now, far);
    world.settle();
    let mut heard = Vec::new();
    assert!(read_all(&mut world.client, world.now, near, &mut heard));
    world.client.close(world.now, near);
    world.settle();
    heard
}

#[test]
fn poison_stays_where_it_was() {
    let (mut world, log) = recorded(&PairConfig::default(), |_| {});
    let remote = Endpoint::new(SERVER, PORT);
    let listener = world.listen(remote, 8);
    for round in 0..50u8 {
        let poison = vec![0x40 | (round % 32); 3_000];
        assert_eq!(exchange(&mut world, listener, remote, &poison), poison);
        // One that asks for nothing: not a byte of the rounds before it may be there.
        let near = world.connect(remote, 1);
        world.settle();
        let far = world.server.accept(listener, 2).expect("the handshake completes");
        let (core, mut into) = (&mut world.server, [0; 64]);
        assert_eq!(core.read(world.now, far, &mut into), Err(ReadError::Empty));
        assert_eq!(core.connection(far).info(world.now).bytes_received, 0);
        log.lock().unwrap().clear();
        core.close(world.now, far);
        world.settle();
        world.client.close(world.now, near);
        world.settle();
        let runs = |bytes: &[u8]| bytes.windows(4).any(|four| four.iter().all(|&one| one & 0xe0 == 0x40));
        assert!(log.lock().unwrap().iter().all(|(_, bytes)| !runs(&bytes[54..])));
    }
    assert!(
        stat(&world.client, "handshake_cache_hits") > 90 && stat(&world.server, "handshake_cache_hits") > 90
    );
}

/// RFC 6528, 3-1 and 3-2.
#[test]
fn numbers_cannot_be_told() {
    const COUNT: usize = 4_000;
    let (mut world, log) = recorded(&PairConfig::default(), |_| {});
    let remote = Endpoint::new(SERVER, PORT);
    let listener = world.listen(remote, 8);
    for _ in 0..COUNT {
        exchange(&mut world, listener, remote, b"x");
    }
    assert!(stat(&world.server, "handshake_cache_hits") > COUNT as u64 - 10);
    for who in [0, 1] {
        let log = log.lock().unwrap();
        let isns: Vec<u32> = log
            .iter()
            .filter(|(from, bytes)| *from == who && bytes.len() > 54 && bytes[12] == 8 && bytes[47] & 2 != 0)
            .map(|(_, bytes)| u32::from_be_bytes(bytes[38..42].try_into().unwrap()))
            .collect();
        assert_eq!(isns.len(), COUNT);
        // Time stands still, so they are the keyed hash alone: no two alike, every bit as often one as zero, and
        // whether a bit changes from one to the next is a guess, too.
        assert!(isns.iter().collect::<HashSet<_>>().len() > COUNT - 10);
        for bit in 0..32 {
            let ones = isns.iter().filter(|&isn| isn >> bit & 1 == 1).count();
            let changes = isns.windows(2).filter(|two| (two[0] ^ two[1]) >> bit & 1 == 1).count();
            for count in [ones, changes] {
                assert!(count.abs_diff(COUNT / 2) < 5 * 32, "bit {bit}: {count}");
            }
        }
    }
}

/// Peer of a lone server, under any address.
struct Stranger {
    core: Core,
    wire: Pair,
    rng: Rng,
    now: Instant,
    heard: Vec<Vec<u8>>,
}

impl Stranger {
    fn segment(&mut self, src: Endpoint, flags: Flags, seq: Seq, ack: Seq) -> Vec<u8> {
        let link = Link { dst: self.core.io().caps().mac, src: self.wire.caps().mac };
        let below = Below { link: Some(link), src: src.addr, dst: SERVER, tos: 0, ttl: 64, label: 0 };
        let syn = flags.has(Flags::SYN);
        let options = Options {
            mss: syn.then_some(1_460),
            window_scale: syn.then_some(7),
            sack_permitted: syn,
            timestamps: Some(Timestamps { val: self.now.as_millis() as u32, ecr: 0 }),
            ..Options::default()
        };
        let header = Header { src_port: src.port, dst_port: PORT, seq, ack, flags, window: 65_535, options };
        let mut frame = vec![0; below.len() + header.len()];
        below.emit_tcp(&header, 0, Checksum::Full, &mut frame);
        frame
    }

    /// From anywhere.
    fn forged(&mut self) -> Vec<u8> {
        let bytes = (0x0b00_0000 | self.rng.next_u32() & 0x00ff_ffff).to_be_bytes();
        let src = Endpoint::new(Addr::v4(bytes), self.rng.next_u32() as u16 | 1);
        let seq = Seq::new(self.rng.next_u32());
        self.segment(src, Flags::SYN, seq, Seq::new(0))
    }

    /// Sends these at once, and hears what the server says.
    fn say(&mut self, frames: Vec<Vec<u8>>) {
        let wire = &mut self.wire;
        let frames = frames.into_iter().map(|bytes| {
            let mut frame = wire.take().expect("frames come back");
            frame.set_range(0, bytes.len());
            frame.data_mut().copy_from_slice(&bytes);
            TxPacket { frame, meta: TxMeta::default() }
        });
        let mut out: TxBatch = frames.collect();
        wire.tx(&mut out).unwrap();
        out.into_iter().for_each(|packet| wire.retire(packet.frame));
        self.now += Duration::from_micros(500);
        self.core.turn(self.now).unwrap();
        let mut batch = RxBatch::new();
        self.heard.clear();
        while wire.rx(&mut batch).unwrap() > 0 {
            for packet in batch.drain(..) {
                self.heard.push(packet.frame.data().to_vec());
                wire.retire(packet.frame);
            }
        }
    }

    /// A connection of a peer that is there, to its end.
    fn visit(&mut self, listener: ListenerId, src: Endpoint) {
        let (isn, none) = (Seq::new(self.rng.next_u32()), Seq::new(0));
        let syn = self.segment(src, Flags::SYN, isn, none);
        self.say(vec![syn]);
        let answer = self.heard.iter().find(|bytes| bytes.len() > 54 && bytes[47] == 0x12);
        let field = &answer.expect("a SYN-ACK")[38..42];
        let ack = Seq::new(u32::from_be_bytes(field.try_into().unwrap())) + 1;
        let done = self.segment(src, Flags::ACK, isn + 1, ack);
        self.say(vec![done]);
        let accepted = self.core.accept(listener, 1).expect("it is there");
        let over = self.segment(src, Flags::RST | Flags::ACK, isn + 1, ack);
        self.say(vec![over]);
        self.core.close(self.now, accepted);
        self.say(vec![]);
    }
}

/// They are answered from the cache entry that a peer left who was there, as all are; and that is all.
#[test]
fn forged_syns_neither_fill_nor_empty_it() {
    // A million where that does not take long.
    let count = if cfg!(debug_assertions) { 60_000 } else { 1_000_000 };
    let (mut core, wire) = World::alone(&PairConfig::default(), |config| {
        config.tcp.handshake_cache_entries = 2;
        config.tcp.synack_retries = 0;
        // Every host is behind a gateway, whose address is known.
        config.gateways = vec![CLIENT];
    });
    let now = Instant::from_secs(1);
    let (listener, _) = core.listen(now, &listen(Endpoint::new(SERVER, PORT), 128)).unwrap();
    let mut stranger = Stranger { core, wire, rng: Rng::new(3), now, heard: vec![] };
    let figures = |core: &Core| {
        ["handshake_cache", "handshake_cache_kept", "handshake_cache_evicted", "handshake_cache_stale"]
            .map(|name| stat(core, name))
    };
    let empty = figures(&stranger.core);
    for _ in 0..10 {
        let frames = (0..50).map(|_| stranger.forged()).collect();
        stranger.say(frames);
    }
    assert_eq!((figures(&stranger.core), stat(&stranger.core, "handshake_cache_hits")), (empty, 0));
    // Their connections give up.
    stranger.now += Duration::from_secs(300);
    (0..2_000).for_each(|_| {
        stranger.now += Duration::from_millis(10);
        stranger.core.turn(stranger.now).unwrap();
    });
    assert_eq!(stranger.core.connections(), 0);
    stranger.visit(listener, Endpoint::new(Addr::v4([12, 0, 0, 1]), 40_000));
    let before = figures(&stranger.core);
    assert_eq!((before[0], before[1]), (1, 1));
    let held = stat(&stranger.core, "bytes_other");
    for _ in 0..count / 50 {
        let frames = (0..50).map(|_| stranger.forged()).collect();
        stranger.say(frames);
    }
    let core = &stranger.core;
    assert!(core.stats().iter().any(|&(name, value)| name == "packets_in" && value >= count - 50));
    assert_eq!(figures(core), before);
    assert!(stat(core, "handshake_cache_hits") > 100, "until the backlog is full");
    // Where the way to so many is looked up there is room for 4,096 of them.
    assert!(stat(core, "bytes_other") < held + 4_096 * 64);
}

#[test]
fn a_cached_ages_whatever_forged_syns_say() {
    let (mut world, _log) = recorded(&PairConfig::default(), |config| {
        config.tcp.handshake_cache_age = Duration::from_secs(20);
        config.tcp.synack_retries = 0;
    });
    let remote = Endpoint::new(SERVER, PORT);
    let listener = world.listen(remote, 8);
    (0..3).for_each(|_| drop(exchange(&mut world, listener, remote, b"x")));
    let hits = stat(&world.server, "handshake_cache_hits");
    assert_eq!(hits, 2);
    // SYNs whose answers no peer hears: the cache entry gets no younger by them.
    for _ in 0..30 {
        let id = world.connect(remote, 1);
        world.client.turn(world.now).unwrap();
        world.client.abort(world.now, id);
        world.server.turn(world.now).unwrap();
        world.pass(Duration::from_secs(1));
    }
    exchange(&mut world, listener, remote, b"x");
    assert!(stat(&world.server, "handshake_cache_misses") > 2, "too old by now");
}

/// So many short connections: the stacks hold as much after half of them, when every port was used, as at the end.
fn soak(count: u64) {
    let (mut world, log) = recorded(&PairConfig::default(), |config| {
        config.max_time_wait = 1_000;
        config.max_connections = 64;
    });
    let remote = Endpoint::new(SERVER, PORT);
    let listener = world.listen(remote, 8);
    let held = |world: &World| [&world.client, &world.server].map(|core| stat(core, "footprint"));
    let mut early = [0; 2];
    for nth in 0..count {
        world.now += Duration::from_micros(100);
        exchange(&mut world, listener, remote, b"x");
        world.client_notices.clear();
        world.server_notices.clear();
        log.lock().unwrap().clear();
        if nth == count / 2 {
            early = held(&world);
        }
    }
    assert_eq!(held(&world), early);
    assert_eq!([&world.client, &world.server].map(|core| stat(core, "handshake_cache")), [1, 1]);
    assert!(stat(&world.server, "handshake_cache_hits") > count * 9 / 10);
}

#[test]
fn nothing_grows() {
    soak(if cfg!(debug_assertions) { 64_000 } else { 200_000 });
}

#[test]
#[ignore = "a minute in a release build: ten million connections"]
fn nothing_grows_in_ten_million() {
    soak(10_000_000);
}
