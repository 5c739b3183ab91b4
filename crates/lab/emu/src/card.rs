//! A network card with processors of its own, in virtual time: receive workers that merge what belongs together before
//! the host sees it, a way across to the host, and a host to whom each packet costs something.
//!
//! ```text
//!  wire ──by flow──> worker's ring ──core──> engine ──> descriptors ──one transfer at a time──> host's ring ──> host
//!  wire <────────────────────────────────────────────────────────────────────────────────────────────────────── host
//! ```
//! The cost of each step is a parameter, so that the figures of a published card can be computed: what they say about
//! one flow goes in, what many flows get comes out. A worker does one packet at a time, a core one of its workers'.

use crate::{Host, PortConfig, PortId, SimPort};
use base::{Duration, Endpoint, FlowKey, Instant, Rate, SipKey};
use offload::{Arbiter, Arrival, Engine, Next, QUEUES_MAX};
use pio::{PacketIo, RxBatch, TxBatch, TxMeta, TxPacket};
use std::collections::VecDeque;
use wire::packet::{Content, Packet, parse_frame};
use wire::{ethernet, protocol};

mod merged;
mod patient;
#[cfg(test)]
mod tests;

use merged::merged;
use patient::{Patient, Run};

/// Times that a card and its host take.
#[derive(Clone, Debug)]
pub struct CardConfig {
    /// Receive workers; each flow belongs to one, by a keyed hash.
    pub workers: usize,
    /// Cores that they share: the nth worker runs on core n modulo this.
    pub cores: usize,
    /// Packets that may wait for a worker; more are dropped.
    pub ring: usize,
    /// Time of a core for a packet: to parse, check and queue it.
    pub per_packet: Duration,
    /// How packets are merged.
    pub merging: Merging,
    /// How fast bytes cross to the host; `None` for at once.
    pub dma: Option<Rate>,
    /// Descriptors of a worker, and places in the host's ring.
    pub descriptors: usize,
    /// Time of the host for each packet passed up: interrupt, driver, stack.
    pub per_delivery: Duration,
    /// Of the hash that steers.
    pub seed: u64,
}

/// How a card merges packets.
#[derive(Clone, Copy, Debug)]
pub enum Merging {
    /// Each goes up as it came.
    None,
    /// By this project's engine, which holds data for a bounded time.
    Engine(offload::Config),
    /// As published: data of a flow waits until it is 64 KiB or the next packet is ten times later than they come on
    /// average. (The published card's cost and timeout, not its faults: what is not next in sequence goes up at
    /// once.)
    Patient,
}

base::counters! {
    /// Counters of received packets.
    pub struct CardCounters {
        received: "Packets that came from the wire.",
        dropped: "Packets for which a worker's ring had no room.",
        segments: "Packets of the wire that went up.",
        delivered: "Packets that went up, merged ones as one.",
        control: "Packets that went up ahead of data.",
    }
}

/// A packet from the wire.
struct Received {
    bytes: Vec<u8>,
    /// Its flow and where its parts lie, if it is TCP.
    tcp: Option<(FlowKey, Packet)>,
    hash: u64,
}

/// A packet on its way up.
struct Up {
    bytes: Vec<u8>,
    /// Packets of the wire in it.
    segments: u64,
    meta: TxMeta,
}

struct Worker {
    ring: VecDeque<Received>,
    merger: Merger,
    /// Packets without data, which overtake others.
    control: VecDeque<Up>,
    data: VecDeque<Up>,
}

enum Merger {
    None,
    Engine(Box<Engine<Vec<u8>>>),
    Patient(Patient),
}

impl Merger {
    fn new(merging: Merging) -> Merger {
        match merging {
            Merging::None => Merger::None,
            Merging::Engine(config) => Merger::Engine(Box::new(Engine::new(config))),
            Merging::Patient => Merger::Patient(Patient::default()),
        }
    }
}

/// Does one thing at a time, for as long as it takes.
struct Server<T>(Option<(Instant, T)>);

impl<T> Server<T> {
    fn is_idle(&self) -> bool {
        self.0.is_none()
    }

