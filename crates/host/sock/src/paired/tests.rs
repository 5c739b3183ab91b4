//! Goal: whatever the order in which application, stack thread and network get their turns, every byte arrives, ends
//! and resets come when they should, and in the end no record and no ring is left anywhere.
//!
//! Everything runs in one thread and in virtual time; the seed decides who is next.

use super::blocks::Received;
use super::link::link;
use super::message::RingPool;
use super::remote::{Defaults, Remote};
use super::worker::Worker;
use crate::engine::{Engine, Limits};
use crate::{Clock, Errno, Family, Fd};
use base::{Addr, Duration, Endpoint, Instant, Rng};
use pio::{PairConfig, pair};
use stack::{Core, CoreConfig, OwnAddr};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tcp::{Config, Hints, Shutdown};

const SERVER: Endpoint = Endpoint::new(Addr::v4([10, 0, 0, 1]), 7);

fn defaults() -> Defaults {
    let config = Config::default();
    Defaults {
        control: "cubic",
        buffers: (1 << 17, 1 << 17),
        options: config.socket_options(),
        times: config.times(),
        syn_retries: config.syn_retries,
        fast_open: true,
    }
}

#[derive(Clone)]
struct VirtualClock(Arc<AtomicU64>);

impl Clock for VirtualClock {
    fn now(&self) -> Instant {
        Instant::from_secs(1) + Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// A stack thread without the thread, and so slow that others get their turn in the middle of its own.
struct Below {
    worker: Worker,
    core: Core,
    phase: u32,
}

impl Below {
    fn step(&mut self, now: Instant) {
        self.phase += 1;
        match self.phase % 3 {
            0 => {
                self.worker.obey(&mut self.core, now);
            }
            1 => {
                self.core.turn(now).unwrap();
                let mut notices = Vec::new();
                self.core.notices(&mut notices);
                for notice in notices {
                    self.worker.notice(&mut self.core, now, notice);
                }
            }
            _ => {
                self.worker.publish(&self.core);
            }
        }
    }
}

struct Host {
    app: Engine<Remote>,
    below: Below,
}

impl Host {
    fn new(port: pio::Pair, last: u8, clock: &VirtualClock, ring: usize, kept: usize) -> Host {
        let addresses = vec![OwnAddr { addr: Addr::v4([10, 0, 0, last]), prefix: 24 }];
        let core = Core::new(CoreConfig { seed: 9, addresses, ..CoreConfig::default() }, Box::new(port));
        let mut worker = Worker::new(1_000, RingPool::new(ring, kept));
        let (ringer, bell) = ring::doorbell().unwrap();
        let (alarm, _) = ring::doorbell().unwrap();
        let (mine, theirs) = link(&alarm, ringer);
        worker.adopt(theirs);
        let remote = Remote::new(vec![mine], bell, 1_000, RingPool::new(ring, kept), defaults());
        let app = Engine::new(remote, Box::new(clock.clone()), Limits::default());
        Host { app, below: Below { worker, core, phase: 0 } }
    }

    /// A call that waits for its answer, while the other side takes turns.
    fn ask<R: Send>(&mut self, now: Instant, call: impl FnOnce(&mut Engine<Remote>) -> R + Send) -> R {
        let (app, below) = (&mut self.app, &mut self.below);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let calling = scope.spawn(|| {
                let result = call(app);
                done.store(true, Ordering::Release);
                result
            });
            while !done.load(Ordering::Acquire) {
                below.step(now);
            }
            calling.join().unwrap()
        })
    }

    fn listen(&mut self, now: Instant) -> Fd {
        self.ask(now, |app| {
            let fd = app.socket(Family::V4).unwrap();
            app.bind(fd, SERVER).unwrap();
            app.listen(fd, 16).unwrap();
            fd
        })
    }
}

/// One direction of a connection, as it should be.
#[derive(Default)]
struct Way {
    /// Written and not read.
    sent: VecDeque<u8>,
    /// Nothing more will be written.
    finished: bool,
    /// The reader has seen the end.
    ended: bool,
}

