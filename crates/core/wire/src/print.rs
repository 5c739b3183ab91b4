//! Any packet as one line, in tcpdump's manner.

use crate::ethernet::{self, Mac};
use crate::icmp::{self, Message, Unreachable};
use crate::packet::{self, Checked, Content, Packet};
use crate::tcp::{Flags, Options, Segment};
use crate::{ParseError, arp, nd, protocol};
use core::fmt::{self, Display, Formatter};

/// A packet that displays as one line.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    bytes: &'a [u8],
}

/// The line of an Ethernet frame.
pub const fn frame(bytes: &[u8]) -> Line<'_> {
    Line { bytes }
}

impl Display for Line<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes;
        match packet::parse_frame(bytes, bytes.len()).map(|frame| frame.content) {
            Ok(Content::Ip(packet)) => ip_line(f, &packet, bytes),
            Ok(Content::Arp(packet)) => arp_line(f, &packet),
            Err(ParseError::UnknownEthertype) => ethertype_line(f, bytes),
            Err(why) => refused(f, why, bytes.len()),
        }
    }
}

fn refused(f: &mut Formatter<'_>, why: ParseError, len: usize) -> fmt::Result {
    write!(f, "refused ({why}), length {len}")
}

fn ethertype_line(f: &mut Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let Ok((link, _)) = ethernet::parse(bytes) else {
        return refused(f, ParseError::LinkTruncated, bytes.len());
    };
    let (src, dst) = (DisplayMac(link.src), DisplayMac(link.dst));
    write!(f, "{src} > {dst}, ethertype {:#06x}, length {}", link.ethertype, bytes.len())
}

fn arp_line(f: &mut Formatter<'_>, packet: &arp::Packet) -> fmt::Result {
    match packet.operation {
        arp::Operation::Request => write!(f, "ARP, Request who-has {} tell {}", packet.target, packet.sender),
        arp::Operation::Reply => {
            write!(f, "ARP, Reply {} is-at {}", packet.sender, DisplayMac(packet.sender_mac))
        }
    }
}

fn ip_line(f: &mut Formatter<'_>, packet: &Packet, bytes: &[u8]) -> fmt::Result {
    f.write_str(if packet.src.is_v4() { "IP " } else { "IP6 " })?;
    match packet.tos & 3 {
        0 => {}
        3 => f.write_str("(CE) ")?,
        _ => f.write_str("(ECT) ")?,
    }
    let upper = packet.upper(bytes);
    match packet.protocol {
        protocol::TCP => tcp_line(f, packet, bytes),
        protocol::ICMP if packet.src.is_v4() => {
            write!(f, "{} > {}: ICMP ", packet.src, packet.dst)?;
            icmp_line(f, icmp::parse_v4(upper), upper.len())
        }
        protocol::ICMPV6 if !packet.src.is_v4() => {
            write!(f, "{} > {}: ICMP6 ", packet.src, packet.dst)?;
            if upper.first().is_some_and(|kind| nd::is_nd(*kind)) {
                return nd_line(f, nd::parse(packet.src, packet.dst, packet.ttl, upper), upper.len());
            }
            icmp_line(f, icmp::parse_v6(packet.src, packet.dst, upper), upper.len())
        }
        protocol::UDP if upper.len() >= 8 => {
            let port = |at: usize| u16::from_be_bytes([upper[at], upper[at + 1]]);
            let (src, dst) = (packet.src, packet.dst);
            write!(f, "{src}.{} > {dst}.{}: UDP, length {}", port(0), port(2), upper.len() - 8)
        }
        other => write!(f, "{} > {}: protocol {other}, length {}", packet.src, packet.dst, upper.len()),
    }
}

