//! Two chains that share a small pool, against vectors.

use alloc::vec;
use alloc::vec::Vec;

use super::Input;
use super::frames::Store;
use crate::buffers::chain::Chain;
use crate::buffers::pool::{CHUNK, Pool};

const POOL: u32 = 24;

struct Pair {
    chain: Chain,
    /// Expected value of every byte; `None` where nothing was written.
    oracle: Vec<Option<u8>>,
    /// Where offset 0 lies in the first chunk.
    skip: usize,
    /// True while its bytes lie in frames.
    adopted: bool,
}

impl Pair {
    fn new() -> Self {
        Pair { chain: Chain::new(), oracle: Vec::new(), skip: 0, adopted: false }
    }

    fn chunks(&self) -> u32 {
        if self.oracle.is_empty() { 0 } else { (self.skip + self.oracle.len()).div_ceil(CHUNK) as u32 }
    }

    fn drop_front(&mut self, n: usize) {
        self.oracle.drain(..n.min(self.oracle.len()));
        self.adopted &= !self.oracle.is_empty();
        self.skip = if self.oracle.is_empty() || self.adopted { 0 } else { (self.skip + n) % CHUNK };
    }

    fn append(&mut self, pool: &mut Pool, data: &[u8]) {
        let tail_room = self.chunks() as usize * CHUNK
            - if self.chunks() == 0 { 0 } else { self.skip + self.oracle.len() };
        let room = tail_room + (pool.available()) as usize * CHUNK;
        let took = self.chain.append(pool, data);
        assert_eq!(took, data.len().min(room), "append takes all that fits");
        self.oracle.extend(data[..took].iter().map(|&b| Some(b)));
    }

    fn write_at(&mut self, pool: &mut Pool, offset: usize, data: &[u8]) {
        let end = if data.is_empty() { 0 } else { offset + data.len() };
        let needed = if end > self.oracle.len() { (self.skip + end).div_ceil(CHUNK) as u32 } else { 0 };
        let fits = needed.saturating_sub(self.chunks()) <= pool.available();
        assert_eq!(self.chain.write_at(pool, offset as u32, data), fits, "all or nothing");
        if fits && end > 0 {
            self.oracle.resize(self.oracle.len().max(end), None);
            for (slot, &byte) in self.oracle[offset..end].iter_mut().zip(data) {
                *slot = Some(byte);
            }
        }
    }

    fn truncate(&mut self, pool: &mut Pool, len: usize) {
        self.chain.truncate(pool, len as u32);
        self.oracle.truncate(len);
        if self.oracle.is_empty() {
            self.skip = 0;
        }
    }

    fn extend_to(&mut self, pool: &mut Pool, len: usize) {
        let needed = if len > self.oracle.len() { (self.skip + len).div_ceil(CHUNK) as u32 } else { 0 };
        let fits = needed.saturating_sub(self.chunks()) <= pool.available();
        assert_eq!(self.chain.extend_to(pool, len as u32), fits, "all or nothing");
        if fits {
            self.oracle.resize(self.oracle.len().max(len), None);
        }
    }

    /// Adopts a payload, unless it is refused: where no byte lies in a chunk, and chunks for it are free.
    fn adopt(&mut self, pool: &mut Pool, store: &mut Store, data: &[u8], refused: bool) {
        let chunks = (self.oracle.len() + data.len()).div_ceil(CHUNK) as u32;
        let free = chunks - if self.adopted { self.chunks() } else { 0 } <= pool.available();
        let may = (self.adopted || self.oracle.is_empty()) && free && !refused;
        store.offered = (!refused).then(|| data.to_vec());
        assert_eq!(self.chain.adopt(pool, store, data.len() as u32), may, "all or nothing");
        if may {
            self.oracle.extend(data.iter().map(|&byte| Some(byte)));
            self.adopted = true;
        }
    }

    fn copy_adopted(&mut self, pool: &mut Pool, store: &Store) {
        self.chain.copy_adopted(pool, store);
        self.adopted = false;
    }

