//! One direction of a path: a rate with a queue before it, a delay, and every ill a real path has.
//!
//! A packet meets, in this order: named positions, random loss, queue management, the queue's limit, the line
//! (serialisation), the delay with jitter, named positions that are held back, reordering. Duplicates and corruption
//! happen on the line.

mod aqm;
mod config;
mod dual;
mod flows;
mod log;
mod loss;
mod named;
mod packet;

pub use aqm::{Aqm, CoDel, Red};
pub use config::{PipeConfig, Queue};
pub use dual::DualPi2;
pub use log::{DropReason, LogRow, PacketName, PipeEvent};
pub use loss::GilbertElliott;
pub use named::{Among, Named};

use crate::medium::{Packet, packet_of};
use aqm::Verdict;
use base::{Duration, Instant, Rng};
use dual::{Dual, Fate};
use loss::chance;
use named::Numbering;
use packet::{flip_a_bit, is_neighbour_talk, mark};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

base::counters! {
    /// Counters of a pipe. Arrived + duplicated = delivered + down + listed + lost + managed
    /// + full + under way.
    pub struct PipeCounters {
        arrived: "Packets that entered.",
        arrived_bytes: "Bytes of them.",
        delivered: "Packets that came out.",
        delivered_bytes: "Bytes of them.",
        down: "Dropped because the pipe was down.",
        listed: "Dropped because their position was named.",
        lost: "Dropped by chance or in turn.",
        managed: "Dropped by queue management.",
        full: "Dropped for want of room.",
        marked: "Packets marked with Congestion Experienced.",
        duplicated: "Copies made.",
        corrupted: "Packets with a bit flipped.",
        reordered: "Packets held back.",
        low: "Packets that left DualPI2's low-latency queue.",
        low_waited_us: "Microseconds that they waited there, together.",
        classic: "Packets that left DualPI2's classic queue.",
        classic_waited_us: "Microseconds that they waited there, together.",
    }
}

/// A packet with the date it comes out.
struct UnderWay {
    at: Instant,
    seq: u64,
    packet: Packet,
}

impl UnderWay {
    fn key(&self) -> (Instant, u64) {
        (self.at, self.seq)
    }
}

impl PartialEq for UnderWay {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for UnderWay {}
impl PartialOrd for UnderWay {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for UnderWay {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// A packet in the queue, or on the line.
struct Waiting {
    /// When it leaves the queue.
    until: Instant,
    bytes: u32,
    /// Queue management takes it when it gets to the head.
    doomed: bool,
    /// For the log, if there is one.
    name: Option<PacketName>,
}

/// Writer of the forensic log.
type Logger = Box<dyn FnMut(&LogRow) + Send>;

/// One direction of a path.
pub struct Pipe {
    config: PipeConfig,
    /// Number of the packet in the log.
    number: u32,
    seed: u64,
    rng: Rng,
    counters: PipeCounters,
    /// Packets that entered since the configuration was set.
    position: u64,
    /// Packets counted to find those to drop, and those to hold back.
    numbering: [Numbering; 2],
    /// Packets entered ever, to keep equal dates in order.
    seq: u64,
    /// When the line is free again.
    free_at: Instant,
    /// Packets not yet off the line, in order.
    queued: VecDeque<Waiting>,
    queued_bytes: u64,
    /// The path is in its bad state (Gilbert and Elliott).
    bad: bool,
    aqm: aqm::State,
    /// Packets that wait before the line, where there are two queues.
    dual: Dual,
    /// Dropped at the head of one of them, for another use.
    spare: Vec<Packet>,
    logger: Option<Logger>,
    /// In order of arrival, nearly all packets.
    in_order: VecDeque<UnderWay>,
    /// Those held back.
    held: BinaryHeap<Reverse<UnderWay>>,
}

impl Pipe {
    /// A pipe whose choices follow from `seed`; its log calls it 0.
    pub fn new(config: PipeConfig, seed: u64) -> Self {
        Pipe {
            config,
            number: 0,
            seed,
            rng: Rng::new(seed),
            counters: PipeCounters::default(),
            position: 0,
            numbering: Default::default(),
            seq: 0,
            free_at: Instant::ZERO,
            queued: VecDeque::new(),
            queued_bytes: 0,
            bad: false,
            aqm: aqm::State::default(),
            dual: Dual::default(),
            spare: Vec::new(),
            logger: None,
            in_order: VecDeque::new(),
            held: BinaryHeap::new(),
        }
    }

