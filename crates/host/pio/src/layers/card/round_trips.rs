//! Round trips that the stack has measured, for the receive workers: what waits for more of its flow waits for an
//! eighth of the flow's round trip at most, as in the stack's own engine.
//!
//! The stack's thread writes, workers read, and neither waits: a place is one word, so none is ever half written. Two
//! flows that share a place take it from each other; a flow that finds another's there has no round trip, and waits for
//! as long as is set.

use base::Duration;
use std::sync::atomic::{AtomicU64, Ordering};

/// Flows that are known at once, at most.
const PLACES: usize = 1024;
/// Bits of a place that say how many microseconds; those above are the flow's. No round trip is 0.
const MICROS: u32 = 32;

pub(super) struct RoundTrips(Box<[AtomicU64]>);

impl RoundTrips {
    pub(super) fn new() -> RoundTrips {
        RoundTrips((0..PLACES).map(|_| AtomicU64::new(0)).collect())
    }

    fn place(&self, hash: u64) -> &AtomicU64 {
        &self.0[hash as usize % PLACES]
    }

    /// A round trip of the flow with that hash takes so long.
    pub(super) fn tell(&self, hash: u64, srtt: Duration) {
        let micros = u64::from(u32::try_from(srtt.as_micros()).unwrap_or(u32::MAX).max(1));
        self.place(hash).store(hash >> MICROS << MICROS | micros, Ordering::Relaxed);
    }

    /// How long a round trip of the flow with that hash takes, if that was told lately.
    pub(super) fn of(&self, hash: u64) -> Option<Duration> {
        let told = self.place(hash).load(Ordering::Relaxed);
        let micros = u64::from(told as u32);
        (told >> MICROS == hash >> MICROS && micros > 0).then(|| Duration::from_micros(micros))
    }
}

#[cfg(test)]
mod tests;
