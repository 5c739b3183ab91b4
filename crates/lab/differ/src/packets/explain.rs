//! Predicates that recognise explained differences, by the keys of [`crate::reasons`].

mod repair;

use super::case::{Case, SCALE_UNIT, ack_of, ahead, data_of, stamps, takes_numbers, tcp};
use super::changes::alike;
use super::compare::{DELAYED, Difference, TOLERANCE, differ, differ_at_end, timer_beside};
use super::input::{Action, Call, Echo, Half, Input, MSS, Step, Switch};
use super::trace::Trace;
use crate::reasons::{self, Kind, Row};
use base::Duration;
use drill::lang::{Body, Flags, Range};
use drill::run::peer::FIRST_STAMP;

/// The bit of poll(2).
const POLLERR: u32 = 8;

/// Bytes that the kernel cuts a segment for a small window to, at least: 68 less the header.
const LEAST: u32 = 48;

/// Most bytes of SACK blocks with their head.
const BLOCKS: u32 = 36;

/// Judgment on an input.
#[derive(Default)]
pub struct Verdict {
    /// Rows of the explained differences.
    pub explained: Vec<&'static Row>,
    /// The first difference that no row explains. What follows it may be its consequence.
    pub open: Option<Difference>,
}

impl Verdict {
    /// Returns true if both did the same.
    pub fn is_same(&self) -> bool {
        self.explained.is_empty() && self.open.is_none()
    }
}

/// Compares what both did, step by step. What follows an explained difference is compared as well, where the difference
/// leaves both in the same state.
pub fn judge(input: &Input, kernel: &Trace, ours: &Trace) -> Verdict {
    let mut verdict = Verdict::default();
    // How long a timer may run out on one of the two yet that ran out on the other one.
    let mut apart = None;
    for (step, (a, b)) in kernel.moments.iter().zip(&ours.moments).enumerate().take(input.steps.len()) {
        // Until the next step.
        let until = kernel.pauses.get(step + 1).copied().unwrap_or(Duration::MAX);
        let was_apart = apart.is_some();
        apart = apart.and_then(|left: Duration| left.checked_sub(until)).max(timer_beside(a, b, until));
        let Some(difference) = differ(step, a, b, until) else { continue };
        let mut case = Case::new(input, &difference, kernel, ours);
        case.is_timer_apart = was_apart;
        if let Some((row, goes_on)) = row(&case) {
            verdict.explained.push(row);
            if goes_on {
                continue;
            }
            return verdict;
        }
        let (a, b, rows) = alike(&case, a, b);
        verdict.explained.extend(rows);
        let Some(mut difference) = differ(step, &a, &b, until) else { continue };
        if let Some((acknowledgment, rest)) = difference.without_acknowledgment()
            && let Some((row, true)) = row(&Case::new(input, &acknowledgment, kernel, ours))
        {
            verdict.explained.push(row);
            difference = rest;
        }
        let mut case = Case::new(input, &difference, kernel, ours);
        case.is_timer_apart = was_apart;
        match row(&case) {
            Some((row, true)) => verdict.explained.push(row),
            Some((row, false)) => {
                verdict.explained.push(row);
                return verdict;
            }
            None => {
                verdict.open = Some(difference);
                return verdict;
            }
        }
    }
    if let Some(difference) = differ_at_end(input.steps.len(), kernel, ours) {
        match row(&Case::new(input, &difference, kernel, ours)) {
            Some((row, _)) => verdict.explained.push(row),
            None => verdict.open = Some(difference),
        }
    }
    verdict
}

fn is_icmp(step: &Step) -> bool {
    matches!(&step.action, Action::Send(packet, _) if matches!(packet.body, Body::Icmp(_)))
}

type Predicate = fn(&Case<'_>) -> bool;

/// Is what follows compared as well?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Both are in the same state still.
    GoesOn,
    /// Not if the peer's segment holds data or a FIN, which one of the two took.
    GoesOnIfBare,
    /// Not either if it acknowledges something or changes the window.
    GoesOnIfNoNews,
    Ends,
}

