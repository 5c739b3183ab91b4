//! The runner of a core: which thread turns it, and how the waiting threads sleep.
//!
//! One thread at a time *leads* (`lead`): it turns the core and sleeps on the port's descriptors, without the lock.
//! Others that wait follow: they sleep on bells of their own and are rung when something happens to what they wait
//! for. While the leader sleeps, calls that have something to send turn the core themselves, and ring the leader if a
//! timeout comes nearer by that.
//!
//! The modes differ in the leader:
//!
//! | | leads |
//! |---|---|
//! | direct | a thread that waits in a call; while none does, after a while, the `watchdog` |
//! | the same, in an event loop of the application | the loop, as a guest (`external_loop`) |
//! | paired, the stack's side | the stack thread, for good (`pinned`) |
//! | paired, the application's side | a thread that waits in a call: it sleeps on the queues' doorbell |
//! | the same, where both share one CPU | that thread leads the stack's side, too (`deputy`) |
//!
//! A leader that only ever wakes the same other thread makes way for it (`handoff`).

pub(crate) mod deputy;
mod external_loop;
mod handoff;
mod lead;
mod machine;
mod park;
mod pinned;
#[cfg(test)]
mod tests;
pub(crate) mod watchdog;
mod watchdog_interval;

use crate::Errno;
use crate::engine::Engine;
use crate::engine::waiting::Waiting;
use crate::sockets::{EpollEvent, EpollOp, Fd};
use crate::syscalls::Mode;
use crate::transport::Transport as _;
use base::{Duration, Endpoint, Instant};
pub use external_loop::ExternalLoop;
use handoff::Handoff;
use lead::{Alarm, Lead, Rank, Ticket};
pub use machine::Machine;
pub(crate) use machine::STALE;
use machine::or_down;
pub use park::{Park, Threads, Woken, bell, keep_bell, kept_bell, sleep};
pub use pinned::PinnedLeader;
use pio::Role;
pub use ring::{Nap, Sleeper};
use stack::Row;
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use tcp::State;
use watchdog_interval::Watchdog;

/// Longest sleep of the leader: an interface that went away wakes no thread.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Longest sleep on a port that has nothing to sleep on, or that is down.
const LOOK_SOON: Duration = Duration::from_millis(20);
/// Longest sleep of a thread that cannot be rung: a process that is at its limit of descriptors waits nevertheless, as
/// a blocking call of the kernel's does.
const LOOK_WITHOUT_BELL: Duration = Duration::from_millis(1);
/// How often a leader that does not sleep yields to threads that want the lock, before it sleeps for them.
const YIELDS: u32 = 100;
/// How long it sleeps then.
const YIELD_SLEEP: Duration = Duration::from_micros(50);

/// How a wait ended that did not bring what was waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// One of the program's own descriptors may be ready.
    Beside,
    /// The time was up.
    Time,
    /// A signal.
    Signal,
    /// An error of the stack.
    Failed(Errno),
}

/// A call's try, which is repeated while it gives EAGAIN.
pub type Attempt<'a, M, R> = &'a mut dyn FnMut(&mut Engine<<M as Machine>::Below>) -> Result<R, Errno>;

/// A sleep on descriptors, for at most a time, and on what else the caller likes.
pub type Sleep<'a> = &'a mut dyn FnMut(&[RawFd], Option<Duration>) -> Woken;

struct Shared<M> {
    machine: M,
    lead: Lead,
}

/// Sockets whose calls turn what is below them.
pub struct Runner<M: Machine = Engine> {
    shared: Mutex<Shared<M>>,
    /// Threads that wait for the lock.
    wanted: AtomicU32,
    park: Box<dyn Park>,
    watchdog: Watchdog,
}

/// The engine, lent. What was changed while the leader sleeps takes effect when this is dropped.
struct Guard<'r, M: Machine> {
    shared: MutexGuard<'r, Shared<M>>,
    touched: bool,
}