/// A connection with its two ends, client first.
#[derive(Default)]
struct Pair {
    fds: [Option<Fd>; 2],
    /// `ways[i]` is written by end `i`.
    ways: [Way; 2],
    closed: [bool; 2],
    /// The client has said its number.
    introduced: bool,
    /// An end closed with something unread or to come, so that a RST may cut either way short.
    broken: bool,
}

struct World {
    hosts: [Host; 2],
    clock: VirtualClock,
    listener: Fd,
    pairs: Vec<Pair>,
    rng: Rng,
    /// Bytes of a ring.
    ring: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let ring = 64 << rng.below(8);
        let kept = [0, 1, 1_000][rng.below(3) as usize];
        World::with(rng, ring, kept)
    }

    fn with(rng: Rng, ring: usize, kept: usize) -> World {
        let clock = VirtualClock(Arc::default());
        let (a, b) = pair(&PairConfig::default()).unwrap();
        let mut hosts = [Host::new(a, 2, &clock, ring, kept), Host::new(b, 1, &clock, ring, kept)];
        let listener = hosts[1].listen(clock.now());
        World { hosts, clock, listener, pairs: Vec::new(), rng, ring }
    }

    fn collect(&mut self, end: usize) {
        self.hosts[end].app.publish(|remote, notices| _ = remote.collect(notices));
    }

    fn step(&mut self, end: usize) {
        let passed = self.rng.below(300_000);
        self.clock.0.fetch_add(passed, Ordering::Relaxed);
        self.hosts[end].below.step(self.clock.now());
    }

    fn connect(&mut self) {
        let app = &mut self.hosts[0].app;
        let fd = app.socket(Family::V4).unwrap();
        assert_eq!(app.connect(fd, SERVER), Err(Errno::EINPROGRESS));
        self.pairs.push(Pair { fds: [Some(fd), None], ..Pair::default() });
    }

    /// Accepted connections are told apart by the first byte that their client writes: its number.
    fn accept(&mut self) {
        while let Ok((fd, _)) = self.hosts[1].app.accept(self.listener) {
            for _ in 0..10_000 {
                let mut number = [0];
                match self.hosts[1].app.read(fd, &mut number) {
                    Ok(1) => {
                        let pair = &mut self.pairs[usize::from(number[0])];
                        assert_eq!(pair.ways[0].sent.pop_front(), Some(number[0]));
                        pair.fds[1] = Some(fd);
                        break;
                    }
                    Err(Errno::EAGAIN) => {
                        self.introduce();
                        (0..2).for_each(|end| self.step(end));
                        self.collect(1);
                    }
                    other => panic!("a new connection gave {other:?}"),
                }
            }
        }
    }

    /// Every client that is connected says its number first.
    fn introduce(&mut self) {
        self.collect(0);
        for (number, pair) in self.pairs.iter_mut().enumerate() {
            if !pair.introduced && self.hosts[0].app.write(pair.fds[0].unwrap(), &[number as u8]) == Ok(1) {
                pair.ways[0].sent.push_back(number as u8);
                pair.introduced = true;
            }
        }
    }

    fn write(&mut self, which: usize, end: usize) {
        let pair = &mut self.pairs[which];
        let (Some(fd), true, false) = (pair.fds[end], pair.introduced, pair.ways[end].finished) else {
            return;
        };
        // Some fill a ring to its last byte.
        let whole = self.rng.chance(0.2).then_some(self.ring);
        // Some are worth blocks, and some are lent.
        let large = self.rng.chance(0.03).then(|| 4_000 + self.rng.below(40_000) as usize);
        let mut data = vec![0; large.or(whole).unwrap_or(1 + self.rng.below(700) as usize)];
        self.rng.fill(&mut data);
        let app = &mut self.hosts[end].app;
        let written = if self.rng.chance(0.2) {
            app.lend(fd, &Arc::from(&data[..]), 0..data.len(), &Hints::default())
        } else {
            app.write(fd, &data)
        };
        match written {
            Ok(n) => {
                pair.ways[end].sent.extend(&data[..n]);
                // The other end will answer with a RST.
                pair.broken |= pair.closed[1 - end];
            }
            Err(Errno::EAGAIN) => {}
            Err(e) => assert!(pair.broken, "write: {e}"),
        }
    }

    fn read(&mut self, which: usize, end: usize) {
        let pair = &mut self.pairs[which];
        let Some(fd) = pair.fds[end].filter(|_| !pair.closed[end]) else { return };
        let large = self.rng.chance(0.05).then(|| self.rng.below(60_000) as usize);
        let mut into = vec![0; large.unwrap_or(1 + self.rng.below(900) as usize)];
        let way = &mut pair.ways[1 - end];
        if self.rng.chance(0.3) {
            let app = &mut self.hosts[end].app;
            let (mut seen, readable) = (0, app.readable(fd).unwrap());
            let mut each = |piece: &[u8]| {
                assert!(way.sent.iter().skip(seen).take(piece.len()).eq(piece), "other bytes");
                seen += piece.len();
                true
            };
            match app.peek(fd, into.len(), &mut each) {
                Ok(()) => assert!(seen >= into.len().min(readable)),
                Err(e) => assert_eq!((e, seen), (Errno::EAGAIN, 0)),
            }
            app.consume(fd, seen / 2).unwrap();
            way.sent.drain(..seen / 2);
        }
        match self.hosts[end].app.read(fd, &mut into) {
            Ok(0) => {
                assert!(way.finished || pair.broken, "an end that nothing made");
                assert!(way.sent.is_empty() || pair.broken, "{} bytes never came", way.sent.len());
                way.ended = true;
            }
            Ok(n) => {
                assert!(!way.ended, "bytes after the end");
                assert!(way.sent.drain(..n).eq(into[..n].iter().copied()), "other bytes");
            }
            Err(Errno::EAGAIN) => assert!(!way.ended),
            Err(e) => {
                assert!(pair.broken, "read: {e}");
                way.ended = true;
            }
        }
    }

    fn finish(&mut self, which: usize, end: usize) {
        let pair = &mut self.pairs[which];
        let (Some(fd), true, false) = (pair.fds[end], pair.introduced, pair.ways[end].finished) else {
            return;
        };
        match self.hosts[end].app.shutdown(fd, Shutdown::Write) {
            Ok(()) => pair.ways[end].finished = true,
            Err(e) => assert!(pair.broken, "shutdown: {e}"),
        }
    }

    fn close(&mut self, which: usize, end: usize) {
        let pair = &mut self.pairs[which];
        let Some(fd) = pair.fds[end].filter(|_| !pair.closed[end] && pair.fds[1].is_some()) else { return };
        self.hosts[end].app.close(fd).unwrap();
        let other = &pair.ways[1 - end];
        let all_read = other.ended || (other.finished && other.sent.is_empty());
        pair.broken |= !all_read;
        pair.closed[end] = true;
        pair.ways[end].finished = true;
    }

    /// Reads until every byte that was written has come, though no end writes, shuts or closes any more.
    fn drain(&mut self) {
        let waits = |pair: &Pair| {
            let open = pair.fds[1].is_some() && !pair.broken;
            open && (0..2).any(|end| !pair.closed[end] && !pair.ways[1 - end].sent.is_empty())
        };
        for _ in 0..20_000 {
            for end in 0..2 {
                self.collect(end);
                (0..self.pairs.len()).for_each(|which| self.read(which, end));
                self.step(end);
            }
            if !self.pairs.iter().any(waits) {
                return;
            }
        }
        let left = self.pairs.iter().filter(|pair| waits(pair));
        let left: Vec<_> = left.map(|pair| (pair.ways[0].sent.len(), pair.ways[1].sent.len())).collect();
        panic!("bytes that never came, from clients and servers: {left:?}");
    }

    /// Lets everything come to its end, and looks at what is left.
    fn settle(mut self) {
        self.drain();
        for _ in 0..200_000 {
            self.introduce();
            self.collect(1);
            self.accept();
            for which in 0..self.pairs.len() {
                for end in 0..2 {
                    self.finish_or_close(which, end);
                    self.read(which, end);
                }
            }
            (0..2).for_each(|end| self.step(end));
            if self.pairs.iter().all(|pair| pair.closed == [true; 2]) {
                break;
            }
        }
        for pair in &self.pairs {
            let [a, b] = &pair.ways;
            assert_eq!(
                pair.closed,
                [true; 2],
                "never ended: broken {}, client has sent {} unread, finished {}, ended {}; \
                 server {}, {}, {}; fds {:?} {}",
                pair.broken,
                a.sent.len(),
                a.finished,
                a.ended,
                b.sent.len(),
                b.finished,
                b.ended,
                pair.fds,
                pair.introduced
            );
        }
        let (listener, now) = (self.listener, self.clock.now());
        self.hosts[1].ask(now, |app| app.close(listener).unwrap());
        for _ in 0..50 {
            self.clock.0.fetch_add(50_000_000, Ordering::Relaxed);
            for end in 0..2 {
                self.step(end);
                self.collect(end);
            }
        }
        for host in &self.hosts {
            assert!(host.app.core.is_idle(), "the application keeps something");
            assert!(host.below.worker.is_idle(), "the stack thread keeps something");
            assert_eq!(host.app.open(), (0, 0));
        }
    }

    /// Reads to the end before it closes, so that nothing is lost that should arrive.
    fn finish_or_close(&mut self, which: usize, end: usize) {
        let pair = &self.pairs[which];
        if pair.fds[1].is_none() {
            return;
        }
        if !pair.ways[end].finished {
            self.finish(which, end);
            if self.pairs[which].broken {
                self.pairs[which].ways[end].finished = true;
            }
        }
        let pair = &self.pairs[which];
        if pair.ways[1 - end].ended && !pair.closed[end] {
            self.close(which, end);
        }
    }
}

