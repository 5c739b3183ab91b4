//! A connection's data: bytes in a chain of the pool's chunks.

use crate::buffers::frames::Frames;
use crate::buffers::pool::{CHUNK, NONE, Pool};

/// How far from the head a chunk may lie to be reached from there without moving the cursor: a retransmission
/// of the oldest data must not cost the transmission frontier its place.
const NEAR: u32 = 16;

/// Bytes held in chunks of a [`Pool`]; an empty chain holds none.
///
/// ```text
///   head              cursor                 tail
///  [..xxxx] -> [xxxxxx] -> [xxxxxx] -> [xxxx..]
///     ^ head_skip = position of offset 0 in the first chunk
///     |<---------------- len ------------->|
/// ```
/// Or all its bytes lie in frames of the link ([`Frames`]), with as many chunks of the pool set aside as hold them.
/// Then `cursor` and `tail` number the first and the last payload, and there is no chunk.
///
/// Every offset counts from the oldest byte held. Appending and writing near the end go through the tail,
/// reading at increasing offsets goes through the cursor, so neither walks the chain. All chunks belong to
/// one pool, which the caller passes to each call; [`Chain::release`] must run before the chain is dropped.
#[derive(Debug)]
pub(crate) struct Chain {
    head: u32,
    tail: u32,
    /// A chunk somewhere in the chain, and how many chunks lie before it.
    cursor: u32,
    cursor_index: u32,
    len: u32,
    head_skip: u16,
}

const _: () = assert!(size_of::<Chain>() <= 24);

impl Default for Chain {
    fn default() -> Self {
        Chain::new()
    }
}

impl Chain {
    /// No bytes, no chunk.
    pub(crate) const fn new() -> Self {
        Chain { head: NONE, tail: NONE, cursor: NONE, cursor_index: 0, len: 0, head_skip: 0 }
    }

    /// Bytes from the oldest to the furthest one written (unwritten gaps of [`Chain::write_at`] included).
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Does it hold nothing?
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Chunks it holds.
    pub(crate) fn chunks(&self) -> u32 {
        self.chunks_for(self.len)
    }

    /// Chunks that hold nothing of the `len` oldest bytes.
    pub(crate) fn chunks_beyond(&self, len: u32) -> u32 {
        self.chunks() - self.chunks_for(len.min(self.len))
    }

    /// Chunks that would hold nothing of the first `from` bytes, were it `to` bytes long.
    pub(crate) fn chunks_between(&self, from: u32, to: u32) -> u32 {
        self.chunks_for(to).saturating_sub(self.chunks_for(from))
    }

    /// Chunks that it lacks to hold `len` bytes.
    pub(crate) fn missing_for(&self, len: u32) -> u32 {
        self.chunks_for(len).saturating_sub(self.chunks())
    }

    /// Bytes it could hold, were it given all that the pool has.
    pub(crate) fn most(&self, pool: &Pool) -> u32 {
        let chunks = self.chunks().saturating_add(pool.available());
        chunks.saturating_mul(CHUNK as u32).saturating_sub(self.head_skip.into())
    }

    fn chunks_for(&self, len: u32) -> u32 {
        (usize::from(self.head_skip) + len as usize).div_ceil(CHUNK) as u32
    }

    /// Adds data at the end; how many bytes the pool had room for.
    #[inline]
    pub(crate) fn append(&mut self, pool: &mut Pool, data: &[u8]) -> usize {
        // Mostly a few bytes, for which one chunk does.
        if self.len == 0 && data.len().wrapping_sub(1) < CHUNK {
            let Some(chunk) = pool.take() else { return 0 };
            *self = Chain { head: chunk, tail: chunk, cursor: chunk, len: data.len() as u32, ..Chain::new() };
            pool.bytes_mut(chunk)[..data.len()].copy_from_slice(data);
            return data.len();
        }
        self.append_more(pool, data)
    }

    /// Appends in the general case: any content, any length of `data`. Returns the number of bytes taken.
    #[inline(never)]
    fn append_more(&mut self, pool: &mut Pool, data: &[u8]) -> usize {
        let mut rest = &data[..data.len().min((u32::MAX - self.len) as usize)];
        let wanted = rest.len();
        while !rest.is_empty() {
            let used = (usize::from(self.head_skip) + self.len as usize) % CHUNK;
            if used == 0 && !self.grow(pool) {
                break;
            }
            let n = rest.len().min(CHUNK - used);
            pool.bytes_mut(self.tail)[used..used + n].copy_from_slice(&rest[..n]);
            self.len += n as u32;
            rest = &rest[n..];
        }
        wanted - rest.len()
    }

    /// Do its bytes lie in frames?
    #[inline]
    pub(crate) fn is_adopted(&self) -> bool {
        self.head == NONE && self.len > 0
    }

