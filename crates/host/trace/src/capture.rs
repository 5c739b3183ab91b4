//! The way of a recorded packet from the core to whoever writes it down: one byte ring, drops counted, never a wait.

use base::Instant;
use ring::bytes::{ByteConsumer, ByteProducer, bytes};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::pcap::LinkType;
use wire::pcap::ng::{self, Direction, Packet};

/// Octets before each packet in the ring: nanoseconds, octets kept, octets on the wire, direction.
const HEADER: usize = 8 + 4 + 4 + 1;

/// What became of the packets offered to a capture.
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
    ring: ByteProducer,
    stats: Arc<CaptureStats>,
    keep: usize,
}

impl Recorder {
    /// Copies the first octets of a packet, which may lie in several parts, into the ring, or counts it as dropped.
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
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&at.as_nanos().to_le_bytes());
        header[8..12].copy_from_slice(&(kept as u32).to_le_bytes());
        header[12..16].copy_from_slice(&(len as u32).to_le_bytes());
        header[16] = outbound.into();
        // There is room for everything: the consumer only ever makes more.
        self.ring.write(&header);
        let mut left = kept;
        for part in parts {
            left -= self.ring.write(&part[..part.len().min(left)]);
        }
        self.stats.written.fetch_add(1, Ordering::Relaxed);
    }

    /// Nobody reads any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.ring.is_abandoned()
    }
}

/// The writer's end.
pub struct Capture {
    ring: ByteConsumer,
    stats: Arc<CaptureStats>,
    /// The header of a packet whose octets have not all arrived.
    pending: Option<[u8; HEADER]>,
    packet: Vec<u8>,
}

/// A recorder for one core and the capture it feeds: at most `keep` octets of each packet, `room` octets in the ring.
pub(crate) fn ring_pair(keep: usize, room: usize) -> (Recorder, Capture) {
    let (producer, consumer) = bytes(room);
    let stats = Arc::<CaptureStats>::default();
    let recorder = Recorder { ring: producer, stats: stats.clone(), keep };
    (recorder, Capture { ring: consumer, stats, pending: None, packet: Vec::new() })
}

/// Starts to record what passes `switch`: at most `keep` octets of each packet, `room` octets waiting to be written.
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
    /// Appends every packet recorded so far as a pcapng block of interface `interface`; how many.
    pub fn drain(&mut self, interface: u32, into: &mut Vec<u8>) -> usize {
        let mut count = 0;
        loop {
            let header = match self.pending.take() {
                Some(header) => header,
                None => {
                    let mut header = [0; HEADER];
                    if self.ring.len() < HEADER {
                        return count;
                    }
                    self.ring.read(&mut header);
                    header
                }
            };
            let word =
                |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
            let kept = word(8) as usize;
            if self.ring.len() < kept {
                self.pending = Some(header);
                return count;
            }
            self.packet.resize(kept, 0);
            self.ring.read(&mut self.packet);
            let nanos = u64::from(word(4)) << 32 | u64::from(word(0));
            ng::write_packet(
                into,
                &Packet {
                    interface,
                    at: Instant::from_nanos(nanos),
                    original_len: word(12),
                    data: &self.packet,
                    direction: Some(if header[16] == 1 { Direction::Outbound } else { Direction::Inbound }),
                    comment: "",
                },
            );
            count += 1;
        }
    }

    /// What was recorded and what was not.
    pub fn stats(&self) -> &CaptureStats {
        &self.stats
    }
}

#[cfg(test)]
mod tests {
    //! Goal: what was written comes out in order; what found no room is counted; written + dropped = offered.
    use super::*;

    #[test]
    fn conservation() {
        let (mut recorder, mut capture) = ring_pair(96, 4_096);
        let mut out = Vec::new();
        let mut got = 0;
        for i in 0..10_000u64 {
            let data = vec![i as u8; (i * 31 % 1_500) as usize];
            recorder.record(Instant::from_micros(i), i % 3 == 0, data.chunks(500));
            if i % 100 == 99 {
                got += capture.drain(0, &mut out);
            }
        }
        got += capture.drain(0, &mut out);
        let stats = capture.stats();
        assert_eq!(got as u64, stats.written());
        assert_eq!(stats.written() + stats.dropped(), 10_000);
        assert!(stats.dropped() > 0 && stats.written() > 1_000);
    }
}
