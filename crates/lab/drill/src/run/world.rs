//! Time, the stack, and the calls that wait: one thread runs, whatever the script does.
//!
//! A blocking call of a script runs on a thread of its own, through the very door that programs use. The two threads
//! never run at once: the script's hands over after each turn of the stack, and waits until the other waits again
//! or is done. So a run repeats exactly.

use super::port::{ScriptPort, Shared, Time};
use base::{Duration, Instant};
use sock::door::Mode;
use sock::{Engine, Errno, Limits, Sockets};
use stack::{Core, CoreConfig};
use std::ops::DerefMut;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// When a run begins; not at zero, so that nothing lies before time.
pub(super) const START: Instant = Instant::from_secs(1_000);
/// A call that nothing will ever wake is given up after this time.
const FOR_EVER: Duration = Duration::from_secs(100_000);
/// Rounds of the stack in one moment of virtual time; a stack that needs more does not come to rest.
const ROUNDS_MAX: usize = 100_000;

/// What the two threads share.
struct Inner {
    engine: Mutex<Engine>,
    time: Time,
    /// The other thread, if a blocking call runs there.
    baton: Mutex<Baton>,
    turned: Condvar,
}

/// Who may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Baton {
    /// No call runs elsewhere, or it is done.
    Script,
    /// The blocking call runs.
    Call,
    /// The blocking call waits, until this date at most.
    Waiting(Option<Instant>),
    /// The script is over: the call must return.
    Abandon,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The stack in virtual time, as the script's thread sees it.
pub(super) struct World {
    inner: Arc<Inner>,
    /// The wire at the stack's port.
    pub(super) wire: Shared,
}

/// The door, for one of the two threads.
struct Door {
    inner: Arc<Inner>,
    elsewhere: bool,
}

/// A blocking call that has not returned.
pub(super) struct Pending<R> {
    thread: std::thread::JoinHandle<(R, Instant)>,
    inner: Arc<Inner>,
}

impl World {
    /// A stack on a port of this MTU; `whole` lets super-segments through uncut.
    pub(super) fn new(config: CoreConfig, mtu: usize, whole: bool) -> std::io::Result<World> {
        let (time, wire) = (Time::default(), Shared::default());
        time.set(START);
        let port = ScriptPort::new(mtu, whole, wire.clone(), time.clone())?;
        let limits = Limits { descriptors: 4_096, spin: Duration::ZERO };
        let engine = Engine::new(Core::new(config, Box::new(port)), Box::new(time.clone()), limits);
        let baton = Mutex::new(Baton::Script);
        let inner = Arc::new(Inner { engine: Mutex::new(engine), time, baton, turned: Condvar::new() });
        Ok(World { inner, wire })
    }

    /// Since the run began.
    pub(super) fn now(&self) -> Duration {
        self.inner.time.now().since(START)
    }

    /// A date of the port's, as time since the run began.
    pub(super) fn since_start(at: Instant) -> Duration {
        at.since(START)
    }

    /// The calls, for the script's own thread: one that waits moves virtual time on.
    pub(super) fn sockets(&self) -> impl Sockets + use<> {
        Door { inner: self.inner.clone(), elsewhere: false }
    }

    /// The engine itself.
    pub(super) fn engine(&self) -> impl DerefMut<Target = Engine> + '_ {
        lock(&self.inner.engine)
    }

    /// Lets everything happen that happens at this moment.
    pub(super) fn settle(&self) {
        self.inner.settle(true);
    }

    /// Moves time to `to`, timer by timer.
    pub(super) fn advance(&self, to: Duration) {
        self.inner.advance(START + to, true, || false);
    }

    /// Moves time on until the stack has sent something, to `to` at most; has it?
    pub(super) fn advance_to_packet(&self, to: Duration) -> bool {
        self.inner.settle(true);
        let sent = || !self.wire.lock().outbound.is_empty();
        self.inner.advance(START + to, true, sent);
        sent()
    }

    /// Begins a call that may wait; the script goes on as soon as it does.
    pub(super) fn start<R: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Sockets) -> R + Send + 'static,
    ) -> std::io::Result<Pending<R>> {
        let inner = self.inner.clone();
        *lock(&inner.baton) = Baton::Call;
        let door = Door { inner: inner.clone(), elsewhere: true };
        let thread = std::thread::Builder::new().name("drill-call".into()).spawn(move || {
            let result = call(&door);
            let at = door.inner.time.now();
            *lock(&door.inner.baton) = Baton::Script;
            door.inner.turned.notify_all();
            (result, at)
        });
        if thread.is_err() {
            *lock(&inner.baton) = Baton::Script;
        }
        let pending = Pending { thread: thread?, inner };
        pending.inner.wait_for_call();
        self.settle();
        Ok(pending)
    }
}

