//! Isolation of the stack: its descriptors are hidden from the program and lie where a program does not look
//! for numbers, and its threads take no signals.

use crate::calls::{Destructor, Start};
use crate::inside::{is_apart, is_inside, stay_apart, stay_inside};
use crate::{limit, real, table};
pub(crate) use capi::host::undisturbed;
use libc::{c_char, c_int, c_uint, c_void, pthread_attr_t, pthread_t};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::{Arc, Barrier};

/// How many of the highest numbers are the stack's, at least; of few numbers, half.
const HIGH: c_int = 256;

/// A descriptor of the stack's own moves to a high number and is hidden. A failure stays one, and so does what a thread
/// opens in a table of its own.
pub(crate) fn hidden(fd: c_int) -> c_int {
    if fd < 0 || is_apart() {
        return fd;
    }
    // SAFETY: numbers alone.
    let high = unsafe {
        let end = limit::soft().min(table::NUMBERS as u64) as c_int;
        let flags = real::fcntl(fd, libc::F_GETFD, 0);
        let command = if flags & libc::FD_CLOEXEC != 0 { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
        real::fcntl(fd, command, (end - HIGH).max(end / 2).into())
    };
    let kept = if high >= 0 {
        // SAFETY: no other thread uses it.
        unsafe { real::close(fd) };
        high
    } else {
        fd
    };
    table::hide(kept);
    kept
}

fn hidden_if_inside(open: impl Fn() -> c_int) -> c_int {
    if is_inside() { hidden(limit::own(open)) } else { open() }
}

pub(crate) unsafe fn eventfd(value: c_uint, flags: c_int) -> c_int {
    // SAFETY: numbers alone.
    hidden_if_inside(|| unsafe { real::eventfd(value, flags) })
}

/// # Safety
/// C's contract of open(2).
pub(crate) unsafe fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the caller's arguments.
    hidden_if_inside(|| unsafe { real::open64(path, flags, mode) })
}

/// Sets of capabilities, as capset(2) has them: of each half the effective, permitted and inheritable ones.
pub(crate) type Sets = [[u32; 3]; 2];

/// A thread of the stack's.
struct Ours {
    start: Start,
    arg: *mut c_void,
    sets: Option<Sets>,
    /// Its creator and the thread meet here when the thread has its sets.
    has_sets: Arc<Barrier>,
    /// It shares the descriptors of a thread that has its own.
    apart: bool,
}

thread_local! {
    /// Capabilities of the threads that this one makes for the stack, if not its own.
    static SETS: Cell<Option<Sets>> = const { Cell::new(None) };
}

/// From now on the threads that the calling one makes for the stack, and those that they make, begin with these sets.
pub(crate) fn make_threads_with(sets: Sets) {
    SETS.set(Some(sets));
}

thread_local! {
    /// Destructors that run at the end of this thread, which is the stack's; NULL in a thread of the program.
    static AT_EXIT: Cell<*mut Vec<(Destructor, *mut c_void)>> = const { Cell::new(null_mut()) };
}

/// Notes a destructor. The C library notes it on its heap, where a thread that has allocated nothing before gets 64 MiB
/// of addresses for that (see [`heap`](crate::heap)).
///
/// # Safety
/// The contract of the C library's function.
pub(crate) unsafe fn at_exit(destructor: Destructor, object: *mut c_void, library: *mut c_void) -> c_int {
    // SAFETY: NULL, or the vector of this thread's `begin`, which no reference outlives a call to.
    match unsafe { AT_EXIT.get().as_mut() } {
        Some(ours) => ours.push((destructor, object)),
        // SAFETY: the caller's arguments.
        None => return unsafe { real::__cxa_thread_atexit_impl(destructor, object, library) },
    }
    0
}

/// Runs a thread of the stack's, and its destructors, the last one first.
fn run(start: Start, arg: *mut c_void) -> *mut c_void {
    let mut destructors = Vec::new();
    let all = &raw mut destructors;
    AT_EXIT.set(all);
    let result = start(arg);
    // SAFETY: the vector above. A destructor may note another one.
    while let Some((destructor, object)) = unsafe { (*all).pop() } {
        // SAFETY: as the thread has noted it.
        unsafe { destructor(object) };
    }
    AT_EXIT.set(null_mut());
    result
}

extern "C" fn begin(ours: *mut c_void) -> *mut c_void {
    // SAFETY: what `pthread_create` below has made, once.
    let Ours { start, arg, sets, has_sets, apart } = *unsafe { Box::from_raw(ours.cast::<Ours>()) };
    stay_inside();
    if apart {
        stay_apart();
    }
    if let Some(sets) = sets {
        make_threads_with(sets);
        // Where the kernel refuses this, it refuses the program's own call alike, and all threads keep what they have:
        // the C library ends a process whose threads differ in whether they may call setgroups or setuid.
        let _ = sock::set_capabilities(sets);
        has_sets.wait();
    }
    drop(has_sets);
    run(start, arg)
}

pub(crate) unsafe fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    arg: *mut c_void,
) -> c_int {
    if !is_inside() {
        // SAFETY: the caller's arguments.
        return unsafe { real::pthread_create(thread, attributes, start, arg) };
    }
    let (sets, has_sets) = (SETS.get(), Arc::new(Barrier::new(2)));
    let ours = Ours { start, arg, sets, has_sets: Arc::clone(&has_sets), apart: is_apart() };
    let ours = Box::into_raw(Box::new(ours)).cast::<c_void>();
    // SAFETY: the caller's arguments, and what `begin` takes.
    let failed = undisturbed(|| unsafe { real::pthread_create(thread, attributes, begin, ours) });
    if failed != 0 {
        // SAFETY: no thread has taken it.
        drop(unsafe { Box::from_raw(ours.cast::<Ours>()) });
    } else if sets.is_some() {
        // The program's next call may be one that all threads make: the C library ends a process whose threads differ.
        has_sets.wait();
    }
    failed
}
