//! AF_XDP with a packet socket beside it, for listening ports that processes share.
//!
//! ```text
//!   shared port, and everything of it ours ..... XDP program -> socket of the queue
//!   shared port otherwise ...................... kernel -> packet sockets, each with its buckets ([`crate::group`])
//!   every other port of ours ................... XDP program -> socket of the queue
//! ```
//! The XDP program has one owner on an interface, and what it steers no other process sees. So it steers a shared port
//! while nothing else wants connections to it, nor has any (a parked master may be there), and stops before the first
//! bucket is handed over. What the packet socket brings is copied into frames of the queue, for frames go back to one
//! pool. A process that is stopped (SIGSTOP) stops nothing, so what the program steers it has on a lease: other
//! processes of the group may have come.

use crate::group::LOOK;
use crate::layers::Layer;
use crate::packet::Packet;
use crate::port::*;
use crate::ports::sharing_ends;
use crate::sys;
use crate::xdp::XdpPort;
use base::{Addr, Duration, FlowKey, Instant};
use std::collections::VecDeque;
use std::os::fd::RawFd;

/// How long the program steers a shared port after the last look.
const LEASE: Duration = Duration::from_secs(1);

/// A queue of an interface by AF_XDP, some of whose ports other processes may share.
pub(crate) struct Nic {
    xdp: XdpPort,
    beside: Packet,
    groups: Vec<Group>,
    /// Packets of the packet socket that found no room in a batch.
    waiting: VecDeque<RxPacket>,
    brought: RxBatch,
    /// Where the program steers all, the packet socket is asked now and then only.
    ask: bool,
    /// Reused from call to call.
    news: Vec<NetEvent>,
    /// When ports that are not steered are looked at again.
    look_at: Instant,
    copied: u64,
    no_frame: u64,
    faults: u64,
}

/// A shared port.
struct Group {
    claim: PortClaim,
    /// The program steers it.
    steered: bool,
    /// The deal that this was decided by.
    deal: u64,
}

fn is_shared(claim: &PortClaim) -> bool {
    claim.reuse_port && !claim.ephemeral
}

impl Nic {
    /// `beside` shares ports; both are the only queues of their ports.
    pub(crate) fn new(mut xdp: XdpPort, mut beside: Packet) -> Nic {
        beside.keep_silent();
        xdp.watch_also(beside.poll_fds());
        let look_at = sys::monotonic();
        Nic {
            xdp,
            beside,
            groups: Vec::new(),
            waiting: VecDeque::new(),
            brought: RxBatch::new(),
            ask: false,
            news: Vec::new(),
            look_at,
            copied: 0,
            no_frame: 0,
            faults: 0,
        }
    }

    /// Has the program steer what is all ours, and nothing else. Comes before buckets are handed over.
    fn steer(&mut self) {
        let now = sys::monotonic();
        let due = self.look_at <= now;
        if due {
            self.look_at = now + LOOK;
        }
        for group in &mut self.groups {
            let Some(member) = self.beside.member(&group.claim) else { continue };
            let deal = member.deal();
            if deal == group.deal && (group.steered || !due) {
                if due {
                    self.xdp.lease(group.claim.port, now + LEASE);
                }
                continue;
            }
            group.deal = deal;
            let wanted = member.is_sole();
            if wanted == group.steered {
                continue;
            }
            // While the program steers the port, nothing is handed over.
            if wanted {
                member.keep_all(true);
            }
            // What cannot be steered comes through the packet socket.
            group.steered = match self.xdp.steer(&group.claim, wanted) {
                Ok(()) => wanted,
                Err(_) => {
                    self.faults += 1;
                    false
                }
            };
            if group.steered {
                self.xdp.lease(group.claim.port, now + LEASE);
            }
            member.keep_all(group.steered);
        }
    }

    /// The packet socket does not share ports on an interface that was made again, so the queue does not go there.
    fn note_sharing(&mut self) {
        let first = self.groups.first();
        self.xdp.leave_when_lost(first.map(|group| sharing_ends(group.claim.port)));
    }

    /// Copies a packet of the packet socket into frames of the queue; false if there are too few.
    fn copy(&mut self, packet: &RxPacket, batch: &mut RxBatch) -> bool {
        let before = batch.len();
        let mut rest = packet.frame.data();
        let mut meta = packet.meta;
        while !rest.is_empty() {
            let Some(mut frame) = self.xdp.take() else {
                batch.drain(before..).for_each(|packet| self.xdp.retire(packet.frame));
                return false;
            };
            let start = frame.headroom();
            let len = rest.len().min(frame.capacity() - start);
            let (piece, more) = rest.split_at(len);
            frame.set_range(start, len);
            frame.data_mut().copy_from_slice(piece);
            meta.more = !more.is_empty();
            batch.push(RxPacket { frame, meta });
            rest = more;
        }
        true
    }

