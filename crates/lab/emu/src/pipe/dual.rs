//! The dual queue of DualPI2 (RFC 9332): a shallow queue for scalable senders, and one for all others, before one
//! line.
//!
//! ```text
//!   ECT(1), CE ──> L ── marked: step at 1 ms, or the coupled probability k p' ──┐
//!                                                                               ├─ time-shifted FIFO ──> line
//!   all others ──> C ── dropped, or marked if ECT(0), with p'^2 ────────────────┘
//!                          p' follows the time that C's packets wait (a PI controller, every 16 ms)
//! ```
//! The queue of [`super::Pipe`] knows when a packet leaves as soon as it arrives. Here it depends on what arrives
//! later, so packets wait in two queues and the pipe serves them when the line is free.

use crate::medium::Packet;
use base::{Duration, Instant};
use std::collections::VecDeque;

use super::log::PacketName;
use super::packet::codepoint;

/// DualPI2's parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DualPi2 {
    /// Time that packets of the classic queue shall wait (RFC 9332: 15 ms).
    pub target: Duration,
    /// Time of waiting above which every packet of the L queue is marked, if more than one packet waits (RFC 9332: 1
    /// ms).
    pub step: Duration,
}

impl Default for DualPi2 {
    fn default() -> Self {
        DualPi2 { target: Duration::from_millis(15), step: Duration::from_millis(1) }
    }
}

/// How often the controller looks (RFC 9332, appendix A.1).
const UPDATE: Duration = Duration::from_millis(16);
/// Greatest round trip for which the controller is stable, seconds.
const RTT_MAX: f64 = 0.1;
/// Gains of the integral and the proportional part, per second of delay and update.
const ALPHA: f64 = 0.1 * 0.016 / (RTT_MAX * RTT_MAX);
const BETA: f64 = 0.3 / RTT_MAX;
/// Coupling factor: a scalable and a classic flow get about the same rate.
const COUPLING: f64 = 2.0;
/// p' at which L packets are all marked by the coupling. Beyond, both queues are relieved by drops.
const SATURATED: f64 = 1.0 / COUPLING;

/// One of the two queues.
#[derive(Default)]
struct Half {
    waiting: VecDeque<Waiting>,
    bytes: u64,
    /// Remainder of the probabilities of packets that passed.
    count: f64,
}

/// A packet that waits.
pub(super) struct Waiting {
    pub(super) packet: Packet,
    pub(super) name: Option<PacketName>,
    pub(super) bytes: u32,
    pub(super) since: Instant,
    /// It is among the packets that ills may befall.
    pub(super) ill: bool,
}

/// Decision about the packet at the head of its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Pass,
    Mark,
    Drop,
}

/// The packet whose turn it is.
pub(super) struct Turn {
    pub(super) waiting: Waiting,
    pub(super) fate: Fate,
    /// From the L queue.
    pub(super) low: bool,
}

/// The two queues and their controller.
#[derive(Default)]
pub(super) struct Dual {
    low: Half,
    classic: Half,
    /// p'.
    base: f64,
    /// Delay of the classic queue at the last update, seconds.
    before: f64,
    update_at: Option<Instant>,
}

impl Half {
    fn delay(&self, now: Instant) -> Duration {
        self.waiting.front().map_or(Duration::ZERO, |first| now.since(first.since))
    }

    /// Returns true for a part of the packets that is `likelihood` (RFC 9332's `recur`).
    fn recurs(&mut self, likelihood: f64) -> bool {
        self.count += likelihood;
        let hit = self.count > 1.0;
        self.count -= f64::from(u8::from(hit));
        hit
    }

    fn pop(&mut self) -> Option<Waiting> {
        let first = self.waiting.pop_front()?;
        self.bytes -= u64::from(first.bytes);
        Some(first)
    }
}

impl Dual {
    /// A packet joins the queue that its codepoint says (RFC 9332, section 2.4): ECT(1) and CE the L queue.
    pub(super) fn enter(&mut self, waiting: Waiting) {
        let low = codepoint(&waiting.packet.bytes) & 1 == 1;
        let half = if low { &mut self.low } else { &mut self.classic };
        half.bytes += u64::from(waiting.bytes);
        half.waiting.push_back(waiting);
    }

    /// Packets and bytes that wait.
    pub(super) fn len(&self) -> (usize, u64) {
        (self.low.waiting.len() + self.classic.waiting.len(), self.low.bytes + self.classic.bytes)
    }

