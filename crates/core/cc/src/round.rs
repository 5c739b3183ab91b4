//! Rounds: the time in which what is in flight now is acknowledged.

use crate::controller::AckSample;

/// How much of this round is still to be acknowledged, bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round(u32);

impl Round {
    /// No round has begun: the next acknowledgment ends it.
    pub(crate) const fn new() -> Self {
        Round(0)
    }

    /// Does this acknowledgment end the round? Then what remains in flight makes the next.
    pub(crate) fn ends_with(&mut self, ack: &AckSample) -> bool {
        let over = ack.bytes >= self.0;
        self.0 = if over { in_flight_after(ack).max(1) } else { self.0 - ack.bytes };
        over
    }

    /// Does it acknowledge more than the round holds? Linux's HyStart begins rounds so: with the first acknowledgment
    /// of what left after the last one began.
    pub(crate) fn is_passed_by(&mut self, ack: &AckSample) -> bool {
        let passed = ack.bytes > self.0;
        self.0 = if passed { in_flight_after(ack) } else { self.0 - ack.bytes };
        passed
    }
}

/// Bytes that stay in flight.
fn in_flight_after(ack: &AckSample) -> u32 {
    ack.in_flight.saturating_sub(ack.bytes)
}
