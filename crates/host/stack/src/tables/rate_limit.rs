//! How often something may happen.

use base::Instant;

/// A rate limit: `burst` at once, refilled at `per_second`.
pub(crate) struct RateLimit {
    tokens: u32,
    per_second: u32,
    burst: u32,
    filled: Instant,
}

impl RateLimit {
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        RateLimit { tokens: burst, per_second, burst, filled: Instant::ZERO }
    }

    /// May one more happen now?
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let elapsed = now.since(self.filled).as_nanos().min(1_000_000_000) as u64;
        let earned = (elapsed * u64::from(self.per_second) / 1_000_000_000) as u32;
        if earned > 0 {
            self.tokens = self.burst.min(self.tokens.saturating_add(earned));
            self.filled = now;
        }
        let allowed = self.tokens > 0;
        self.tokens -= u32::from(allowed);
        allowed
    }
}

#[cfg(test)]
mod tests;
