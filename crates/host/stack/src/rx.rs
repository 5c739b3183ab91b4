//! The way in: a batch is walked three times, so that the cache misses of its packets overlap.
//!
//! First each packet is parsed, its flow hashed, the flow's bucket asked for and the checksum verified; then
//! each flow is looked up and its connection asked for; then each segment is processed. What a pass found may
//! be stale by the next (a segment of the same batch opens or ends a connection): then it is looked up again.

use base::{Endpoint, FlowKey, Instant};
use offload::{BatchGro, MERGE_WORTH};
use pio::{BATCH_MAX, Gro, Medium, RxBatch, RxChecksum, RxPacket};
use tcp::ADOPTED_MIN;
use wire::checksum::{Sum, is_partial};
use wire::packet::{Content, Packet, parse_frame, parse_ip, plain_tcp_v4};
use wire::tcp::{CHECKSUM_OFFSET, Pieces, Raw, Segment};
use wire::{Ecn, ParseError, ethernet, protocol};

use crate::core::Core;
use crate::merge::{self, Offload};
use crate::stats::PacketDrop;
use crate::tables::flows::Flow;
use crate::turn::Turn;

/// Batches received in one turn at most, unless said otherwise.
pub(crate) const BATCHES: u8 = 2;
/// Frames one packet may be spread over.
const PIECES_MAX: usize = 64;

/// A TCP segment of the batch.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) key: FlowKey,
    pub(crate) hash: u64,
    pub(crate) flow: Option<Flow>,
    /// Where TCP starts and ends, from the first byte of the frame; it may end in a later one.
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Its place in the batch, and how many frames it takes.
    pub(crate) at: u16,
    pub(crate) frames: u16,
    /// DSCP and ECN.
    pub(crate) tos: u8,
}

/// Buffers of receiving, kept from turn to turn to avoid allocation.
pub(crate) struct Rx {
    pub(crate) batch: RxBatch,
    pub(crate) arrivals: Vec<Arrival>,
    /// The flow table's version when the arrivals were looked up.
    version: u32,
    /// Packets that continue each other, if they are to be delivered as one.
    pub(crate) merged_runs: Option<Box<BatchGro>>,
    /// Holds packets before they are delivered, if that is on.
    pub(crate) gro: Option<Box<Gro>>,
}

/// Sender of a segment, and its flow.
#[derive(Clone, Copy)]
pub(crate) struct Sender<'a> {
    pub(crate) key: &'a FlowKey,
    pub(crate) hash: u64,
    /// Header and data, which a signature covers.
    pub(crate) tcp: &'a [u8],
    pub(crate) frame: &'a [u8],
    /// The batch it came with.
    pub(crate) batch: &'a [RxPacket],
}

impl Rx {
    pub(crate) fn new(offload: Offload, batches: u8) -> Self {
        let gro = offload.gro().map(Box::new);
        let batch = if gro.is_some() { Gro::up_max(batches.into()) } else { BATCH_MAX };
        Rx {
            batch: RxBatch::with_capacity(batch),
            arrivals: Vec::with_capacity(batch),
            version: 0,
            merged_runs: (offload != Offload::Off).then(|| Box::new(BatchGro::new(batch))),
            gro,
        }
    }
}

impl Core {
    /// Receives and processes a bounded number of packets.
    /// RFC 9293, MUST-59.
    pub(crate) fn receive(&mut self, now: Instant, rx: &mut Rx, turn: &mut Turn) {
        self.end_adopted();
        if rx.gro.is_some() {
            return self.receive_held(now, rx, turn);
        }
        let mut left = self.batches;
        while left > 0 {
            left -= 1;
            if let Err(error) = self.port.io.rx(&mut rx.batch) {
                self.fail(error);
            }
            let received = rx.batch.len();
            if received == 0 {
                break;
            }
            turn.received += received as u32;
            let long = ask_for(&rx.batch);
            self.parse_batch(now, rx, long);
            self.deliver_batch(now, rx);
            if received < BATCH_MAX {
                break;
            }
            turn.more |= left == 0;
        }
        self.stats.packets_in += u64::from(turn.received);
    }

