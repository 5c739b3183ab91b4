//! Receive offload in the batch loop: packets of a batch that continue each other are parsed, looked up and delivered
//! as one run.

use base::Instant;
use offload::{BatchGro, MERGE_MAX, MergedRun};
use pio::{RxBatch, RxChecksum, RxPacket};
use tcp::{Disposition, Events};
use wire::Ecn;
use wire::checksum::Summer;
use wire::tcp::{Flags, Raw, Segment};

use crate::conns::Marks;
use crate::core::Core;
use crate::demux::Flow;
use crate::rx::Arrival;

/// Does the packet at place `at` of a batch join a merged run? What the link has merged already it leaves alone.
#[inline]
pub(crate) fn joins(
    merged_runs: &mut BatchGro,
    batch: &RxBatch,
    at: usize,
    ip: usize,
    summer: Summer,
) -> bool {
    let RxPacket { frame, meta } = &batch[at];
    if meta.gso_size != 0 {
        return false;
    }
    let first = |first: u16| {
        let RxPacket { frame, meta } = &batch[usize::from(first)];
        (meta.gso_size == 0 && !meta.more).then(|| frame.data())
    };
    let sums = (meta.checksum == RxChecksum::Unverified).then_some(summer);
    merged_runs.offer(at as u16, frame.data(), ip, sums, first)
}

/// How many packets from place `at` of a batch on continue the merged run that the one before them joined.
#[inline]
pub(crate) fn follow(merged_runs: &mut BatchGro, batch: &RxBatch, at: usize, summer: Summer) -> usize {
    let plain = |packet: &RxPacket| packet.meta.gso_size == 0 && !packet.meta.more;
    let packets = batch[at..].iter().take_while(|packet| plain(packet));
    let packets = packets.map(|packet| (packet.frame.data(), packet.meta.checksum == RxChecksum::Unverified));
    merged_runs.follow(at as u16, packets, summer).into()
}

impl Core {
    /// Third pass, where some packets are merged runs.
    #[inline(never)]
    pub(crate) fn process_merged_runs(
        &mut self,
        now: Instant,
        arrivals: &[Arrival],
        batch: &RxBatch,
        version: u32,
        merged_runs: &BatchGro,
    ) {
        for arrival in arrivals {
            match merged_runs.headed_by(arrival.at) {
                Some(merged_run) => {
                    self.process_merged_run(now, arrival, batch, version, merged_runs, merged_run)
                }
                None => self.process_alone(now, arrival, batch, version),
            }
        }
    }

    #[inline(never)]
    fn process_alone(&mut self, now: Instant, arrival: &Arrival, batch: &RxBatch, version: u32) {
        self.process(now, arrival, batch, version);
    }

    /// Delivers the merged run that `arrival` is the first of.
    fn process_merged_run(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        batch: &RxBatch,
        version: u32,
        merged_runs: &BatchGro,
        merged_run: &MergedRun,
    ) {
        let index = match self.flow_of(arrival, version) {
            Some(Flow::Connection(index)) => Some(index),
            _ => None,
        };
        if index
            .is_some_and(|index| self.lend_merged_run(now, index, arrival, batch, merged_runs, merged_run))
        {
            return;
        }
        let mut places = [arrival.at; MERGE_MAX];
        let places = &mut places[..usize::from(merged_run.count())];
        for nth in 1..places.len() {
            places[nth] = merged_runs.behind(places[nth - 1]);
        }
        if index.is_some_and(|index| self.deliver_merged_run(now, index, arrival, batch, merged_run, places))
        {
            return;
        }
        // The connection wants each for itself.
        self.process_alone(now, arrival, batch, version);
        for (nth, at) in places.iter().enumerate().skip(1) {
            let end = merged_run.text(nth as u16).end as u32;
            self.process_alone(now, &Arrival { at: *at, end, ..*arrival }, batch, version);
        }
    }