impl<M: Machine> Deref for Guard<'_, M> {
    type Target = Engine<M::Below>;
    fn deref(&self) -> &Engine<M::Below> {
        self.shared.machine.engine()
    }
}

impl<M: Machine> DerefMut for Guard<'_, M> {
    fn deref_mut(&mut self) -> &mut Engine<M::Below> {
        self.touched = true;
        self.shared.machine.engine_mut()
    }
}

impl<M: Machine> Drop for Guard<'_, M> {
    fn drop(&mut self) {
        if self.touched {
            self.shared.turn_for_leader();
        }
    }
}

impl<M: Machine> Shared<M> {
    fn engine(&mut self) -> &mut Engine<M::Below> {
        self.machine.engine_mut()
    }

    /// Applies the changes of a call while the leader sleeps: turns the core in its place, and wakes it if the next
    /// timeout comes nearer. Returns true if anything happened.
    fn turn_for_leader(&mut self) -> bool {
        if self.lead.sleeper().is_none() {
            return false;
        }
        let Shared { machine, lead } = self;
        // An error of the port is told to a thread that waits next.
        let turned = match catch_unwind(AssertUnwindSafe(|| machine.turn())) {
            Ok(turned) => turned,
            Err(panic) => {
                lead.end();
                resume_unwind(panic);
            }
        };
        lead.hurry(machine.next_timeout(), machine.engine().time());
        turned.is_ok_and(|done| done.has_news())
    }
}

/// The stack, held across a fork: in the child no thread is inside it.
pub struct Still<'r, M: Machine = Engine> {
    _shared: MutexGuard<'r, Shared<M>>,
}

/// A thread that waits.
struct Waiter {
    rank: Rank,
    ticket: Option<Ticket>,
    deadline: Option<Instant>,
    /// It looks for packets for a while before it sleeps.
    polls: bool,
    handoff: Handoff,
    /// A watchdog looks after a lead that is free: a leader may make way.
    watched: bool,
    /// It has made way and was not woken since.
    excused: bool,
    /// It led, and a timeout ended its sleep that has brought nothing so far.
    in_vain: bool,
}

impl Waiter {
    fn new(rank: Rank, polls: bool) -> Waiter {
        let handoff = Handoff::default();
        let (ticket, deadline) = (None, None);
        Waiter { rank, ticket, deadline, polls, handoff, watched: false, excused: false, in_vain: false }
    }

    /// Takes the lead if it is free; a leader may pass it to a thread that was just woken. Returns
    /// true if this thread leads.
    fn claim(&mut self, lead: &mut Lead, waiting: &mut Waiting) -> bool {
        if lead.is_held_by(self.ticket) {
            let rung = waiting.take_rung();
            if self.watched && self.handoff.on_rung(rung) && waiting.has_woken() {
                self.excused = lead.leave(self.ticket);
            }
            return !self.excused;
        }
        if !self.excused
            && let Some(ticket) = lead.claim(self.rank)
        {
            // What was rung before was another's doing.
            waiting.take_rung();
            (self.ticket, self.handoff) = (Some(ticket), Handoff::default());
            return true;
        }
        false
    }
}

impl Runner {
    /// Direct mode: the calling threads turn the core of `engine`, and signals end no call.
    ///
    /// # Errors
    /// There is no thread to be had for the watchdog.
    pub fn start(engine: Engine) -> std::io::Result<Arc<Runner>> {
        Runner::start_with(engine, Box::new(Threads))
    }

    /// Direct mode for a program whose threads sleep as `park` says, and with a watchdog that keeps acknowledgments and
    /// timers going while the program computes.
    ///
    /// # Errors
    /// There is no thread to be had for the watchdog.
    pub fn start_with(engine: Engine, park: Box<dyn Park>) -> std::io::Result<Arc<Runner>> {
        let runner = Arc::new(Runner::new(engine, park));
        watchdog::start(&runner)?;
        Ok(runner)
    }

