//! The heap of this library. The C library's heap gives each thread that allocates 64 MiB of addresses, an arena: the
//! stack's threads would take those from a program that limits its address space. And a handler of a signal that has
//! interrupted the program's malloc may use a connection.
//!
//! Blocks have the sizes of classes, four to a doubling. A class that has no free block takes a run of them from the
//! current chunk, which the kernel maps; a block that is freed is its class's for good. Larger ones are mappings of
//! their own.

use libc::{c_int, c_long};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, UnsafeCell};
use std::ptr::{copy_nonoverlapping, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

const PAGE: usize = 4096;
/// Bytes that the kernel is asked for at a time.
const CHUNK: usize = 1 << 20;
/// Bytes of a run of small blocks. It begins at a page, so blocks of a power of two are aligned to their size.
const RUN: usize = 16 << 10;
/// Largest block of a class.
const BLOCK_MAX: usize = 128 << 10;
/// Alignment of every block.
const ALIGN: usize = 16;
const CLASSES: usize = class(BLOCK_MAX).0 + 1;

const _: () = assert!(RUN.is_multiple_of(PAGE) && CHUNK >= 2 * BLOCK_MAX && BLOCK_MAX.is_power_of_two());

/// Returns the class of blocks of at least `size` bytes, and their size.
const fn class(size: usize) -> (usize, usize) {
    if size <= 4 * ALIGN {
        let number = size.saturating_sub(1) / ALIGN;
        return (number, (number + 1) * ALIGN);
    }
    let doubling = (size - 1).ilog2() as usize;
    let quarter = (size - 1) >> (doubling - 2);
    (4 * (doubling - 5) + quarter - 4, (quarter + 1) << (doubling - 2))
}

/// Origin of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// A class, and the size of its blocks.
    Class(usize, usize),
    /// A mapping of so many bytes.
    Mapping(usize),
    /// The C library: no block is aligned to more than a page.
    C,
}

impl Origin {
    fn of(layout: Layout) -> Origin {
        let size = if layout.align() <= ALIGN {
            layout.size()
        } else {
            layout.size().max(layout.align()).next_power_of_two()
        };
        match size {
            _ if layout.align() > PAGE => Origin::C,
            0..=BLOCK_MAX => {
                let (class, size) = class(size);
                Origin::Class(class, size)
            }
            _ => Origin::Mapping(layout.size().next_multiple_of(PAGE)),
        }
    }
}

/// A free block.
struct Free {
    next: *mut Free,
}

/// Blocks of a class that no call has taken yet, one after the other, and those that are free again.
#[derive(Clone, Copy)]
struct Class {
    free: *mut Free,
    next: *mut u8,
    left: usize,
}

struct State {
    classes: [Class; CLASSES],
    /// The rest of the chunk.
    next: *mut u8,
    left: usize,
}

impl State {
    /// Takes a block; NULL if there is no memory.
    fn take(&mut self, class: usize, size: usize) -> *mut u8 {
        let of = &mut self.classes[class];
        if !of.free.is_null() {
            let block = of.free;
            // SAFETY: a free block holds the next one.
            of.free = unsafe { (*block).next };
            return block.cast();
        }
        if of.left < size {
            let len = if size <= RUN / 4 { RUN } else { size.next_multiple_of(PAGE) };
            if self.left < len {
                let chunk = map(CHUNK);
                if chunk.is_null() {
                    return chunk;
                }
                (self.next, self.left) = (chunk, CHUNK);
            }
            (of.next, of.left) = (self.next, len);
            // SAFETY: inside the chunk.
            self.next = unsafe { self.next.add(len) };
            self.left -= len;
        }
        let block = of.next;
        // SAFETY: inside the run.
        of.next = unsafe { block.add(size) };
        of.left -= size;
        block
    }

    /// # Safety
    /// A block of this class that is not used any more.
    unsafe fn give_back(&mut self, class: usize, block: *mut u8) {
        let (of, block) = (&mut self.classes[class], block.cast::<Free>());
        // SAFETY: a block has room for it, and its alignment.
        unsafe { (*block).next = of.free };
        of.free = block;
    }
}

/// Maps zeroed memory; NULL if there is none.
fn map(len: usize) -> *mut u8 {
    let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice.
    let mapped = unsafe { libc::mmap(null_mut(), len, rights, kind, -1, 0) };
    if mapped == libc::MAP_FAILED { null_mut() } else { mapped.cast() }
}

/// The heap's state, and its lock.
struct Locked {
    /// 0: free; 1: held; 2: held, and a thread may sleep for it.
    lock: AtomicU32,
    state: UnsafeCell<State>,
}

