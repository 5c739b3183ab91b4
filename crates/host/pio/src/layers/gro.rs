//! Receive offload across batches: packets of a port go through [`offload::Engine`], which keeps them for a bounded
//! time where more of their flow is expected or something before them is missing.
//!
//! ```text
//!   port.rx ──> TCP in one frame, sound? ──no──> up as it is, behind what the engine has of its flow
//!                 │yes
//!                 v
//!               Engine ──> merged runs, with their batch, full, or after the budget ──> up, each named in BatchGro
//! ```
//! Every port lends its frames for as long as they are not given back ([`PacketIo::retire`]), so what is held is held
//! in place. The smallest pool of a port has twice as many frames as are held at most. Whatever is not sound goes up
//! too: the stack counts it.

use super::classify::{classify, judge};
use crate::port::{BATCH_MAX, Caps, IoError, Medium, PacketIo, RxBatch, RxChecksum, RxPacket};
use ::wire::checksum::Summer;
use base::{Duration, FlowKey, Instant};
use offload::{Arrival, BatchGro, Config, Engine, HoldCounters, MERGE_WORTH};

/// Frames held at most.
pub const HELD_MAX: usize = 256;

impl AsRef<[u8]> for RxPacket {
    fn as_ref(&self) -> &[u8] {
        self.frame.data()
    }
}

/// Packets held between a port and the batch that its owner processes.
pub struct Gro {
    engine: Engine<RxPacket>,
    inbox: RxBatch,
    summer: Summer,
}

/// Where the packets of a turn go.
struct Up<'a, H> {
    packets: &'a mut RxBatch,
    /// Takes the merged runs among them, if they are to be processed as such.
    runs: Option<&'a mut BatchGro>,
    hash: H,
}

impl Gro {
    /// Holds data in order for `hold` at most where more is expected, and what came early for `reorder`.
    pub fn new(hold: Duration, reorder: Duration) -> Gro {
        let config = Config { packets: HELD_MAX as u16, hold, reorder, ..Config::default() };
        Gro { engine: Engine::new(config), inbox: RxBatch::with_capacity(BATCH_MAX), summer: crate::summer() }
    }

    /// Most packets that one call of [`Gro::rx`] hands up.
    pub const fn up_max(batches: usize) -> usize {
        HELD_MAX + batches * BATCH_MAX
    }

    /// Returns the counters of the engine.
    pub fn counters(&self) -> &HoldCounters {
        self.engine.counters()
    }

    /// Returns when [`Gro::rx`] must be called although nothing may have arrived.
    pub fn due(&self) -> Option<Instant> {
        self.engine.poll_timeout()
    }

    /// The round trip of a flow was measured: its data waits for no more than an eighth of it.
    pub fn on_round_trip(&mut self, key: &FlowKey, hash: u64, srtt: Duration) {
        self.engine.on_round_trip(key, hash, srtt);
    }

    /// Receives at most `batches` batches from `port`, and appends to `up` what need not wait, flow by flow in order.
    /// The merged runs among it are in `runs`; without that each packet goes up for itself. `hash` must be keyed.
    /// Returns the number of frames that came from the port, and its error.
    pub fn rx(
        &mut self,
        now: Instant,
        port: &mut dyn PacketIo,
        batches: u8,
        up: (&mut RxBatch, Option<&mut BatchGro>),
        hash: impl Fn(&FlowKey) -> u64,
    ) -> (usize, Option<IoError>) {
        let mut inbox = std::mem::take(&mut self.inbox);
        let mut up = Up { packets: up.0, runs: up.1, hash };
        let (mut frames, mut error) = (0, None);
        for _ in 0..batches {
            error = error.or(port.rx(&mut inbox).err());
            let count = inbox.len();
            frames += count;
            self.take_in(now, port.caps(), &mut inbox, &mut up);
            if count < BATCH_MAX {
                break;
            }
        }
        self.inbox = inbox;
        if self.engine.packets() > 0 {
            self.engine.on_batch_end(now);
            self.deliver(&mut up);
        }
        (frames, error)
    }

    /// Sorts the packets of a batch.
    fn take_in(
        &mut self,
        now: Instant,
        caps: &Caps,
        inbox: &mut RxBatch,
        up: &mut Up<'_, impl Fn(&FlowKey) -> u64>,
    ) {
        for packet in inbox.iter() {
            ring::prefetch_bytes(packet.frame.data());
        }
        let mut packets = inbox.drain(..);
        while let Some(packet) = packets.next() {
            if !packet.meta.more {
                self.take_one(now, caps, packet, up);
                continue;
            }
            // A packet in several frames goes up for itself, behind all that is held of its flow.
            let others = packets.as_slice().iter().take_while(|packet| packet.meta.more).count() + 1;
            let whole = packet.frame.len()
                + packets.as_slice().iter().take(others).map(|packet| packet.frame.len()).sum::<usize>();
            if let Some(seen) = classify(packet.frame.data(), whole, caps.medium) {
                self.engine.on_other(&seen.key, (up.hash)(&seen.key));
                self.deliver(up);
            }
            up.packets.push(packet);
            up.packets.extend(packets.by_ref().take(others));
        }
    }

    /// Takes a packet in one frame: it joins the run that grew last, if its bytes say so, or is looked at.
    fn take_one(
        &mut self,
        now: Instant,
        caps: &Caps,
        packet: RxPacket,
        up: &mut Up<'_, impl Fn(&FlowKey) -> u64>,
    ) {
        let unsure = packet.meta.checksum == RxChecksum::Unverified;
        let merged = packet.meta.gso_size != 0;
        let mut packet = packet;
        if !merged && packet.frame.len() >= MERGE_WORTH {
            let keep = |packet, _: &RxPacket| sound(packet);
            match self.engine.follow(now, packet, unsure.then_some(self.summer), keep) {
                Ok(()) => return,
                Err(other) => packet = other,
            }
        }
        let bytes = packet.frame.data();
        let ours = caps.medium == Medium::Ip || bytes.first_chunk() == Some(&caps.mac);
        let Some(seen) = ours.then(|| classify(bytes, bytes.len(), caps.medium)).flatten() else {
            return up.packets.push(packet);
        };
        if unsure {
            match judge(&seen.packet, bytes, self.summer, caps.local_peer) {
                RxChecksum::Verified => packet = sound(packet),
                RxChecksum::Partial => {}
                RxChecksum::Unverified => return up.packets.push(packet),
            }
        }
        let (key, hash) = (seen.key, (up.hash)(&seen.key));
        let (ip, tcp, end) = (caps.medium.header_len(), seen.packet.start as usize, seen.packet.end as usize);
        if self.engine.bypass(now, &key, hash, &packet.frame.data()[tcp..end], merged) {
            return up.packets.push(packet);
        }
        let mut arrival = Arrival { key, hash, ip, tcp, end, merged, packet };
        while let Err(refused) = self.engine.on_arrival(now, arrival) {
            self.deliver(up);
            arrival = refused;
        }
    }

    /// Appends the runs that the engine flushes.
    fn deliver<H>(&mut self, up: &mut Up<'_, H>) {
        while let Some(mut run) = self.engine.poll_run() {
            let at = up.packets.len() as u16;
            up.packets.extend(std::iter::from_fn(|| self.engine.next_packet(&mut run)));
            if let (Some(merged_run), Some(runs)) = (run.merged_run, &mut up.runs) {
                runs.adopt(at, merged_run);
            }
        }
    }
}

/// Notes that a packet's checksum is right.
fn sound(mut packet: RxPacket) -> RxPacket {
    packet.meta.checksum = RxChecksum::Verified;
    packet
}
