//! The stack's own loopback: packets to one of its addresses are received by the stack that sends them.
//!
//! ```text
//!   connect, SYN ──> path: an address of the stack ──> Meta::way = LOOPED, a hash of its own
//!   transmit: way != generation ──> transmit_looped ──> Port::looped ──> receive_looped, this turn or the next
//! ```
//! The way is decided once for a connection. It costs other connections nothing: `LOOPED` is a generation that the
//! routes never have, so the compare that finds stale ways finds looped connections as well. Frames are the port's,
//! filled as if they had been received; the port never sees them. The MTU is the link's, because those frames may
//! be no longer; where the port takes super-segments, one frame carries up to 64 KiB here, too. Checksums are not
//! computed.
//!
//! The flow table keeps looped connections under hashes of their own
//! ([`crate::tables::flows::FlowTable::hash_looped`]). A packet of the link finds none of them, whatever it claims to
//! be, and one that claims to come from an address of this host opens no connection (RFC 1122, section 3.2.1.3).

use base::{Addr, Endpoint, FlowKey, Instant};
use pio::{BATCH_MAX, Medium};
use wire::packet::{Content, parse_frame, parse_ip};
use wire::protocol;

use crate::core::Core;
use crate::net::ip::LOOPED;
use crate::net::paths::Path;
use crate::rx::{Arrival, Rx};
use crate::stats::PacketDrop;
use crate::transmit::{QUOTA_SEGMENTS, Sent};
use crate::turn::Turn;

/// Packets that wait in the loopback at most before connections stop adding to them. Each of a batch may be answered
/// beyond that.
const LOOPED_MAX: usize = 2 * BATCH_MAX;

impl Core {
    /// The generation under which a connection notes its way.
    #[inline]
    pub(crate) fn way_of(&self, path: &Path) -> u32 {
        if path.is_looped() { LOOPED } else { self.ip.generation() }
    }

    /// The hash of a connection to be.
    #[inline]
    pub(crate) fn hash_of(&self, key: &FlowKey, looped: bool) -> u64 {
        if looped { self.table.hash_looped(key) } else { self.table.hash(key) }
    }

    /// Returns true if no packet of the link may have these addresses (RFC 1122, section 3.2.1.3).
    pub(crate) fn is_martian(&self, local: Addr, remote: Addr) -> bool {
        local.is_loopback() || remote.is_loopback() || self.ip.loops(remote)
    }

    /// Builds segments of a looped connection, at most a quota and no more than the loopback takes.
    pub(crate) fn transmit_looped(&mut self, now: Instant, index: u32) -> Sent {
        let Core { conns, port, shared, stats, starved, loop_waiting, .. } = self;
        let Some((meta, tcp)) = conns.get_mut(index) else { return Sent::All };
        let mac = port.caps.mac;
        port.address(tcp.key(), &mac, meta.hash);
        for _ in 0..QUOTA_SEGMENTS {
            if port.looped.len() >= LOOPED_MAX {
                loop_waiting.push(conns, index);
                return Sent::Parked;
            }
            if !port.stock() {
                stats.no_frame += 1;
                *starved = true;
                return Sent::NoFrame;
            }
            let limits = port.limits();
            let Some(tx) = tcp.poll_transmit(&mut shared.cx(now), &limits) else { return Sent::All };
            port.looped_segment(tcp, &shared.pool, &tx);
            if tcp.counts_copies() {
                tcp.on_copied(&tx);
            }
            if !tcp.wants_to_transmit() {
                return Sent::All;
            }
        }
        Sent::Some
    }

    /// Receives what was in the loopback when the call began.
    #[inline(never)]
    pub(crate) fn receive_looped(&mut self, now: Instant, rx: &mut Rx, turn: &mut Turn) {
        let mut left = self.port.looped.len();
        turn.received += left as u32;
        self.stats.looped += left as u64;
        self.looping = true;
        while left > 0 {
            let count = left.min(BATCH_MAX);
            left -= count;
            rx.batch.extend(self.port.looped.drain(..count));
            self.parse_looped(rx);
            self.deliver_batch(now, rx);
        }
        self.looping = false;
        let mut waiting = std::mem::replace(&mut self.loop_waiting, crate::tables::conns::List::new());
        self.dirty.append(&mut self.conns, &mut waiting);
    }

    /// Notes what the packets of the batch are: this stack has built them.
    fn parse_looped(&mut self, rx: &mut Rx) {
        let Rx { batch, arrivals, .. } = rx;
        for (at, packet) in batch.iter().enumerate() {
            let frame = packet.frame.data();
            let parsed = match self.port.caps.medium {
                Medium::Ip => parse_ip(frame, frame.len()).map(Content::Ip),
                Medium::Ethernet => parse_frame(frame, frame.len()).map(|frame| frame.content),
            };
            let Ok(Content::Ip(packet)) = parsed else {
                self.drops.count(PacketDrop::Parse);
                continue;
            };
            let ports = packet.upper(frame).first_chunk().filter(|_| packet.protocol == protocol::TCP);
            let Some(&[a, b, c, d]) = ports else {
                self.drops.count(PacketDrop::Parse);
                continue;
            };
            let local = Endpoint::new(packet.dst, u16::from_be_bytes([c, d]));
            let key = FlowKey::new(local, Endpoint::new(packet.src, u16::from_be_bytes([a, b])));
            let hash = self.table.hash_looped(&key);
            let (start, end, tos) = (packet.start, packet.end, packet.tos);
            arrivals.push(Arrival { key, hash, flow: None, start, end, at: at as u16, frames: 1, tos });
        }
    }
}