    /// Returns the number of the first payload, if the bytes lie in frames.
    pub(crate) fn adopted(&self) -> Option<u32> {
        self.is_adopted().then_some(self.cursor)
    }

    /// Adopts the payload of `n` bytes that is being processed. Returns false, and nothing changed, where it must be
    /// copied.
    pub(crate) fn adopt(&mut self, pool: &mut Pool, frames: &mut dyn Frames, n: u32) -> bool {
        let missing = self.missing_for(self.len.saturating_add(n));
        if self.head != NONE || missing > pool.available() {
            return false;
        }
        let Some(number) = frames.adopt(n, self.is_adopted().then_some(self.tail)) else { return false };
        if self.len == 0 {
            self.cursor = number;
        }
        self.tail = number;
        self.len += n;
        pool.set_aside(missing)
    }

    /// Copies adopted bytes to chunks, which were set aside.
    #[cold]
    pub(crate) fn copy_adopted(&mut self, pool: &mut Pool, frames: &dyn Frames) {
        let (first, len) = (self.cursor, self.len);
        self.release(pool);
        frames.for_each(first, &mut |piece| {
            self.append(pool, piece);
            true
        });
        debug_assert_eq!(self.len, len, "all that was adopted is there");
    }

    /// Copies adopted bytes out, as many as there is room for.
    pub(crate) fn copy_out_adopted(&self, frames: &dyn Frames, into: &mut [u8]) -> usize {
        frames.copy_out(self.cursor, into)
    }

    /// Calls `each` with the adopted bytes in order, at most `max` of them, until it returns false.
    pub(crate) fn each_adopted(&self, frames: &dyn Frames, max: u32, each: &mut dyn FnMut(&[u8]) -> bool) {
        let mut left = max as usize;
        frames.for_each(self.cursor, &mut |piece| {
            let piece = &piece[..piece.len().min(left)];
            left -= piece.len();
            !piece.is_empty() && each(piece) && left > 0
        });
    }

    /// Drops the `n` oldest of adopted bytes.
    pub(crate) fn consume_adopted(&mut self, pool: &mut Pool, frames: &mut dyn Frames, n: u32) {
        let (before, n) = (self.chunks(), n.min(self.len));
        self.cursor = frames.consume(self.cursor, n);
        self.len -= n;
        pool.give_back(before - self.chunks());
        if self.len == 0 {
            *self = Chain::new();
        }
    }

    /// Links one more chunk at the end.
    fn grow(&mut self, pool: &mut Pool) -> bool {
        let Some(chunk) = pool.take() else { return false };
        if self.head == NONE {
            (self.head, self.cursor, self.cursor_index) = (chunk, chunk, 0);
        } else {
            pool.link(self.tail, chunk);
        }
        self.tail = chunk;
        true
    }

    /// Drops the `n` oldest bytes (all, if there are fewer); chunks left behind go back to the pool at once.
    pub(crate) fn consume(&mut self, pool: &mut Pool, n: u32) {
        if n >= self.len {
            return self.release(pool);
        }
        let skip = usize::from(self.head_skip) + n as usize;
        let gone = (skip / CHUNK) as u32;
        if gone > 0 {
            // All at once, so that neighbours in memory are neighbours when they are taken again.
            let (first, mut last) = (self.head, self.head);
            for _ in 1..gone {
                last = pool.next(last);
            }
            self.head = pool.next(last);
            pool.put_list(first, last, gone);
        }
        if self.cursor_index < gone {
            (self.cursor, self.cursor_index) = (self.head, 0);
        } else {
            self.cursor_index -= gone;
        }
        self.head_skip = (skip % CHUNK) as u16;
        self.len -= n;
    }

    /// Drops the newest bytes until only `len` are held.
    pub(crate) fn truncate(&mut self, pool: &mut Pool, len: u32) {
        if len == 0 {
            return self.release(pool);
        }
        if len >= self.len {
            return;
        }
        let (keep, all) = (self.chunks_for(len), self.chunks());
        if keep < all {
            let (last, _) = self.locate(pool, len - 1);
            pool.put_list(pool.next(last), self.tail, all - keep);
            self.tail = last;
            if self.cursor_index >= keep {
                (self.cursor, self.cursor_index) = (self.head, 0);
            }
        }
        self.len = len;
    }

