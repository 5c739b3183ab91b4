//! Predicates that recognise explained differences, by the keys of [`crate::reasons`].

use super::compare::{Difference, TOGETHER, differ, differ_at_end};
use super::input::{Action, Call, Echo, Input, Step};
use super::trace::{Moment, Seen, Trace};
use crate::reasons::{self, Kind, Row};
use drill::lang::{Body, Flags, Range, Segment, TcpOption};
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
    /// Next number that this stack expects from the peer.
    expected_here: u32,
    /// Right edge of the peer's window, and of what it was at most.
    allowed: u32,
    /// Something was sent again.
    has_repeated: bool,
    /// The near end's FIN was sent.
    has_ended: bool,
    /// Places of the peer's FINs.
    fins: Vec<u32>,
    /// Segments with an acknowledgment of less than was acknowledged before came with timestamps.
    has_old_stamp: bool,
    /// The step's segment acknowledges nothing and leaves the window as it is.
    is_no_news: bool,
    /// Right edge of the data that the peer has sent.
    reach: u32,
    /// The peer has sent an acknowledgment.
    has_acked: bool,
}

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
    for (step, (a, b)) in kernel.moments.iter().zip(&ours.moments).enumerate().take(input.steps.len()) {
        let Some(difference) = differ(step, a, b) else { continue };
        let case = Case::new(input, &difference, kernel, ours);
        if let Some((row, goes_on)) = row(&case) {
            verdict.explained.push(row);
            if goes_on {
                continue;
            }
            return verdict;
        }
        let (a, b, rows) = alike(&case, a, b);
        verdict.explained.extend(rows);
        let Some(difference) = differ(step, &a, &b) else { continue };
        match row(&Case::new(input, &difference, kernel, ours)) {
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
    pub fn new(input: &'a Input, difference: &'a Difference, kernel: &Trace, ours: &Trace) -> Case<'a> {
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
            expected_here: 0,
            allowed: 0,
            has_repeated: false,
            has_ended: false,
            fins: Vec::new(),
            has_old_stamp: false,
            is_no_news: false,
            reach: 0,
            has_acked: false,
        };
        // Sequence number, acknowledgment and window of the peer's latest segment.
        let mut before = None;
        let mut scale = 0;
        let until = (difference.step + 1).min(input.steps.len());
        for (index, step) in input.steps[..until].iter().enumerate() {
            let now = index == difference.step;
            if let Action::Send(packet, _) = &step.action
                && let Some(tcp) = tcp(&packet.body)
            {
                case.hear(tcp, &mut before, now);
            }
            if now {
                break;
            }
            if let Some(moment) = kernel.moments.get(index) {
                case.see(moment, &mut scale);
            }
            for seen in ours.moments.get(index).iter().flat_map(|moment| &moment.seen) {
                let ack = tcp(&seen.packet.body).filter(|tcp| !tcp.flags.has(Flags::RST));
                if let Some((tcp, ack)) = ack.and_then(|tcp| Some((tcp, tcp.ack?))) {
                    let syn = tcp.flags.has(Flags::SYN);
                    case.expected_here = if syn { ack.wrapping_sub(input.isn) } else { ack };
                }
            }
        }
        if let Some(Action::Send(packet, _)) = input.steps.get(difference.step).map(|step| &step.action) {
            case.segment = tcp(&packet.body);
        }
        case
    }

    /// Learns from a segment of the peer; with `now` from that of the step in question, whose effect is not known.
    fn hear(&mut self, tcp: &Segment, before: &mut Option<(Numbers, Option<u16>)>, now: bool) {
        let syn = tcp.flags.has(Flags::SYN);
        let numbers = (tcp.seq.map(|range| range.start), tcp.ack);
        self.has_acked |= tcp.ack.is_some();
        if let Some((known, window)) = *before {
            self.is_window_lowered |= known == numbers && tcp.window < window;
        }
        *before = Some((numbers, tcp.window));
        let end = tcp.seq.map_or(0, |range| range.end);
        if !now && !syn && tcp.len > 0 && ahead(end, self.reach) && end.wrapping_sub(self.expected) < 1 << 17
        {
            self.reach = end;
        }
        if tcp.flags.has(Flags::FIN) {
            self.fins.push(if syn { end.wrapping_sub(self.input.isn).wrapping_add(1) } else { end });
        }
        let is_old = tcp.ack.is_some_and(|ack| ahead(self.acked, ack) || ahead(ack, self.heard));
        self.has_old_stamp |= is_old && stamps(tcp).is_some();
        self.is_urgent |= tcp.flags.has(Flags::URG) && !now;
        if let Some(ack) = tcp.ack.filter(|ack| !ahead(*ack, self.heard) && !ahead(self.acked, *ack)) {
            let edge = ack.wrapping_add(tcp.window.unwrap_or(0).into());
            self.is_no_news = ack == self.acked && edge == self.allowed;
            self.allowed = if now && ahead(self.allowed, edge) { self.allowed } else { edge };
            if !now && ahead(ack, self.acked) {
                let is_new = match (stamps(tcp), self.stamp) {
                    (Some((val, _)), Some(known)) => !ahead(known, val),
                    _ => true,
                };
                self.acked = ack;
                let is_next = syn || tcp.seq.is_some_and(|range| range.start == self.expected);
                self.is_half_open &= ack != self.heard || !is_next || !is_new;
            }
        }
        if !now {
            let val = stamps(tcp).map(|stamps| stamps.0);
            self.stamp = match (val, self.stamp) {
                (Some(val), Some(known)) if !ahead(val, known) => Some(known),
                (val, known) => val.or(known),
            };
        }
    }

    /// Learns from what the kernel did.
    fn see(&mut self, moment: &Moment, scale: &mut u8) {
        for seen in moment.seen.iter().filter_map(|seen| tcp(&seen.packet.body)) {
            let syn = seen.flags.has(Flags::SYN);
            if seen.flags.has(Flags::RST) {
                continue;
            }
            let (start, end) = seen.seq.map_or((0, 0), |range| (range.start, range.end));
            let end = end.wrapping_add(u32::from(syn) + u32::from(seen.flags.has(Flags::FIN)));
            self.has_repeated |= end != start && !ahead(end, self.heard);
            self.has_ended |= seen.flags.has(Flags::FIN);
            if syn && end != self.heard {
                // Another connection begins.
                (self.is_half_open, self.has_answered, self.has_ended, self.acked) = (true, false, false, 0);
            }
            if syn || ahead(end, self.heard) {
                self.heard = end;
            }
            if let Some(ack) = seen.ack {
                self.expected = if syn { ack.wrapping_sub(self.input.isn) } else { ack };
                let shift = if syn { 0 } else { *scale };
                self.edge = self.expected.wrapping_add(u32::from(seen.window.unwrap_or(0)) << shift);
            }
            *scale = seen.options.iter().flatten().fold(*scale, |scale, option| match option {
                TcpOption::WindowScale(shift) => *shift,
                _ => scale,
            });
            // A challenge leaves it half open.
            self.has_answered |= !syn;
        }
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

    /// Did this stack send one bare acknowledgment more?
    fn ours_acknowledges(&self) -> bool {
        let Some((first, rest)) = self.difference.ours.split_first() else { return false };
        first.starts_with(". ") && first.contains("(0) ") && rest == self.difference.kernel
    }

    /// Number up to which the peer has acknowledged, this step's segment included.
    fn una(&self) -> u32 {
        let ack = self.ack().filter(|ack| ahead(*ack, self.acked) && !ahead(*ack, self.heard));
        ack.unwrap_or(self.acked)
    }

    /// Does a segment repeat what lies before `heard`, which moves with it?
    fn repeats(&self, tcp: &Segment, heard: &mut u32) -> bool {
        let Some(range) = tcp.seq.filter(|_| takes_numbers(tcp)) else { return false };
        let end = range.end.wrapping_add(u32::from(tcp.flags.has(Flags::FIN)));
        if ahead(end, *heard) {
            *heard = end;
            return false;
        }
        true
    }

    /// Are the lines the same but for their times, and bare acknowledgments?
    fn only_later(&self) -> bool {
        let bare = |lines: &[String]| -> Option<String> {
            let [line] = lines else { return None };
            line.strip_prefix("after ")?.split_once(": ").map(|(_, line)| line.to_owned())
        };
        let kernel = bare(&self.difference.kernel);
        kernel.as_ref().is_some_and(|line| line.starts_with(". ") && line.contains("(0) "))
            && kernel == bare(&self.difference.ours)
    }

    /// Do all lines begin so, if there are any?
    fn only(lines: &[String], starts: &[&str]) -> bool {
        lines.iter().all(|line| starts.iter().any(|start| line.starts_with(start)))
    }
}

