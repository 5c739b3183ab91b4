//! The secrets of a core: the keys of sequence numbers, cookies, ports and tables.

use base::{Rng, SipKey};

/// The words of which keys are made.
pub(crate) enum Secrets {
    /// They follow from a seed, so that a run can be repeated. They are not secret.
    Replayed(Rng),
    /// They follow from a key of the kernel's by SipHash-2-4 in counter mode: none of them tells of another.
    Drawn { key: SipKey, count: u64 },
}

impl Secrets {
    /// From `secret`, 128 bits of the kernel's entropy, or from `seed` where there are none.
    pub(crate) fn new(secret: Option<[u64; 2]>, seed: u64) -> Secrets {
        match secret {
            Some([high, low]) => Secrets::Drawn { key: SipKey::new(high, low), count: 0 },
            None => Secrets::Replayed(Rng::new(seed)),
        }
    }

    /// Returns the next word.
    pub(crate) fn word(&mut self) -> u64 {
        match self {
            Secrets::Replayed(rng) => rng.next_u64(),
            Secrets::Drawn { key, count } => {
                *count += 1;
                key.strong(&[*count])
            }
        }
    }

    /// Returns the next key.
    pub(crate) fn key(&mut self) -> SipKey {
        SipKey::new(self.word(), self.word())
    }

    /// Makes something with a generator of its own, or with that of the seed.
    pub(crate) fn with_generator<T>(&mut self, make: impl FnOnce(&mut Rng) -> T) -> T {
        match self {
            Secrets::Replayed(rng) => make(rng),
            Secrets::Drawn { .. } => make(&mut Rng::new(self.word())),
        }
    }
}

#[cfg(test)]
mod tests;