    /// Gives every chunk back.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        match self.head {
            NONE => pool.give_back(self.chunks()),
            head => pool.put_list(head, self.tail, self.chunks()),
        }
        *self = Chain::new();
    }

    /// Chunk and position of the byte at `offset`, which must be held.
    fn locate(&self, pool: &Pool, offset: u32) -> (u32, usize) {
        let at = usize::from(self.head_skip) + offset as usize;
        let index = (at / CHUNK) as u32;
        let (mut chunk, steps) = if index + 1 == self.chunks() {
            (self.tail, 0)
        } else if index >= self.cursor_index {
            (self.cursor, index - self.cursor_index)
        } else {
            (self.head, index)
        };
        for _ in 0..steps {
            chunk = pool.next(chunk);
        }
        (chunk, at % CHUNK)
    }

    /// Moves the cursor to the chunk that holds `offset`, so that reads from there on cost no walk. Call it
    /// before reading in sequence; offsets close to either end are cheap anyway and leave the cursor where it
    /// is.
    pub(crate) fn seek(&mut self, pool: &Pool, offset: u32) {
        if offset >= self.len {
            return;
        }
        let index = ((usize::from(self.head_skip) + offset as usize) / CHUNK) as u32;
        let is_tail = index + 1 == self.chunks();
        if index >= NEAR && index != self.cursor_index && !is_tail {
            (self.cursor, _) = self.locate(pool, offset);
            self.cursor_index = index;
        }
    }

    /// Copies bytes from `offset` on; how many there were, up to `into.len()`.
    #[inline]
    pub(crate) fn copy_out(&self, pool: &Pool, offset: u32, into: &mut [u8]) -> usize {
        let n = into.len().min(self.len.saturating_sub(offset) as usize);
        let at = usize::from(self.head_skip) + offset as usize;
        if self.head == self.tail
            && n > 0
            && let Some(held) = pool.bytes(self.head).get(at..at + n)
        {
            into[..n].copy_from_slice(held);
            return n;
        }
        self.copy_out_more(pool, offset, &mut into[..n])
    }

    /// Copies out across several chunks, as many bytes as are held at most.
    #[inline(never)]
    fn copy_out_more(&self, pool: &Pool, offset: u32, into: &mut [u8]) -> usize {
        if into.is_empty() {
            return 0;
        }
        let (chunk, at) = self.locate(pool, offset);
        if let Some(held) = pool.bytes(chunk).get(at..at + into.len()) {
            into.copy_from_slice(held);
            return into.len();
        }
        let mut done = 0;
        for slice in self.slices(pool, offset, u32::try_from(into.len()).unwrap_or(u32::MAX)) {
            into[done..done + slice.len()].copy_from_slice(slice);
            done += slice.len();
        }
        done
    }

    /// The bytes from `offset` on, at most `len`, in place and in order.
    pub(crate) fn slices<'p>(&self, pool: &'p Pool, offset: u32, len: u32) -> Slices<'p> {
        let left = len.min(self.len.saturating_sub(offset)) as usize;
        let (chunk, at) = if left == 0 { (NONE, 0) } else { self.locate(pool, offset) };
        Slices { pool, chunk, at, left }
    }

    /// Writes `data` at `offset`, which may lie beyond the end: the gap is then part of the chain, with
    /// arbitrary content that the caller must not read before it has written it. False, and nothing changed,
    /// when the pool cannot give the chunks.
    pub(crate) fn write_at(&mut self, pool: &mut Pool, offset: u32, data: &[u8]) -> bool {
        if data.is_empty() {
            return true;
        }
        let Some(end) = u32::try_from(data.len()).ok().and_then(|len| offset.checked_add(len)) else {
            return false;
        };
        if !self.extend_to(pool, end) {
            return false;
        }
        self.seek(pool, offset);
        let (mut chunk, mut at) = self.locate(pool, offset);
        let mut rest = data;
        while !rest.is_empty() {
            let n = rest.len().min(CHUNK - at);
            pool.bytes_mut(chunk)[at..at + n].copy_from_slice(&rest[..n]);
            rest = &rest[n..];
            (chunk, at) = (pool.next(chunk), 0);
        }
        true
    }

    /// Links chunks until `len` bytes are held, the new ones with arbitrary content; all of them or none.
    pub(crate) fn extend_to(&mut self, pool: &mut Pool, len: u32) -> bool {
        if len <= self.len {
            return true;
        }
        let missing = self.missing_for(len);
        if missing > pool.available() {
            return false;
        }
        for _ in 0..missing {
            self.grow(pool);
        }
        self.len = len;
        true
    }
}

/// The pieces of a range of a [`Chain`], in order; chunks that follow each other in memory too make one piece.
#[derive(Clone)]
pub(crate) struct Slices<'p> {
    pool: &'p Pool,
    chunk: u32,
    at: usize,
    left: usize,
}

impl<'p> Iterator for Slices<'p> {
    type Item = &'p [u8];

    fn next(&mut self) -> Option<&'p [u8]> {
        if self.left == 0 {
            return None;
        }
        let (slice, next) = self.pool.run(self.chunk, self.at, self.left);
        self.left -= slice.len();
        (self.chunk, self.at) = (next, 0);
        Some(slice)
    }
}

#[cfg(test)]
mod tests;
