//! Other programs in this process, and its end.

use crate::boundary::{inside, say, set_errno};
use crate::calls::List;
use crate::real;
use crate::{end, heritage, relay, report, stack};
use capi::memory::is_nowhere;
use libc::{c_char, c_int};
use sock::program::{self, Program};
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;

/// Prepares the run of another program; returns false if it must not run, because it would be on the kernel.
///
/// # Safety
/// `name` is NULL or a string.
pub(crate) unsafe fn prepare(name: *const c_char) -> bool {
    if is_nowhere(name) || stack::settings().is_none() {
        return true;
    }
    // SAFETY: a string.
    let name = unsafe { CStr::from_ptr(name) };
    inside(|| {
        let Some(why) = complaint(name) else {
            relay::settle_for_exec(false);
            return true;
        };
        relay::settle_for_exec(true);
        let name = name.to_string_lossy();
        if report::is_required() {
            say(&format!("{name} {why}, and --require forbids the kernel"));
            return false;
        }
        say(&format!("{name} {why}: it runs on the kernel"));
        report::fell_back(&name, why);
        true
    })
}

/// Returns why a program cannot be launched; `None` if it can.
fn complaint(name: &CStr) -> Option<&'static str> {
    program::find(OsStr::from_bytes(name.to_bytes())).and_then(|path| Program::of(&path).complaint())
}

/// Returns true if the program of this name can be launched.
///
/// # Safety
/// `name` is NULL or a string.
pub(crate) unsafe fn is_launched_file(name: *const c_char) -> bool {
    // SAFETY: a string.
    is_nowhere(name) || inside(|| complaint(unsafe { CStr::from_ptr(name) })).is_none()
}

/// Returns the error of a call that runs no program because it would be on the kernel.
fn forbidden() -> c_int {
    set_errno(libc::EACCES);
    -1
}

/// An environment for another program: the one that it is given, and what the launch has said where that is silent.
pub(crate) struct Environment {
    given: List,
    more: Option<Vec<*const c_char>>,
    /// Entry on this process's sockets to which `more` points.
    _sockets: Option<CString>,
}

impl Environment {
    /// # Safety
    /// NULL, or strings that outlive this with a NULL at the end.
    pub(crate) unsafe fn of(given: List) -> Environment {
        // SAFETY: as the caller vouches.
        if stack::settings().is_some() && !unsafe { is_launched(given) } {
            inside(|| relay::settle_for_exec(true));
        }
        let sockets = if stack::settings().is_some() { heritage::entry(Vec::new()) } else { None };
        // SAFETY: as the caller vouches.
        unsafe { Environment::with(given, sockets) }
    }

    /// Makes the environment, where `sockets` is the entry on the process's sockets.
    ///
    /// # Safety
    /// As [`Environment::of`].
    pub(crate) unsafe fn with(given: List, sockets: Option<CString>) -> Environment {
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
        let mut missing: Vec<_> = stack::launch()
            .iter()
            .filter(|said| {
                let name = said.to_bytes().split_inclusive(|byte| *byte == b'=').next();
                !name.is_some_and(has)
            })
            .map(|said| said.as_ptr())
            .collect();
        missing.extend(sockets.as_ref().map(|entry| entry.as_ptr()));
        // Where that leads nowhere the kernel says so.
        if missing.is_empty() || !given.is_null() && is_nowhere(given) {
            return Environment { given, more: None, _sockets: None };
        }
        all.extend(missing);
        all.push(std::ptr::null());
        Environment { given, more: Some(all), _sockets: sockets }
    }

    pub(crate) fn list(&self) -> List {
        self.more.as_ref().map_or(self.given, |more| more.as_ptr())
    }
}

/// Returns true unless the environment names libraries to be loaded first, and not this one.
///
/// # Safety
/// As [`Environment::of`].
pub(crate) unsafe fn is_launched(given: List) -> bool {
    let mut at = given;
    // SAFETY: as the caller vouches.
    unsafe {
        while !is_nowhere(at) && !(*at).is_null() {
            if !is_nowhere(*at)
                && let Some(named) = CStr::from_ptr(*at).to_bytes().strip_prefix(b"LD_PRELOAD=")
            {
                return named.windows(LIBRARY.len()).any(|part| part == LIBRARY);
            }
            at = at.add(1);
        }
    }
    true
}

/// The file name of this library.
const LIBRARY: &[u8] = b"libmillstream_preload";

unsafe extern "C" {
    static environ: List;
}

pub(crate) unsafe fn execve(path: *const c_char, arguments: List, environment: List) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        if !prepare(path) {
            return forbidden();
        }
        real::execve(path, arguments, Environment::of(environment).list())
    }
}

pub(crate) unsafe fn execv(path: *const c_char, arguments: List) -> c_int {
    // SAFETY: the caller's arguments, and the C library's variable.
    unsafe {
        if !prepare(path) {
            return forbidden();
        }
        let environment = Environment::of(environ);
        match environment.more {
            None => real::execv(path, arguments),
            Some(_) => real::execve(path, arguments, environment.list()),
        }
    }
}

pub(crate) unsafe fn execvp(file: *const c_char, arguments: List) -> c_int {
    // SAFETY: the caller's arguments, and the C library's variable.
    unsafe {
        if !prepare(file) {
            return forbidden();
        }
        let environment = Environment::of(environ);
        match environment.more {
            None => real::execvp(file, arguments),
            Some(_) => real::execvpe(file, arguments, environment.list()),
        }
    }
}

pub(crate) unsafe fn execvpe(file: *const c_char, arguments: List, environment: List) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        if !prepare(file) {
            return forbidden();
        }
        real::execvpe(file, arguments, Environment::of(environment).list())
    }
}

pub(crate) unsafe fn fexecve(fd: c_int, arguments: List, environment: List) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        if !prepare_file(fd) {
            return forbidden();
        }
        real::fexecve(fd, arguments, Environment::of(environment).list())
    }
}

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
        let may = match named.map(CStr::to_bytes) {
            None | Some(b"") => prepare_file(folder),
            Some(name) if folder == libc::AT_FDCWD || name.starts_with(b"/") => prepare(path),
            Some(name) => {
                let name = String::from_utf8_lossy(name);
                prepare_path(&format!("/proc/self/fd/{folder}/{name}"))
            }
        };
        if !may {
            return forbidden();
        }
        real::execveat(folder, path, arguments, Environment::of(environment).list(), flags)
    }
}

/// As [`prepare`], of a file that is open.
fn prepare_file(fd: c_int) -> bool {
    prepare_path(&format!("/proc/self/fd/{fd}"))
}

fn prepare_path(path: &str) -> bool {
    // Without a NUL in it there is no error.
    // SAFETY: a string.
    CString::new(path).map_or(true, |path| unsafe { prepare(path.as_ptr()) })
}

/// Sends written data before the process ends.
pub(crate) fn drain() {
    inside(end::drain);
}
