//! The C library's streams (`FILE`) over a connection. It reads and writes descriptors without coming here, so such a
//! stream is one of those whose functions a program gives itself.

use crate::boundary::{self, Outcome, answered};
use crate::data;
use crate::description::Kind;
use crate::table::Held;
use crate::{hooks, real};
use libc::{FILE, c_char, c_int, c_void, off64_t, size_t, ssize_t};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `cookie_io_functions_t` of stdio.h.
#[repr(C)]
struct Functions {
    read: extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int,
    close: extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
    fn vasprintf(text: *mut *mut c_char, format: *const c_char, list: *mut c_void) -> c_int;
}

/// Streams over connections: where each lies, and the number that it has. The C library knows none of them.
static STREAMS: Mutex<Vec<(usize, Box<c_int>)>> = Mutex::new(Vec::new());

fn all_streams() -> MutexGuard<'static, Vec<(usize, Box<c_int>)>> {
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the descriptor to which the functions' cookie points.
fn descriptor(cookie: *mut c_void) -> c_int {
    // SAFETY: a box that lives in the list until the stream is closed.
    unsafe { cookie.cast::<c_int>().read() }
}

extern "C" fn read(cookie: *mut c_void, to: *mut c_char, len: size_t) -> ssize_t {
    // SAFETY: the C library's buffer.
    unsafe { hooks::read(descriptor(cookie), to.cast::<c_void>(), len) }
}

/// It may not give -1: 0 is what failed.
extern "C" fn write(cookie: *mut c_void, from: *const c_char, len: size_t) -> ssize_t {
    // SAFETY: the C library's buffer.
    unsafe { hooks::write(descriptor(cookie), from.cast::<c_void>(), len) }.max(0)
}

extern "C" fn seek(_: *mut c_void, _: *mut off64_t, _: c_int) -> c_int {
    boundary::set_errno(libc::ESPIPE);
    -1
}

extern "C" fn close(cookie: *mut c_void) -> c_int {
    let fd = descriptor(cookie);
    all_streams().retain(|(_, number)| !std::ptr::eq(&raw const **number, cookie.cast::<c_int>()));
    // SAFETY: a number.
    unsafe { hooks::close(fd) }
}

pub(crate) unsafe fn fdopen(held: &Held, fd: c_int, mode: *const c_char) -> Outcome<*mut FILE> {
    if !matches!(held.kind(), Kind::Stream | Kind::Relayed) {
        // SAFETY: the caller's arguments.
        return answered(unsafe { real::fdopen(fd, mode) });
    }
    let functions = Functions { read, write, seek, close };
    let mut number = Box::new(fd);
    let cookie = (&raw mut *number).cast::<c_void>();
    // SAFETY: the caller's mode, functions that live as long as the program, and a number that the list keeps.
    let stream = unsafe { fopencookie(cookie, mode, functions) };
    if !stream.is_null() {
        all_streams().push((stream.addr(), number));
    }
    answered(stream)
}

/// The number of a stream of ours, where the C library knew none.
fn known(stream: *mut FILE, answer: c_int) -> c_int {
    if answer >= 0 {
        return answer;
    }
    all_streams().iter().find(|(at, _)| *at == stream.addr()).map_or(answer, |(_, number)| **number)
}

pub(crate) unsafe fn fileno(stream: *mut FILE) -> c_int {
    // SAFETY: the caller's stream.
    known(stream, unsafe { real::fileno(stream) })
}

pub(crate) unsafe fn fileno_unlocked(stream: *mut FILE) -> c_int {
    // SAFETY: the caller's stream.
    known(stream, unsafe { real::fileno_unlocked(stream) })
}

pub(crate) unsafe fn vdprintf(
    held: &Held,
    fd: c_int,
    format: *const c_char,
    list: *mut c_void,
) -> Outcome<c_int> {
    if held.kind() != Kind::Stream {
        // SAFETY: the caller's arguments.
        return answered(unsafe { real::vdprintf(fd, format, list) });
    }
    let mut text = std::ptr::null_mut();
    // SAFETY: the caller's arguments; it puts a text there, or fails.
    let len = unsafe { vasprintf(&raw mut text, format, list) };
    let mut sent = 0;
    while sent < len {
        // SAFETY: so much of the text is left.
        match unsafe { data::write(held, fd, text.add(sent as usize).cast(), (len - sent) as size_t)? } {
            done if done > 0 => sent += done as c_int,
            _ => break,
        }
    }
    if len >= 0 {
        let errno = boundary::errno();
        // SAFETY: what vasprintf gave.
        unsafe { libc::free(text.cast()) };
        boundary::set_errno(errno);
    }
    answered(if sent == len { len } else { -1 })
}

/// # Safety
/// C's contract of vdprintf(3).
pub(crate) unsafe fn vdprintf_chk(
    held: &Held,
    fd: c_int,
    flag: c_int,
    format: *const c_char,
    list: *mut c_void,
) -> Outcome<c_int> {
    if held.kind() != Kind::Stream {
        // SAFETY: the caller's arguments.
        return answered(unsafe { real::__vdprintf_chk(fd, flag, format, list) });
    }
    // SAFETY: the caller's arguments. What is checked besides is `%n`, which writes nowhere near a descriptor.
    unsafe { vdprintf(held, fd, format, list) }
}
