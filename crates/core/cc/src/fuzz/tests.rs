//! Goal: the promises hold over random lives; a failure names the seed to replay.
use super::*;
use alloc::vec;
extern crate std;

#[test]
fn promises_hold_over_random_lives() {
    for seed in 0..3000u64 {
        let mut rng = base::Rng::new(seed);
        let mut data = vec![0; rng.below(1500) as usize];
        rng.fill(&mut data);
        let outcome = std::panic::catch_unwind(|| fuzz(&data));
        assert!(outcome.is_ok(), "broken promise with seed {seed}");
    }
}

#[test]
fn no_bytes_is_a_life_too() {
    fuzz(&[]);
}
