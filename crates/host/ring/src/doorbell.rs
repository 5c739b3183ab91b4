//! Waking a sleeping consumer: the bell rings only if a thread sleeps, and no item is slept over.
//!
//! The two sides meet in [`SleepFlag`] as in Dekker's algorithm:
//!
//! ```text
//!   producer                              consumer
//!     put the item where it is looked for   flag := asleep
//!     full fence                            full fence
//!     flag asleep? then ring                anything there? then stay awake, else wait for the bell
//! ```
//! Whichever fence comes second sees what was written before the first, so not both can miss the other. Every
//! write of the flag is an exchange: the order of the writes is then the order of the exchanges, and an old "awake"
//! cannot be read after a newer "asleep". (Sleeping is dear anyway; a producer that need not ring only loads.)

use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use base::Duration;
use std::io;

/// Whether the consumer sleeps; for sleepers that wait in something of their own (a port, a poll of many
/// descriptors).
#[derive(Debug)]
pub struct SleepFlag(AtomicU32);

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

impl SleepFlag {
    /// Awake.
    pub fn new() -> SleepFlag {
        SleepFlag(AtomicU32::new(AWAKE))
    }

    /// Consumer: I am about to sleep. Look once more for work after this, and sleep only if there is none.
    pub fn announce(&self) {
        self.0.swap(ASLEEP, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Consumer: I am awake, however that came.
    pub fn awake(&self) {
        self.0.swap(AWAKE, Ordering::Relaxed);
    }

    /// Producer, after publishing (once for a whole batch): must I ring? Of several that ask, one gets `true`.
    #[inline]
    pub fn must_ring(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) == ASLEEP && self.0.swap(AWAKE, Ordering::Relaxed) == ASLEEP
    }
}

impl Default for SleepFlag {
    fn default() -> Self {
        SleepFlag::new()
    }
}

/// Why [`Sleeper::sleep`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Woken {
    /// There was something to do, so it did not sleep.
    Ready,
    /// The bell rang: now or for an earlier item, so look and sleep again if there is nothing.
    Rung,
    /// The time was up.
    Timeout,
    /// A signal arrived.
    Interrupted,
}

/// On cache lines of its own: its sleeper writes it at each sleep, and bells of several cores are made in a row.
#[derive(Debug)]
#[repr(align(128))]
struct Shared {
    flag: SleepFlag,
    bell: Bell,
    /// The bell was rung since it was drained. Set before ringing: a thread that is woken on this CPU may run first,
    /// and a bell that it did not drain would end its next sleep at once. Set again after, if it was drained in
    /// between.
    rung: AtomicBool,
}

impl Shared {
    fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        self.bell.ring();
        self.rung.store(true, Ordering::Release);
    }
}

/// A doorbell: any number of ringers, one sleeper.
pub fn doorbell() -> io::Result<(Ringer, Sleeper)> {
    let shared =
        Arc::new(Shared { flag: SleepFlag::new(), bell: Bell::new()?, rung: AtomicBool::new(false) });
    Ok((Ringer(shared.clone()), Sleeper(shared)))
}

/// The producers' side.
#[derive(Clone, Debug)]
pub struct Ringer(Arc<Shared>);

impl Ringer {
    /// Wake the sleeper if it sleeps: one fence and one load if not. Call it after publishing, once for a batch;
    /// true if the bell rang.
    #[inline]
    pub fn ring(&self) -> bool {
        let must = self.0.flag.must_ring();
        if must {
            self.0.ring();
        }
        must
    }

    /// Ring whether or not a thread sleeps: the present or next sleep ends at once.
    pub fn ring_anyway(&self) {
        self.0.ring();
    }
}

/// The consumer's side.
#[derive(Debug)]
pub struct Sleeper(Arc<Shared>);

impl Sleeper {
    /// Sleep until the bell rings or `timeout` passes (`None`: for ever), unless `ready` finds work. `ready` must
    /// look at every queue whose producers ring this bell.
    pub fn sleep(&mut self, timeout: Option<Duration>, ready: impl FnOnce() -> bool) -> io::Result<Woken> {
        self.0.flag.announce();
        let woken = if ready() { Ok(Woken::Ready) } else { self.0.bell.wait(timeout) };
        self.0.flag.awake();
        woken
    }

    /// Wait for the bell without announcing or looking: for a caller that does both under a lock and releases it
    /// ([`Sleeper::flag`]).
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Woken> {
        self.0.bell.wait(timeout)
    }

    /// Another ringer for this bell.
    pub fn ringer(&self) -> Ringer {
        Ringer(self.0.clone())
    }

    /// The flag, for a thread that waits on [`Sleeper::fd`] together with other descriptors: announce, look for work,
    /// wait, awake, [`Sleeper::drain`].
    pub fn flag(&self) -> &SleepFlag {
        &self.0.flag
    }

    /// The descriptor that is readable once the bell rang.
    #[cfg(not(loom))]
    pub fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.bell.fd()
    }

    /// Forget rings so far: no system call if there were none.
    #[cfg(not(loom))]
    pub fn drain(&mut self) {
        if self.0.rung.swap(false, Ordering::Acquire) {
            self.0.bell.drain();
        }
    }
}

#[cfg(not(loom))]
use crate::eventfd::EventFd as Bell;

/// Loom's bell: what an eventfd does, in words that loom knows. It has no time, so a lost wake-up is a deadlock,
/// which loom reports.
#[cfg(loom)]
#[derive(Debug)]
struct Bell {
    rung: loom::sync::Mutex<bool>,
    change: loom::sync::Condvar,
}

#[cfg(loom)]
impl Bell {
    fn new() -> io::Result<Bell> {
        Ok(Bell { rung: loom::sync::Mutex::new(false), change: loom::sync::Condvar::new() })
    }

    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.change.notify_one();
    }

    fn wait(&self, _timeout: Option<Duration>) -> io::Result<Woken> {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.change.wait(rung).unwrap();
        }
        *rung = false;
        Ok(Woken::Rung)
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;
