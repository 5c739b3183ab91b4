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
mod tests {
    use std::fs::File;
    use std::io::{Read, Write, pipe};
    use std::os::fd::AsRawFd;
    use std::sync::mpsc::channel;

    #[test]
    fn files_of_a_thread_apart_have_no_number_of_the_process() {
        let (mut read, mut write) = pipe().expect("a pipe");
        let end = write.as_raw_fd();
        let (go, wait) = channel::<()>();
        let open = || {
            File::open("/dev/zero").map(|file| {
                let fd = file.as_raw_fd();
                (file, fd)
            })
        };
        let fd = super::spawn("apart", open, move |mut file| {
            wait.recv().expect("a word");
            file.read_exact(&mut [0; 4]).expect("its file is open");
            // The process's pipe is not there.
            // SAFETY: numbers alone.
            assert_eq!(unsafe { libc::fcntl(end, libc::F_GETFD) }, -1);
        })
        .expect("a thread");
        assert_eq!(fd, 3);
        write.write_all(b"all").expect("it takes it");
        drop(write);
        // The other end is closed everywhere.
        let mut all = String::new();
        read.read_to_string(&mut all).expect("text");
        assert_eq!(all, "all");
        go.send(()).expect("it waits");
    }

    #[test]
    fn an_error_of_open_is_told() {
        let open = || File::open("/nowhere/at/all").map(|file| (file, ()));
        let refused = super::spawn("apart", open, drop).expect_err("no such file");
        assert_eq!(refused.kind(), std::io::ErrorKind::NotFound);
    }
}
