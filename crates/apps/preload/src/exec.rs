//! Other programs in this process, and its end.

use crate::boundary::{inside, say};
use crate::hooks::real;
use crate::{end, relay, stack};
use libc::{c_char, c_int};
use sock::program::{self, Program};
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;

/// Strings, a NULL at the end.
pub(crate) type List = *const *const c_char;

/// What has to be done before another program runs.
///
/// # Safety
/// `name` is NULL or a string.
unsafe fn prepare(name: *const c_char) {
    if name.is_null() || stack::settings().is_none() {
        return;
    }
    // SAFETY: a string.
    let name = unsafe { CStr::from_ptr(name) };
    inside(|| {
        relay::settle_for_exec();
        let Some(why) =
            program::find(OsStr::from_bytes(name.to_bytes())).and_then(|path| Program::of(&path).complaint())
        else {
            return;
        };
        say(&format!("{} {why}: it runs on the kernel", name.to_string_lossy()));
    });
}

/// # Safety
/// C's contract of execve(2).
pub(crate) unsafe fn execve(path: *const c_char, arguments: List, environment: List) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        prepare(path);
        real::execve(path, arguments, environment)
    }
}

/// # Safety
/// C's contract of execv(3).
pub(crate) unsafe fn execv(path: *const c_char, arguments: List) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        prepare(path);
        real::execv(path, arguments)
    }
}

/// # Safety
/// C's contract of execvp(3).
pub(crate) unsafe fn execvp(file: *const c_char, arguments: List) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        prepare(file);
        real::execvp(file, arguments)
    }
}

/// # Safety
/// C's contract of execvpe(3).
pub(crate) unsafe fn execvpe(file: *const c_char, arguments: List, environment: List) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        prepare(file);
        real::execvpe(file, arguments, environment)
    }
}

/// What was written is sent before the process ends.
pub(crate) fn drain() {
    inside(end::drain);
}
