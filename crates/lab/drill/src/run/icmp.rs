//! Names of ICMP's types and codes.

use crate::lang::Icmp;

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
pub(super) fn numbers(v4: bool, icmp: &Icmp) -> Result<(u8, u8), String> {
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
