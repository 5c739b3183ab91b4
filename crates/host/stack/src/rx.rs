//! The way in: a batch is walked three times, so that the cache misses of its packets overlap.
//!
//! First each packet is parsed, its flow hashed and the flow's bucket asked for; then each flow is looked up and its
//! connection asked for; then each segment is processed. What a pass found may be stale by the next (a segment of the
//! same batch opens or ends a connection): then it is looked up again.

use base::{Endpoint, FlowKey, Instant};
use pio::{BATCH_MAX, IoError, Medium, RxBatch, RxChecksum, RxMeta, RxPacket};
use wire::checksum::Sum;
use wire::ethernet;
use wire::packet::{Checked, Content, Packet, parse_frame, parse_ip};
use wire::protocol;
use wire::tcp::{Flags, Segment};

use crate::core::Core;
use crate::demux::Flow;
use crate::stats::PacketDrop;
use crate::turn::Turn;

/// Batches received in one turn at most.
const BATCHES: usize = 2;
/// Frames one packet may be spread over.
const PIECES_MAX: usize = 64;

/// A TCP segment of the batch.
pub(crate) struct Arrival {
    packet: Packet,
    key: FlowKey,
    hash: u64,
    flow: Option<Flow>,
    /// The table's version when `flow` was looked up.
    version: u32,
    /// Link-layer sender: where an answer that belongs to no connection goes.
    mac: [u8; 6],
    /// Its place in the batch, and how many frames it takes.
    at: u16,
    frames: u16,
}

/// What receiving needs from turn to turn, so that it need not be allocated.
pub(crate) struct Rx {
    batch: RxBatch,
    arrivals: Vec<Arrival>,
}

/// Who sent a segment, and to which flow it belongs.
#[derive(Clone, Copy)]
pub(crate) struct Sender {
    pub(crate) key: FlowKey,
    pub(crate) hash: u64,
    pub(crate) mac: [u8; 6],
}

impl Rx {
    pub(crate) fn new() -> Self {
        Rx { batch: RxBatch::with_capacity(BATCH_MAX), arrivals: Vec::with_capacity(BATCH_MAX) }
    }
}

impl Core {
    /// Receives and processes a bounded number of packets.
    pub(crate) fn receive(&mut self, now: Instant, turn: &mut Turn) -> Result<(), IoError> {
        let mut batch = std::mem::take(&mut self.rx.batch);
        let mut arrivals = std::mem::take(&mut self.rx.arrivals);
        let mut result = Ok(());
        for nth in 1..=BATCHES {
            match self.port.io.rx(&mut batch) {
                Ok(_) => {}
                Err(error) => result = Err(error),
            }
            let full = batch.len() >= BATCH_MAX;
            if batch.is_empty() {
                break;
            }
            turn.received += batch.len() as u32;
            self.survey(now, &batch, &mut arrivals);
            self.look_up(&mut arrivals);
            for arrival in arrivals.drain(..) {
                self.process(now, &arrival, &batch);
            }
            for packet in batch.drain(..) {
                self.port.io.retire(packet.frame);
            }
            if !full || result.is_err() {
                break;
            }
            turn.more |= nth == BATCHES;
        }
        self.stats.packets_in += u64::from(turn.received);
        self.rx.batch = batch;
        self.rx.arrivals = arrivals;
        result
    }

    /// First pass: what is it, whose is it? What is not TCP is dealt with on the spot.
    fn survey(&mut self, now: Instant, batch: &[RxPacket], arrivals: &mut Vec<Arrival>) {
        for packet in batch {
            ring::prefetch_octets(packet.frame.data());
        }
        let mut at = 0;
        while at < batch.len() {
            let frames = pieces(&batch[at..]);
            self.survey_one(now, &batch[at..at + frames], at, arrivals);
            at += frames;
        }
    }

    fn survey_one(&mut self, now: Instant, pieces: &[RxPacket], at: usize, arrivals: &mut Vec<Arrival>) {
        let frame = pieces[0].frame.data();
        let whole: usize = pieces.iter().map(|piece| piece.frame.len()).sum();
        self.stats.bytes_in += whole as u64;
        let (mac, content) = match self.port.caps.medium {
            Medium::Ip => ([0; 6], parse_ip(frame, whole).map(Content::Ip)),
            Medium::Ethernet => match parse_frame(frame, whole) {
                Ok(frame) if frame.link.dst == self.port.caps.mac || ethernet::is_group(&frame.link.dst) => {
                    (frame.link.src, Ok(frame.content))
                }
                Ok(_) => return self.drops.count(PacketDrop::NotForUs),
                Err(error) => ([0; 6], Err(error)),
            },
        };
        match content {
            Ok(Content::Ip(packet)) if packet.protocol == protocol::TCP => {
                let Some(&[a, b, c, d]) = packet.upper(frame).first_chunk() else {
                    return self.drops.count(PacketDrop::TcpHeader);
                };
                let local = Endpoint::new(packet.dst, u16::from_be_bytes([c, d]));
                let remote = Endpoint::new(packet.src, u16::from_be_bytes([a, b]));
                let key = FlowKey::new(local, remote);
                let hash = self.table.hash(&key);
                self.table.prefetch(hash);
                let (at, frames) = (at as u16, pieces.len() as u16);
                arrivals.push(Arrival { packet, key, hash, flow: None, version: 0, mac, at, frames });
            }
            Ok(Content::Ip(packet)) if matches!(packet.protocol, protocol::ICMP | protocol::ICMPV6) => {
                self.on_icmp(now, &packet, frame, mac);
            }
            Ok(Content::Arp(packet)) => self.on_arp(now, &packet),
            Ok(Content::Ip(_)) | Err(_) => self.drops.count(PacketDrop::Parse),
        }
    }

