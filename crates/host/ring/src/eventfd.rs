//! The kernel's counter that one thread rings and another waits for.

use crate::doorbell::Woken;
use base::Duration;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// An eventfd. It stays readable from a ring to the next `drain` or `wait`, so no ring is lost.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// A silent one, closed on exec.
    pub fn new() -> io::Result<EventFd> {
        // SAFETY: takes and touches no memory.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave this descriptor to us alone.
        Ok(EventFd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Ring. A counter that is full is ringing already, so there is no failure to speak of.
    pub fn ring(&self) {
        let one = 1u64;
        // SAFETY: `one` is eight bytes that live through the call.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
    }

    /// Forget rings so far; were there any?
    pub fn drain(&self) -> bool {
        let mut count = 0u64;
        // SAFETY: `count` is eight bytes that live through the call.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) > 0 }
    }

    /// Wait for a ring, and forget it, or until `timeout` passes (`None`: for ever).
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<Woken> {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let timeout = timeout.map(|t| libc::timespec {
            tv_sec: t.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        let timeout = timeout.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
        // SAFETY: one pollfd and a timespec (or null), both of which live through the call.
        match unsafe { libc::ppoll(&raw mut poll, 1, timeout, core::ptr::null()) } {
            0 => Ok(Woken::Timeout),
            1.. => {
                self.drain();
                Ok(Woken::Rung)
            }
            _ => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => Ok(Woken::Interrupted),
                e => Err(e),
            },
        }
    }

    /// The descriptor, readable after a ring.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
