//! Paired mode, after mTCP: a stack thread owns the core, applications meet it only through queues and byte rings.
//!
//! ```text
//!   application threads                             stack thread, one per core, pinned
//!   ┌ Paired ────────────────────┐   commands       ┌ Worker ──────────────┐
//!   │ Engine<Remote>             │ ═══════════════> │ records of           │
//!   │   descriptors, epoll,      │ <═══════════════ │ connections and      │ <-> Core::turn
//!   │   options, pipes           │   events         │ listeners            │
//!   │ rings ═ bytes to send ════╪═════════════════>│                      │
//!   │       <═ bytes received ══╪══════════════════│                      │
//!   └────────────────────────────┘   doorbells,     └──────────────────────┘
//!                                    only to sleepers
//! ```
//! Reading, writing, accepting, connecting and epoll need no answer and so never wait for the stack thread; what asks
//! for one (bind, listen, TCP_INFO, ...) waits for one turn. Events reach an application once per turn.
//!
//! Any number of threads share a [`Paired`]. Of those that block, one waits for the doorbell on behalf of all and
//! wakes whom an event concerns; the others park, or sleep on bells of their own where signals end calls. A program
//! that scales gives each thread its own `Paired`, linked to its core's stack thread; one that does not care links one
//! `Paired` to all of them.

mod calls;
mod link;
mod message;
mod remote;
mod stack_thread;
#[cfg(test)]
mod tests;
mod told;
mod worker;

use remote::Defaults;
pub use remote::Remote;
pub use stack_thread::{PairedConfig, StackThread};

use crate::engine::{Engine, Limits};
use crate::hosted::{Host, Woken, without_bell};
use crate::sockets::Fd;
use crate::syscalls::Mode;
use crate::transport::Transport as _;
use crate::waiting::Wake;
use crate::{Errno, SystemClock};
use base::{Duration, Instant};
use message::RingPool;
use ring::Sleeper;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sockets whose connections live on stack threads.
pub struct Paired {
    engine: Mutex<Engine<Remote>>,
    threads: Vec<Arc<StackThread>>,
    /// How threads sleep whose signals end calls; `None` if no signal does.
    host: Option<Box<dyn Host>>,
}

impl Paired {
    /// Sockets on the cores of `threads`: listeners listen on all of them, connects take turns.
    pub fn new(threads: &[Arc<StackThread>], limits: Limits) -> io::Result<Paired> {
        let Some(first) = threads.first() else { return Err(io::ErrorKind::InvalidInput.into()) };
        let (ringer, bell) = ring::doorbell()?;
        let defaults = Defaults::of(&first.shared.engine.lock().core);
        let links = threads.iter().map(|thread| thread.link(ringer.clone())).collect();
        let rings = RingPool::new(first.config.ring, first.config.rings_kept);
        let remote = Remote::new(links, bell, first.config.connections, rings, defaults);
        let limits = Limits { spin: first.config.spin, ..limits };
        let engine = Mutex::new(Engine::new(remote, Box::new(SystemClock::new()), limits));
        Ok(Paired { engine, threads: threads.to_vec(), host: None })
    }

    /// Opens the mode for a program whose signals end calls; `host` says how its threads sleep.
    ///
    /// # Errors
    /// There is no descriptor to be had for the bell.
    pub fn interruptible(
        threads: &[Arc<StackThread>],
        limits: Limits,
        host: Box<dyn Host>,
    ) -> io::Result<Paired> {
        Ok(Paired { host: Some(host), ..Paired::new(threads, limits)? })
    }