impl<R> Pending<R> {
    /// Has it returned?
    pub(super) fn is_done(&self) -> bool {
        *lock(&self.inner.baton) == Baton::Script
    }

    /// Makes it return if it has not, and gives what it returned and when.
    pub(super) fn finish(self) -> Option<(R, Duration)> {
        {
            let mut baton = lock(&self.inner.baton);
            if *baton != Baton::Script {
                *baton = Baton::Abandon;
                self.inner.turned.notify_all();
            }
        }
        let (result, at) = self.thread.join().ok()?;
        Some((result, at.since(START)))
    }
}

impl Inner {
    /// Turns the stack until it has nothing more to do now.
    fn settle(&self, lend: bool) {
        for _ in 0..ROUNDS_MAX {
            let turn = lock(&self.engine).turn().unwrap_or_default();
            let called = lend && self.lend();
            let due = lock(&self.engine).core().next_timeout().is_some_and(|at| at <= self.time.now());
            if !(turn.more || turn.received > 0 || turn.timers > 0 || due || called) {
                return;
            }
        }
    }

    /// Timer by timer to `to`, or until `enough`.
    fn advance(&self, to: Instant, lend: bool, enough: impl Fn() -> bool) {
        loop {
            self.settle(lend);
            if enough() || self.time.now() >= to {
                return;
            }
            let stack = lock(&self.engine).core().next_timeout();
            let call = match *lock(&self.baton) {
                Baton::Waiting(until) => until,
                _ => None,
            };
            let next = Instant::earliest(stack, call).map_or(to, |at| at.min(to));
            self.time.set(next.max(self.time.now()));
        }
    }

    /// Lets the other thread look at the engine; did it return?
    fn lend(&self) -> bool {
        let mut baton = lock(&self.baton);
        if !matches!(*baton, Baton::Waiting(_)) {
            return false;
        }
        *baton = Baton::Call;
        self.turned.notify_all();
        drop(baton);
        self.wait_for_call();
        *lock(&self.baton) == Baton::Script
    }

    /// Until the other thread waits or is done.
    fn wait_for_call(&self) {
        let mut baton = lock(&self.baton);
        while *baton == Baton::Call {
            baton = self.turned.wait(baton).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The other thread waits for its turn; false if it must return.
    fn park(&self, until: Option<Instant>) -> bool {
        let mut baton = lock(&self.baton);
        if *baton != Baton::Abandon {
            *baton = Baton::Waiting(until);
        }
        self.turned.notify_all();
        while matches!(*baton, Baton::Waiting(_)) {
            baton = self.turned.wait(baton).unwrap_or_else(PoisonError::into_inner);
        }
        *baton == Baton::Call
    }
}

impl Mode for Door {
    type Below = Core;

    fn lock(&self) -> impl DerefMut<Target = Engine> {
        lock(&self.inner.engine)
    }

    fn wait_for<R>(
        &self,
        _on: Option<sock::Fd>,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Engine) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let inner = &*self.inner;
        let deadline = timeout.map(|time| inner.time.now() + time);
        let give_up = inner.time.now() + FOR_EVER;
        loop {
            match attempt(&mut lock(&inner.engine)) {
                Err(Errno::EAGAIN) => {}
                result => return result,
            }
            if deadline.is_some_and(|at| at <= inner.time.now()) {
                return Err(Errno::EAGAIN);
            }
            if self.elsewhere {
                if !inner.park(deadline) {
                    return Err(Errno::EINTR);
                }
                continue;
            }
            // The script's own thread waits: nothing but timers can help it.
            inner.settle(true);
            let next = lock(&inner.engine).core().next_timeout();
            match Instant::earliest(next, deadline) {
                Some(at) if at < give_up => inner.time.set(at.max(inner.time.now())),
                _ => return Err(Errno::EINTR),
            }
            inner.settle(true);
        }
    }

    fn attempt<R>(&self, mut attempt: impl FnMut(&mut Engine) -> Result<R, Errno>) -> Result<R, Errno> {
        attempt(&mut lock(&self.inner.engine))
    }

    fn refresh(&self) -> Result<(), Errno> {
        if !self.elsewhere {
            self.inner.settle(false);
        }
        Ok(())
    }

    fn look(&self, look: Box<dyn FnOnce(&mut Engine) + Send + '_>) {
        look(&mut lock(&self.inner.engine));
    }
}
