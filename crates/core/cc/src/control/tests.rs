//! Goal: who hears of an acknowledgment in short does what he would have done with the whole sample.
use super::*;
use crate::tests::testing::{Lab, MSS};
use crate::{Registry, SignalInfo};
use base::Rng;

/// One policy hears everything, another of the same kind in short what it wants no more of.
fn in_short_and_in_full(name: &str, seed: u64) -> usize {
    let mut registry = Registry::new();
    registry.allow_unfair(true).expect("nothing is in the way");
    let mut make = || Lab::new(registry.create(name).expect("it is built in"), 10, None);
    let (mut full, mut short) = (make(), make());
    let (mut rng, mut saved) = (Rng::new(seed), 0);
    for step in 0..400 {
        let spent = rng.below(60);
        (full.now, short.now) = (full.now + spent, short.now + spent);
        let mut sample = full.sample(MSS);
        sample.window_limited = rng.chance(0.5);
        full.policy.on_ack(&sample);
        if !sample.window_limited && short.policy.on_unlimited(sample.now) {
            saved += 1;
        } else {
            short.policy.on_ack(&sample);
        }
        if rng.chance(0.03) {
            let (one, two) = (info(&full), info(&short));
            full.policy.on_congestion(Signal::Loss, &one);
            short.policy.on_congestion(Signal::Loss, &two);
            full.policy.on_recovery_end(&one);
            short.policy.on_recovery_end(&two);
        }
        assert_eq!(full.policy.window(), short.policy.window(), "{name}, seed {seed}, step {step}");
    }
    saved
}

fn info(lab: &Lab<Control>) -> SignalInfo {
    lab.info(lab.policy.window().cwnd / MSS)
}

#[test]
fn nothing_is_lost_in_short() {
    for name in Registry::built_in() {
        let saved: usize = (0..20).map(|seed| in_short_and_in_full(name, seed)).sum();
        assert_eq!(saved > 2_000, [Cubic::NAME, Cubic::NAME_OF_2009].contains(&name), "{name}: {saved}");
    }
}
