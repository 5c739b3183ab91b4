//! Cache of results computed lately for some flow: a host with several addresses goes back and forth between few.

use base::FlowKey;

const PLACES: usize = 16;

/// The last values that were worked out, each for one flow. Which of them make room for each other a stranger may know:
/// that costs working them out, as without this.
pub(crate) struct Recent<V>([Option<(FlowKey, V)>; PLACES]);

impl<V: Copy> Recent<V> {
    pub(crate) const fn new() -> Self {
        Recent([None; PLACES])
    }

    /// The value for `key`, which `work_out` gives if it is not at hand.
    #[inline]
    pub(crate) fn of(&mut self, key: &FlowKey, work_out: impl FnOnce() -> V) -> V {
        let place = &mut self.0[place(key)];
        match place {
            Some((known, value)) if known == key => *value,
            _ => place.insert((*key, work_out())).1,
        }
    }
}

#[inline]
fn place(key: &FlowKey) -> usize {
    let ([_, local], [_, remote]) = (key.local().addr.halves(), key.remote().addr.halves());
    let mixed = (local ^ remote.rotate_left(32) ^ u64::from(key.ports())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 60) as usize % PLACES
}

#[cfg(test)]
mod tests {
    //! Goal: always the right value, and no work for what was asked for just now.
    use super::*;
    use base::{Addr, Endpoint, Rng};

    #[test]
    fn the_value_of_the_key() {
        let mut recent = Recent::new();
        let mut rng = Rng::new(1);
        let mut worked = 0;
        for _ in 0..10_000 {
            let word = rng.below(40) as u32;
            let end = |byte: u8, port: u32| Endpoint::new(Addr::v4([10, 0, 0, byte]), port as u16);
            let key = FlowKey::new(end(1, word / 8), end(2, word % 8));
            let mut of = |recent: &mut Recent<u32>| {
                recent.of(&key, || {
                    worked += 1;
                    word
                })
            };
            assert_eq!((of(&mut recent), of(&mut recent)), (word, word));
        }
        assert!((40..9_000).contains(&worked), "{worked}");
    }
}