/// Sequence number and acknowledgment of a segment.
type Numbers = (Option<u32>, Option<u32>);
/// Changes what the kernel and what this stack did after a step so that it is alike.
type Change = fn(&Case<'_>, &mut Moment, &mut Moment);

/// Changes by key. What is equal after them is explained by those that changed something.
const CHANGES: &[(&str, Change)] = &[
    ("block_with_fin", |case, a, b| {
        for seen in segments(a).chain(segments(b)) {
            change_blocks(seen, |blocks| {
                for block in blocks.iter_mut() {
                    let is_fin = case.fins.iter().any(|fin| fin.wrapping_add(1) == block.end);
                    block.end = block.end.wrapping_sub(u32::from(is_fin));
                }
                blocks.retain(|block| block.start != block.end);
            });
        }
    }),
    ("duplicate_block", |case, a, b| {
        // Blocks left of what is expected report duplicates.
        for seen in segments(a).chain(segments(b)) {
            change_blocks(seen, |blocks| blocks.retain(|block| ahead(block.end, case.expected)));
        }
    }),
    ("blocks_beyond_fin", |case, a, b| {
        let is_behind = |tcp: &&mut Segment| {
            tcp.ack.is_some_and(|ack| case.fins.iter().any(|fin| fin.wrapping_add(1) == ack))
        };
        for seen in segments(a).chain(segments(b)).filter(is_behind) {
            change_blocks(seen, Vec::clear);
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
    ("syn_again", |case, a, b| {
        if case.called(Call::Connect) && case.acked == 0 && case.has_acked {
            for moment in [a, b] {
                moment
                    .seen
                    .retain(|seen| tcp(&seen.packet.body).is_none_or(|tcp| tcp.flags.bits != Flags::SYN));
            }
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
        if ahead(here, kernel) {
            a.seen.retain(|seen| !is_late(seen, here));
        } else if ahead(kernel, here) {
            b.seen.retain(|seen| !is_late(seen, kernel));
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

/// Does it hold data or a FIN?
fn takes_numbers(tcp: &Segment) -> bool {
    tcp.len > 0 || tcp.flags.has(Flags::FIN)
}

fn is_pure(tcp: &Segment) -> bool {
    !takes_numbers(tcp) && tcp.flags.bits & !Flags::PSH == Flags::ACK
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

/// Leaves out bare acknowledgments beside data that leaves at the same time, and tells the last number with the data.
fn with_data(moment: &mut Moment) {
    let at =
        moment.seen.iter().find(|seen| tcp(&seen.packet.body).is_some_and(takes_numbers)).map(|seen| seen.at);
    let Some(at) = at else { return };
    let is_beside = |seen: &Seen| seen.at.abs_diff(at) <= TOGETHER;
    let acks = moment.seen.iter().filter(|seen| is_beside(seen));
    let last =
        acks.filter_map(|seen| tcp(&seen.packet.body)?.ack).reduce(|a, b| if ahead(b, a) { b } else { a });
    moment.seen.retain(|seen| !is_beside(seen) || !tcp(&seen.packet.body).is_some_and(is_pure));
    for seen in moment.seen.iter_mut().filter(|seen| is_beside(seen)) {
        if let Body::Tcp(tcp) = &mut seen.packet.body
            && tcp.ack.is_some()
        {
            tcp.ack = last;
        }
    }
}

/// Returns what both did after the changes that make it alike, and the rows of these.
fn alike(case: &Case<'_>, a: &Moment, b: &Moment) -> (Moment, Moment, Vec<&'static Row>) {
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
            && Case::only(&case.difference.kernel, &starts)
            && Case::only(&case.difference.ours, &starts)
    }),
    ("half_open_ack_first", Then::GoesOn, |case| {
        case.is_half_open
            && !case.called(Call::Connect)
            && case.ack().is_some_and(|ack| ack != case.heard)
            && Case::only(&case.difference.kernel, &["R "])
            && Case::only(&case.difference.ours, &[". "])
    }),
    ("half_open_echo", Then::Ends, |case| {
        // An echo of the latest timestamp that is not the SYN-ACK's, because something was sent since.
        let echo = case.input.steps.get(case.difference.step).map(|step| &step.action);
        let is_other = match (echo, case.segment.and_then(stamps)) {
            (Some(Action::Send(_, Echo::Latest(more))), Some(_)) => *more != 0 || case.has_answered,
            (_, Some((_, ecr))) => ecr != FIRST_STAMP,
            (_, None) => false,
        };
        case.is_half_open
            && !case.called(Call::Connect)
            && (is_other || !case.sends(Flags::ACK))
            && case.difference.kernel.len() == 1
            && Case::only(&case.difference.kernel, &[". 1:1(0) "])
    }),
    ("listener_closed", Then::Ends, |case| {
        case.called(Call::CloseListener)
            && Case::only(&case.difference.kernel, &["R "])
            && Case::only(&case.difference.ours, &["R. "])
            && case.difference.kernel.len() == case.difference.ours.len()
    }),
    ("no_ack_flag", Then::GoesOn, |case| {
        let has = |flag| case.sends(flag);
        case.segment.is_some()
            && !has(Flags::ACK)
            && !has(Flags::RST)
            && !has(Flags::SYN)
            && case.difference.kernel.is_empty()
            && case.ours_acknowledges()
    }),
    ("old_stamp_unanswered", Then::GoesOn, |case| {
        let is_old = |val: u32| case.stamp.is_some_and(|stamp| ahead(stamp, val));
        let is_plain = case.segment.is_some_and(|tcp| tcp.len == 0) && !case.sends(Flags::FIN | Flags::SYN);
        let rest = case.difference.ours.get(1..).unwrap_or_default();
        is_plain
            && case.segment.and_then(stamps).is_some_and(|(val, _)| is_old(val))
            && Case::only(&case.difference.ours[..1.min(case.difference.ours.len())], &[". "])
            && rest == case.difference.kernel
    }),
    ("future_ack_at_end", Then::GoesOn, |case| {
        case.ack().is_some_and(|ack| ahead(ack, case.heard))
            && case.has_ended
            && case.acked == case.heard
            && case.difference.kernel.is_empty()
            && case.ours_acknowledges()
    }),
    ("time_wait_spaced", Then::GoesOn, |case| {
        let is_over = case.has_ended && case.acked == case.heard;
        let has_their_fin = case.fins.iter().any(|fin| fin.wrapping_add(1) == case.expected);
        is_over
            && has_their_fin
            && case.segment.is_some_and(|tcp| tcp.len == 0 && !tcp.flags.has(Flags::FIN))
            && case.difference.ours.is_empty()
            && case.difference.kernel.len() == 1
            && Case::only(&case.difference.kernel, &[". "])
    }),
    ("window_lowered", Then::Ends, |case| {
        let is_data = |line: &String| !line.contains("(0)") || line.starts_with("F. ");
        let (kernel, ours) = (&case.difference.kernel, &case.difference.ours);
        case.is_window_lowered && (kernel.iter().any(is_data) || ours.iter().any(is_data))
    }),
    ("urgent_in_stream", Then::Ends, |case| {
        let is_look = match case.input.steps.get(case.difference.step).map(|step| &step.action) {
            Some(Action::Call(call)) => matches!(call, Call::Read(_) | Call::Poll),
            _ => false,
        };
        case.is_urgent && is_look
    }),
    ("beyond_window", Then::GoesOnIfNoNews, |case| {
        // Between the edges of the two windows, or across the kernel's.
        let syn = u32::from(case.sends(Flags::SYN));
        let end = case.segment.and_then(|tcp| tcp.seq).map_or(0, |range| range.end);
        let end = if syn == 0 { end } else { end.wrapping_sub(case.input.isn) };
        let beyond = end.wrapping_add(syn).wrapping_sub(case.edge);
        (syn == 0 || case.sends(Flags::RST)) && case.segment.is_some() && case.edge != 0 && beyond < 70_000
    }),
    ("fin_probed", Then::GoesOn, |case| {
        let is_fin = |line: &String| line.contains("F. ") && line.contains("(0)");
        case.difference.kernel.len() == 1
            && case.difference.kernel.iter().chain(&case.difference.ours).all(is_fin)
            && case.difference.ours.len() < 2
            && case.has_ended
    }),
    ("old_ack", Then::GoesOnIfBare, |case| {
        case.ack().is_some_and(|ack| ahead(case.acked, ack)) && !case.is_half_open
    }),
    ("fin_acked_at_once", Then::GoesOn, |case| {
        let is_ack = |line: &String| line.starts_with(". ") || line.starts_with("after 0 ms: . ");
        case.sends(Flags::FIN)
            && case.difference.ours.first().is_some_and(is_ack)
            && Case::only(&case.difference.kernel, &["after "])
    }),
    ("delayed_ack", Then::GoesOn, |case| case.only_later()),
    ("other_syn", Then::Ends, |case| {
        case.sends(Flags::SYN)
            && !case.sends(Flags::ACK)
            && Case::only(&case.difference.kernel, &["R. 0:0"])
            && Case::only(&case.difference.ours, &[". "])
            && case.difference.kernel.len() == 1
    }),
    ("fin_beyond_hole", Then::Ends, |case| {
        let is_alone = case.segment.is_some_and(|tcp| tcp.len == 0 && tcp.flags.has(Flags::FIN));
        let start = case.segment.and_then(|tcp| tcp.seq).map_or(0, |range| range.start);
        is_alone
            && ahead(start, case.expected)
            && case.has_ended
            && Case::only(&case.difference.kernel, &["R "])
            && Case::only(&case.difference.ours, &[". "])
    }),
    ("text_behind_fin", Then::Ends, |case| {
        let end = case.segment.filter(|tcp| tcp.len > 0).and_then(|tcp| tcp.seq).map(|range| range.end);
        case.fins.iter().any(|fin| fin.wrapping_add(1) == case.expected)
            && end.is_some_and(|end| ahead(end, case.expected))
            && Case::only(&case.difference.kernel, &["R "])
            && case.difference.ours.is_empty()
    }),
    ("fin_before_data", Then::Ends, |case| {
        // It takes the place of a byte that came before, and the kernel acknowledges it.
        let fin =
            case.segment.filter(|_| case.sends(Flags::FIN)).and_then(|tcp| tcp.seq).map(|range| range.end);
        fin.is_some_and(|fin| {
            let taken = format!(" ack {}", fin.wrapping_add(1));
            let takes = |lines: &[String]| lines.iter().any(|line| line.contains(&taken));
            ahead(case.reach, fin) && takes(&case.difference.kernel) && !takes(&case.difference.ours)
        })
    }),
    ("crossed_text", Then::Ends, |case| {
        case.called(Call::Connect) && case.sends(Flags::SYN) && case.segment.is_some_and(|tcp| tcp.len > 0)
    }),
    ("crossed_close", Then::Ends, |case| {
        let is_fin = |line: &String| line.starts_with("F. 1:1(0) ");
        let is_end = |line: &String| line.contains("FIN-WAIT-1");
        let is_late = |line: &String| line.contains("SYN-RECEIVED");
        case.is_half_open
            && case.called(Call::Connect)
            && (case.difference.kernel.first().is_some_and(is_fin)
                || case.difference.kernel.iter().any(is_end) && case.difference.ours.iter().any(is_late))
    }),
    ("crossed_reset", Then::GoesOn, |case| {
        let until = case.difference.step.min(case.input.steps.len());
        let sent = |step: &Step| match &step.action {
            Action::Send(packet, _) => tcp(&packet.body).map(|tcp| tcp.flags),
            _ => None,
        };
        let is_syn = |flags: Flags| flags.has(Flags::SYN) && !flags.has(Flags::ACK);
        let is_reset = |flags: &Flags| flags.has(Flags::RST);
        let sent = || case.input.steps[..until].iter().filter_map(sent);
        case.called(Call::Connect)
            && sent().any(is_syn)
            && !sent().take_while(|flags| !is_reset(flags)).any(|flags| flags.has(Flags::ACK))
            && case.difference.kernel == ["= -1 ECONNRESET"]
            && case.difference.ours == ["= -1 ECONNREFUSED"]
    }),
    ("silly_window", Then::Ends, |case| {
        // Less than a segment, up to the edge of the peer's window.
        let edge = format!(":{}(", case.allowed);
        case.difference.kernel.first().is_some_and(|line| line.starts_with(". ") && line.contains(&edge))
            && case.difference.ours.first().is_none_or(|line| !line.contains(&edge))
    }),
    ("fin_beyond_window", Then::Ends, |case| {
        let is_fin = |line: &String| line.starts_with("F. ") && line.contains("(0)");
        case.has_repeated
            && case.difference.ours.first().is_some_and(is_fin)
            && case.difference.ours[1..] == case.difference.kernel
    }),
];

/// Returns the row that explains a difference, and whether what follows is compared as well.
pub fn row(case: &Case<'_>) -> Option<(&'static Row, bool)> {
    let (key, then, _) = PREDICATES.iter().find(|(_, _, is_so)| is_so(case))?;
    let is_bare = case.segment.is_none_or(|tcp| !takes_numbers(tcp));
    let goes_on = match then {
        Then::GoesOn => true,
        Then::GoesOnIfBare => is_bare,
        Then::GoesOnIfNoNews => is_bare && (case.is_no_news || !case.sends(Flags::ACK)),
        Then::Ends => false,
    };
    reasons::by_key(Kind::Packets, key).map(|row| (row, goes_on))
}

#[test]
fn every_key_has_a_row_and_every_row_a_predicate() {
    let keys: Vec<&str> =
        PREDICATES.iter().map(|(key, ..)| *key).chain(CHANGES.iter().map(|(key, _)| *key)).collect();
    for key in &keys {
        assert!(reasons::by_key(Kind::Packets, key).is_some(), "no row has the key {key}");
    }
    for row in reasons::of(Kind::Packets) {
        assert!(keys.contains(&row.key), "no predicate has the key {}", row.key);
    }
}