    /// Returns TCP's counters, by name.
    pub fn tcp_counters(&self) -> Vec<(&'static str, u64)> {
        let values = self.shared().machine.core.tcp_counters().values();
        tcp::Counters::ROWS.iter().map(|row| row.0).zip(values).collect()
    }

    /// See [`stack::Core::set_role`].
    ///
    /// # Errors
    /// EINVAL for what does not listen, EBADF.
    pub fn set_role(&self, fd: Fd, role: Role) -> Result<(), Errno> {
        let mut shared = self.shared();
        let now = shared.machine.time();
        let id = shared.machine.listener(fd)?;
        shared.machine.core.set_role(now, id, role);
        Ok(())
    }

    /// See [`stack::Core::hand_over_all`].
    pub fn hand_over_all(&self) -> bool {
        let mut shared = self.shared();
        let now = shared.machine.time();
        shared.machine.core.hand_over_all(now)
    }

    /// Is there a connection that was shut whose peer has not acknowledged everything?
    pub fn has_unsent(&self) -> bool {
        let shared = self.shared();
        let (mut any, now) = (false, shared.machine.time());
        shared.machine.core.for_each(now, &mut |row| {
            if let Row::Connection(tcp) = row {
                let over = matches!(tcp.state(), State::Closed | State::FinWait2);
                any |= tcp.write_closed() && !over;
            }
        });
        any
    }
}

impl<M: Machine> Runner<M> {
    /// Nothing at all happens between calls: without a watchdog, or for a machine that has a leader of its own.
    pub fn new(machine: M, park: Box<dyn Park>) -> Runner<M> {
        let shared = Mutex::new(Shared { machine, lead: Lead::default() });
        Runner { shared, wanted: AtomicU32::new(0), park, watchdog: Watchdog::default() }
    }

