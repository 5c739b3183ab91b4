//! Goal: always the right value, and no work for what was asked for just now.
use super::*;
use base::{Addr, Endpoint, Rng};

#[test]
fn the_value_of_the_key() {
    let mut recent = FlowCache::new();
    let mut rng = Rng::new(1);
    let mut worked = 0;
    for _ in 0..10_000 {
        let word = rng.below(40) as u32;
        let end = |byte: u8, port: u32| Endpoint::new(Addr::v4([10, 0, 0, byte]), port as u16);
        let key = FlowKey::new(end(1, word / 8), end(2, word % 8));
        let mut of = |recent: &mut FlowCache<u32>| {
            recent.of(&key, || {
                worked += 1;
                word
            })
        };
        assert_eq!((of(&mut recent), of(&mut recent)), (word, word));
    }
    assert!((40..9_000).contains(&worked), "{worked}");
}
