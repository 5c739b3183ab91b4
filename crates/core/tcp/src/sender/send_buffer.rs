//! Send buffer: data that the application wrote and the peer has not acknowledged.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::ops::Range;

use crate::buffers::chain::{Chain, Slices};
use crate::buffers::pool::Pool;

/// Less than this is cheaper copied than lent; so there is a bound on the stretches, too.
pub const LENT_MIN: usize = 4 << 10;

/// Bytes in order, some of them copied into chunks of the pool, others in memory that the application lent.
///
/// ```text
///   offset 0                                                  len
///     | copied | lent, stretch 0 | lent, 1 | copied | lent, 2 |
///     chain:   |copied|copied|             positions: base, base + 1, ...
/// ```
/// As with a [`Chain`] all calls get the one pool, and [`SendBuffer::release`] must run before it is dropped.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    /// The copied bytes, without gaps.
    chain: Chain,
    /// Exists once something was lent.
    lent: Option<Box<Lent>>,
    len: u32,
    /// Bytes the application may have in it.
    limit: u32,
}

/// The stretches that are not copied, in order.
#[derive(Debug, Default)]
struct Lent {
    stretches: VecDeque<SeqRange>,
    /// Position of the buffer's first byte. Positions and counts go around like sequence numbers.
    base: u32,
    /// Lent bytes that were dropped from the front since the beginning.
    gone: u32,
}

#[derive(Debug)]
struct SeqRange {
    bytes: Arc<[u8]>,
    start: usize,
    len: u32,
    /// Position of its first byte.
    at: u32,
    /// Lent bytes before it since the beginning.
    before: u32,
}

impl Lent {
    fn push(&mut self, bytes: Arc<[u8]>, start: usize, len: u32, held: u32) {
        let before = self.stretches.back().map_or(self.gone, |last| last.before.wrapping_add(last.len));
        self.stretches.push_back(SeqRange { bytes, start, len, at: self.base.wrapping_add(held), before });
    }

    /// Drops what lies in the first `n` bytes of the buffer; how many of these were lent.
    fn consume(&mut self, n: u32) -> u32 {
        let mut dropped = 0;
        while let Some(first) = self.stretches.front_mut() {
            let offset = first.at.wrapping_sub(self.base);
            if offset >= n {
                break;
            }
            let part = (n - offset).min(first.len);
            dropped += part;
            if part < first.len {
                first.start += part as usize;
                first.len -= part;
                first.at = first.at.wrapping_add(part);
                first.before = first.before.wrapping_add(part);
                break;
            }
            self.stretches.pop_front();
        }
        self.base = self.base.wrapping_add(n);
        self.gone = self.gone.wrapping_add(dropped);
        dropped
    }

    /// How many bytes before `offset` are lent, and the first stretch that ends behind it.
    fn locate(&self, offset: u32) -> (u32, usize) {
        let next = self.stretches.partition_point(|s| s.at.wrapping_sub(self.base) <= offset);
        let Some(index) = next.checked_sub(1) else { return (0, 0) };
        let last = &self.stretches[index];
        let inside = (offset - last.at.wrapping_sub(self.base)).min(last.len);
        let before = last.before.wrapping_sub(self.gone).wrapping_add(inside);
        (before, if inside < last.len { index } else { next })
    }
}

impl SendBuffer {
    /// Nothing, and room for `limit` bytes.
    pub(crate) const fn new(limit: u32) -> Self {
        SendBuffer { chain: Chain::new(), lent: None, len: 0, limit }
    }

    /// Bytes held.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Does it hold nothing?
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes the application may have in it.
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    pub(crate) fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Bytes that may still be written.
    pub(crate) fn room(&self) -> usize {
        self.limit.saturating_sub(self.len) as usize
    }

    /// Copies data to the end; how many bytes the pool had room for.
    pub(crate) fn append(&mut self, pool: &mut Pool, data: &[u8]) -> usize {
        let data = &data[..data.len().min((u32::MAX - self.len) as usize)];
        let taken = self.chain.append(pool, data);
        self.len += taken as u32;
        taken
    }

