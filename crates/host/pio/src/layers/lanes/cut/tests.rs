//! Goal: reading pieces from any place on is reading the whole from there.
use super::*;
use base::Rng;

#[test]
fn pieces_read_like_the_whole() {
    let whole: Vec<u8> = (0..1_000u32).map(|n| n as u8).collect();
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut cuts: Vec<usize> = (0..rng.below(12)).map(|_| rng.below(1_001) as usize).collect();
        cuts.extend([0, whole.len()]);
        cuts.sort_unstable();
        // Empty pieces too, where two cuts fall together.
        let pieces: Vec<IoSlice<'_>> =
            cuts.windows(2).map(|ends| IoSlice::new(&whole[ends[0]..ends[1]])).collect();
        let mut at = rng.below(1_001) as usize;
        let mut reader = Reader::at(&pieces, at);
        while at < whole.len() {
            let count = (1 + rng.below(200) as usize).min(whole.len() - at);
            let mut into = vec![0; count];
            reader.read(&mut into);
            assert_eq!(into, whole[at..at + count], "seed {seed}");
            at += count;
        }
        reader.read(&mut []);
    }
}