    /// The batch is looked up and processed, and its frames go back.
    #[inline]
    pub(crate) fn deliver_batch(&mut self, now: Instant, rx: &mut Rx) {
        self.look_up(rx);
        self.process_all(now, rx);
        rx.arrivals.clear();
        self.shared.adopted.put_away(&mut rx.batch, self.port.io.as_mut());
    }

    /// First pass: what is it, whose is it, is it whole? What is not TCP is dealt with on the spot. `long` packets may
    /// continue each other.
    #[inline]
    fn parse_batch(&mut self, now: Instant, rx: &mut Rx, long: u32) {
        let Rx { batch, arrivals, merged_runs, .. } = rx;
        if long > 1
            && let Some(merged_runs) = merged_runs
            && self.shared.merges()
        {
            return self.parse_merged_runs(now, batch, arrivals, merged_runs);
        }
        let mut at = 0;
        while at < batch.len() {
            let frames = pieces(&batch[at..]);
            self.parse_one(now, &batch[at..at + frames], at, arrivals);
            at += frames;
        }
    }

    /// Parses a batch in which packets may continue each other.
    #[inline(never)]
    fn parse_merged_runs(
        &mut self,
        now: Instant,
        batch: &RxBatch,
        arrivals: &mut Vec<Arrival>,
        merged_runs: &mut BatchGro,
    ) {
        merged_runs.begin();
        let ip = self.ip_start();
        let (summer, mut joined) = (self.port.summer, 0);
        let mut at = 0;
        while at < batch.len() {
            let frames = pieces(&batch[at..]);
            if frames == 1 && merge::joins(merged_runs, batch, at, ip, summer) {
                joined += batch[at].frame.len() as u64;
                at += 1;
                let more = merge::follow(merged_runs, batch, at, summer);
                // They are of one length.
                joined += batch.get(at).map_or(0, |packet| packet.frame.len() * more) as u64;
                at += more;
                continue;
            }
            let before = arrivals.len();
            self.parse_one(now, &batch[at..at + frames], at, arrivals);
            for arrival in &arrivals[before..] {
                merged_runs.pass(arrival.at, &arrival.key);
            }
            at += frames;
        }
        self.stats.bytes_in += joined;
    }

    /// Where IP headers start in the port's packets.
    #[inline]
    pub(crate) fn ip_start(&self) -> usize {
        if self.port.caps.medium == Medium::Ethernet { ethernet::HEADER_LEN } else { 0 }
    }

    #[inline(always)]
    pub(crate) fn parse_one(
        &mut self,
        now: Instant,
        pieces: &[RxPacket],
        at: usize,
        arrivals: &mut Vec<Arrival>,
    ) {
        let frame = pieces[0].frame.data();
        let whole = match pieces {
            [_] => frame.len(),
            _ => pieces.iter().map(|piece| piece.frame.len()).sum(),
        };
        self.stats.bytes_in += whole as u64;
        let ethernet = self.port.caps.medium == Medium::Ethernet;
        let ip = if ethernet { ethernet::HEADER_LEN } else { 0 };
        let ours = !ethernet || self.is_plainly_ours(frame);
        let plain = if ours { plain_tcp_v4(frame, ip, whole) } else { None };
        let lot = (at, pieces);
        match plain {
            Some(packet) => self.enqueue(packet, lot, arrivals),
            None => self.parse_other(now, lot, whole, arrivals),
        }
    }

