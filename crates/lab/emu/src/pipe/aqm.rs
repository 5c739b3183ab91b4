//! Active queue management: which packets are dropped or marked before the queue is full.

use super::dual::DualPi2;
use base::{Duration, Instant, Rng};

/// How a queue is managed. What cannot be marked (no ECT in its header) is dropped instead.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Aqm {
    /// Packets are dropped only when the queue is full.
    #[default]
    None,
    /// Mark what finds more than so many bytes before it (DCTCP's K, RFC 8257); what cannot be marked passes.
    Step(u64),
    /// Random early detection (Floyd and Jacobson, 1993).
    Red(Red),
    /// CoDel (RFC 8289).
    CoDel(CoDel),
    /// Two queues with coupled marks and drops (RFC 9332). It needs a rate.
    DualPi2(DualPi2),
}

/// Random early detection on bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Red {
    /// Average queue below which nothing happens, bytes.
    pub min: u64,
    /// Average queue from which on everything is dropped; with `gentle` that is twice as much. Bytes.
    pub max: u64,
    /// Probability just below `max`.
    pub most: f64,
    /// Weight of each new observation in the average.
    pub weight: f64,
    /// Between `max` and twice `max` the probability rises from `most` to 1.
    pub gentle: bool,
    /// Mark rather than drop while the average is below `max`.
    pub ecn: bool,
}

/// CoDel: packets that have waited longer than `target` for a whole `interval` are dropped at the queue's head, at
/// intervals that shrink with the square root of their number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CoDel {
    /// Acceptable standing delay (RFC 8289: 5 ms).
    pub target: Duration,
    /// A worst round-trip time (RFC 8289: 100 ms).
    pub interval: Duration,
    /// Mark rather than drop.
    pub ecn: bool,
}

impl Default for CoDel {
    fn default() -> Self {
        CoDel { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: false }
    }
}

/// Decision about a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Pass,
    /// Marked, or dropped if it cannot be marked.
    Mark,
    /// Marked if it can be.
    Hint,
    Drop,
}

/// State of the policies.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// RED: average queue in bytes, packets since the last drop, since when the queue is empty.
    average: f64,
    since_last: u32,
    empty_since: Option<Instant>,
    control: Control,
}

/// CoDel's state (RFC 8289, section 5).
#[derive(Clone, Debug, Default)]
struct Control {
    first_above: Option<Instant>,
    drop_next: Option<Instant>,
    dropping: bool,
    count: u32,
    last_count: u32,
}

impl Aqm {
    /// A packet comes to a queue of `bytes`; one of them takes `time_for_one` on the line.
    pub(super) fn on_arrival(
        &self,
        state: &mut State,
        now: Instant,
        bytes: u64,
        time_for_one: Duration,
        rng: &mut Rng,
    ) -> Verdict {
        match self {
            Aqm::Step(limit) if bytes > *limit => Verdict::Hint,
            Aqm::Red(red) => red.on_arrival(state, now, bytes, time_for_one, rng),
            Aqm::None | Aqm::Step(_) | Aqm::CoDel(_) | Aqm::DualPi2(_) => Verdict::Pass,
        }
    }

    /// A packet gets to the head of the queue at `at`, after waiting for `waited`. A first-in first-out queue knows
    /// this when the packet arrives.
    pub(super) fn on_head(&self, state: &mut State, at: Instant, waited: Duration, one: Duration) -> Verdict {
        match self {
            Aqm::CoDel(codel) => codel.on_head(&mut state.control, at, waited, one),
            _ => Verdict::Pass,
        }
    }
}

impl Red {
    fn on_arrival(
        &self,
        state: &mut State,
        now: Instant,
        bytes: u64,
        one: Duration,
        rng: &mut Rng,
    ) -> Verdict {
        if bytes > 0 {
            state.average += self.weight * (bytes as f64 - state.average);
            state.empty_since = None;
        } else {
            // As if small packets had found an empty queue for as long as it was empty.
            let since = *state.empty_since.get_or_insert(now);
            let packets = now.since(since).as_nanos() / one.as_nanos().max(1);
            state.average *= power(1.0 - self.weight, packets.max(1) as u64);
            state.empty_since = Some(now);
        }
        let p = self.probability(state.average);
        if p <= 0.0 {
            state.since_last = 0;
            return Verdict::Pass;
        }
        state.since_last += 1;
        // Drops spread evenly: the longer there was none, the likelier.
        let spread = 1.0 - f64::from(state.since_last) * p;
        if p < 1.0 && spread > 0.0 && !rng.chance(p / spread) {
            return Verdict::Pass;
        }
        state.since_last = 0;
        if self.ecn && state.average < self.max as f64 { Verdict::Mark } else { Verdict::Drop }
    }

    fn probability(&self, average: f64) -> f64 {
        let (min, max) = (self.min as f64, self.max as f64);
        if average < min {
            0.0
        } else if average < max {
            self.most * (average - min) / (max - min)
        } else if self.gentle && average < 2.0 * max {
            self.most + (1.0 - self.most) * (average - max) / max
        } else {
            1.0
        }
    }
}

/// By multiplication alone: libraries differ in the last bit of theirs, and runs must not.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut product = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            product *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    product
}

impl CoDel {
    fn on_head(&self, c: &mut Control, at: Instant, waited: Duration, one: Duration) -> Verdict {
        let late = self.is_late(c, at, waited, one);
        if c.dropping {
            c.dropping = late;
            return match c.drop_next {
                Some(next) if late && at >= next => {
                    c.count += 1;
                    c.drop_next = Some(self.after(next, c.count));
                    self.verdict()
                }
                _ => Verdict::Pass,
            };
        }
        if !late {
            return Verdict::Pass;
        }
        c.dropping = true;
        // Soon after the last episode go on where it ended.
        let recent = c.drop_next.is_some_and(|next| at.since(next) < self.interval * 16);
        let gained = c.count - c.last_count;
        c.count = if recent && gained > 1 { gained } else { 1 };
        c.last_count = c.count;
        c.drop_next = Some(self.after(at, c.count));
        self.verdict()
    }

    /// Has every packet of an interval waited too long? A wait of one packet's time is the line's, not the queue's.
    fn is_late(&self, c: &mut Control, at: Instant, waited: Duration, one: Duration) -> bool {
        if waited < self.target.max(one) {
            c.first_above = None;
            return false;
        }
        at >= *c.first_above.get_or_insert(at + self.interval)
    }

    /// The control law: interval / sqrt(count) after `from`.
    fn after(&self, from: Instant, count: u32) -> Instant {
        let nanos = self.interval.as_nanos() as f64 / f64::from(count.max(1)).sqrt();
        from + Duration::from_nanos(nanos as u64)
    }

    fn verdict(&self) -> Verdict {
        if self.ecn { Verdict::Mark } else { Verdict::Drop }
    }
}

#[cfg(test)]
mod tests;
