//! Circumstances of a difference: what the peer and both ends did before it.

use super::compare::{Difference, TOGETHER, TOLERANCE};
use super::input::{Action, Call, Echo, Input, MSS, Step, Switch};
use super::trace::{Moment, Trace};
use base::Duration;
use drill::lang::{Body, Flags, Icmp, Packet, Quoted, Range, Segment, TcpOption};

/// A difference with what led to it.
pub struct Case<'a> {
    pub(super) input: &'a Input,
    pub(super) difference: &'a Difference,
    /// Everything that the kernel did.
    pub(super) kernel: &'a Trace,
    /// The peer's segment, if the step is one.
    pub(super) segment: Option<&'a Segment>,
    /// Number up to which the peer has acknowledged what the near end had sent, before the step, on the kernel.
    pub(super) acked: u32,
    /// Right edge of what the near end had sent.
    pub(super) heard: u32,
    /// Right edge of what both have sent when the step is over.
    pub(super) heard_by_both: u32,
    /// Largest window that the peer has told.
    pub(super) largest: u32,
    /// Next number that the near end expects, once that is known.
    pub(super) expected: u32,
    pub(super) is_expected_known: bool,
    /// Right edge of the window that was offered, by the one of the two that offered less, and by the other one.
    pub(super) edge: u32,
    pub(super) far_edge: u32,
    /// The near end has sent no more than a SYN or a SYN-ACK, and that is not acknowledged.
    pub(super) is_half_open: bool,
    /// Something was sent after the SYN-ACK.
    pub(super) has_answered: bool,
    /// The latest timestamp that the peer has sent in order.
    pub(super) stamp: Option<u32>,
    /// The window went down in a segment that had the numbers of the one that changed it last.
    pub(super) is_window_lowered: bool,
    /// The peer has sent urgent data.
    pub(super) is_urgent: bool,
    /// Next number that this stack expects from the peer.
    pub(super) expected_here: u32,
    /// Right edge of the peer's window, and of what it was at most.
    pub(super) allowed: u32,
    /// Sequence number of the peer's segment that changed the window last (SND.WL1).
    pub(super) wl1: Option<u32>,
    /// Right edge of the window that the step's segment tells.
    pub(super) told: u32,
    /// The peer's SYN has the option of window scaling.
    pub(super) is_scaled: bool,
    /// Data that was sent, by either of the two.
    pub(super) sent: Vec<Range>,
    /// The near end's segments have timestamps.
    pub(super) has_stamps: bool,
    /// Something was acknowledged in part.
    pub(super) has_split: bool,
    /// The peer has sent a SYN of its own.
    pub(super) has_crossed: bool,
    /// The first of these told a window of 0.
    pub(super) has_crossed_shut: bool,
    /// A reset came before that was acknowledged.
    pub(super) has_crossed_reset: bool,
    /// A FIN that came before data in front of it.
    pub(super) early_fin: Option<u32>,
    /// Text came across such a FIN.
    pub(super) is_text_apart: bool,
    /// A FIN came that lies before data that had come.
    pub(super) is_fin_apart: bool,
    /// The acknowledgment of a half-open connection came with old data or an old FIN.
    pub(super) is_ack_apart: bool,
    /// Segments that the kernel sent again, of what was not acknowledged first, and others.
    pub(super) again: [u32; 2],
    /// The last ACK of a handshake came with the echo of another timestamp than the SYN-ACK's.
    pub(super) is_echo_apart: bool,
    /// The peer has echoed another timestamp than the latest.
    pub(super) has_false_echo: bool,
    /// An ICMP error came about the number that is sent next, or when SYNs had crossed.
    pub(super) is_icmp_apart: bool,
    /// A reset came that one of the two takes and the other does not.
    pub(super) is_reset_apart: bool,
    /// The kernel took a SYN for no beginning of a connection: the one before goes on.
    pub(super) is_syn_refused: bool,
    /// The step's segment is such a reset.
    pub(super) is_reset_now: bool,
    /// Right end of the last SACK blocks that lay beyond a hole.
    pub(super) sacked: Option<u32>,
    /// The application has closed the connection.
    pub(super) has_closed: bool,
    /// Segments of the kernel that are not acknowledged, as they were cut first, and when they left if only once.
    pub(super) departures: Vec<(Range, Option<Duration>)>,
    /// One acknowledgment covered data that had left at different times.
    pub(super) is_round_trip_apart: bool,
    /// The last right edge that lay less than a segment beyond what was sent.
    pub(super) small_edge: Option<u32>,
    /// TCP_CORK was set.
    pub(super) is_corked: bool,
    /// A timer sent new data that fills a window of less than a segment, or that TCP_CORK held.
    pub(super) has_forced: bool,
    /// Something was sent again.
    pub(super) has_repeated: bool,
    /// The step's segment acknowledges, after that, a segment that left once.
    pub(super) acks_once: bool,
    /// The last acknowledgment before the step did.
    pub(super) has_acked_once: bool,
    /// A timer of the kernel filled a window of less than a segment, in the step, later than one here.
    pub(super) is_override_apart: bool,
    /// One before it did so together with what the kernel had sent again.
    pub(super) has_undone: bool,
    /// All data that the kernel sent after the step was a timer's.
    pub(super) is_kernel_timed: bool,
    /// The kernel sent what was not acknowledged first again while the peer's window was shut.
    pub(super) has_shut_again: bool,
    /// The near end's FIN was sent.
    pub(super) has_ended: bool,
    /// Places of the peer's FINs.
    pub(super) fins: Vec<u32>,
    /// Segments with an acknowledgment of less than was acknowledged before came with timestamps.
    pub(super) has_old_stamp: bool,
    /// A later timestamp came while one of the two had acknowledged more than the other.
    pub(super) is_stamp_apart: bool,
    /// A timer ran out on one of the two just before the step, so it may run out on the other one after it.
    pub(super) is_timer_apart: bool,
    /// This stack has taken more than it had offered.
    pub(super) takes_too_much: bool,
    /// A segment came that one of the two refuses for its window, and that tells something.
    pub(super) is_window_apart: bool,
    /// The step's segment lies outside of the window, and its acknowledgment counts for nothing.
    pub(super) is_outside: bool,
    /// The step's segment acknowledges nothing and leaves the window as it is.
    pub(super) is_no_news: bool,
    /// Right edge of the data that the peer has sent.
    pub(super) reach: u32,
    /// The peer has sent an acknowledgment.
    pub(super) has_acked: bool,
    /// The kernel refused an answer to its SYN.
    pub(super) has_refused: bool,
    /// A timer of the kernel sent new data, or probed a shut window.
    pub(super) has_probed: [bool; 2],
    /// A segment with news came that is old here, and not yet acknowledged by the kernel.
    pub(super) is_old_apart: bool,
    /// The kernel sends what is not acknowledged first again in the step.
    pub(super) is_repeating: bool,
    /// Data of the kernel tells a duplicate in the step.
    pub(super) tells_duplicate: bool,
    /// The step's segment reports data that left later than what it acknowledges.
    pub(super) is_report_later: bool,
    /// No data of the kernel left at once after the step.
    pub(super) is_kernel_later: bool,
}