    fn begin(&mut self, now: Instant, takes: Duration, what: T) {
        self.0 = Some((now + takes, what));
    }

    /// Returns the item if it is finished by now.
    fn finish(&mut self, now: Instant) -> Option<T> {
        self.0.take_if(|(done, _)| *done <= now).map(|(_, what)| what)
    }

    fn due(&self) -> Option<Instant> {
        self.0.as_ref().map(|(done, _)| *done)
    }
}

/// The card, between the wire's port and the host's. [`Card::line`] says how the ports between it and its host are
/// made.
pub struct Card {
    config: CardConfig,
    key: SipKey,
    wire: SimPort,
    host: SimPort,
    workers: Vec<Worker>,
    /// Work of each core, and its worker.
    cores: Vec<Server<(usize, Received)>>,
    /// Next worker of each core.
    next_worker: Vec<usize>,
    /// And at the way up.
    arbiter: Arbiter,
    dma: Server<Up>,
    waiting: VecDeque<Up>,
    processor: Server<Up>,
    rx: RxBatch,
    tx: TxBatch,
    counters: CardCounters,
}

impl Card {
    /// A card whose `wire` port is to be joined to the network and whose `host` port to the host's.
    ///
    /// # Panics
    /// Without a worker, a core or a descriptor, or with more than [`QUEUES_MAX`] workers.
    pub fn new(config: CardConfig, wire: SimPort, host: SimPort) -> Card {
        assert!(
            (1..=QUEUES_MAX).contains(&config.workers) && config.cores > 0 && config.descriptors > 0,
            "{config:?}"
        );
        let worker = || Worker {
            ring: VecDeque::new(),
            merger: Merger::new(config.merging),
            control: VecDeque::new(),
            data: VecDeque::new(),
        };
        Card {
            key: SipKey::new(config.seed, !config.seed),
            workers: (0..config.workers).map(|_| worker()).collect(),
            cores: (0..config.cores).map(|_| Server(None)).collect(),
            next_worker: (0..config.cores).collect(),
            arbiter: Arbiter::new(config.workers),
            dma: Server(None),
            waiting: VecDeque::new(),
            processor: Server(None),
            rx: RxBatch::new(),
            tx: TxBatch::new(),
            counters: CardCounters::default(),
            config,
            wire,
            host,
        }
    }

    /// The ports of the line between a card and its host, whose wire carries packets of up to `mtu` bytes: the card's,
    /// which hands up merged packets, and the host's, which takes them.
    pub fn line(mtu: usize) -> [PortConfig; 2] {
        let host = PortConfig {
            mtu,
            frames: 1024,
            rx_ring: 1 << 16,
            tx_ring: 1 << 16,
            tx_checksum: true,
            tso_max: usize::from(u16::MAX),
            ..PortConfig::default()
        };
        [PortConfig { passes_whole: true, ..host.clone() }, host]
    }

    /// The ports towards wire and host.
    pub fn ports(&self) -> [PortId; 2] {
        [self.wire.id(), self.host.id()]
    }

    /// Returns the counters.
    pub fn counters(&self) -> &CardCounters {
        &self.counters
    }

    /// Takes what came from the wire into the workers' rings.
    fn receive(&mut self) {
        while take(&mut self.wire, &mut self.rx) > 0 {
            for packet in self.rx.drain(..) {
                self.counters.received += 1;
                let bytes = packet.frame.data().to_vec();
                self.wire.retire(packet.frame);
                let tcp = flow_of(&bytes);
                let hash = tcp.as_ref().map_or(0, |(key, _)| self.key.strong_flow(key));
                let worker = &mut self.workers[(hash % self.config.workers as u64) as usize];
                if worker.ring.len() < self.config.ring {
                    worker.ring.push_back(Received { bytes, tcp, hash });
                } else {
                    self.counters.dropped += 1;
                }
            }
        }
    }

    /// Puts the host's packets on the wire at once.
    fn send(&mut self) {
        while take(&mut self.host, &mut self.rx) > 0 {
            for packet in self.rx.drain(..) {
                put(&mut self.wire, &mut self.tx, packet.frame.data(), TxMeta::default());
                self.host.retire(packet.frame);
            }
        }
    }

