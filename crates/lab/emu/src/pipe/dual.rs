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
mod tests;