fn model(seed: u64, steps: u32) {
    let mut world = World::new(seed);
    for _ in 0..steps {
        let end = world.rng.below(2) as usize;
        let which = world.rng.below(world.pairs.len() as u64) as usize;
        match world.rng.below(100) {
            0..2 if world.pairs.len() < 12 => world.connect(),
            2..4 => {
                world.introduce();
                world.accept();
            }
            _ if world.pairs.is_empty() => {}
            4..30 => world.write(which, end),
            // Every third connection has slow readers, whose rings stay full.
            30..60 if !which.is_multiple_of(3) || world.rng.chance(0.02) => world.read(which, end),
            60 => world.finish(which, end),
            61 if world.rng.chance(0.3) => world.close(which, end),
            62..80 => world.collect(end),
            _ => world.step(end),
        }
    }
    world.settle();
}

/// A connection's two ends, client first.
fn connected(world: &mut World) -> [Fd; 2] {
    world.connect();
    while world.pairs[0].fds[1].is_none() {
        world.introduce();
        (0..2).for_each(|end| world.step(end));
        world.collect(1);
        world.accept();
    }
    world.pairs[0].fds.map(Option::unwrap)
}

/// Bytes that had no room in the ring are known to come: what is before them and fills no segment does not go ahead,
/// or they would have to wait, by Nagle's algorithm, for a peer that delays its acknowledgment.
#[test]
fn a_full_ring_ends_no_segment_early() {
    let mut world = World::with(Rng::new(1), 4_096, 1);
    let [client, server] = connected(&mut world);
    // Each end takes its three turns so often; that is less time than acknowledgments are delayed for.
    let arrived = |world: &mut World, rounds: usize| {
        for _ in 0..rounds {
            (0..6).for_each(|turn| world.step(turn / 3));
        }
        (0..2).for_each(|end| world.collect(end));
        let mut into = [0; 8_192];
        world.hosts[1].app.read(server, &mut into)
    };
    // How many turns went by before depends on threads: each end begins anew, with obeying.
    for end in 0..2 {
        while world.hosts[end].below.phase % 3 != 2 {
            world.step(end);
        }
    }
    let data = [7; 5_000];
    assert_eq!(world.hosts[0].app.write(client, &data), Ok(4_096));
    assert_eq!(arrived(&mut world, 1), Ok(2 * 1_448), "full segments only");
    assert_eq!(world.hosts[0].app.write(client, &data[4_096..]), Ok(904));
    assert_eq!(arrived(&mut world, 1), Ok(5_000 - 2 * 1_448));
    // The same, but that an acknowledgment comes before the rest: what waited goes ahead, and the peer delays the next.
    // (It does not from the beginning, so this is done a few times.)
    for _ in 0..30 {
        assert_eq!(world.hosts[0].app.write(client, &data), Ok(4_096));
        assert_eq!(arrived(&mut world, 4), Ok(4_096));
        assert_eq!(world.hosts[0].app.write(client, &data[4_096..]), Ok(904));
        assert_eq!(arrived(&mut world, 4), Ok(904));
    }
    // A cork holds the last part back all the same.
    let cork = |app: &mut Engine<Remote>| {
        app.setsockopt(client, libc::IPPROTO_TCP, libc::TCP_CORK, &1i32.to_ne_bytes())
    };
    assert_eq!(cork(&mut world.hosts[0].app), Ok(()));
    assert_eq!(world.hosts[0].app.write(client, &data[..4_196]), Ok(4_096));
    assert_eq!(arrived(&mut world, 4), Ok(2 * 1_448));
    assert_eq!(world.hosts[0].app.write(client, &data[4_096..4_196]), Ok(100));
    assert_eq!(arrived(&mut world, 4), Err(Errno::EAGAIN));
}