    /// Puts a reference to `bytes[range]` at the end; how many bytes went in. The reference is dropped when the last
    /// of them was acknowledged.
    ///
    /// # Panics
    /// If the range does not lie in `bytes`.
    pub(crate) fn lend(&mut self, bytes: &Arc<[u8]>, range: Range<usize>) -> usize {
        assert!(range.start <= range.end && range.end <= bytes.len(), "{range:?} of {} bytes", bytes.len());
        let n = range.len().min((u32::MAX - self.len) as usize);
        if n > 0 {
            let lent = self.lent.get_or_insert_default();
            lent.push(bytes.clone(), range.start, n as u32, self.len);
            self.len += n as u32;
        }
        n
    }

    /// Drops the `n` oldest bytes (all, if there are fewer).
    pub(crate) fn consume(&mut self, pool: &mut Pool, n: u32) {
        let n = n.min(self.len);
        let lent = match &mut self.lent {
            None => 0,
            Some(lent) => lent.consume(n),
        };
        self.chain.consume(pool, n - lent);
        self.len -= n;
    }

    /// Gives everything back.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        self.chain.release(pool);
        self.len = 0;
        if self.lent.is_some() {
            self.lent = None;
        }
    }

    /// Copied bytes before `offset`.
    fn copied_before(&self, offset: u32) -> u32 {
        self.lent.as_ref().map_or(offset, |lent| offset - lent.locate(offset).0)
    }

    /// See [`Chain::seek`].
    pub(crate) fn seek(&mut self, pool: &Pool, offset: u32) {
        let offset = self.copied_before(offset);
        self.chain.seek(pool, offset);
    }

    /// Copies bytes from `offset` on; how many there were, up to `into.len()`.
    pub(crate) fn copy_out(&self, pool: &Pool, offset: u32, into: &mut [u8]) -> usize {
        if self.lent.is_none() {
            return self.chain.copy_out(pool, offset, into);
        }
        let mut done = 0;
        for piece in self.pieces(pool, offset, u32::try_from(into.len()).unwrap_or(u32::MAX)) {
            into[done..done + piece.len()].copy_from_slice(piece);
            done += piece.len();
        }
        done
    }

    /// The bytes from `offset` on, at most `len`, in place and in order.
    pub(crate) fn pieces<'p>(&'p self, pool: &'p Pool, offset: u32, len: u32) -> Pieces<'p> {
        let left = len.min(self.len.saturating_sub(offset));
        let Some(lent) = self.lent.as_deref() else {
            return Pieces {
                buffer: self,
                pool,
                copied: self.chain.slices(pool, offset, left),
                offset,
                left: 0,
                next: 0,
            };
        };
        let next = if left == 0 { 0 } else { lent.locate(offset).1 };
        Pieces { buffer: self, pool, copied: self.chain.slices(pool, 0, 0), offset, left, next }
    }
}

/// The pieces of a range of a [`SendBuffer`], in order.
pub(crate) struct Pieces<'p> {
    buffer: &'p SendBuffer,
    pool: &'p Pool,
    /// Rest of the copied bytes at hand.
    copied: Slices<'p>,
    /// Behind these.
    offset: u32,
    left: u32,
    /// The first stretch not given yet.
    next: usize,
}

impl<'p> Iterator for Pieces<'p> {
    type Item = &'p [u8];

    fn next(&mut self) -> Option<&'p [u8]> {
        let copied = self.copied.next();
        if copied.is_some() || self.left == 0 {
            return copied;
        }
        let lent = self.buffer.lent.as_deref()?;
        let stretch = lent.stretches.get(self.next);
        let at = stretch.map_or(u32::MAX, |stretch| stretch.at.wrapping_sub(lent.base));
        if let Some(stretch) = stretch.filter(|_| at <= self.offset) {
            let skip = self.offset - at;
            let n = self.left.min(stretch.len - skip);
            let start = stretch.start + skip as usize;
            (self.offset, self.left, self.next) = (self.offset + n, self.left - n, self.next + 1);
            return Some(&stretch.bytes[start..start + n as usize]);
        }
        let n = self.left.min(at - self.offset);
        let from = self.buffer.copied_before(self.offset);
        self.copied = self.buffer.chain.slices(self.pool, from, n);
        (self.offset, self.left) = (self.offset + n, self.left - n);
        self.copied.next()
    }
}

#[cfg(test)]
mod tests;
