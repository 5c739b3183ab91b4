//! The core's pool of data chunks.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use crate::buffers::sent::TxTimes;

/// Bytes of one chunk.
pub(crate) const CHUNK: usize = 2048;
/// No chunk: the end of a list.
pub(crate) const NONE: u32 = u32::MAX;

const PAGE_BITS: u32 = 6;
const PAGE: usize = 1 << PAGE_BITS;

/// The core's pool of data chunks: send and receive buffers are chains of its 2 KiB chunks and exist only
/// while they hold data. At most `limit` chunks are out at once; memory is taken from the allocator by pages
/// of 64 chunks when first needed, and never moves.
pub struct Pool {
    pages: Vec<Box<[[u8; CHUNK]]>>,
    /// The successor of every chunk, in its chain or in the free list.
    next: Vec<u32>,
    /// Most recently freed chunk: reused first, because it is the warmest.
    free: u32,
    used: u32,
    /// Chunks that are taken before the rest is kept for the least of each connection: see [`crate::memory`].
    high: u32,
    limit: u32,
    /// Connections that their applications have closed, with data still to be sent.
    pub(crate) orphans: u32,
    /// Bytes that connections keep because they miss what precedes them.
    out_of_order: u64,
    tx_times: TxTimes,
}

impl Pool {
    /// A pool that holds at most `limit` chunks.
    pub fn new(limit: u32) -> Pool {
        let limit = limit.min(NONE - PAGE as u32);
        Pool {
            pages: Vec::new(),
            next: Vec::new(),
            free: NONE,
            used: 0,
            high: limit - limit / 4,
            limit,
            orphans: 0,
            out_of_order: 0,
            tx_times: TxTimes::new(limit),
        }
    }

    /// Chunks in use.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Most chunks it will hold.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Is more than half of it in use? Then connections get no more than their share.
    #[inline]
    pub fn is_scarce(&self) -> bool {
        self.used >= self.limit / 2
    }

    /// Connections that their applications have closed, with data still to be sent.
    pub fn orphans(&self) -> u32 {
        self.orphans
    }

    /// Chunks in use from which on not even the least of a connection may be written: what is left is for what arrives.
    /// Were all of them full of what waits to be sent, both ends could wait for each other.
    pub(crate) fn writes_end(&self) -> u32 {
        self.limit - (self.limit / 8).max(1).min(self.limit)
    }

    /// Runs `f`, which may take chunks until `end` of them are in use.
    pub(crate) fn dip<R>(&mut self, end: fn(&Pool) -> u32, f: impl FnOnce(&mut Pool) -> R) -> R {
        let end = end(self);
        let high = core::mem::replace(&mut self.high, end);
        let result = f(self);
        self.high = high;
        result
    }

    /// Bytes occupied by out-of-order data: its chunks, those of the holes before it, and notes.
    pub fn out_of_order(&self) -> u64 {
        self.out_of_order
    }

    /// A connection that occupied `before` bytes with out-of-order data occupies `now`.
    pub(crate) fn charge_out_of_order(&mut self, before: u32, now: u32) {
        debug_assert!(self.out_of_order >= u64::from(before), "what was charged is taken back once");
        self.out_of_order = self.out_of_order - u64::from(before) + u64::from(now);
    }

    /// Bytes reserved from the allocator.
    pub fn footprint(&self) -> usize {
        self.pages.len() * PAGE * CHUNK
            + self.pages.capacity() * size_of::<Box<[[u8; CHUNK]]>>()
            + self.next.capacity() * size_of::<u32>()
            + self.tx_times.footprint()
    }

    pub(crate) fn tx_times(&self) -> &TxTimes {
        &self.tx_times
    }

    #[inline]
    pub(crate) fn tx_times_mut(&mut self) -> &mut TxTimes {
        &mut self.tx_times
    }

    /// Chunks that can still be taken.
    pub(crate) fn available(&self) -> u32 {
        self.high.saturating_sub(self.used)
    }

    /// Sets chunks aside for data that will come; false if there are not so many.
    pub(crate) fn set_aside(&mut self, chunks: u32) -> bool {
        let enough = chunks <= self.available();
        self.used += if enough { chunks } else { 0 };
        enough
    }

    /// Chunks that were set aside may be taken.
    pub(crate) fn give_back(&mut self, chunks: u32) {
        self.used -= chunks;
    }

    /// A chunk with arbitrary content and no successor; `None` when none is available.
    pub(crate) fn take(&mut self) -> Option<u32> {
        if self.used >= self.high {
            return None;
        }
        if self.free == NONE {
            self.grow();
        }
        let chunk = self.free;
        self.free = core::mem::replace(&mut self.next[chunk as usize], NONE);
        self.used += 1;
        Some(chunk)
    }

    #[cold]
    fn grow(&mut self) {
        let first = self.next.len() as u32;
        let last = first + PAGE as u32 - 1;
        self.pages.push(vec![[0; CHUNK]; PAGE].into_boxed_slice());
        self.next.extend((first..=last).map(|chunk| if chunk == last { NONE } else { chunk + 1 }));
        self.free = first;
    }

    /// Gives a whole list of `count` chunks back at once.
    pub(crate) fn put_list(&mut self, head: u32, tail: u32, count: u32) {
        debug_assert!(count <= self.used, "a chunk came back twice");
        self.next[tail as usize] = self.free;
        self.free = head;
        self.used -= count;
    }

    /// The chunk linked after this one.
    pub(crate) fn next(&self, chunk: u32) -> u32 {
        self.next[chunk as usize]
    }

    /// Links `successor` after `chunk`.
    pub(crate) fn link(&mut self, chunk: u32, successor: u32) {
        self.next[chunk as usize] = successor;
    }

    /// A chunk's bytes.
    pub(crate) fn bytes(&self, chunk: u32) -> &[u8] {
        &self.pages[chunk as usize >> PAGE_BITS][chunk as usize & (PAGE - 1)]
    }

    /// Bytes from `at` of `chunk` on, at most `len`, as far as the chunks linked after it also follow it in memory;
    /// and the chunk after these.
    pub(crate) fn run(&self, chunk: u32, at: usize, len: usize) -> (&[u8], u32) {
        let page = self.pages[chunk as usize >> PAGE_BITS].as_flattened();
        let start = (chunk as usize & (PAGE - 1)) * CHUNK;
        let (mut last, mut end) = (chunk, start + CHUNK);
        while end - (start + at) < len && end < page.len() && self.next(last) == last + 1 {
            (last, end) = (last + 1, end + CHUNK);
        }
        (&page[start + at..end.min(start + at + len)], self.next(last))
    }

    /// A chunk's bytes, to write.
    pub(crate) fn bytes_mut(&mut self, chunk: u32) -> &mut [u8] {
        &mut self.pages[chunk as usize >> PAGE_BITS][chunk as usize & (PAGE - 1)]
    }
}

#[cfg(test)]
mod tests;
