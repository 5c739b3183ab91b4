//! Goal: a seed makes the same input each time, and generation is fast enough for the gate.

use differ::packets::coverage::Coverage;
use differ::packets::generate::make;

#[test]
fn a_seed_makes_the_same_input() {
    let mut coverage = (Coverage::default(), Coverage::default());
    for seed in 0..40 {
        let (first, first_trace, _) = make(seed, None, &mut coverage.0).expect("memory");
        let (second, second_trace, _) = make(seed, None, &mut coverage.1).expect("memory");
        assert_eq!(first, second, "seed {seed}");
        assert_eq!(first_trace, second_trace, "seed {seed}");
    }
    assert!(coverage.0.count() > 50, "{}", coverage.0.table());
}
