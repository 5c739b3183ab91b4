//! Time, the stack, and the calls that wait: one thread runs, whatever the script does.
//!
//! A blocking call of a script runs on a thread of its own, through the very API that programs use. The two threads
//! never run at once: the script's hands over after each turn of the stack, and waits until the other waits again
//! or is done. So a run repeats exactly.
//!
//! Where both threads belong to the application (the plug-in for the original tool), each comes in through
//! [`World::script`] or [`World::elsewhere`], and the same holds while they are in.

use super::port::{ScriptPort, Shared, Time};
use base::{Duration, Instant};
use sock::syscalls::Mode;
use sock::{Engine, Errno, Limits, Sockets};
use stack::{Core, CoreConfig};
use std::ops::DerefMut;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// When a run begins; not at zero, so that nothing lies before time.
pub const START: Instant = Instant::from_secs(1_000);
/// A call that nothing will ever wake is given up after this time.
const FOR_EVER: Duration = Duration::from_secs(100_000);
/// Rounds of the stack in one moment of virtual time; a stack that needs more does not come to rest.
const ROUNDS_MAX: usize = 100_000;
/// A call that waits asks after so long, on the machine's clock, whether the script's thread waits for it.
const LONELY_AFTER: Duration = Duration::from_millis(10);

/// State that the two threads share.
struct Inner {
    engine: Mutex<Engine>,
    time: Time,
    /// The other thread, if a blocking call runs there.
    baton: Mutex<Baton>,
    turned: Condvar,
    /// Held by the script's thread while it is in here, where threads come and go.
    gate: Mutex<()>,
}

/// Thread that may run.
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
pub struct World {
    inner: Arc<Inner>,
    /// The wire at the stack's port.
    pub(super) wire: Shared,
}

/// Keeps the other thread from running, until it is dropped.
pub struct Inside<'a> {
    _gate: MutexGuard<'a, ()>,
}

/// Caller of a socket API.
#[derive(Clone, Copy)]
enum Caller<'a> {
    /// The script's own thread: if it waits, nothing but timers can help it.
    Script,
    /// Another thread: the script's own lets it look again.
    Elsewhere,
    /// Another thread, and the script's own may wait for it instead of moving time on: is it asleep out there?
    Guest(&'a (dyn Fn() -> bool + Sync)),
}

/// The API, for one of the two threads.
struct CallerSockets<'a> {
    inner: Arc<Inner>,
    caller: Caller<'a>,
}

/// Gives the baton back, even when the call panics.
struct Returning<'a>(&'a Inner);

impl Drop for Returning<'_> {
    fn drop(&mut self) {
        *lock(&self.0.baton) = Baton::Script;
        self.0.turned.notify_all();
    }
}

/// A blocking call that has not returned.
pub(super) struct Pending<R> {
    thread: std::thread::JoinHandle<(R, Instant)>,
    inner: Arc<Inner>,
}

impl World {
    /// A stack on a port of this MTU; `whole` lets super-segments through uncut.
    ///
    /// # Errors
    /// No memory for the port's frames.
    pub fn new(config: CoreConfig, mtu: usize, whole: bool) -> std::io::Result<World> {
        let (time, wire) = (Time::default(), Shared::default());
        time.set(START);
        wire.lock().whole = whole;
        let port = ScriptPort::new(mtu, wire.clone(), time.clone())?;
        let limits = Limits { descriptors: 4_096, spin: Duration::ZERO };
        let engine = Engine::new(Core::new(config, Box::new(port)), Box::new(time.clone()), limits);
        let baton = Mutex::new(Baton::Script);
        let inner = Arc::new(Inner {
            engine: Mutex::new(engine),
            time,
            baton,
            turned: Condvar::new(),
            gate: Mutex::new(()),
        });
        Ok(World { inner, wire })
    }

    /// Since the run began.
    pub fn now(&self) -> Duration {
        self.inner.time.now().since(START)
    }

    /// A date of the port's, as time since the run began.
    pub(super) fn since_start(at: Instant) -> Duration {
        at.since(START)
    }

    /// The calls, for the script's own thread: one that waits moves virtual time on.
    pub fn sockets(&self) -> impl Sockets + use<> {
        CallerSockets { inner: self.inner.clone(), caller: Caller::Script }
    }

