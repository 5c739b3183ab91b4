//! Receive-side scaling (RSS): the hash of a packet's addresses and ports by which a card chooses a receive queue.
//!
//! The hash is Toeplitz's, as Microsoft specified it ("RSS hashing functions"). Each set bit of the input adds (by
//! exclusive or) the 32 bits of the key that begin at that bit's place. Tables with one entry for each value of each
//! byte of the input replace the walk over its bits.

use alloc::vec::Vec;
use base::FlowKey;

/// Bytes of the longest input: two IPv6 addresses and two ports.
const INPUT_MAX: usize = 36;
/// Bytes that a key needs for the longest input.
pub const KEY_MIN: usize = INPUT_MAX + 4;

/// The Toeplitz hash with one key.
#[derive(Clone)]
pub struct Toeplitz {
    /// The hash of each value of each byte of the input.
    bytes: Vec<[u32; 256]>,
}

impl Toeplitz {
    /// Prepares the hash with `key`, of which the first [`KEY_MIN`] bytes count. Returns `None` if it is shorter.
    pub fn new(key: &[u8]) -> Option<Toeplitz> {
        let key: &[u8; KEY_MIN] = key.first_chunk()?;
        let bytes = (0..INPUT_MAX).map(|at| {
            let window = key[at..at + 4].iter().fold(0, |word, &byte| word << 8 | u64::from(byte)) << 8;
            // The 40 bits of the key from this byte on: bit n of the byte begins n bits further.
            let window = window | u64::from(key[at + 4]);
            core::array::from_fn(|value| {
                let set = (0..8).filter(|bit| value << bit & 0x80 != 0);
                set.fold(0, |hash, bit| hash ^ (window >> (8 - bit)) as u32)
            })
        });
        Some(Toeplitz { bytes: bytes.collect() })
    }

    /// Returns the hash of packets that this host receives of a flow, over both addresses and both TCP ports.
    #[inline]
    pub fn received(&self, flow: &FlowKey) -> u32 {
        let (local, remote) = (flow.local(), flow.remote());
        let ports = [remote.port.to_be_bytes(), local.port.to_be_bytes()];
        match (remote.addr.v4_bytes(), local.addr.v4_bytes()) {
            (Some(from), Some(to)) => self.hash(from.iter().chain(&to).chain(ports.as_flattened())),
            _ => {
                let (from, to) = (remote.addr.bytes(), local.addr.bytes());
                self.hash(from.iter().chain(&to).chain(ports.as_flattened()))
            }
        }
    }

    #[inline]
    fn hash<'a>(&self, input: impl Iterator<Item = &'a u8>) -> u32 {
        self.bytes.iter().zip(input).fold(0, |hash, (table, &byte)| hash ^ table[usize::from(byte)])
    }
}

#[cfg(test)]
mod tests;
