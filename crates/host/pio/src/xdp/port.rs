//! The port: one core's share of an interface.

use super::config::XdpConfig;
use super::lane::{Kick, Lane, LaneConfig, LaneCounts, TX_METADATA};
use super::steering::Steering;
use super::supers::Supers;
use crate::netlink::Monitor;
use crate::port::*;
use crate::reattach::GONE;
use crate::sum;
use crate::sys;
use base::{Addr, Duration, Instant};
use ring::{Frame, FramePool};
use std::os::fd::RawFd;
use std::sync::Arc;

/// Bytes of an Ethernet header.
const LINK: usize = 14;

/// Counters of a port.
#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    rx_frames: u64,
    tx_packets: u64,
    tx_kicks: u64,
    tx_refused: u64,
    no_frame: u64,
}

/// One core's share of a network interface: one or more queues by AF_XDP.
///
/// The kernel keeps every packet that no claim covers. The interface is shared by all ports of one
/// [`open_xdp_with`](super::open_xdp_with); when the last of them is dropped, or the process dies, the kernel has all
/// of it back.
///
/// It begins and ends on cache lines of its own: its core writes it for each packet, and ports of several cores are
/// made in a row.
#[repr(align(128))]
pub struct XdpPort {
    pub(super) caps: Caps,
    pub(super) lanes: Vec<Lane>,
    /// How lanes are made.
    pub(super) lane: LaneConfig,
    /// Receive queues of the interface that have been looked at.
    pub(super) queues: u16,
    /// Lane from which to receive first.
    pub(super) turn: usize,
    pub(super) pool: FramePool,
    /// The way out for super-segments, where the kernel copies.
    pub(super) supers: Option<Supers>,
    /// Slots that are never lent for receiving, so that there is something to answer with.
    pub(super) keep: u32,
    /// The interface's MTU, which super-segments exceed.
    mtu: usize,
    pub(super) steering: Arc<Steering>,
    pub(super) monitor: Monitor,
    /// Events that opening the port has read already.
    early: Vec<NetEvent>,
    /// Descriptors that [`PacketIo::arm`] polls: the monitor, those of others, the lanes.
    pub(super) watched: Vec<libc::pollfd>,
    also: Vec<RawFd>,
    /// The kernel said that the interface is down, and has not said otherwise.
    pub(super) down: bool,
    /// When the interface was found deleted; there are no lanes while it is.
    pub(super) gone: Option<Instant>,
    /// The link has ended: the interface is back and cannot be used.
    pub(super) ended: bool,
    /// Why the link ends once the interface is deleted, if it does.
    pub(super) leaves: Option<String>,
    /// Number of the interface on which the lanes are ([`Steering::epoch`]).
    pub(super) epoch: u64,
    pub(super) returns: u64,
    /// How often sockets were opened again because of a count in a ring that cannot be.
    pub(super) rings_broken: u64,
    /// Counters of lanes that ended.
    pub(super) past: LaneCounts,
    pub(super) config: XdpConfig,
    /// The transmit ring holds packets that the kernel has not taken.
    pub(super) unsent: bool,
    counters: Counters,
    /// Frames that had been received when the kernel was last asked for other news.
    known_at: u64,
}

pub(super) struct Parts {
    pub(super) caps: Caps,
    pub(super) lanes: Vec<Lane>,
    pub(super) lane: LaneConfig,
    pub(super) queues: u16,
    pub(super) pool: FramePool,
    pub(super) supers: Option<Supers>,
    pub(super) keep: u32,
    pub(super) config: XdpConfig,
    pub(super) steering: Arc<Steering>,
    pub(super) monitor: Monitor,
    pub(super) mtu: usize,
}

impl XdpPort {
    pub(super) fn new(parts: Parts) -> XdpPort {
        let Parts { caps, lanes, lane, queues, pool, supers, keep, config, steering, monitor, mtu } = parts;
        let mut port = XdpPort {
            caps,
            lanes,
            lane,
            queues,
            turn: 0,
            pool,
            supers,
            keep,
            mtu,
            steering,
            monitor,
            early: Vec::new(),
            watched: Vec::new(),
            also: Vec::new(),
            down: false,
            gone: None,
            ended: false,
            leaves: None,
            epoch: 0,
            returns: 0,
            rings_broken: 0,
            past: LaneCounts::default(),
            config,
            unsent: false,
            counters: Counters::default(),
            known_at: 0,
        };
        port.watch();
        port.refill();
        // The program must know our addresses before the first claim.
        let mut early = Vec::new();
        port.look_at_kernel(&mut early);
        port.early = early;
        port
    }

