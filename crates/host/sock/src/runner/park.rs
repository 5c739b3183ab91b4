//! How a thread that waits sleeps in the kernel.

use base::Duration;
use pio::Wake;
use ring::Sleeper;
use std::cell::Cell;
use std::os::fd::RawFd;

/// Why a sleep ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Woken {
    /// Something for the stack, or time to look again.
    Stack,
    /// A signal behind which the call goes on, as if it were made anew.
    Restart,
    /// One of the program's own descriptors.
    Beside,
    /// A signal, and the call that sleeps is not to be continued.
    Signal,
}

/// How a thread sleeps in the kernel: until one of these descriptors can be read, or this time has passed. The first is
/// the thread's own bell; without one the sleep is short.
pub trait Park: Send + Sync {
    /// For a call that waits for nothing but the stack. `restarts` says whether it goes on after a signal whose handler
    /// asks for that: on Linux one with a time-out does not, nor one that asks which descriptors are ready.
    fn sleep(&self, fds: &[RawFd], timeout: Option<Duration>, restarts: bool) -> Woken;

    /// Prepares a thread of the library: signals go to the program's threads.
    fn shield_thread(&self) {}

    /// A bell for the calling thread, new or one that was kept; `None` if there is no descriptor for one.
    fn bell(&self) -> Option<Sleeper> {
        kept_bell(0)
    }

    /// The bell is needed no more for now.
    fn keep(&self, bell: Sleeper) {
        keep_bell(0, bell);
    }
}

/// Threads whose signals end no call.
pub struct Threads;

impl Park for Threads {
    fn sleep(&self, fds: &[RawFd], timeout: Option<Duration>, _: bool) -> Woken {
        // A signal is no news for the call: it looks, and sleeps again.
        sleep(fds, timeout);
        Woken::Stack
    }
}

thread_local! {
    /// The thread's bell, kept from one call to the next, and the process it was made in.
    static BELL: Cell<Option<(u32, Sleeper)>> = const { Cell::new(None) };
}

/// A new bell.
///
/// # Errors
/// There is no descriptor to be had.
pub fn bell() -> std::io::Result<Sleeper> {
    ring::doorbell().map(|(_, sleeper)| sleeper)
}

/// Returns the calling thread's bell, for [`Park::bell`], if it was made in `process`, by whatever number processes are
/// told apart: in a child it is the parent's, and its descriptor may be another's. Else a new one.
#[must_use]
pub fn kept_bell(process: u32) -> Option<Sleeper> {
    match BELL.try_with(Cell::take).ok().flatten() {
        Some((of, bell)) if of == process => Some(bell),
        kept => {
            std::mem::forget(kept);
            bell().ok()
        }
    }
}

/// For [`Park::keep`].
pub fn keep_bell(process: u32, bell: Sleeper) {
    // A thread that is about to end keeps nothing.
    let _ = BELL.try_with(|kept| kept.set(Some((process, bell))));
}

/// A sleep in poll(2), for [`Park::sleep`]: whether a signal ended it. What else it was, the stack sees for itself.
pub fn sleep(fds: &[RawFd], timeout: Option<Duration>) -> Woken {
    match pio::sleep_on(fds, timeout) {
        Ok(Wake::Interrupted) => Woken::Signal,
        _ => Woken::Stack,
    }
}
