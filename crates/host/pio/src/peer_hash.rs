//! A keyed hash of a peer's address and port, simple enough for classic BPF: it divides flows among processes and
//! queues.
//!
//! Each 16-bit word of the peer is multiplied by a secret word, and the products are added (MULTILINEAR of Lemire and
//! Kaser, "Strongly universal string hashing is fast", 2014): the top 16 bits of the sum are pairwise independent. They
//! are folded into the lower half and multiplied by a secret odd word, so the result is not linear in the key. A peer
//! without the key finds no two flows that meet more often than by chance, doubled at most.

use base::{Endpoint, SipKey};

/// 16-bit words of a peer: its address as IPv6 has it (IPv4 mapped), then its port.
pub(crate) const WORDS: usize = 9;

/// A secret function of peers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PeerHash {
    pub(crate) factors: [u32; WORDS],
    pub(crate) offset: u32,
    /// Odd.
    pub(crate) last: u32,
}

impl PeerHash {
    /// The function that follows from 128 secret bits.
    pub(crate) fn new(secret: [u64; 2]) -> PeerHash {
        let key = SipKey::new(secret[0], secret[1]);
        let word = |at: usize| (key.strong(&[at as u64]) >> 32) as u32;
        PeerHash { factors: std::array::from_fn(word), offset: word(WORDS), last: word(WORDS + 1) | 1 }
    }

    /// The hash of a peer. Its upper bits are the good ones.
    pub(crate) fn of(&self, peer: Endpoint) -> u32 {
        let bytes = peer.addr.bytes();
        let mut words = [0; WORDS];
        for (word, pair) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u32::from(u16::from_be_bytes(*pair));
        }
        words[WORDS - 1] = peer.port.into();
        let sum = self
            .factors
            .iter()
            .zip(words)
            .fold(self.offset, |sum, (factor, word)| sum.wrapping_add(factor.wrapping_mul(word)));
        (sum ^ sum >> 16).wrapping_mul(self.last)
    }
}

#[cfg(test)]
mod tests;
