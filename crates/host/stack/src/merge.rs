//! Receive offload in the batch loop: packets of a batch that continue each other are parsed, looked up and delivered
//! as one run.

use base::{Duration, FlowKey, Instant};
use offload::{BatchGro, HOLD_MAX, MergedRun};
use pio::{BATCH_MAX, Gro, RxBatch, RxChecksum, RxPacket};
use wire::Ecn;
use wire::checksum::Summer;
use wire::tcp::{Flags, Pieces, Raw, Segment};

use crate::core::Core;
use crate::rx::{Arrival, Rx, Sender, pieces};
use crate::stats::PacketDrop;
use crate::tables::conns::SlotFlags;
use crate::tables::flows::Flow;
use crate::turn::Turn;

/// Receive offload of segments that continue each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offload {
    /// Each is delivered for itself.
    Off,
    /// Those that arrive together are delivered as one.
    Inline,
    /// As `Inline`; where more of a flow is expected its data waits for that, for the budget at most.
    Hold(Duration),
    /// As inline, and those that came too early wait for what is missing before them, for the budget at the most.
    Reorder(Duration),
}

impl Offload {
    /// The longest that anything is held, whatever the budget.
    pub const BUDGET_MAX: Duration = HOLD_MAX;

    /// Returns what holds packets, where something does.
    pub(crate) fn gro(self) -> Option<Gro> {
        match self {
            Offload::Off | Offload::Inline => None,
            Offload::Hold(budget) => Some(Gro::new(budget, Duration::ZERO)),
            Offload::Reorder(budget) => Some(Gro::new(Duration::ZERO, budget)),
        }
    }
}

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
    /// Receives and processes a bounded number of packets, those that are held between.
    #[inline(never)]
    pub(crate) fn receive_held(&mut self, now: Instant, rx: &mut Rx, turn: &mut Turn) {
        let Rx { batch, merged_runs, gro: Some(gro), .. } = rx else { return };
        let runs = merged_runs.as_deref_mut().filter(|_| self.shared.merges());
        let hash = |key: &FlowKey| self.table.hash(key);
        let (received, error) = gro.rx(now, self.port.io.as_mut(), self.batches, (batch, runs), hash);
        if let Some(error) = error {
            self.fail(error);
        }
        turn.received += received as u32;
        turn.more |= received == usize::from(self.batches) * BATCH_MAX;
        self.stats.packets_in += received as u64;
        self.parse_held(now, rx);
        self.deliver_batch(now, rx);
    }

    /// Parses a batch whose merged runs are known.
    fn parse_held(&mut self, now: Instant, Rx { batch, arrivals, merged_runs, gro, .. }: &mut Rx) {
        let mut at = 0;
        while at < batch.len() {
            let run = merged_runs.as_ref().and_then(|runs| runs.headed_by(at as u16)).map(MergedRun::count);
            let frames = if run.is_some() { 1 } else { pieces(&batch[at..]) };
            let before = arrivals.len();
            self.parse_one(now, &batch[at..at + frames], at, arrivals);
            if let (Some(count), Some(arrival)) = (run, arrivals.get(before)) {
                if let (Some(srtt), Some(gro)) =
                    (self.round_trip(self.find(arrival.hash, &arrival.key)), &mut *gro)
                {
                    gro.on_round_trip(&arrival.key, arrival.hash, srtt);
                }
                for RxPacket { frame, meta } in &batch[at + 1..at + usize::from(count)] {
                    self.stats.bytes_in += frame.len() as u64;
                    // As good as right, but not right ([`Core::is_sound`]).
                    self.stats.partial_checksums += u64::from(meta.checksum == RxChecksum::Unverified);
                }
            } else if let (Some(arrival), Some(runs)) = (arrivals.get(before), &mut *merged_runs) {
                runs.pass(arrival.at, &arrival.key);
            }
            at += run.map_or(frames, usize::from);
        }
    }

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

    /// Tells the round trip to a port that holds packets ([`pio::Card`]).
    #[inline(never)]
    pub(crate) fn tell_port(&mut self, flow: Option<Flow>, key: &FlowKey) {
        if let Some(srtt) = self.round_trip(flow) {
            self.port.io.on_round_trip(key, srtt);
        }
    }

    /// How long a round trip of a flow takes, smoothed, if that was measured.
    fn round_trip(&self, flow: Option<Flow>) -> Option<Duration> {
        let Some(Flow::Connection(index)) = flow else { return None };
        let (_, tcp) = self.conns.get(index)?;
        Some(tcp.round_trip()).filter(|srtt| !srtt.is_zero())
    }
}
