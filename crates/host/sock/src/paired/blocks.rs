//! Blocks of memory that one side fills and lends the other: the bytes of large calls, which rings would copy.
//!
//! ```text
//!   write ── copied ──> block ── reference ──> send buffer: sent from there
//!            free <── no other reference ──┘   acknowledged: the reference is dropped
//! ```
//! Whether a block is free is seen by its references alone, so that none has to come back through a queue.

use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of a block.
const BLOCK: usize = 64 << 10;
/// A call of so many bytes is worth blocks; a ring copies less as cheaply.
pub(super) const BLOCKS_MIN: usize = BLOCK / 4;
/// Most blocks that are looked at for one that is free.
const LOOKS: usize = 4;

/// One side's blocks.
pub(super) struct Blocks {
    /// Those used last, last.
    free: Vec<Arc<[u8]>>,
    /// Those lent, the longest ago first.
    lent: VecDeque<Arc<[u8]>>,
    /// Most blocks altogether.
    limit: usize,
}

impl Blocks {
    /// Makes no block yet, and blocks of `bytes` altogether at most.
    pub(super) fn new(bytes: usize) -> Blocks {
        Blocks { free: Vec::new(), lent: VecDeque::new(), limit: bytes / BLOCK }
    }

    /// Returns how many of `wanted` bytes there are free blocks for.
    pub(super) fn room(&mut self, wanted: usize) -> usize {
        while self.free.len() * BLOCK < wanted && self.find() {}
        wanted.min(self.free.len() * BLOCK)
    }

    /// Finds or makes one more free block. Returns false if there is none.
    fn find(&mut self) -> bool {
        for _ in 0..LOOKS.min(self.lent.len()) {
            let Some(mut block) = self.lent.pop_front() else { break };
            if Arc::get_mut(&mut block).is_some() {
                self.free.push(block);
                return true;
            }
            self.lent.push_back(block);
        }
        let more = self.free.len() + self.lent.len() < self.limit;
        if more {
            self.free.push(std::iter::repeat_n(0, BLOCK).collect());
        }
        more
    }

    /// Copies as much of `data` as a block holds to a free one. Returns the block and the number of bytes.
    pub(super) fn fill(&mut self, data: &[u8]) -> Option<(Arc<[u8]>, usize)> {
        let mut block = self.free.pop()?;
        let len = data.len().min(BLOCK);
        Arc::get_mut(&mut block)?[..len].copy_from_slice(&data[..len]);
        self.lent.push_back(block.clone());
        Some((block, len))
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a block is filled again only when nothing refers to it, and there are never more than the limit.
    use super::*;

    #[test]
    fn a_block_is_free_when_its_last_reference_is_gone() {
        let mut blocks = Blocks::new(3 * BLOCK);
        assert_eq!(blocks.room(usize::MAX), 3 * BLOCK);
        let mut held: Vec<_> = (0..3).map(|n| blocks.fill(&[n; 10]).unwrap().0).collect();
        assert_eq!((blocks.room(1), blocks.fill(&[9]).is_none()), (0, true));
        held.remove(1);
        assert_eq!(blocks.room(usize::MAX), BLOCK);
        let (block, len) = blocks.fill(&vec![7; BLOCK + 1]).unwrap();
        assert!(len == BLOCK && block.iter().all(|&byte| byte == 7));
        assert!(held.iter().zip([0, 2]).all(|(block, n)| block[..10] == [n; 10]));
    }

    #[test]
    fn without_memory_there_is_no_block() {
        assert_eq!(Blocks::new(BLOCK - 1).room(1), 0);
    }
}