    /// Second pass: which connection, probably? Its memory is asked for.
    fn look_up(&self, arrivals: &mut [Arrival]) {
        for arrival in arrivals {
            arrival.flow = self.table.candidate(arrival.hash);
            arrival.version = self.table.version();
            match arrival.flow {
                Some(Flow::Connection(index)) => self.conns.prefetch(index),
                Some(Flow::TimeWait(index)) => self.waits.prefetch(index),
                None => {}
            }
        }
    }

    /// Third pass: verify and deliver.
    fn process(&mut self, now: Instant, arrival: &Arrival, batch: &[RxPacket]) {
        let first = usize::from(arrival.at);
        let pieces = &batch[first..first + usize::from(arrival.frames)];
        let frame = pieces[0].frame.data();
        let Ok((_, _, mut segment)) = arrival.packet.tcp(frame) else {
            return self.drops.count(PacketDrop::TcpHeader);
        };
        let whole = pieces.len() == 1;
        let meta = pieces[0].meta;
        let sound =
            if whole { self.is_sound(arrival, meta, frame) } else { self.are_sound(arrival, meta, pieces) };
        if !sound {
            return self.drops.count(PacketDrop::Checksum);
        }
        let sender = Sender { key: arrival.key, hash: arrival.hash, mac: arrival.mac };
        let flow = match arrival.flow {
            Some(flow) if self.is_flow(flow, &arrival.key) => Some(flow),
            None if arrival.version == self.table.version() => None,
            _ => self.find(arrival.hash, &arrival.key),
        };
        if whole {
            segment.merged = merged(segment.payload.len(), meta.gso_size);
            self.on_segment(now, flow, &sender, &segment);
        } else {
            self.deliver_pieces(now, flow, &sender, segment, &pieces[1..]);
        }
    }

    /// Is the checksum right, or as good as right?
    #[inline]
    fn is_sound(&self, arrival: &Arrival, meta: RxMeta, frame: &[u8]) -> bool {
        if meta.checksum != RxChecksum::Unverified {
            return true;
        }
        match arrival.packet.checksum(frame) {
            Checked::Good => true,
            Checked::Partial => self.port.caps.local_peer,
            Checked::Bad => false,
        }
    }

    /// The same for a packet in several frames.
    fn are_sound(&self, arrival: &Arrival, meta: RxMeta, pieces: &[RxPacket]) -> bool {
        let head = arrival.packet.upper(pieces[0].frame.data());
        let rest: usize = pieces[1..].iter().map(|piece| piece.frame.len()).sum();
        if head.len() + rest != arrival.packet.len() as usize {
            return false;
        }
        if meta.checksum != RxChecksum::Unverified {
            return true;
        }
        let mut sum = arrival.packet.pseudo().plus(Sum::of(head));
        let mut offset = head.len();
        for piece in &pieces[1..] {
            sum = sum.plus_at(offset, Sum::of(piece.frame.data()));
            offset += piece.frame.len();
        }
        // A partial sum looks wrong over the whole and right over the first frame's field.
        sum.is_valid()
            || self.port.caps.local_peer
                && arrival.packet.checksum(pieces[0].frame.data()) == Checked::Partial
    }

    /// A packet in several frames becomes several segments, each continuing the one before; the last has the FIN.
    fn deliver_pieces(
        &mut self,
        now: Instant,
        mut flow: Option<Flow>,
        sender: &Sender,
        first: Segment<'_>,
        rest: &[RxPacket],
    ) {
        let last = Flags(first.flags.0 & (Flags::FIN | Flags::PSH).0);
        let early = Flags(first.flags.0 & !last.0);
        let mut segment = Segment { flags: early, ..first };
        for piece in rest {
            self.on_segment(now, flow, sender, &segment);
            segment.seq += segment.payload.len() as u32;
            segment.payload = piece.frame.data();
            flow = self.find(sender.hash, &sender.key);
        }
        segment.flags = early | last;
        self.on_segment(now, flow, sender, &segment);
    }
}

/// How many frames at the front of `batch` make one packet.
fn pieces(batch: &[RxPacket]) -> usize {
    let more = batch.iter().take(PIECES_MAX - 1).take_while(|packet| packet.meta.more).count();
    (more + 1).min(batch.len())
}

/// Segments of the wire in a super-segment.
fn merged(len: usize, gso_size: u16) -> u16 {
    if gso_size == 0 || len == 0 { 1 } else { len.div_ceil(usize::from(gso_size)) as u16 }
}
