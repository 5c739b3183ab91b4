//! Predicates that recognise explained differences, by the keys of [`crate::reasons`].

use super::compare::Difference;
use super::input::{Action, Call, Echo, Input};
use super::trace::Trace;
use crate::reasons::{self, Kind, Row};
use drill::lang::{Body, Flags, Segment, TcpOption};
use drill::run::peer::FIRST_STAMP;

/// A difference with what led to it.
pub struct Case<'a> {
    input: &'a Input,
    difference: &'a Difference,
    /// The peer's segment, if the step is one.
    segment: Option<&'a Segment>,
    /// Number up to which the peer has acknowledged what the near end had sent, before the step, on the kernel.
    acked: u32,
    /// Right edge of what the near end had sent.
    heard: u32,
    /// Next number that the near end expects.
    expected: u32,
    /// Right edge of the window that the kernel has offered.
    edge: u32,
    /// The near end has sent no more than a SYN or a SYN-ACK, and that is not acknowledged.
    is_half_open: bool,
    /// Something was sent after the SYN-ACK.
    has_answered: bool,
    /// The latest timestamp that the peer has sent in order.
    stamp: Option<u32>,
    /// The window went down in a segment that had the numbers of the one before.
    is_window_lowered: bool,
    /// The peer has sent urgent data.
    is_urgent: bool,
}

/// The timestamps of a segment: TSval and TSecr.
fn stamps(tcp: &Segment) -> Option<(u32, u32)> {
    tcp.options.iter().flatten().find_map(|option| match option {
        TcpOption::Timestamps { val, ecr, .. } => Some(((*val)?, *ecr)),
        _ => None,
    })
}

fn tcp(body: &Body) -> Option<&Segment> {
    match body {
        Body::Tcp(tcp) => Some(tcp),
        _ => None,
    }
}

fn ahead(a: u32, b: u32) -> bool {
    a != b && a.wrapping_sub(b) < 1 << 31
}

impl<'a> Case<'a> {
    /// A difference of an input, with what the kernel did.
    pub fn new(input: &'a Input, difference: &'a Difference, kernel: &Trace) -> Case<'a> {
        let mut case = Case {
            input,
            difference,
            segment: None,
            acked: 0,
            heard: 0,
            expected: 0,
            edge: 0,
            is_half_open: true,
            has_answered: false,
            stamp: None,
            is_window_lowered: false,
            is_urgent: false,
        };
        // Sequence number, acknowledgment and window of the peer's latest segment.
        let mut before = None;
        let mut scale = 0;
        for (step, moment) in input.steps.iter().zip(&kernel.moments).take(difference.step) {
            if let Action::Send(packet, _) = &step.action
                && let Some(tcp) = tcp(&packet.body)
            {
                if let Some(ack) = tcp.ack.filter(|ack| ahead(*ack, case.acked) && !ahead(*ack, case.heard)) {
                    case.acked = ack;
                    let is_next = tcp.flags.has(Flags::SYN)
                        || tcp.seq.is_some_and(|range| range.start == case.expected);
                    case.is_half_open &= ack != case.heard || !is_next;
                }
                case.is_urgent |= tcp.flags.has(Flags::URG);
                case.stamp = stamps(tcp).map(|stamps| stamps.0).or(case.stamp);
                let numbers = (tcp.seq.map(|range| range.start), tcp.ack);
                if let Some((known, window)) = before {
                    case.is_window_lowered |= known == numbers && tcp.window < window;
                }
                before = Some((numbers, tcp.window));
            }
            for seen in moment.seen.iter().filter_map(|seen| tcp(&seen.packet.body)) {
                let syn = seen.flags.has(Flags::SYN);
                if seen.flags.has(Flags::RST) {
                    continue;
                }
                let end = seen.seq.map_or(0, |range| range.end);
                let end = end.wrapping_add(u32::from(syn) + u32::from(seen.flags.has(Flags::FIN)));
                if syn || ahead(end, case.heard) {
                    case.heard = end;
                }
                if let Some(ack) = seen.ack {
                    case.expected = if syn { ack.wrapping_sub(input.isn) } else { ack };
                    let shift = if syn { 0 } else { scale };
                    case.edge = case.expected.wrapping_add(u32::from(seen.window.unwrap_or(0)) << shift);
                }
                scale = seen.options.iter().flatten().fold(scale, |scale, option| match option {
                    TcpOption::WindowScale(shift) => *shift,
                    _ => scale,
                });
                // A challenge leaves it half open.
                case.has_answered |= !syn;
            }
        }
        if let Some(Action::Send(packet, _)) = input.steps.get(difference.step).map(|step| &step.action) {
            case.segment = tcp(&packet.body);
        }
        case
    }

    fn ack(&self) -> Option<u32> {
        self.segment.filter(|tcp| tcp.flags.has(Flags::ACK))?.ack
    }

    fn sends(&self, flag: u8) -> bool {
        self.segment.is_some_and(|tcp| tcp.flags.has(flag))
    }

    fn called(&self, call: Call) -> bool {
        let until = self.difference.step.min(self.input.steps.len());
        self.input.steps[..until].iter().any(|step| step.action == Action::Call(call))
    }

    /// Do all lines begin so, if there are any?
    fn only(lines: &[String], starts: &[&str]) -> bool {
        lines.iter().all(|line| starts.iter().any(|start| line.starts_with(start)))
    }
}

