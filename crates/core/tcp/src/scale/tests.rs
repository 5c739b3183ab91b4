//! Goal: the field never promises more than the window, and loses less than one step of the scale.
use super::*;

/// RFC 7323, 2.3-1.
#[test]
fn edges_of_the_field() {
    for (largest, shift) in
        [(0, 0), (65_535, 0), (65_536, 1), (131_071, 1), (131_072, 2), (1 << 30, 14), (u32::MAX, 14)]
    {
        assert_eq!(shift_for(largest), shift, "{largest}");
    }
    for shift in 0..=MAX_SHIFT {
        for window in
            [0, 1, (1 << shift) - 1, 1 << shift, 65_535, 65_536, 1_000_000, 65_535 << shift, 1 << 30]
        {
            let shown = from_field(to_field(window, shift), shift);
            assert!(shown <= window && (window - shown < 1 << shift || shown == 65_535 << shift));
        }
    }
}

/// RFC 7323, 5.3-3.
#[test]
fn timestamps_wrap() {
    assert!(ts_before(u32::MAX, 0) && !ts_before(0, u32::MAX) && !ts_before(5, 5));
    assert_eq!(ts_value(Instant::from_millis(7), u32::MAX), 6);
    assert_eq!(Clock::Micros.value(Instant::from_millis(7), u32::MAX), 6_999);
    for clock in [Clock::Millis, Clock::Micros] {
        let half = (1u64 << 31) * u64::from(clock.tick_us()) / 1_000;
        let life = u64::from(clock.recent_life_ms());
        assert!(life < half && life > half * 9 / 10, "{clock:?}: {life} of {half} ms");
        assert!(clock.echo_limit() < 1 << 31);
    }
}
