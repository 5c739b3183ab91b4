//! Goal: the burst at once, then the rate, never more.
use super::*;

#[test]
fn burst_then_rate() {
    let mut limit = RateLimit::new(100, 10);
    let now = Instant::from_secs(1);
    assert_eq!((0..50).filter(|_| limit.take(now)).count(), 10);
    let taken = (0..10_000).filter(|i| limit.take(Instant::from_micros(1_000_000 + i * 100))).count();
    assert!((99..=101).contains(&taken), "{taken}");
    assert_eq!((0..50).filter(|_| limit.take(Instant::from_secs(1_000))).count(), 10);
}
