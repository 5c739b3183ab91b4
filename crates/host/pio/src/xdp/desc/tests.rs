//! Goal: whatever the descriptors say, every frame has one owner and a packet arrives whole or not at
//! all.
use super::*;
use crate::xdp::fuzz;
use base::Rng;

#[test]
fn any_descriptors() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut data = vec![0; 2 + rng.below(600) as usize];
        rng.fill(&mut data);
        // Plain and nearly plain descriptors get further than noise.
        let plain = rng.below(4);
        for byte in &mut data {
            if rng.below(4) < plain {
                *byte &= 0x1f;
            }
        }
        fuzz::descriptors(&data);
    }
}

#[test]
fn segment_sizes() {
    let mut v4 = vec![0; LINK + 40];
    v4[LINK] = 0x45;
    v4[LINK + 9] = 6;
    v4[LINK + 32] = 0x80;
    assert_eq!(segment_size(&v4, 1500), 1448);
    v4[LINK + 9] = 17;
    assert_eq!(segment_size(&v4, 1500), 0);
    let mut v6 = vec![0; LINK + 60];
    v6[LINK] = 0x60;
    v6[LINK + 6] = 6;
    v6[LINK + 52] = 0x50;
    assert_eq!(segment_size(&v6, 1500), 1440);
    assert_eq!(segment_size(&v6[..LINK + 50], 1500), 0);
}