    /// The driver itself runs the XDP program (else the network stack does).
    pub fn is_native(&self) -> bool {
        self.steering.is_native()
    }

    /// The device reads and writes our frames, nothing is copied.
    pub fn is_zero_copy(&self) -> bool {
        !self.lanes.is_empty() && self.lanes.iter().all(|lane| lane.grant.zero_copy)
    }

    /// Returns the number of receive queues that the port serves.
    #[cfg(test)]
    pub(super) fn queue_count(&self) -> usize {
        self.lanes.len()
    }

    /// Descriptors more whose news end a sleep; their owner keeps them open.
    pub(crate) fn watch_also(&mut self, fds: impl Iterator<Item = RawFd>) {
        self.also.extend(fds);
        self.watch();
    }

    /// Has [`PacketIo::arm`] poll the lanes as they are now.
    pub(super) fn watch(&mut self) {
        let fds = [self.monitor.fd()].into_iter();
        let fds = fds.chain(self.also.iter().copied()).chain(self.lanes.iter().map(Lane::fd));
        self.watched = fds.map(|fd| sys::interest(fd, libc::POLLIN)).collect();
    }

    /// Has the program steer a listening port to us, or leave it to the kernel, whether or not another process has it.
    pub(crate) fn steer(&mut self, claim: &PortClaim, wanted: bool) -> std::io::Result<()> {
        self.steering.with_claims(|claims| claims.steer(claim, wanted))
    }

    /// Has the program leave a listening port that is steered to the kernel from `until` on.
    pub(crate) fn lease(&self, port: u16, until: Instant) {
        self.steering.with_claims(|claims| claims.lease(port, until));
    }

    /// Bytes of a packet that a frame holds.
    pub(crate) fn room(&self) -> usize {
        self.pool.slot_size() - self.caps.headroom
    }

    pub(super) fn refill(&mut self) {
        for lane in &mut self.lanes {
            lane.refill(&mut self.pool, self.keep);
        }
    }

    /// Reads the kernel's news and tells the XDP program what it must know.
    fn look_at_kernel(&mut self, events: &mut Vec<NetEvent>) {
        let anew = self.hear(events);
        // Another port of the interface may have heard of it first.
        let left = self.monitor.take_left() || self.steering.epoch() != self.epoch;
        if self.gone.is_none() {
            // Owners who poll the sockets by themselves must see them go: the next may have the same numbers.
            if left {
                self.lose(GONE);
            } else if anew && let Err(error) = self.steering.renew() {
                self.lose(&format!(
                    "the driver takes the XDP program no more ({error}); it is put there anew"
                ));
            }
        } else if self.seek() {
            self.hear(events);
        }
    }

    /// Returns true if the driver may have made its rings anew.
    fn hear(&mut self, events: &mut Vec<NetEvent>) -> bool {
        let start = events.len();
        self.monitor.poll(events);
        if self.monitor.take_touched() && self.gone.is_none() {
            self.follow_queues();
        }
        let ifindex = self.lane.ifindex;
        for event in &mut events[start..] {
            match *event {
                // Failure means that the map is full: such an address stays with the kernel.
                NetEvent::AddrAdded { addr, .. } => drop(self.steering.address(ifindex, addr, true)),
                NetEvent::AddrRemoved { addr } => drop(self.steering.address(ifindex, addr, false)),
                NetEvent::Link { up } => self.down = !up,
                NetEvent::Mac(mac) => self.caps.mac = mac,
                NetEvent::Mtu(mtu) => {
                    self.mtu = mtu;
                    *event = NetEvent::Mtu(mtu.min(self.largest()));
                }
                _ => {}
            }
        }
        events[start..].iter().any(|event| matches!(event, NetEvent::Link { up: true } | NetEvent::Mtu(_)))
    }

    /// Largest IP packet a slot can send.
    fn largest(&self) -> usize {
        largest(self.pool.slot_size())
    }

