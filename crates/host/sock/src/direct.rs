//! Direct mode: the application's own threads turn the core from inside their calls. No second thread, no queue.
//!
//! The engine sits behind one lock, which one thread takes uncontended. Of the threads that wait, one turns the
//! core for all and wakes whom an event concerns. A call that finds it asleep in the kernel with the lock held
//! rings it out. A [`watchdog`](crate::watchdog) turns the core when no call has for a while.

use crate::Errno;
use crate::engine::{Engine, Pumped};
use crate::sockets::Fd;
use crate::syscalls::Mode;
use crate::waiting::Wake;
use crate::watchdog;
use crate::watchdog_interval::Watchdog;
use base::{Duration, Instant};
use pio::Waker;
use std::ops::DerefMut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// Sockets whose calls turn the core themselves.
pub struct Direct {
    engine: Mutex<Engine>,
    /// Threads that want the lock while its holder may be asleep in the kernel.
    contenders: AtomicU32,
    waker: Arc<dyn Waker>,
    watchdog: Watchdog,
}

impl Direct {
    /// Direct mode over an engine, with a watchdog thread that keeps ACKs and timers going while the application
    /// computes.
    pub fn start(engine: Engine) -> std::io::Result<Arc<Self>> {
        let direct = Arc::new(Direct::without_watchdog(engine));
        watchdog::start(&direct)?;
        Ok(direct)
    }

    /// Direct mode without a watchdog: nothing at all happens between calls.
    pub fn without_watchdog(mut engine: Engine) -> Self {
        let waker = engine.core().io().waker();
        let watchdog = Watchdog::default();
        Direct { engine: Mutex::new(engine), contenders: AtomicU32::new(0), waker, watchdog }
    }

    /// The engine if nothing has it; does not ring.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Engine>> {
        match self.engine.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    /// The engine, for as long as the guard lives; rings out a thread that sleeps with it.
    pub fn lock(&self) -> MutexGuard<'_, Engine> {
        match self.engine.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.contenders.fetch_add(1, Ordering::SeqCst);
                self.waker.wake();
                let guard = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
                self.contenders.fetch_sub(1, Ordering::SeqCst);
                guard
            }
        }
    }

    /// Does another thread wait for the lock?
    fn is_wanted(&self) -> bool {
        self.contenders.load(Ordering::SeqCst) > 0
    }

    /// Lets the threads that rang have the lock first: a plain unlock would often win it right back.
    pub(crate) fn yield_to_contenders(&self) {
        let mut rounds = 0;
        while self.is_wanted() {
            rounds += 1;
            if rounds < 100 {
                std::thread::yield_now();
            } else {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }

    /// Attempts, turns and sleeps in turn; or sleeps while another thread turns the core for all.
    fn wait_loop<R>(
        &self,
        on: Option<Fd>,
        timeout: Option<Duration>,
        attempt: &mut impl FnMut(&mut Engine) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let mut deadline: Option<Instant> = None;
        let mut leads = false;
        loop {
            let mut engine = self.lock();
            match attempt(&mut engine) {
                Err(Errno::EAGAIN) if engine.core.is_over() => {
                    return engine.stop_waiting(leads, Err(Errno::ENETDOWN));
                }
                Err(Errno::EAGAIN) => {}
                result => return engine.stop_waiting(leads, result),
            }
            if deadline.is_none() {
                deadline = timeout.map(|t| engine.now() + t);
            }
            leads = leads || engine.waiting.take_lead();
            if !leads {
                self.follow(engine, on, deadline)?;
                continue;
            }
            // A ring is lost on a sleeper whom packets woke at the same time: a thread that keeps the lock to sleep
            // again must see for itself that no thread wants it.
            if !self.is_wanted() {
                self.watchdog.set_waits(true);
                let pumped = engine.pump(deadline);
                self.watchdog.set_waits(false);
                match pumped {
                    Ok(Pumped::Progress) => continue,
                    Ok(Pumped::TimedOut) => {
                        let result = attempt(&mut engine);
                        return engine.stop_waiting(leads, result);
                    }
                    Ok(Pumped::Interrupted) => {}
                    Err(error) => return engine.stop_waiting(leads, Err(error)),
                }
            }
            drop(engine);
            self.yield_to_contenders();
        }
    }

    /// Sleeps until something happens to `on`, or until the deadline: another thread turns the core meanwhile. Were
    /// each to turn it, those that wait would ring each other out for ever.
    fn follow(
        &self,
        mut engine: MutexGuard<'_, Engine>,
        on: Option<Fd>,
        deadline: Option<Instant>,
    ) -> Result<(), Errno> {
        let left = deadline.map(|at| at.since(engine.time()));
        if left == Some(Duration::ZERO) {
            return Err(Errno::EAGAIN);
        }
        let object = on.map(|fd| engine.index(fd)).transpose()?;
        let ticket = engine.waiting.add(object, Wake::Park(std::thread::current()));
        drop(engine);
        match left {
            Some(left) => std::thread::park_timeout(left),
            None => std::thread::park(),
        }
        self.lock().waiting.remove(ticket);
        Ok(())
    }
}

impl Engine {
    /// A thread that waited returns with `result`; it turned the core for all if it `leads`.
    fn stop_waiting<R>(&mut self, leads: bool, result: Result<R, Errno>) -> Result<R, Errno> {
        self.waiting.leave(leads);
        result
    }
}

impl Mode for Direct {
    type Below = stack::Core;

    fn lock(&self) -> impl DerefMut<Target = Engine> {
        Direct::lock(self)
    }

    fn wait_for<R>(
        &self,
        on: Option<Fd>,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Engine) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let result = self.wait_loop(on, timeout, &mut attempt);
        self.watchdog.application_is_back();
        result
    }

    fn attempt<R>(&self, mut attempt: impl FnMut(&mut Engine) -> Result<R, Errno>) -> Result<R, Errno> {
        let mut engine = self.lock();
        match attempt(&mut engine) {
            Err(Errno::EAGAIN) if engine.turn_if_stale() => attempt(&mut engine),
            result => result,
        }
    }

    /// One turn: what the application wrote since its last call leaves, what arrived is seen.
    fn refresh(&self) -> Result<(), Errno> {
        match self.lock().turn() {
            Ok(_) | Err(pio::IoError::Down) => Ok(()),
            Err(_) => Err(Errno::ENETDOWN),
        }
    }

    fn look(&self, look: Box<dyn FnOnce(&mut Engine) + Send + '_>) {
        look(&mut self.lock());
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        self.watchdog.wake();
    }
}