fn tcp_line(f: &mut Formatter<'_>, packet: &Packet, bytes: &[u8]) -> fmt::Result {
    let (src_port, dst_port, segment) = match packet.tcp(bytes) {
        Ok(parsed) => parsed,
        Err(why) => {
            write!(f, "{} > {}: TCP ", packet.src, packet.dst)?;
            return refused(f, why, packet.len() as usize);
        }
    };
    write!(f, "{}.{src_port} > {}.{dst_port}: ", packet.src, packet.dst)?;
    match packet.checksum(bytes) {
        Checked::Good => {}
        Checked::Partial => f.write_str("(partial checksum) ")?,
        Checked::Bad => f.write_str("(bad checksum) ")?,
    }
    SegmentLine(&segment).fmt(f)
}

/// A TCP segment as tcpdump shows what follows the addresses.
#[derive(Clone, Copy, Debug)]
pub struct SegmentLine<'a>(pub &'a Segment<'a>);

impl Display for SegmentLine<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let segment = self.0;
        write!(f, "Flags {:?}, seq {}", segment.flags, segment.seq.raw())?;
        if segment.seq_len() > 0 && !segment.payload.is_empty() {
            write!(f, ":{}", (segment.seq + segment.payload.len() as u32).raw())?;
        }
        if segment.flags.has(Flags::ACK) {
            write!(f, ", ack {}", segment.ack.raw())?;
        }
        write!(f, ", win {}", segment.window)?;
        if segment.flags.has(Flags::URG) {
            write!(f, ", urg {}", segment.urgent)?;
        }
        if segment.options != Options::default() {
            write!(f, ", options [{}]", segment.options)?;
        }
        write!(f, ", length {}", segment.payload.len())
    }
}

fn icmp_line(f: &mut Formatter<'_>, message: Result<Message<'_>, ParseError>, len: usize) -> fmt::Result {
    let quote = match message {
        Err(why) => return refused(f, why, len),
        Ok(Message::EchoRequest { token, .. }) => {
            return write!(f, "echo request, id {}, seq {}, length {len}", token >> 16, token & 0xffff);
        }
        Ok(Message::EchoReply { token, .. }) => {
            return write!(f, "echo reply, id {}, seq {}, length {len}", token >> 16, token & 0xffff);
        }
        Ok(Message::Other { kind, code, .. }) => return write!(f, "type {kind} code {code}, length {len}"),
        Ok(Message::TooBig { mtu, quote }) => {
            write!(f, "too big, mtu {mtu}")?;
            quote
        }
        Ok(Message::TimeExceeded { code, quote }) => {
            write!(f, "time exceeded, code {code}")?;
            quote
        }
        Ok(Message::Unreachable { why, quote }) => {
            match why {
                Unreachable::Network => f.write_str("network unreachable"),
                Unreachable::Host => f.write_str("host unreachable"),
                Unreachable::Protocol => f.write_str("protocol unreachable"),
                Unreachable::Port => f.write_str("port unreachable"),
                Unreachable::Prohibited => f.write_str("prohibited"),
                Unreachable::Other(code) => write!(f, "unreachable, code {code}"),
            }?;
            quote
        }
    };
    if let Ok(q) = icmp::parse_quote(quote) {
        write!(f, ", for {}.{} > {}.{}", q.src, q.src_port, q.dst, q.dst_port)?;
    }
    write!(f, ", length {len}")
}

fn nd_line(f: &mut Formatter<'_>, message: Result<nd::Message, ParseError>, len: usize) -> fmt::Result {
    match message {
        Err(why) => refused(f, why, len),
        Ok(nd::Message::Solicitation { target, source_mac }) => {
            write!(f, "neighbor solicitation, who has {target}")?;
            source_mac.map_or(Ok(()), |mac| write!(f, ", from {}", DisplayMac(mac)))
        }
        Ok(nd::Message::Advertisement { target, target_mac, .. }) => {
            write!(f, "neighbor advertisement, tgt is {target}")?;
            target_mac.map_or(Ok(()), |mac| write!(f, ", at {}", DisplayMac(mac)))
        }
    }
}

/// A link-layer address in the usual six pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DisplayMac(pub Mac);

impl Display for DisplayMac {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}
