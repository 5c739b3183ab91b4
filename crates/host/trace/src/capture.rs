//! The way of a recorded packet from the core to the program that writes it down: one byte ring, drops counted, never
//! a wait.

use crate::annotate::{Annotator, StateProbe, annotator};
use base::Instant;
use ring::bytes::{ByteConsumer, ByteProducer, bytes};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::pcap::LinkType;
use wire::pcap::ng::{self, Direction, Packet};

/// Bytes before each packet in the ring: nanoseconds, bytes kept, bytes on the wire, direction, batch.
const HEADER: usize = 8 + 4 + 4 + 1 + 1;

/// Header of each packet in the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketHeader {
    pub(crate) at: Instant,
    /// Bytes kept, and bytes on the wire.
    pub(crate) kept: u32,
    pub(crate) len: u32,
    pub(crate) outbound: bool,
    /// Number of the batch: equal for packets that passed together.
    pub(crate) batch: u8,
}

impl PacketHeader {
    fn bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&self.at.as_nanos().to_le_bytes());
        bytes[8..12].copy_from_slice(&self.kept.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.len.to_le_bytes());
        bytes[16] = self.outbound.into();
        bytes[17] = self.batch;
        bytes
    }

    fn of(bytes: &[u8; HEADER]) -> PacketHeader {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let nanos = u64::from(word(4)) << 32 | u64::from(word(0));
        PacketHeader {
            at: Instant::from_nanos(nanos),
            kept: word(8),
            len: word(12),
            outbound: bytes[16] == 1,
            batch: bytes[17],
        }
    }

    /// The packet as a block of a file.
    fn block<'a>(&self, interface: u32, data: &'a [u8], comment: &'a str) -> Packet<'a> {
        let direction = Some(if self.outbound { Direction::Outbound } else { Direction::Inbound });
        Packet { interface, at: self.at, original_len: self.len, data, direction, comment }
    }
}

/// Counters of the packets offered to a capture.
#[derive(Default, Debug)]
pub struct CaptureStats {
    written: AtomicU64,
    dropped: AtomicU64,
}

impl CaptureStats {
    /// Packets that went into the ring.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Packets the ring had no room for.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The core's end.
pub(crate) struct Recorder {
    pub(crate) ring: ByteProducer,
    stats: Arc<CaptureStats>,
    keep: usize,
    batch: u8,
}

impl Recorder {
    /// Begins a batch: the packets recorded from now on pass together.
    pub(crate) fn begin_batch(&mut self) {
        self.batch = self.batch.wrapping_add(1);
    }

    /// Copies the first bytes of a packet, which may lie in several parts, into the ring, or counts it as dropped.
    pub(crate) fn record<'a>(
        &mut self,
        at: Instant,
        outbound: bool,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
    ) {
        let len: usize = parts.clone().map(<[u8]>::len).sum();
        let kept = len.min(self.keep);
        if self.ring.room() < HEADER + kept {
            self.stats.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let batch = self.batch;
        let header = PacketHeader { at, kept: kept as u32, len: len as u32, outbound, batch };
        // There is room for everything: the consumer only ever makes more.
        self.ring.write(&header.bytes());
        let mut left = kept;
        for part in parts {
            left -= self.ring.write(&part[..part.len().min(left)]);
        }
        self.stats.written.fetch_add(1, Ordering::Relaxed);
    }
}

/// The writer's end.
pub struct Capture {
    ring: ByteConsumer,
    stats: Arc<CaptureStats>,
    /// The header of a packet whose bytes have not all arrived.
    pending: Option<PacketHeader>,
    packet: Vec<u8>,
    /// Brings states to packets, if that was asked for.
    annotator: Option<Annotator>,
}

/// A recorder for one core and the capture it feeds: at most `keep` bytes of each packet, `room` bytes in the ring.
pub(crate) fn ring_pair(keep: usize, room: usize) -> (Recorder, Capture) {
    let (producer, consumer) = bytes(room);
    let stats = Arc::<CaptureStats>::default();
    let recorder = Recorder { ring: producer, stats: stats.clone(), keep, batch: 0 };
    (recorder, Capture { ring: consumer, stats, pending: None, packet: Vec::new(), annotator: None })
}

/// Starts to record what passes `switch`: at most `keep` bytes of each packet, `room` bytes waiting to be written.
/// `clock` dates the packets.
pub fn capture(
    switch: &crate::Switch,
    clock: impl Fn() -> Instant + Send + 'static,
    keep: usize,
    room: usize,
) -> Capture {
    let (recorder, capture) = ring_pair(keep, room);
    switch.start(recorder, Box::new(clock));
    capture
}

/// Appends the beginning of a pcapng file: one interface per entry of `links`, numbered from 0.
pub fn write_start<'n>(into: &mut Vec<u8>, links: impl Iterator<Item = (LinkType, &'n str)>) {
    ng::write_section(into, "millstream");
    links.for_each(|(link, name)| ng::write_interface(into, link, name));
}

impl Capture {
    /// Makes the packets' comments tell the state of the connections they belong to, as it was before a packet that
    /// arrived was processed and after one that leaves was built. The probe is to be attached to the core whose port is
    /// tapped; `link` is what the packets start with.
    pub fn annotate(&mut self, link: LinkType) -> StateProbe {
        let (probe, annotator) = annotator(link);
        self.annotator = Some(annotator);
        probe
    }

    /// The next packet's header, once its bytes are in `packet`.
    fn take(&mut self) -> Option<PacketHeader> {
        let header = match self.pending.take() {
            Some(header) => header,
            None if self.ring.len() < HEADER => return None,
            None => {
                let mut bytes = [0; HEADER];
                self.ring.read(&mut bytes);
                PacketHeader::of(&bytes)
            }
        };
        if self.ring.len() < header.kept as usize {
            self.pending = Some(header);
            return None;
        }
        self.packet.resize(header.kept as usize, 0);
        self.ring.read(&mut self.packet);
        Some(header)
    }

    /// Appends every packet recorded so far as a pcapng block of interface `interface`; how many. Some that wait for
    /// the state of their connection come with a later call.
    pub fn drain(&mut self, interface: u32, into: &mut Vec<u8>) -> usize {
        self.drain_some(interface, into, false)
    }

    /// Like [`Capture::drain`], for the last time: nothing waits any longer.
    pub fn finish(&mut self, interface: u32, into: &mut Vec<u8>) -> usize {
        self.drain_some(interface, into, true)
    }

    fn drain_some(&mut self, interface: u32, into: &mut Vec<u8>, last: bool) -> usize {
        let mut count = 0;
        while let Some(header) = self.take() {
            match &mut self.annotator {
                Some(annotator) => annotator.hold(header, &self.packet),
                None => {
                    ng::write_packet(into, &header.block(interface, &self.packet, ""));
                    count += 1;
                }
            }
        }
        if let Some(annotator) = &mut self.annotator {
            annotator.release(last, |header, bytes, comment| {
                ng::write_packet(into, &header.block(interface, bytes, comment));
                count += 1;
            });
        }
        count
    }

    /// Returns the counters of packets recorded and missed.
    pub fn stats(&self) -> &CaptureStats {
        &self.stats
    }
}

#[cfg(test)]
mod tests;