// SAFETY: the state is used by the thread that has the lock.
unsafe impl Sync for Locked {}

static HEAP: Locked = {
    const NONE: Class = Class { free: null_mut(), next: null_mut(), left: 0 };
    let state = State { classes: [NONE; CLASSES], next: null_mut(), left: 0 };
    Locked { lock: AtomicU32::new(0), state: UnsafeCell::new(state) }
};

thread_local! {
    /// This thread has the lock for as long as it forks.
    static FORKS: Cell<bool> = const { Cell::new(false) };
}

impl Locked {
    fn try_lock(&self) -> bool {
        self.lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// futex(2). `errno` stays as it is.
    #[cold]
    fn futex(&self, operation: c_int, value: u32) {
        // SAFETY: the word lives for ever, and errno is the calling thread's.
        unsafe {
            let before = *libc::__errno_location();
            let (word, operation) = (self.lock.as_ptr(), operation | libc::FUTEX_PRIVATE_FLAG);
            libc::syscall(libc::SYS_futex, word, operation, c_long::from(value), 0, 0, 0);
            *libc::__errno_location() = before;
        }
    }

    #[cold]
    fn wait(&self) {
        while self.lock.swap(2, Ordering::Acquire) != 0 {
            self.futex(libc::FUTEX_WAIT, 2);
        }
    }

    fn unlock(&self) {
        if self.lock.swap(0, Ordering::Release) == 2 {
            self.futex(libc::FUTEX_WAKE, 1);
        }
    }

    /// Runs `call` with the lock. It neither panics nor allocates.
    #[inline]
    fn with<R>(&self, call: impl FnOnce(&mut State) -> R) -> R {
        let has = FORKS.get();
        if !has && !self.try_lock() {
            self.wait();
        }
        // SAFETY: this thread has the lock.
        let done = call(unsafe { &mut *self.state.get() });
        if !has {
            self.unlock();
        }
        done
    }
}

/// Number of attempts to get the lock for a fork: a handler of a signal may have interrupted the thread that has it.
const ATTEMPTS: u32 = 1_000;

/// This thread is about to fork: no other one has the lock meanwhile, because it would have it in the child for ever.
pub(crate) extern "C" fn before_fork() {
    let has = (0..ATTEMPTS).any(|_| {
        let has = HEAP.try_lock();
        if !has {
            std::thread::yield_now();
        }
        has
    });
    FORKS.set(has);
}

/// The child is made.
pub(crate) extern "C" fn after_fork() {
    if FORKS.replace(false) {
        HEAP.unlock();
    }
}

/// This process is a child with one thread.
pub(crate) extern "C" fn forked() {
    FORKS.set(false);
    HEAP.lock.store(0, Ordering::Release);
}

/// From now on forks are noticed.
pub(crate) fn watch() {
    // SAFETY: functions that may run where a fork is.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(forked)) };
}

/// The allocator of this library's code.
struct Heap;

#[global_allocator]
static ALLOCATOR: Heap = Heap;

// SAFETY: a block is free memory of the layout's size and alignment, and its origin follows from the layout.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match Origin::of(layout) {
            Origin::Class(class, size) => HEAP.with(|state| state.take(class, size)),
            Origin::Mapping(len) => map(len),
            // SAFETY: the caller's layout.
            Origin::C => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout.
        let block = unsafe { self.alloc(layout) };
        if !block.is_null() && !matches!(Origin::of(layout), Origin::Mapping(_)) {
            // SAFETY: a block of this size.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match Origin::of(layout) {
            // SAFETY: the caller's block, of this layout.
            Origin::Class(class, _) => HEAP.with(|state| unsafe { state.give_back(class, block) }),
            // SAFETY: as above.
            Origin::Mapping(len) => _ = unsafe { libc::munmap(block.cast(), len) },
            // SAFETY: as above.
            Origin::C => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's size is valid with this alignment.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (Origin::of(layout), Origin::of(new)) {
            (before, after) if before == after && before != Origin::C => block,
            (Origin::Mapping(before), Origin::Mapping(after)) => {
                // SAFETY: a mapping of this length.
                let moved = unsafe { libc::mremap(block.cast(), before, after, libc::MREMAP_MAYMOVE) };
                if moved == libc::MAP_FAILED { null_mut() } else { moved.cast() }
            }
            // SAFETY: the caller's block; the new one is another.
            _ => unsafe {
                let to = self.alloc(new);
                if !to.is_null() {
                    copy_nonoverlapping(block, to, layout.size().min(size));
                    self.dealloc(block, layout);
                }
                to
            },
        }
    }
}

#[cfg(test)]
mod tests;
