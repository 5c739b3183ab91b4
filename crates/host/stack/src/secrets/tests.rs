//! Goal: what the network sees of one secret tells nothing of the seed or of the others, and a replay is one.
use super::*;

fn words(secret: Option<[u64; 2]>, seed: u64) -> Vec<u64> {
    let mut secrets = Secrets::new(secret, seed);
    (0..64).map(|_| secrets.word()).collect()
}

#[test]
fn every_bit_of_the_key_counts_and_the_seed_does_not() {
    let first = words(Some([1, 2]), 7);
    assert_eq!(first, words(Some([1, 2]), 8), "the seed has no part");
    for bit in 0..128 {
        let mut key = [1, 2];
        key[bit / 64] ^= 1 << (bit % 64);
        let other = words(Some(key), 7);
        assert!(first.iter().zip(&other).all(|(a, b)| a != b), "bit {bit}");
    }
    let mut sorted = first.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), first.len());
}

#[test]
fn a_seed_is_replayed() {
    let mut rng = Rng::new(9);
    let expected: Vec<u64> = (0..64).map(|_| rng.next_u64()).collect();
    assert_eq!(words(None, 9), expected);
}