    /// The engine itself.
    pub fn engine(&self) -> impl DerefMut<Target = Engine> + '_ {
        lock(&self.inner.engine)
    }

    /// Lets everything happen that happens at this moment.
    pub fn settle(&self) {
        self.inner.settle(true);
    }

    /// Moves time to `to`, timer by timer.
    pub fn advance(&self, to: Duration) {
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
        let sockets = CallerSockets { inner: inner.clone(), caller: Caller::Elsewhere };
        let thread = std::thread::Builder::new().name("drill-call".into()).spawn(move || {
            let _returning = Returning(&sockets.inner);
            let result = call(&sockets);
            (result, sockets.inner.time.now())
        });
        if thread.is_err() {
            *lock(&inner.baton) = Baton::Script;
        }
        let pending = Pending { thread: thread?, inner };
        pending.inner.wait_for_call();
        self.settle();
        Ok(pending)
    }

    // --- threads that come and go ------------------------------------------------------------------------------

    /// The script's thread comes in; it waits until a call elsewhere waits or is done.
    pub fn script(&self) -> Inside<'_> {
        let gate = lock(&self.inner.gate);
        self.inner.wait_for_call();
        Inside { _gate: gate }
    }

    /// A call on another thread, which sleeps while it waits. If `asleep` says that the script's thread sleeps too,
    /// out there, the call moves time on by itself: nothing else will. `None` if another call is on its way.
    pub fn elsewhere<R>(
        &self,
        asleep: &(dyn Fn() -> bool + Sync),
        call: impl FnOnce(&dyn Sockets) -> R,
    ) -> Option<R> {
        let gate = lock(&self.inner.gate);
        {
            let mut baton = lock(&self.inner.baton);
            if *baton != Baton::Script {
                return None;
            }
            *baton = Baton::Call;
        }
        drop(gate);
        let _returning = Returning(&self.inner);
        let sockets = CallerSockets { inner: self.inner.clone(), caller: Caller::Guest(asleep) };
        let result = call(&sockets);
        self.inner.settle(false);
        Some(result)
    }

    /// Gives the running stack other settings.
    ///
    /// # Errors
    /// Says that there is no such congestion control.
    pub fn set(&self, config: &CoreConfig) -> Result<(), String> {
        let mut engine = self.engine();
        engine.core().set_config(config.tcp.clone());
        let chosen = engine.core().controls().set_default(config.control);
        chosen.map_err(|e| format!("the congestion control: {e:?}"))
    }

    /// A packet arrives at the stack's port; with the payload of each segment of the wire where a driver has merged
    /// several, or 0.
    pub fn inject(&self, packet: Vec<u8>, merged: u16) {
        self.wire.lock().inbound.push_back((packet, merged));
        self.settle();
    }

    /// Takes the packets that the stack has sent, with the times at which they left.
    pub fn take_sent(&self) -> Vec<(Duration, Vec<u8>)> {
        let sent = std::mem::take(&mut self.wire.lock().outbound);
        sent.into_iter().map(|(at, packet)| (Self::since_start(at), packet)).collect()
    }

    /// Returns the date of the stack's next timer, as time since the run began.
    pub fn next_timeout(&self) -> Option<Duration> {
        self.inner.next_date().map(Self::since_start)
    }

    /// The next packet that the stack sends, and when it left. Time goes on from timer to timer as far as it takes;
    /// `None` if no timer will send one.
    pub fn next_packet(&self) -> Option<(Duration, Vec<u8>)> {
        let limit = self.inner.time.now() + FOR_EVER;
        loop {
            self.settle();
            if let Some((at, packet)) = self.wire.lock().outbound.pop_front() {
                return Some((Self::since_start(at), packet));
            }
            let next = self.inner.next_date().filter(|at| *at < limit)?;
            self.inner.time.set(next.max(self.inner.time.now()));
        }
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
            if !(turn.has_news() || due || called) {
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
            let next = self.next_date().map_or(to, |at| at.min(to));
            self.time.set(next.max(self.time.now()));
        }
    }

    /// When a timer of the stack, or the timeout of the call elsewhere, runs out.
    fn next_date(&self) -> Option<Instant> {
        let stack = lock(&self.engine).core().next_timeout();
        let call = match *lock(&self.baton) {
            Baton::Waiting(until) => until,
            _ => None,
        };
        Instant::earliest(stack, call)
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
    fn park(&self, until: Option<Instant>, caller: Caller<'_>) -> bool {
        let mut baton = lock(&self.baton);
        if *baton != Baton::Abandon {
            *baton = Baton::Waiting(until);
        }
        self.turned.notify_all();
        while matches!(*baton, Baton::Waiting(_)) {
            let Caller::Guest(asleep) = caller else {
                baton = self.turned.wait(baton).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let (guard, timer) =
                self.turned.wait_timeout(baton, LONELY_AFTER).unwrap_or_else(PoisonError::into_inner);
            drop(guard);
            if timer.timed_out() && asleep() {
                self.go_on_alone();
            }
            baton = lock(&self.baton);
        }
        *baton == Baton::Call
    }

    /// Nothing moves time on: the waiting call does, to the next date, and looks again.
    fn go_on_alone(&self) {
        let Ok(_gate) = self.gate.try_lock() else { return };
        let Some(next) = self.next_date().filter(|at| at.since(self.time.now()) < FOR_EVER) else { return };
        let mut baton = lock(&self.baton);
        if matches!(*baton, Baton::Waiting(_)) {
            *baton = Baton::Call;
            drop(baton);
            self.time.set(next.max(self.time.now()));
            self.settle(false);
        }
    }
}

impl Mode for CallerSockets<'_> {
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
            if !matches!(self.caller, Caller::Script) {
                if !inner.park(deadline, self.caller) {
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
        if matches!(self.caller, Caller::Script) {
            self.inner.settle(false);
        }
        Ok(())
    }

    fn look(&self, look: Box<dyn FnOnce(&mut Engine) + Send + '_>) {
        look(&mut lock(&self.inner.engine));
    }
}
