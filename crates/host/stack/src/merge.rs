//! Receive offload in the batch loop: packets of a batch that continue each other are parsed, looked up and delivered
//! as one run.

use base::Instant;
use offload::{BatchGro, MergedRun};
use pio::{RxBatch, RxChecksum, RxPacket};
use wire::Ecn;
use wire::checksum::Summer;
use wire::tcp::{Flags, Pieces, Raw, Segment};

use crate::conns::SlotFlags;
use crate::core::Core;
use crate::demux::Flow;
use crate::rx::{Arrival, Sender};
use crate::stats::PacketDrop;

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
                Some(run) => {
                    let flow = self.flow_of(arrival, version);
                    self.process_merged_run(now, flow, arrival, batch, merged_runs, run);
                }
                None => self.process_alone(now, arrival, batch, version),
            }
        }
    }

    #[inline(never)]
    fn process_alone(&mut self, now: Instant, arrival: &Arrival, batch: &RxBatch, version: u32) {
        self.process(now, arrival, batch, version);
    }

    /// Delivers the merged run that `arrival` is the first of: the header of its first packet, PSH of its last.
    fn process_merged_run(
        &mut self,
        now: Instant,
        flow: Option<Flow>,
        arrival: &Arrival,
        batch: &RxBatch,
        merged_runs: &BatchGro,
        run: &MergedRun,
    ) {
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

    /// Returns the connection that may adopt a payload of the batch.
    #[inline]
    pub(crate) fn may_adopt(&self, flow: Option<Flow>, batch: &[RxPacket]) -> Option<u32> {
        let Some(Flow::Connection(index)) = flow else { return None };
        let checked = self.conns.slot(index).meta.flags.has(SlotFlags::HALF_OPEN | SlotFlags::SIGNED);
        (!checked && self.shared.adopted.takes(batch.len())).then_some(index)
    }

    /// A segment for a connection arrived whose payload was offered to it.
    #[inline]
    pub(crate) fn on_offered(
        &mut self,
        now: Instant,
        index: u32,
        sender: &Sender<'_>,
        segment: &Segment<'_>,
    ) {
        self.on_segment(now, Some(Flow::Connection(index)), sender, segment);
        if self.shared.adopted.withdraw() {
            self.stats.bytes_in_place += u64::from(segment.len());
        }
    }
}
