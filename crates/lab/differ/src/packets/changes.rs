//! Changes that make what the kernel and what this stack did after a step alike, by the keys of [`crate::reasons`].

use super::case::{Case, SCALE_UNIT, ahead, is_pure, takes_numbers, tcp};
use super::compare::{DELAYED, TOGETHER, TOLERANCE};
use super::input::{Action, Call, Step};
use super::trace::{Moment, Seen};
use crate::reasons::{self, Kind, Row};
use drill::lang::{Body, Flags, Range, Segment, TcpOption};

/// Changes what the kernel and what this stack did after a step so that it is alike.
pub(super) type Change = fn(&Case<'_>, &mut Moment, &mut Moment);

/// Changes by key. What is equal after them is explained by those that changed something.
pub(super) const CHANGES: &[(&str, Change)] = &[
    ("block_with_fin", |case, a, b| {
        for seen in segments(a).chain(segments(b)) {
            change_blocks(seen, |blocks| {
                for block in blocks.iter_mut() {
                    // Or several, one behind the other.
                    while block.start != block.end && case.fins.contains(&block.end.wrapping_sub(1)) {
                        block.end = block.end.wrapping_sub(1);
                    }
                    let is_behind = block.start != block.end && case.fins.contains(&block.start);
                    block.start = block.start.wrapping_add(u32::from(is_behind));
                }
                blocks.retain(|block| block.start != block.end);
            });
        }
    }),
    ("duplicate_block", |case, a, b| {
        // Blocks left of what is expected report duplicates.
        for seen in segments(a).chain(segments(b)) {
            let expected = seen.ack.filter(|ack| ahead(*ack, case.expected)).unwrap_or(case.expected);
            change_blocks(seen, |blocks| blocks.retain(|block| ahead(block.end, expected)));
        }
    }),
    ("edge_by_scale", |case, a, b| {
        let is_near = |edge: &u32| (1..SCALE_UNIT).contains(&case.heard.wrapping_sub(*edge));
        let place = |tcp: &Segment| tcp.seq.filter(|_| !takes_numbers(tcp)).map(|range| range.start);
        let edge = segments(b).find_map(|tcp| place(tcp).filter(|at| [case.told, case.allowed].contains(at)));
        let Some(edge) = edge.filter(is_near) else { return };
        for tcp in segments(a).filter(|tcp| place(tcp) == Some(case.heard)) {
            tcp.seq = Some(Range { start: edge, end: edge });
        }
    }),
    ("crossed_shut", |case, a, b| {
        let is_at = |tcp: &Segment, at| {
            let is_bare = !takes_numbers(tcp) && !tcp.flags.has(Flags::SYN);
            is_bare && tcp.seq.is_some_and(|range| range.start == at)
        };
        let is_crossed = case.called(Call::Connect) && case.is_half_open && case.has_crossed_shut;
        if is_crossed && segments(b).any(|tcp| is_at(tcp, 1)) {
            for tcp in segments(a).filter(|tcp| is_at(tcp, 0)) {
                tcp.seq = Some(Range { start: 1, end: 1 });
            }
        }
    }),
    ("blocks_after_close", |case, a, b| {
        let until = (case.difference.step + 1).min(case.input.steps.len());
        let closes = |step: &Step| step.action == Action::Call(Call::Close);
        if case.input.steps[..until].iter().any(closes) {
            segments(a).chain(segments(b)).for_each(|seen| change_blocks(seen, Vec::clear));
        }
    }),
    ("blocks_beyond_fin", |case, a, b| {
        for seen in segments(a).chain(segments(b)) {
            let is_taken = |fin: &u32| seen.ack == Some(fin.wrapping_add(1));
            let end = case.fins.iter().find(|fin| is_taken(fin)).copied();
            change_blocks(seen, |blocks| {
                blocks.retain(|block| end.is_none_or(|end| !ahead(block.end, end)));
            });
        }
        for seen in segments(a).chain(segments(b)) {
            change_blocks(seen, |blocks| {
                for block in blocks.iter_mut() {
                    block.end = case.early_fin.filter(|fin| ahead(block.end, *fin)).unwrap_or(block.end);
                }
                blocks.retain(|block| ahead(block.end, block.start));
            });
        }
    }),
    ("blocks_on_repeated", |case, a, b| {
        for moment in [a, b] {
            let mut heard = case.heard;
            for seen in segments(moment) {
                if seen.flags.has(Flags::RST) || case.repeats(seen, &mut heard) {
                    change_blocks(seen, Vec::clear);
                }
            }
        }
    }),
    ("cut_again", |case, a, b| {
        for moment in [a, b] {
            let mut heard = case.heard;
            for seen in segments(moment) {
                if case.repeats(seen, &mut heard) {
                    told_by_edge(seen, case.una(), heard);
                }
            }
        }
    }),
    ("old_ack_stamp", |case, a, b| {
        for seen in segments(a).chain(segments(b)).filter(|_| case.has_old_stamp) {
            let options = seen.options.iter_mut().flatten();
            options.for_each(|option| {
                if let TcpOption::Timestamps { ecr, .. } = option {
                    *ecr = 0;
                }
            });
        }
    }),
    ("delayed_ack", |case, a, b| {
        // A timestamp counts up to the number that was acknowledged last, which differs while one of the two delays.
        for seen in segments(a).chain(segments(b)).filter(|_| case.is_stamp_apart) {
            let options = seen.options.iter_mut().flatten();
            options.for_each(|option| {
                if let TcpOption::Timestamps { ecr, .. } = option {
                    *ecr = 0;
                }
            });
        }
    }),
    ("syn_again", |case, a, b| {
        if case.called(Call::Connect) && case.acked == 0 && case.has_acked {
            // Or its timer, which runs on, repeats the SYN-ACK when SYNs cross.
            let is_again = |seen: &Seen| {
                let flags = tcp(&seen.packet.body).map(|tcp| tcp.flags);
                flags.is_some_and(|flags| {
                    flags.bits == Flags::SYN || flags.has(Flags::SYN) && seen.at > TOLERANCE
                })
            };
            a.seen.retain(|seen| !is_again(seen));
            b.seen.retain(|seen| !is_again(seen));
        }
    }),
    ("fin_acked_at_once", |case, a, _| {
        // The kernel acknowledges the FIN behind data that leaves at once here, with its acknowledgment.
        if case.sends(Flags::FIN) {
            told_with_data(case, a, |ack| case.fins.contains(&ack.wrapping_sub(1)));
        }
    }),
    ("delayed_ack", |case, a, b| {
        // During a repair the kernel sends before it looks at the text beside an acknowledgment.
        let text = case.segment.filter(|tcp| tcp.len > 0).and_then(|tcp| tcp.seq);
        let is_repair = case.has_repeated && case.una() != case.acked;
        let Some(Range { end, .. }) = text.filter(|_| is_repair) else { return };
        let tells = |tcp: &Segment| takes_numbers(tcp) && tcp.ack == Some(end);
        let first = b.seen.first().filter(|seen| seen.at <= TOGETHER);
        if first.and_then(|seen| tcp(&seen.packet.body)).is_some_and(tells) {
            told_with_data(case, a, |ack| ack == end);
        }
    }),
    ("ack_beside_data", |_, a, b| {
        with_data(a);
        with_data(b);
    }),
    ("late_ack", |case, a, b| {
        let (kernel, here) = (case.expected, case.expected_here);
        let is_late = |seen: &Seen, known: u32| {
            let ack = tcp(&seen.packet.body).filter(|tcp| is_pure(tcp)).and_then(|tcp| tcp.ack);
            ack == Some(known)
        };
        // One end has told this number before, the other one tells it now.
        let (moment, other, known) = if ahead(here, kernel) { (a, b, here) } else { (b, a, kernel) };
        if here != kernel
            && moment.seen.len() > other.seen.len()
            && let Some(first) = moment.seen.iter().position(|seen| is_late(seen, known))
        {
            moment.seen.remove(first);
        }
    }),
];

fn segments(moment: &mut Moment) -> impl Iterator<Item = &mut Segment> {
    moment.seen.iter_mut().filter_map(|seen| match &mut seen.packet.body {
        Body::Tcp(tcp) => Some(tcp),
        _ => None,
    })
}

/// Tells what is sent again by its beginning, if that is what is not acknowledged first, and else by its end.
fn told_by_edge(tcp: &mut Segment, una: u32, heard: u32) {
    let Some(Range { start, end }) = tcp.seq else { return };
    let fin = u32::from(tcp.flags.has(Flags::FIN));
    let at = match end.wrapping_add(fin) == heard && start != una {
        true => end.wrapping_sub(u32::from(fin == 0)),
        false => start,
    };
    tcp.flags.bits &= !Flags::FIN;
    (tcp.seq, tcp.len) = (Some(Range { start: at, end: at.wrapping_add(1) }), 1);
}
/// Returns the SACK option of a segment.
fn blocks(tcp: &Segment) -> Option<&TcpOption> {
    tcp.options.iter().flatten().find(|option| matches!(option, TcpOption::Sack(_)))
}

fn change_blocks(tcp: &mut Segment, change: impl FnOnce(&mut Vec<Range>)) {
    let Some(options) = &mut tcp.options else { return };
    if let Some(TcpOption::Sack(blocks)) =
        options.iter_mut().find(|option| matches!(option, TcpOption::Sack(_)))
    {
        change(blocks);
    }
    options.retain(|option| !matches!(option, TcpOption::Sack(blocks) if blocks.is_empty()));
}

/// Tells the number of a delayed acknowledgment, if it is one of these, with the data that left before it.
fn told_with_data(case: &Case<'_>, moment: &mut Moment, is_one: impl Fn(u32) -> bool) {
    let last = moment.seen.iter().position(|seen| {
        let ack = tcp(&seen.packet.body).filter(|tcp| is_pure(tcp)).and_then(|tcp| tcp.ack);
        ack.is_some_and(&is_one) && (TOGETHER..DELAYED + TOLERANCE).contains(&seen.at)
    });
    let Some(last) = last.filter(|last| *last > 0) else { return };
    let ack = tcp(&moment.seen.remove(last).packet.body).and_then(|tcp| tcp.ack);
    segments(moment).take(last).filter(|tcp| tcp.ack == Some(case.expected)).for_each(|tcp| tcp.ack = ack);
}

/// Leaves out bare acknowledgments beside data that leaves at the same time, and tells the last number and the last
/// blocks with the data.
fn with_data(moment: &mut Moment) {
    let at =
        moment.seen.iter().find(|seen| tcp(&seen.packet.body).is_some_and(takes_numbers)).map(|seen| seen.at);
    let Some(at) = at else { return };
    let is_beside = |seen: &Seen| seen.at.abs_diff(at) <= TOGETHER;
    let acks = moment.seen.iter().filter(|seen| is_beside(seen));
    let last =
        acks.filter_map(|seen| tcp(&seen.packet.body)?.ack).reduce(|a, b| if ahead(b, a) { b } else { a });
    let pure = moment.seen.iter().filter(|seen| is_beside(seen)).filter_map(|seen| tcp(&seen.packet.body));
    let told = pure.filter(|tcp| is_pure(tcp) && tcp.ack == last).filter_map(blocks).next_back().cloned();
    moment.seen.retain(|seen| !is_beside(seen) || !tcp(&seen.packet.body).is_some_and(is_pure));
    for seen in moment.seen.iter_mut().filter(|seen| is_beside(seen)) {
        if let Body::Tcp(tcp) = &mut seen.packet.body
            && tcp.ack.is_some()
        {
            tcp.ack = last;
            if let Some(told) = told.as_ref().filter(|_| blocks(tcp).is_none()) {
                tcp.options.get_or_insert_default().push(told.clone());
            }
        }
    }
}

/// Returns what both did after the changes that make it alike, and the rows of these.
pub(super) fn alike(case: &Case<'_>, a: &Moment, b: &Moment) -> (Moment, Moment, Vec<&'static Row>) {
    let (mut a, mut b) = (a.clone(), b.clone());
    let mut rows = Vec::new();
    for (key, change) in CHANGES {
        let before = (a.clone(), b.clone());
        change(case, &mut a, &mut b);
        if before != (a.clone(), b.clone()) {
            rows.extend(reasons::by_key(Kind::Packets, key));
        }
    }
    (a, b, rows)
}
