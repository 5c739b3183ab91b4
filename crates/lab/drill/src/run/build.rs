//! A packet of the script to bytes on the wire.

use super::flow::{Ends, Flow, byte};
use super::icmp::numbers;
use super::sign::PeerKeys;
use crate::lang::{Digest, Ecn, Flags, Icmp, IpInfo, Quoted, Segment, TcpOption};
use base::{Addr, Endpoint};
use wire::checksum::{Sum, pseudo};
use wire::packet::Below;
use wire::protocol;

/// Hop limit of what the script sends, unless it says otherwise.
const TTL: u8 = 64;

fn below(ip: &IpInfo, source: Addr, destination: Addr) -> Below {
    let ecn = match ip.ecn {
        Some(Ecn::Bits(bits)) => bits & 3,
        Some(Ecn::Ect01) => 1,
        None => 0,
    };
    Below {
        link: None,
        src: source,
        dst: destination,
        tos: ip.dscp.unwrap_or(0) | ecn,
        ttl: ip.ttl.unwrap_or(TTL),
        label: ip.label.unwrap_or(0),
    }
}

/// An IP packet of this upper layer.
fn packet(ip: &IpInfo, source: Addr, destination: Addr, upper: &[u8], number: u8) -> Vec<u8> {
    let below = below(ip, source, destination);
    let mut out = vec![0; below.len() + upper.len()];
    let at = below.emit(number, upper.len(), &mut out);
    out[at..].copy_from_slice(upper);
    out
}

/// A TCP segment of the peer, in an IP packet. The error says what cannot be mapped or built.
pub(super) fn segment(
    ip: &IpInfo,
    segment: &Segment,
    flow: &Flow,
    ends: Ends,
    keys: &PeerKeys,
) -> Result<Vec<u8>, String> {
    let syn = segment.flags.has(Flags::SYN);
    let Some(range) = segment.seq else { return Err("a segment to send needs its sequence number".into()) };
    let offset = if segment.absolute { 0 } else { flow.remote_offset(syn) };
    let seq = range.start.wrapping_add(offset);
    let ack = match segment.ack {
        // The flag without a number acknowledges number 0 of the script.
        ack if segment.flags.has(Flags::ACK) => ack.unwrap_or(0).wrapping_add(flow.local_offset(syn)),
        ack => ack.unwrap_or(0),
    };
    let mut options = Vec::with_capacity(40);
    for option in segment.options.as_deref().unwrap_or_default() {
        emit_option(option, segment, flow, &mut options)?;
    }
    options.resize(options.len().next_multiple_of(4), 0);
    let header_len = 20 + options.len();
    let mut out = Vec::with_capacity(header_len + segment.len as usize);
    out.extend(ends.source.port.to_be_bytes());
    out.extend(ends.destination.port.to_be_bytes());
    out.extend(seq.to_be_bytes());
    out.extend(ack.to_be_bytes());
    let (ae, bits) = wire_flags(segment.flags);
    out.extend([(header_len as u8 / 4) << 4 | u8::from(ae), bits]);
    out.extend(segment.window.unwrap_or(0).to_be_bytes());
    out.extend([0, 0]);
    out.extend(segment.urgent.unwrap_or(0).to_be_bytes());
    out.extend(&options);
    let first = seq.wrapping_sub(flow.remote_isn).wrapping_add(u32::from(syn));
    out.extend((0..segment.len).map(|i| byte(first.wrapping_add(i))));
    keys.sign(segment.options.as_deref().unwrap_or_default(), flow, ends, &mut out)?;
    let sum = pseudo(ends.source.addr, ends.destination.addr, protocol::TCP, out.len() as u32);
    let checksum = sum.plus(Sum::of(&out)).checksum();
    wire::tcp::set_checksum(&mut out, checksum);
    Ok(packet(ip, ends.source.addr, ends.destination.addr, &out, protocol::TCP))
}

/// AE, and the byte of the other eight.
fn wire_flags(flags: Flags) -> (bool, u8) {
    match flags.ace {
        None => (flags.ae, flags.bits),
        Some(ace) => {
            let ece = if ace & 1 != 0 { Flags::ECE } else { 0 };
            let cwr = if ace & 2 != 0 { Flags::CWR } else { 0 };
            (ace & 4 != 0, flags.bits & !(Flags::ECE | Flags::CWR) | ece | cwr)
        }
    }
}