    /// While the interface is down: is it still?
    fn still_down(&mut self) -> Result<(), IoError> {
        let Some(lane) = self.lanes.first() else { return Err(self.absence()) };
        let health = lane.health();
        self.down = false;
        health.map_err(|error| self.failure(error))
    }

    /// Is there something to be woken for? News of the kernel's are read at once, lest they cut the next sleep short.
    fn has_news(&mut self) -> Result<bool, IoError> {
        let ready = sys::poll(&mut self.watched, Some(Duration::ZERO)).map_err(IoError::Os)?;
        if self.watched[0].revents != 0 {
            self.monitor.expect_news();
            self.look_early();
        }
        Ok(ready > 0)
    }

    /// Reads the kernel's news, for the next call of [`NetEvents::net_events`].
    fn look_early(&mut self) {
        let mut events = std::mem::take(&mut self.early);
        self.look_at_kernel(&mut events);
        self.early = events;
    }

    /// Hands what is in the transmit ring to the kernel.
    fn kick(&mut self) -> Result<(), IoError> {
        self.counters.tx_kicks += 1;
        match self.lanes[0].kick() {
            Ok(kick) => {
                self.unsent = kick == Kick::Later;
                Ok(())
            }
            Err(error) => {
                (self.unsent, self.down) = (true, false);
                Err(self.failure(error))
            }
        }
    }

    /// Moves packets from the batch to the transmit ring, as far as it has room and up to the first
    /// super-segment; how many.
    fn fill_ring(&mut self, batch: &mut TxBatch) -> usize {
        let lane = &mut self.lanes[0];
        lane.complete(&mut self.pool);
        let room = lane.room(batch.len() as u32) as usize;
        let mut count = 0;
        while count < room {
            let supers = self.supers.is_some();
            let Some(mut packet) = batch.pop_front_if(|packet| !(supers && is_super(packet))) else { break };
            count += 1;
            if self.refuses(&packet) {
                self.counters.tx_refused += 1;
                self.pool.retire(packet.frame);
            } else {
                if !self.lanes[0].grant.tx_metadata
                    && let Some(asked) = packet.meta.checksum.take()
                {
                    // The interface before this one filled it in. That the field is inside was looked at.
                    sum::complete(packet.frame.data_mut(), asked);
                }
                self.lanes[0].send(&mut self.pool, packet);
            }
        }
        self.counters.tx_packets += count as u64;
        count
    }

    /// Is something requested that cannot be granted? The kernel would stop at such a packet for ever.
    fn refuses(&self, packet: &TxPacket) -> bool {
        let outside = |sum: ChecksumOffload| {
            let end = usize::from(sum.start) + usize::from(sum.offset) + 2;
            !self.caps.tx_checksum || packet.frame.headroom() < TX_METADATA || end > packet.frame.len()
        };
        packet.meta.segmentation.is_some()
            || packet.frame.is_empty()
            || packet.meta.checksum.is_some_and(outside)
    }
}

/// Shall the packet be cut?
fn is_super(packet: &TxPacket) -> bool {
    packet.meta.segmentation.is_some()
}

/// Largest IP packet a slot of this size can send.
pub(super) fn largest(slot_size: usize) -> usize {
    slot_size - TX_METADATA - LINK
}

impl PacketIo for XdpPort {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn take(&mut self) -> Option<Frame> {
        let frame = self.pool.take().or_else(|| {
            self.lanes.first_mut()?.complete(&mut self.pool);
            self.pool.take()
        });
        let Some(mut frame) = frame else {
            self.counters.no_frame += 1;
            return None;
        };
        frame.set_range(self.caps.headroom, 0);
        Some(frame)
    }

    fn take_long(&mut self) -> Option<Frame> {
        match &mut self.supers {
            Some(supers) => supers.take(),
            None => self.take(),
        }
    }

