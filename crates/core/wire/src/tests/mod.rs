//! Goal: packets the Linux kernel made are read right, down to the printed line, and remade byte for byte;
//! and no bytes whatever make a parser panic or disagree with its own emitter.

mod captured;
mod known;

use crate::fuzz;
use alloc::vec;
use alloc::vec::Vec;
use base::Rng;
use captured::FRAMES;

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digit = |c: u8| char::from(c).to_digit(16).unwrap() as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// Bytes of no shape at all.
fn noise(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![0; rng.below(200) as usize];
    rng.fill(&mut bytes);
    bytes
}

/// A real packet with a few bytes changed, cut off, or grown.
fn damaged(rng: &mut Rng) -> Vec<u8> {
    let (hex, _) = FRAMES[rng.below(FRAMES.len() as u64) as usize];
    let mut bytes = unhex(hex);
    // What stands behind the link layer, or behind IP, is tried as the start as well.
    bytes.drain(..[0, 14, 34, 54][rng.below(4) as usize].min(bytes.len()));
    for _ in 0..rng.below(5) {
        if !bytes.is_empty() {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u32() as u8;
        }
    }
    let len = rng.below(bytes.len() as u64 + 20) as usize;
    if rng.chance(0.3) {
        bytes.resize(len, rng.next_u32() as u8);
    }
    bytes
}

#[test]
fn nothing_panics_and_everything_round_trips() {
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let bytes = if seed % 4 == 0 { noise(&mut rng) } else { damaged(&mut rng) };
        let outcome = std::panic::catch_unwind(|| fuzz::any_frame(&bytes));
        assert!(outcome.is_ok(), "seed {seed}: {bytes:02x?}");
    }
}