/// Nor does a full send buffer: the rest of what had no room in the ring lies there already, but the connection takes
/// only a part of it at first. The remainder leaves as soon as it is taken, too.
#[test]
fn what_is_pushed_may_have_to_wait_for_room() {
    let mut world = World::with(Rng::new(1), 32_768, 1);
    let [client, server] = connected(&mut world);
    // Twice that: 22 segments, and one that is not full.
    let size = 16_534i32.to_ne_bytes();
    let set = world.hosts[0].app.setsockopt(client, libc::SOL_SOCKET, libc::SO_SNDBUF, &size);
    assert_eq!(set, Ok(()));
    let data = [7; 34_000];
    for round in 0..30 {
        // A peer that asks delays its acknowledgments: they may go with the next question.
        assert_eq!(world.hosts[1].app.write(server, b"more"), Ok(4));
        while world.hosts[0].app.read(client, &mut [0; 8]) != Ok(4) {
            (0..2).for_each(|end| world.step(end));
            world.collect(0);
        }
        while world.hosts[0].below.phase % 3 != 2 {
            world.step(0);
        }
        assert_eq!(world.hosts[0].app.write(client, &data), Ok(32_768));
        (0..3).for_each(|_| world.step(0));
        world.collect(0);
        assert_eq!(world.hosts[0].app.write(client, &data[32_768..]), Ok(1_232));
        // Less time than acknowledgments are delayed for.
        let mut into = [0; 65_536];
        let (begun, mut got) = (world.clock.now(), 0);
        while got < 34_000 {
            (0..2).for_each(|end| world.step(end));
            world.collect(1);
            got += world.hosts[1].app.read(server, &mut into).unwrap_or(0);
            assert!(world.clock.now() - begun < Duration::from_millis(20), "round {round}: {got}");
        }
    }
}

