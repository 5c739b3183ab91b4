//! Load of a core's thread: its time without fruitless polling and sleep.

use base::{Duration, Instant};

/// Time that was not needed.
#[derive(Debug, Default)]
pub(crate) struct Load {
    spun: Duration,
    slept: Duration,
    asleep_since: Option<Instant>,
    wakes: u64,
    /// Events told to connections and listeners.
    pub(crate) events: u64,
    /// Requests of applications to a stack thread.
    pub(crate) jobs: u64,
}

impl Load {
    /// `time` passed looking for packets that were not there.
    pub(crate) fn on_spin(&mut self, time: Duration) {
        self.spun += time;
    }

    /// Time spent looking for packets since the last call.
    pub(crate) fn take_spun(&mut self) -> Duration {
        std::mem::take(&mut self.spun)
    }

    /// A thread that turns the core goes to sleep at `now`.
    pub(crate) fn on_sleep(&mut self, now: Instant) {
        self.asleep_since.get_or_insert(now);
    }

    /// A thread is awake to turn it again, at `now`.
    pub(crate) fn on_wake(&mut self, now: Instant) {
        if let Some(since) = self.asleep_since.take() {
            self.slept += now.since(since);
            self.wakes += 1;
        }
    }

    /// How often a thread that turned the core has slept.
    pub(crate) fn wakes(&self) -> u64 {
        self.wakes
    }

    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep_since.is_some()
    }

    /// Time spent looking for packets that were not there.
    pub(crate) fn spun(&self) -> Duration {
        self.spun
    }

    /// Time spent asleep until `now`.
    pub(crate) fn slept(&self, now: Instant) -> Duration {
        self.slept + self.asleep_since.map_or(Duration::ZERO, |since| now.since(since))
    }
}

#[cfg(test)]
mod tests;