/// Predicates by key, the narrowest first.
const PREDICATES: &[(&str, Then, Predicate)] = &[
    ("crossed_syn_options", Then::GoesOn, |case| {
        let starts = ["S. "];
        case.called(Call::Connect)
            && !case.difference.kernel.is_empty()
            && !case.difference.ours.is_empty()
            && Case::only(&case.difference.kernel, &starts)
            && Case::only(&case.difference.ours, &starts)
    }),
    ("half_open_ack_first", Then::GoesOn, |case| {
        case.is_half_open
            && !case.called(Call::Connect)
            && case.ack().is_some_and(|ack| ack != case.heard)
            && case.difference.kernel.first().is_some_and(|line| line.starts_with("R "))
            && case.difference.ours.first().is_some_and(|line| line.starts_with(". "))
            && case.difference.kernel[1..] == case.difference.ours[1..]
    }),
    ("half_open_echo", Then::Ends, |case| {
        // An echo of the latest timestamp that is not the SYN-ACK's, because something was sent since.
        let echo = case.input.steps.get(case.difference.step).map(|step| &step.action);
        // The kernel is half open still: it repeats its SYN-ACK, acknowledges or resets, and has nothing to accept.
        let half_open = ["S. 0:0(0) ", ". 1:1(0) ", "R ", "= -1 EAGAIN", "ends in [SYN-RECEIVED]"];
        if case.is_half_open && case.is_echo_apart {
            return Case::only(&case.difference.kernel, &half_open);
        }
        let is_other = match (echo, case.segment.and_then(stamps)) {
            (Some(Action::Send(_, Echo::Latest(more))), Some(_)) => *more != 0 || case.has_answered,
            (_, Some((_, ecr))) => ecr != FIRST_STAMP,
            (_, None) => false,
        };
        case.is_half_open
            && !case.called(Call::Connect)
            && (is_other || !case.sends(Flags::ACK))
            && case.difference.kernel.first().is_some_and(|line| line.starts_with(". 1:1(0) "))
            // It repeats the SYN-ACK.
            && (Case::only(&case.difference.kernel[1..], &["S. "])
                || case.difference.kernel[1..] == case.difference.ours)
    }),
    ("repeated_syn_echo", Then::Ends, |case| {
        // It has the number of the SYN that opened the connection.
        let opening = case.expected.wrapping_sub(1).wrapping_add(case.input.isn);
        let is_first = case.segment.and_then(|tcp| tcp.seq).is_some_and(|range| range.start == opening);
        let told = |val: u32| format!("ecr {val},");
        let echoes =
            case.stamp.zip(case.segment.and_then(stamps)).map(|(first, (val, _))| (told(first), told(val)));
        let ([kernel], [ours]) = (&*case.difference.kernel, &*case.difference.ours) else { return false };
        case.is_half_open
            && !case.called(Call::Connect)
            && case.sends(Flags::SYN)
            && !case.sends(Flags::ACK)
            && is_first
            && kernel.starts_with("S. ")
            && echoes
                .is_some_and(|(first, val)| kernel.contains(&first) && kernel.replace(&first, &val) == *ours)
    }),
    ("listener_closed", Then::Ends, |case| {
        let step = case.input.steps.get(case.difference.step);
        (case.called(Call::CloseListener)
            || step.is_some_and(|step| step.action == Action::Call(Call::CloseListener)))
            // Without an acknowledgment nothing tells the number of a reset.
            && Case::only(&case.difference.kernel, &[if case.sends(Flags::ACK) { "R " } else { "R. 0:0" }])
            && Case::only(&case.difference.ours, &["R. "])
            // Or a timer would repeat the SYN-ACK, and ends it.
            && (case.difference.kernel.len() == case.difference.ours.len() || case.difference.kernel.is_empty())
    }),
    ("closed_old_data", Then::GoesOn, |case| {
        let end = case.segment.filter(|tcp| tcp.len > 0).and_then(|tcp| tcp.seq).map(|range| range.end);
        let is_old = end.is_some_and(|end| !ahead(end, case.expected));
        let is_acked = case.acked != case.heard && case.una() == case.heard;
        is_old && is_acked && case.has_ended && case.called(Call::Close) && case.ours_acknowledges()
    }),
    ("no_ack_flag", Then::GoesOn, |case| {
        let has = |flag| case.sends(flag);
        case.segment.is_some()
            && !has(Flags::ACK)
            && !has(Flags::RST)
            && !has(Flags::SYN)
            && (case.ours_acknowledges() || case.kernel_acknowledges() && case.is_over())
    }),
    ("old_stamp_unanswered", Then::GoesOn, |case| {
        let is_old = |val: u32| case.stamp.is_some_and(|stamp| ahead(stamp, val));
        let is_plain = case.segment.is_some_and(|tcp| tcp.len == 0) && !case.sends(Flags::FIN | Flags::SYN);
        is_plain
            && case.segment.and_then(stamps).is_some_and(|(val, _)| is_old(val))
            && case.ours_acknowledges()
    }),
    ("future_ack_at_end", Then::GoesOn, |case| {
        case.ack().is_some_and(|ack| ahead(ack, case.heard))
            && case.has_ended
            && case.acked == case.heard
            && case.ours_acknowledges()
    }),
    ("time_wait_spaced", Then::GoesOn, |case| {
        case.is_over()
            && case
                .segment
                .is_some_and(|tcp| tcp.flags.has(Flags::SYN) || (tcp.len == 0 && !tcp.flags.has(Flags::FIN)))
            && case.difference.ours.is_empty()
            && case.difference.kernel.len() == 1
            && Case::only(&case.difference.kernel, &[". "])
    }),
    ("window_lowered", Then::Ends, |case| {
        let is_data = |line: &String| !line.contains("(0)") || line.starts_with("F. ");
        let (kernel, ours) = (&case.difference.kernel, &case.difference.ours);
        // Or the number of an acknowledgment, which does not lie beyond the window.
        let at = |lines: &[String], at: u32| {
            lines.first().is_some_and(|line| line.starts_with(&format!(". {at}:{at}(0) ")))
        };
        let is_number = ahead(case.heard, case.told) && at(kernel, case.heard) && at(ours, case.told);
        case.is_window_lowered && (kernel.iter().any(is_data) || ours.iter().any(is_data) || is_number)
    }),
    ("urgent_in_stream", Then::Ends, |case| {
        let is_look = match case.input.steps.get(case.difference.step).map(|step| &step.action) {
            Some(Action::Call(call)) => matches!(call, Call::Read(_) | Call::Poll),
            _ => false,
        };
        case.is_urgent && is_look
    }),
    ("beyond_window", Then::GoesOnIfNoNews, |case| case.segment.is_some_and(|tcp| case.is_at_an_edge(tcp))),
    ("fin_probed", Then::GoesOn, |case| {
        let is_fin = |line: &String| line.contains("F. ") && line.contains("(0)");
        case.difference.kernel.len() == 1
            && case.difference.kernel.iter().chain(&case.difference.ours).all(is_fin)
            && case.difference.ours.len() < 2
            && case.has_ended
    }),
    ("probe_of_pieces", Then::Ends, |case| {
        let (kernel, ours) = case.data();
        // What is sent again is told by its end if it begins behind what is not acknowledged.
        let is_piece = |range: Range| range.end == case.heard_by_both && ahead(range.start, case.una());
        // Or it is new data, behind several pieces.
        let is_fresh =
            |range: Range| range.start == case.heard && case.departures.len() > 1 && case.is_kernel_later;
        kernel.is_some_and(|range| is_piece(range) || is_fresh(range))
            && ours.is_none()
            && case.heard_by_both.wrapping_sub(case.una()) <= MSS.into()
    }),
    ("other_syn", Then::Ends, |case| {
        let reset = if case.sends(Flags::ACK) { "R " } else { "R. 0:0" };
        let is_reset = Case::only(&case.difference.kernel, &[reset])
            // What is half open goes on.
            && Case::only(&case.difference.ours, &[". ", "S. "])
            && case.difference.kernel.len() == 1;
        // In FIN-WAIT-2 of a closed socket one that begins before the window and ends in it is dropped.
        let is_before = |range: Range| !ahead(range.start.wrapping_sub(case.input.isn), case.expected);
        let is_dropped = case.has_closed
            && case.has_ended
            && case.acked == case.heard
            && !case.sends(Flags::ACK)
            && case.segment.and_then(|tcp| tcp.seq).is_some_and(is_before)
            && case.ours_acknowledges();
        case.sends(Flags::SYN) && (is_reset || is_dropped)
    }),
    ("old_ack", Then::GoesOnIfBare, |case| {
        // A reset tells that the kernel is half open still.
        let is_reset = case.difference.kernel.first().is_some_and(|line| line.starts_with("R "));
        case.ack().is_some_and(|ack| ahead(case.acked, ack))
            && !case.is_half_open
            && !(case.is_ack_apart && is_reset)
    }),
    ("fin_acked_at_once", Then::GoesOn, |case| {
        let is_ack = |line: &String| line.starts_with(". ") || line.starts_with("after 0 ms: . ");
        case.sends(Flags::FIN)
            && case.difference.ours.first().is_some_and(|line| is_ack(line) && line.contains("(0) "))
            && Case::only(&case.difference.kernel, &["after "])
    }),
    ("text_beside_fin_ack", Then::GoesOn, |case| {
        let end = case.segment.filter(|tcp| tcp.len > 0).and_then(|tcp| tcp.seq).map(|range| range.end);
        let is_last = case.fins.iter().any(|fin| fin.wrapping_add(1) == case.expected);
        (case.has_closed || is_last)
            && case.has_ended
            && case.acked != case.heard
            && case.ack() == Some(case.heard)
            && end.is_some_and(|end| !ahead(end, case.expected))
            && case.ours_acknowledges()
    }),
    ("bare_beyond_window", Then::GoesOn, |case| {
        let at = |lines: &[String], at: u32| match lines {
            [line] => line.starts_with(&format!(". {at}:{at}(0) ")),
            _ => false,
        };
        let edge = case.una().wrapping_add(case.allowed.wrapping_sub(case.acked));
        let edge = if ahead(edge, case.told) { case.told } else { edge };
        ahead(case.heard, edge)
            && case.heard.wrapping_sub(edge) < SCALE_UNIT
            && at(&case.difference.kernel, case.heard)
            && at(&case.difference.ours, edge)
    }),
    ("text_across_fin", Then::Ends, |case| {
        let range = case.segment.filter(|tcp| tcp.len > 0).and_then(|tcp| tcp.seq);
        let is_across = |(range, fin): (Range, u32)| !ahead(range.start, fin) && ahead(range.end, fin);
        case.is_text_apart || range.zip(case.early_fin).is_some_and(is_across)
    }),
    ("icmp_names", Then::GoesOn, |case| {
        let until = case.difference.step.min(case.input.steps.len());
        let names = ["EACCES", "ENOPROTOOPT", "ECONNREFUSED"];
        let is_name = |line: &String| line.starts_with("= ") && names.iter().any(|name| line.ends_with(name));
        case.input.steps[..until].iter().any(is_icmp) && case.difference.kernel.first().is_some_and(is_name)
    }),
    ("icmp_after_reset", Then::GoesOn, |case| {
        let until = case.difference.step.min(case.input.steps.len());
        let is_reset = |step: &Step| match &step.action {
            Action::Send(packet, _) => tcp(&packet.body).is_some_and(|tcp| tcp.flags.has(Flags::RST)),
            _ => false,
        };
        let before = &case.input.steps[..until];
        let names = ["= EHOSTUNREACH", "= ENETUNREACH", "= EPROTO"];
        let is_name = |line: &String| names.contains(&line.as_str());
        before.iter().any(is_icmp)
            && before.iter().any(is_reset)
            && case.difference.ours == ["= 0"]
            && case.difference.kernel.first().is_some_and(is_name)
    }),
    ("icmp_queued", Then::GoesOn, |case| {
        let until = case.difference.step.min(case.input.steps.len());
        let bits = |lines: &[String]| match lines {
            [line] => line.strip_prefix("= 0x").and_then(|digits| u32::from_str_radix(digits, 16).ok()),
            _ => None,
        };
        let (kernel, ours) = (bits(&case.difference.kernel), bits(&case.difference.ours));
        let is_queued =
            kernel.zip(ours).is_some_and(|(kernel, ours)| kernel ^ ours == POLLERR && kernel > ours);
        let is_syn_sent = case.is_half_open && case.acked == 0;
        // Or it ended the attempt before anything was acknowledged.
        let before = &case.input.steps[..until];
        let sent = |step: &Step| match &step.action {
            // What has no SYN leaves it in SYN-SENT.
            Action::Send(packet, _) => tcp(&packet.body).is_some_and(|tcp| tcp.flags.has(Flags::SYN)),
            Action::Call(_) => false,
        };
        let is_first = before.iter().position(is_icmp).is_some_and(|first| !before[..first].iter().any(sent));
        is_queued
            && case.called(Call::Connect)
            && (is_syn_sent || is_first)
            && !case.input.v6
            && before.iter().any(is_icmp)
    }),
    ("crossed_old_ack", Then::Ends, |case| {
        case.is_half_open
            && case.called(Call::Connect)
            && case.ack() == Some(case.acked)
            && case.difference.ours.first().is_some_and(|line| line.starts_with("R "))
            // A timer repeats the SYN-ACK.
            && Case::only(&case.difference.ours, &["R ", "S. "])
    }),
    ("delayed_ack", Then::GoesOn, |case| {
        // Or the next step came before the later of the two.
        let is_next = case.segment.is_some_and(|tcp| {
            let in_order = tcp
                .seq
                .is_some_and(|range| !ahead(range.start, case.expected) && ahead(range.end, case.expected));
            tcp.len > 0 && in_order && !tcp.flags.has(Flags::FIN | Flags::SYN)
        });
        let next = case.input.steps.get(case.difference.step + 1);
        let is_soon = next.is_some_and(|step| step.pause() < DELAYED + TOLERANCE);
        // Or what comes now is old for the one that has acknowledged what is behind it, and not yet for the other.
        let end = case.segment.and_then(|tcp| tcp.seq).map_or(case.expected, |range| range.end);
        let is_old = |told, other| ahead(told, end) && !ahead(other, end);
        case.only_later()
            || is_next && is_soon && (case.ours_acknowledges() || case.kernel_acknowledges())
            || is_old(case.expected_here, case.expected) && case.ours_acknowledges()
            || is_old(case.expected, case.expected_here) && case.kernel_acknowledges()
    }),
    ("synack_delayed", Then::GoesOn, |case| {
        let until = case.difference.step.min(case.input.steps.len());
        let last = case.input.steps[..until].iter().rev().find_map(|step| match step.action {
            Action::Call(Call::Set(Switch::QuickAck(on))) => Some(on),
            _ => None,
        });
        let answers = case.sends(Flags::SYN) && case.sends(Flags::ACK) && case.ack() == Some(case.heard);
        answers && case.called(Call::Connect) && last == Some(false) && case.ours_acknowledges()
    }),
    ("old_ack_stamp", Then::Ends, |case| {
        // By the timestamp of such a segment another one is not old here, and is on Linux, or the other way round.
        let told = |lines: &[String]| {
            let (_, rest) = lines.first()?.split_once("ecr ")?;
            rest.split([',', '>']).next()?.parse::<u32>().ok()
        };
        let is_old = |val: u32| told(&case.difference.kernel).is_some_and(|known| ahead(known, val));
        case.has_old_stamp
            && case.kernel_acknowledges()
            && case
                .segment
                .and_then(stamps)
                .is_some_and(|(val, _)| is_old(val) && case.stamp.is_some_and(|stamp| !ahead(stamp, val)))
    }),
    ("reset_answered", Then::GoesOn, |case| {
        let is_closed = case.has_ended && case.acked == case.heard;
        is_closed && case.sends(Flags::RST) && case.kernel_acknowledges()
    }),
    ("crossed_round_trip", Then::Ends, |case| {
        let again =
            |line: &String| line.starts_with("F. ") || data_of(line).is_some() || case.is_window_probe(line);
        case.called(Call::Connect)
            && case.has_crossed
            && (case.difference.ours.is_empty() || case.difference.kernel.is_empty())
            && case.difference.kernel.iter().chain(&case.difference.ours).all(again)
    }),
    ("fin_beyond_hole", Then::Ends, |case| {
        let is_alone = case.segment.is_some_and(|tcp| tcp.len == 0 && tcp.flags.has(Flags::FIN));
        let start = case.segment.and_then(|tcp| tcp.seq).map_or(0, |range| range.start);
        is_alone
            && ahead(start, case.expected)
            && (case.has_ended || case.called(Call::Close))
            && Case::only(&case.difference.kernel, &["R "])
            // With what its acknowledgment lets go.
            && Case::only(&case.difference.ours, &[". ", "F. "])
    }),
    ("sent_before_reset", Then::Ends, |case| {
        let is_sent = |line: &String| line.starts_with(". ") || line.starts_with("F. ");
        let (Some((last, sent)), [reset]) = (case.difference.kernel.split_last(), &*case.difference.ours)
        else {
            return false;
        };
        let is_shut = case.has_closed || case.called(Call::Shutdown(Half::Both));
        let has_text = case.segment.is_some_and(|tcp| tcp.len > 0);
        let is_news = case.una() != case.acked;
        is_shut && has_text && is_news && last == reset && reset.starts_with("R ") && sent.iter().all(is_sent)
    }),
    ("text_behind_fin", Then::Ends, |case| {
        let end = case.segment.filter(|tcp| tcp.len > 0).and_then(|tcp| tcp.seq).map(|range| range.end);
        let is_reset = end.is_some_and(|end| ahead(end, case.expected))
            && Case::only(&case.difference.kernel, &["R "])
            && Case::only(&case.difference.ours, &[". ", "F. "]);
        // A FIN of that text counts once more.
        let again = format!(" ack {}", case.expected.wrapping_add(1));
        let is_again = case.sends(Flags::FIN)
            && end == Some(case.expected)
            && case.difference.kernel.iter().all(|line| line.contains(&again))
            && !case.difference.ours.iter().any(|line| line.contains(&again));
        case.fins.iter().any(|fin| *fin == case.expected || fin.wrapping_add(1) == case.expected)
            && (is_reset || is_again)
    }),
    ("fin_before_data", Then::Ends, |case| {
        // It takes the place of a byte that came before, and the kernel acknowledges it, now or before.
        let fin =
            case.segment.filter(|_| case.sends(Flags::FIN)).and_then(|tcp| tcp.seq).map(|range| range.end);
        let is_now = fin.is_some_and(|fin| {
            let taken = format!(" ack {}", fin.wrapping_add(1));
            let takes = |lines: &[String]| lines.iter().any(|line| line.contains(&taken));
            ahead(case.reach, fin) && takes(&case.difference.kernel) && !takes(&case.difference.ours)
        });
        // Or it takes two FINs, one behind the other.
        let takes = |lines: &[String], fin: u32| {
            let taken = format!(" ack {}", fin.wrapping_add(1));
            lines.first().is_some_and(|line| line.contains(&(taken.clone() + " ")) || line.ends_with(&taken))
        };
        let is_second = case.fins.iter().any(|fin| {
            let is_before = |first: &&u32| fin.wrapping_sub(**first) == 1;
            let first = case.fins.iter().find(is_before);
            first.is_some_and(|first| {
                // Here the first was acknowledged before.
                let is_told = case.difference.ours.is_empty() && case.expected_here == first.wrapping_add(1);
                takes(&case.difference.kernel, *fin) && (is_told || takes(&case.difference.ours, *first))
            })
        });
        is_now || is_second || case.is_fin_apart
    }),
    ("half_open_old_data", Then::Ends, |case| case.is_ack_apart && !case.called(Call::Connect)),
    ("last_ack_reset", Then::Ends, |case| {
        let step = case.input.steps.get(case.difference.step);
        step.is_some_and(|step| step.action == Action::Call(Call::Close))
            && case.has_ended
            && case.fins.iter().any(|fin| fin.wrapping_add(1) == case.expected)
            && Case::only(&case.difference.kernel, &["R. "])
            && case.difference.ours.is_empty()
    }),
    ("synack_text", Then::Ends, |case| {
        // The kernel acknowledges the SYN alone.
        let syn = case.segment.and_then(|tcp| tcp.seq).map_or(0, |range| range.start);
        let syn = syn.wrapping_sub(case.input.isn).wrapping_add(1);
        let more = case.segment.map_or(0, |tcp| tcp.len + u32::from(tcp.flags.has(Flags::FIN)));
        let acknowledged = |lines: &[String]| lines.first().and_then(|line| ack_of(line));
        let kernel = acknowledged(&case.difference.kernel);
        let ours = acknowledged(&case.difference.ours).map_or(0, |ack| ack.wrapping_sub(syn));
        (case.called(Call::Connect) || case.is_half_open)
            && case.sends(Flags::SYN)
            && case.sends(Flags::ACK)
            && kernel == Some(syn)
            && (1..=more).contains(&ours)
    }),
    ("crossed_syn_fin", Then::Ends, |case| {
        let is_open = case.called(Call::Connect) && case.is_half_open && case.acked == 0;
        is_open
            && case.sends(Flags::SYN)
            && case.sends(Flags::FIN)
            && !case.sends(Flags::ACK)
            && Case::only(&case.difference.kernel, &["S. "])
            && Case::only(&case.difference.ours, &["S "])
    }),
    ("crossed_close", Then::Ends, |case| {
        case.is_half_open
            && case.called(Call::Connect)
            && (case.is_expected_known || case.has_crossed)
            && ends_stream(case)
    }),
    ("half_open_reset", Then::Ends, |case| {
        case.is_half_open
            && !case.called(Call::Connect)
            && case.sends(Flags::RST)
            && case.difference.kernel.is_empty()
            && case.ours_acknowledges()
    }),
    ("reset_apart", Then::Ends, |case| {
        let is_closed = case.has_ended && case.acked == case.heard;
        let is_now = case.difference.kernel.is_empty() && case.ours_acknowledges();
        let is_one = case.difference.kernel.is_empty() || case.difference.ours.is_empty();
        let start = case.segment.and_then(|tcp| tcp.seq).map_or(0, |range| range.start);
        let is_apart = is_closed || case.is_at_last_block(start);
        // The connection has ended on one of the two.
        let is_over = |lines: &[String]| Case::only(lines, &["R ", "R. ", "= ", "ends in []"]);
        // Or a SYN opens another one there.
        let answers = |lines: &[String], start| !lines.is_empty() && Case::only(lines, &[start]);
        let is_anew = |a: &[String], b: &[String]| answers(a, "S. ") && answers(b, ". ");
        let (kernel, ours) = (&case.difference.kernel, &case.difference.ours);
        let is_ended = is_over(kernel)
            || is_over(ours)
            || case.sends(Flags::SYN) && (is_anew(kernel, ours) || is_anew(ours, kernel));
        case.is_reset_apart && is_ended
            || case.is_reset_now && is_one
            || is_apart && case.sends(Flags::RST) && is_now
    }),
    ("duplicate_block", Then::Ends, |case| {
        // The block takes room of data.
        let (kernel, ours) = case.data();
        let is_cut = kernel.zip(ours).is_some_and(|(kernel, ours)| {
            let pieces = kernel.end.wrapping_sub(kernel.start).div_ceil(u32::from(MSS) - 2 * BLOCKS);
            kernel.start == ours.start && (1..=BLOCKS * pieces).contains(&ours.end.wrapping_sub(kernel.end))
        });
        case.tells_duplicate && is_cut
    }),
    ("old_for_one", Then::Ends, |case| case.is_old_apart),
    ("small_segments_in_buffer", Then::Ends, |case| {
        let taken = |lines: &[String]| lines.first()?.strip_prefix("= ")?.parse::<u32>().ok();
        let (kernel, ours) = (taken(&case.difference.kernel), taken(&case.difference.ours));
        let step = case.input.steps.get(case.difference.step).map(|step| &step.action);
        matches!(step, Some(Action::Call(Call::Write(_))))
            && kernel < ours
            && kernel.is_some()
            && case.largest < LEAST
    }),
    ("icmp_edge", Then::Ends, |case| case.is_icmp_apart),
    ("beyond_window", Then::Ends, |case| case.is_window_apart),
    ("timer_beside_step", Then::Ends, |case| case.is_timer_apart),
    ("crossed_reset", Then::GoesOn, |case| {
        let (kernel, ours) = (&case.difference.kernel, &case.difference.ours);
        let tells = |before| {
            *kernel == [format!("= {before}ECONNRESET")] && *ours == [format!("= {before}ECONNREFUSED")]
        };
        case.called(Call::Connect) && case.has_crossed_reset && (tells("-1 ") || tells(""))
    }),
    ("time_wait_syn_fin", Then::Ends, |case| {
        let until = case.difference.step.min(case.input.steps.len());
        let is_syn_fin = |step: &Step| match &step.action {
            Action::Send(packet, _) => tcp(&packet.body).is_some_and(|tcp| {
                tcp.flags.has(Flags::SYN) && tcp.flags.has(Flags::FIN) && !tcp.flags.has(Flags::ACK)
            }),
            _ => false,
        };
        case.is_over()
            && case.input.steps[..until].iter().any(is_syn_fin)
            && case.difference.kernel.len() == 1
            && Case::only(&case.difference.kernel, &[if case.sends(Flags::ACK) { "R " } else { "R. 0:0" }])
            && Case::only(&case.difference.ours, &[". "])
    }),
    ("time_wait_stamp", Then::Ends, |case| {
        let ([kernel], [ours]) = (&*case.difference.kernel, &*case.difference.ours) else { return false };
        let option = kernel.strip_prefix(ours).and_then(|rest| rest.strip_prefix(" <TS ecr "));
        let echo = option.and_then(|rest| rest.strip_suffix('>')).and_then(|ecr| ecr.parse::<u32>().ok());
        let told = |step: &Step| match &step.action {
            Action::Send(packet, _) => tcp(&packet.body).and_then(stamps).map(|(val, _)| val),
            Action::Call(_) => None,
        };
        let has_told = case.before().iter().any(|step| echo.is_some() && told(step) == echo);
        case.is_over() && !case.has_stamps && has_told
    }),
    ("time_wait_stamped_syn", Then::Ends, |case| {
        case.is_over()
            && case.sends(Flags::SYN)
            && !case.has_stamps
            && case.segment.and_then(stamps).is_some()
            && Case::only(&case.difference.kernel, &[". "])
            && case.difference.ours.first().is_some_and(|line| line.starts_with("S. "))
    }),
];

