//! How threads of a C program sleep: in poll(2), where a signal ends the call as on Linux (signal(7)).

use crate::context::forks;
use base::Duration;
use libc::c_int;
use sock::runner::{self, Park, Sleeper, Woken};
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr::{null, null_mut};

/// The highest signal's number.
const SIGNAL_MAX: c_int = 64;

/// The threads of this process.
pub(crate) struct Threads;

impl Park for Threads {
    fn sleep(&self, fds: &[RawFd], timeout: Option<Duration>, restarts: bool) -> Woken {
        match runner::sleep(fds, timeout) {
            Woken::Signal if restarts && !signals_end_calls() => Woken::Restart,
            woken => woken,
        }
    }

    fn bell(&self) -> Option<Sleeper> {
        runner::kept_bell(forks())
    }

    fn keep(&self, bell: Sleeper) {
        runner::keep_bell(forks(), bell);
    }
}

/// Does the program have a handler that was installed without SA_RESTART? Which signal it was that ended a sleep,
/// nothing says.
pub fn signals_end_calls() -> bool {
    (1..=SIGNAL_MAX).any(|signal| {
        // SAFETY: zeroes are a sigaction; nothing is set.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, null(), &raw mut action) == 0
                && action.sa_sigaction != libc::SIG_DFL
                && action.sa_sigaction != libc::SIG_IGN
                && action.sa_flags & libc::SA_RESTART == 0
        }
    })
}

/// Runs this while signals wait: their handlers are the program's. A thread that is made meanwhile never takes any.
pub fn undisturbed<R>(run: impl FnOnce() -> R) -> R {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: sets of this frame's, the second of which is filled in by the call that blocks the first.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let result = run();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
        result
    }
}
