//! Hold and reorder mode: what arrives goes through [`offload::Engine`], which keeps frames for a bounded time, before
//! it is looked up and processed as in a batch of its own.
//!
//! Every port lends its frames for as long as they are not given back ([`pio::PacketIo::retire`]), so what is held is
//! held in place. The smallest pool of a port has twice as many frames as are held at most.

use base::{Duration, FlowKey, Instant};
use offload::{Config, Engine, HOLD_MAX, HoldCounters};
use pio::{BATCH_MAX, RxBatch, RxChecksum, RxMeta, RxPacket};

use crate::core::Core;
use crate::demux::Flow;
use crate::rx::{Arrival, Rx, pieces};

/// Frames held at most.
pub(crate) const HELD_MAX: usize = 256;
/// Packets handed up at once at most.
pub(crate) const UP_MAX: usize = 256;

const _: () = assert!(UP_MAX >= BATCH_MAX && UP_MAX >= offload::MERGE_MAX, "a run goes up at once");

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
}

/// A frame that nothing has looked at.
struct Fresh(RxPacket);

impl AsRef<[u8]> for Fresh {
    fn as_ref(&self) -> &[u8] {
        self.0.frame.data()
    }
}

/// A frame that is held, and what is known of it.
struct Kept {
    packet: RxPacket,
    arrival: Arrival,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        self.packet.frame.data()
    }
}

/// Packets held between the port and the batch that is processed.
pub(crate) struct Hold {
    engine: Engine<Kept>,
    inbox: RxBatch,
    /// Parsed segments.
    arrivals: Vec<Arrival>,
}

impl Hold {
    /// `None` where nothing is held.
    pub(crate) fn new(offload: Offload) -> Option<Hold> {
        let packets = HELD_MAX as u16;
        let config = match offload {
            Offload::Off | Offload::Inline => return None,
            Offload::Hold(budget) => Config { packets, hold: budget, ..Config::default() },
            Offload::Reorder(budget) => Config { packets, reorder: budget, ..Config::default() },
        };
        Some(Hold {
            engine: Engine::new(config),
            inbox: RxBatch::with_capacity(UP_MAX),
            arrivals: Vec::with_capacity(UP_MAX),
        })
    }

    pub(crate) fn counters(&self) -> &HoldCounters {
        self.engine.counters()
    }
}

impl Rx {
    /// Does the engine have anything?
    #[inline]
    pub(crate) fn holds(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.engine.packets() > 0)
    }

    /// When something held must go up.
    #[inline]
    pub(crate) fn due(&self) -> Option<Instant> {
        self.hold.as_ref().and_then(|hold| hold.engine.poll_timeout())
    }
}

impl Core {
    /// A batch of short packets was parsed: those that the engine has no reason to hold stay where they are, to be
    /// processed as where nothing is held.
    #[inline(always)]
    pub(crate) fn pass_by(&mut self, now: Instant, rx: &mut Rx) {
        let Some(hold) = &mut rx.hold else { return };
        for (nth, Arrival { key, hash, start, end, at, .. }) in rx.arrivals.iter().enumerate() {
            let RxPacket { frame, meta } = &rx.batch[usize::from(*at)];
            let segment = frame.data().get(*start as usize..*end as usize).unwrap_or_default();
            if !hold.engine.pass_by(now, key, *hash, segment, meta.gso_size != 0) {
                return self.take_in_parsed(now, rx, nth);
            }
        }
    }

    /// The segments of a batch that was parsed go to the engine, from the `nth` on; those before it are processed.
    #[cold]
    fn take_in_parsed(&mut self, now: Instant, rx: &mut Rx, nth: usize) {
        let Some(mut hold) = rx.hold.take() else { return };
        let mut inbox = std::mem::take(&mut hold.inbox);
        let first = rx.arrivals[nth].at;
        inbox.extend(rx.batch.drain(usize::from(first)..));
        hold.arrivals.extend(rx.arrivals.drain(nth..));
        self.deliver_batch(now, rx);
        let mut arrivals = std::mem::take(&mut hold.arrivals);
        let mut segments = arrivals.drain(..).peekable();
        for (at, packet) in (first..).zip(inbox.drain(..)) {
            match segments.next_if(|arrival| arrival.at == at) {
                Some(arrival) => self.engage(now, rx, &mut hold, Kept { packet, arrival }),
                None => self.port.io.retire(packet.frame),
            }
        }
        drop(segments);
        (hold.inbox, hold.arrivals) = (inbox, arrivals);
        rx.hold = Some(hold);
    }

    /// A turn has received what there is: what need not wait for more goes up.
    #[inline(never)]
    pub(crate) fn end_held(&mut self, now: Instant, rx: &mut Rx) {
        let Some(mut hold) = rx.hold.take() else { return };
        hold.engine.on_batch_end(now);
        self.hand_up(now, rx, &mut hold);
        rx.hold = Some(hold);
    }