    /// Gives it another number for the log.
    pub(crate) fn numbered(mut self, number: u32) -> Self {
        self.number = number;
        self
    }

    /// Returns the seed of its random choices.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How it behaves.
    pub fn config(&self) -> &PipeConfig {
        &self.config
    }

    /// Makes it behave differently from now on; positions count from here. Packets under way stay so.
    pub fn set_config(&mut self, config: PipeConfig) {
        self.config = config;
        self.position = 0;
        self.numbering = Default::default();
        (self.bad, self.aqm) = (false, aqm::State::default());
    }

    /// Calls `logger` for each packet that enters, leaves or is dropped from now on: what left the queue is told when
    /// the pipe is next used or asked, so rows of one pipe are in the order of time, those of several are not.
    pub fn log(&mut self, logger: impl FnMut(&LogRow) + Send + 'static) {
        self.logger = Some(Box::new(logger));
    }

    /// Returns the counters.
    pub fn counters(&self) -> &PipeCounters {
        &self.counters
    }

    /// Packets and bytes in the queue at `now`, the packet on the line included.
    pub fn queue(&mut self, now: Instant) -> (usize, u64) {
        self.serve_dual(now);
        while let Some(gone) = self.queued.pop_front_if(|waiting| waiting.until <= now) {
            self.queued_bytes -= u64::from(gone.bytes);
            if let Some(name) = gone.name {
                let dropped = PipeEvent::Dropped(DropReason::Managed);
                self.tell(gone.until, if gone.doomed { dropped } else { PipeEvent::Dequeued }, name);
            }
        }
        let (packets, bytes) = self.dual.len();
        (self.queued.len() + packets, self.queued_bytes + bytes)
    }

    fn tell(&mut self, at: Instant, event: PipeEvent, packet: PacketName) {
        if let Some(logger) = &mut self.logger {
            let (pipe, packets, bytes) = (self.number, self.queued.len(), self.queued_bytes);
            logger(&LogRow { at, pipe, event, packet, packets, bytes });
        }
    }

    /// Packets that have entered and neither came out nor were dropped.
    pub fn under_way(&self) -> usize {
        self.in_order.len() + self.held.len() + self.dual.len().0
    }

    /// A packet enters. One that is dropped goes to the spares.
    pub(crate) fn enter(
        &mut self,
        now: Instant,
        mut packet: Packet,
        spare: &mut Vec<Packet>,
    ) -> Result<(), DropReason> {
        self.position += 1;
        self.counters.arrived += 1;
        self.counters.arrived_bytes += packet.len() as u64;
        let queue = self.queue(now);
        let name =
            self.logger.is_some().then(|| PacketName::of(self.position, self.size(&packet), &packet.bytes));
        let ill = !(self.config.spares_neighbours && is_neighbour_talk(&packet.bytes));
        spare.append(&mut self.spare);
        let fate = match self.admit(now, queue, &mut packet, ill) {
            Ok(()) if self.config.rate.is_some() && matches!(self.config.aqm, Aqm::DualPi2(_)) => {
                self.wait_in_dual(now, packet, name, ill);
                return Ok(());
            }
            Ok(()) => self.serve(now, &mut packet, name),
            Err(reason) => {
                if let Some(name) = name {
                    self.tell(now, PipeEvent::Dropped(reason), name);
                }
                Err(reason)
            }
        };
        match fate {
            Ok(off_line) if ill => self.travel(off_line, packet, spare),
            Ok(off_line) => self.arrive(off_line, packet, false),
            Err(reason) => {
                spare.push(packet);
                self.count_drop(reason);
                return Err(reason);
            }
        }
        Ok(())
    }

    fn count_drop(&mut self, reason: DropReason) {
        *match reason {
            DropReason::Down => &mut self.counters.down,
            DropReason::Listed => &mut self.counters.listed,
            DropReason::Lost => &mut self.counters.lost,
            DropReason::Managed => &mut self.counters.managed,
            DropReason::Full => &mut self.counters.full,
        } += 1;
    }

