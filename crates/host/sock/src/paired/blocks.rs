//! Blocks of memory that one side fills and lends the other: the bytes of large calls, which rings would copy.
//!
//! ```text
//!   write ── copied ──> block ── reference ──> send buffer: sent from there
//!            free <── no other reference ──┘   acknowledged: the reference is dropped
//! ```
//! Whether a block is free is seen by its references alone, so that none has to come back through a queue. It is the
//! same the other way, where what arrived is copied once, by the application's read, as long as the link can spare the
//! frames ([`stack::FrameBytes`]); else the stack thread copies it to a block, and the application reads it there.
//!
//! A connection has two ways for its bytes, ring and blocks, in either direction. Bytes are counted from the first ever
//! written, so that [`Lent`] knows which of the two has the next. Bytes in the ring are seen as soon as they are there,
//! lent ones only when they are heard of: so the stack thread puts nothing into the ring while lent bytes wait.

use stack::FrameBytes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tcp::LENT_MIN;

/// Bytes of a block.
pub(super) const BLOCK: usize = 64 << 10;
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
        let len = data.len().min(BLOCK);
        let (block, ()) = self.fill_with(|bytes| bytes[..len].copy_from_slice(&data[..len]))?;
        Some((block, len))
    }

    /// Lets `fill` write to a free block. Returns the block and its result.
    pub(super) fn fill_with<R>(&mut self, fill: impl FnOnce(&mut [u8]) -> R) -> Option<(Arc<[u8]>, R)> {
        let mut block = self.free.pop()?;
        let result = fill(Arc::get_mut(&mut block)?);
        self.lent.push_back(block.clone());
        Some((block, result))
    }
}

/// The end that lends.
pub(super) struct Lending {
    /// Bytes ever lent, and those of them that wait no more, modulo 2^32.
    lent: u32,
    taken: Arc<AtomicU32>,
    /// Most bytes that wait.
    window: u32,
}

impl Lending {
    pub(super) fn new(window: u32) -> Lending {
        Lending { lent: 0, taken: Arc::default(), window }
    }

    /// The other end's share.
    pub(super) fn window(&self) -> (u32, Arc<AtomicU32>) {
        (self.window, self.taken.clone())
    }

    pub(super) fn lend(&mut self, len: u32) {
        self.lent = self.lent.wrapping_add(len);
    }

    /// Bytes that wait.
    pub(super) fn waiting(&self) -> u32 {
        // Nothing but the number is passed on by it.
        self.lent.wrapping_sub(self.taken.load(Ordering::Relaxed))
    }

    /// Bytes that may be lent now: none rather than a trifle, which would only be copied.
    pub(super) fn room(&self) -> usize {
        let room = self.window.saturating_sub(self.waiting()) as usize;
        if room < LENT_MIN { 0 } else { room }
    }
}

/// Bytes in memory to which a reference was passed on.
pub(super) trait Bytes {
    /// Drops the first `n` bytes.
    fn skip(&mut self, n: usize);
}

/// Bytes of a block, or of memory that the application lends: from `start` on.
pub(super) struct InBlock {
    pub(super) block: Arc<[u8]>,
    pub(super) start: usize,
}

impl Bytes for InBlock {
    fn skip(&mut self, n: usize) {
        self.start += n;
    }
}

/// Received bytes.
pub(super) enum Received {
    Block(InBlock),
    Frames(FrameBytes),
}

impl Bytes for Received {
    fn skip(&mut self, n: usize) {
        match self {
            Received::Block(bytes) => bytes.skip(n),
            Received::Frames(frames) => frames.consume(n),
        }
    }
}

impl Piece<Received> {
    /// Returns the first bytes that lie together.
    pub(super) fn front(&self) -> &[u8] {
        match &self.bytes {
            Received::Block(InBlock { block, start }) => &block[*start..*start + self.len as usize],
            Received::Frames(frames) => frames.front(),
        }
    }

    /// Calls `each` with the bytes in order, until it returns false. Returns false if it did.
    pub(super) fn for_each(&self, each: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        match &self.bytes {
            Received::Block(_) => each(self.front()),
            Received::Frames(frames) => frames.for_each(each),
        }
    }
}

/// The end that is lent bytes: those that wait, in order.
pub(super) struct Lent<B> {
    pieces: VecDeque<Piece<B>>,
    waiting: u32,
    /// Most bytes that wait.
    window: u32,
    taken: Option<Arc<AtomicU32>>,
}

impl<B> Default for Lent<B> {
    fn default() -> Self {
        Lent { pieces: VecDeque::new(), waiting: 0, window: 0, taken: None }
    }
}

pub(super) struct Piece<B> {
    pub(super) bytes: B,
    pub(super) len: u32,
    /// Bytes ever written before it, modulo 2^32.
    pub(super) at: u32,
}

impl<B: Bytes> Lent<B> {
    pub(super) fn open(&mut self, window: u32, taken: Arc<AtomicU32>) {
        (self.window, self.taken) = (window, Some(taken));
    }

    pub(super) fn push(&mut self, piece: Piece<B>) {
        self.waiting += piece.len;
        self.pieces.push_back(piece);
    }

    /// Returns the piece that begins with byte `at`, or else how many bytes come before the next that was heard of.
    pub(super) fn next(&self, at: u32) -> Result<&Piece<B>, usize> {
        match self.pieces.front() {
            Some(piece) if piece.at == at => Ok(piece),
            Some(piece) => Err(piece.at.wrapping_sub(at) as usize),
            None => Err(usize::MAX),
        }
    }

    pub(super) fn pieces(&self) -> impl Iterator<Item = &Piece<B>> {
        self.pieces.iter()
    }

    /// Bytes that wait.
    pub(super) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Is half of the room free?
    pub(super) fn has_room(&self) -> bool {
        self.waiting <= self.window / 2
    }

    /// The first `count` bytes, of one piece, wait no more.
    pub(super) fn took(&mut self, count: u32) {
        if let Some(first) = self.pieces.front_mut() {
            first.bytes.skip(count as usize);
            first.at = first.at.wrapping_add(count);
            first.len -= count;
        }
        let _done = self.pieces.pop_front_if(|first| first.len == 0);
        self.count(count);
    }

    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.count(self.waiting);
    }

    fn count(&mut self, gone: u32) {
        self.waiting -= gone;
        if let Some(taken) = &self.taken {
            taken.fetch_add(gone, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