    fn compare_adopted(&self, store: &Store, max: usize) {
        let want = &self.oracle[..max.min(self.oracle.len())];
        let mut got = vec![0; max];
        assert_eq!(self.chain.copy_out_adopted(store, &mut got), want.len());
        let mut shown = Vec::new();
        self.chain.each_adopted(store, max as u32, &mut |piece| {
            shown.extend_from_slice(piece);
            true
        });
        assert!(want.iter().zip(&got).all(|(w, g)| *w == Some(*g)) && shown == got[..want.len()]);
    }

    fn compare(&self, pool: &Pool, offset: usize, len: usize) {
        let from = offset.min(self.oracle.len());
        let want = &self.oracle[from..(from + len).min(self.oracle.len())];
        let mut got = vec![0; len];
        assert_eq!(self.chain.copy_out(pool, offset as u32, &mut got), want.len());
        assert!(want.iter().zip(&got).all(|(w, g)| w.is_none_or(|w| w == *g)), "copy_out at {offset}");
        let pieces: Vec<u8> = self.chain.slices(pool, offset as u32, len as u32).flatten().copied().collect();
        assert_eq!(pieces, got[..want.len()], "slices and copy_out see the same");
    }
}

/// Model of `pool` and `chain`.
pub fn chain(data: &[u8]) {
    let mut input = Input::new(data);
    let mut pool = Pool::new(POOL);
    let (mut pairs, mut store) = ([Pair::new(), Pair::new()], Store::default());
    let mut serial = 0u8;
    while !input.is_empty() {
        let op = input.u8();
        let pair = &mut pairs[usize::from(op & 1)];
        let n = input.below(3 * CHUNK as u32) as usize;
        let held = pair.oracle.len() as u32;
        let mut fresh = |n: usize| -> Vec<u8> {
            serial = serial.wrapping_add(1);
            (0..n).map(|i| (i as u8).wrapping_mul(7).wrapping_add(serial)).collect()
        };
        // Adopted bytes are copied before anything else is done with them.
        if pair.adopted && !matches!(op >> 1 & 15, 2 | 6 | 9 | 12..) {
            pair.copy_adopted(&mut pool, &store);
        }
        match op >> 1 & 15 {
            0 | 1 => pair.append(&mut pool, &fresh(n)),
            2 => {
                match pair.adopted {
                    true => pair.chain.consume_adopted(&mut pool, &mut store, n as u32),
                    false => pair.chain.consume(&mut pool, n as u32),
                }
                pair.drop_front(n);
            }
            3 => {
                let offset = input.below(held + 2 * CHUNK as u32) as usize;
                pair.write_at(&mut pool, offset, &fresh(n % 1500));
            }
            4 => pair.write_at(&mut pool, held as usize, &fresh(n % 1500)),
            5 => pair.chain.seek(&pool, input.below(held.max(1))),
            6 if pair.adopted => pair.compare_adopted(&store, n),
            6 => pair.compare(&pool, input.below(held + 10) as usize, n),
            7 => pair.truncate(&mut pool, input.below(held + 10) as usize),
            8 => pair.extend_to(&mut pool, input.below(held + 2 * CHUNK as u32) as usize),
            9 => pair.adopt(&mut pool, &mut store, &fresh(n.max(1)), op & 32 != 0 && n.is_multiple_of(3)),
            10 | 11 => pair.write_at(&mut pool, held as usize, &fresh(n % 1500)),
            12.. if n < 200 || pair.adopted => {
                pair.chain.release(&mut pool);
                pair.drop_front(usize::MAX / 2);
            }
            _ => pair.compare(&pool, 0, n),
        }
        assert_eq!(pair.chain.is_adopted(), pair.adopted);
        assert_eq!(pair.chain.len() as usize, pair.oracle.len());
        assert_eq!(pair.chain.is_empty(), pair.oracle.is_empty());
        assert_eq!(pair.chain.chunks(), pair.chunks());
        assert_eq!(pool.used(), pairs.iter().map(Pair::chunks).sum::<u32>(), "no chunk is lost or kept");
    }
    for pair in &mut pairs {
        if pair.adopted {
            pair.copy_adopted(&mut pool, &store);
        }
        pair.compare(&pool, 0, pair.oracle.len());
        pair.chain.release(&mut pool);
    }
    assert_eq!(pool.used(), 0);
}