    /// Appends what the packet socket brought, as far as the batch has room.
    fn receive_beside(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let before = batch.len();
        if self.waiting.is_empty() {
            self.beside.rx(&mut self.brought)?;
            self.waiting.extend(self.brought.drain(..));
        }
        while let Some(packet) = self.waiting.pop_front() {
            let frames = packet.frame.len().div_ceil(self.xdp.room());
            if batch.len() + frames > BATCH_MAX {
                self.waiting.push_front(packet);
                break;
            }
            if self.copy(&packet, batch) {
                self.copied += 1;
            } else {
                self.no_frame += 1;
            }
            self.beside.retire(packet.frame);
        }
        Ok(batch.len() - before)
    }
}

impl Layer for Nic {
    type Below = XdpPort;

    fn below(&self) -> &XdpPort {
        &self.xdp
    }

    fn below_mut(&mut self) -> &mut XdpPort {
        &mut self.xdp
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let count = self.xdp.rx(batch)?;
        let split = self.groups.iter().any(|group| !group.steered);
        let ask = std::mem::take(&mut self.ask) || split || !self.waiting.is_empty();
        if ask { Ok(count + self.receive_beside(batch)?) } else { Ok(count) }
    }

    fn arm(&mut self, fds: &mut Vec<RawFd>) -> Result<bool, IoError> {
        if !self.waiting.is_empty() || !self.xdp.arm(fds)? {
            return Ok(false);
        }
        fds.extend(self.beside.poll_fds());
        Ok(true)
    }

    fn claims(&mut self) -> Option<&mut dyn Claims> {
        Some(self)
    }

    fn net(&mut self) -> Option<&mut dyn NetEvents> {
        Some(self)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let beside = self.beside.stats();
        let count = |name| beside.iter().find(|row| row.0 == name).map_or(0, |row| row.1);
        vec![
            ("ports_shared", self.groups.len() as u64),
            ("ports_steered", self.groups.iter().filter(|group| group.steered).count() as u64),
            ("group_faults", count("group_faults") + self.faults),
            ("beside_packets", self.copied),
            ("beside_missed", count("rx_missed")),
            ("beside_no_frame", self.no_frame),
        ]
    }
}

impl Claims for Nic {
    fn claim(&mut self, claim: &PortClaim) -> Result<(), ClaimError> {
        if !is_shared(claim) {
            return self.xdp.claim(claim);
        }
        self.beside.claim(claim)?;
        self.groups.push(Group { claim: *claim, steered: false, deal: 0 });
        self.note_sharing();
        Ok(())
    }

    fn release(&mut self, claim: &PortClaim) {
        let Some(at) = self.groups.iter().position(|group| group.claim == *claim) else {
            return self.xdp.release(claim);
        };
        if self.groups.swap_remove(at).steered {
            // It can only fail to be there, which is what we want.
            let _ = self.xdp.steer(claim, false);
        }
        self.beside.release(claim);
        self.note_sharing();
    }

    fn sharing(&mut self) -> Option<&mut dyn Sharing> {
        Some(self)
    }
}

impl Sharing for Nic {
    fn serve(&mut self, claim: &PortClaim, wanted: bool) {
        self.beside.serve(claim, wanted);
        self.steer();
    }

    fn listen(&mut self, claim: &PortClaim, begins: bool) {
        self.beside.listen(claim, begins);
        self.steer();
    }

    fn set_role(&mut self, claim: &PortClaim, role: Role) {
        self.beside.set_role(claim, role);
        self.steer();
    }

    fn answerer(&self, key: &FlowKey, opens: bool) -> Answerer {
        self.beside.answerer(key, opens)
    }

    fn owes(&self) -> bool {
        self.beside.owes()
    }

    fn on_flow(&mut self, key: &FlowKey, lives: bool) {
        self.beside.on_flow(key, lives);
    }

    fn hand_over(&mut self, key: &FlowKey, state: &[u8]) -> bool {
        // Its segments must not come to this queue any more.
        self.steer();
        self.beside.hand_over(key, state)
    }

    fn take_over(&mut self, state: &mut Vec<u8>) -> bool {
        self.beside.take_over(state)
    }
}

impl NetEvents for Nic {
    fn net_events(&mut self, events: &mut Vec<NetEvent>) {
        self.xdp.net_events(events);
        if !self.groups.is_empty() {
            self.steer();
        }
        // Of the net the queue has told already.
        self.beside.net_events(&mut self.news);
        self.ask = true;
        events.extend(self.news.drain(..).filter(|event| matches!(event, NetEvent::Shared { .. })));
    }

    fn resolve(&mut self, addr: Addr) {
        self.xdp.resolve(addr);
    }
}
