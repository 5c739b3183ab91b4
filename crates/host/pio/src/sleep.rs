//! The sleep of a program on its ports, and on descriptors of its own.

use crate::port::{IoError, PacketIo, Wake};
use crate::sys::{self, interest};
use base::Duration;
use std::io;
use std::os::fd::RawFd;

/// How soon a port that has no descriptor to sleep on is looked at again.
const LOOK_SOON: Duration = Duration::from_millis(20);

/// Has the sleeps of the calling thread end as precisely as the machine can: the kernel's habit of gathering wakes of
/// fifty microseconds (prctl(2), PR_SET_TIMERSLACK) is switched off for it.
///
/// # Errors
/// The kernel keeps its habit.
pub fn wake_precisely() -> io::Result<()> {
    // SAFETY: takes numbers only.
    sys::check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) }).map(drop)
}

/// Sleeps until one of these ports may have packets or news ([`NetEvents`](crate::NetEvents)), one of the descriptors
/// `beside` can be read, `timeout` passes or a signal arrives.
///
/// # Errors
/// A port's, or the kernel's. A port that is only down is slept on as any other.
pub fn wait<const N: usize>(
    ports: [&mut dyn PacketIo; N],
    beside: &[RawFd],
    timeout: Option<Duration>,
) -> Result<Wake, IoError> {
    let (mut fds, mut most) = (beside.to_vec(), timeout);
    for port in ports {
        let before = fds.len();
        match port.arm(&mut fds) {
            Ok(true) | Err(IoError::Down) => {}
            Ok(false) => return Ok(Wake::Ready),
            Err(error) => return Err(error),
        }
        if fds.len() == before {
            most = timeout.into_iter().chain([LOOK_SOON]).min();
        }
    }
    match sleep_on(&fds, most)? {
        Wake::Timeout if most != timeout => Ok(Wake::Ready),
        woken => Ok(woken),
    }
}

/// Until one of these descriptors can be read (or is none), `timeout` passes or a signal arrives. The kernel may be
/// late by the thread's slack.
///
/// # Errors
/// The kernel's error.
pub fn sleep_on(fds: &[RawFd], timeout: Option<Duration>) -> Result<Wake, IoError> {
    let mut rows: Vec<libc::pollfd> = fds.iter().map(|&fd| interest(fd, libc::POLLIN)).collect();
    match sys::poll(&mut rows, timeout) {
        Ok(0) => Ok(Wake::Timeout),
        Ok(_) => Ok(Wake::Ready),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Wake::Interrupted),
        Err(error) => Err(IoError::Os(error)),
    }
}
