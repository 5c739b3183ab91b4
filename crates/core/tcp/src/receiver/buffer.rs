//! The receive buffer's bytes: how they come in, and how the application takes them.

use wire::tcp::Pieces;

use crate::buffers::frames::Frames;
use crate::buffers::pool::CHUNK;
use crate::memory::least;
use crate::receiver::Receiver;
use crate::{Cx, Pool};

/// Bytes of a payload in one piece from which on it is worth adopting.
pub const ADOPTED_MIN: usize = 4 << 10;

impl Receiver {
    /// Bytes readable now.
    #[inline(always)]
    pub(crate) fn readable(&self) -> u32 {
        match &self.reassembly {
            None => self.buffer.len(),
            Some(queue) => queue.readable,
        }
    }

    /// Bytes from the first readable one to the last that is held.
    pub(crate) fn held(&self) -> u32 {
        self.buffer.len()
    }

    /// Appends data: a piece, and the rest if there is more, as far as the pool has room. Returns how many bytes.
    #[inline(always)]
    pub(crate) fn append(&mut self, cx: &mut Cx<'_>, data: (&[u8], Option<&dyn Pieces>)) -> usize {
        // Mostly a few bytes, when those before them were read.
        if data.1.is_none() && self.buffer.is_empty() && data.0.len() <= CHUNK {
            return self.buffer.append(cx.pool, data.0);
        }
        self.append_long(cx, data)
    }

    /// Appends data that is worth adopting, or that follows other data.
    #[inline(never)]
    fn append_long(&mut self, cx: &mut Cx<'_>, (data, rest): (&[u8], Option<&dyn Pieces>)) -> usize {
        let len = data.len() as u32 + rest.map_or(0, Pieces::len);
        if (rest.is_some() || data.len() >= ADOPTED_MIN)
            && let Some(frames) = cx.frames.as_deref_mut()
            && self.buffer.adopt(cx.pool, frames, len)
        {
            return len as usize;
        }
        if self.buffer.is_adopted() {
            self.copy_adopted(cx);
        }
        let mut all = self.buffer.append(cx.pool, data);
        if let Some(rest) = rest.filter(|_| all == data.len()) {
            rest.for_each(&mut |piece| {
                let taken = self.buffer.append(cx.pool, piece);
                all += taken;
                taken == piece.len()
            });
        }
        all
    }

    /// Appends the rest of data, `taken` bytes of which the pool had chunks for, as far as that is the least that a
    /// connection may hold. Returns how many bytes.
    #[cold]
    pub(crate) fn append_least(
        &mut self,
        pool: &mut Pool,
        (data, rest): (&[u8], Option<&dyn Pieces>),
        taken: usize,
    ) -> usize {
        let room = least(self.mss).saturating_sub(self.buffer.len()) as usize;
        let (buffer, mut skip, mut more) = (&mut self.buffer, taken, 0);
        pool.dip(Pool::limit, |pool| {
            let mut append = |piece: &[u8]| {
                let fresh = &piece[skip.min(piece.len())..];
                skip -= piece.len() - fresh.len();
                more += buffer.append(pool, &fresh[..fresh.len().min(room - more)]);
                more < room
            };
            if append(data)
                && let Some(rest) = rest
            {
                rest.for_each(&mut append);
            }
        });
        more
    }

    /// Returns the number of the payload in which the oldest data lies, if that was adopted.
    pub(crate) fn adopted(&self) -> Option<u32> {
        self.buffer.adopted()
    }

    /// Copies adopted data that was not read, so that its frames are free. Returns its bytes.
    pub(crate) fn copy_adopted(&mut self, cx: &mut Cx<'_>) -> u32 {
        match cx.frames.as_deref() {
            Some(frames) if self.buffer.is_adopted() => {
                self.buffer.copy_adopted(cx.pool, frames);
                self.buffer.len()
            }
            _ => 0,
        }
    }

    /// Copies the first readable bytes, which are at least as many as `into` has.
    #[inline(always)]
    pub(crate) fn copy_out(&mut self, cx: &Cx<'_>, into: &mut [u8]) {
        if self.buffer.is_adopted() {
            self.copy_out_adopted(cx, into);
        } else {
            self.buffer.copy_out(cx.pool, 0, into);
        }
    }

    #[inline(never)]
    fn copy_out_adopted(&self, cx: &Cx<'_>, into: &mut [u8]) {
        debug_assert!(cx.frames.is_some(), "adopted data is read with its frames");
        if let Some(frames) = cx.frames.as_deref() {
            self.buffer.copy_out_adopted(frames, into);
        }
    }

    /// Calls `each` with slices of the first `len` readable bytes, in order, until it returns false.
    pub(crate) fn peek(
        &self,
        pool: &Pool,
        frames: Option<&dyn Frames>,
        len: u32,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) {
        match frames {
            Some(frames) if self.buffer.is_adopted() => self.buffer.each_adopted(frames, len, each),
            _ => _ = self.buffer.slices(pool, 0, len).all(each),
        }
    }

    /// Drops the first `len` readable bytes.
    #[inline(always)]
    pub(crate) fn consume(&mut self, cx: &mut Cx<'_>, len: u32) {
        if self.buffer.is_adopted() {
            self.consume_adopted(cx, len);
        } else {
            self.buffer.consume(cx.pool, len);
        }
        if let Some(queue) = &mut self.reassembly {
            queue.readable -= len;
        }
    }

    #[inline(never)]
    fn consume_adopted(&mut self, cx: &mut Cx<'_>, len: u32) {
        if let Some(frames) = cx.frames.as_deref_mut() {
            self.buffer.consume_adopted(cx.pool, frames, len);
        }
    }

    /// Gives the bytes back; what is noted about those out of order stays.
    pub(crate) fn release_buffer(&mut self, pool: &mut Pool) {
        self.buffer.release(pool);
    }

    /// Gives everything back.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        if let Some(queue) = self.reassembly.take() {
            queue.release(pool);
        }
        self.buffer.release(pool);
    }
}
