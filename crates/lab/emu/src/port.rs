//! The simulated port: a [`PacketIo`] whose wire is a [`crate::Network`].

use crate::PortId;
use crate::medium::{Boxes, Meta, Packet, Shared, packet_of};
use crate::nic;
use pio::{
    BATCH_MAX, Caps, IoError, Medium, PIECES_MAX, PacketIo, RxBatch, RxPacket, TxBatch, TxGather, TxMeta,
    TxPacket,
};
use ring::{Frame, FramePool, Pages};
use std::io::IoSlice;
use std::os::fd::RawFd;

/// How to make a [`SimPort`].
#[derive(Clone, Debug)]
pub struct PortConfig {
    /// Largest IP packet on the wire, bytes.
    pub mtu: usize,
    /// Frames of its pool.
    pub frames: u32,
    /// Received packets that wait for the host; more are missed.
    pub rx_ring: usize,
    /// Packets that one step of the host may send; more is back-pressure.
    pub tx_ring: usize,
    /// Complete checksums on transmit.
    pub tx_checksum: bool,
    /// Cut super-segments of up to this size, bytes of IP packet; 0 for none. Needs `tx_checksum`.
    pub tso_max: usize,
    /// Super-segments and unfinished checksums reach the peer as they are, as over a tap or veth, instead of
    /// being cut and completed here. The peer's frames must be as large.
    pub passes_whole: bool,
    /// Take payloads of at least so many bytes from where they lie.
    pub gathers: Option<usize>,
    /// Link-layer address, where several ports are queues of one card; `None` for one of the port's own.
    pub mac: Option<[u8; 6]>,
}

impl Default for PortConfig {
    /// Ethernet with MTU 1500 and no offloads.
    fn default() -> Self {
        PortConfig {
            mtu: 1500,
            frames: 4096,
            rx_ring: 4096,
            tx_ring: 4096,
            tx_checksum: false,
            tso_max: 0,
            passes_whole: false,
            gathers: None,
            mac: None,
        }
    }
}

base::counters! {
    /// Counters of a simulated port.
    pub(crate) struct Counts {
        rx: "Packets received.",
        rx_oversize: "Packets bigger than a frame; dropped.",
        tx: "Packets sent, as the wire saw them.",
        tx_full: "Times the ring was full.",
        tx_invalid: "Packets too big for the wire or with offloads that make no sense; dropped.",
    }
}

/// A port of a network in virtual time. Never waits: the network steps the host when something happens.
pub struct SimPort {
    id: PortId,
    caps: Caps,
    medium: Shared,
    pool: FramePool,
    tx_ring: usize,
    passes_whole: bool,
    gathers: Option<usize>,
    counts: Counts,
}

impl SimPort {
    pub(crate) fn new(id: PortId, config: &PortConfig, medium: Shared) -> std::io::Result<Self> {
        let [a, b, c, d] = id.0.to_be_bytes();
        let mac = config.mac.unwrap_or([2, 0x65, a, b, c, d]);
        let slot = (config.mtu.max(config.tso_max) + 64).max(2048).next_power_of_two();
        Ok(SimPort {
            id,
            caps: Caps {
                tx_checksum: config.tx_checksum,
                tso_max: config.tso_max,
                ..Caps::plain(&format!("sim:{}", id.0), config.mtu, Medium::Ethernet, mac)
            },
            medium,
            // Thousands of ports in one process: no huge page for each.
            pool: FramePool::with_pages(config.frames, slot, Pages::Normal)?,
            tx_ring: config.tx_ring,
            passes_whole: config.passes_whole,
            gathers: config.gathers,
            counts: Counts::default(),
        })
    }

    /// Which port of its network this is.
    pub fn id(&self) -> PortId {
        self.id
    }