/// Has the application ended its stream, now or before?
fn ends_stream(case: &Case<'_>) -> bool {
    let until = (case.difference.step + 1).min(case.input.steps.len());
    let ends = |step: &Step| {
        let shut = |half| Action::Call(Call::Shutdown(half));
        [Action::Call(Call::Close), shut(Half::Write), shut(Half::Both)].contains(&step.action)
    };
    case.input.steps[..until].iter().any(ends)
}

/// Returns the row that explains a difference, and whether what follows is compared as well.
pub fn row(case: &Case<'_>) -> Option<(&'static Row, bool)> {
    let (key, then, _) = PREDICATES.iter().chain(repair::PREDICATES).find(|(_, _, is_so)| is_so(case))?;
    // One of the two may have taken data, a FIN, or a timestamp.
    let is_stamp = |val: u32| case.stamp.is_none_or(|known| ahead(val, known));
    let has_stamp = case.segment.and_then(stamps).is_some_and(|(val, _)| case.has_stamps && is_stamp(val));
    let is_bare = case.segment.is_none_or(|tcp| !takes_numbers(tcp) && !has_stamp);
    let goes_on = match then {
        Then::GoesOn => true,
        Then::GoesOnIfBare => is_bare,
        Then::GoesOnIfNoNews => is_bare && (case.is_no_news || !case.sends(Flags::ACK)),
        Then::Ends => false,
    };
    reasons::by_key(Kind::Packets, key).map(|row| (row, goes_on))
}

#[cfg(test)]
mod edges;
#[cfg(test)]
mod later;
#[cfg(test)]
mod tests;