    fn shared(&self) -> MutexGuard<'_, Shared<M>> {
        self.try_shared().unwrap_or_else(|| {
            self.wanted.fetch_add(1, Ordering::Relaxed);
            let guard = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            self.wanted.fetch_sub(1, Ordering::Relaxed);
            guard
        })
    }

    fn try_shared(&self) -> Option<MutexGuard<'_, Shared<M>>> {
        match self.shared.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Lets threads that want the lock have it first: unlocking and locking again would mostly win it right back.
    fn yield_to_others(&self) {
        let mut rounds = 0;
        while self.wanted.load(Ordering::Relaxed) > 0 {
            rounds += 1;
            if rounds < YIELDS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(YIELD_SLEEP);
            }
        }
    }

    /// `thread` looks after the core from time to time ([`watchdog::run`]).
    pub(crate) fn begin_watchdog(&self, thread: &std::thread::Thread) {
        self.watchdog.begin(thread);
    }

    /// The thread that looks after the core does at once.
    pub(crate) fn wake_watchdog(&self) {
        self.watchdog.wake();
    }

    /// The machine, as it is.
    pub(crate) fn with<R>(&self, with: impl FnOnce(&mut M) -> R) -> R {
        with(&mut self.shared().machine)
    }

    /// No other thread is inside while this is held. `None` if a thread is, and that is not to be waited for: it may
    /// be the frame that a handler of a signal has interrupted.
    pub fn still(&self, wait: bool) -> Option<Still<'_, M>> {
        let shared = if wait { Some(self.shared()) } else { self.try_shared() };
        shared.map(|shared| Still { _shared: shared })
    }

    /// One turn: what the program wrote leaves, what arrived is seen.
    ///
    /// # Errors
    /// The port is gone.
    pub fn turn(&self) -> Result<(), Errno> {
        self.after_turn(|_| ())
    }

    /// One turn, and then a look.
    ///
    /// # Errors
    /// The port is gone.
    pub fn after_turn<R>(&self, look: impl FnOnce(&mut Engine<M::Below>) -> R) -> Result<R, Errno> {
        let mut shared = self.shared();
        or_down(shared.machine.turn())?;
        Ok(look(shared.engine()))
    }

    /// [`Sockets::epoll_ctl`](crate::Sockets::epoll_ctl) for a program with numbers of its own: `number` is what it
    /// calls the descriptor, and each number of a socket is a registration of its own.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn epoll_ctl_as(&self, epfd: Fd, fd: Fd, number: Fd, op: EpollOp) -> Result<(), Errno> {
        Mode::lock(self).epoll_ctl_as(epfd, fd, number, op)
    }

    /// Adds a one-shot registration whose event was told by another set: it waits to be modified.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn epoll_add_fired(&self, epfd: Fd, fd: Fd, number: Fd, event: EpollEvent) -> Result<(), Errno> {
        Mode::lock(self).epoll_add_fired(epfd, fd, number, event)
    }

    /// The numbers under which a set watches a socket, each with what was asked for, and true for a one-shot
    /// registration that has fired.
    ///
    /// # Errors
    /// EBADF, EINVAL if it is no epoll set.
    pub fn epoll_watches(&self, epfd: Fd, fd: Fd) -> Result<Vec<(Fd, EpollEvent, bool)>, Errno> {
        Mode::lock(self).epoll_watches(epfd, fd)
    }

    /// The address that a socket without a connection is bound to, if it is; `None` if it has a connection or listens.
    pub fn apart(&self, fd: Fd) -> Option<Option<Endpoint>> {
        Mode::lock(self).apart(fd)
    }

    /// Returns true if [`stack::Core::is_used`] does, or, for IPv4's unspecified address, if an IPv6 socket that takes
    /// IPv4 as well has a connection over IPv6 at the port: then Linux binds nothing there either.
    pub fn is_used(&self, local: Endpoint, v6_only: bool) -> bool {
        Mode::lock(self).is_used(local, v6_only)
    }

    /// Returns true of a socket that was never bound, whose connection was refused, reset or closed.
    pub fn is_over(&self, fd: Fd) -> bool {
        Mode::lock(self).is_over(fd)
    }

    /// Repeats `attempt` while it gives EAGAIN, until `timeout` is over; `sleep` sleeps on the descriptors that it is
    /// given and on what else it likes. `on` is the descriptor that it waits for, or `None` for several.
    ///
    /// # Errors
    /// The cause that ended the wait; an error of `attempt` is [`Ended::Failed`].
    pub fn wait_beside<R>(
        &self,
        on: Option<Fd>,
        timeout: Option<Duration>,
        sleep: Sleep<'_>,
        attempt: Attempt<'_, M, R>,
    ) -> Result<R, Ended> {
        let mut waiter = Waiter { watched: self.watchdog.is_there(), ..Waiter::new(Rank::Thread, true) };
        let result = self.wait_loop(&mut waiter, on, timeout, sleep, attempt);
        self.leave(&waiter, result.is_ok());
        self.watchdog.application_is_back();
        result
    }

    /// Ends the leadership of a thread that waits no more. A thread that found what it waited for is expected back
    /// soon: a thread that made way before does not take over.
    fn leave(&self, waiter: &Waiter, found: bool) {
        if waiter.ticket.is_none() {
            return;
        }
        let mut shared = self.shared();
        if shared.lead.leave(waiter.ticket) {
            shared.machine.leave();
            let waiting = &mut shared.engine().waiting;
            if found { waiting.wake_willing() } else { waiting.wake_any() }
        }
    }

    /// The wait of a call on nothing but the stack, which goes on after some signals or after none.
    fn wait_as<R>(
        &self,
        on: Option<Fd>,
        timeout: Option<Duration>,
        restarts: bool,
        attempt: Attempt<'_, M, R>,
    ) -> Result<R, Errno> {
        let anew = Cell::new(false);
        let mut sleep = |fds: &[RawFd], left| {
            let woken = self.park.sleep(fds, left, restarts);
            anew.set(anew.get() || woken == Woken::Restart);
            woken
        };
        // A call that is made anew waits no more if its socket does not block by now.
        let mut attempt = |engine: &mut Engine<M::Below>| {
            engine.anew = anew.take();
            let done = attempt(engine);
            let is_anew = std::mem::take(&mut engine.anew);
            match done {
                Err(Errno::EAGAIN) if is_anew && on.is_some_and(|fd| engine.nonblocking(fd) == Ok(true)) => {
                    Ok(None)
                }
                done => done.map(Some),
            }
        };
        let done = self.wait_beside(on, timeout, &mut sleep, &mut attempt).map_err(|ended| match ended {
            Ended::Time | Ended::Beside => Errno::EAGAIN,
            Ended::Signal => Errno::EINTR,
            Ended::Failed(errno) => errno,
        })?;
        done.ok_or(Errno::EAGAIN)
    }

    /// The wait of all threads: attempts; turns the core if this thread leads; sleeps.
    fn wait_loop<R>(
        &self,
        waiter: &mut Waiter,
        on: Option<Fd>,
        timeout: Option<Duration>,
        sleep: Sleep<'_>,
        attempt: Attempt<'_, M, R>,
    ) -> Result<R, Ended> {
        loop {
            let mut shared = self.shared();
            shared.machine.begin();
            let tried = attempt(shared.engine());
            // Part of what was asked for may be done.
            let turned = !shared.lead.is_held_by(waiter.ticket) && shared.turn_for_leader();
            match tried {
                Err(Errno::EAGAIN) if shared.engine().core.is_over() => {
                    return Err(Ended::Failed(Errno::ENETDOWN));
                }
                Err(Errno::EAGAIN) if turned => continue,
                Err(Errno::EAGAIN) => {}
                Err(errno) => return Err(Ended::Failed(errno)),
                Ok(done) => return Ok(done),
            }
            if waiter.deadline.is_none() {
                waiter.deadline = timeout.map(|t| shared.engine().time() + t);
            }
            let Shared { machine, lead } = &mut *shared;
            let leads = waiter.claim(lead, &mut machine.engine_mut().waiting);
            if lead.rank().is_none() {
                machine.leave();
            }
            if leads {
                let engine = machine.engine_mut();
                if engine.load.is_asleep() {
                    engine.load.on_wake(engine.time());
                }
                let done = or_down(machine.turn()).map_err(Ended::Failed)?;
                if done.has_news() {
                    let engine = machine.engine_mut();
                    engine.busy_poll.on_work(engine.now(), done.received > 0);
                    waiter.in_vain = false;
                    drop(shared);
                    self.yield_to_others();
                    continue;
                }
            }
            let engine = machine.engine_mut();
            let now = engine.time();
            if waiter.deadline.is_some_and(|at| at <= now) {
                return Err(Ended::Time);
            }
            if leads && waiter.polls {
                if engine.busy_poll.on_nothing(now) > now {
                    engine.load.on_spin(now - engine.now());
                    drop(shared);
                    std::hint::spin_loop();
                    self.yield_to_others();
                    continue;
                }
                engine.busy_poll.on_sleep(now);
            }
            match self.sleep(shared, waiter, on, sleep) {
                Ok(Woken::Stack | Woken::Restart) => {}
                Ok(Woken::Beside) => return Err(Ended::Beside),
                Ok(Woken::Signal) => return Err(Ended::Signal),
                Err(errno) => return Err(Ended::Failed(errno)),
            }
        }
    }

    /// Sleeps without the lock: on the port if this thread leads, on its own bell in any case.
    fn sleep(
        &self,
        shared: MutexGuard<'_, Shared<M>>,
        waiter: &mut Waiter,
        on: Option<Fd>,
        sleep: Sleep<'_>,
    ) -> Result<Woken, Errno> {
        let Some(mut bell) = self.park.bell() else {
            let left = waiter.deadline.map(|at| at.since(shared.machine.engine().time()));
            drop(shared);
            let most = left.map_or(LOOK_WITHOUT_BELL, |left| left.min(LOOK_WITHOUT_BELL));
            return Ok(sleep(&[], Some(most)));
        };
        let woken = self.sleep_with(shared, waiter, on, sleep, &mut bell);
        self.park.keep(bell);
        woken
    }

    fn sleep_with(
        &self,
        mut shared: MutexGuard<'_, Shared<M>>,
        waiter: &mut Waiter,
        on: Option<Fd>,
        sleep: Sleep<'_>,
        bell: &mut Sleeper,
    ) -> Result<Woken, Errno> {
        let Shared { machine, lead } = &mut *shared;
        let object = on.map(|fd| machine.engine().index(fd)).transpose()?;
        let mut fds = vec![bell.fd().as_raw_fd()];
        let mut until = waiter.deadline;
        let leader = waiter.ticket.filter(|_| lead.is_held_by(waiter.ticket));
        if leader.is_some() && !machine.arm(&mut fds).map_err(|_| Errno::ENETDOWN)? {
            return Ok(Woken::Stack);
        }
        let now = machine.engine().time();
        if leader.is_some() {
            let slice = if fds.len() == 1 { LOOK_SOON } else { LOOK_AGAIN };
            // A timeout that is taken back must be told anew when another thread sends, which wakes us then: it is
            // looked for only where the last one woke us for nothing.
            let next = if waiter.in_vain { machine.revised_timeout(now) } else { machine.next_timeout() };
            until = Instant::earliest(until, Instant::earliest(next, Some(now + slice)));
        }
        let left = until.map(|at| at.since(now));
        if left == Some(Duration::ZERO) {
            if leader.is_some() {
                machine.disarm();
            }
            return Ok(Woken::Stack);
        }
        let engine = machine.engine_mut();
        let row = engine.waiting.add(object, bell.ringer());
        if waiter.excused {
            engine.waiting.excuse(row);
        }
        if let Some(ticket) = leader {
            engine.load.on_sleep(now);
            lead.sleep(ticket, until, Alarm::Bell(bell.ringer()));
        }
        drop(shared);
        let woken = sleep(&fds, left);
        bell.drain();
        let mut shared = self.shared();
        let Shared { machine, lead } = &mut *shared;
        let engine = machine.engine_mut();
        if engine.waiting.remove(row) {
            waiter.excused = false;
        }
        if lead.wake(waiter.ticket) {
            let now = engine.time();
            engine.load.on_wake(now);
            waiter.in_vain = until.is_some_and(|at| at <= now);
            machine.disarm();
        }
        Ok(woken)
    }
}