    /// A TCP packet, in the pieces of the batch from a place on.
    /// RFC 9293, MUST-3.
    #[inline(always)]
    fn enqueue(&mut self, packet: Packet, (at, pieces): (usize, &[RxPacket]), arrivals: &mut Vec<Arrival>) {
        let RxPacket { frame, meta } = &pieces[0];
        let upper = packet.upper(frame.data());
        let alone = pieces.len() == 1;
        let Some(&[a, b, c, d]) = upper.first_chunk() else {
            return self.drops.count(PacketDrop::TcpHeader);
        };
        let local = Endpoint::new(packet.dst, u16::from_be_bytes([c, d]));
        let remote = Endpoint::new(packet.src, u16::from_be_bytes([a, b]));
        let key = FlowKey::new(local, remote);
        let hash = self.table.hash(&key);
        self.table.prefetch(hash);
        // Meanwhile the bucket is on its way.
        if !alone || meta.checksum == RxChecksum::Unverified {
            let sum = packet.pseudo().plus((self.port.summer)(upper));
            let sound = alone && sum.is_valid() || self.is_sound(packet, sum, upper, pieces);
            if !sound {
                return self.drops.count(PacketDrop::Checksum);
            }
        }
        let (at, frames) = (at as u16, pieces.len() as u16);
        let Packet { start, end, tos, .. } = packet;
        arrivals.push(Arrival { key, hash, flow: None, start, end, at, frames, tos });
    }

    /// Whatever is not plain.
    #[inline(never)]
    fn parse_other(
        &mut self,
        now: Instant,
        lot: (usize, &[RxPacket]),
        whole: usize,
        arrivals: &mut Vec<Arrival>,
    ) {
        let frame = lot.1[0].frame.data();
        let parsed = match self.port.caps.medium {
            Medium::Ip => parse_ip(frame, whole).map(Content::Ip),
            Medium::Ethernet => parse_frame(frame, whole).map(|frame| frame.content),
        };
        if self.port.caps.medium == Medium::Ethernet && !self.is_for_us(frame) {
            return self.drops.count(PacketDrop::NotForUs);
        }
        match parsed {
            // A connection has one peer: a frame to many is not for it (RFC 1122, section 3.3.6).
            Ok(Content::Ip(packet)) if packet.protocol == protocol::TCP && self.is_to_many(frame) => {
                self.drops.count(PacketDrop::NotForUs);
            }
            Ok(Content::Ip(packet)) if packet.protocol == protocol::TCP => {
                self.enqueue(packet, lot, arrivals);
            }
            Ok(Content::Ip(packet)) if matches!(packet.protocol, protocol::ICMP | protocol::ICMPV6) => {
                self.on_icmp(now, &packet, frame, sender_of(frame, self.port.caps.medium));
            }
            Ok(Content::Arp(packet)) => self.on_arp(now, &packet),
            Err(ParseError::IpFragment) => self.drops.count(PacketDrop::Fragment),
            Err(
                ParseError::ExtensionCount
                | ParseError::ExtensionMalformed
                | ParseError::ExtensionOption
                | ParseError::RoutingHeader,
            ) => self.drops.count(PacketDrop::Extension),
            Ok(Content::Ip(_)) | Err(_) => self.drops.count(PacketDrop::Parse),
        }
    }

    /// IPv4, to our own link-layer address?
    #[inline(always)]
    fn is_plainly_ours(&self, frame: &[u8]) -> bool {
        frame.first_chunk::<{ ethernet::HEADER_LEN }>().is_some_and(|header| {
            header.first_chunk() == Some(&self.port.caps.mac) && header.last_chunk() == Some(&IPV4)
        })
    }

    /// Is the frame's link-layer destination ours, or a group's?
    fn is_for_us(&self, frame: &[u8]) -> bool {
        frame.first_chunk().is_none_or(|dst| *dst == self.port.caps.mac || ethernet::is_group(dst))
    }

    /// Is the frame's link-layer destination a group's?
    fn is_to_many(&self, frame: &[u8]) -> bool {
        self.port.caps.medium == Medium::Ethernet && frame.first_chunk().is_some_and(ethernet::is_group)
    }

