//! Goal: a date in two bytes is never told too early, nor late by more than its step.
use super::*;
use base::Rng;

#[test]
fn a_tick_tells_its_date() {
    let mut rng = Rng::new(7);
    for _ in 0..10_000 {
        let known = Instant::from_nanos(rng.next_u64() >> 8);
        let date = known + Duration::from_nanos(rng.next_u64() % (Tick::REACH.as_nanos() as u64 + 1));
        let told = Tick::at(date).following(known);
        assert!(
            told >= date && told.since(date) < Duration::from_nanos(1 << Tick::SHIFT),
            "{known:?} {date:?}"
        );
        // However often it is told anew, it stays.
        assert_eq!(Tick::at(told).following(known), told);
    }
}