    /// Puts one packet on the wire: as it is, or cut and completed as its host asked.
    fn send(&mut self, packet: &mut TxPacket, boxes: &mut Boxes, spare: &mut Vec<Packet>) {
        let TxMeta { checksum, segmentation } = packet.meta;
        let whole = self.passes_whole && checksum.is_some();
        let limit = if whole { self.caps.mtu.max(self.caps.tso_max) } else { self.caps.mtu };
        let mut sound = true;
        let mut emit = |bytes: &[u8], meta| {
            sound &= nic::ip_len(bytes) <= limit;
            if sound {
                self.counts.tx += 1;
                boxes.outbox.push(packet_of(spare, bytes, meta));
            }
        };
        let data = packet.frame.data_mut();
        let understood = if whole {
            emit(data, Meta { partial: true, gso_size: segmentation.map_or(0, |cut| cut.size) });
            true
        } else {
            nic::transmit(Medium::Ethernet, data, &packet.meta, |bytes| emit(bytes, Meta::default()))
        };
        self.counts.tx_invalid += u64::from(!(sound && understood));
    }
}

impl PacketIo for SimPort {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn take(&mut self) -> Option<Frame> {
        self.pool.take()
    }

    fn retire(&mut self, frame: Frame) {
        self.pool.retire(frame);
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let medium = &mut *self.medium.lock();
        let before = batch.len();
        let inbox = &mut medium.ports[self.id.0 as usize].inbox;
        while batch.len() < BATCH_MAX && !inbox.is_empty() {
            let Some(mut frame) = self.pool.take() else { break };
            let Some(packet) = inbox.pop_front() else { break };
            let fits = packet.len() <= frame.capacity();
            if fits {
                frame.set_range(0, packet.len());
                frame.data_mut().copy_from_slice(&packet.bytes);
            }
            let meta = packet.meta.into();
            medium.spare.push(packet);
            if !fits {
                self.counts.rx_oversize += 1;
                self.pool.retire(frame);
                continue;
            }
            batch.push(RxPacket { frame, meta });
        }
        let received = batch.len() - before;
        self.counts.rx += received as u64;
        Ok(received)
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        let shared = self.medium.clone();
        let medium = &mut *shared.lock();
        let boxes = &mut medium.ports[self.id.0 as usize];
        let mut taken = 0;
        while boxes.outbox.len() < self.tx_ring {
            let Some(mut packet) = batch.pop_front() else { return Ok(taken) };
            self.send(&mut packet, boxes, &mut medium.spare);
            self.pool.retire(packet.frame);
            taken += 1;
        }
        self.counts.tx_full += u64::from(!batch.is_empty());
        Ok(taken)
    }

    fn arm(&mut self, _: &mut Vec<RawFd>) -> Result<bool, IoError> {
        Ok(self.medium.lock().ports[self.id.0 as usize].inbox.is_empty())
    }

    fn gather(&mut self) -> Option<&mut dyn TxGather> {
        if self.gathers.is_some() { Some(self) } else { None }
    }

    fn stats(&self) -> Vec<(&'static str, u64)> {
        let counts = Counts::ROWS.iter().zip(self.counts.values()).map(|((name, _), value)| (*name, value));
        let out = self.pool.slots() - self.pool.available();
        counts.chain([("no_frame", self.pool.refused()), ("frames_out", u64::from(out))]).collect()
    }
}

impl TxGather for SimPort {
    fn gather_from(&mut self) -> usize {
        self.gathers.unwrap_or(usize::MAX)
    }

    fn tx_gather(&mut self, headers: &mut Frame, meta: &TxMeta, payload: &[IoSlice<'_>]) -> bool {
        assert!(payload.len() <= PIECES_MAX, "{} pieces", payload.len());
        let Some(mut frame) = self.pool.take() else { return false };
        let len = headers.len() + payload.iter().map(|piece| piece.len()).sum::<usize>();
        frame.set_range(0, len);
        let mut at = 0;
        for piece in std::iter::once(headers.data()).chain(payload.iter().map(|piece| &**piece)) {
            frame.data_mut()[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        let mut batch = TxBatch::from([TxPacket { frame, meta: *meta }]);
        let sent = self.tx(&mut batch).is_ok_and(|taken| taken == 1);
        batch.into_iter().for_each(|packet| self.pool.retire(packet.frame));
        sent
    }
}
