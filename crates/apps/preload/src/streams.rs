//! The C library's streams (`FILE`) over a connection. It reads and writes descriptors without coming here, so such a
//! stream is one of those whose functions a program gives itself.

use crate::boundary::Outcome;
use crate::description::Kind;
use crate::hooks::{self, answered, real};
use crate::table::Held;
use libc::{FILE, c_char, c_int, c_void, off64_t, size_t, ssize_t};

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
}

/// The descriptor is all that the functions need to know.
fn descriptor(cookie: *mut c_void) -> c_int {
    cookie.addr() as c_int
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
    crate::boundary::set_errno(libc::ESPIPE);
    -1
}

extern "C" fn close(cookie: *mut c_void) -> c_int {
    // SAFETY: a number.
    unsafe { hooks::close(descriptor(cookie)) }
}

/// # Safety
/// C's contract of fdopen(3).
pub(crate) unsafe fn fdopen(held: &Held, fd: c_int, mode: *const c_char) -> Outcome<*mut FILE> {
    if !matches!(held.kind(), Kind::Stream | Kind::Relayed) {
        // SAFETY: the caller's arguments.
        return answered(unsafe { real::fdopen(fd, mode) });
    }
    let functions = Functions { read, write, seek, close };
    // SAFETY: the caller's mode, and functions that live as long as the program.
    answered(unsafe { fopencookie(std::ptr::without_provenance_mut(fd as usize), mode, functions) })
}
