//! Other programs in this process, and its end.

use crate::boundary::{inside, say};
use crate::hooks::real;
use crate::{end, relay, stack};
use capi::memory::is_nowhere;
use libc::{c_char, c_int};
use sock::program::{self, Program};
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;

/// Strings, a NULL at the end.
pub(crate) type List = *const *const c_char;

/// What has to be done before another program runs.
///
/// # Safety
/// `name` is NULL or a string.
pub(crate) unsafe fn prepare(name: *const c_char) {
    if is_nowhere(name) || stack::settings().is_none() {
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

/// An environment for another program: the one that it is given, and what the launch has said where that is silent.
pub(crate) struct Environment {
    given: List,
    more: Option<Vec<*const c_char>>,
}

impl Environment {
    /// # Safety
    /// NULL, or strings that outlive this with a NULL at the end.
    pub(crate) unsafe fn of(given: List) -> Environment {
        let mut all = Vec::new();
        // SAFETY: as the caller vouches.
        unsafe {
            let mut at = given;
            while !is_nowhere(at) && !(*at).is_null() {
                all.push(*at);
                at = at.add(1);
            }
        }
        let has = |name: &[u8]| {
            let somewhere = all.iter().filter(|entry| !is_nowhere(**entry));
            // SAFETY: strings.
            somewhere
                .map(|entry| unsafe { CStr::from_ptr(*entry) })
                .any(|entry| entry.to_bytes().starts_with(name))
        };
        let missing: Vec<_> = stack::launch()
            .iter()
            .filter(|said| {
                let name = said.to_bytes().split_inclusive(|octet| *octet == b'=').next();
                !name.is_some_and(has)
            })
            .map(|said| said.as_ptr())
            .collect();
        // Where that leads nowhere the kernel says so.
        if missing.is_empty() || !given.is_null() && is_nowhere(given) {
            return Environment { given, more: None };
        }
        all.extend(missing);
        all.push(std::ptr::null());
        Environment { given, more: Some(all) }
    }

    pub(crate) fn list(&self) -> List {
        self.more.as_ref().map_or(self.given, |more| more.as_ptr())
    }
}

unsafe extern "C" {
    static environ: List;
}

/// # Safety
/// C's contract of execve(2).
pub(crate) unsafe fn execve(path: *const c_char, arguments: List, environment: List) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        prepare(path);
        real::execve(path, arguments, Environment::of(environment).list())
    }
}

/// # Safety
/// C's contract of execv(3).
pub(crate) unsafe fn execv(path: *const c_char, arguments: List) -> c_int {
    // SAFETY: the caller's arguments, and the C library's variable.
    unsafe {
        prepare(path);
        let environment = Environment::of(environ);
        match environment.more {
            None => real::execv(path, arguments),
            Some(_) => real::execve(path, arguments, environment.list()),
        }
    }
}

/// # Safety
/// C's contract of execvp(3).
pub(crate) unsafe fn execvp(file: *const c_char, arguments: List) -> c_int {
    // SAFETY: the caller's arguments, and the C library's variable.
    unsafe {
        prepare(file);
        let environment = Environment::of(environ);
        match environment.more {
            None => real::execvp(file, arguments),
            Some(_) => real::execvpe(file, arguments, environment.list()),
        }
    }
}

/// # Safety
/// C's contract of execvpe(3).
pub(crate) unsafe fn execvpe(file: *const c_char, arguments: List, environment: List) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        prepare(file);
        real::execvpe(file, arguments, Environment::of(environment).list())
    }
}

/// # Safety
/// C's contract of fexecve(3).
pub(crate) unsafe fn fexecve(fd: c_int, arguments: List, environment: List) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        prepare_file(fd);
        real::fexecve(fd, arguments, Environment::of(environment).list())
    }
}

/// # Safety
/// C's contract of execveat(2).
pub(crate) unsafe fn execveat(
    folder: c_int,
    path: *const c_char,
    arguments: List,
    environment: List,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        let named = if is_nowhere(path) { None } else { Some(CStr::from_ptr(path)) };
        match named.map(CStr::to_bytes) {
            None | Some(b"") => prepare_file(folder),
            Some(name) if folder == libc::AT_FDCWD || name.starts_with(b"/") => prepare(path),
            Some(name) => {
                let name = String::from_utf8_lossy(name);
                prepare_path(&format!("/proc/self/fd/{folder}/{name}"));
            }
        }
        real::execveat(folder, path, arguments, Environment::of(environment).list(), flags)
    }
}

/// As [`prepare`], of a file that is open.
fn prepare_file(fd: c_int) {
    prepare_path(&format!("/proc/self/fd/{fd}"));
}

fn prepare_path(path: &str) {
    // Without a NUL in it there is no error.
    if let Ok(path) = CString::new(path) {
        // SAFETY: a string.
        unsafe { prepare(path.as_ptr()) };
    }
}

/// What was written is sent before the process ends.
pub(crate) fn drain() {
    inside(end::drain);
}