impl<M: Machine> Mode for Runner<M> {
    type Below = M::Below;

    fn lock(&self) -> impl DerefMut<Target = Engine<M::Below>> {
        let mut shared = self.shared();
        shared.machine.begin();
        Guard { shared, touched: false }
    }

    fn wait_for<R>(
        &self,
        on: Option<Fd>,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Engine<M::Below>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        self.wait_as(on, timeout, timeout.is_none(), &mut attempt)
    }

    fn wait_for_ready<R>(
        &self,
        on: Option<Fd>,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Engine<M::Below>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        self.wait_as(on, timeout, false, &mut attempt)
    }

    fn attempt<R>(
        &self,
        mut attempt: impl FnMut(&mut Engine<M::Below>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let mut guard = Guard { shared: self.shared(), touched: true };
        guard.shared.machine.begin();
        match attempt(&mut guard) {
            Err(Errno::EAGAIN) if guard.shared.machine.look_again() => attempt(&mut guard),
            result => result,
        }
    }

    fn refresh(&self) -> Result<(), Errno> {
        self.turn()
    }

    fn look(&self, look: Box<dyn FnOnce(&mut Engine) + Send + '_>) {
        self.shared().machine.look(look);
    }
}

impl<M: Machine> Drop for Runner<M> {
    fn drop(&mut self) {
        self.watchdog.wake();
    }
}
