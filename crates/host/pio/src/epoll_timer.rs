//! One descriptor for several and a date: for programs with an event loop of their own and takes descriptors only.

use crate::sys::{check, owned, set_timer, timer};
use base::Duration;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Readable while one of its descriptors is, or from a date on.
#[derive(Debug)]
pub struct EpollTimer {
    set: OwnedFd,
    timer: OwnedFd,
}

impl EpollTimer {
    /// Over this descriptor, without a date.
    ///
    /// # Errors
    /// The kernel's error: too many descriptors, or one that cannot be waited for.
    pub fn new(fd: BorrowedFd<'_>) -> io::Result<EpollTimer> {
        // SAFETY: takes a number and returns a new descriptor.
        let set = unsafe { owned(libc::epoll_create1(libc::EPOLL_CLOEXEC)) }?;
        let epoll = EpollTimer { set, timer: timer()? };
        epoll.control(libc::EPOLL_CTL_ADD, epoll.timer.as_raw_fd())?;
        epoll.control(libc::EPOLL_CTL_ADD, fd.as_raw_fd())?;
        Ok(epoll)
    }

    fn control(&self, op: i32, fd: RawFd) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: `event` lives through the call, which copies it.
        check(unsafe { libc::epoll_ctl(self.set.as_raw_fd(), op, fd, &raw mut event) }).map(drop)
    }

    /// Over these descriptors too, and no more over those that were there `before`. One that is closed is forgotten by
    /// itself, so those of a port may be named again whenever they may be new ones with old numbers.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn watch(&self, before: &[RawFd], now: &[RawFd]) -> io::Result<()> {
        for fd in before.iter().filter(|fd| !now.contains(fd)) {
            // It may be closed.
            let _ = self.control(libc::EPOLL_CTL_DEL, *fd);
        }
        for fd in now {
            match self.control(libc::EPOLL_CTL_ADD, *fd) {
                Err(error) if error.raw_os_error() != Some(libc::EEXIST) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// The date: so much from now; `None` for none. The one before is forgotten, though it may have passed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set(&self, after: Option<Duration>) -> io::Result<()> {
        set_timer(&self.timer, after)
    }
}

impl AsRawFd for EpollTimer {
    fn as_raw_fd(&self) -> RawFd {
        self.set.as_raw_fd()
    }
}

#[cfg(test)]
mod tests;