    fn retire(&mut self, frame: Frame) {
        match &mut self.supers {
            Some(supers) => supers.retire(frame, &mut self.pool),
            None => self.pool.retire(frame),
        }
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        if self.lanes.is_empty() {
            return Err(self.absence());
        }
        let mut count = 0;
        for step in 0..self.lanes.len() {
            let lane = (self.turn + step) % self.lanes.len();
            count += self.lanes[lane].receive(&mut self.pool, self.mtu, batch);
        }
        self.turn = (self.turn + 1) % self.lanes.len();
        self.counters.rx_frames += count as u64;
        self.refill();
        if self.unsent && !self.down {
            self.kick()?;
        }
        if count == 0 {
            if self.down {
                self.still_down()?;
            }
            if self.lanes.iter().any(Lane::is_broken) {
                return Err(self.open_again());
            }
        }
        Ok(count)
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        if self.down || self.lanes.is_empty() {
            self.still_down()?;
        }
        let count = self.fill_ring(batch);
        if count > 0 || self.unsent {
            self.kick()?;
        }
        // What waits in the ring was before what waits in the batch.
        let supers = self.supers.as_mut().filter(|_| !self.unsent && !batch.is_empty());
        let Some(supers) = supers.filter(|_| is_super(&batch[0])) else { return Ok(count) };
        match supers.send(batch, self.mtu, &mut self.pool) {
            Ok(more) => {
                self.counters.tx_packets += more as u64;
                Ok(count + more)
            }
            Err(error) => {
                self.down = false;
                Err(self.failure(error))
            }
        }
    }

    fn arm(&mut self, fds: &mut Vec<RawFd>) -> Result<bool, IoError> {
        self.refill();
        if self.lanes.iter_mut().any(Lane::is_ready) {
            return Ok(false);
        }
        // If packets came since the last sleep, it was they that ended it; other news that wait will end the next one.
        let came = std::mem::replace(&mut self.known_at, self.counters.rx_frames) != self.counters.rx_frames;
        if !came || self.down || self.unsent {
            if self.has_news()? {
                return Ok(false);
            }
            let was_down = self.down;
            if self.gone.is_some() {
                self.look_early();
            }
            match self.still_down() {
                Ok(()) if was_down || self.unsent => return Ok(false),
                Ok(()) | Err(IoError::Down) => {}
                Err(error) => return Err(error),
            }
        }
        fds.extend(self.lanes.iter().map(Lane::fd).chain([self.monitor.fd()]));
        Ok(true)
    }

    fn claims(&mut self) -> Option<&mut dyn Claims> {
        // Nothing is the kernel's where everything is ours.
        if self.steering.is_whole() { None } else { Some(self) }
    }

    fn net(&mut self) -> Option<&mut dyn NetEvents> {
        Some(self)
    }

    fn stats(&self) -> Vec<(&'static str, u64)> {
        let c = &self.counters;
        let mut stats = vec![
            ("rx_frames", c.rx_frames),
            ("tx_packets", c.tx_packets),
            ("tx_kicks", c.tx_kicks),
            ("tx_refused", c.tx_refused),
            ("no_frame", c.no_frame),
            ("frames_free", self.pool.available().into()),
            ("frames_lent", self.pool.lent().into()),
            ("frames_lost", self.pool.strays()),
            ("xdp_native", self.is_native().into()),
            ("xdp_zero_copy", self.is_zero_copy().into()),
            ("xdp_tx_checksum", self.caps.tx_checksum.into()),
        ];
        if let Some(supers) = &self.supers {
            stats.push(("tx_socket", supers.sent));
            stats.push(("tx_socket_lost", supers.lost));
            stats.push(("tx_socket_refused", supers.refused));
        }
        stats.extend(self.lane_counts());
        stats.push(("down", self.down.into()));
        stats
            .push(("gone_ms", self.gone.map_or(0, |since| sys::monotonic().since(since).as_millis() as u64)));
        stats.push(("returns", self.returns));
        stats.push(("rings_broken", self.rings_broken));
        stats.extend(self.monitor.stats());
        stats
    }
}

impl Claims for XdpPort {
    fn claim(&mut self, claim: &PortClaim) -> Result<(), ClaimError> {
        self.steering.with_claims(|claims| claims.claim(claim))
    }

    fn release(&mut self, claim: &PortClaim) {
        self.steering.with_claims(|claims| claims.release(claim));
    }
}

impl NetEvents for XdpPort {
    fn net_events(&mut self, events: &mut Vec<NetEvent>) {
        events.append(&mut self.early);
        self.look_at_kernel(events);
    }

    fn resolve(&mut self, addr: Addr) {
        self.monitor.resolve(addr);
    }
}
