//! Direct mode inside a program of the kernel's: whatever waits sleeps together with the program's own descriptors,
//! without the lock, and a signal can end it.
//!
//! One thread at a time *leads*: it turns the core and sleeps on the port's descriptors. Others that wait sleep on
//! bells of their own and are rung when something happens to what they wait for. While the leader sleeps, calls that
//! have something to send turn the core themselves, and ring the leader if a date comes nearer by that. While nothing
//! leads, a thread of ours does after a while (`watchdog`); a thread that comes takes the lead from it at once. An
//! event loop of the application leads as a guest (`outside`). A thread that relays leads for good (`standing`);
//! one that only ever wakes the same other thread makes way for it (`leader_handoff`).

mod external_loop;
mod leader_handoff;
mod pinned_leader;
#[cfg(test)]
mod tests;
mod watchdog;

use crate::Errno;
use crate::engine::Engine;
use crate::sockets::{EpollEvent, EpollOp, Fd};
use crate::syscalls::Mode;
use crate::waiting::Wake as Wakes;
use crate::watchdog_interval::Watchdog;
use base::{Duration, Endpoint, Instant};
pub use external_loop::ExternalLoop;
use leader_handoff::LeaderHandoff;
pub use pinned_leader::PinnedLeader;
use pio::{Beacon, IoError, Wake};
use ring::Ringer;
pub use ring::{Nap, Sleeper};
use stack::Row;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use tcp::State;

/// Longest sleep of the leader: an interface that went away wakes no thread.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Longest sleep on a port that has nothing to sleep on, or that is down.
const LOOK_SOON: Duration = Duration::from_millis(20);

/// Why a sleep ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Woken {
    /// Something for the stack, or time to look again.
    Stack,
    /// One of the program's own descriptors.
    Beside,
    /// A signal, and the call that sleeps is not to be continued.
    Signal,
}

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

/// How a thread sleeps in the kernel: until one of these descriptors can be read, or this time has passed. The first is
/// the thread's own bell; without one the sleep is short.
pub trait Host: Send + Sync {
    /// For a call that waits for nothing but the stack. `restarts` says whether it goes on after a signal whose handler
    /// asks for that: on Linux one with a time-out does not, nor one that asks which descriptors are ready.
    fn sleep(&self, fds: &[RawFd], timeout: Option<Duration>, restarts: bool) -> Woken;
    /// Prepares a thread of the library: signals go to the program's threads.
    fn shield_thread(&self);
    /// A bell for the calling thread, new or one that was kept; `None` if there is no descriptor for one.
    fn bell(&self) -> Option<Sleeper>;
    /// The bell is needed no more for now.
    fn keep(&self, bell: Sleeper);
}

/// A bell, for [`Host::bell`].
///
/// # Errors
/// There is no descriptor to be had.
pub fn bell() -> std::io::Result<Sleeper> {
    ring::doorbell().map(|(_, sleeper)| sleeper)
}

/// The longest sleep of a thread that cannot be rung.
const LOOK_WITHOUT_BELL: Duration = Duration::from_millis(1);

/// Returns the time until a thread looks again for which there is no bell: a process that is at its limit of
/// descriptors waits nevertheless, as a blocking call of the kernel's does.
pub(crate) fn without_bell(left: Option<Duration>) -> Duration {
    left.map_or(LOOK_WITHOUT_BELL, |left| left.min(LOOK_WITHOUT_BELL))
}

/// A sleep in poll(2), for [`Host::sleep`]: whether a signal ended it. What else it was, the stack sees for itself.
#[must_use]
pub fn sleep(fds: &[RawFd], timeout: Option<Duration>) -> Woken {
    match pio::sleep_on(fds, timeout) {
        Ok(Wake::Interrupted) => Woken::Signal,
        _ => Woken::Stack,
    }
}

/// Leadership: the thread that turns the core.
#[derive(Default)]
struct Lead {
    /// Ticket of who leads; 0 for none.
    holder: u64,
    tickets: u64,
    /// It is the thread of ours.
    ours: bool,
    /// It is an event loop of the application, which this wakes.
    loops: Option<Arc<Beacon>>,
    /// It leads for good, whether or not it waits at the moment.
    stands: bool,
    /// It sleeps: until when, and how it is rung.
    asleep: Option<(Option<Instant>, Ringer)>,
}

