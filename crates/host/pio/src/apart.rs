//! Threads with a table of descriptors of their own.
//!
//! The kernel gives a program the lowest free number, and programs rely on that: they close 0 and open a file. A thread
//! of the stack that opens files or accepts clients beside the program would take that number. In a table of its own it
//! takes none of the program's, and what the program closes is closed.
//!
//! Such a thread must not use what the process has opened, as the stack itself does.

use std::io;
use std::sync::mpsc::sync_channel;
use std::thread;

/// Numbers of standard input, output and error.
const STANDARD: usize = 3;

/// Starts a thread that runs `run` with what `open` has opened in it; threads that it makes share its table. Returns
/// what else `open` tells.
///
/// # Errors
/// No thread can be made, or `open` fails.
pub fn spawn<T, U: Send + 'static>(
    name: &str,
    open: impl FnOnce() -> io::Result<(T, U)> + Send + 'static,
    run: impl FnOnce(T) + Send + 'static,
) -> io::Result<U> {
    let (tell, told) = sync_channel(1);
    thread::Builder::new().name(name.into()).spawn(move || {
        leave_table();
        // The caller waits for it.
        match open() {
            Ok((opened, more)) => {
                let _ = tell.send(Ok(more));
                run(opened);
            }
            Err(error) => drop(tell.send(Err(error))),
        }
    })?;
    told.recv().unwrap_or_else(|_| Err(io::Error::other("the thread has ended")))
}

/// Gives the calling thread an empty table. A kernel before 5.9 leaves it the process's.
fn leave_table() {
    // By its number: the launcher learns of it so.
    // SAFETY: numbers alone. The table is this thread's own, so nothing of another thread is closed.
    let left = unsafe {
        libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE as libc::c_uint)
    };
    if left == 0 {
        // What is written to standard error goes nowhere, and to no client.
        for _ in 0..STANDARD {
            // SAFETY: numbers alone. It stays open as long as the thread.
            unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        }
    }
}

#[cfg(test)]
mod tests;
