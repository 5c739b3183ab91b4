//! Goal: what holding adds is bounded by its budget, for who sends a packet a second and at line rate, where in return
//! few packets go up.

mod common;

use base::{Duration, Endpoint, Instant};
use common::*;
use pio::{IoError, Layer, PacketIo, Pair, PairConfig, RxBatch, RxPacket, pair};
use stack::{ConnId, Core, Offload};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tcp::WriteError;

const HTTP: Endpoint = Endpoint::new(SERVER, PORT);
const BUDGET: Duration = Duration::from_micros(50);
/// How often the server looks at its link.
const LOOK: Duration = Duration::from_micros(2);
/// Bytes of Ethernet, IPv4 and TCP with timestamps.
const HEADERS: usize = 66;
/// Nanoseconds of a full packet, with all that Ethernet adds, at 10 Gbit/s.
const SERIAL: u128 = 1_538 * 8 / 10;

/// A link that hands over so many packets as there was time for.
struct Paced {
    below: Pair,
    fresh: RxBatch,
    waiting: VecDeque<RxPacket>,
    allowed: Arc<AtomicUsize>,
    /// Bytes of data handed over.
    bytes: Arc<AtomicUsize>,
}

impl Layer for Paced {
    type Below = Pair;

    fn below(&self) -> &Pair {
        &self.below
    }

    fn below_mut(&mut self) -> &mut Pair {
        &mut self.below
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        self.below.rx(&mut self.fresh)?;
        self.waiting.extend(self.fresh.drain(..));
        let count = self.waiting.len().min(pio::BATCH_MAX).min(self.allowed.load(Ordering::Relaxed));
        self.allowed.fetch_sub(count, Ordering::Relaxed);
        for packet in self.waiting.drain(..count) {
            self.bytes.fetch_add(packet.frame.len().saturating_sub(HEADERS), Ordering::Relaxed);
            batch.push(packet);
        }
        Ok(count)
    }
}

/// A client, a paced link, and a server that holds; and how long it held what.
struct Bed {
    world: World,
    client: ConnId,
    server: ConnId,
    allowed: Arc<AtomicUsize>,
    bytes: Arc<AtomicUsize>,
    /// Data handed over and not read: its end, and the time.
    held: VecDeque<(usize, Instant)>,
    read: usize,
    late: Vec<Duration>,
}

impl Bed {
    fn new(offload: Offload) -> Bed {
        let link = PairConfig { frames: 8_192, depth: 4_096, ..PairConfig::default() };
        let (a, b) = pair(&link).unwrap();
        let (allowed, bytes) = (Arc::new(AtomicUsize::new(1_000)), Arc::new(AtomicUsize::new(0)));
        let paced = Paced {
            below: b,
            fresh: RxBatch::new(),
            waiting: VecDeque::new(),
            allowed: allowed.clone(),
            bytes: bytes.clone(),
        };
        let mut server = config(2, SERVER, SERVER_V6);
        server.offload = offload;
        let client = Core::new(config(1, CLIENT, CLIENT_V6), Box::new(a));
        let mut world = World::of(client, Core::new(server, Box::new(paced)));
        let listener = world.listen(HTTP, 4);
        let client = world.connect(HTTP, 7);
        // A round trip of milliseconds, of which an eighth is more than the budget.
        for _ in 0..6 {
            world.now += Duration::from_millis(1);
            world.step();
        }
        let server = world.server.accept(listener, 7).expect("the handshake completes");
        bytes.store(0, Ordering::Relaxed);
        Bed { world, client, server, allowed, bytes, held: VecDeque::new(), read: 0, late: Vec::new() }
    }

    /// The server looks at its link, and its application reads.
    fn look(&mut self) {
        let World { server, now, .. } = &mut self.world;
        server.turn(*now).unwrap();
        let handed = self.bytes.load(Ordering::Relaxed);
        if self.held.back().is_none_or(|(end, _)| *end < handed) && handed > self.read {
            self.held.push_back((handed, *now));
        }
        let mut got = Vec::new();
        read_all(server, *now, self.server, &mut got);
        server.flush(*now).unwrap();
        self.read += got.len();
        while let Some((_, came)) = self.held.pop_front_if(|(end, _)| *end <= self.read) {
            self.late.push(now.since(came));
        }
    }

    /// The share of what was late by no more than that, of all looks that brought something; and prints how late.
    fn percentile(&mut self, what: &str, share: f64) -> Duration {
        self.late.sort();
        let at = |share: f64| self.late[((self.late.len() - 1) as f64 * share) as usize];
        println!(
            "{what}: {} looks, late by {:?} p50, {:?} p99, {:?} at most",
            self.late.len(),
            at(0.5),
            at(0.99),
            at(1.0)
        );
        at(share)
    }
}

const MODES: [Offload; 2] = [Offload::Hold(BUDGET), Offload::Reorder(BUDGET)];

#[test]
fn a_packet_a_second_waits_for_nothing() {
    for offload in MODES {
        let mut bed = Bed::new(offload);
        bed.allowed.store(usize::MAX / 2, Ordering::Relaxed);
        for _ in 0..300 {
            bed.world.client.write(bed.world.now, bed.client, &[5; 1_400]).unwrap();
            bed.world.client.turn(bed.world.now).unwrap();
            let next = bed.world.now + Duration::from_secs(1);
            bed.look();
            while let Some(due) = bed.world.next().filter(|due| *due < next) {
                bed.world.now = due.max(bed.world.now + Duration::from_nanos(1));
                bed.world.client.turn(bed.world.now).unwrap();
                bed.look();
            }
            bed.world.now = next;
        }
        assert_eq!(bed.late.len(), 300, "{offload:?}");
        assert_eq!(bed.percentile(&format!("{offload:?}, a packet a second"), 1.0), Duration::ZERO);
    }
}

#[test]
fn at_line_rate_few_packets_go_up_and_none_late() {
    const BYTES: usize = 30_000_000;
    for offload in MODES {
        let mut bed = Bed::new(offload);
        bed.allowed.store(0, Ordering::Relaxed);
        let (begin, mut sent, mut passed) = (bed.world.now, 0, 0);
        let data = vec![9; 1 << 20];
        while bed.read < BYTES {
            let rest = data.len().min(BYTES - sent);
            match bed.world.client.write(bed.world.now, bed.client, &data[..rest]) {
                Ok(n) => sent += n,
                Err(WriteError::Full) => {}
                Err(error) => panic!("write: {error:?}"),
            }
            bed.world.client.turn(bed.world.now).unwrap();
            let due = (bed.world.now.since(begin).as_nanos() / SERIAL) as usize;
            bed.allowed.store(due - passed, Ordering::Relaxed);
            passed = due;
            bed.look();
            bed.world.now += LOOK;
            assert!(bed.world.now < Instant::from_secs(2), "stalled at {}", bed.read);
        }
        let p99 = bed.percentile(&format!("{offload:?} at 10 Gbit/s"), 0.99);
        assert!(p99 <= BUDGET, "{offload:?}: {p99:?}");
        let held = bed.world.server.held();
        let per_run = held.seen as f64 / held.runs as f64;
        println!("{offload:?}: {per_run:.1} packets a run of {}", held.seen);
        if !matches!(offload, Offload::Reorder(_)) {
            assert!(per_run >= 16.0, "{offload:?}: {per_run:.1} packets a run: {held:?}");
        }
    }
}