    /// Segments go to the engine, each where the one before it went if its bytes say that it continues that one; what
    /// else there is is dealt with.
    #[inline(never)]
    pub(crate) fn take_in(&mut self, now: Instant, rx: &mut Rx) {
        let Some(mut hold) = rx.hold.take() else { return };
        let mut inbox = std::mem::take(&mut hold.inbox);
        std::mem::swap(&mut inbox, &mut rx.batch);
        let mut packets = inbox.drain(..);
        while !packets.as_slice().is_empty() {
            let frames = pieces(packets.as_slice());
            if frames > 1 {
                self.take_in_pieces(now, rx, &mut hold, packets.as_slice(), frames);
                rx.batch.extend(packets.by_ref().take(frames));
                self.deliver_batch(now, rx);
            } else if let Some(packet) = packets.next() {
                self.take_in_one(now, rx, &mut hold, packet);
            }
        }
        drop(packets);
        hold.inbox = inbox;
        rx.hold = Some(hold);
    }

    /// A packet in one frame.
    fn take_in_one(&mut self, now: Instant, rx: &mut Rx, hold: &mut Hold, packet: RxPacket) {
        let RxMeta { checksum, gso_size, .. } = packet.meta;
        let mut packet = Fresh(packet);
        if gso_size == 0 {
            let bytes = packet.0.frame.len() as u64;
            let sums = (checksum == RxChecksum::Unverified).then_some(self.port.summer);
            // It is as long as the first of its run.
            let keep = |Fresh(packet), first: &Kept| Kept { packet, arrival: first.arrival };
            match hold.engine.follow(now, packet, sums, keep) {
                Ok(()) => return self.stats.bytes_in += bytes,
                Err(other) => packet = other,
            }
        }
        let Fresh(packet) = packet;
        self.parse_one(now, std::slice::from_ref(&packet), 0, &mut hold.arrivals);
        match hold.arrivals.pop() {
            Some(arrival) => self.engage(now, rx, hold, Kept { packet, arrival }),
            None => self.port.io.retire(packet.frame),
        }
    }

    /// A packet in the first `frames` of some: it is processed for itself, behind all that is held of its flow.
    fn take_in_pieces(
        &mut self,
        now: Instant,
        rx: &mut Rx,
        hold: &mut Hold,
        packets: &[RxPacket],
        frames: usize,
    ) {
        self.parse_one(now, &packets[..frames], 0, &mut hold.arrivals);
        if let Some(arrival) = hold.arrivals.pop() {
            hold.engine.on_other(&arrival.key, arrival.hash);
            self.hand_up(now, rx, hold);
            rx.arrivals.push(arrival);
        }
    }

    /// A segment in one frame goes to the engine; if that is full, what it has goes up before.
    fn engage(&mut self, now: Instant, rx: &mut Rx, hold: &mut Hold, kept: Kept) {
        let Arrival { key, hash, start, end, .. } = kept.arrival;
        let merged = kept.packet.meta.gso_size != 0;
        let (ip, tcp, end) = (self.ip_start(), start as usize, end as usize);
        let mut arrival = offload::Arrival { key, hash, ip, tcp, end, merged, packet: kept };
        while let Err(refused) = hold.engine.on_arrival(now, arrival) {
            self.hand_up(now, rx, hold);
            arrival = refused;
        }
    }

    /// Processes the runs that the engine flushes.
    fn hand_up(&mut self, now: Instant, rx: &mut Rx, hold: &mut Hold) {
        let merges = self.shared.merges();
        while let Some(mut run) = hold.engine.poll_run() {
            let count = run.merged_run.as_ref().map_or(1, offload::MergedRun::count);
            if rx.batch.len() + usize::from(count) > UP_MAX {
                self.deliver_batch(now, rx);
            }
            let at = rx.batch.len() as u16;
            let Some(Kept { packet, arrival }) = hold.engine.next_packet(&mut run) else { continue };
            rx.batch.push(packet);
            rx.arrivals.push(Arrival { at, ..arrival });
            while let Some(Kept { packet, arrival }) = hold.engine.next_packet(&mut run) {
                if !merges {
                    rx.arrivals.push(Arrival { at: rx.batch.len() as u16, ..arrival });
                }
                rx.batch.push(packet);
            }
            match (run.merged_run.filter(|_| merges), &mut rx.merged_runs) {
                (Some(merged_run), Some(merged_runs)) => {
                    self.tell_round_trip(&mut hold.engine, &arrival);
                    merged_runs.adopt(at, merged_run);
                }
                (_, Some(merged_runs)) => merged_runs.pass(at, &arrival.key),
                (_, None) => {}
            }
        }
        self.deliver_batch(now, rx);
    }

    /// The engine hears how long a round trip of a flow takes.
    fn tell_round_trip(&self, engine: &mut Engine<Kept>, arrival: &Arrival) {
        if let Some(srtt) = self.round_trip(self.find(arrival.hash, &arrival.key)) {
            engine.on_round_trip(&arrival.key, arrival.hash, srtt);
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