    fn hold(&self) -> Held<'_> {
        Held(self.engine.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Attempts, looks for a while and sleeps in turn. Does the call go on after a signal whose handler asks for that?
    fn wait_loop<R>(
        &self,
        on: Option<Fd>,
        timeout: Option<Duration>,
        restarts: bool,
        attempt: &mut impl FnMut(&mut Engine<Remote>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let mut deadline: Option<Instant> = None;
        let mut paused = false;
        loop {
            let mut engine = self.hold();
            engine.collect();
            match attempt(&mut engine) {
                Err(Errno::EAGAIN) if engine.core.is_over() => return Err(Errno::ENETDOWN),
                Err(Errno::EAGAIN) => {}
                result => {
                    if paused {
                        let now = engine.time();
                        engine.busy_poll.on_work(now, true);
                    }
                    return result;
                }
            }
            let now = engine.time();
            if deadline.is_none() {
                deadline = timeout.map(|t| now + t);
            }
            if deadline.is_some_and(|at| at <= now) {
                return Err(Errno::EAGAIN);
            }
            paused = true;
            if engine.busy_poll.on_nothing(now) > now {
                drop(engine);
                std::hint::spin_loop();
                continue;
            }
            engine.busy_poll.on_sleep(now);
            self.sleep(engine, on, deadline.map(|at| at.since(now)), restarts)?;
        }
    }

    /// The whole of a wait.
    fn wait_as<R>(
        &self,
        on: Option<Fd>,
        timeout: Option<Duration>,
        restarts: bool,
        mut attempt: impl FnMut(&mut Engine<Remote>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let result = self.wait_loop(on, timeout, restarts, &mut attempt);
        // A thread that returns leaves the bell to a thread that still waits.
        let mut engine = self.hold();
        if engine.core.bell.is_some() {
            engine.waiting.wake_successor();
        }
        result
    }

    /// Sleeps until something happens to `on`, or for `timeout`: for the bell, if no thread waits for it yet, else
    /// aside. EINTR if a signal ended it.
    fn sleep<'a>(
        &'a self,
        mut engine: Held<'a>,
        on: Option<Fd>,
        timeout: Option<Duration>,
        restarts: bool,
    ) -> Result<(), Errno> {
        let object = on.map(|fd| engine.index(fd)).transpose()?;
        let Some(mut bell) = engine.core.bell.take() else {
            return self.sleep_aside(engine, object, timeout, restarts);
        };
        bell.flag().announce();
        let woken = if engine.core.has_events() {
            bell.flag().awake();
            Ok(())
        } else {
            let ticket = engine.waiting.add(object, Wake::Bell(bell.ringer()));
            drop(engine);
            let woken = self.sleep_on(&mut bell, timeout, restarts);
            bell.flag().awake();
            engine = self.hold();
            engine.waiting.remove(ticket);
            woken
        };
        engine.core.bell = Some(bell);
        woken
    }

    /// Sleeps while another thread waits for the bell: parked, or where signals end calls on a bell of this thread's.
    fn sleep_aside(
        &self,
        mut engine: Held<'_>,
        object: Option<u32>,
        timeout: Option<Duration>,
        restarts: bool,
    ) -> Result<(), Errno> {
        let Some(host) = &self.host else {
            let ticket = engine.waiting.add(object, Wake::Park(std::thread::current()));
            drop(engine);
            match timeout {
                Some(timeout) => std::thread::park_timeout(timeout),
                None => std::thread::park(),
            }
            self.hold().waiting.remove(ticket);
            return Ok(());
        };
        let Some(mut bell) = host.bell() else {
            drop(engine);
            let woken = host.sleep(&[], Some(without_bell(timeout)), restarts);
            return if woken == Woken::Signal { Err(Errno::EINTR) } else { Ok(()) };
        };
        let ticket = engine.waiting.add(object, Wake::Bell(bell.ringer()));
        drop(engine);
        let woken = self.sleep_on(&mut bell, timeout, restarts);
        self.hold().waiting.remove(ticket);
        host.keep(bell);
        woken
    }

    /// Sleeps until this bell rings.
    fn sleep_on(&self, bell: &mut Sleeper, timeout: Option<Duration>, restarts: bool) -> Result<(), Errno> {
        let Some(host) = &self.host else {
            return bell.wait(timeout).map(drop).map_err(|_| Errno::EIO);
        };
        let woken = host.sleep(&[bell.fd().as_raw_fd()], timeout, restarts);
        bell.drain();
        if woken == Woken::Signal { Err(Errno::EINTR) } else { Ok(()) }
    }
}

impl Mode for Paired {
    type Below = Remote;

    fn lock(&self) -> impl DerefMut<Target = Engine<Remote>> {
        let mut engine = self.hold();
        engine.collect();
        engine
    }

    fn wait_for<R>(
        &self,
        on: Option<Fd>,
        timeout: Option<Duration>,
        attempt: impl FnMut(&mut Engine<Remote>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        self.wait_as(on, timeout, timeout.is_none(), attempt)
    }

    fn wait_for_ready<R>(
        &self,
        on: Option<Fd>,
        timeout: Option<Duration>,
        attempt: impl FnMut(&mut Engine<Remote>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        self.wait_as(on, timeout, false, attempt)
    }

    fn attempt<R>(
        &self,
        mut attempt: impl FnMut(&mut Engine<Remote>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        attempt(&mut self.lock())
    }

    fn refresh(&self) -> Result<(), Errno> {
        Ok(())
    }

    /// Looks at the first core; what it changes there is a default for the sockets here from then on.
    fn look(&self, look: Box<dyn FnOnce(&mut Engine) + Send + '_>) {
        let mut engine = self.threads[0].shared.engine.lock();
        look(&mut engine);
        let defaults = Defaults::of(&engine.core);
        // Calls wait for a stack thread while they hold the sockets: never the other way round.
        drop(engine);
        self.hold().core.defaults = defaults;
    }
}

/// The engine, held. What was found on the side is told when it is let go, so that no sleeper misses it.
struct Held<'a>(MutexGuard<'a, Engine<Remote>>);

impl Deref for Held<'_> {
    type Target = Engine<Remote>;

    fn deref(&self) -> &Engine<Remote> {
        &self.0
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Engine<Remote> {
        &mut self.0
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.0.core.has_notices() {
            self.0.collect();
        }
    }
}

impl Engine<Remote> {
    /// Takes what the stack threads said and tells the epoll sets and the sleepers.
    fn collect(&mut self) {
        self.publish(Remote::collect);
    }
}
