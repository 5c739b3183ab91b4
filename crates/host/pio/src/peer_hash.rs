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
mod tests {
    //! Goal: flows that are crafted to meet under one key spread under another.
    use super::*;
    use base::{Addr, Rng};

    /// `count` peers that the function puts into one of 256 buckets, made as `peer` says.
    fn crafted(known: &PeerHash, count: usize, peer: impl FnMut() -> Endpoint) -> Vec<Endpoint> {
        std::iter::repeat_with(peer).filter(|peer| known.of(*peer) >> 24 == 7).take(count).collect()
    }

    /// The fullest of `parts` parts, of those that the top bits tell apart.
    fn fullest(hash: &PeerHash, peers: &[Endpoint], parts: usize) -> usize {
        let mut load = vec![0; parts];
        peers.iter().for_each(|peer| load[hash.of(*peer) as usize / (1 << 24) * parts / 256] += 1);
        load.into_iter().max().unwrap_or(0)
    }

    #[test]
    fn flows_crafted_without_the_key_spread() {
        let mut rng = Rng::new(11);
        for round in 0..40 {
            let (guess, real) = (PeerHash::new([round, 1]), PeerHash::new([round, 2]));
            let sets = [
                // One address, any port; an IPv6 /64; any address, one port.
                crafted(&guess, 200, || Endpoint::new(Addr::v4([10, 0, 0, 2]), rng.next_u32() as u16)),
                crafted(&guess, 2000, || {
                    let mut bytes = [0xfd; 16];
                    bytes[8..].copy_from_slice(&rng.next_u64().to_be_bytes());
                    Endpoint::new(Addr::v6(bytes), 4000)
                }),
                crafted(&guess, 2000, || Endpoint::new(Addr::v4(rng.next_u32().to_be_bytes()), 4000)),
                // Whatever the key: words that differ in their top bits only.
                (0..512)
                    .map(|bits: u16| {
                        let word = |at: usize| (bits >> at & 1) << 15;
                        let bytes: Vec<u8> = (0..8).flat_map(|at| word(at).to_be_bytes()).collect();
                        let bytes = bytes.try_into().expect("eight words");
                        Endpoint::new(Addr::v6(bytes), word(8))
                    })
                    .collect(),
            ];
            for (which, set) in sets.iter().enumerate() {
                assert_eq!(if which < 3 { fullest(&guess, set, 256) } else { set.len() }, set.len());
                let most = fullest(&real, set, 4);
                assert!(
                    most <= set.len() / 2,
                    "round {round}, set {which}: {most} of {} in a quarter",
                    set.len()
                );
            }
        }
    }
}
