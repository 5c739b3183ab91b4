//! Keyed hashing (SipHash): attackers who choose addresses and ports must not choose buckets or ISNs.

use crate::FlowKey;

/// A secret 128-bit key.
#[derive(Clone, Copy)]
pub struct SipKey(u64, u64);

struct State {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl State {
    #[inline(always)]
    fn round(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v0 = self.v0.rotate_left(32);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.wrapping_add(self.v3);
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v2 = self.v2.rotate_left(32);
    }

    #[inline(always)]
    fn absorb<const C: usize>(&mut self, word: u64) {
        self.v3 ^= word;
        for _ in 0..C {
            self.round();
        }
        self.v0 ^= word;
    }
}

impl SipKey {
    /// From two random words.
    pub const fn new(k0: u64, k1: u64) -> Self {
        SipKey(k0, k1)
    }

    /// SipHash-C-D of whole 64-bit words (the length in bytes is mixed in as the algorithm says).
    #[inline(always)]
    fn sip<const C: usize, const D: usize>(self, words: &[u64]) -> u64 {
        let mut s = State {
            v0: self.0 ^ 0x736f_6d65_7073_6575,
            v1: self.1 ^ 0x646f_7261_6e64_6f6d,
            v2: self.0 ^ 0x6c79_6765_6e65_7261,
            v3: self.1 ^ 0x7465_6462_7974_6573,
        };
        // One body for words and length: half the code, and it is the code that must fit the cache.
        for i in 0..=words.len() {
            s.absorb::<C>(words.get(i).copied().unwrap_or((words.len() as u64 * 8) << 56));
        }
        s.v2 ^= 0xff;
        for _ in 0..D {
            s.round();
        }
        s.v0 ^ s.v1 ^ s.v2 ^ s.v3
    }

    /// SipHash-2-4: for what the network sees (initial sequence numbers, SYN cookies).
    pub fn strong(self, words: &[u64]) -> u64 {
        self.sip::<2, 4>(words)
    }

    /// [`Self::strong`] of a flow, with a short path for IPv4.
    #[inline]
    pub fn strong_flow(self, key: &FlowKey) -> u64 {
        if key.is_v4() { self.strong_pair(short_words(key)) } else { self.strong(&flow_words(key)) }
    }

    /// Of known length, and in one place.
    #[inline(never)]
    fn strong_pair(self, words: [u64; 2]) -> u64 {
        self.sip::<2, 4>(&words)
    }

    /// SipHash-1-3: for tables.
    pub fn fast(self, words: &[u64]) -> u64 {
        self.sip::<1, 3>(words)
    }

    /// [`Self::fast`] of one word, in one place.
    #[inline(never)]
    pub fn fast_word(self, word: u64) -> u64 {
        self.sip::<1, 3>(&[word])
    }

    /// A table hash of a flow, with a short path for IPv4.
    #[inline]
    pub fn flow(self, key: &FlowKey) -> u64 {
        if key.is_v4() {
            // Of known length, so that nothing is left of the loop.
            self.sip::<1, 3>(&short_words(key))
        } else {
            self.fast(&flow_words(key))
        }
    }
}

/// An IPv4 flow: both addresses, and the ports. Of another length than [`flow_words`], so the two cannot be confused.
fn short_words(key: &FlowKey) -> [u64; 2] {
    let ([_, local], [_, remote]) = (key.local().addr.halves(), key.remote().addr.halves());
    [local << 32 | remote & 0xffff_ffff, u64::from(key.ports())]
}

/// The flow's five words, both families alike: what ISNs and cookies are keyed by.
pub(crate) fn flow_words(key: &FlowKey) -> [u64; 5] {
    let (local, remote) = (key.local().addr.halves(), key.remote().addr.halves());
    [local[0], local[1], remote[0], remote[1], u64::from(key.ports())]
}

impl FlowKey {
    /// The flow as five words for keyed hashing.
    pub fn words(&self) -> [u64; 5] {
        flow_words(self)
    }
}

#[cfg(test)]
mod tests;
