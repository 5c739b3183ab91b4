//! Goal: a seed makes one program, of a length that the interpreter takes.
use super::*;

#[test]
fn programs_repeat_and_are_bounded() {
    for seed in 0..2_000 {
        let steps = program(seed);
        assert_eq!(steps, program(seed));
        assert!((3..=STEPS_MAX).contains(&steps.len()), "seed {seed}: {} steps", steps.len());
        assert!(steps.iter().all(|step| step.args.len() <= 10 && step.line().len() < 200), "seed {seed}");
    }
}