struct Shared {
    engine: Engine,
    lead: Lead,
}

/// Sockets of a program that has descriptors of the kernel's beside them.
pub struct Hosted {
    shared: Mutex<Shared>,
    host: Box<dyn Host>,
    watchdog: Watchdog,
}

/// The engine, lent. What was changed while the leader sleeps takes effect when this is dropped.
struct Guard<'h> {
    shared: MutexGuard<'h, Shared>,
    touched: bool,
}

impl Deref for Guard<'_> {
    type Target = Engine;
    fn deref(&self) -> &Engine {
        &self.shared.engine
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut Engine {
        self.touched = true;
        &mut self.shared.engine
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if self.touched {
            self.shared.turn_for_leader();
        }
    }
}

impl Shared {
    /// Applies the changes of a call while the leader sleeps: turns the core in its place, and wakes it if the next
    /// timeout comes nearer. Returns true if anything happened.
    fn turn_for_leader(&mut self) -> bool {
        let Shared { engine, lead } = self;
        let Some((until, ringer)) = &mut lead.asleep else { return false };
        // An error of the port is told to a thread that waits next.
        let turned = match catch_unwind(AssertUnwindSafe(|| engine.turn())) {
            Ok(turned) => turned,
            Err(panic) => {
                // The core is over, and its descriptors wake no thread any more.
                if lead.loops.as_ref().is_none_or(|beacon| beacon.set(Some(Duration::ZERO)).is_err()) {
                    ringer.ring_anyway();
                }
                resume_unwind(panic);
            }
        };
        let next = engine.core.next_timeout();
        if Instant::earliest(next, *until) != *until {
            let left = next.map(|at| at.since(engine.time()));
            if lead.loops.as_ref().is_some_and(|beacon| beacon.set(left).is_ok()) {
                *until = next;
            } else {
                ringer.ring_anyway();
                lead.asleep = None;
            }
        }
        turned.is_ok_and(|done| done.more || done.received > 0 || done.timers > 0)
    }
}

/// The stack, held by who forks: in the child no thread is inside it.
pub struct Still<'h> {
    _shared: MutexGuard<'h, Shared>,
}

/// A thread that waits.
#[derive(Default)]
struct Turn {
    ticket: u64,
    deadline: Option<Instant>,
    /// It takes the lead from a thread that has it, keeps it, and sleeps at once.
    stands: bool,
    leader_handoff: LeaderHandoff,
    /// It has made way and was not woken since.
    excused: bool,
    /// It led, and a date ended its sleep that has brought nothing so far.
    in_vain: bool,
}