    /// Second pass: which connection, probably? Its memory is asked for.
    pub(crate) fn look_up(&self, rx: &mut Rx) {
        rx.version = self.table.version();
        self.table.prefetch_far(rx.arrivals.iter().map(|arrival| arrival.hash));
        for arrival in &mut rx.arrivals {
            arrival.flow = self.table.candidate(arrival.hash);
            match arrival.flow {
                Some(Flow::Connection(index)) => {
                    self.conns.prefetch(index);
                    self.wheel.prefetch(index);
                }
                Some(Flow::TimeWait(index)) => self.time_waits.prefetch(index),
                None => {}
            }
        }
    }

    /// Third pass: deliver.
    #[inline]
    pub(crate) fn process_all(&mut self, now: Instant, rx: &mut Rx) {
        let Rx { batch, arrivals, version, merged_runs, .. } = rx;
        if let Some(merged_runs) = merged_runs.as_mut().filter(|merged_runs| !merged_runs.is_empty()) {
            self.process_merged_runs(now, arrivals, batch, *version, merged_runs);
            return merged_runs.clear();
        }
        for arrival in arrivals {
            self.process(now, arrival, batch, *version);
        }
    }

    #[inline(always)]
    pub(crate) fn process(&mut self, now: Instant, arrival: &Arrival, batch: &RxBatch, version: u32) {
        let first = usize::from(arrival.at);
        let pieces = &batch[first..first + usize::from(arrival.frames)];
        let RxPacket { frame, meta } = &pieces[0];
        let frame = frame.data();
        let upper =
            frame.get(arrival.start as usize..frame.len().min(arrival.end as usize)).unwrap_or_default();
        let Ok(raw) = Raw::of(upper) else {
            return self.drops.count(PacketDrop::TcpHeader);
        };
        let mut segment = raw.segment();
        raw.read_options(&mut segment);
        segment.ecn = Ecn::of(arrival.tos);
        let flow = self.flow_of(arrival, version);
        let sender = Sender { key: &arrival.key, hash: arrival.hash, tcp: upper, frame, batch };
        segment.merged = merged(segment.payload.len(), meta.gso_size);
        if pieces.len() > 1 || segment.payload.len() >= ADOPTED_MIN {
            return self.on_long(now, flow, &sender, segment, arrival);
        }
        self.on_segment(now, flow, &sender, &segment);
    }

    /// Returns the flow of a packet that was looked up when the flow table had that version.
    #[inline(always)]
    pub(crate) fn flow_of(&self, arrival: &Arrival, version: u32) -> Option<Flow> {
        match arrival.flow {
            Some(flow) if self.is_flow(flow, &arrival.key) => Some(flow),
            None if version == self.table.version() => None,
            _ => self.find(arrival.hash, &arrival.key),
        }
    }

    /// Is the checksum over all pieces, `sum` over the first of them, right or as good as right? Partial checksums are
    /// counted, for nothing but their value tells that the sender is on this machine.
    #[inline(never)]
    fn is_sound(&mut self, packet: Packet, mut sum: Sum, upper: &[u8], pieces: &[RxPacket]) -> bool {
        let len = packet.len();
        let mut bytes = upper.len();
        for piece in &pieces[1..] {
            sum = sum.plus_at(bytes, (self.port.summer)(piece.frame.data()));
            bytes += piece.frame.len();
        }
        let whole = bytes == len as usize;
        if sum.is_valid() || pieces[0].meta.checksum != RxChecksum::Unverified {
            return whole;
        }
        let field =
            upper.get(CHECKSUM_OFFSET..).and_then(<[u8]>::first_chunk).copied().map(u16::from_be_bytes);
        let partial =
            self.port.caps.local_peer && field.is_some_and(|field| is_partial(field, packet.pseudo()));
        self.stats.partial_checksums += u64::from(whole && partial);
        whole && partial
    }

