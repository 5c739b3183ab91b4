//! The sleep of programs that serve several ports on one thread and must wake at a date, or have descriptors of their
//! own to sleep on.

use crate::port::{IoError, PacketIo, Wake};
use crate::sys::{self, interest};
use base::Duration;
use std::io;
use std::os::fd::RawFd;

/// Sleeps on several ports at once. Wakes as precisely as the machine can: the kernel's habit of gathering wakes of
/// fifty microseconds (prctl(2), PR_SET_TIMERSLACK) is switched off for the thread that made it.
pub struct Doze {
    fds: Vec<libc::pollfd>,
}

impl Doze {
    /// For the calling thread and these ports, which must outlive it to be of use.
    ///
    /// # Errors
    /// The kernel keeps its habit.
    pub fn new<'a>(ports: impl IntoIterator<Item = &'a dyn PacketIo>) -> io::Result<Doze> {
        // SAFETY: takes numbers only.
        sys::check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) })?;
        let fds = ports.into_iter().flat_map(|port| port.poll_fds());
        Ok(Doze { fds: fds.map(|fd| interest(fd, libc::POLLIN)).collect() })
    }

    /// Until a port may have packets or news ([`PacketIo::net_events`]), `timeout` passes or a signal arrives.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn sleep(&mut self, timeout: Option<Duration>) -> Result<Wake, IoError> {
        doze(&mut self.fds, timeout)
    }
}

/// Until one of these descriptors can be read (or is none), `timeout` passes or a signal arrives. The kernel may be
/// late by the thread's slack.
///
/// # Errors
/// The kernel's error.
pub fn sleep_on(fds: &[RawFd], timeout: Option<Duration>) -> Result<Wake, IoError> {
    let mut rows: Vec<libc::pollfd> = fds.iter().map(|&fd| interest(fd, libc::POLLIN)).collect();
    doze(&mut rows, timeout)
}

fn doze(rows: &mut [libc::pollfd], timeout: Option<Duration>) -> Result<Wake, IoError> {
    match sys::poll(rows, timeout) {
        Ok(0) => Ok(Wake::Timeout),
        Ok(_) => Ok(Wake::Ready),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Wake::Interrupted),
        Err(error) => Err(IoError::Os(error)),
    }
}
