//! How threads of a Python program sleep: in poll(2), where a signal ends the call, so that Python can look at it.

use crate::live::forks;
use base::Duration;
use sock::runner::{self, Park, Sleeper, Woken};
use std::os::fd::RawFd;

/// The threads of this process.
pub(crate) struct Threads;

impl Park for Threads {
    /// Any signal ends it: Python calls again where that is wanted (PEP 475).
    fn sleep(&self, fds: &[RawFd], timeout: Option<Duration>, _: bool) -> Woken {
        runner::sleep(fds, timeout)
    }

    fn bell(&self) -> Option<Sleeper> {
        runner::kept_bell(forks())
    }

    fn keep(&self, bell: Sleeper) {
        runner::keep_bell(forks(), bell);
    }
}