    fn admit(
        &mut self,
        now: Instant,
        (packets, bytes): (usize, u64),
        packet: &mut Packet,
        ill: bool,
    ) -> Result<(), DropReason> {
        let listed = self.numbering[0].names(&self.config.discard, &packet.bytes);
        if self.config.down {
            return Err(DropReason::Down);
        }
        if listed {
            return Err(DropReason::Listed);
        }
        if ill && (chance(&mut self.rng, self.config.loss) || self.loses_in_turn() || self.loses_in_bursts())
        {
            return Err(DropReason::Lost);
        }
        if ill {
            let one = self.time_for(self.size(packet));
            let verdict = self.config.aqm.on_arrival(&mut self.aqm, now, bytes, one, &mut self.rng);
            self.obey(verdict, packet)?;
        }
        let len = self.size(packet) as u64;
        let held = self.config.holds.is_none_or(|most| self.under_way() < most as usize);
        let room = match self.config.queue {
            Queue::Unlimited => true,
            Queue::Slots(limit) => packets < limit as usize,
            Queue::Strict(limit) => bytes + len <= limit,
            Queue::Loose(limit) => bytes < limit,
        };
        if room && held { Ok(()) } else { Err(DropReason::Full) }
    }

    fn loses_in_turn(&self) -> bool {
        self.config.every > 0 && self.position.is_multiple_of(self.config.every)
    }

    fn loses_in_bursts(&mut self) -> bool {
        self.config.bursts.is_some_and(|model| model.loses(&mut self.bad, &mut self.rng))
    }

    fn obey(&mut self, verdict: Verdict, packet: &mut Packet) -> Result<(), DropReason> {
        let marked = matches!(verdict, Verdict::Mark | Verdict::Hint) && mark(&mut packet.bytes);
        self.counters.marked += u64::from(marked);
        match verdict {
            Verdict::Drop => Err(DropReason::Managed),
            Verdict::Mark if !marked => Err(DropReason::Managed),
            Verdict::Pass | Verdict::Hint | Verdict::Mark => Ok(()),
        }
    }

    /// Bytes that line and queue count.
    fn size(&self, packet: &Packet) -> usize {
        let header = if self.config.ip_only { wire::ethernet::HEADER_LEN } else { 0 };
        packet.len().saturating_sub(header)
    }

    /// Time that a packet of `len` bytes takes on the line.
    fn time_for(&self, len: usize) -> Duration {
        let bytes = len as u64 + u64::from(self.config.overhead);
        self.config.rate.map_or(Duration::ZERO, |rate| rate.time_for(bytes))
    }

    /// Puts a packet behind those that wait: when its last byte is off the line. One that queue management will take
    /// at the head of the queue holds its place until then, and no time of the line.
    fn serve(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        name: Option<PacketName>,
    ) -> Result<Instant, DropReason> {
        let size = self.size(packet);
        let one = self.time_for(size);
        let head = self.free_at.max(now);
        let verdict = self.config.aqm.on_head(&mut self.aqm, head, head.since(now), one);
        let fate = self.obey(verdict, packet);
        let until = if fate.is_ok() { head + one } else { head };
        let bytes = size as u32;
        if self.config.rate.is_some() {
            self.free_at = until;
        }
        self.queued_bytes += u64::from(bytes);
        self.queued.push_back(Waiting { until, bytes, doomed: fate.is_err(), name });
        if let Some(name) = name {
            self.tell(now, PipeEvent::Enqueued, name);
        }
        fate.map(|()| until)
    }

    fn travel(&mut self, off_line: Instant, mut packet: Packet, spare: &mut Vec<Packet>) {
        if chance(&mut self.rng, self.config.duplicate) {
            let copy = packet_of(spare, &packet.bytes, packet.meta);
            self.counters.duplicated += 1;
            self.arrive(off_line, copy, true);
        }
        // Nothing would notice in a packet whose checksum is still to be made.
        let sealed = !packet.meta.partial;
        if sealed
            && chance(&mut self.rng, self.config.corrupt)
            && flip_a_bit(&mut self.rng, &mut packet.bytes)
        {
            self.counters.corrupted += 1;
        }
        self.arrive(off_line, packet, true);
    }

