//! One direction of a path: a rate with a queue before it, a delay, and every ill a real path has.
//!
//! A packet meets, in this order: named positions, random loss, the queue's limit, the line (serialisation),
//! the delay with jitter, reordering. Duplicates and corruption happen on the line.

use crate::Positions;
use crate::medium::{Packet, packet_of};
use base::{Duration, Instant, Rate, Rng};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What a queue takes before it drops at the tail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Queue {
    /// Everything.
    #[default]
    Unlimited,
    /// So many packets, the one on the line included.
    Slots(u32),
    /// So many octets, never more.
    Strict(u64),
    /// A packet as long as fewer octets than this are there before it: one packet over at most (dummynet's
    /// way).
    Loose(u64),
}

/// How a pipe behaves. Probabilities are 0.0 to 1.0, per packet.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PipeConfig {
    /// Rate of the line; `None` for no limit (and no queue).
    pub rate: Option<Rate>,
    /// Octets that each packet takes on the line besides its own (24 for Ethernet's preamble, check and gap).
    pub overhead: u32,
    /// Time every packet travels.
    pub delay: Duration,
    /// Up to this much more, uniformly; packets stay in order.
    pub jitter: Duration,
    /// Room before the line.
    pub queue: Queue,
    /// Chance to vanish.
    pub loss: f64,
    /// Chance to arrive twice.
    pub duplicate: f64,
    /// Chance that one bit flips. Only inside IP packets: a frame that Ethernet's own check would catch never
    /// reaches a host, so what does reach it was corrupted inside a router.
    pub corrupt: f64,
    /// Chance to be held back and overtaken.
    pub reorder: f64,
    /// Up to how long such a packet is held back, uniformly.
    pub reorder_by: Duration,
    /// ARP and Neighbour Discovery pass unharmed: the ills stand for a long path, whose first link is sound.
    pub spares_neighbours: bool,
    /// Packets to drop by their number since the pipe got this configuration.
    pub discard: Positions,
    /// Nothing passes.
    pub down: bool,
}

base::names! {
    /// Why a pipe dropped a packet.
    pub enum DropReason {
        Down: "down", "The pipe is down.",
        Listed: "pls", "Its position was named.",
        Lost: "plr", "Chance.",
        Full: "full", "No room in the queue.",
    }
}

