//! The rings that an AF_XDP socket shares with the kernel: one writes, the other reads.
//!
//! ```text
//!   consumer ..... producer      both count for ever, modulo 2^32; the slot is the count modulo the size
//!      |  filled slots  |
//! ```
//! The producer of a slot publishes it by storing `producer` with release order; the consumer loads `producer` with
//! acquire order, and hands the slot back by storing `consumer` the same way. Both sides work on cached counts and
//! touch the other's cache line only when those run out.
//!
//! The memory may be mapped elsewhere too, in a child of this process. So a count of the other side is taken only where
//! it can be: after one that cannot, the ring is broken, and has no slots any more.

use ring::{Mapping, Pages};
use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Entry of a ring of packets: `struct xdp_desc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub(crate) struct Desc {
    /// Offset of the packet's first byte in the UMEM.
    pub(crate) addr: u64,
    /// Bytes.
    pub(crate) len: u32,
    /// XDP_PKT_CONTD, XDP_TX_METADATA.
    pub(crate) options: u32,
}

const _: () = assert!(size_of::<Desc>() == 16);

/// Where the parts of a ring lie in its mapping, bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) producer: usize,
    pub(crate) consumer: usize,
    pub(crate) flags: usize,
    pub(crate) slots: usize,
}

/// One side's view of a ring of `T`.
struct Ring<T> {
    producer: *const AtomicU32,
    consumer: *const AtomicU32,
    flags: *const AtomicU32,
    slots: *mut T,
    size: u32,
    /// Keeps the pointers valid.
    _shared: Arc<Mapping>,
}

// SAFETY: a `Ring` is one side; the other side is the kernel's or another `Ring`, and they meet in atomics.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// # Panics
    /// If the parts do not lie in the memory, aligned: then the kernel told us nonsense.
    fn new(shared: Arc<Mapping>, layout: Layout, size: u32) -> Ring<T> {
        assert!(size.is_power_of_two());
        let part = |offset: usize, len: usize, align: usize| {
            assert!(offset.is_multiple_of(align) && offset + len <= shared.len(), "ring outside its mapping");
            // SAFETY: the offset lies inside the mapping, as just checked.
            unsafe { shared.ptr().as_ptr().add(offset) }
        };
        let count =
            |offset| part(offset, size_of::<AtomicU32>(), align_of::<AtomicU32>()).cast::<AtomicU32>();
        Ring {
            producer: count(layout.producer),
            consumer: count(layout.consumer),
            flags: count(layout.flags),
            slots: part(layout.slots, size as usize * size_of::<T>(), align_of::<T>()).cast(),
            size,
            _shared: shared,
        }
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: points into the mapping that `_shared` keeps.
        unsafe { &*self.producer }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: points into the mapping that `_shared` keeps.
        unsafe { &*self.consumer }
    }

    fn slot(&self, count: u32) -> *mut T {
        // SAFETY: the index is below the ring's size, for which the slots were checked.
        unsafe { self.slots.add((count & (self.size - 1)) as usize) }
    }
}

fn map(socket: RawFd, page_offset: i64, len: usize) -> io::Result<Arc<Mapping>> {
    // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_POPULATE,
            socket,
            page_offset,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let (ptr, at) = (NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?, base.addr());
    let unmap = move || {
        // SAFETY: address and length came from mmap, and the ring that used them is gone.
        unsafe { libc::munmap(std::ptr::without_provenance_mut(at), len) };
    };
    // SAFETY: pages of the kernel's, to read and write until `unmap`. They are reached through atomics, and through
    // slots that the counts give to one side alone.
    Ok(Arc::new(unsafe { Mapping::lent(ptr, len, Pages::Normal, Box::new(unmap)) }))
}

/// The side that fills slots.
pub(crate) struct Producer<T> {
    ring: Ring<T>,
    /// Next slot to fill; ahead of the shared count until [`Producer::publish`].
    next: u32,
    /// The consumer's count when last looked at.
    seen: u32,
    /// That count was one that cannot be.
    pub(crate) broken: bool,
}

impl<T: Copy> Producer<T> {
    /// Our side of a ring that the kernel reads.
    pub(crate) fn map(socket: RawFd, page_offset: i64, layout: Layout, size: u32) -> io::Result<Producer<T>> {
        let shared = map(socket, page_offset, layout.slots + size as usize * size_of::<T>())?;
        Ok(Producer::new(Ring::new(shared, layout, size)))
    }

    fn new(ring: Ring<T>) -> Producer<T> {
        let (next, seen) = (ring.producer().load(Ordering::Relaxed), ring.consumer().load(Ordering::Acquire));
        Producer { ring, next, seen, broken: false }
    }

    /// Slots that can be filled. Looks at the other side only if there are fewer than `wanted` for sure.
    pub(crate) fn free(&mut self, wanted: u32) -> u32 {
        if self.ring.size - self.next.wrapping_sub(self.seen) < wanted {
            self.look();
        }
        if self.broken { 0 } else { self.ring.size - self.next.wrapping_sub(self.seen) }
    }

    /// Looks at the consumer's count: it lies between its last one and ours.
    fn look(&mut self) {
        let seen = self.ring.consumer().load(Ordering::Acquire);
        if seen.wrapping_sub(self.seen) > self.next.wrapping_sub(self.seen) {
            self.broken = true;
        } else {
            self.seen = seen;
        }
    }

    /// Fills the next slot. The caller has seen that one is free.
    pub(crate) fn push(&mut self, value: T) {
        assert!(self.next.wrapping_sub(self.seen) < self.ring.size, "no free slot");
        // SAFETY: the slot lies in the mapping and, being free, is ours until it is published.
        unsafe { self.ring.slot(self.next).write(value) };
        self.next = self.next.wrapping_add(1);
    }

    /// Shows the other side everything pushed so far.
    pub(crate) fn publish(&mut self) {
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// Published slots that the other side has not taken yet.
    pub(crate) fn unread(&mut self) -> u32 {
        self.look();
        if self.broken { 0 } else { self.next.wrapping_sub(self.seen) }
    }

    /// Claims that the other side has read what was not written, for tests.
    #[cfg(test)]
    pub(super) fn lie(&self) {
        self.ring.consumer().store(self.next.wrapping_add(1), Ordering::Release);
    }

    /// Does the kernel want to be called for what was published?
    pub(crate) fn needs_wakeup(&self) -> bool {
        // The kernel sets the flag and then looks once more for work; we publish and then look at the flag.
        // One of the two sees the other only if the store is not overtaken by the load.
        fence(Ordering::SeqCst);
        // SAFETY: points into the mapping that the ring keeps.
        let flags = unsafe { &*self.ring.flags }.load(Ordering::Relaxed);
        flags & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// The side that reads slots.
pub(crate) struct Consumer<T> {
    ring: Ring<T>,
    /// Next slot to read; ahead of the shared count until [`Consumer::release`].
    next: u32,
    /// The producer's count when last looked at.
    seen: u32,
    /// That count was one that cannot be.
    pub(crate) broken: bool,
}

impl<T: Copy> Consumer<T> {
    /// Our side of a ring that the kernel fills.
    pub(crate) fn map(socket: RawFd, page_offset: i64, layout: Layout, size: u32) -> io::Result<Consumer<T>> {
        let shared = map(socket, page_offset, layout.slots + size as usize * size_of::<T>())?;
        Ok(Consumer::new(Ring::new(shared, layout, size)))
    }

    fn new(ring: Ring<T>) -> Consumer<T> {
        let (next, seen) = (ring.consumer().load(Ordering::Relaxed), ring.producer().load(Ordering::Acquire));
        Consumer { ring, next, seen, broken: false }
    }

    /// Slots that can be read. Looks at the other side only if there are fewer than `wanted` for sure.
    pub(crate) fn available(&mut self, wanted: u32) -> u32 {
        if self.seen.wrapping_sub(self.next) < wanted {
            let seen = self.ring.producer().load(Ordering::Acquire);
            if seen.wrapping_sub(self.next) > self.ring.size {
                (self.broken, self.seen) = (true, self.next);
            } else if !self.broken {
                self.seen = seen;
            }
        }
        self.seen.wrapping_sub(self.next)
    }

    /// The slot `ahead` of the next one. The caller has seen that it is filled.
    pub(crate) fn peek(&self, ahead: u32) -> T {
        debug_assert!(ahead < self.seen.wrapping_sub(self.next));
        // SAFETY: the slot lies in the mapping; the other side filled it before its count said so and leaves
        // it alone until it is released. (If it does not, we read other plain numbers: the types allow all.)
        unsafe { self.ring.slot(self.next.wrapping_add(ahead)).read_volatile() }
    }

    /// The next `count` slots were read; [`Consumer::release`] gives them back.
    pub(crate) fn advance(&mut self, count: u32) {
        debug_assert!(count <= self.seen.wrapping_sub(self.next));
        self.next = self.next.wrapping_add(count);
    }

    /// Gives the other side every slot that was read.
    pub(crate) fn release(&mut self) {
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}

/// Both ends of a ring without a kernel, for models: counts start at `count`.
pub(crate) fn detached<T: Copy>(size: u32, count: u32) -> (Producer<T>, Consumer<T>) {
    const LAYOUT: Layout = Layout { producer: 0, consumer: 64, flags: 128, slots: 192 };
    let len = LAYOUT.slots + size as usize * size_of::<T>();
    let shared = Arc::new(Mapping::anonymous(len, Pages::Normal).expect("memory"));
    let ring = || Ring::new(shared.clone(), LAYOUT, size);
    ring().producer().store(count, Ordering::Relaxed);
    ring().consumer().store(count, Ordering::Relaxed);
    (Producer::new(ring()), Consumer::new(ring()))
}

#[cfg(test)]
mod tests;
