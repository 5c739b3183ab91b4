//! Third pass of receiving: segments, and merged runs of them, are delivered to their connections.

use base::{Duration, FlowKey, Instant};
use offload::{BatchGro, MergedRun};
use pio::{RxBatch, RxPacket};
use tcp::{ADOPTED_MIN, Disposition, Events, Stray};
use wire::Ecn;
use wire::tcp::{Flags, Pieces, Raw, Segment};

use crate::core::Core;
use crate::rx::{Arrival, Rx, Sender};
use crate::stats::PacketDrop;
use crate::tables::conns::SlotFlags;
use crate::tables::flows::Flow;

impl Core {
    /// Third pass: deliver.
    #[inline]
    pub(super) fn deliver_all(&mut self, now: Instant, rx: &mut Rx) {
        let Rx { batch, arrivals, version, merged_runs, .. } = rx;
        let runs = merged_runs.as_deref().filter(|runs| !runs.is_empty());
        for arrival in arrivals {
            match runs.and_then(|runs| Some((runs, runs.run_at(arrival.at)?))) {
                Some(run) => self.deliver_run(now, arrival, batch, *version, run),
                None => self.deliver_one(now, arrival, batch, *version),
            }
        }
        if let Some(runs) = merged_runs.as_deref_mut().filter(|runs| !runs.is_empty()) {
            runs.clear();
        }
    }

