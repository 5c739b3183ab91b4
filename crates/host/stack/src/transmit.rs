//! The way out: a connection builds its segments in the port's frames, at most a quota at a time.
//!
//! ```text
//!   transmit ──> route and neighbour known? ──no──> transmit_first: look them up, wait for them, or discard
//!                  │yes                                │found
//!                  v                                   v
//!                Out::one: tcp::poll_transmit ──> Port::segment ──> more? transmit_more ──> settle: the next timeout
//! ```

use base::Instant;
use pio::IoError;
use tcp::{Connection, State, TransmitClass};

use crate::core::{Core, Shared};
use crate::net::arp_nd::is_reachable;
use crate::net::ip::LOOPED;
use crate::stats::{PacketDrop, Stats};
use crate::tables::conns::SlotFlags;
use crate::tx::Port;

impl Core {
    /// Builds segments of a connection while it has some, at most a quota; says whether there may be more.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, now: Instant, index: u32) -> Sent {
        let Core { conns, ip, neighbours, port, shared, stats, starved, error, .. } = self;
        let Some((meta, tcp)) = conns.get_mut(index) else { return Sent::All };
        if !tcp.wants_to_transmit() {
            return Sent::All;
        }
        if meta.flags.has(SlotFlags::OPENING)
            || meta.way != ip.generation()
            || !is_reachable(port, neighbours, now, meta.hop)
        {
            return self.transmit_first(now, index);
        }
        port.address(tcp.key(), neighbours.mac(meta.hop), meta.hash ^ u64::from(tcp.path()) << 48);
        let mut sending = Sending { segments: 1, ..Sending::of(now, index) };
        // Mostly there is one segment: no loop, and none of what a compiler does to make loops fast.
        match (Out { port, shared, stats, starved, error }).one(tcp, &mut sending) {
            Sent::Some => self.transmit_more(&mut sending),
            sent => sent,
        }
    }

    /// Transmits for a connection whose route or neighbour must be looked up, or whose first segment leaves.
    #[inline(never)]
    fn transmit_first(&mut self, now: Instant, index: u32) -> Sent {
        let Some((meta, _)) = self.conns.get(index) else { return Sent::All };
        if meta.way == LOOPED {
            return self.transmit_looped(now, index);
        }
        if meta.way != self.ip.generation() || !is_reachable(&self.port, &self.neighbours, now, meta.hop) {
            match self.find_way(now, index) {
                Ok(()) => {}
                Err(Blocked::Waits) => return Sent::Parked,
                Err(Blocked::Unreachable(why)) => return self.discard(now, index, why),
            }
        }
        if self.conns.slot(index).meta.flags.has(SlotFlags::OPENING) && self.transmit_opening(now, index) {
            return Sent::All;
        }
        let Some((meta, tcp)) = self.conns.get(index) else { return Sent::All };
        let label = meta.hash ^ u64::from(tcp.path()) << 48;
        self.port.address(tcp.key(), self.neighbours.mac(meta.hop), label);
        self.transmit_more(&mut Sending::of(now, index))
    }

    #[inline(never)]
    fn transmit_more(&mut self, sending: &mut Sending) -> Sent {
        let Core { conns, port, shared, stats, starved, error, .. } = self;
        let Some((_, tcp)) = conns.get_mut(sending.index) else { return Sent::All };
        let mut out = Out { port, shared, stats, starved, error };
        let mut sent = Sent::Some;
        while sent == Sent::Some && sending.segments < QUOTA_SEGMENTS && sending.bytes < QUOTA_BYTES {
            sending.segments += 1;
            sent = out.one(tcp, sending);
        }
        if port.has_gathered() {
            port.send_gathered(tcp, &shared.pool);
        }
        sent
    }

    /// Looks into a connection's route and its neighbour: may its segments go there?
    #[cold]
    fn find_way(&mut self, now: Instant, index: u32) -> Result<(), Blocked> {
        if self.conns.slot(index).meta.way != self.ip.generation() {
            self.reroute(now, index)?;
        }
        let hop = self.conns.slot(index).meta.hop;
        let reached = self.reach(now, hop);
        if reached == Err(Blocked::Waits) {
            self.neighbours.waiting(hop).push(&mut self.conns, index);
        }
        reached
    }

    /// RFC 8899, 3-11.
    #[cold]
    fn reroute(&mut self, now: Instant, index: u32) -> Result<(), Blocked> {
        let Some((_, tcp)) = self.conns.get(index) else { return Ok(()) };
        let remote = tcp.key().remote().addr;
        match self.path(now, remote) {
            Ok(path) => {
                let way = self.ip.generation();
                let Some((meta, tcp)) = self.conns.get_mut(index) else { return Ok(()) };
                (meta.hop, meta.way) = (path.hop, way);
                if tcp.route_mtu() != path.mtu {
                    tcp.on_route_mtu(&self.shared.cx(now), path.mtu);
                }
                Ok(())
            }
            Err(_) => Err(Blocked::Unreachable(tcp::IcmpError::NetUnreachable)),
        }
    }

    /// Segments that have nowhere to go are lost like any others, and the connection is told why.
    #[cold]
    fn discard(&mut self, now: Instant, index: u32, why: tcp::IcmpError) -> Sent {
        let limits = self.port.limits();
        let Some((_, tcp)) = self.conns.get_mut(index) else { return Sent::All };
        let reason = if why == tcp::IcmpError::HostUnreachable {
            PacketDrop::NoNeighbour
        } else {
            PacketDrop::NoRoute
        };
        for _ in 0..QUOTA_SEGMENTS {
            let Some(tx) = tcp.poll_transmit(&mut self.shared.cx(now), &limits) else { break };
            self.drops.count(reason);
            tcp.on_icmp(&mut self.shared.cx(now), why, tx.header.seq);
        }
        self.take_events(index);
        Sent::All
    }

    /// After segments went out: the next date, or the end.
    #[inline(always)]
    pub(crate) fn settle(&mut self, now: Instant, index: u32) {
        let Some((meta, tcp)) = self.conns.get_mut(index) else { return };
        let tells = tcp.has_events();
        if tcp.state() == State::Closed {
            self.finish(now, index);
        } else if meta.flags.has(SlotFlags::IN_TABLE)
            && let Some(at) = tcp.poll_timeout()
        {
            self.wheel.note(index, at);
        }
        if tells {
            self.take_events(index);
        }
    }
}

