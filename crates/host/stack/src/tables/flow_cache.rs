//! Cache of results computed lately for some flow: a host with several addresses goes back and forth between few.

use base::FlowKey;

const PLACES: usize = 16;

/// The last values that were worked out, each for one flow. Which of them make room for each other a stranger may know:
/// that costs working them out, as without this.
pub(crate) struct FlowCache<V>([Option<(FlowKey, V)>; PLACES]);

impl<V: Copy> FlowCache<V> {
    pub(crate) const fn new() -> Self {
        FlowCache([None; PLACES])
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
mod tests;