    /// Delivers a packet.
    #[inline(always)]
    fn deliver_one(&mut self, now: Instant, arrival: &Arrival, batch: &RxBatch, version: u32) {
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
            return self.on_long(now, flow, &sender, &segment, arrival);
        }
        match flow {
            Some(Flow::Connection(index)) => self.deliver(now, index, &sender, &segment),
            _ => self.on_unconnected(now, flow, &sender, &segment),
        }
    }

    /// Delivers the merged run that `arrival` is the first of: the header of its first packet, PSH of its last.
    #[inline(never)]
    fn deliver_run(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        batch: &[RxPacket],
        version: u32,
        (merged_runs, run): (&BatchGro, &MergedRun),
    ) {
        let flow = self.flow_of(arrival, version);
        let frame = batch[usize::from(arrival.at)].frame.data();
        let tcp = frame.get(arrival.start as usize..arrival.end as usize).unwrap_or_default();
        let Ok(raw) = Raw::of(tcp) else { return self.drops.count(PacketDrop::TcpHeader) };
        let mut segment = raw.segment();
        raw.read_options(&mut segment);
        segment.merged = run.count();
        segment.ecn = Ecn::of(arrival.tos);
        segment.flags.0 |= if run.is_pushed() { Flags::PSH.0 } else { 0 };
        let sender = Sender { key: &arrival.key, hash: arrival.hash, tcp, frame, batch };
        let rest = Followers { batch, merged_runs, run, head: arrival.at };
        segment.rest = Some(&rest);
        match self.may_adopt(flow, batch) {
            Some(index) => {
                self.shared.adopted.offer_run(index, merged_runs, run, arrival.at);
                self.on_offered(now, index, &sender, &segment);
            }
            None => self.on_segment(now, flow, &sender, &segment),
        }
    }

    /// A packet in several frames, or one whose payload is worth adopting.
    #[inline(never)]
    fn on_long(
        &mut self,
        now: Instant,
        flow: Option<Flow>,
        sender: &Sender<'_>,
        segment: &Segment<'_>,
        arrival: &Arrival,
    ) {
        let first = usize::from(arrival.at);
        let (packet, rest) =
            (&sender.batch[first], Others(&sender.batch[first + 1..][..usize::from(arrival.frames) - 1]));
        if !rest.is_empty() {
            if segment.options.signature.is_some() {
                return self.deliver_signed(now, flow, sender, segment, rest.0);
            }
            let merged = merged(segment.payload.len() + rest.len() as usize, packet.meta.gso_size);
            return self.on_segment(now, flow, sender, &Segment { merged, rest: Some(&rest), ..*segment });
        }
        if segment.merged > 1 && self.port.caps.wants_round_trips {
            self.tell_port(flow, &arrival.key);
        }
        if let Some(index) = self.may_adopt(flow, sender.batch) {
            let end = packet.frame.len().min(arrival.end as usize);
            self.shared.adopted.offer_one(index, arrival.at, end - segment.payload.len()..end);
            return self.on_offered(now, index, sender, segment);
        }
        self.on_segment(now, flow, sender, segment);
    }

    /// Returns the connection that may adopt a payload of the batch.
    #[inline]
    fn may_adopt(&self, flow: Option<Flow>, batch: &[RxPacket]) -> Option<u32> {
        let Some(Flow::Connection(index)) = flow else { return None };
        let checked = self.conns.slot(index).meta.flags.has(SlotFlags::HALF_OPEN | SlotFlags::SIGNED);
        (!checked && self.shared.adopted.takes(batch.len())).then_some(index)
    }

    /// A segment for a connection arrived whose payload was offered to it.
    #[inline(always)]
    fn on_offered(&mut self, now: Instant, index: u32, sender: &Sender<'_>, segment: &Segment<'_>) {
        self.deliver(now, index, sender, segment);
        if self.shared.adopted.withdraw() {
            self.stats.bytes_in_place += u64::from(segment.len());
        }
    }

    /// A sound segment arrived, or a run ([`Connection::on_segment`]).
    #[inline(never)]
    fn on_segment(&mut self, now: Instant, flow: Option<Flow>, sender: &Sender<'_>, segment: &Segment<'_>) {
        match flow {
            Some(Flow::Connection(index)) => self.deliver(now, index, sender, segment),
            _ => self.on_unconnected(now, flow, sender, segment),
        }
    }

    #[inline(always)]
    pub(super) fn deliver(&mut self, now: Instant, index: u32, sender: &Sender<'_>, segment: &Segment<'_>) {
        let Some((meta, tcp)) = self.conns.get_mut(index) else { return };
        if meta.flags.has(SlotFlags::HALF_OPEN | SlotFlags::SIGNED) || segment.options.signature.is_some() {
            return self.deliver_checked(now, index, sender, segment);
        }
        let disposition = self.shared.with_batch(now, sender.batch, |cx| tcp.on_segment(cx, segment));
        let events = tcp.poll_event();
        self.delivered(now, index, disposition, events);
    }

    /// To a connection that is half-open or signed, or with a signature.
    #[inline(never)]
    fn deliver_checked(&mut self, now: Instant, index: u32, sender: &Sender<'_>, segment: &Segment<'_>) {
        if !self.lets_through(now, index, sender, segment) {
            return self.shared.show_stray(now, false, sender.key, Stray::Withheld);
        }
        let Some((_, tcp)) = self.conns.get_mut(index) else { return };
        let disposition = self.shared.with_batch(now, sender.batch, |cx| tcp.on_segment(cx, segment));
        let events = tcp.poll_event();
        self.delivered(now, index, disposition, events);
    }

    /// Reports the effect of a segment on its connection.
    #[inline(always)]
    pub(crate) fn delivered(&mut self, now: Instant, index: u32, disposition: Disposition, events: Events) {
        if !events.is_empty() {
            let flags = self.conns.slot(index).meta.flags;
            if flags.has(SlotFlags::HALF_OPEN | SlotFlags::UNPROVEN) || events.any(Events::FAST_OPEN) {
                self.tell(index, events);
            } else {
                self.notice(index, events);
            }
        }
        if disposition == Disposition::TimeWait {
            self.enter_time_wait(now, index);
        } else {
            self.touch(index);
        }
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

    /// Tells the round trip to a port that holds packets ([`pio::Card`]).
    #[inline(never)]
    fn tell_port(&mut self, flow: Option<Flow>, key: &FlowKey) {
        if let (Some(srtt), Some(delays)) = (self.round_trip(flow), self.port.io.delays()) {
            delays.on_round_trip(key, srtt);
        }
    }

    /// How long a round trip of a flow takes, smoothed, if that was measured.
    pub(super) fn round_trip(&self, flow: Option<Flow>) -> Option<Duration> {
        let Some(Flow::Connection(index)) = flow else { return None };
        let (_, tcp) = self.conns.get(index)?;
        Some(tcp.round_trip()).filter(|srtt| !srtt.is_zero())
    }
}

/// The payloads of a merged run behind its first packet.
struct Followers<'a> {
    batch: &'a [RxPacket],
    merged_runs: &'a BatchGro,
    run: &'a MergedRun,
    head: u16,
}

impl Pieces for Followers<'_> {
    fn len(&self) -> u32 {
        self.run.bytes() - self.run.text(0).len() as u32
    }

    fn for_each(&self, each: &mut dyn FnMut(&[u8]) -> bool) {
        let mut at = self.head;
        for nth in 1..self.run.count() {
            at = self.merged_runs.behind(at);
            let packet = self.batch[usize::from(at)].frame.data();
            if !packet.get(self.run.text(nth)).is_some_and(&mut *each) {
                break;
            }
        }
    }
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
