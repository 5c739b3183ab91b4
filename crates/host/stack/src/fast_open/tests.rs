//! Goal: a listener counts those who have proven nothing, and for a minute those who were reset.
use super::unproven::Unproven;
use base::{Duration, Instant};

/// RFC 7413, 5.1-1.
#[test]
fn resets_count_for_a_minute() {
    let mut unproven = Unproven::new(2);
    let now = Instant::from_secs(100);
    for _ in 0..2 {
        assert!(unproven.has_room(now));
        unproven.count += 1;
    }
    assert!(!unproven.has_room(now));
    unproven.leave(now, true);
    assert!(!unproven.has_room(now), "one unproven, one reset");
    unproven.leave(now, false);
    assert!(unproven.has_room(now));
    assert!(!Unproven::new(0).has_room(now));
    unproven.count = 1;
    assert!(!unproven.has_room(now + Duration::from_secs(59)));
    assert!(unproven.has_room(now + Duration::from_secs(60)));
}
