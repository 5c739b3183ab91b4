//! The one place of the direct and paired modes that reads a clock.

use base::Instant;

/// Where a door's time comes from.
pub trait Clock: Send {
    /// The time now; never goes back.
    fn now(&self) -> Instant;
}

/// The machine's monotonic clock, counted from when it was made (plus a second, so that nothing is at zero).
pub struct SystemClock {
    origin: std::time::Instant,
}

impl SystemClock {
    /// A clock that starts now.
    #[allow(clippy::disallowed_methods, reason = "a door is where time enters")]
    pub fn new() -> Self {
        SystemClock { origin: std::time::Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "a door is where time enters")]
    fn now(&self) -> Instant {
        Instant::from_secs(1) + self.origin.elapsed()
    }
}