/// A large write is taken whole, though no ring has room for it, and the stack has all of it to send in one turn. It is
/// the same where it arrives.
#[test]
fn a_large_write_is_one_turns_work() {
    let mut world = World::with(Rng::new(1), 65_536, 1_000);
    let [client, server] = connected(&mut world);
    let mut data = vec![0; 300_000];
    world.rng.fill(&mut data);
    assert_eq!(world.hosts[0].app.write(client, &data), Ok(data.len()));
    let now = world.clock.now();
    let below = &mut world.hosts[0].below;
    below.worker.obey(&mut below.core, now);
    let waiting = world.hosts[0].app.core.conn(stack::ConnId(0)).map(|conn| conn.waiting());
    assert!(
        waiting.is_some_and(|bytes| bytes < data.len() as u32),
        "the send buffer took none of {waiting:?}"
    );
    for _ in 0..1_000 {
        (0..2).for_each(|end| world.step(end));
        world.collect(1);
    }
    let mut into = vec![0; 300_001];
    let mut got = world.hosts[1].app.read(server, &mut into).unwrap();
    assert!(got > 4 * world.ring, "{got} bytes wait to be read");
    // What came last was too little for a block, and the ring is used when what is lent was read.
    while got < data.len() {
        (0..2).for_each(|end| world.step(end));
        world.collect(1);
        got += world.hosts[1].app.read(server, &mut into[got..]).unwrap_or(0);
    }
    assert!(into[..got] == data);
}

