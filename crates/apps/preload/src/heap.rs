//! The heap of this library. The C library's heap gives each thread that allocates 64 MiB of addresses, an arena: the
//! stack's threads would take those from a program that limits its address space. And a handler of a signal that has
//! interrupted the program's malloc may use a connection. So blocks come from dlmalloc, on memory that the kernel maps.

use dlmalloc::Dlmalloc;
use libc::{PTHREAD_MUTEX_INITIALIZER, pthread_mutex_t};
use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, UnsafeCell};

/// The allocator of this library's code. The C library's mutex neither allocates nor sets `errno`.
struct Heap {
    lock: UnsafeCell<pthread_mutex_t>,
    blocks: UnsafeCell<Dlmalloc>,
}

// SAFETY: the blocks are used by the thread that has the lock.
unsafe impl Sync for Heap {}

#[global_allocator]
static HEAP: Heap =
    Heap { lock: UnsafeCell::new(PTHREAD_MUTEX_INITIALIZER), blocks: UnsafeCell::new(Dlmalloc::new()) };

thread_local! {
    /// This thread has the lock for as long as it forks.
    static FORKS: Cell<bool> = const { Cell::new(false) };
}

impl Heap {
    fn try_lock(&self) -> bool {
        // SAFETY: a mutex of this library's.
        unsafe { libc::pthread_mutex_trylock(self.lock.get()) == 0 }
    }

    fn unlock(&self) {
        // SAFETY: this thread has the lock.
        unsafe { libc::pthread_mutex_unlock(self.lock.get()) };
    }

    /// Runs `call` with the lock. It neither panics nor allocates.
    #[inline]
    fn with<R>(&self, call: impl FnOnce(&mut Dlmalloc) -> R) -> R {
        let has = FORKS.get();
        if !has {
            // SAFETY: a mutex of this library's.
            unsafe { libc::pthread_mutex_lock(self.lock.get()) };
        }
        // SAFETY: this thread has the lock.
        let done = call(unsafe { &mut *self.blocks.get() });
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
    // SAFETY: no other thread is there that could have the lock or wait for it.
    unsafe { HEAP.lock.get().write(PTHREAD_MUTEX_INITIALIZER) };
}

/// From now on forks are noticed.
pub(crate) fn watch() {
    // SAFETY: functions that may run where a fork is.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(forked)) };
}

// SAFETY: dlmalloc's blocks have the layout's size and alignment, and are used by one call at a time.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout.
        self.with(|blocks| unsafe { blocks.malloc(layout.size(), layout.align()) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout.
        self.with(|blocks| unsafe { blocks.calloc(layout.size(), layout.align()) })
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's block, of this layout.
        self.with(|blocks| unsafe { blocks.free(block, layout.size(), layout.align()) });
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's block, of this layout.
        self.with(|blocks| unsafe { blocks.realloc(block, layout.size(), layout.align(), size) })
    }
}

#[cfg(test)]
mod tests;
