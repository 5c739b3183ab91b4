//! The one place of the direct and paired modes that reads a clock.

use base::Instant;
use std::sync::OnceLock;

/// Where an API's time comes from.
pub trait Clock: Send {
    /// The time now; never goes back.
    fn now(&self) -> Instant;
}

/// When the process first asked for the time.
static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();

/// The machine's monotonic clock, counted from when the process first asked (plus a second, so that nothing is at
/// zero): times of different stacks can be compared.
#[derive(Clone, Copy)]
pub struct SystemClock {
    origin: std::time::Instant,
}

impl SystemClock {
    /// The clock.
    #[allow(clippy::disallowed_methods, reason = "an API is where time enters")]
    pub fn new() -> Self {
        SystemClock { origin: *ORIGIN.get_or_init(std::time::Instant::now) }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "an API is where time enters")]
    fn now(&self) -> Instant {
        Instant::from_secs(1) + self.origin.elapsed()
    }
}

/// Time since 1970, as captures are dated.
#[allow(clippy::disallowed_methods, reason = "an API is where time enters")]
pub(crate) fn wall_clock() -> Instant {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Instant::ZERO + since.unwrap_or_default()
}