/// The line without its blocks, and the blocks.
fn blocks(line: &str) -> (String, Vec<(u32, u32)>) {
    let Some(at) = line.find("sack ") else { return (line.into(), Vec::new()) };
    let (before, rest) = line.split_at(at);
    let list = rest.trim_start_matches("sack ");
    let list = list.split(['>', ',']).next().unwrap_or_default();
    let pairs = list.split(' ').filter_map(|block| block.split_once(':'));
    let pairs = pairs.filter_map(|(start, end)| Some((start.parse().ok()?, end.parse().ok()?)));
    (before.trim_end_matches([',', '<', ' ']).into(), pairs.collect())
}

/// Lines that differ in their blocks alone.
fn blocks_differ(case: &Case<'_>, is_same: impl Fn(&[(u32, u32)], &[(u32, u32)]) -> bool) -> bool {
    let (kernel, ours) = (&case.difference.kernel, &case.difference.ours);
    kernel.len() == ours.len()
        && kernel.iter().zip(ours).all(|(kernel, ours)| {
            let (a, b) = (blocks(kernel), blocks(ours));
            a.0.trim_end_matches('>') == b.0.trim_end_matches('>') && is_same(&a.1, &b.1)
        })
}

type Predicate = fn(&Case<'_>) -> bool;

/// Predicates by key, the narrowest first.
const PREDICATES: &[(&str, Predicate)] = &[
    ("duplicate_block", |case| {
        // Blocks left of what is expected report duplicates.
        let new = |blocks: &[(u32, u32)]| -> Vec<(u32, u32)> {
            blocks.iter().copied().filter(|(_, end)| ahead(*end, case.expected)).collect()
        };
        blocks_differ(case, |a, b| new(a) == new(b))
    }),
    ("block_with_fin", |case| {
        blocks_differ(case, |a, b| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && a.1.wrapping_sub(b.1) <= 1)
        })
    }),
    ("crossed_syn_options", |case| {
        let starts = ["S. "];
        case.called(Call::Connect)
            && !case.difference.kernel.is_empty()
            && Case::only(&case.difference.kernel, &starts)
            && Case::only(&case.difference.ours, &starts)
    }),
    ("half_open_ack_first", |case| {
        case.is_half_open
            && !case.called(Call::Connect)
            && case.ack().is_some_and(|ack| ack != case.heard)
            && Case::only(&case.difference.kernel, &["R "])
            && Case::only(&case.difference.ours, &[". "])
    }),
    ("half_open_echo", |case| {
        // An echo of the latest timestamp that is not the SYN-ACK's, because something was sent since.
        let echo = case.input.steps.get(case.difference.step).map(|step| &step.action);
        let is_other = match (echo, case.segment.and_then(stamps)) {
            (Some(Action::Send(_, Echo::Latest(more))), Some(_)) => *more != 0 || case.has_answered,
            (_, Some((_, ecr))) => ecr != FIRST_STAMP,
            (_, None) => false,
        };
        case.is_half_open
            && !case.called(Call::Connect)
            && is_other
            && case.difference.kernel.len() == 1
            && Case::only(&case.difference.kernel, &[". 1:1(0) "])
    }),
    ("old_stamp_unanswered", |case| {
        let is_old = |val: u32| case.stamp.is_some_and(|stamp| ahead(stamp, val));
        let is_plain = case.segment.is_some_and(|tcp| tcp.len == 0) && !case.sends(Flags::FIN | Flags::SYN);
        let rest = case.difference.ours.get(1..).unwrap_or_default();
        is_plain
            && case.segment.and_then(stamps).is_some_and(|(val, _)| is_old(val))
            && Case::only(&case.difference.ours[..1.min(case.difference.ours.len())], &[". "])
            && rest == case.difference.kernel
    }),
    ("window_lowered", |case| {
        let is_data = |line: &String| !line.contains("(0)") || line.starts_with("F. ");
        let (kernel, ours) = (&case.difference.kernel, &case.difference.ours);
        case.is_window_lowered && (kernel.iter().any(is_data) || ours.iter().any(is_data))
    }),
    ("urgent_in_stream", |case| {
        let is_look = match case.input.steps.get(case.difference.step).map(|step| &step.action) {
            Some(Action::Call(call)) => matches!(call, Call::Read(_) | Call::Poll),
            _ => false,
        };
        case.is_urgent && is_look
    }),
    ("beyond_window", |case| {
        // Between the edges of the two windows, or across the kernel's.
        let syn = u32::from(case.sends(Flags::SYN));
        let end = case.segment.and_then(|tcp| tcp.seq).map_or(0, |range| range.end);
        let beyond = end.wrapping_add(syn).wrapping_sub(case.edge);
        syn == 0 && case.segment.is_some() && case.edge != 0 && beyond < 70_000
    }),
    ("fin_probed", |case| {
        let is_fin = |line: &String| line.contains("F. ") && line.contains("(0)");
        case.difference.kernel.len() == 1
            && case.difference.kernel.iter().chain(&case.difference.ours).all(is_fin)
            && case.difference.ours.len() < 2
            && case.segment.is_some()
    }),
    ("old_ack", |case| case.ack().is_some_and(|ack| ahead(case.acked, ack)) && !case.is_half_open),
    ("fin_acked_at_once", |case| {
        let is_ack = |line: &String| line.starts_with(". ") || line.starts_with("after 0 ms: . ");
        case.sends(Flags::FIN)
            && case.difference.ours.first().is_some_and(is_ack)
            && Case::only(&case.difference.kernel, &["after "])
    }),
];

/// Returns the row that explains a difference.
pub fn row(case: &Case<'_>) -> Option<&'static Row> {
    let key = PREDICATES.iter().find(|(_, is_so)| is_so(case)).map(|(key, _)| key)?;
    reasons::by_key(Kind::Packets, key)
}

#[test]
fn every_key_has_a_row_and_every_row_a_predicate() {
    let keys: Vec<&str> = PREDICATES.iter().map(|(key, _)| *key).collect();
    for key in &keys {
        assert!(reasons::by_key(Kind::Packets, key).is_some(), "no row has the key {key}");
    }
    for row in reasons::of(Kind::Packets) {
        assert!(keys.contains(&row.key), "no predicate has the key {}", row.key);
    }
}

#[test]
fn blocks_are_told_from_the_rest_of_a_line() {
    let (rest, found) = blocks(". 1:1(0) ack 1 <TS ecr 10,sack 5:7 1:2>");
    assert_eq!((rest.as_str(), found), (". 1:1(0) ack 1 <TS ecr 10", vec![(5, 7), (1, 2)]));
    assert_eq!(blocks(". 1:1(0) ack 1").0, ". 1:1(0) ack 1");
}
