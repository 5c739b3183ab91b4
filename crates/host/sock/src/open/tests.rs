//! Goal: what a stack keeps secret comes from the kernel's generator, or the stack does not open; a missing
//! privilege is told from other reasons.
use super::*;
use std::os::linux::fs::MetadataExt;

/// RFC 6528, 4-1.
#[test]
fn secrets_are_the_kernels_entropy() {
    // The kernel's generator is the character device 1:9, whatever lies at its path (devices.txt of Linux).
    let source = std::fs::metadata(KERNEL_ENTROPY).expect("a kernel has it");
    assert_eq!(source.st_mode() & 0o170_000, 0o020_000, "a character device");
    assert_eq!(source.st_rdev(), 1 << 8 | 9);
    let draws: Vec<[u64; 2]> =
        (0..256).map(|_| seed_and_secret(0).expect("entropy").1.expect("a secret")).collect();
    // Each of the 128 bits is drawn: 256 draws that agree in one have a probability of 2^-255.
    for word in 0..2 {
        let ones = draws.iter().fold(0, |ones, draw| ones | draw[word]);
        let zeros = draws.iter().fold(0, |zeros, draw| zeros | !draw[word]);
        assert_eq!((ones, zeros), (u64::MAX, u64::MAX));
    }
    let mut words: Vec<u64> = draws.concat();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), 512, "no word comes twice");
    assert_eq!(seed_and_secret(7).expect("no entropy is asked for"), (7, None), "a repeatable run has none");
}

#[test]
fn a_missing_privilege_is_an_errno_of_its_own() {
    let errno = |link: &str| {
        let settings = Settings { link: link.into(), ..Settings::default() };
        open(&settings).err().map(|e| e.errno())
    };
    let powerless = || {
        // The capabilities are this thread's.
        pio::set_capabilities([[0; 3]; 2]).expect("less is always permitted");
        errno("packet:lo")
    };
    let told = std::thread::scope(|scope| scope.spawn(powerless).join().expect("a thread"));
    assert_eq!(told, Some(Errno::EPERM));
    assert_eq!(errno("packet:nowhere0"), Some(Errno::ENODEV));
}

/// RFC 6528, 4-1.
#[test]
fn a_source_that_is_missing_or_runs_dry_is_an_error() {
    for path in ["/dev/null", "/nonexistent"] {
        let refused = entropy::<3>(path).expect_err("no words");
        assert!(refused.0.contains(path) && refused.0.contains("give a seed"), "{}", refused.0);
    }
}
