//! ICMP: names of types and codes, and messages as the peer's routers send them.

use super::build::packet;
use super::flow::Flow;
use crate::lang::{Icmp, IpInfo, Quoted};
use base::{Addr, Endpoint};
use wire::checksum::{Sum, pseudo};
use wire::protocol;

/// Type, its name, code, its name (RFC 792, 1122, 1812).
const V4: &[(u8, &str, u8, &str)] = &[
    (0, "echo_reply", 0, ""),
    (3, "unreachable", 0, "net_unreachable"),
    (3, "unreachable", 1, "host_unreachable"),
    (3, "unreachable", 2, "protocol_unreachable"),
    (3, "unreachable", 3, "port_unreachable"),
    (3, "unreachable", 4, "frag_needed"),
    (3, "unreachable", 5, "source_route_failed"),
    (3, "unreachable", 6, "net_unknown"),
    (3, "unreachable", 7, "host_unknown"),
    (3, "unreachable", 8, "source_host_isolated"),
    (3, "unreachable", 9, "net_prohibited"),
    (3, "unreachable", 10, "host_prohibited"),
    (3, "unreachable", 11, "net_unreachable_for_tos"),
    (3, "unreachable", 12, "host_unreachable_for_tos"),
    (3, "unreachable", 13, "packet_filtered"),
    (3, "unreachable", 13, "admin_prohibited"),
    (3, "unreachable", 14, "precedence_violation"),
    (3, "unreachable", 15, "precedence_cutoff"),
    (4, "source_quench", 0, ""),
    (5, "redirect", 0, ""),
    (8, "echo_request", 0, ""),
    (11, "time_exceeded", 0, "ttl_exceeded_in_transit"),
    (11, "time_exceeded", 0, "exceeded_in_transit"),
    (11, "time_exceeded", 1, "frag_reass_exceeded"),
    (11, "time_exceeded", 1, "frag_reassembly_time_exceeded"),
    (12, "parameter_problem", 0, ""),
];

/// Names of ICMPv6 messages (RFC 4443).
const V6: &[(u8, &str, u8, &str)] = &[
    (1, "unreachable", 0, "no_route"),
    (1, "unreachable", 1, "admin_prohibited"),
    (1, "unreachable", 2, "not_neighbour"),
    (1, "unreachable", 3, "address_unreachable"),
    (1, "unreachable", 3, "host_unreachable"),
    (1, "unreachable", 4, "port_unreachable"),
    (2, "packet_too_big", 0, ""),
    (3, "time_exceeded", 0, "exceeded_hop_limit"),
    (3, "time_exceeded", 0, "hop_limit_exceeded"),
    (3, "time_exceeded", 1, "exceeded_frag_time"),
    (4, "parameter_problem", 0, "header_field"),
    (4, "parameter_problem", 1, "unknown_next_header"),
    (4, "parameter_problem", 2, "unknown_option"),
    (128, "echo_request", 0, ""),
    (129, "echo_reply", 0, ""),
];

fn table(v4: bool) -> &'static [(u8, &'static str, u8, &'static str)] {
    if v4 { V4 } else { V6 }
}

/// The names of a type and a code.
pub(super) fn names(v4: bool, kind: u8, code: u8) -> (String, Option<String>) {
    let row = table(v4).iter().find(|row| row.0 == kind && (row.2 == code || row.3.is_empty()));
    match row {
        Some((_, kind, _, code)) => (kind.to_string(), (!code.is_empty()).then(|| code.to_string())),
        None => (format!("type_{kind}"), Some(format!("code_{code}"))),
    }
}

/// The numbers of a message's names.
fn numbers(v4: bool, icmp: &Icmp) -> Result<(u8, u8), String> {
    let kind = table(v4).iter().find(|row| row.1 == icmp.kind).map(|row| row.0);
    let Some(kind) = kind else { return Err(format!("no ICMP type `{}` in this family", icmp.kind)) };
    let Some(code) = &icmp.code else { return Ok((kind, 0)) };
    if let Some(number) = code.strip_prefix("code_").and_then(|n| n.parse().ok()) {
        return Ok((kind, number));
    }
    match table(v4).iter().find(|row| row.0 == kind && row.3 == code) {
        Some(row) => Ok((kind, row.2)),
        None => {
            let family = if v4 { "IPv4" } else { "IPv6" };
            let foreign = table(!v4).iter().any(|row| row.1 == icmp.kind && row.3 == code);
            let what = if foreign { "unsupported: " } else { "" };
            Err(format!("{what}ICMP {} {code} over {family}", icmp.kind))
        }
    }
}

/// The message as a packet to us, about a packet of `flow` or of none.
pub(super) fn build(
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
