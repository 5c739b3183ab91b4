//! Packets from one core to another, copied: frames belong to the pool of the core that received them.

use crate::port::{BATCH_MAX, PacketIo, RxBatch, RxChecksum, RxMeta, RxPacket};
use ring::{ByteConsumer, ByteProducer, bytes};

/// Bytes of packets under way between two cores; more are dropped.
const ROOM: usize = 256 << 10;
/// Bytes before each frame: its length, the size of its segments, the packet's frames from here on, checksum.
const HEADER: usize = 12;

/// The sender's end.
pub(super) struct Outbox {
    bytes: ByteProducer,
    news: bool,
}

/// The receiver's end.
pub(super) struct Inbox {
    bytes: ByteConsumer,
}

/// Why a packet stays in its mailbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Later {
    /// The batch is full.
    Batch,
    /// The port has no frame.
    Frames,
}

/// A mailbox.
pub(super) fn mailbox() -> (Outbox, Inbox) {
    let (tx, rx) = bytes(ROOM);
    (Outbox { bytes: tx, news: false }, Inbox { bytes: rx })
}

fn header(packet: &RxPacket, frames: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&(packet.frame.len() as u32).to_ne_bytes());
    header[4..6].copy_from_slice(&packet.meta.gso_size.to_ne_bytes());
    header[6..8].copy_from_slice(&(frames as u16).to_ne_bytes());
    header[8] = match packet.meta.checksum {
        RxChecksum::Unverified => 0,
        RxChecksum::Verified => 1,
        RxChecksum::Partial => 2,
    };
    header
}

/// Length of the frame, frames of the packet from this one on, and its metadata.
fn read(header: [u8; HEADER]) -> (usize, usize, RxMeta) {
    let [a, b, c, d, gso_low, gso_high, frames_low, frames_high, checksum, ..] = header;
    let frames = usize::from(u16::from_ne_bytes([frames_low, frames_high]));
    let checksum = match checksum {
        1 => RxChecksum::Verified,
        2 => RxChecksum::Partial,
        _ => RxChecksum::Unverified,
    };
    let gso_size = u16::from_ne_bytes([gso_low, gso_high]);
    (u32::from_ne_bytes([a, b, c, d]) as usize, frames, RxMeta { checksum, gso_size, more: frames > 1 })
}

impl Outbox {
    /// Copies a packet, all frames of it or nothing. Returns false if there is no room.
    pub(super) fn push(&mut self, pieces: &[RxPacket]) -> bool {
        let len = pieces.iter().map(|piece| HEADER + piece.frame.len()).sum();
        if self.bytes.room() < len {
            return false;
        }
        let (mut first, mut second) = self.bytes.spare(len);
        for (at, piece) in pieces.iter().enumerate() {
            for mut from in [&header(piece, pieces.len() - at)[..], piece.frame.data()] {
                while !from.is_empty() {
                    if first.is_empty() {
                        (first, second) = (second, &mut []);
                    }
                    let (into, rest) = first.split_at_mut(from.len().min(first.len()));
                    let (now, later) = from.split_at(into.len());
                    into.copy_from_slice(now);
                    (first, from) = (rest, later);
                }
            }
        }
        // The whole packet is published at once, so the reader never sees a part of it.
        self.bytes.commit(len);
        self.news = true;
        true
    }

    /// Has anything been sent since this was last asked?
    pub(super) fn has_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }
}

impl Inbox {
    pub(super) fn has_mail(&mut self) -> bool {
        !self.bytes.is_empty()
    }

    /// Copies the next packet into frames of `port` and appends it to the batch. Returns false if it was dropped,
    /// because a frame is too small.
    pub(super) fn pop(&mut self, port: &mut impl PacketIo, batch: &mut RxBatch) -> Result<bool, Later> {
        let mut head = [0; HEADER];
        self.peek(&mut head);
        let (_, frames, _) = read(head);
        let before = batch.len();
        if before > 0 && before + frames > BATCH_MAX {
            return Err(Later::Batch);
        }
        for _ in 0..frames {
            let Some(frame) = port.take() else {
                batch.drain(before..).for_each(|packet| port.retire(packet.frame));
                return Err(Later::Frames);
            };
            batch.push(RxPacket { frame, meta: RxMeta::default() });
        }
        let mut fits = true;
        for packet in &mut batch[before..] {
            self.bytes.read(&mut head);
            let (len, _, meta) = read(head);
            let start = packet.frame.headroom();
            fits &= start + len <= packet.frame.capacity();
            if fits {
                packet.frame.set_range(start, len);
                self.bytes.read(packet.frame.data_mut());
                packet.meta = meta;
            } else {
                self.bytes.consume(len);
            }
        }
        if !fits {
            batch.drain(before..).for_each(|packet| port.retire(packet.frame));
        }
        Ok(fits)
    }

    fn peek(&mut self, into: &mut [u8; HEADER]) {
        let (first, second) = self.bytes.peek(HEADER);
        let (left, right) = into.split_at_mut(first.len());
        left.copy_from_slice(first);
        right.copy_from_slice(second);
    }
}
