//! How long flows that began at different times take to come to equal shares.

use std::collections::VecDeque;

use crate::stats::jain;

/// Shares are what flows got in so many seconds.
const WINDOW: f64 = 2.0;
/// From this index of Jain's on they count as equal.
const EQUAL: f64 = 0.95;

/// Watches what endless flows have received. Time counts from the start of the last of them.
#[derive(Default)]
pub(crate) struct Convergence {
    /// Times, seconds, and bytes received by each flow until then; those of the last `WINDOW`, and one before.
    seen: VecDeque<(f64, Vec<u64>)>,
    last: f64,
    reached: Option<f64>,
}

impl Convergence {
    /// At `t` the last flow has begun (at `since`), and the flows have `received` so much.
    pub(crate) fn push(&mut self, t: f64, since: f64, received: impl FnOnce() -> Vec<u64>) {
        self.last = t - since;
        if self.reached.is_some() {
            return;
        }
        let now = received();
        if now.len() < 2 {
            return;
        }
        // One more has arrived at its receiver: what was seen is of others.
        if self.seen.back().is_some_and(|(_, before)| before.len() != now.len()) {
            self.seen.clear();
        }
        while self.seen.get(1).is_some_and(|(at, _)| *at <= t - WINDOW) {
            self.seen.pop_front();
        }
        if let Some((at, before)) = self.seen.front()
            && *at <= t - WINDOW
        {
            let shares: Vec<f64> =
                now.iter().zip(before).map(|(now, before)| (now - before) as f64).collect();
            if jain(&shares) >= EQUAL {
                self.reached = Some(t - since);
                return;
            }
        }
        self.seen.push_back((t, now));
    }

    /// Seconds it took; the whole rest of the run if shares never were equal; NaN if there were none to compare.
    pub(crate) fn time(&self) -> f64 {
        let watched = self.reached.or((!self.seen.is_empty()).then_some(self.last));
        watched.unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests;
