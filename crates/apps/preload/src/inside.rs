//! Threads inside our own stack are told apart from those in the program. What the stack opens is hidden from the
//! program, and handlers of signals do not run while a thread is inside; what came late runs when it leaves.

use libc::{c_int, sigset_t};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence};

thread_local! {
    /// How deep this thread is inside our own stack.
    static INSIDE: Cell<u32> = const { Cell::new(0) };
    /// Signals that came while the thread was inside, and that it blocks for that reason, as a set of the kernel's.
    static LATE: AtomicU64 = const { AtomicU64::new(0) };
}

/// Is it our own stack that calls?
pub(crate) fn is_inside() -> bool {
    INSIDE.get() > 0
}

/// Runs what is ours: descriptors that it opens are hidden from the program.
pub(crate) fn inside<R>(call: impl FnOnce() -> R) -> R {
    struct Out;
    impl Drop for Out {
        fn drop(&mut self) {
            INSIDE.set(INSIDE.get() - 1);
            if INSIDE.get() == 0 {
                deliver();
            }
        }
    }
    if INSIDE.get() == 0 && is_unnoticed() {
        notice();
    }
    INSIDE.set(INSIDE.get() + 1);
    let _out = Out;
    call()
}

/// Runs what may run the program's own code on this thread, its signals' handlers.
pub(crate) fn outside<R>(call: impl FnOnce() -> R) -> R {
    struct In(u32);
    impl Drop for In {
        fn drop(&mut self) {
            INSIDE.set(self.0);
        }
    }
    let _in = In(INSIDE.replace(0));
    deliver();
    call()
}

/// Added to how deep a thread is inside that has descriptors of its own.
const APART: u32 = 1 << 31;

/// Does the calling thread have descriptors of its own? Their numbers mean nothing to the table.
pub(crate) fn is_apart() -> bool {
    INSIDE.get() >= APART
}

/// The calling thread has descriptors of its own from now on.
pub(crate) fn stay_apart() {
    INSIDE.set(INSIDE.get() | APART);
}

/// The calling thread is ours for good.
pub(crate) fn stay_inside() {
    INSIDE.set(INSIDE.get() + 1);
}

// --- signals --------------------------------------------------------------------------------------------------------

pub(crate) fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// The signal waits, blocked, for the thread to leave.
pub(crate) fn comes_late(signal: c_int) {
    LATE.with(|late| late.fetch_or(bit(signal), Ordering::Relaxed));
}

/// Signals that wait for the thread to leave, as a set of the kernel's.
pub(crate) fn late() -> u64 {
    LATE.with(|late| late.load(Ordering::Relaxed))
}

/// The thread is not inside any more: the handlers of what came meanwhile run.
#[inline]
fn deliver() {
    // A signal either finds the thread outside, or is found here.
    compiler_fence(Ordering::SeqCst);
    if late() != 0 {
        deliver_late();
    }
}

#[cold]
fn deliver_late() {
    change(libc::SIG_UNBLOCK, LATE.with(|late| late.swap(0, Ordering::Relaxed)));
}

/// Blocks or unblocks signals for this thread.
pub(crate) fn change(how: c_int, signals: u64) {
    let mut set = MaybeUninit::<sigset_t>::uninit();
    // SAFETY: the set is emptied before it is used.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in (1..=u64::BITS as c_int).filter(|signal| signals & bit(*signal) != 0) {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(how, set.as_ptr(), null_mut());
    }
}

// --- children -------------------------------------------------------------------------------------------------------

/// Not zero in a process that knows itself; the kernel wipes it in children. NULL before [`know_process`].
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());

/// Runs in a child of which nothing was told.
static ON_CHILD: OnceLock<fn()> = OnceLock::new();

/// From now on the outermost frame of a call notices that the process is a child, and runs `on_child` there.
pub(crate) fn know_process(on_child: fn()) {
    const LEN: usize = 4096;
    let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    ON_CHILD.get_or_init(|| on_child);
    // SAFETY: a new mapping, which stays.
    unsafe {
        let page = libc::mmap(null_mut(), LEN, rights, kind, -1, 0);
        if page == libc::MAP_FAILED || libc::madvise(page, LEN, libc::MADV_WIPEONFORK) != 0 {
            return;
        }
        let mark = page.cast::<AtomicU32>();
        (*mark).store(1, Ordering::Relaxed);
        MARK.store(mark, Ordering::Release);
    }
}

#[inline(always)]
fn mark() -> Option<&'static AtomicU32> {
    // SAFETY: NULL, or a page that stays mapped.
    unsafe { MARK.load(Ordering::Acquire).as_ref() }
}

/// Are children of this process noticed?
pub(crate) fn notices_children() -> bool {
    mark().is_some()
}

/// Returns true if this process is a child that has not been noticed yet.
#[inline(always)]
fn is_unnoticed() -> bool {
    mark().is_some_and(|mark| mark.load(Ordering::Relaxed) == 0)
}

/// The process is noticed as a child; returns true if it was already, or was never one.
pub(crate) fn was_noticed() -> bool {
    mark().is_some_and(|mark| mark.swap(1, Ordering::Relaxed) != 0)
}

#[cold]
fn notice() {
    if let Some(on_child) = ON_CHILD.get() {
        on_child();
    }
}