    /// Cores end what they are at and begin with the next packet of one of their workers; held packets become due.
    fn work(&mut self, now: Instant) -> bool {
        let mut moved = false;
        for nth in 0..self.cores.len() {
            if let Some((worker, packet)) = self.cores[nth].finish(now) {
                self.workers[worker].take(now, packet);
                moved = true;
            }
            if self.cores[nth].is_idle()
                && let Some(worker) = self.next_for(nth)
                && let Some(packet) = self.workers[worker].ring.pop_front()
            {
                self.next_worker[nth] = worker + self.config.cores;
                self.cores[nth].begin(now, self.config.per_packet, (worker, packet));
                moved = true;
            }
        }
        for worker in &mut self.workers {
            if worker.due().is_some_and(|due| due <= now) {
                worker.settle(now);
                moved = true;
            }
        }
        moved
    }

    /// The worker of a core that goes next: one with a packet, and with room for what comes of it.
    fn next_for(&self, core: usize) -> Option<usize> {
        let own = self.config.workers.saturating_sub(core).div_ceil(self.config.cores);
        let first = self.next_worker[core] / self.config.cores;
        (0..own).map(|nth| core + (first + nth) % own * self.config.cores).find(|worker| {
            let worker = &self.workers[*worker];
            !worker.ring.is_empty() && worker.data.len() < self.config.descriptors
        })
    }

    /// Moves packets up, one at a time; what carries no data first, then a fair part of bytes for each worker.
    fn transfer(&mut self, now: Instant) -> bool {
        let arrived = self.dma.finish(now);
        let mut moved = arrived.is_some();
        self.waiting.extend(arrived);
        if self.dma.is_idle()
            && self.waiting.len() < self.config.descriptors
            && let Some(up) = self.next_up()
        {
            let takes = self.config.dma.map_or(Duration::ZERO, |rate| rate.time_for(up.bytes.len() as u64));
            self.dma.begin(now, takes, up);
            moved = true;
        }
        moved
    }

    fn next_up(&mut self) -> Option<Up> {
        let bits = |waits: fn(&Worker) -> bool| {
            let waiting = self.workers.iter().enumerate().filter(|(_, worker)| waits(worker));
            waiting.fold(0, |bits, (nth, _)| bits | 1 << nth)
        };
        let next = self
            .arbiter
            .poll(bits(|worker| !worker.control.is_empty()), bits(|worker| !worker.data.is_empty()));
        match next? {
            Next::Control(nth) => {
                self.counters.control += 1;
                self.workers[nth].control.pop_front()
            }
            Next::Data(nth) => {
                let up = self.workers[nth].data.pop_front()?;
                self.arbiter.on_moved(nth, up.bytes.len());
                Some(up)
            }
        }
    }

    /// The host takes one packet after the other.
    fn deliver(&mut self, now: Instant) -> bool {
        let done = self.processor.finish(now);
        let mut moved = done.is_some();
        if let Some(up) = done {
            self.counters.delivered += 1;
            self.counters.segments += up.segments;
            put(&mut self.host, &mut self.tx, &up.bytes, up.meta);
        }
        if self.processor.is_idle()
            && let Some(up) = self.waiting.pop_front()
        {
            self.processor.begin(now, self.config.per_delivery, up);
            moved = true;
        }
        moved
    }
}

impl Host for Card {
    fn step(&mut self, now: Instant) -> Option<Instant> {
        self.receive();
        self.send();
        while self.work(now) | self.transfer(now) | self.deliver(now) {}
        let dates = self.cores.iter().map(Server::due).chain(self.workers.iter().map(Worker::due));
        dates.chain([self.dma.due(), self.processor.due()]).fold(None, Instant::earliest)
    }
}