    /// A packet in several frames, or one whose payload is worth adopting.
    #[inline(never)]
    fn on_long(
        &mut self,
        now: Instant,
        flow: Option<Flow>,
        sender: &Sender<'_>,
        segment: Segment<'_>,
        arrival: &Arrival,
    ) {
        let first = usize::from(arrival.at);
        let (packet, rest) =
            (&sender.batch[first], Others(&sender.batch[first + 1..][..usize::from(arrival.frames) - 1]));
        if !rest.is_empty() {
            if segment.options.signature.is_some() {
                return self.deliver_signed(now, flow, sender, &segment, rest.0);
            }
            let merged = merged(segment.payload.len() + rest.len() as usize, packet.meta.gso_size);
            return self.on_segment(now, flow, sender, &Segment { merged, rest: Some(&rest), ..segment });
        }
        if segment.merged > 1 && self.port.caps.wants_round_trips {
            self.tell_port(flow, &arrival.key);
        }
        if let Some(index) = self.may_adopt(flow, sender.batch) {
            let end = packet.frame.len().min(arrival.end as usize);
            self.shared.adopted.offer_one(index, arrival.at, end - segment.payload.len()..end);
            return self.on_offered(now, index, sender, &segment);
        }
        self.on_segment(now, flow, sender, &segment);
    }

    /// A signature covers the whole of a packet.
    #[cold]
    fn deliver_signed(
        &mut self,
        now: Instant,
        flow: Option<Flow>,
        sender: &Sender<'_>,
        first: &Segment<'_>,
        rest: &[RxPacket],
    ) {
        let mut whole = sender.tcp.to_vec();
        for piece in rest {
            whole.extend_from_slice(piece.frame.data());
        }
        let header = sender.tcp.len() - first.payload.len();
        let segment = Segment { payload: &whole[header..], ..*first };
        self.on_segment(now, flow, &Sender { tcp: &whole, ..*sender }, &segment);
    }
}

/// The EtherType of IPv4 as it lies in the frame.
const IPV4: [u8; 2] = ethernet::IPV4.to_be_bytes();

impl Sender<'_> {
    /// The link-layer sender: where an answer that belongs to no connection goes.
    pub(crate) fn mac(&self, medium: Medium) -> [u8; 6] {
        sender_of(self.frame, medium)
    }
}

fn sender_of(frame: &[u8], medium: Medium) -> [u8; 6] {
    match medium {
        Medium::Ethernet => frame.get(6..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default(),
        Medium::Ip => [0; 6],
    }
}

/// Asks for the bytes of a batch of several; how many of its packets may continue each other.
#[inline]
fn ask_for(batch: &RxBatch) -> u32 {
    let may_join = |RxPacket { frame, meta }: &RxPacket| frame.len() >= MERGE_WORTH || meta.more;
    if let [only] = &batch[..] {
        return may_join(only).into();
    }
    let mut long = 0;
    for packet in batch {
        ring::prefetch_bytes(packet.frame.data());
        long += u32::from(may_join(packet));
    }
    long
}

/// How many frames at the front of `batch` make one packet: mostly one.
#[inline]
pub(crate) fn pieces(batch: &[RxPacket]) -> usize {
    if !batch[0].meta.more {
        return 1;
    }
    let more = batch.iter().take(PIECES_MAX - 1).take_while(|packet| packet.meta.more).count();
    (more + 1).min(batch.len())
}

/// The frames of a packet behind the first.
struct Others<'a>(&'a [RxPacket]);

impl Pieces for Others<'_> {
    fn len(&self) -> u32 {
        self.0.iter().map(|packet| packet.frame.len() as u32).sum()
    }

    fn for_each(&self, each: &mut dyn FnMut(&[u8]) -> bool) {
        let _all = self.0.iter().all(|packet| each(packet.frame.data()));
    }
}

/// Segments of the wire in a super-segment.
fn merged(len: usize, gso_size: u16) -> u16 {
    if gso_size == 0 || len == 0 { 1 } else { len.div_ceil(usize::from(gso_size)) as u16 }
}
