//! Goal: the same as a set of bytes says, also across the end of sequence space.
use super::*;
use base::Rng;

extern crate std;

#[test]
fn stretches_are_what_a_set_of_bytes_says() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let origin = Seq::new(0_u32.wrapping_sub(rng.below(200) as u32));
        let (mut islands, mut set, mut next) = (Islands::default(), [false; 256], 0_u32);
        for _ in 0..60 {
            let start = next + 1 + rng.below(60) as u32;
            let end = start + 1 + rng.below(20) as u32;
            if end < 256 && islands.add(origin + next, origin + start, origin + end).is_ok() {
                set[start as usize..end as usize].fill(true);
            }
            if rng.below(3) == 0 {
                next += 1;
                while next < 256 && set[next as usize] {
                    next += 1;
                }
                let got = islands.absorb(origin + (next.min(255)));
                if next >= 255 {
                    break;
                }
                assert!(got.offset_from(origin) >= next, "seed {seed}");
                next = got.offset_from(origin);
            }
            let beyond = set.iter().enumerate().any(|(at, there)| *there && at as u32 > next);
            assert_eq!(islands.is_empty(), !beyond, "seed {seed}, next {next}, {islands:?}");
        }
    }
}

#[test]
fn a_fifth_stretch_is_refused_and_nothing_changes() {
    let mut islands = Islands::default();
    let next = Seq::new(0);
    for at in 1..=4 {
        islands.add(next, next + at * 10, next + (at * 10 + 5)).expect("room");
    }
    assert_eq!(islands.add(next, next + 50, next + 55), Err(TooMany));
    islands.add(next, next + 15, next + 20).expect("joins two");
    islands.add(next, next + 50, next + 55).expect("room again");
    assert_eq!(islands.absorb(next + 10).raw(), 25);
}
