//! Goal: the fast way says what the plain one does, at every length and place, and for all that carries most.
use super::*;
use base::Rng;

#[track_caller]
fn agrees(bytes: &[u8]) {
    let (fast, plain) = (summer()(bytes).fold(), Sum::of(bytes).fold());
    // +0 and -0 are one number.
    let same = fast == plain || fast.is_multiple_of(0xffff) && plain.is_multiple_of(0xffff);
    assert!(same, "{} bytes: {fast:#x}, {plain:#x}", bytes.len());
    let zero = bytes.iter().all(|byte| *byte == 0);
    assert!(zero == (fast == 0), "only zeros sum up to the zero that means nothing");
}

#[test]
fn every_length_and_place() {
    let mut bytes = vec![0; 3000];
    Rng::new(1).fill(&mut bytes);
    for start in 0..33 {
        for len in 0..if cfg!(miri) { 3 } else { 800 } {
            agrees(&bytes[start..start + len]);
        }
        for len in 1400..1600 {
            agrees(&bytes[start..start + len]);
        }
    }
}

#[test]
fn extremes() {
    for len in [0, 255, 256, 257, 1480, 1501, 65_535, 1 << 16, (1 << 16) + 1, 300_001] {
        for fill in [0x00, 0xff, 0x80, 0x7f, 0x01] {
            agrees(&vec![fill; len]);
        }
    }
    let mut rng = Rng::new(2);
    for _ in 0..if cfg!(miri) { 2 } else { 200 } {
        let mut bytes = vec![0; rng.below(200_000) as usize];
        rng.fill(&mut bytes);
        agrees(&bytes);
    }
}