/// An application that reads soon reads most of it from the link's frames: it was not copied to blocks before.
#[test]
fn what_arrives_is_read_from_the_links_frames() {
    let mut world = World::with(Rng::new(1), 65_536, 1_000);
    let [client, server] = connected(&mut world);
    let mut data = vec![0; 3_000_000];
    world.rng.fill(&mut data);
    let (mut written, mut got, mut into, mut in_frames) = (0, Vec::new(), vec![0; 1 << 20], 0);
    while got.len() < data.len() {
        written += world.hosts[0].app.write(client, &data[written..]).unwrap_or(0);
        (0..2).for_each(|end| world.step(end));
        (0..2).for_each(|end| world.collect(end));
        let reader = &mut world.hosts[1].app;
        let lent = reader.core.conns.iter().flat_map(|(_, conn)| conn.lent.pieces());
        let frames = lent.filter(|piece| matches!(piece.bytes, Received::Frames(_)));
        in_frames += frames.map(|piece| piece.len as usize).sum::<usize>();
        let read = reader.read(server, &mut into).unwrap_or(0);
        got.extend_from_slice(&into[..read]);
    }
    assert!(got == data);
    assert!(in_frames > data.len() * 3 / 4, "{in_frames} of {}", data.len());
}

/// A receive ring filled to its last byte, and more of it when nothing was left to put in: the reader learns that there
/// is more, though nothing further arrives that would tell it.
#[test]
fn what_came_to_a_full_ring_is_told_of() {
    let mut world = World::with(Rng::new(1), 4_096, 1);
    let [client, server] = connected(&mut world);
    let turns = |world: &mut World| {
        for _ in 0..30 {
            (0..2).for_each(|end| world.step(end));
            world.collect(0);
        }
    };
    let data = [7; 4_096];
    for round in 0..3 {
        assert_eq!(world.hosts[0].app.write(client, &data), Ok(4_096));
        turns(&mut world);
        assert_eq!(world.hosts[0].app.write(client, &data[..100]), Ok(100));
        turns(&mut world);
        let mut got = 0;
        for _ in 0..30 {
            world.collect(1);
            got += world.hosts[1].app.read(server, &mut [0; 8_192]).unwrap_or(0);
            turns(&mut world);
        }
        assert_eq!(got, 4_196, "round {round}");
    }
}

/// Nothing waits for another call of an application that has made its last one: neither its bytes nor the end.
#[test]
fn what_was_closed_needs_no_more_calls() {
    for seed in 0..200 {
        let mut world = World::new(seed);
        connected(&mut world);
        world.finish(0, 0);
        while !world.pairs[0].ways[0].ended {
            (0..2).for_each(|end| world.step(end));
            world.collect(1);
            world.read(0, 1);
        }
        for _ in 0..20 {
            world.write(0, 1);
            for _ in 0..world.rng.below(6) {
                let end = world.rng.below(2) as usize;
                world.step(end);
            }
        }
        world.close(0, 1);
        assert!(!world.pairs[0].broken);
        for _ in 0..5_000 {
            (0..2).for_each(|end| world.step(end));
            world.collect(0);
            world.read(0, 0);
        }
        assert!(world.pairs[0].ways[1].ended, "seed {seed}: no end came");
    }
}

#[test]
fn any_order_of_turns() {
    for seed in 0..150 {
        eprintln!("seed {seed}");
        model(seed, 3_000);
    }
}
