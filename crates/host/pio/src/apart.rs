//! Threads with a table of descriptors of their own.
//!
//! The kernel gives a program the lowest free number, and programs rely on that: they close 0 and open a file. A thread
//! of the stack that opens files or accepts clients beside the program would take that number. In a table of its own it
//! takes none of the program's, and what the program closes is closed.
//!
//! Such a thread must not use what the process has opened, as the stack itself does.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::mpsc::sync_channel;
use std::thread;

/// Numbers of standard input, output and error.
const STANDARD: usize = 3;

/// Starts a thread that runs `run`; threads that it makes share its table.
///
/// # Errors
/// No thread can be made.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let apart = move || {
        leave_table(None);
        run();
    };
    thread::Builder::new().name(name.into()).spawn(apart).map(drop)
}

/// As [`spawn`], of a thread that has `file`, which the caller has opened with its rights.
///
/// # Errors
/// No thread can be made.
pub fn spawn_with<F>(name: &str, file: F, run: impl FnOnce(F) + Send + 'static) -> io::Result<()>
where
    F: Into<OwnedFd> + From<OwnedFd>,
{
    let file: OwnedFd = file.into();
    let fd = file.as_raw_fd();
    let (tell, told) = sync_channel(1);
    thread::Builder::new().name(name.into()).spawn(move || {
        let is_apart = leave_table(Some(fd));
        // The caller waits for it.
        let _ = tell.send(is_apart);
        // SAFETY: a copy in a table of the thread's own, or what the caller gives up as it hears that there is none.
        run(F::from(unsafe { OwnedFd::from_raw_fd(fd) }));
    })?;
    match told.recv() {
        Ok(false) => _ = file.into_raw_fd(),
        _ => drop(file),
    }
    Ok(())
}

/// Gives the calling thread a table with `kept` alone. Returns false if it has the process's still: a kernel before 5.9
/// leaves it that.
fn leave_table(kept: Option<RawFd>) -> bool {
    let close = |first: libc::c_uint, last: libc::c_uint, flags: libc::c_uint| {
        // By its number: the launcher learns of it so.
        // SAFETY: numbers alone. The table is this thread's own, so nothing of another thread is closed.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) == 0 }
    };
    let kept = kept.and_then(|fd| libc::c_uint::try_from(fd).ok());
    let is_apart =
        close(kept.map_or(0, |fd| fd + 1), libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE as libc::c_uint);
    if !is_apart {
        return false;
    }
    if let Some(last) = kept.and_then(|fd| fd.checked_sub(1)) {
        close(0, last, 0);
    }
    // What is written to standard error goes nowhere, and to no client.
    for _ in 0..STANDARD {
        // SAFETY: numbers alone. It stays open as long as the thread.
        unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    }
    true
}

#[cfg(test)]
mod tests;
