//! How a benchmark is asked to measure, and its clock.

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// A B A B pairs; figures are medians over them.
    pub rounds: u32,
    /// Seconds each measurement lasts, about.
    pub seconds: f64,
}

/// A monotonic clock for measuring; everything measured is wall-clock, so only ratios within a run mean anything.
#[allow(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub fn now() -> std::time::Instant {
    std::time::Instant::now()
}
