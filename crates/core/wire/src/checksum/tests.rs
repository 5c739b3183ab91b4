//! Goal: every fast form agrees with the slow definition, at every length, alignment and split; and the
//! RFC's own example comes out.
use super::*;
use alloc::vec;
use alloc::vec::Vec;
use base::Rng;

/// The definition, word by word.
fn oracle(bytes: &[u8]) -> u16 {
    let mut sum = 0u64;
    for pair in bytes.chunks(2) {
        sum += u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

/// Equal as one's complement numbers: +0 and -0 are one.
fn same(a: u16, b: u16) -> bool {
    a == b || (a.is_multiple_of(0xffff) && b.is_multiple_of(0xffff))
}

#[test]
fn rfc_1071_example() {
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(Sum::of(&bytes).fold(), 0xddf2);
    assert_eq!(Sum::of(&bytes).checksum(), 0x220d);
}

#[test]
fn a_real_ipv4_header() {
    let header = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0,
        0xa8, 0x00, 0xc7,
    ];
    assert!(Sum::of(&header).is_valid());
}

/// Whatever 32 bits a sum has come to, its halves are added with the carry, and so are two sums.
#[test]
fn any_sum_folds_and_adds() {
    let mut rng = Rng::new(3);
    let ends = [0, 1, 0xffff, 0x1_0000, 0x1_ffff, 0xffff_0000, u32::MAX];
    for a in ends.into_iter().chain(core::iter::repeat_with(|| rng.next_u32()).take(10_000)) {
        for b in ends {
            let bytes = [a.to_be_bytes(), b.to_be_bytes()].concat();
            assert_eq!(Sum::of_u32(a).fold(), oracle(&a.to_be_bytes()), "{a:x}");
            assert_eq!(Sum::of_u32(a).plus(Sum::of_u32(b)).fold(), oracle(&bytes), "{a:x} {b:x}");
            assert_eq!(Sum::of_wide(u64::from(a) + u64::from(b)).fold(), oracle(&bytes), "{a:x} {b:x}");
        }
    }
}

#[test]
fn every_length_and_alignment() {
    let mut bytes = vec![0; 400];
    Rng::new(1).fill(&mut bytes);
    for start in 0..9 {
        for len in 0..300 {
            let piece = &bytes[start..start + len];
            assert_eq!(Sum::of(piece).fold(), oracle(piece), "start {start} len {len}");
        }
    }
}

#[test]
fn extremes_carry_right() {
    for len in [0usize, 1, 2, 7, 8, 31, 32, 33, 1460, 65_535] {
        for fill in [0x00, 0xff, 0x80] {
            let bytes = vec![fill; len];
            assert_eq!(Sum::of(&bytes).fold(), oracle(&bytes), "{len} bytes of {fill:#x}");
        }
    }
}

#[test]
fn pieces_add_up_at_any_split() {
    let mut rng = Rng::new(2);
    for round in 0..2_000 {
        let mut bytes: Vec<u8> = vec![0; rng.below(200) as usize];
        rng.fill(&mut bytes);
        let at = rng.below(bytes.len() as u64 + 1) as usize;
        let (a, b) = bytes.split_at(at);
        let whole = Sum::of(&bytes);
        let glued = Sum::of(a).plus_at(at, Sum::of(b));
        assert!(same(glued.fold(), whole.fold()), "round {round}");
    }
}

#[test]
fn incremental_updates_agree_with_a_fresh_sum() {
    let mut rng = Rng::new(3);
    for round in 0..5_000 {
        let mut bytes = [0; 40];
        rng.fill(&mut bytes);
        let check = Sum::of(&bytes).checksum();
        let (old, new) = (u16::from_be_bytes([bytes[4], bytes[5]]), rng.next_u32() as u16);
        bytes[4..6].copy_from_slice(&new.to_be_bytes());
        assert_eq!(update16(check, old, new), Sum::of(&bytes).checksum(), "round {round}");
    }
}

#[test]
fn pseudo_headers_match_the_bytes_they_stand_for() {
    let v4 = pseudo(Addr::v4([192, 168, 0, 1]), Addr::v4([255, 255, 255, 254]), 6, 1480);
    assert_eq!(v4.fold(), oracle(&[192, 168, 0, 1, 255, 255, 255, 254, 0, 6, 0x05, 0xc8]));
    let mut rng = Rng::new(4);
    for _ in 0..1_000 {
        let mut bytes = [0; 40];
        rng.fill(&mut bytes[..32]);
        let len = rng.next_u32();
        bytes[32..36].copy_from_slice(&len.to_be_bytes());
        bytes[39] = 6;
        let src = Addr::v6(*bytes.first_chunk().unwrap());
        let dst = Addr::v6(*bytes[16..].first_chunk().unwrap());
        assert_eq!(pseudo(src, dst, 6, len).fold(), oracle(&bytes));
    }
}

#[test]
fn partial_sums_are_recognised_and_whole_ones_are_not() {
    let sum = pseudo(Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2]), 6, 20);
    assert!(is_partial(sum.fold(), sum));
    assert!(!is_partial(sum.checksum(), sum));
    assert!(is_partial(0, Sum(0xffff)) && is_partial(0xffff, Sum::ZERO));
}
