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
mod tests {
    //! Goal: a thread that waits for another is told from one that runs or waits for time.
    use super::*;
    use std::sync::mpsc::channel;

    /// The line that tells this eventfd from every other one (proc(5)); nothing where the number stands for no eventfd.
    fn eventfd_id(number: i32) -> Option<String> {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
        info.lines().find(|line| line.starts_with("eventfd-id:")).map(str::to_owned)
    }

    #[test]
    fn descriptors_are_the_kernels_own() {
        let number = descriptor().unwrap();
        let ours = eventfd_id(number);
        assert!(ours.is_some());
        close(number);
        // The kernel may have given the number to another thread at once.
        assert_ne!(eventfd_id(number), ours);
    }

    #[test]
    fn who_waits_for_whom() {
        assert!(!Thread::this().waits_for_another(), "this thread runs");
        let (here, there) = channel();
        let (release, hold) = channel::<()>();
        let thread = std::thread::spawn(move || {
            here.send(Thread::this()).unwrap();
            let _ = hold.recv();
        });
        let other = there.recv().unwrap();
        let seen = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(2));
            other.waits_for_another()
        });
        assert!(seen, "it waits for the channel");
        assert!(!other.is_gone());
        drop(release);
        thread.join().unwrap();
        let gone = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(2));
            other.is_gone()
        });
        assert!(gone, "it has ended");
    }
}
