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
mod tests {
    //! Goal: sleep ends for the right reason, and a million items pass with few rings and none slept over.
    use super::*;
    use crate::spsc;

    #[test]
    fn sleep_ends_for_the_right_reason() {
        let (ringer, mut sleeper) = doorbell().unwrap();
        let short = Some(Duration::from_millis(1));
        assert_eq!(sleeper.sleep(short, || true).unwrap(), Woken::Ready);
        assert_eq!(sleeper.sleep(short, || false).unwrap(), Woken::Timeout);
        assert!(!ringer.ring(), "no thread sleeps");
        assert_eq!(sleeper.sleep(short, || false).unwrap(), Woken::Timeout);
        // The item arrives after the announcement and before the look: both see it.
        let woken = sleeper.sleep(short, || {
            assert!(ringer.ring() && !ringer.ring());
            true
        });
        assert_eq!(woken.unwrap(), Woken::Ready);
        assert_eq!(sleeper.sleep(None, || false).unwrap(), Woken::Rung, "the ring is remembered");
        ringer.ring_anyway();
        assert_eq!(sleeper.sleep(None, || false).unwrap(), Woken::Rung);
        let other = sleeper.ringer();
        let thread = std::thread::spawn(move || while !other.ring() {});
        assert_eq!(sleeper.sleep(None, || false).unwrap(), Woken::Rung);
        thread.join().unwrap();
    }

    /// Lets the calling thread, and those that it starts, run on one CPU alone.
    fn pin() {
        // SAFETY: a set of CPUs is plain numbers, and lives through the call.
        unsafe {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(libc::sched_getcpu() as usize, &mut one);
            assert_eq!(libc::sched_setaffinity(0, size_of_val(&one), &raw const one), 0);
        }
    }

    /// Sleeps until `said` has come to `count`. Returns how many sleeps ended before.
    fn sleep_until(said: &AtomicU32, count: u32, bell: &mut Sleeper) -> u32 {
        let mut in_vain = 0;
        while said.load(Ordering::SeqCst) < count {
            let fd = std::os::fd::AsRawFd::as_raw_fd(&bell.fd());
            let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            // SAFETY: one pollfd, which lives through the call.
            assert!(unsafe { libc::poll(&raw mut poll, 1, 10_000) } > 0, "slept over {count}");
            bell.drain();
            in_vain += u32::from(said.load(Ordering::SeqCst) < count);
        }
        in_vain
    }

    /// Two threads on one CPU wake each other in turn: a ring ends one sleep, not those after it.
    #[test]
    fn who_is_woken_before_the_ringer_goes_on_sleeps_again() {
        let in_turn = || {
            pin();
            let ((question, mut asked), (answer, mut answered)) = (doorbell().unwrap(), doorbell().unwrap());
            let said = Arc::new(AtomicU32::new(0));
            let others = said.clone();
            let other = std::thread::spawn(move || {
                let one = |count| {
                    let in_vain = sleep_until(&others, count, &mut asked);
                    others.store(count + 1, Ordering::SeqCst);
                    answer.ring_anyway();
                    in_vain
                };
                (1..1_000).step_by(2).map(one).sum::<u32>()
            });
            let one = |count| {
                said.store(count, Ordering::SeqCst);
                question.ring_anyway();
                sleep_until(&said, count + 1, &mut answered)
            };
            (1..1_000).step_by(2).map(one).sum::<u32>() + other.join().unwrap()
        };
        let in_vain = std::thread::spawn(in_turn).join().unwrap();
        assert!(in_vain < 1_000, "{in_vain} sleeps ended for nothing");
    }

    #[test]
    fn nothing_is_slept_over() {
        let (mut tx, mut rx) = spsc::queue(8);
        let (ringer, mut sleeper) = doorbell().unwrap();
        let total = 20_000u32;
        let sender = std::thread::spawn(move || {
            let mut next = 0;
            while next < total {
                match tx.push(next) {
                    Ok(()) => next += 1,
                    Err(_) => std::thread::yield_now(),
                }
                ringer.ring();
            }
        });
        let mut expected = 0;
        while expected < total {
            while let Some(item) = rx.pop() {
                assert_eq!(item, expected);
                expected += 1;
            }
            if expected < total {
                // A lost wake-up shows as a time-out: the sender has more to say, and rings for each item.
                let woken = sleeper.sleep(Some(Duration::from_secs(20)), || !rx.is_empty()).unwrap();
                assert_ne!(woken, Woken::Timeout, "after item {expected}");
            }
        }
        sender.join().unwrap();
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! Goal: no interleaving sleeps over an item. (A lost wake-up is a deadlock, which loom reports.)
    use super::*;
    use crate::spsc;

    #[test]
    fn loom_nothing_is_slept_over() {
        loom::model(|| {
            let (mut tx, mut rx) = spsc::queue(2);
            let (ringer, mut sleeper) = doorbell().unwrap();
            let sender = loom::thread::spawn(move || {
                for item in 0..2u32 {
                    tx.push(item).unwrap();
                    ringer.ring();
                }
            });
            let mut expected = 0;
            while expected < 2 {
                match rx.pop() {
                    Some(item) => {
                        assert_eq!(item, expected);
                        expected += 1;
                    }
                    None => {
                        sleeper.sleep(None, || !rx.is_empty()).unwrap();
                    }
                }
            }
            sender.join().unwrap();
        });
    }

    #[test]
    fn loom_two_ringers() {
        // Three threads: all schedules with up to three preemptions, which take seconds, not hours.
        let mut explorer = loom::model::Builder::new();
        explorer.preemption_bound = Some(3);
        explorer.check(|| {
            let (ringer, mut sleeper) = doorbell().unwrap();
            let ends: Vec<_> = (0..2)
                .map(|_| {
                    let (mut tx, rx) = spsc::queue(1);
                    let ringer = ringer.clone();
                    let thread = loom::thread::spawn(move || {
                        tx.push(()).unwrap();
                        ringer.ring();
                    });
                    (rx, thread)
                })
                .collect();
            let (mut queues, threads): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
            let mut seen = 0;
            while seen < 2 {
                let found: usize = queues.iter_mut().map(|rx| usize::from(rx.pop().is_some())).sum();
                seen += found;
                if found == 0 {
                    sleeper.sleep(None, || queues.iter_mut().any(|rx| !rx.is_empty())).unwrap();
                }
            }
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }
}
