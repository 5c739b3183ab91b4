//! A sleep in the kernel that a signal's handler ends, whenever it runs. The kernel ends a system call for that, but
//! not one that the thread is about to make. So a handler also rings the bell on which its thread is about to sleep:
//!
//! ```text
//!   thread                                        handler, on the same thread
//!     announce the bell                             count
//!     did a handler run since the call began?       is a bell announced? ring it
//!       then stay awake, else sleep on the bell
//! ```
//! A handler before the look is seen by it, and a later one rings.

use crate::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::os::fd::RawFd;

const NONE: RawFd = -1;

/// State of one thread.
#[derive(Debug)]
pub struct Nap {
    /// Handlers that have run.
    ran: AtomicU32,
    /// Descriptor that the thread sleeps on, or is about to.
    bell: AtomicI32,
}

/// A handler interrupts its own thread, so the order of the program is enough; the model runs it as another thread.
fn in_order() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

#[cfg(not(loom))]
impl Nap {
    /// A thread that is awake.
    #[expect(clippy::new_without_default, reason = "const, for thread_local")]
    pub const fn new() -> Nap {
        Nap { ran: AtomicU32::new(0), bell: AtomicI32::new(NONE) }
    }
}

impl Nap {
    /// Returns how many handlers have run.
    pub fn ran(&self) -> u32 {
        self.ran.load(Ordering::Relaxed)
    }

    /// A handler runs: the sleep that it may have come before ends by `ring`. A handler may jump out of the sleep, so
    /// the bell is not announced any more.
    pub fn on_handler(&self, ring: impl FnOnce(RawFd)) {
        self.ran.fetch_add(1, Ordering::Relaxed);
        in_order();
        let bell = self.bell.swap(NONE, Ordering::Relaxed);
        if bell != NONE {
            ring(bell);
        }
    }

    /// Sleeps by `sleep`, which the bell ends, unless a handler ran `since`: then `None`.
    pub fn sleep<R>(&self, bell: RawFd, since: u32, sleep: impl FnOnce() -> R) -> Option<R> {
        let outer = self.bell.swap(bell, Ordering::Relaxed);
        in_order();
        let slept = (self.ran() == since).then(sleep);
        self.bell.store(outer, Ordering::Relaxed);
        slept
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! Goal: no handler is slept over, wherever it runs. (A sleep that nothing ends is a deadlock, which loom reports.)
    use super::*;
    use crate::doorbell;
    use loom::sync::Arc;

    /// A call that sleeps until a handler has run, and is woken for nothing by a packet now and then.
    fn explore(packets: usize) {
        let mut explorer = loom::model::Builder::new();
        explorer.preemption_bound = Some(3);
        explorer.check(move || {
            let nap = Arc::new(Nap { ran: AtomicU32::new(0), bell: AtomicI32::new(NONE) });
            let (ringer, mut sleeper) = doorbell().unwrap();
            let handler = {
                let (nap, ringer) = (nap.clone(), ringer.clone());
                loom::thread::spawn(move || {
                    nap.on_handler(|bell| {
                        assert_eq!(bell, 7);
                        ringer.ring_anyway();
                    });
                })
            };
            let packets = loom::thread::spawn(move || (0..packets).for_each(|_| ringer.ring_anyway()));
            while nap.sleep(7, 0, || sleeper.wait(None).unwrap()).is_some() {}
            assert_eq!(nap.ran(), 1);
            handler.join().unwrap();
            packets.join().unwrap();
        });
    }

    #[test]
    fn loom_a_handler_ends_the_sleep() {
        explore(0);
    }

    #[test]
    fn loom_a_handler_ends_the_sleep_among_packets() {
        explore(2);
    }
}
