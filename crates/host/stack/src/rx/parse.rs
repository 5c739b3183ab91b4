//! First pass of receiving: packets are classified, their flows hashed, their checksums verified. What is not TCP is
//! dealt with on the spot.

use base::{Endpoint, FlowKey, Instant};
use offload::{BatchGro, MERGE_WORTH};
use pio::{Medium, RxBatch, RxChecksum, RxPacket};
use wire::checksum::{Sum, Summer, is_partial};
use wire::packet::{Content, Packet, parse_frame, parse_ip, plain_tcp_v4};
use wire::tcp::CHECKSUM_OFFSET;
use wire::{ParseError, ethernet, protocol};

use crate::core::Core;
use crate::rx::batch::{Arrival, Rx, sender_of};
use crate::stats::PacketDrop;

/// Frames one packet may be spread over.
const PIECES_MAX: usize = 64;

/// The EtherType of IPv4 as it lies in the frame.
const IPV4: [u8; 2] = ethernet::IPV4.to_be_bytes();

impl Core {
    /// First pass: what is it, whose is it, is it whole? What is not TCP is dealt with on the spot.
    #[inline]
    pub(super) fn parse_batch(&mut self, now: Instant, rx: &mut Rx) {
        let long = ask_for(&rx.batch);
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
        let ip = self.port.caps.medium.header_len();
        let (summer, mut joined) = (self.port.summer, 0);
        let mut at = 0;
        while at < batch.len() {
            let frames = pieces(&batch[at..]);
            let count = if frames == 1 { join(merged_runs, batch, at, ip, summer) } else { 0 };
            if count > 0 {
                // All but the first are of one length.
                let len = |at: usize| batch.get(at).map_or(0, |packet| packet.frame.len());
                joined += (len(at) + len(at + 1) * (count - 1)) as u64;
                at += count;
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
        let medium = self.port.caps.medium;
        let ours = medium == Medium::Ip || self.is_plainly_ours(frame);
        let plain = if ours { plain_tcp_v4(frame, medium.header_len(), whole) } else { None };
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

/// Returns how many packets of a batch, from place `at` on, join the merged run of the packet before them of their
/// flow. Packets that the link has merged already join none.
#[inline]
fn join(merged_runs: &mut BatchGro, batch: &[RxPacket], at: usize, ip: usize, summer: Summer) -> usize {
    let plain = |packet: &&RxPacket| packet.meta.gso_size == 0 && !packet.meta.more;
    let unsure = |packet: &RxPacket| packet.meta.checksum == RxChecksum::Unverified;
    let next = &batch[at];
    if !plain(&next) {
        return 0;
    }
    let first = |first: u16| Some(&batch[usize::from(first)]).filter(plain).map(|packet| packet.frame.data());
    if !merged_runs.offer(at as u16, next.frame.data(), ip, unsure(next).then_some(summer), first) {
        return 0;
    }
    let others = batch[at + 1..].iter().take_while(plain);
    let others = others.map(|packet| (packet.frame.data(), unsure(packet)));
    1 + usize::from(merged_runs.follow(at as u16 + 1, others, summer))
}