impl Hosted {
    /// Sockets over an engine, with a thread of ours that keeps ACKs and timers going while the program computes.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(engine: Engine, host: Box<dyn Host>) -> std::io::Result<Arc<Hosted>> {
        let shared = Mutex::new(Shared { engine, lead: Lead::default() });
        let hosted = Arc::new(Hosted { shared, host, watchdog: Watchdog::default() });
        watchdog::start(&hosted)?;
        Ok(hosted)
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_shared(&self) -> Option<MutexGuard<'_, Shared>> {
        match self.shared.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// No other thread is inside while this is held. `None` if a thread is, and that is not to be waited for: it may
    /// be the frame that a handler of a signal has interrupted.
    pub fn still(&self, wait: bool) -> Option<Still<'_>> {
        let shared = if wait { Some(self.shared()) } else { self.try_shared() };
        shared.map(|shared| Still { _shared: shared })
    }

    /// One turn: what the program wrote leaves, what arrived is seen.
    ///
    /// # Errors
    /// The port is gone.
    pub fn turn(&self) -> Result<(), Errno> {
        match self.shared().engine.turn() {
            Ok(_) | Err(IoError::Down) => Ok(()),
            Err(_) => Err(Errno::ENETDOWN),
        }
    }

    /// One turn, and then a look.
    ///
    /// # Errors
    /// The port is gone.
    pub fn after_turn<R>(&self, look: impl FnOnce(&mut Engine) -> R) -> Result<R, Errno> {
        let mut shared = self.shared();
        match shared.engine.turn() {
            Ok(_) | Err(IoError::Down) => Ok(look(&mut shared.engine)),
            Err(_) => Err(Errno::ENETDOWN),
        }
    }

    /// [`Sockets::epoll_ctl`](crate::Sockets::epoll_ctl) for a program with numbers of its own: `number` is what it
    /// calls the descriptor, and each number of a socket is a registration of its own.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn epoll_ctl_as(&self, epfd: Fd, fd: Fd, number: Fd, op: EpollOp) -> Result<(), Errno> {
        Mode::lock(self).epoll_ctl_as(epfd, fd, number, op)
    }

    /// The numbers under which a set watches a socket, each with what was asked for.
    ///
    /// # Errors
    /// EBADF, EINVAL if it is no epoll set.
    pub fn epoll_watches(&self, epfd: Fd, fd: Fd) -> Result<Vec<(Fd, EpollEvent)>, Errno> {
        Mode::lock(self).epoll_watches(epfd, fd)
    }

    /// The address that a socket without a connection is bound to, if it is; `None` if it has a connection or listens.
    pub fn apart(&self, fd: Fd) -> Option<Option<Endpoint>> {
        Mode::lock(self).apart(fd)
    }

    /// Returns TCP's counters, by name.
    pub fn tcp_counters(&self) -> Vec<(&'static str, u64)> {
        let shared = self.shared();
        let values = shared.engine.core.tcp_counters().values();
        tcp::Counters::ROWS.iter().map(|row| row.0).zip(values).collect()
    }

    /// Is there a connection that was shut whose peer has not acknowledged everything?
    pub fn has_unsent(&self) -> bool {
        let shared = self.shared();
        let (mut any, now) = (false, shared.engine.time());
        shared.engine.core.for_each(now, &mut |row| {
            if let Row::Connection(tcp) = row {
                let over = matches!(tcp.state(), State::Closed | State::FinWait2);
                any |= tcp.write_closed() && !over;
            }
        });
        any
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
        sleep: &mut dyn FnMut(&[RawFd], Option<Duration>) -> Woken,
        attempt: &mut dyn FnMut(&mut Engine) -> Result<R, Errno>,
    ) -> Result<R, Ended> {
        let mut turn = Turn::default();
        let result = self.wait_loop(&mut turn, on, timeout, sleep, attempt);
        self.leave(&turn, result.is_ok());
        self.watchdog.application_is_back();
        result
    }

    /// Ends the leadership of a thread that waits no more. A thread that found what it waited for is expected back
    /// soon: a thread that made way before does not take over.
    fn leave(&self, turn: &Turn, found: bool) {
        if turn.ticket == 0 {
            return;
        }
        let mut shared = self.shared();
        let Shared { engine, lead } = &mut *shared;
        if lead.holder == turn.ticket {
            (lead.holder, lead.stands) = (0, false);
            if found {
                engine.waiting.wake_willing();
            } else {
                engine.waiting.wake_any();
            }
        }
    }

    /// The wait of a call on nothing but the stack, which goes on after some signals or after none.
    fn wait_as<R>(
        &self,
        on: Option<Fd>,
        timeout: Option<Duration>,
        restarts: bool,
        attempt: &mut dyn FnMut(&mut Engine) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let mut sleep = |fds: &[RawFd], left| self.host.sleep(fds, left, restarts);
        self.wait_beside(on, timeout, &mut sleep, attempt).map_err(|ended| match ended {
            Ended::Time | Ended::Beside => Errno::EAGAIN,
            Ended::Signal => Errno::EINTR,
            Ended::Failed(errno) => errno,
        })
    }

    fn wait_loop<R>(
        &self,
        turn: &mut Turn,
        on: Option<Fd>,
        timeout: Option<Duration>,
        sleep: &mut dyn FnMut(&[RawFd], Option<Duration>) -> Woken,
        attempt: &mut dyn FnMut(&mut Engine) -> Result<R, Errno>,
    ) -> Result<R, Ended> {
        loop {
            let mut shared = self.shared();
            match attempt(&mut shared.engine) {
                Err(Errno::EAGAIN) if shared.engine.core.is_over() => {
                    return Err(Ended::Failed(Errno::ENETDOWN));
                }
                Err(Errno::EAGAIN) => {}
                Err(errno) => return Err(Ended::Failed(errno)),
                Ok(done) => {
                    shared.turn_for_leader();
                    return Ok(done);
                }
            }
            // Part of what was asked for may be done.
            if shared.lead.holder != turn.ticket && shared.turn_for_leader() {
                continue;
            }
            let Shared { engine, lead } = &mut *shared;
            if turn.deadline.is_none() {
                turn.deadline = timeout.map(|t| engine.time() + t);
            }
            lead.take(turn, engine);
            let leads = lead.holder == turn.ticket;
            if leads {
                if engine.load.is_asleep() {
                    engine.load.on_wake(engine.time());
                }
                match engine.turn() {
                    Ok(done) if done.more || done.received > 0 || done.timers > 0 => {
                        engine.busy_poll.on_work(engine.now(), done.received > 0);
                        turn.in_vain = false;
                        continue;
                    }
                    Ok(_) | Err(IoError::Down) => {}
                    Err(_) => return Err(Ended::Failed(Errno::ENETDOWN)),
                }
            }
            let now = engine.time();
            if turn.deadline.is_some_and(|at| at <= now) {
                return Err(Ended::Time);
            }
            if leads && !turn.stands {
                if engine.busy_poll.on_nothing(now) > now {
                    engine.load.on_spin(now - engine.now());
                    drop(shared);
                    std::hint::spin_loop();
                    continue;
                }
                engine.busy_poll.on_sleep(now);
            }
            match self.sleep(shared, turn, on, sleep) {
                Ok(Woken::Stack) => {}
                Ok(Woken::Beside) => return Err(Ended::Beside),
                Ok(Woken::Signal) => return Err(Ended::Signal),
                Err(errno) => return Err(Ended::Failed(errno)),
            }
        }
    }

    /// Sleeps without the lock: on the port if this thread leads, on its own bell in any case.
    fn sleep(
        &self,
        shared: MutexGuard<'_, Shared>,
        turn: &mut Turn,
        on: Option<Fd>,
        sleep: &mut dyn FnMut(&[RawFd], Option<Duration>) -> Woken,
    ) -> Result<Woken, Errno> {
        let Some(mut bell) = self.host.bell() else {
            let left = turn.deadline.map(|at| at.since(shared.engine.time()));
            drop(shared);
            return Ok(sleep(&[], Some(without_bell(left))));
        };
        let woken = self.sleep_with(shared, turn, on, sleep, &mut bell);
        self.host.keep(bell);
        woken
    }

    fn sleep_with(
        &self,
        mut shared: MutexGuard<'_, Shared>,
        turn: &mut Turn,
        on: Option<Fd>,
        sleep: &mut dyn FnMut(&[RawFd], Option<Duration>) -> Woken,
        bell: &mut Sleeper,
    ) -> Result<Woken, Errno> {
        let Shared { engine, lead } = &mut *shared;
        let leads = lead.holder == turn.ticket;
        let mut fds = vec![bell.fd().as_raw_fd()];
        let mut until = turn.deadline;
        if leads {
            // The port arms itself for a sleep, and takes note of what ended the last one.
            match engine.core.io().wait(Some(Duration::ZERO)) {
                Ok(Wake::Timeout) | Err(IoError::Down) => {}
                Ok(_) => return Ok(Woken::Stack),
                Err(_) => return Err(Errno::ENETDOWN),
            }
            fds.extend(engine.core.io().poll_fds());
            let slice = if fds.len() == 1 { LOOK_SOON } else { LOOK_AGAIN };
            let now = engine.time();
            // A date that is taken back must be told anew when another thread sends, which wakes us then: it is looked
            // for only where the last one woke us for nothing.
            let date = if turn.in_vain { engine.core.rest(now) } else { engine.core.next_timeout() };
            let next = Instant::earliest(date, Some(now + slice));
            until = Instant::earliest(until, next);
        }
        let left = until.map(|at| at.since(engine.time()));
        if left == Some(Duration::ZERO) {
            return Ok(Woken::Stack);
        }
        let object = on.map(|fd| engine.index(fd)).transpose()?;
        if leads {
            lead.asleep = Some((until, bell.ringer()));
            engine.load.on_sleep(engine.time());
        }
        let row = engine.waiting.add(object, Wakes::Bell(bell.ringer()));
        if turn.excused {
            engine.waiting.excuse(row);
        }
        drop(shared);
        let woken = sleep(&fds, left);
        bell.drain();
        let mut shared = self.shared();
        if shared.engine.waiting.remove(row) {
            turn.excused = false;
        }
        if shared.lead.holder == turn.ticket {
            shared.lead.asleep = None;
            let now = shared.engine.time();
            shared.engine.load.on_wake(now);
            turn.in_vain = until.is_some_and(|at| at <= now);
        }
        Ok(woken)
    }
}