    /// Gives a packet its date.
    fn arrive(&mut self, off_line: Instant, packet: Packet, ill: bool) {
        let seq = self.seq;
        self.seq += 1;
        let mut at = off_line + self.config.delay + up_to(&mut self.rng, self.config.jitter);
        if self.numbering[1].names(&self.config.hold, &packet.bytes) {
            self.counters.reordered += 1;
            at += self.config.hold_by;
            self.held.push(Reverse(UnderWay { at, seq, packet }));
            return;
        }
        if ill && chance(&mut self.rng, self.config.reorder) {
            self.counters.reordered += 1;
            at += up_to(&mut self.rng, self.config.reorder_by);
            self.held.push(Reverse(UnderWay { at, seq, packet }));
            return;
        }
        let at = self.in_order.back().map_or(at, |last| at.max(last.at));
        self.in_order.push_back(UnderWay { at, seq, packet });
    }

    /// A packet joins one of two queues before the line.
    fn wait_in_dual(&mut self, now: Instant, packet: Packet, name: Option<PacketName>, ill: bool) {
        let bytes = self.size(&packet) as u32;
        self.dual.enter(dual::Waiting { packet, name, bytes, since: now, ill });
        if let Some(name) = name {
            self.tell(now, PipeEvent::Enqueued, name);
        }
        self.serve_dual(now);
    }

    /// The line takes from the two queues what it could until `now`.
    fn serve_dual(&mut self, now: Instant) {
        let Aqm::DualPi2(config) = self.config.aqm else { return };
        while let Some(oldest) = self.dual.oldest() {
            let at = self.free_at.max(oldest);
            if at > now {
                return;
            }
            let Some(dual::Turn { mut waiting, fate, low }) = self.dual.next(&config, at) else { return };
            let waited = at.since(waiting.since).as_micros() as u64;
            let (left, time) = match low {
                true => (&mut self.counters.low, &mut self.counters.low_waited_us),
                false => (&mut self.counters.classic, &mut self.counters.classic_waited_us),
            };
            (*left, *time) = (*left + 1, *time + waited);
            let marked = waiting.ill && fate == Fate::Mark && mark(&mut waiting.packet.bytes);
            self.counters.marked += u64::from(marked);
            if waiting.ill && (fate == Fate::Drop || fate == Fate::Mark && !marked) {
                self.counters.managed += 1;
                if let Some(name) = waiting.name {
                    self.tell(at, PipeEvent::Dropped(DropReason::Managed), name);
                }
                self.spare.push(waiting.packet);
                continue;
            }
            let until = at + self.time_for(waiting.bytes as usize);
            self.free_at = until;
            self.queued_bytes += u64::from(waiting.bytes);
            let (bytes, name) = (waiting.bytes, waiting.name);
            self.queued.push_back(Waiting { until, bytes, doomed: false, name });
            let mut spare = std::mem::take(&mut self.spare);
            match waiting.ill {
                true => self.travel(until, waiting.packet, &mut spare),
                false => self.arrive(until, waiting.packet, false),
            }
            self.spare = spare;
        }
    }

    /// When the next packet comes out, or the line must take one from two queues.
    pub(crate) fn due(&self) -> Option<Instant> {
        let out = Instant::earliest(self.in_order.front().map(|p| p.at), self.held.peek().map(|p| p.0.at));
        Instant::earliest(out, self.dual.oldest().map(|oldest| self.free_at.max(oldest)))
    }

    /// The next packet that comes out at `now` or before.
    pub(crate) fn leave(&mut self, now: Instant) -> Option<Packet> {
        self.serve_dual(now);
        let held_first = match (self.in_order.front(), self.held.peek()) {
            (Some(next), Some(Reverse(held))) => held < next,
            (None, Some(_)) => true,
            _ => false,
        };
        let next = if held_first {
            self.held.peek().map(|held| held.0.at)
        } else {
            self.in_order.front().map(|p| p.at)
        };
        next.filter(|at| *at <= now)?;
        let left = if held_first { self.held.pop().map(|held| held.0) } else { self.in_order.pop_front() }?;
        self.counters.delivered += 1;
        self.counters.delivered_bytes += left.packet.len() as u64;
        Some(left.packet)
    }
}

fn up_to(rng: &mut Rng, most: Duration) -> Duration {
    match most.as_nanos() as u64 {
        0 => Duration::ZERO,
        nanos => Duration::from_nanos(rng.below(nanos + 1)),
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::check_log;
