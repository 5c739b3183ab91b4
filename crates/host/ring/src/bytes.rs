//! A ring of bytes from one thread to another.

use crate::ends::{Places, Reader, Writer, capacity_for, ends};
use crate::map::{Mapping, PAGE, Pages};
use crate::sync::UnsafeCell;

/// Places for bytes.
pub struct Bytes {
    memory: Memory,
    /// Loom sees no bytes, so each has a shadow that both sides touch where they touch the byte.
    #[cfg(loom)]
    shadow: Box<[UnsafeCell<()>]>,
}

enum Memory {
    Boxed(Box<[core::cell::UnsafeCell<u8>]>),
    /// Its pages are made when they are first written to: a connection that says little needs few of them.
    Mapped(Mapping),
}

/// From this size on a ring has pages of its own.
const MAPPED: usize = 4 * PAGE;

// SAFETY: a byte belongs to one side at a time (see `ends`).
unsafe impl Sync for Bytes {}

#[cfg(not(loom))]
const _: fn(()) -> UnsafeCell<()> = UnsafeCell::new;

impl Places for Bytes {
    #[inline]
    fn capacity(&self) -> usize {
        match &self.memory {
            Memory::Boxed(bytes) => bytes.len(),
            Memory::Mapped(mapping) => mapping.len(),
        }
    }

    fn abandon(&mut self, _: impl Iterator<Item = usize>) {}
}

impl Bytes {
    fn base(&self) -> *mut u8 {
        match &self.memory {
            // Every byte is in a cell, so writing through a pointer from a shared borrow is in order.
            Memory::Boxed(bytes) => core::cell::UnsafeCell::raw_get(bytes.as_ptr()),
            Memory::Mapped(mapping) => mapping.ptr().as_ptr(),
        }
    }

    /// The bytes at `position..position + len`: up to the end of the memory, and the rest from its start.
    #[inline]
    fn split(&self, position: usize, len: usize) -> (usize, usize, usize) {
        let at = position & (self.capacity() - 1);
        let first = len.min(self.capacity() - at);
        (at, first, len - first)
    }

    #[cfg(loom)]
    fn touch(&self, position: usize, len: usize, write: bool) {
        for i in 0..len {
            let cell = &self.shadow[position.wrapping_add(i) & (self.capacity() - 1)];
            if write { cell.with_mut(|_| ()) } else { cell.with(|_| ()) }
        }
    }

    #[cfg(not(loom))]
    #[inline(always)]
    fn touch(&self, _position: usize, _len: usize, _write: bool) {}
}

/// A ring of at least `capacity` bytes (rounded up to a power of two). Panics if `capacity` is 0 or does not fit.
pub fn bytes(capacity: usize) -> (ByteProducer, ByteConsumer) {
    bytes_at(capacity, 0)
}

/// [`bytes`] whose positions start at `at`, for models that wrap at every offset.
fn bytes_at(capacity: usize, at: usize) -> (ByteProducer, ByteConsumer) {
    let capacity = capacity_for(capacity);
    let mapping = if capacity < MAPPED { None } else { Mapping::anonymous(capacity, Pages::Normal).ok() };
    let boxed = || Memory::Boxed((0..capacity).map(|_| core::cell::UnsafeCell::new(0)).collect());
    let bytes = Bytes {
        memory: mapping.map_or_else(boxed, Memory::Mapped),
        #[cfg(loom)]
        shadow: (0..capacity).map(|_| UnsafeCell::new(())).collect(),
    };
    ends(bytes, at)
}

/// The end that bytes go in.
pub type ByteProducer = Writer<Bytes>;

impl ByteProducer {
    /// Append as much of `data` as fits; how much.
    #[inline]
    pub fn write(&mut self, data: &[u8]) -> usize {
        let count = self.room_for(data.len()).min(data.len());
        let (first, second) = self.free(count);
        let (left, right) = data[..count].split_at(first.len());
        first.copy_from_slice(left);
        second.copy_from_slice(right);
        self.commit(count);
        count
    }

    /// The free bytes in order, at most `max`, to fill in place; then [`ByteProducer::commit`].
    #[inline]
    pub fn spare(&mut self, max: usize) -> (&mut [u8], &mut [u8]) {
        let count = self.room_for(max).min(max);
        self.free(count)
    }

    /// Hand over the first `count` bytes of [`ByteProducer::spare`]. Panics if there were fewer.
    #[inline]
    pub fn commit(&mut self, count: usize) {
        if count > 0 {
            assert!(count <= self.room_for(count));
            self.places().touch(self.tail(), count, true);
            self.publish(count);
        }
    }

    /// The next `count` bytes, which must be free.
    #[inline]
    fn free(&mut self, count: usize) -> (&mut [u8], &mut [u8]) {
        let (at, first, second) = self.places().split(self.tail(), count);
        self.places().touch(self.tail(), count, true);
        let base = self.places().base();
        // SAFETY: the callers saw `count` free bytes, which are the writer's alone until published, which needs
        // `&mut self` as these borrows do; `split` keeps both pieces inside the memory and apart.
        unsafe {
            (
                core::slice::from_raw_parts_mut(base.add(at), first),
                core::slice::from_raw_parts_mut(base, second),
            )
        }
    }
}

/// The end that bytes come out of, in order.
pub type ByteConsumer = Reader<Bytes>;

impl ByteConsumer {
    /// Take bytes out; how many.
    #[inline]
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        let (first, second) = self.peek(into.len());
        let (a, b) = (first.len(), second.len());
        into[..a].copy_from_slice(first);
        into[a..a + b].copy_from_slice(second);
        self.consume(a + b);
        a + b
    }

    /// The waiting bytes in order, at most `max`, left where they are.
    #[inline]
    pub fn peek(&mut self, max: usize) -> (&[u8], &[u8]) {
        let count = self.filled(max).min(max);
        let (at, first, second) = self.places().split(self.head(), count);
        self.places().touch(self.head(), count, false);
        let base = self.places().base();
        // SAFETY: `count` bytes are filled and the reader's until released, which needs `&mut self` and so ends
        // these borrows; `split` keeps both pieces inside the memory.
        unsafe {
            (core::slice::from_raw_parts(base.add(at), first), core::slice::from_raw_parts(base, second))
        }
    }

    /// Drop the first `count` bytes. Panics if fewer wait.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        if count > 0 {
            assert!(count <= self.filled(count));
            self.places().touch(self.head(), count, false);
            self.release(count);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;
