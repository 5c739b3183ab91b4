//! Calls of the kernel and the C library: descriptors, errno, and the state of another thread.

use std::path::PathBuf;

/// A descriptor that nothing will ever be ready on; the error is an errno.
pub(crate) fn descriptor() -> Result<i32, i32> {
    // SAFETY: eventfd takes no pointer.
    let number = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if number < 0 { Err(errno()) } else { Ok(number) }
}

/// Closes a descriptor of [`descriptor`].
pub(crate) fn close(number: i32) {
    // SAFETY: close takes no pointer, and the number is one that `descriptor` made and the table has just given up.
    unsafe { libc::close(number) };
}

/// The thread's error number.
fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Sets the thread's error number.
pub(crate) fn set_errno(number: i32) {
    // SAFETY: the C library gives each thread a place for it, which lives as long as the thread.
    unsafe { *libc::__errno_location() = number };
}

/// The kernel's getsockopt, past every API.
pub(crate) fn getsockopt(fd: i32, level: i32, name: i32, value: usize, len: usize) -> i32 {
    // SAFETY: the caller's arguments go to the kernel as they are; it checks the addresses that they hold.
    unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, value, len) as i32 }
}

/// The C library's system(3), past every other one; -1 where it has none.
pub(crate) fn system(command: *const libc::c_char) -> i32 {
    type System = unsafe extern "C" fn(*const libc::c_char) -> libc::c_int;
    // SAFETY: a name of C; the symbol, if it is there, is system(3) of this type, and the string is the caller's.
    unsafe {
        let symbol = libc::dlsym(libc::RTLD_NEXT, c"system".as_ptr());
        if symbol.is_null() {
            return -1;
        }
        std::mem::transmute::<*mut libc::c_void, System>(symbol)(command)
    }
}

/// A thread, and what the kernel says of it.
pub(crate) struct Thread {
    folder: Option<PathBuf>,
}

impl Thread {
    /// The thread that asks.
    pub(crate) fn this() -> Thread {
        // "PID/task/TID".
        let own = std::fs::read_link("/proc/thread-self").ok();
        Thread { folder: own.map(|own| PathBuf::from("/proc").join(own)) }
    }

    /// Has it ended?
    pub(crate) fn is_gone(&self) -> bool {
        self.folder.as_ref().is_some_and(|folder| !folder.exists())
    }

    /// Does it sleep until another thread of this process wakes it (futex(2))? One that waits for a child or a timer
    /// does not.
    pub(crate) fn waits_for_another(&self) -> bool {
        let Some(folder) = &self.folder else { return false };
        let read = |name: &str| std::fs::read_to_string(folder.join(name));
        // The name in brackets may hold anything; the state follows the last bracket.
        let asleep = read("stat").is_ok_and(|stat| {
            stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('S'))
        });
        asleep
            && match read("syscall") {
                Ok(call) => call.split_whitespace().next() == Some(&libc::SYS_futex.to_string()),
                // Where the kernel does not tell which call it is, sleeping must do.
                Err(_) => true,
            }
    }
}

#[cfg(test)]
mod tests;