impl Lead {
    /// The calling thread leads from now on if nothing does but the thread of ours or another one that does not stand,
    /// which is rung to see it, or an event loop, which has other things to do. If it leads already, it may make way
    /// for a thread that it has just woken.
    fn take(&mut self, turn: &mut Turn, engine: &mut Engine) {
        if self.holder != 0 && self.holder == turn.ticket {
            let rung = engine.waiting.take_rung();
            if !turn.stands && turn.leader_handoff.on_rung(rung) && engine.waiting.has_woken() {
                (self.holder, turn.excused) = (0, true);
            }
            return;
        }
        let gives_way = self.ours || self.loops.is_some() || turn.stands && !self.stands;
        if turn.excused || self.holder != 0 && !gives_way {
            return;
        }
        // What was rung before was another's doing.
        engine.waiting.take_rung();
        (turn.ticket, turn.leader_handoff) = (self.pass(), LeaderHandoff::default());
        self.stands = turn.stands;
    }

    /// An event loop leads from now on if nothing does but the thread of ours; its ticket.
    fn take_for_loop(&mut self, beacon: &Arc<Beacon>) -> Option<u64> {
        if self.holder != 0 && !self.ours {
            return None;
        }
        let ticket = self.pass();
        self.loops = Some(beacon.clone());
        Some(ticket)
    }

