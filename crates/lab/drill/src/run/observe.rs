//! Bytes of the stack to a packet in the script's words.

use super::flow::{Flow, byte};
use super::world::World;
use crate::lang::{
    Body, Digest, Direction, Ecn, Flags, Icmp, IpInfo, Packet, Ports, Range, Segment, Span, TcpOption,
};
use base::{Duration, Endpoint, Instant};
use wire::packet::{Checked, parse_ip};
use wire::protocol;

/// A packet of the stack.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// When it left, since the run began.
    pub(super) at: Duration,
    pub(super) source: Endpoint,
    pub(super) destination: Endpoint,
    /// As it is: nothing mapped.
    pub(super) packet: Packet,
    /// Payload of TCP.
    pub(super) payload: Vec<u8>,
    /// As it left the port.
    pub(super) left: Instant,
    pub(super) bytes: Vec<u8>,
}

impl Sent {
    pub(super) fn tcp(&self) -> Option<&Segment> {
        match &self.packet.body {
            Body::Tcp(segment) => Some(segment),
            _ => None,
        }
    }

    /// The packet in the script's words: numbers count as the flow says.
    pub(super) fn in_script(&self, flow: &Flow) -> Packet {
        let mut packet = self.packet.clone();
        let Body::Tcp(segment) = &mut packet.body else { return packet };
        let syn = segment.flags.has(Flags::SYN);
        let ours = flow.local_offset(syn);
        let theirs = flow.remote_offset(syn);
        if let Some(range) = &mut segment.seq {
            range.start = range.start.wrapping_sub(ours);
            range.end = range.end.wrapping_sub(ours);
        }
        if let Some(ack) = segment.ack.as_mut().filter(|_| segment.flags.has(Flags::ACK)) {
            *ack = ack.wrapping_sub(theirs);
        }
        for option in segment.options.iter_mut().flatten() {
            match option {
                TcpOption::Sack(blocks) => {
                    for block in blocks {
                        block.start = block.start.wrapping_sub(theirs);
                        block.end = block.end.wrapping_sub(theirs);
                    }
                }
                TcpOption::Timestamps { val: Some(val), .. } => {
                    if let Some(script) = flow.script_stamp(*val) {
                        *val = script;
                    }
                }
                _ => {}
            }
        }
        packet
    }

    /// Where the first byte of the payload is not what the application wrote there.
    pub(super) fn wrong_byte(&self, flow: &Flow) -> Option<u32> {
        let segment = self.tcp()?;
        let syn = u32::from(segment.flags.has(Flags::SYN));
        let first = segment.seq?.start.wrapping_sub(flow.local_isn.0).wrapping_add(syn);
        let wrong = self.payload.iter().enumerate().find(|(i, o)| byte(first.wrapping_add(*i as u32)) != **o);
        wrong.map(|(i, _)| first.wrapping_add(i as u32))
    }
}

/// Reads a packet of the stack; the error says what is wrong with it.
pub(super) fn read(left: Instant, bytes: Vec<u8>) -> Result<Sent, String> {
    let at = World::since_start(left);
    let packet =
        parse_ip(&bytes, bytes.len()).map_err(|why| format!("the stack sent a bad packet: {why}"))?;
    let upper = packet.upper(&bytes);
    let ip = IpInfo {
        ecn: Some(Ecn::Bits(packet.tos & 3)),
        dscp: Some(packet.tos & !3),
        label: (!packet.src.is_v4()).then(|| label(&bytes)),
        ttl: Some(packet.ttl),
    };
    let mut sent = Sent {
        at,
        source: Endpoint::new(packet.src, 0),
        destination: Endpoint::new(packet.dst, 0),
        packet: Packet { direction: Direction::Out, outer: Vec::new(), ip, body: Body::Udp(None, 0) },
        payload: Vec::new(),
        left,
        bytes: Vec::new(),
    };
    match packet.protocol {
        protocol::TCP => {
            if packet.checksum(&bytes) != Checked::Good {
                return Err("the stack sent a segment with a wrong checksum".into());
            }
            let (segment, header) = tcp(upper).ok_or("the stack sent a bad TCP header")?;
            if let Some(ports) = segment.ports {
                (sent.source.port, sent.destination.port) = (ports.source, ports.destination);
            }
            sent.payload = upper[header..].to_vec();
            sent.packet.body = Body::Tcp(segment);
        }
        protocol::ICMP | protocol::ICMPV6 => {
            let (kind, code) = (upper.first().copied().unwrap_or(0), upper.get(1).copied().unwrap_or(0));
            let (kind, code) = super::icmp::names(packet.protocol == protocol::ICMP, kind, code);
            let span = Span::default();
            sent.packet.body = Body::Icmp(Icmp { kind, code, mtu: None, id: None, quoted: None, span });
        }
        other => return Err(format!("the stack sent a packet of protocol {other}")),
    }
    sent.bytes = bytes;
    Ok(sent)
}

