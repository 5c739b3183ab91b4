//! How threads of a Python program sleep: in poll(2), where a signal ends the call, so that Python can look at it.

use crate::live::forks;
use base::Duration;
use sock::hosted::{self, Host, Sleeper, Woken};
use std::cell::Cell;
use std::os::fd::RawFd;

thread_local! {
    /// The thread's bell, kept from one call to the next, and how often the process had been forked when it was made:
    /// in a child it is still the parent's, and its number may be another's.
    static BELL: Cell<Option<(u32, Sleeper)>> = const { Cell::new(None) };
}

/// The threads of this process.
pub(crate) struct Threads;

impl Host for Threads {
    /// Any signal ends it: Python calls again where that is wanted (PEP 475).
    fn sleep(&self, fds: &[RawFd], timeout: Option<Duration>, _: bool) -> Woken {
        hosted::sleep(fds, timeout)
    }

    /// The thread that opens a stack blocks signals meanwhile, and its threads begin as it is.
    fn shield_thread(&self) {}

    fn bell(&self) -> Option<Sleeper> {
        match BELL.try_with(Cell::take).ok().flatten() {
            Some((of, bell)) if of == forks() => Some(bell),
            kept => {
                std::mem::forget(kept);
                hosted::bell().ok()
            }
        }
    }

    fn keep(&self, bell: Sleeper) {
        // A thread that is about to end keeps nothing.
        let _ = BELL.try_with(|kept| kept.set(Some((forks(), bell))));
    }
}
