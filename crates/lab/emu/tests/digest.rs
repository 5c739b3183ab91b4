//! Goal: the same seed gives the same packets at the same nanosecond in every build and on every machine. The network's
//! own choices only, with hosts that do nothing but answer: what TCP does may change, what a pipe does may not without
//! notice.

use base::{Duration, Instant, Rate, Rng, SipKey};
use emu::{
    Aqm, CoDel, DropReason, GilbertElliott, Host, Network, PipeConfig, PortConfig, PortId, Queue, Red,
    SimPort,
};
use pio::{PacketIo, RxBatch, TxBatch, TxMeta, TxPacket};
use std::cell::Cell;
use std::rc::Rc;
use wire::packet::{Below, Link};

/// Sends datagrams of chance lengths at chance times to every host, and sends back a third of what it hears.
struct Chatter {
    port: SimPort,
    peers: Vec<[u8; 6]>,
    rng: Rng,
    next: Instant,
    tx: TxBatch,
}

impl Chatter {
    fn datagram(&mut self) {
        let Some(mut frame) = self.port.take() else { return };
        let peer = self.peers[self.rng.below(self.peers.len() as u64) as usize];
        let own = self.port.caps().mac;
        let addr = |mac: [u8; 6]| base::Addr::v4([10, 0, mac[4], mac[5]]);
        let below = Below {
            link: Some(Link { dst: peer, src: own }),
            src: addr(own),
            dst: addr(peer),
            tos: self.rng.below(4) as u8,
            ttl: 64,
            label: self.rng.next_u32(),
        };
        let payload = self.rng.below(1_400) as usize;
        frame.set_range(0, below.len() + payload);
        let start = below.emit(wire::protocol::UDP, payload, frame.data_mut());
        self.rng.fill(&mut frame.data_mut()[start..]);
        self.tx.push_back(TxPacket { frame, meta: TxMeta::default() });
    }
}

impl Host for Chatter {
    fn step(&mut self, now: Instant) -> Option<Instant> {
        let mut rx = RxBatch::new();
        while self.port.rx(&mut rx).expect("a simulated port does not fail") > 0 {
            for packet in rx.drain(..) {
                self.port.retire(packet.frame);
                if self.rng.chance(0.3) {
                    self.datagram();
                }
            }
        }
        while self.next <= now {
            self.datagram();
            let gap = self.rng.exponential() * 1e6;
            self.next += Duration::from_nanos(gap as u64 + 1);
        }
        self.port.tx(&mut self.tx).expect("a simulated port does not fail");
        Some(self.next)
    }
}

/// A pipe of every kind.
fn path(nth: usize) -> PipeConfig {
    let aqm = match nth % 4 {
        0 => Aqm::None,
        1 => Aqm::CoDel(CoDel { target: Duration::from_millis(2), ..CoDel::default() }),
        2 => Aqm::Red(Red { min: 5_000, max: 15_000, most: 0.2, weight: 0.02, gentle: true, ecn: true }),
        _ => Aqm::Step(8_000),
    };
    PipeConfig {
        rate: Some(Rate::from_bits_per_sec(9_000_000)),
        delay: Duration::from_millis(3),
        jitter: Duration::from_millis(2),
        queue: if nth.is_multiple_of(2) { Queue::Loose(30_000) } else { Queue::Slots(40) },
        aqm,
        loss: 0.01,
        bursts: Some(GilbertElliott::bursts(0.01, 3.0)),
        duplicate: 0.01,
        corrupt: 0.01,
        reorder: 0.02,
        reorder_by: Duration::from_millis(5),
        discard: if nth == 3 { "per-flow 7,100-120" } else { "7,100-120" }.parse().expect("positions"),
        ..PipeConfig::default()
    }
}

/// Packets that came to pipes, and a digest of all of them: bytes, dates, places and fates.
fn digest(seed: u64, seconds: u64) -> (u64, u64) {
    let mut net = Network::new(seed);
    let switch = net.add_switch();
    let ports: Vec<SimPort> = (0..4).map(|_| net.port(&PortConfig::default())).collect();
    let macs: Vec<[u8; 6]> = ports.iter().map(|port| port.caps().mac).collect();
    let ids: Vec<PortId> = ports.iter().map(SimPort::id).collect();
    for (nth, port) in ports.into_iter().enumerate() {
        let peers = macs.iter().copied().filter(|mac| *mac != macs[nth]).collect();
        let rng = Rng::new(seed + nth as u64);
        let chatter = Chatter { port, peers, rng, next: Instant::ZERO, tx: TxBatch::new() };
        net.add_host(chatter, &[ids[nth]]);
        net.plug(ids[nth], switch, &path(nth), &path(nth + 1));
    }
    let sum = Rc::new(Cell::new((0u64, 0u64)));
    let (running, key) = (sum.clone(), SipKey::new(1, 2));
    net.watch(move |sight| {
        let (count, sum) = running.get();
        let fate = sight.fate.err().map_or(0, |reason: DropReason| 1 + reason as u64);
        let mut words = vec![sum, sight.at.as_nanos(), u64::from(sight.pipe.0), fate];
        words.extend(sight.packet.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        }));
        running.set((count + 1, key.fast(&words)));
    });
    net.run_until(Instant::from_secs(seconds));
    sum.get()
}

#[test]
fn the_same_seed_gives_the_same_packets_everywhere() {
    assert_eq!(digest(1, 30), (336_860, 5_305_914_159_894_220_782));
}

#[test]
fn another_seed_gives_others() {
    assert_ne!(digest(2, 1), digest(3, 1));
}
