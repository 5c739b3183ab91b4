//! ICMP: errors about our own packets, path MTU, and pings.

use base::{Endpoint, FlowKey, Instant, Seq};
use tcp::IcmpError;
use wire::icmp::{self, Message, Unreachable};
use wire::packet::Packet;
use wire::{nd, protocol};

use crate::core::Core;
use crate::stats::PacketDrop;
use crate::tables::flows::Flow;
use crate::tx::Envelope;

/// Least MTU believed (RFC 8201 section 4 for IPv6; for IPv4 what Linux believes by default, against RFC
/// 791's 68 and the abuse it invites).
const MTU_MIN_V6: u16 = 1280;
const MTU_MIN_V4: u16 = 552;
/// Largest ping answered.
const ECHO_MAX: usize = 1472;
/// Hop limit of what we originate ourselves.
const TTL: u8 = 64;

impl Core {
    /// An ICMP packet for us arrived from `mac`.
    /// RFC 9293, MUST-54 and MUST-55; RFC 5927, 6-1.
    pub(crate) fn on_icmp(&mut self, now: Instant, packet: &Packet, frame: &[u8], mac: [u8; 6]) {
        let upper = packet.upper(frame);
        let parsed = if packet.protocol == protocol::ICMP {
            icmp::parse_v4(upper)
        } else if upper.first().is_some_and(|&kind| nd::is_nd(kind)) {
            match nd::parse(packet.src, packet.dst, packet.ttl, upper) {
                Ok(message) => self.on_nd(now, packet.src, mac, message),
                Err(_) => self.drops.count(PacketDrop::Icmp),
            }
            return;
        } else {
            icmp::parse_v6(packet.src, packet.dst, upper)
        };
        let handled = match parsed {
            Ok(Message::EchoRequest { token, data }) => self.echo(now, packet, token, data, mac),
            Ok(Message::TooBig { mtu, quote }) => self.too_big(now, mtu, quote),
            Ok(Message::Unreachable { why, quote }) => self.unreachable(now, why, quote),
            // Out of hops may be a route that is being repaired: a soft error (RFC 1122, section 4.2.3.9).
            Ok(Message::TimeExceeded { code: 0, quote }) => {
                self.report(now, IcmpError::HostUnreachable, quote)
            }
            _ => false,
        };
        if !handled {
            self.drops.count(PacketDrop::Icmp);
        }
    }

    fn echo(&mut self, now: Instant, packet: &Packet, token: u32, data: &[u8], mac: [u8; 6]) -> bool {
        let answers = !self.port.caps.shares_kernel_addresses && self.ip.is_own(packet.dst);
        if !answers || data.len() > ECHO_MAX || packet.src.is_unspecified() {
            return false;
        }
        if !self.echoes.take(now) {
            self.drops.count(PacketDrop::RateLimited);
            return true;
        }
        let (src, dst) = (packet.dst, packet.src);
        let reply = Message::EchoReply { token, data };
        let envelope = Envelope { mac, hash: 0, tos: packet.tos & !3, ttl: TTL };
        let sent = self.port.packet((src, dst), packet.protocol, &envelope, reply.len(), |into| {
            reply.emit(src, dst, into);
        });
        self.stats.echo_replies += u64::from(sent);
        true
    }

    /// Lowers the path MTU of new connections, if the connection believed the message (it checks that the packet
    /// was in flight). RFC 8201, 4-2.
    fn too_big(&mut self, now: Instant, mtu: u32, quote: &[u8]) -> bool {
        let Some((index, _)) = self.quoted(quote) else { return false };
        let Some((_, tcp)) = self.conns.get(index) else { return false };
        let (remote, before) = (tcp.key().remote().addr, tcp.info(now).path_mtu);
        let least = if remote.is_v4() { MTU_MIN_V4 } else { MTU_MIN_V6 };
        let told = u16::try_from(mtu).unwrap_or(u16::MAX);
        let mtu = if told == 0 { 0 } else { told.max(least) };
        self.report(now, IcmpError::TooBig { mtu }, quote);
        let after = self.conns.get(index).map_or(before, |(_, tcp)| tcp.info(now).path_mtu);
        if after < before {
            self.paths.too_big(now, remote, after, &mut self.ip);
        }
        true
    }

    fn unreachable(&mut self, now: Instant, why: Unreachable, quote: &[u8]) -> bool {
        let kind = match why {
            Unreachable::Port | Unreachable::Protocol => IcmpError::PortUnreachable,
            Unreachable::Network => IcmpError::NetUnreachable,
            Unreachable::Host | Unreachable::Prohibited | Unreachable::Other(_) => IcmpError::HostUnreachable,
        };
        self.report(now, kind, quote)
    }

    /// Tells the connection whose packet is quoted; false if there is none. The connection itself checks that
    /// the sequence number is in flight (RFC 5927, section 4.1).
    fn report(&mut self, now: Instant, kind: IcmpError, quote: &[u8]) -> bool {
        let Some((index, seq)) = self.quoted(quote) else { return false };
        let Some((_, tcp)) = self.conns.get_mut(index) else { return false };
        // Types and codes that RFC 5925, section 7.8, names: what would end a connection or shrink its segments.
        let hard = match kind {
            IcmpError::PortUnreachable => true,
            IcmpError::TooBig { .. } => tcp.key().is_v4(),
            _ => false,
        };
        if hard && tcp.ignores_icmp(&mut self.shared.cx(now)) {
            return true;
        }
        tcp.on_icmp(&mut self.shared.cx(now), kind, seq);
        self.stats.icmp_errors_in += 1;
        self.take_events(index);
        self.touch(index);
        true
    }

    /// The connection whose packet is quoted, and the packet's sequence number.
    fn quoted(&self, quote: &[u8]) -> Option<(u32, Seq)> {
        let quoted = icmp::parse_quote(quote).ok()?;
        let local = Endpoint::new(quoted.src, quoted.src_port);
        let key = FlowKey::new(local, Endpoint::new(quoted.dst, quoted.dst_port));
        match self.find(self.table.hash(&key), &key)? {
            Flow::Connection(index) => Some((index, quoted.seq?)),
            Flow::TimeWait(_) => None,
        }
    }
}