fn label(bytes: &[u8]) -> u32 {
    bytes.first_chunk::<4>().map_or(0, |word| u32::from_be_bytes(*word) & 0xf_ffff)
}

/// The header as it is, and its length.
fn tcp(upper: &[u8]) -> Option<(Segment, usize)> {
    let fixed: &[u8; 20] = upper.first_chunk()?;
    let half = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
    let word = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    let header = usize::from(fixed[12] >> 4) * 4;
    let options = options(upper.get(20..header)?)?;
    let len = (upper.len() - header) as u32;
    let flags = Flags { bits: fixed[13], ae: fixed[12] & 1 != 0, ace: None };
    let start = word(4);
    let segment = Segment {
        ports: Some(Ports { source: half(0), destination: half(2) }),
        flags,
        seq: Some(Range { start, end: start.wrapping_add(len) }),
        len,
        absolute: false,
        ack: flags.has(Flags::ACK).then(|| word(8)),
        window: Some(half(14)),
        urgent: Some(half(18)),
        options: Some(options),
        udp: None,
    };
    Some((segment, header))
}

fn options(mut bytes: &[u8]) -> Option<Vec<TcpOption>> {
    let mut all = Vec::new();
    while let [kind, rest @ ..] = bytes {
        if *kind < 2 {
            all.push(if *kind == 0 { TcpOption::Eol } else { TcpOption::Nop });
            bytes = rest;
            continue;
        }
        let len = usize::from(*rest.first()?);
        let (option, after) = bytes.split_at_checked(len)?;
        all.push(one(*kind, option.get(2..)?));
        bytes = after;
    }
    Some(all)
}

fn one(kind: u8, data: &[u8]) -> TcpOption {
    let words: Vec<u32> = data.as_chunks::<4>().0.iter().map(|w| u32::from_be_bytes(*w)).collect();
    match (kind, data) {
        (2, [a, b]) => TcpOption::Mss(u16::from_be_bytes([*a, *b])),
        (3, [shift]) => TcpOption::WindowScale(*shift),
        (4, []) => TcpOption::SackPermitted,
        (5, _) if data.len().is_multiple_of(8) => TcpOption::Sack(
            words.as_chunks::<2>().0.iter().map(|&[start, end]| Range { start, end }).collect(),
        ),
        (8, _) if data.len() == 8 => {
            TcpOption::Timestamps { val: Some(words[0]), ecr: words[1], absolute: false }
        }
        (19, _) => TcpOption::Md5(Digest::Bytes(data.to_vec())),
        (29, [key_id, next, mac @ ..]) => {
            TcpOption::Ao { key_id: *key_id, next: *next, mac: Digest::Bytes(mac.to_vec()) }
        }
        (34, cookie) => TcpOption::FastOpen(cookie.to_vec()),
        (254, [0xf9, 0x89, cookie @ ..]) => TcpOption::FastOpenExp(cookie.to_vec()),
        (172 | 174, _) if data.len().is_multiple_of(3) => {
            let counters = data.as_chunks::<3>().0.iter().map(|&[a, b, c]| u32::from_be_bytes([0, a, b, c]));
            TcpOption::AccEcn { kind, counters: counters.collect() }
        }
        _ => TcpOption::Other(kind, data.to_vec()),
    }
}