/// The timestamps of a segment: TSval and TSecr.
pub(super) fn stamps(tcp: &Segment) -> Option<(u32, u32)> {
    tcp.options.iter().flatten().find_map(|option| match option {
        TcpOption::Timestamps { val, ecr, .. } => Some(((*val)?, *ecr)),
        _ => None,
    })
}

pub(super) fn tcp(body: &Body) -> Option<&Segment> {
    match body {
        Body::Tcp(tcp) => Some(tcp),
        _ => None,
    }
}

/// The unit of the windows that the near end offers (a scale of 7).
pub(super) const SCALE_UNIT: u32 = 1 << 7;

/// More than the kernel's window grows to here.
const BEYOND: u32 = 140_000;

/// The window that an end has offered so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Offer {
    scale: u8,
    /// Window of its SYN, until a segment with an acknowledgment tells where that begins.
    syn_window: u32,
    /// The right edge, which never moves left.
    edge: u32,
}

impl Offer {
    /// Notes what a segment of the near end offers. This stack's SYN-ACK offers what a later window field can tell; the
    /// kernel's what it says (`is_exact`).
    pub(super) fn note(&mut self, body: &Body, isn: u32, is_exact: bool, is_scaled: bool) {
        let Some(seen) = tcp(body).filter(|tcp| !tcp.flags.has(Flags::RST)) else { return };
        let syn = seen.flags.has(Flags::SYN);
        self.scale = seen.options.iter().flatten().fold(self.scale, |scale, option| match option {
            TcpOption::WindowScale(shift) => *shift,
            _ => scale,
        });
        if !syn && !is_scaled {
            self.scale = 0;
        }
        let window = u32::from(seen.window.unwrap_or(0)) << if syn { 0 } else { self.scale };
        let Some(ack) = seen.ack else {
            self.syn_window = if syn { window } else { self.syn_window };
            return;
        };
        let ack = ack.wrapping_sub(if syn { isn } else { 0 });
        // Without a scale the kernel takes more than its field can tell, once it would offer more.
        let is_full = is_exact && !syn && self.scale == 0 && window == u32::from(u16::MAX);
        let window = if is_full { BEYOND } else { window };
        let window = if syn && !is_exact { window.next_multiple_of(1 << self.scale) } else { window };
        let edge = ack.wrapping_add(window.max(std::mem::take(&mut self.syn_window)));
        if syn || self.edge == 0 || ahead(edge, self.edge) {
            self.edge = edge;
        }
    }
}

pub(super) fn ahead(a: u32, b: u32) -> bool {
    a != b && a.wrapping_sub(b) < 1 << 31
}

