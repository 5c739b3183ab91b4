//! How often something may happen.

use base::Instant;

/// A rate limit: `burst` at once, refilled at `per_second`.
pub(crate) struct Limit {
    tokens: u32,
    per_second: u32,
    burst: u32,
    filled: Instant,
}

impl Limit {
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        Limit { tokens: burst, per_second, burst, filled: Instant::ZERO }
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
mod tests {
    //! Goal: the burst at once, then the rate, never more.
    use super::*;

    #[test]
    fn burst_then_rate() {
        let mut limit = Limit::new(100, 10);
        let now = Instant::from_secs(1);
        assert_eq!((0..50).filter(|_| limit.take(now)).count(), 10);
        let taken = (0..10_000).filter(|i| limit.take(Instant::from_micros(1_000_000 + i * 100))).count();
        assert!((99..=101).contains(&taken), "{taken}");
        assert_eq!((0..50).filter(|_| limit.take(Instant::from_secs(1_000))).count(), 10);
    }
}