base::counters! {
    /// What a pipe has done. Arrived + duplicated = delivered + down + listed + lost + full + under way.
    pub struct PipeCounters {
        arrived: "Packets that entered.",
        arrived_octets: "Octets of them.",
        delivered: "Packets that came out.",
        delivered_octets: "Octets of them.",
        down: "Dropped because the pipe was down.",
        listed: "Dropped because their position was named.",
        lost: "Dropped by chance.",
        full: "Dropped for want of room.",
        duplicated: "Copies made.",
        corrupted: "Packets with a bit flipped.",
        reordered: "Packets held back.",
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

/// One direction of a path.
pub struct Pipe {
    config: PipeConfig,
    rng: Rng,
    counters: PipeCounters,
    /// Packets that entered since the configuration was set.
    position: u64,
    /// Packets entered ever, to keep equal dates in order.
    seq: u64,
    /// When the line is free again.
    free_at: Instant,
    /// Packets not yet off the line: when they will be, and their octets.
    queued: VecDeque<(Instant, u32)>,
    queued_octets: u64,
    /// In order of arrival, nearly all packets.
    in_order: VecDeque<UnderWay>,
    /// Those held back.
    held: BinaryHeap<Reverse<UnderWay>>,
}

impl Pipe {
    /// A pipe whose choices follow from `seed`.
    pub fn new(config: PipeConfig, seed: u64) -> Self {
        Pipe {
            config,
            rng: Rng::new(seed),
            counters: PipeCounters::default(),
            position: 0,
            seq: 0,
            free_at: Instant::ZERO,
            queued: VecDeque::new(),
            queued_octets: 0,
            in_order: VecDeque::new(),
            held: BinaryHeap::new(),
        }
    }

    /// How it behaves.
    pub fn config(&self) -> &PipeConfig {
        &self.config
    }

    /// Makes it behave differently from now on; positions count from here. Packets under way stay so.
    pub fn set_config(&mut self, config: PipeConfig) {
        self.config = config;
        self.position = 0;
    }

    /// What it has done.
    pub fn counters(&self) -> &PipeCounters {
        &self.counters
    }

    /// Packets and octets in the queue at `now`, the packet on the line included.
    pub fn queue(&mut self, now: Instant) -> (usize, u64) {
        while let Some((_, octets)) = self.queued.pop_front_if(|(off_line, _)| *off_line <= now) {
            self.queued_octets -= u64::from(octets);
        }
        (self.queued.len(), self.queued_octets)
    }

    /// Packets that have entered and neither came out nor were dropped.
    pub fn under_way(&self) -> usize {
        self.in_order.len() + self.held.len()
    }

    /// A packet enters. One that is dropped goes to the spares.
    pub(crate) fn enter(
        &mut self,
        now: Instant,
        packet: Packet,
        spare: &mut Vec<Packet>,
    ) -> Result<(), DropReason> {
        self.position += 1;
        self.counters.arrived += 1;
        self.counters.arrived_octets += packet.len() as u64;
        let ill = !(self.config.spares_neighbours && is_neighbour_talk(&packet.bytes));
        if let Err(reason) = self.admit(now, packet.len(), ill) {
            spare.push(packet);
            *match reason {
                DropReason::Down => &mut self.counters.down,
                DropReason::Listed => &mut self.counters.listed,
                DropReason::Lost => &mut self.counters.lost,
                DropReason::Full => &mut self.counters.full,
            } += 1;
            return Err(reason);
        }
        let off_line = self.serve(now, packet.len());
        if ill {
            self.travel(off_line, packet, spare);
        } else {
            self.arrive(off_line, packet, false);
        }
        Ok(())
    }

    fn admit(&mut self, now: Instant, len: usize, ill: bool) -> Result<(), DropReason> {
        if self.config.down {
            return Err(DropReason::Down);
        }
        if self.config.discard.contains(self.position) {
            return Err(DropReason::Listed);
        }
        if ill && chance(&mut self.rng, self.config.loss) {
            return Err(DropReason::Lost);
        }
        let (packets, octets) = self.queue(now);
        let room = match self.config.queue {
            Queue::Unlimited => true,
            Queue::Slots(limit) => packets < limit as usize,
            Queue::Strict(limit) => octets + len as u64 <= limit,
            Queue::Loose(limit) => octets < limit,
        };
        if room { Ok(()) } else { Err(DropReason::Full) }
    }

    /// Puts a packet on the line behind those that wait: when its last octet is off.
    fn serve(&mut self, now: Instant, len: usize) -> Instant {
        let Some(rate) = self.config.rate else { return now };
        let octets = len as u32 + self.config.overhead;
        self.free_at = self.free_at.max(now) + rate.time_for(u64::from(octets));
        self.queued.push_back((self.free_at, len as u32));
        self.queued_octets += len as u64;
        self.free_at
    }

    fn travel(&mut self, off_line: Instant, mut packet: Packet, spare: &mut Vec<Packet>) {
        if chance(&mut self.rng, self.config.duplicate) {
            let copy = packet_of(spare, &packet.bytes, packet.meta);
            self.counters.duplicated += 1;
            self.arrive(off_line, copy, true);
        }
        // Nobody would notice in a packet whose checksum is still to be made.
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
        if ill && chance(&mut self.rng, self.config.reorder) {
            self.counters.reordered += 1;
            at += up_to(&mut self.rng, self.config.reorder_by);
            self.held.push(Reverse(UnderWay { at, seq, packet }));
            return;
        }
        let at = self.in_order.back().map_or(at, |last| at.max(last.at));
        self.in_order.push_back(UnderWay { at, seq, packet });
    }

    /// When the next packet comes out.
    pub(crate) fn due(&self) -> Option<Instant> {
        Instant::earliest(self.in_order.front().map(|p| p.at), self.held.peek().map(|p| p.0.at))
    }

    /// The next packet that comes out at `now` or before.
    pub(crate) fn leave(&mut self, now: Instant) -> Option<Packet> {
        let held_first = match (self.in_order.front(), self.held.peek()) {
            (Some(next), Some(Reverse(held))) => held < next,
            (None, Some(_)) => true,
            _ => false,
        };
        self.due().filter(|at| *at <= now)?;
        let left = if held_first { self.held.pop().map(|held| held.0) } else { self.in_order.pop_front() }?;
        self.counters.delivered += 1;
        self.counters.delivered_octets += left.packet.len() as u64;
        Some(left.packet)
    }
}

/// Draws nothing for a chance of zero: an ill that is off costs nothing and moves no other choice.
fn chance(rng: &mut Rng, p: f64) -> bool {
    p > 0.0 && rng.chance(p)
}

fn up_to(rng: &mut Rng, most: Duration) -> Duration {
    match most.as_nanos() as u64 {
        0 => Duration::ZERO,
        nanos => Duration::from_nanos(rng.below(nanos + 1)),
    }
}

/// Is it about who is where on the link?
fn is_neighbour_talk(packet: &[u8]) -> bool {
    let Ok((link, ip)) = wire::ethernet::parse(packet) else { return false };
    let icmp6 = |ip: &[u8]| ip.len() > 40 && ip[6] == wire::protocol::ICMPV6 && (133..=137).contains(&ip[40]);
    link.ethertype == wire::ethernet::ARP || (link.ethertype == wire::ethernet::IPV6 && icmp6(ip))
}

/// Flips one bit behind the Ethernet header of an IP packet; false if this is none. One flipped bit is always
/// caught by the checksums of IPv4, TCP and ICMP, or it is in a field that no checksum covers and no data is.
fn flip_a_bit(rng: &mut Rng, packet: &mut [u8]) -> bool {
    let Ok((link, _)) = wire::ethernet::parse(packet) else { return false };
    let behind = &mut packet[wire::ethernet::HEADER_LEN..];
    if !matches!(link.ethertype, wire::ethernet::IPV4 | wire::ethernet::IPV6) || behind.is_empty() {
        return false;
    }
    let bit = rng.below(behind.len() as u64 * 8);
    behind[(bit / 8) as usize] ^= 1 << (bit % 8);
    true
}

#[cfg(test)]
mod tests;
