//! Inputs that follow from a seed and a number alone, so that any one of them can be made again.

use base::Rng;

/// Most changes to one seed.
const CHANGES_MAX: u64 = 16;
/// Bytes that sit on an edge of something.
const EDGES: &[u8] = &[0, 1, 2, 3, 4, 5, 8, 0x0f, 0x10, 0x3c, 0x40, 0x45, 0x60, 0x7f, 0x80, 0xfe, 0xff];

/// Input number `index` of the drive with `seed`, at most `longest` bytes: random ones, or one of `starts` with a
/// few changes.
pub fn input(seed: u64, index: u64, starts: &[Vec<u8>], longest: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index);
    if starts.is_empty() {
        // A model reads its operations from the bytes: the more, the longer its life.
        let len = rng.below(longest as u64 + 1) as usize;
        return random(&mut rng, len);
    }
    if rng.below(8) == 0 {
        // A parser's edges lie in short inputs.
        let len = length(&mut rng, 12).min(longest);
        return random(&mut rng, len);
    }
    let mut data = pick(&mut rng, starts).clone();
    for _ in 0..rng.below(CHANGES_MAX) {
        change(&mut rng, &mut data, starts);
    }
    data.truncate(longest);
    data
}

fn random(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    rng.fill(&mut data);
    data
}

/// A length below 2^`bits`, each magnitude as likely as another.
fn length(rng: &mut Rng, bits: u64) -> usize {
    let magnitude = 1 << rng.below(bits);
    rng.below(magnitude) as usize
}

fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.below(from.len() as u64) as usize]
}

fn change(rng: &mut Rng, data: &mut Vec<u8>, starts: &[Vec<u8>]) {
    let at = rng.below(data.len() as u64 + 1) as usize;
    let span = length(rng, 7);
    let end = (at + span).min(data.len());
    match rng.below(9) {
        0..3 => overwrite(rng, data, at),
        3 => drop(data.drain(at..end)),
        4 => data.truncate(at),
        5 => {
            let copy = data[at..end].to_vec();
            data.splice(at..at, copy);
        }
        6 => {
            let fresh = random(rng, span);
            data.splice(at..at, fresh);
        }
        7 => data[at..end].fill(*pick(rng, EDGES)),
        _ => {
            let other = pick(rng, starts);
            let from = rng.below(other.len() as u64 + 1) as usize;
            data.truncate(at);
            data.extend_from_slice(&other[from..]);
        }
    }
}

fn overwrite(rng: &mut Rng, data: &mut [u8], at: usize) {
    let Some(byte) = data.get_mut(at) else { return };
    match rng.below(4) {
        0 => *byte ^= 1 << rng.below(8),
        1 => *byte = *pick(rng, EDGES),
        2 => *byte = byte.wrapping_add(rng.below(9) as u8).wrapping_sub(4),
        _ => *byte = rng.next_u32() as u8,
    }
}

#[cfg(test)]
mod tests {
    //! Goal: an input can be made again from its two numbers, and the drive really varies.
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn inputs_are_repeatable_bounded_and_various() {
        let starts = [vec![1; 40], vec![2; 900], vec![]];
        let all: Vec<_> = (0..2000).map(|index| input(7, index, &starts, 1000)).collect();
        assert!((0..2000).all(|index| input(7, index, &starts, 1000) == all[index as usize]));
        assert!(all.iter().all(|data| data.len() <= 1000));
        let distinct: HashSet<_> = all.iter().collect();
        assert!(distinct.len() > 1500, "only {} distinct of 2000", distinct.len());
        assert!(all.iter().any(|data| starts.contains(data)), "a seed itself is tried too");
        assert_ne!(input(8, 0, &[], 1000), input(8, 1, &[], 1000));
        assert_ne!((0..9).map(|i| input(8, i, &[], 1000)).collect::<Vec<_>>(), all[..9]);
    }
}