impl<'a> Case<'a> {
    /// A difference of an input, with what the kernel did.
    pub fn new(input: &'a Input, difference: &'a Difference, kernel: &'a Trace, ours: &Trace) -> Case<'a> {
        let mut case = Case {
            input,
            difference,
            kernel,
            segment: None,
            acked: 0,
            heard: 0,
            heard_by_both: 0,
            largest: 0,
            expected: 0,
            is_expected_known: false,
            edge: 0,
            far_edge: 0,
            is_half_open: true,
            has_answered: false,
            stamp: None,
            is_window_lowered: false,
            is_urgent: false,
            expected_here: 0,
            allowed: 0,
            wl1: None,
            told: 0,
            is_scaled: false,
            sent: Vec::new(),
            has_stamps: false,
            has_split: false,
            has_crossed: false,
            has_crossed_shut: false,
            has_crossed_reset: false,
            early_fin: None,
            is_reset_apart: false,
            is_reset_now: false,
            is_syn_refused: false,
            sacked: None,
            has_closed: false,
            departures: Vec::new(),
            is_round_trip_apart: false,
            small_edge: None,
            is_corked: false,
            has_forced: false,
            is_icmp_apart: false,
            is_text_apart: false,
            is_fin_apart: false,
            is_ack_apart: false,
            again: [0; 2],
            is_echo_apart: false,
            has_false_echo: false,
            has_repeated: false,
            acks_once: false,
            has_acked_once: false,
            is_override_apart: false,
            has_undone: false,
            is_kernel_timed: false,
            has_shut_again: false,
            has_ended: false,
            fins: Vec::new(),
            has_old_stamp: false,
            is_stamp_apart: false,
            is_timer_apart: false,
            takes_too_much: false,
            is_window_apart: false,
            is_outside: false,
            is_no_news: false,
            reach: 0,
            has_acked: false,
            has_refused: false,
            has_probed: [false; 2],
            is_old_apart: false,
            is_repeating: false,
            tells_duplicate: false,
            is_report_later: false,
            is_kernel_later: false,
        };
        let mut offers = [Offer::default(); 2];
        let mut clock = Duration::ZERO;
        let until = (difference.step + 1).min(input.steps.len());
        for (index, step) in input.steps[..until].iter().enumerate() {
            let now = index == difference.step;
            clock += kernel.pauses.get(index).copied().unwrap_or_else(|| step.pause());
            if let Action::Send(packet, echo) = &step.action
                && let Some(tcp) = tcp(&packet.body)
            {
                let has_echo = case.has_stamps && stamps(tcp).is_some();
                let is_false_echo = *echo != Echo::Latest(0) && has_echo;
                case.has_false_echo |= is_false_echo;
                case.is_stamp_apart |= case.expected != case.expected_here && has_echo;
                let was_half_open = case.is_half_open;
                // One of something that was sent since the SYN-ACK counts as little.
                let is_other_echo = is_false_echo || case.has_answered && has_echo;
                let acked = case.acked;
                let is_at_an_edge = !now && tcp.ack.is_some() && case.is_at_an_edge(tcp);
                case.is_syn_refused = !now && case.is_other_syn(tcp, kernel.moments.get(index));
                let is_old_here = case.is_old_here(tcp);
                case.is_report_later = now && case.reports_later(tcp);
                case.hear(tcp, now);
                let is_news = !case.is_no_news || tcp.ack.is_some_and(|ack| ahead(ack, acked));
                case.is_old_apart |= is_old_here && is_news && !now;
                case.is_window_apart |= is_at_an_edge && (takes_numbers(tcp) || is_news);
                // With another echo the last ACK of a handshake does not count on the kernel.
                let stays = was_half_open && is_other_echo && !case.called(Call::Connect);
                case.is_half_open |= stays;
                case.is_echo_apart |= stays && !now && tcp.ack.is_some();
            }
            if let Action::Send(packet, _) = &step.action
                && let Body::Icmp(Icmp { quoted: Some(Quoted::Tcp(range, _)), .. }) = packet.body
            {
                let is_crossed = case.has_crossed && case.is_half_open && !now;
                case.is_icmp_apart |= range.start == case.heard || is_crossed;
            }
            if now {
                break;
            }
            case.has_closed |= step.action == Action::Call(Call::Close);
            case.is_corked |= step.action == Action::Call(Call::Set(Switch::Cork(true)));
            if let Some(moment) = kernel.moments.get(index) {
                case.see(moment, clock);
            }
            for (offer, (trace, is_exact)) in offers.iter_mut().zip([(kernel, true), (ours, false)]) {
                for seen in trace.moments.get(index).iter().flat_map(|moment| &moment.seen) {
                    let range = tcp(&seen.packet.body).filter(|tcp| tcp.len > 0).and_then(|tcp| tcp.seq);
                    case.sent.extend(range);
                    offer.note(&seen.packet.body, input.isn, is_exact, case.is_scaled);
                }
            }
            let [kernel, here] = offers.map(|offer| offer.edge);
            (case.edge, case.far_edge) = if ahead(kernel, here) { (here, kernel) } else { (kernel, here) };
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
        let taken = ours.moments.get(difference.step).into_iter().flat_map(|moment| &moment.seen);
        let taken = taken.filter_map(|seen| tcp(&seen.packet.body)).flat_map(|tcp| {
            blocks_of(tcp).map(|block| block.end).chain(tcp.ack.filter(|_| !tcp.flags.has(Flags::SYN)))
        });
        let edge = offers[1].edge;
        // A FIN may take the place behind the edge.
        let is_fin = |end: u32| case.fins.iter().any(|fin| fin.wrapping_add(1) == end);
        case.takes_too_much = edge != 0 && { taken }.any(|end| ahead(end, edge) && !is_fin(end));
        let reach = |trace: &Trace| {
            let seen = trace.moments.get(difference.step).into_iter().flat_map(|moment| &moment.seen);
            let ends = seen.filter_map(|seen| tcp(&seen.packet.body)).filter(|tcp| takes_numbers(tcp));
            ends.fold(case.heard, |reach, tcp| {
                let end = tcp
                    .seq
                    .map_or(reach, |range| range.end.wrapping_add(u32::from(tcp.flags.has(Flags::FIN))));
                if ahead(end, reach) { end } else { reach }
            })
        };
        let times = case.forced_at(kernel, difference.step, TOLERANCE).zip(case.forced_at(
            ours,
            difference.step,
            TOGETHER,
        ));
        case.is_override_apart = times.is_some_and(|(kernel, ours)| kernel.saturating_sub(ours) > TOLERANCE);
        let data = kernel.moments.get(difference.step).into_iter().flat_map(|moment| &moment.seen);
        case.is_kernel_timed = data.filter(|seen| is_numbered(&seen.packet)).all(|seen| seen.at > TOLERANCE);
        let data = kernel.moments.get(difference.step).into_iter().flat_map(|moment| &moment.seen);
        case.is_kernel_later = data.filter(|seen| is_numbered(&seen.packet)).all(|seen| seen.at > TOGETHER);
        let una = case.una();
        let data = kernel.moments.get(difference.step).into_iter().flat_map(|moment| &moment.seen);
        for tcp in data.filter_map(|seen| tcp(&seen.packet.body)).filter(|tcp| takes_numbers(tcp)) {
            case.is_repeating |= case.heard != una && tcp.seq.is_some_and(|range| range.start == una);
            case.tells_duplicate |= blocks_of(tcp).any(|block| !ahead(block.end, case.expected));
        }
        let (kernel, ours) = (reach(kernel), reach(ours));
        case.heard_by_both = if ahead(kernel, ours) { ours } else { kernel };
        case
    }

    /// Returns when a timer sent data that fills a window of less than a segment, after a step.
    fn forced_at(&self, trace: &Trace, step: usize, least: Duration) -> Option<Duration> {
        let is_forced = |tcp: &Segment| {
            let is_small = (1..MSS.into()).contains(&tcp.len);
            let fills =
                |range: Range| range.start == self.heard && [self.allowed, self.told].contains(&range.end);
            is_small && tcp.seq.is_some_and(fills)
        };
        let seen = &trace.moments.get(step)?.seen;
        let forced = seen.iter().find(|seen| tcp(&seen.packet.body).is_some_and(is_forced))?;
        (forced.at > least).then_some(forced.at)
    }

    /// Learns from a segment of the peer; with `now` from that of the step in question, whose effect is not known.
    pub(super) fn hear(&mut self, tcp: &Segment, now: bool) {
        let (syn, reset) = (tcp.flags.has(Flags::SYN), tcp.flags.has(Flags::RST));
        // Another SYN is refused.
        let opens = syn && self.is_half_open && !self.is_syn_refused;
        self.has_acked |= tcp.ack.is_some();
        self.is_no_news = false;
        let scales = |option: &TcpOption| matches!(option, TcpOption::WindowScale(_));
        self.is_scaled |= opens && !now && tcp.options.iter().flatten().any(scales);
        let crosses = syn && tcp.ack.is_none() && self.is_half_open;
        self.has_crossed_shut |= crosses && !self.has_crossed && tcp.window == Some(0);
        self.has_crossed |= crosses;
        let Range { start, end } = tcp.seq.unwrap_or(Range { start: 0, end: 0 });
        let offset = if syn { self.input.isn } else { 0 };
        let (start, end) = (start.wrapping_sub(offset), end.wrapping_sub(offset));
        if !now && !syn && tcp.len > 0 && ahead(end, self.reach) && end.wrapping_sub(self.expected) < 1 << 17
        {
            self.reach = end;
        }
        if tcp.flags.has(Flags::FIN) && (!syn || opens) {
            self.fins.push(end.wrapping_add(u32::from(syn)));
            if !now && ahead(end, self.expected) && !ahead(end, self.edge) {
                // The first of several.
                let before = self.early_fin.filter(|fin| !ahead(self.expected, *fin) && ahead(end, *fin));
                self.early_fin = before.or(Some(end));
            }
        }
        let stamp = stamps(tcp).map(|stamps| stamps.0).filter(|_| syn || self.has_stamps);
        let is_new = stamp.is_none_or(|val| self.stamp.is_none_or(|known| !ahead(known, val)));
        self.has_crossed_reset |= reset && !now && self.has_crossed && self.is_half_open;
        if reset {
            // Without ACK the echo is none.
            let is_false_echo = self.has_false_echo || stamp.is_some() && tcp.ack.is_none();
            let mut is_apart = self.is_half_open && (!is_new || is_false_echo);
            let is_inside = ahead(start, self.expected) && !ahead(start, self.edge);
            is_apart |= self.has_ended && self.acked == self.heard && (is_inside || !is_new);
            // The acknowledgment of the FIN may not have left yet.
            let is_last = |expected: u32| expected.wrapping_sub(start) <= 1;
            let is_last = is_last(self.expected) || is_last(self.expected_here);
            is_apart |= is_last && self.fins.contains(&start);
            is_apart |= self.is_at_last_block(start);
            *if now { &mut self.is_reset_now } else { &mut self.is_reset_apart } |= is_apart;
        }
        let last = end.wrapping_add(u32::from(syn) + u32::from(tcp.flags.has(Flags::FIN)));
        let is_old = tcp.ack.is_some_and(|ack| ahead(self.acked, ack) || ahead(ack, self.heard));
        let is_over = self.has_closed && self.has_ended && self.acked == self.heard || self.is_over();
        self.has_old_stamp |= (is_old || is_over && !ahead(last, self.expected)) && stamp.is_some();
        self.is_urgent |= tcp.flags.has(Flags::URG) && !now;
        let is_in_window = opens || (!ahead(start, self.edge) && !ahead(self.expected, last));
        self.is_outside = now && !is_in_window;
        let is_taken = !reset && is_in_window && is_new && (opens || !syn && self.is_expected_known);
        let is_acceptable = |ack: &u32| is_taken && !ahead(*ack, self.heard) && !ahead(self.acked, *ack);
        let is_across = |fin: u32| !ahead(start, fin) && ahead(end, fin);
        self.is_text_apart |= !now && tcp.len > 0 && is_in_window && self.early_fin.is_some_and(is_across);
        self.is_fin_apart |= !now && tcp.flags.has(Flags::FIN) && ahead(self.reach, end) && is_in_window;
        let is_beside = last != start && last == self.expected && tcp.ack.is_some();
        self.is_ack_apart |= self.is_half_open && is_beside && is_taken;
        if let Some(ack) = tcp.ack.filter(is_acceptable) {
            self.largest = self.largest.max(tcp.window.unwrap_or(0).into());
            self.told = ack.wrapping_add(tcp.window.unwrap_or(0).into());
            let is_later = syn || ahead(ack, self.acked) || self.wl1.is_none_or(|wl1| !ahead(wl1, start));
            let is_equal = !syn && ack == self.acked && self.wl1 == Some(start);
            self.is_window_lowered |= is_equal && ahead(self.allowed, self.told);
            let edge = if is_later { self.told } else { self.allowed };
            self.is_no_news = ack == self.acked && edge == self.allowed && self.wl1 == Some(start);
            self.allowed = if now && ahead(self.allowed, edge) { self.allowed } else { edge };
            self.has_split |= self.sent.iter().any(|of| ahead(ack, of.start) && ahead(of.end, ack));
            let left =
                || self.departures.iter().filter(|(of, _)| !ahead(of.end, ack)).filter_map(|(_, at)| *at);
            let apart = left().max().zip(left().min()).map(|(last, first)| last.saturating_sub(first));
            self.is_round_trip_apart |= apart.is_some_and(|apart| apart > TOLERANCE);
            let is_once = |(of, at): &(Range, Option<Duration>)| !ahead(of.end, ack) && at.is_some();
            let acks_once = self.has_repeated && self.departures.iter().any(is_once);
            (self.acks_once, self.has_acked_once) =
                (now && acks_once, if now { self.has_acked_once } else { acks_once });
            let is_again = |(of, at): &(Range, Option<Duration>)| !ahead(of.end, ack) && at.is_none();
            self.has_undone |= !now && acks_once && self.again[0] > 0 && self.departures.iter().any(is_again);
            self.departures.retain(|(of, _)| ahead(of.end, ack));
            if !now {
                let room = edge.wrapping_sub(self.heard);
                self.small_edge = Some(edge).filter(|_| room < MSS.into()).or(self.small_edge);
                self.wl1 = if is_later { Some(start) } else { self.wl1 };
                let next = start.wrapping_add(u32::from(syn));
                let is_first = syn && !self.is_expected_known;
                let is_next = is_first || !ahead(self.expected, next) || ahead(last, self.expected);
                self.is_half_open &= ack != self.heard || !is_next || !is_new;
                self.acked = ack;
            }
        }
        let is_in_order = !ahead(start, self.expected) || !self.is_expected_known;
        if !now && (opens && self.stamp.is_none() || is_taken && is_in_order) {
            self.stamp = match (stamp, self.stamp) {
                (Some(val), Some(known)) if !ahead(val, known) => Some(known),
                (val, known) => val.or(known),
            };
        }
    }

    /// Is it old here, and in the window of the kernel, which has acknowledged less?
    fn is_old_here(&self, tcp: &Segment) -> bool {
        let end = tcp.seq.map(|range| range.end.wrapping_add(u32::from(tcp.flags.has(Flags::FIN))));
        let is_apart = |end: u32| !ahead(self.expected, end) && ahead(self.expected_here, end);
        tcp.ack.is_some() && !tcp.flags.has(Flags::SYN | Flags::RST) && end.is_some_and(is_apart)
    }

    /// Does it report what left later than what it acknowledges?
    fn reports_later(&self, tcp: &Segment) -> bool {
        let Some(ack) = tcp.ack else { return false };
        let is_reported = |of: &Range| {
            let reports = |block: &Range| !ahead(block.start, of.start) && !ahead(of.end, block.end);
            ahead(of.start, ack) && blocks_of(tcp).any(reports)
        };
        let acked = self.departures.iter().filter(|(of, _)| !ahead(of.end, ack)).filter_map(|(_, at)| *at);
        let reported = self.departures.iter().filter(|(of, _)| is_reported(of)).filter_map(|(_, at)| *at);
        acked.max().zip(reported.max()).is_some_and(|(acked, reported)| reported > acked + TOGETHER)
    }

    /// Segments of the kernel that followed within so long after the step, those of later steps included.
    pub(super) fn kernel_within(&self, limit: Duration) -> impl Iterator<Item = &Segment> {
        let mut clock = Duration::ZERO;
        let step = self.difference.step;
        let moments = self.kernel.moments.iter().enumerate().skip(step);
        let timed = moments.flat_map(move |(index, moment)| {
            let pause = self.kernel.pauses.get(index).filter(|_| index > step).copied();
            clock += pause.unwrap_or_default();
            let began = clock;
            moment.seen.iter().map(move |seen| (began + seen.at, seen))
        });
        timed.take_while(move |(at, _)| *at < limit).filter_map(|(_, seen)| tcp(&seen.packet.body))
    }

    /// Steps before that of the difference.
    pub(super) fn before(&self) -> &'a [Step] {
        &self.input.steps[..self.difference.step.min(self.input.steps.len())]
    }

    /// Does a line tell a probe of a shut window?
    pub(super) fn is_window_probe(&self, line: &str) -> bool {
        line.starts_with(&format!(". {0}:{0}(0) ", self.una().wrapping_sub(1)))
    }

    /// Is it a SYN of another number than the first one's, which the kernel answered without a SYN?
    fn is_other_syn(&self, segment: &Segment, moment: Option<&Moment>) -> bool {
        let opening = self.expected.wrapping_sub(1).wrapping_add(self.input.isn);
        let is_first = segment.seq.is_some_and(|range| range.start == opening);
        let seen = || moment.iter().flat_map(|moment| &moment.seen).filter_map(|seen| tcp(&seen.packet.body));
        let answers = seen().any(|tcp| tcp.flags.has(Flags::SYN));
        segment.flags.has(Flags::SYN) && self.is_expected_known && !is_first && !answers
    }

    /// Is it the right end of the last SACK blocks that lay beyond a hole?
    pub(super) fn is_at_last_block(&self, seq: u32) -> bool {
        self.sacked == Some(seq)
    }

    /// Does a segment lie between the edges of the two windows, or across one of them? What lies beyond both is refused
    /// by both.
    pub(super) fn is_at_an_edge(&self, tcp: &Segment) -> bool {
        let syn = tcp.flags.has(Flags::SYN);
        let may_be = self.edge != 0 && !self.takes_too_much && (!syn || tcp.flags.has(Flags::RST));
        let Some(range) = tcp.seq.filter(|_| may_be) else { return false };
        let start = range.start.wrapping_sub(if syn { self.input.isn } else { 0 });
        let len = tcp.len + u32::from(syn) + u32::from(tcp.flags.has(Flags::FIN));
        let end = start.wrapping_add(len);
        let is_inside = ahead(self.far_edge, start) || len == 0 && start == self.far_edge;
        let is_beyond = ahead(end, self.edge) || len == 0 && start == self.edge;
        is_inside && is_beyond && end.wrapping_sub(self.edge) < 70_000
    }

    /// Learns from what the kernel did.
    pub(super) fn see(&mut self, moment: &Moment, stepped: Duration) {
        for (at, seen) in moment.seen.iter().filter_map(|seen| Some((seen.at, tcp(&seen.packet.body)?))) {
            let syn = seen.flags.has(Flags::SYN);
            if seen.flags.has(Flags::RST) {
                self.has_refused |= self.is_half_open && self.acked == 0;
                continue;
            }
            let beyond = blocks_of(seen)
                .map(|block| block.end)
                .filter(|end| seen.ack.is_some_and(|ack| ahead(*end, ack)));
            self.sacked = beyond.reduce(|a, b| if ahead(b, a) { b } else { a });
            let (start, end) = seen.seq.map_or((0, 0), |range| (range.start, range.end));
            let end = end.wrapping_add(u32::from(syn) + u32::from(seen.flags.has(Flags::FIN)));
            if end != start && !ahead(end, self.heard) && !syn {
                self.again[usize::from(start != self.acked)] += 1;
            }
            self.has_repeated |= end != start && !ahead(end, self.heard);
            let is_fresh = end != start && ahead(end, self.heard) && !syn && at > TOGETHER;
            let is_beside = is_pure(seen) && self.heard.wrapping_sub(start) == 1 && at > TOLERANCE;
            self.has_probed = [self.has_probed[0] || is_fresh, self.has_probed[1] || is_beside];
            let is_shut = self.allowed == self.acked && !self.is_half_open;
            self.has_shut_again |= is_shut && start == self.acked && end != start && !ahead(end, self.heard);
            let is_again = |of: &Range| end != start && ahead(of.end, start) && ahead(end, of.start);
            // What is sent again is not measured.
            let again = self.departures.iter_mut().filter(|(of, _)| !syn && is_again(of));
            again.for_each(|(_, at)| *at = None);
            if !syn && ahead(end, self.heard) {
                self.departures.push((Range { start, end }, Some(stepped + at)));
                let is_held = self.is_corked || end == self.allowed || self.small_edge == Some(end);
                let is_short = seen.len > 0 && seen.len < MSS.into() && is_held;
                self.has_forced |= is_short && at > TOLERANCE;
            }
            self.has_ended |= seen.flags.has(Flags::FIN);
            self.has_stamps = stamps(seen).is_some();
            if syn && (end != self.heard || !self.is_half_open) {
                // Another connection begins, with the timestamp that a SYN-ACK echoes.
                let echo = stamps(seen).map(|(_, ecr)| ecr).filter(|ecr| *ecr != 0);
                self.stamp = echo.or(self.stamp);
                (self.is_half_open, self.has_answered, self.has_ended, self.acked) = (true, false, false, 0);
                // The peer's SYN had the option as well, unless the near end repeats its own.
                let scales = |option: &TcpOption| matches!(option, TcpOption::WindowScale(_));
                self.is_scaled = seen.ack.is_some() && seen.options.iter().flatten().any(scales);
            }
            if syn || ahead(end, self.heard) {
                self.heard = end;
            }
            if let Some(ack) = seen.ack {
                self.expected = if syn { ack.wrapping_sub(self.input.isn) } else { ack };
                self.is_expected_known = true;
            }
            // A challenge leaves it half open.
            self.has_answered |= !syn;
        }
    }

    pub(super) fn ack(&self) -> Option<u32> {
        self.segment.filter(|tcp| tcp.flags.has(Flags::ACK))?.ack
    }

    pub(super) fn sends(&self, flag: u8) -> bool {
        self.segment.is_some_and(|tcp| tcp.flags.has(flag))
    }

    pub(super) fn called(&self, call: Call) -> bool {
        let until = self.difference.step.min(self.input.steps.len());
        self.input.steps[..until].iter().any(|step| step.action == Action::Call(call))
    }

    /// Did this stack send one bare acknowledgment more?
    pub(super) fn ours_acknowledges(&self) -> bool {
        is_one_more(&self.difference.ours, &self.difference.kernel)
    }

    /// Do the two differ in what is sent again alone?
    pub(super) fn only_again(&self) -> bool {
        let is_again = |line: &String| {
            let line = line.strip_prefix("after ").and_then(|line| Some(line.split_once(": ")?.1));
            line.is_some_and(|line| line.starts_with("F. ") || data_of(line).is_some())
        };
        let is_again = |line: &String| {
            is_again(line) || data_of(line).is_some_and(|range| !ahead(range.end, self.heard_by_both))
        };
        self.difference.kernel.iter().chain(&self.difference.ours).all(is_again)
    }

    /// Do the lines of both say the same behind their numbers?
    pub(super) fn says_alike(&self) -> bool {
        let (kernel, ours) = (&self.difference.kernel, &self.difference.ours);
        let tail = |line: &String| line.split_once(") ").map(|(_, tail)| tail.to_owned());
        kernel.iter().zip(ours).all(|(kernel, ours)| tail(kernel) == tail(ours))
    }

    /// Did both send data from the same place, and the kernel more?
    pub(super) fn kernel_sends_more(&self) -> bool {
        let (kernel, ours) = self.data();
        kernel.zip(ours).is_some_and(|(kernel, ours)| {
            kernel.start == ours.start && !ahead(kernel.start, self.heard) && ahead(kernel.end, ours.end)
        })
    }

    /// Did the kernel?
    pub(super) fn kernel_acknowledges(&self) -> bool {
        is_one_more(&self.difference.kernel, &self.difference.ours)
    }

    /// Is the connection in TIME-WAIT?
    pub(super) fn is_over(&self) -> bool {
        let has_their_fin = self.fins.iter().any(|fin| fin.wrapping_add(1) == self.expected);
        self.has_ended && self.acked == self.heard && has_their_fin
    }

    /// Data or a FIN that the kernel sent first, and that this stack sent first.
    pub(super) fn data(&self) -> (Option<Range>, Option<Range>) {
        let first = |lines: &[String]| lines.first().and_then(|line| data_of(line));
        (first(&self.difference.kernel), first(&self.difference.ours))
    }

    /// Segments smaller than the MSS that were sent before the step and end behind `from`.
    pub(super) fn short_ones(&self, from: u32) -> u32 {
        let is_short = |range: &&Range| range.end.wrapping_sub(range.start) < u32::from(MSS) - 40;
        let short = self.sent.iter().filter(is_short).filter(|range| ahead(range.end, from));
        let mut ends: Vec<u32> = short.map(|range| range.end).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.len() as u32
    }

    /// Number up to which the peer has acknowledged, this step's segment included.
    pub(super) fn una(&self) -> u32 {
        let is_acceptable =
            |ack: &u32| !self.is_outside && ahead(*ack, self.acked) && !ahead(*ack, self.heard);
        let ack = self.ack().filter(is_acceptable);
        ack.unwrap_or(self.acked)
    }

    /// Has the peer acknowledged a part of a segment, and not yet the rest?
    pub(super) fn is_within_a_segment(&self) -> bool {
        let una = self.una();
        self.sent.iter().any(|of| ahead(una, of.start) && ahead(of.end, una))
    }

    /// Does a segment repeat what lies before `heard`, which moves with it?
    pub(super) fn repeats(&self, tcp: &Segment, heard: &mut u32) -> bool {
        let Some(range) = tcp.seq.filter(|_| takes_numbers(tcp)) else { return false };
        let end = range.end.wrapping_add(u32::from(tcp.flags.has(Flags::FIN)));
        if ahead(end, *heard) {
            *heard = end;
            return false;
        }
        true
    }

    /// Are the lines the same but for their times, and bare acknowledgments?
    pub(super) fn only_later(&self) -> bool {
        let bare = |lines: &[String]| -> Option<String> {
            let [line] = lines else { return None };
            line.strip_prefix("after ")?.split_once(": ").map(|(_, line)| line.to_owned())
        };
        let kernel = bare(&self.difference.kernel);
        kernel.as_ref().is_some_and(|line| line.starts_with(". ") && line.contains("(0) "))
            && kernel == bare(&self.difference.ours)
    }

    /// Do all lines begin so, if there are any?
    pub(super) fn only(lines: &[String], starts: &[&str]) -> bool {
        lines.iter().all(|line| starts.iter().any(|start| line.starts_with(start)))
    }
}
/// Returns the SACK blocks of a segment.
fn blocks_of(tcp: &Segment) -> impl Iterator<Item = &Range> {
    tcp.options.iter().flatten().flat_map(|option| match option {
        TcpOption::Sack(blocks) => blocks.as_slice(),
        _ => &[],
    })
}

/// Does it hold data or a FIN?
pub(super) fn takes_numbers(tcp: &Segment) -> bool {
    tcp.len > 0 || tcp.flags.has(Flags::FIN)
}
/// Returns true if the packet takes sequence numbers, so that a timer runs until it is acknowledged.
pub(super) fn is_numbered(packet: &Packet) -> bool {
    tcp(&packet.body).is_some_and(|tcp| takes_numbers(tcp) || tcp.flags.has(Flags::SYN))
}
/// Returns true of an acknowledgment without data.
pub(super) fn is_pure(tcp: &Segment) -> bool {
    !takes_numbers(tcp) && tcp.flags.bits & !Flags::PSH == Flags::ACK
}

/// Do the first lines have one bare acknowledgment more than the others?
pub(super) fn is_one_more(lines: &[String], others: &[String]) -> bool {
    let Some((first, rest)) = lines.split_first() else { return false };
    let is_bare = |line: &String| line.starts_with(". ") && line.contains("(0) ");
    // The last may have left after the watch.
    let is_same = rest.starts_with(others) || !rest.is_empty() && others.starts_with(rest);
    is_bare(first) && is_same
}

/// Returns the numbers of the data in a line.
pub(super) fn data_of(line: &str) -> Option<Range> {
    let numbers = line.strip_prefix(". ").or_else(|| line.strip_prefix("F. "))?;
    let (numbers, rest) = numbers.split_once('(')?;
    let (start, end) = numbers.split_once(':')?;
    let range = Range { start: start.parse().ok()?, end: end.parse().ok()? };
    (!rest.starts_with("0)")).then_some(range)
}

/// Returns the number that a line acknowledges.
pub(super) fn ack_of(line: &str) -> Option<u32> {
    let (_, rest) = line.split_once(" ack ")?;
    rest.split(' ').next()?.parse().ok()
}