    /// When the packet that has waited longest came.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let first = |half: &Half| half.waiting.front().map(|first| first.since);
        Instant::earliest(first(&self.low), first(&self.classic))
    }

    /// The packet that leaves its queue at `now`, as the line is free.
    pub(super) fn next(&mut self, config: &DualPi2, now: Instant) -> Option<Turn> {
        self.update(config, now);
        // Time-shifted FIFO (RFC 9332, section 4.2.2): a packet of C counts as if it had come twice the target later.
        let shift = config.target * 2;
        let low = match (self.low.waiting.front(), self.classic.waiting.front()) {
            (Some(low), Some(classic)) => low.since < classic.since + shift,
            (low, _) => low.is_some(),
        };
        let overload = self.base >= SATURATED;
        let classic = self.base * self.base;
        if low {
            let delay = self.low.delay(now);
            let steps = delay > config.step && self.low.waiting.len() > 1;
            let waiting = self.low.pop()?;
            let marks = if steps { 1.0 } else { (COUPLING * self.base).min(1.0) };
            let fate = match (overload, self.low.recurs(if overload { classic } else { marks })) {
                (true, true) => Fate::Drop,
                (true, false) | (false, true) => Fate::Mark,
                (false, false) => Fate::Pass,
            };
            return Some(Turn { waiting, fate, low });
        }
        let waiting = self.classic.pop()?;
        let hit = self.classic.recurs(classic);
        let fate = match hit {
            true if overload => Fate::Drop,
            true => Fate::Mark,
            false => Fate::Pass,
        };
        Some(Turn { waiting, fate, low })
    }

    /// The controller, as often as it is due until `now` (RFC 9332, figure 3).
    fn update(&mut self, config: &DualPi2, now: Instant) {
        let mut at = *self.update_at.get_or_insert(now + UPDATE);
        // After a long idle time the queues are empty: some updates tell it as well as all.
        for _ in 0..1024 {
            if at > now {
                break;
            }
            let delay = self.classic.waiting.front().filter(|first| first.since <= at);
            let delay = delay.map_or(0.0, |first| at.since(first.since).as_secs_f64());
            let change = ALPHA * (delay - config.target.as_secs_f64()) + BETA * (delay - self.before);
            self.base = (self.base + change).clamp(0.0, 1.0);
            self.before = delay;
            at += UPDATE;
        }
        self.update_at = Some(at.max(now));
    }
}

#[cfg(test)]
mod tests {
    //! Goal: packets go to their queues, the step and the coupling mark, and the controller keeps the classic delay.
    use super::*;

    fn packet(ecn: u8, since: Instant) -> Waiting {
        let mut bytes = vec![0; 1_514];
        bytes[12..14].copy_from_slice(&wire::ethernet::IPV4.to_be_bytes());
        bytes[14..16].copy_from_slice(&[0x45, ecn]);
        let packet = Packet { bytes, meta: Default::default() };
        Waiting { packet, name: None, bytes: 1_514, since, ill: true }
    }

    fn at(ms: f64) -> Instant {
        Instant::from_nanos((ms * 1e6) as u64)
    }

    #[test]
    fn codepoints_choose_the_queue_and_the_low_one_goes_first() {
        let mut dual = Dual::default();
        (0..4).for_each(|ecn| dual.enter(packet(ecn, at(f64::from(ecn)))));
        let order: Vec<bool> =
            std::iter::from_fn(|| dual.next(&DualPi2::default(), at(4.0))).map(|turn| turn.low).collect();
        assert_eq!(order, [true, true, false, false]);
    }

    #[test]
    fn the_classic_queue_waits_no_longer_than_the_shift() {
        let mut dual = Dual::default();
        dual.enter(packet(0, at(0.0)));
        dual.enter(packet(1, at(29.0)));
        dual.enter(packet(1, at(31.0)));
        let order: Vec<bool> =
            std::iter::from_fn(|| dual.next(&DualPi2::default(), at(32.0))).map(|turn| turn.low).collect();
        assert_eq!(order, [true, false, true]);
    }

    /// RFC 9332, section 2.5.1: native marks of the L queue at a delay of 1 ms, but never for a lone packet.
    #[test]
    fn the_step_marks_what_waited_for_more_than_a_millisecond() {
        let mut fates: Vec<Vec<Fate>> = Vec::new();
        for waited in [0.9, 1.1] {
            let mut dual = Dual::default();
            (0..3).for_each(|_| dual.enter(packet(1, at(0.0))));
            fates.push(
                std::iter::from_fn(|| dual.next(&DualPi2::default(), at(waited))).map(|t| t.fate).collect(),
            );
        }
        // The accumulated likelihood of the first packet is not above 1 yet.
        assert_eq!(fates, [vec![Fate::Pass; 3], vec![Fate::Pass, Fate::Mark, Fate::Pass]]);
    }

    /// RFC 9332, section 2.1: p_C = (p_CL / k)^2.
    #[test]
    fn the_two_probabilities_are_coupled_by_a_square() {
        let mut dual = Dual { base: 0.2, update_at: Some(at(1e9)), ..Dual::default() };
        let mut hits = [0, 0];
        for nth in 0..20_000_u32 {
            dual.enter(packet((nth % 2) as u8, at(0.0)));
            let turn = dual.next(&DualPi2::default(), at(0.0)).expect("one waits");
            hits[usize::from(turn.low)] += u32::from(turn.fate == Fate::Mark);
        }
        assert!((395..=405).contains(&hits[0]) && (3_990..=4_010).contains(&hits[1]), "{hits:?}");
    }

    #[test]
    fn saturation_drops_in_both_queues() {
        let mut dual = Dual { base: 0.9, update_at: Some(at(1e9)), ..Dual::default() };
        let mut drops = [0, 0];
        for nth in 0..2_000_u32 {
            dual.enter(packet((nth % 2) as u8, at(0.0)));
            let turn = dual.next(&DualPi2::default(), at(0.0)).expect("one waits");
            drops[usize::from(turn.low)] += u32::from(turn.fate == Fate::Drop);
        }
        assert!(drops.iter().all(|drops| (800..=820).contains(drops)), "{drops:?}");
    }
}
