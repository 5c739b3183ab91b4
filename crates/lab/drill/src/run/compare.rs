//! Comparison of the script's expectation with the packet sent, field by field.

use crate::lang::{Body, Ecn, Flags, Icmp, IpInfo, Packet, Segment, TcpOption};
use base::Duration;

/// How timestamps are compared.
#[derive(Clone, Copy)]
pub(super) struct Stamps {
    /// One tick of TSval; `None` leaves TSval alone.
    pub(super) tick: Option<Duration>,
    pub(super) tolerance: Duration,
}

/// The first field that differs, with both values; `None` if the packet is as expected.
pub(super) fn difference(expected: &Packet, seen: &Packet, stamps: Stamps) -> Option<String> {
    ip(&expected.ip, &seen.ip).or_else(|| match (&expected.body, &seen.body) {
        (Body::Tcp(expected), Body::Tcp(seen)) => tcp(expected, seen, stamps),
        (Body::Icmp(expected), Body::Icmp(seen)) => icmp(expected, seen),
        (expected, seen) => Some(format!("a packet of {} instead of {}", protocol(seen), protocol(expected))),
    })
}

fn protocol(body: &Body) -> &'static str {
    match body {
        Body::Tcp(_) => "TCP",
        Body::Udp(..) => "UDP",
        Body::Icmp(_) => "ICMP",
    }
}

/// Differs if the script says something and it is not so.
fn field<T: PartialEq + std::fmt::Display>(
    name: &str,
    expected: Option<T>,
    seen: Option<T>,
) -> Option<String> {
    let expected = expected?;
    if seen.as_ref() == Some(&expected) {
        return None;
    }
    let seen = seen.map_or("nothing".to_string(), |seen| seen.to_string());
    Some(format!("{name}: expected {expected}, seen {seen}"))
}

fn ip(expected: &IpInfo, seen: &IpInfo) -> Option<String> {
    let ecn = match (expected.ecn, seen.ecn) {
        (Some(Ecn::Ect01), Some(Ecn::Bits(1 | 2))) => None,
        (Some(_), _) if expected.ecn == seen.ecn => None,
        (Some(_), _) => {
            let shown = |ecn| IpInfo { ecn, ..IpInfo::default() }.to_string();
            Some(format!("ECN: expected {}, seen {}", shown(expected.ecn), shown(seen.ecn)))
        }
        (None, _) => None,
    };
    // Flow labels are the stack's own choice; whether they stay the same is the caller's affair.
    ecn.or_else(|| field("DSCP", expected.dscp.map(|d| d >> 2), seen.dscp.map(|d| d >> 2)))
        .or_else(|| field("TTL", expected.ttl, seen.ttl))
}

fn tcp(expected: &Segment, seen: &Segment, stamps: Stamps) -> Option<String> {
    let ports = expected.ports.and_then(|ports| {
        let seen = seen.ports?;
        field("source port", Some(ports.source).filter(|&p| p != 0), Some(seen.source)).or_else(|| {
            field("destination port", Some(ports.destination).filter(|&p| p != 0), Some(seen.destination))
        })
    });
    ports
        .or_else(|| flags(expected.flags, seen.flags))
        .or_else(|| {
            field("sequence number", expected.seq.map(|range| range.start), seen.seq.map(|range| range.start))
        })
        .or_else(|| field("length of payload", Some(expected.len), Some(seen.len)))
        .or_else(|| field("acknowledgment number", expected.ack, seen.ack))
        .or_else(|| field("window", expected.window, seen.window))
        .or_else(|| field("urgent pointer", Some(expected.urgent.unwrap_or(0)), seen.urgent))
        .or_else(|| {
            options(expected.options.as_deref()?, seen.options.as_deref().unwrap_or_default(), stamps)
        })
}

fn flags(expected: Flags, seen: Flags) -> Option<String> {
    let mut seen = seen;
    if expected.ace.is_some() {
        let bit = |on: bool, value: u8| if on { value } else { 0 };
        seen.ace = Some(bit(seen.has(Flags::ECE), 1) | bit(seen.has(Flags::CWR), 2) | bit(seen.ae, 4));
        seen.bits &= !(Flags::ECE | Flags::CWR);
        seen.ae = false;
    }
    field("flags", Some(expected.to_string()), Some(seen.to_string()))
}

fn options(expected: &[TcpOption], seen: &[TcpOption], stamps: Stamps) -> Option<String> {
    let list = |all: &[TcpOption]| {
        let all: Vec<_> = all.iter().map(TcpOption::to_string).collect();
        format!("<{}>", all.join(","))
    };
    let both = || Some(format!("options: expected {}, seen {}", list(expected), list(seen)));
    if expected.len() != seen.len() {
        return both();
    }
    for (want, have) in expected.iter().zip(seen) {
        match (want, have) {
            (
                TcpOption::Timestamps { val, ecr, .. },
                TcpOption::Timestamps { val: Some(seen_val), ecr: seen_ecr, .. },
            ) => {
                if let Some(wrong) = timestamps((*val, *ecr), (*seen_val, *seen_ecr), stamps) {
                    return Some(wrong);
                }
            }
            (want, have) if want == have => {}
            _ => return both(),
        }
    }
    None
}

fn timestamps(expected: (Option<u32>, u32), seen: (u32, u32), stamps: Stamps) -> Option<String> {
    if let (Some(val), Some(tick)) = (expected.0, stamps.tick) {
        let off = tick * seen.0.wrapping_sub(val).min(val.wrapping_sub(seen.0));
        if off > stamps.tolerance {
            return Some(format!("TSval: expected {val}, seen {}", seen.0));
        }
    }
    field("TSecr", Some(expected.1), Some(seen.1))
}

fn icmp(expected: &Icmp, seen: &Icmp) -> Option<String> {
    let shown =
        |icmp: &Icmp| format!("{} {}", icmp.kind, icmp.code.as_deref().unwrap_or("")).trim().to_string();
    field("ICMP", Some(shown(expected)), Some(shown(seen)))
}