    /// A thread that leads ceases to; the ticket of who does from now on.
    fn pass(&mut self) -> u64 {
        let asleep = self.asleep.take();
        if let Some((_, ringer)) = asleep.filter(|_| self.loops.is_none()) {
            ringer.ring_anyway();
        }
        self.tickets += 1;
        (self.holder, self.ours, self.loops, self.stands) = (self.tickets, false, None, false);
        self.holder
    }
}

impl Mode for Hosted {
    type Below = stack::Core;

    fn lock(&self) -> impl DerefMut<Target = Engine> {
        Guard { shared: self.shared(), touched: false }
    }

    fn wait_for<R>(
        &self,
        on: Option<Fd>,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Engine) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        self.wait_as(on, timeout, timeout.is_none(), &mut attempt)
    }

    fn wait_for_ready<R>(
        &self,
        on: Option<Fd>,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Engine) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        self.wait_as(on, timeout, false, &mut attempt)
    }

    fn attempt<R>(&self, mut attempt: impl FnMut(&mut Engine) -> Result<R, Errno>) -> Result<R, Errno> {
        let mut guard = Guard { shared: self.shared(), touched: true };
        match attempt(&mut guard) {
            Err(Errno::EAGAIN) if guard.turn_if_stale() => attempt(&mut guard),
            result => result,
        }
    }

    fn refresh(&self) -> Result<(), Errno> {
        self.turn()
    }

    fn look(&self, look: Box<dyn FnOnce(&mut Engine) + Send + '_>) {
        look(&mut self.shared().engine);
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        self.watchdog.wake();
    }
}