/// Segments and bytes one connection may send before others have their turn.
pub(crate) const QUOTA_SEGMENTS: u32 = 16;
const QUOTA_BYTES: u32 = 1 << 17;

/// A connection's turn to send.
struct Sending {
    now: Instant,
    index: u32,
    class: TransmitClass,
    /// Segments that it has sent, or was about to send.
    segments: u32,
    bytes: u32,
}

impl Sending {
    fn of(now: Instant, index: u32) -> Sending {
        Sending { now, index, class: TransmitClass::Control, segments: 0, bytes: 0 }
    }
}

/// Arguments of building a segment, beside its connection.
struct Out<'a> {
    port: &'a mut Port,
    shared: &'a mut Shared,
    stats: &'a mut Stats,
    starved: &'a mut bool,
    error: &'a mut Option<IoError>,
}

impl Out<'_> {
    /// Builds a segment, if there is one.
    #[inline(always)]
    fn one(&mut self, tcp: &mut Connection, sending: &mut Sending) -> Sent {
        let Out { port, shared, stats, starved, error } = self;
        if !port.stock() {
            stats.no_frame += 1;
            **starved = true;
            return Sent::NoFrame;
        }
        let limits = port.limits();
        let next = tcp.poll_transmit(&mut shared.cx(sending.now), &limits);
        let Some(tx) = &next else { return Sent::All };
        // Never an earlier list than the segment before, so that a connection's segments stay in order.
        sending.class = sending.class.max(tx.class);
        sending.bytes += tx.len;
        if port.goes_direct(tx.len, tx.mss) && port.pending() > 0 {
            // What was built before goes first, and what was gathered before that.
            port.send_gathered(tcp, &shared.pool);
            let kicked = port.kick(stats);
            **error = error.take().or(kicked.err());
        }
        let in_place = port.segment(tcp, &shared.pool, tx, sending.class);
        if in_place {
            if tcp.wants_to_transmit() {
                return Sent::Some;
            }
            port.send_gathered(tcp, &shared.pool);
            return Sent::All;
        }
        if tcp.counts_copies() {
            tcp.on_copied(tx);
        }
        if tcp.wants_to_transmit() { Sent::Some } else { Sent::All }
    }
}

/// Result of a connection's transmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    /// It has nothing more to send.
    All,
    /// It may have more.
    Some,
    /// It waits for its neighbour's address.
    Parked,
    /// There was no frame.
    NoFrame,
}

/// Why a segment cannot go now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Blocked {
    /// The neighbour's address is being asked for.
    Waits,
    /// There is no way.
    Unreachable(tcp::IcmpError),
}
