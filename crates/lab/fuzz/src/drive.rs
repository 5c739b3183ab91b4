//! Drives a target over a range of inputs, on several threads, and says how to replay what fails.

use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::{Target, input};

/// An input that broke a promise.
#[derive(Debug)]
pub struct Failure {
    /// The target's name.
    pub target: &'static str,
    /// The drive's seed.
    pub seed: u64,
    /// Which input of the drive.
    pub index: u64,
    /// The input itself.
    pub data: Vec<u8>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { target, seed, index, data } = self;
        write!(f, "{target} failed on input {index} of seed {seed} ({} bytes)\n  replay: ", data.len())?;
        write!(f, "cargo xtask fuzz {target} --seed {seed} --only {index}")
    }
}

/// Runs `target` on inputs `0..runs` of `seed`, on `threads` threads; the first failure found ends the drive. How many
/// operations that were, as far as the target counts them.
pub fn drive(target: &Target, seed: u64, runs: u64, threads: u64) -> Result<u64, Failure> {
    let starts = (target.seeds)();
    let stop = AtomicBool::new(false);
    let lane = |first: u64| {
        let mut operations = 0;
        for index in (first..runs).step_by(threads.max(1) as usize) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            match once(target, seed, index, &starts) {
                Ok(more) => operations += more,
                Err(failure) => {
                    stop.store(true, Ordering::Relaxed);
                    return Err(failure);
                }
            }
        }
        Ok(operations)
    };
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..threads.max(1)).map(|first| scope.spawn(move || lane(first))).collect();
        lanes.into_iter().map(|lane| lane.join().unwrap_or_else(|panic| panic::resume_unwind(panic))).sum()
    })
}

/// Runs `target` on input `index` of `seed` alone.
pub fn replay(target: &Target, seed: u64, index: u64) -> Result<u64, Failure> {
    once(target, seed, index, &(target.seeds)())
}

fn once(target: &Target, seed: u64, index: u64, starts: &[Vec<u8>]) -> Result<u64, Failure> {
    let data = input(seed, index, starts, target.longest);
    // The targets share no state between runs, so nothing half-done is seen after a panic.
    match panic::catch_unwind(AssertUnwindSafe(|| (target.run)(&data))) {
        Ok(()) => Ok(target.operations.map_or(0, |operations| operations(&data))),
        Err(_) => Err(Failure { target: target.name, seed, index, data }),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a target that fails is caught, and its failure replays from the numbers that are printed.
    use super::*;

    const FRAGILE: Target = Target {
        name: "fragile",
        help: "",
        run: |data| assert!(!data.starts_with(&[7, 7]), "found it"),
        seeds: || vec![vec![7, 0, 1, 2], vec![0, 7]],
        longest: 64,
        operations: Some(|data| data.len() as u64),
    };

    #[test]
    fn a_failure_is_found_and_replays() {
        for threads in [1, 3] {
            let failure = drive(&FRAGILE, 5, 1_000_000, threads).unwrap_err();
            let again = replay(&FRAGILE, failure.seed, failure.index).unwrap_err();
            assert_eq!(again.data, failure.data);
            assert!(failure.to_string().contains(&format!("--seed 5 --only {}", failure.index)));
        }
    }

    #[test]
    fn a_sound_target_passes() {
        let sound = Target { run: |_| {}, ..FRAGILE };
        let bytes =
            (0..1000).map(|index| input(5, index, &(sound.seeds)(), sound.longest).len() as u64).sum();
        assert_eq!(drive(&sound, 5, 1000, 2).ok(), Some(bytes), "operations are counted");
        assert_eq!(drive(&FRAGILE, 5, 0, 2).ok(), Some(0));
    }
}