impl Worker {
    /// A packet has been looked at.
    fn take(&mut self, now: Instant, packet: Received) {
        let Received { bytes, tcp, hash } = packet;
        let mut up = Vec::new();
        match (tcp, &mut self.merger) {
            (Some((key, tcp)), Merger::Engine(engine)) => {
                let arrival = Arrival {
                    key,
                    hash,
                    ip: ethernet::HEADER_LEN,
                    tcp: tcp.start as usize,
                    end: tcp.end as usize,
                    merged: false,
                    packet: bytes,
                };
                offer(engine, now, arrival, &mut up);
            }
            (Some((key, _)), Merger::Patient(patient)) => patient.take(now, key, bytes, &mut up),
            _ => up.push((vec![bytes], None)),
        }
        self.lift(up);
        self.settle(now);
    }

    /// Passes up packets that need not wait.
    fn settle(&mut self, now: Instant) {
        let mut up = Vec::new();
        match &mut self.merger {
            Merger::None => {}
            Merger::Engine(engine) => {
                engine.on_batch_end(now);
                collect(engine, &mut up);
            }
            Merger::Patient(patient) => patient.settle(now, &mut up),
        }
        self.lift(up);
    }

    /// Packets go up, as one if they are a merged run.
    fn lift(&mut self, runs: Vec<Run>) {
        for (packets, merged_run) in runs {
            let segments = packets.len() as u64;
            if let Some(merged_run) = merged_run.filter(|merged_run| merged_run.count() > 1) {
                let (bytes, meta) = merged(&packets, &merged_run);
                self.data.push_back(Up { bytes, segments, meta });
                continue;
            }
            for bytes in packets {
                let control = flow_of(&bytes).is_none_or(|(_, packet)| !has_data(&bytes, &packet));
                let queue = if control { &mut self.control } else { &mut self.data };
                queue.push_back(Up { bytes, segments: 1, meta: TxMeta::default() });
            }
        }
    }

    fn due(&self) -> Option<Instant> {
        match &self.merger {
            Merger::None => None,
            Merger::Engine(engine) => engine.poll_timeout(),
            Merger::Patient(patient) => patient.due(),
        }
    }
}

fn offer(engine: &mut Engine<Vec<u8>>, now: Instant, mut arrival: Arrival<Vec<u8>>, up: &mut Vec<Run>) {
    // One that is full hands everything up, and has room then.
    while let Err(back) = engine.on_arrival(now, arrival) {
        collect(engine, up);
        arrival = back;
    }
}

fn collect(engine: &mut Engine<Vec<u8>>, up: &mut Vec<Run>) {
    while let Some(mut run) = engine.poll_run() {
        let packets = std::iter::from_fn(|| engine.next_packet(&mut run)).collect();
        up.push((packets, run.merged_run.take()));
    }
}

/// Receives; how many.
fn take(port: &mut SimPort, batch: &mut RxBatch) -> usize {
    // A simulated port does not fail.
    port.rx(batch).unwrap_or(0)
}

/// Sends `bytes`; a port without a frame loses them, as any card does.
fn put(port: &mut SimPort, batch: &mut TxBatch, bytes: &[u8], meta: TxMeta) {
    let Some(mut frame) = port.take() else { return };
    frame.set_range(0, bytes.len());
    frame.data_mut().copy_from_slice(bytes);
    batch.push_back(TxPacket { frame, meta });
    if port.tx(batch).is_err() || !batch.is_empty() {
        batch.drain(..).for_each(|packet| port.retire(packet.frame));
    }
}

/// The flow of a TCP packet, seen from the host, and where its parts lie.
fn flow_of(bytes: &[u8]) -> Option<(FlowKey, Packet)> {
    let Content::Ip(packet) = parse_frame(bytes, bytes.len()).ok()?.content else { return None };
    if packet.protocol != protocol::TCP {
        return None;
    }
    let &[a, b, c, d] = bytes.get(packet.start as usize..)?.first_chunk()?;
    let remote = Endpoint::new(packet.src, u16::from_be_bytes([a, b]));
    let local = Endpoint::new(packet.dst, u16::from_be_bytes([c, d]));
    Some((FlowKey::new(local, remote), packet))
}

/// Is there anything behind the TCP header?
fn has_data(bytes: &[u8], packet: &Packet) -> bool {
    let header = bytes.get(packet.start as usize + 12).map_or(0, |byte| u32::from(byte >> 4) * 4);
    packet.start + header < packet.end
}