    /// Delivers a merged run as one, which stays where it is until it is read; false, and nothing was delivered, if it
    /// may not.
    fn lend_merged_run(
        &mut self,
        now: Instant,
        index: u32,
        arrival: &Arrival,
        batch: &RxBatch,
        merged_runs: &BatchGro,
        merged_run: &MergedRun,
    ) -> bool {
        if !self.borrowed_rx.takes(batch.len()) {
            return false;
        }
        let Some(whole) = segment_of(arrival, batch, merged_run) else { return false };
        let Some(events) = self.lend_payload(now, index, &whole, merged_run.bytes()) else { return false };
        self.borrowed_rx.lend(index, merged_runs, merged_run, arrival.at);
        self.delivered(now, index, Disposition::Done, events);
        true
    }

    /// Lends the payload of a packet that the link has merged, of the segment `whole`.
    #[inline(never)]
    pub(crate) fn lend_long(
        &mut self,
        now: Instant,
        flow: Option<Flow>,
        arrival: &Arrival,
        batch: &RxBatch,
        whole: &Segment<'_>,
    ) -> bool {
        let bytes = whole.payload.len();
        let Some(Flow::Connection(index)) = flow.filter(|_| self.borrowed_rx.takes(batch.len())) else {
            return false;
        };
        if whole.options.signature.is_some() {
            return false;
        }
        let Some(events) = self.lend_payload(now, index, whole, bytes as u32) else { return false };
        let end = batch[usize::from(arrival.at)].frame.len().min(arrival.end as usize);
        self.borrowed_rx.lend_one(index, arrival.at, end - bytes..end);
        self.delivered(now, index, Disposition::Done, events);
        true
    }

    /// Delivers a segment whose payload stays where it is; what happened, `None` and nothing was delivered if it may
    /// not.
    #[inline]
    fn lend_payload(&mut self, now: Instant, index: u32, whole: &Segment<'_>, bytes: u32) -> Option<Events> {
        let (meta, tcp) = self.conns.get_mut(index)?;
        if meta.marks.has(Marks::HALF_OPEN | Marks::SIGNED)
            || !tcp.on_lent_run(&mut self.shared.cx(now), whole, bytes)
        {
            return None;
        }
        meta.marks.set(Marks::LENT);
        self.stats.bytes_lent += u64::from(bytes);
        Some(tcp.poll_event())
    }

    /// Delivers a merged run as one; false, and nothing was delivered, if its connection wants each segment.
    fn deliver_merged_run(
        &mut self,
        now: Instant,
        index: u32,
        arrival: &Arrival,
        batch: &RxBatch,
        merged_run: &MergedRun,
        places: &[u16],
    ) -> bool {
        self.call_in_if_lent(index, batch);
        let Some((meta, tcp)) = self.conns.get_mut(index) else { return false };
        if meta.marks.has(Marks::HALF_OPEN | Marks::SIGNED) {
            return false;
        }
        let mut pieces = [&[][..]; MERGE_MAX];
        for (nth, (piece, at)) in pieces.iter_mut().zip(places).enumerate() {
            let packet = batch[usize::from(*at)].frame.data();
            let Some(text) = packet.get(merged_run.text(nth as u16)) else { return false };
            *piece = text;
        }
        let Some(whole) = segment_of(arrival, batch, merged_run) else { return false };
        if !tcp.on_run(&mut self.shared.cx(now), &whole, &pieces[..places.len()]) {
            return false;
        }
        let events = tcp.poll_event();
        self.delivered(now, index, Disposition::Done, events);
        true
    }
}

/// The segment that a merged run is, but for its payload: the header of its first packet, which `arrival` is, and PSH
/// of its last.
fn segment_of<'a>(arrival: &Arrival, batch: &'a RxBatch, merged_run: &MergedRun) -> Option<Segment<'a>> {
    let first = batch[usize::from(arrival.at)].frame.data();
    let raw = Raw::of(first.get(arrival.start as usize..arrival.end as usize)?).ok()?;
    let mut segment = raw.segment();
    raw.read_options(&mut segment);
    let pushed = if merged_run.is_pushed() { Flags::PSH.0 } else { 0 };
    let (flags, ecn) = (Flags(segment.flags.0 | pushed), Ecn::of(arrival.tos));
    Some(Segment { merged: merged_run.count(), flags, ecn, ..segment })
}