fn emit_option(option: &TcpOption, segment: &Segment, flow: &Flow, out: &mut Vec<u8>) -> Result<(), String> {
    let mut put = |kind: u8, data: &[u8]| {
        out.extend([kind, data.len() as u8 + 2]);
        out.extend(data);
    };
    match option {
        TcpOption::Nop => out.push(1),
        TcpOption::Eol => out.push(0),
        TcpOption::Mss(mss) => put(2, &mss.to_be_bytes()),
        TcpOption::WindowScale(shift) => put(3, &[*shift]),
        TcpOption::SackPermitted => put(4, &[]),
        TcpOption::Sack(blocks) => {
            let offset = flow.local_offset(segment.flags.has(Flags::SYN));
            let live = |seq: u32| seq.wrapping_add(offset).to_be_bytes();
            let data: Vec<u8> = blocks.iter().flat_map(|b| [live(b.start), live(b.end)]).flatten().collect();
            put(5, &data);
        }
        TcpOption::Timestamps { val, ecr, absolute } => {
            let ecr = if *absolute || !segment.flags.has(Flags::ACK) { *ecr } else { live_ecr(*ecr, flow)? };
            let Some(val) = val else { return Err("a timestamp to send needs its value".into()) };
            put(8, &[val.to_be_bytes(), ecr.to_be_bytes()].concat());
        }
        TcpOption::FastOpen(cookie) => put(34, cookie),
        TcpOption::FastOpenExp(cookie) => put(254, &[&[0xf9, 0x89], &cookie[..]].concat()),
        TcpOption::Md5(Digest::Bytes(bytes)) => put(19, bytes),
        TcpOption::Md5(Digest::Valid) => put(19, &[0; 16]),
        TcpOption::Ao { key_id, next, mac } => {
            let mac = match mac {
                Digest::Valid => &[0; 12],
                Digest::Bytes(bytes) => &bytes[..],
            };
            put(29, &[&[*key_id, *next], mac].concat());
        }
        TcpOption::AccEcn { kind, counters } => {
            let data: Vec<u8> = counters.iter().flat_map(|c| c.to_be_bytes().into_iter().skip(1)).collect();
            put(*kind, &data);
        }
        TcpOption::Other(kind, data) => put(*kind, data),
    }
    Ok(())
}

/// Returns the live timestamp that the peer echoes: a value the script has shown, or zero.
fn live_ecr(script: u32, flow: &Flow) -> Result<u32, String> {
    match flow.live_stamp(script) {
        Some(live) => Ok(live),
        None if script == 0 => Ok(0),
        None => Err(format!("no segment of ours has shown the timestamp {script} that is echoed here")),
    }
}

/// A message of the peer's routers as a packet to us, about a packet of `flow` or of none.
pub(super) fn message(
    ip: &IpInfo,
    icmp: &Icmp,
    flow: &Flow,
    from: Addr,
    ours: Endpoint,
    theirs: Endpoint,
) -> Result<Vec<u8>, String> {
    let v4 = ours.addr.is_v4();
    let (kind, code) = numbers(v4, icmp)?;
    let mut out = vec![kind, code, 0, 0, 0, 0, 0, 0];
    match (icmp.mtu, icmp.id) {
        (Some(mtu), _) => out[4..8].copy_from_slice(&mtu.to_be_bytes()),
        (None, Some(id)) => out[4..6].copy_from_slice(&id.to_be_bytes()),
        (None, None) => {}
    }
    if !icmp.kind.starts_with("echo") {
        out.extend(quote(icmp.quoted, flow, ours, theirs)?);
    }
    let sum = if v4 { Sum::ZERO } else { pseudo(from, ours.addr, protocol::ICMPV6, out.len() as u32) };
    let field = sum.plus(Sum::of(&out)).checksum();
    out[2..4].copy_from_slice(&field.to_be_bytes());
    Ok(packet(ip, from, ours.addr, &out, if v4 { protocol::ICMP } else { protocol::ICMPV6 }))
}

/// The packet of ours that it is about, with a whole TCP header.
fn quote(quoted: Option<Quoted>, flow: &Flow, ours: Endpoint, theirs: Endpoint) -> Result<Vec<u8>, String> {
    let (seq, len) = match quoted {
        Some(Quoted::Tcp(range, len)) => (range.start.wrapping_add(flow.local_offset(false)), len),
        None => (flow.local_offset(false), 0),
        Some(_) => return Err("unsupported: ICMP that quotes anything but TCP".into()),
    };
    let mut header = vec![0; 20];
    header[..2].copy_from_slice(&ours.port.to_be_bytes());
    header[2..4].copy_from_slice(&theirs.port.to_be_bytes());
    header[4..8].copy_from_slice(&seq.to_be_bytes());
    header[12] = 5 << 4;
    // The length that the whole packet had, of which the quote is the head.
    header.resize(20 + len as usize, 0);
    let mut whole = packet(&IpInfo::default(), ours.addr, theirs.addr, &header, protocol::TCP);
    whole.truncate(whole.len() - len as usize);
    Ok(whole)
}
