//! A place in an event loop of the application: it sleeps where we cannot see, on one descriptor of the kernel's
//! that can be read when an epoll set may have something to tell or the core wants to be turned.
//!
//! ```text
//!   the loop sleeps on the descriptor  armed: our row waits for the set; if no other thread leads, the loop does, and
//!        |                             the port's descriptors and the core's next date light the beacon
//!        v
//!   poll, events                       awake: calls of the program do not turn the core, the next poll does for all
//!        |
//!   the loop tells its program         the beacon stays lit, so that the loop comes again
//!        v
//!   poll, nothing                      arms
//! ```
//!
//! A thread that waits in a call of ours takes the lead from a loop and gives it back by ringing the loop's bell: a
//! thread that waits has nothing else to do, a loop may have. While the loop is busy elsewhere the thread of ours
//! turns the core (`watchdog`).

use super::lead::{Alarm, Rank, Ticket};
use super::{LOOK_AGAIN, LOOK_SOON, Machine, Runner, Shared, bell, or_down};
use crate::Errno;
use crate::engine::Engine;
use crate::sockets::{EpollEvent, Fd};
use base::Instant;
use pio::EpollTimer;
use ring::Sleeper;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Turns of one poll that finds nothing, while each says that there is more.
const TURNS: u32 = 4;

/// One epoll set in an event loop of the application.
pub struct ExternalLoop {
    runner: Weak<Runner>,
    set: Fd,
    beacon: Arc<EpollTimer>,
    state: Mutex<State>,
}

/// State of the loop's side between two polls.
struct State {
    bell: Sleeper,
    /// Our row among the waiting threads, while armed.
    row: Option<u64>,
    /// Our ticket for the lead.
    ticket: Option<Ticket>,
    /// The bell may have been rung since it was drained.
    rung: bool,
    /// The port's descriptors that the beacon knows.
    ports: Vec<RawFd>,
    /// The beacon has a date, which may have passed.
    dated: bool,
}

impl ExternalLoop {
    /// For the epoll set `set`. A thread that opened it polls it by [`ExternalLoop::poll`] from now on.
    ///
    /// # Errors
    /// There is no descriptor to be had.
    pub fn new(runner: &Arc<Runner>, set: Fd) -> io::Result<ExternalLoop> {
        let bell = bell()?;
        let beacon = Arc::new(EpollTimer::new(bell.fd())?);
        // What happened before is told by the first poll.
        bell.ringer().ring_anyway();
        let state = State { bell, row: None, ticket: None, rung: true, ports: Vec::new(), dated: false };
        Ok(ExternalLoop { runner: Arc::downgrade(runner), set, beacon, state: Mutex::new(state) })
    }

    /// Readable when [`ExternalLoop::poll`] is to be called; closed with this.
    pub fn fd(&self) -> RawFd {
        self.beacon.as_raw_fd()
    }

    /// Turns the core and tells what the set has. If that is nothing, whatever happens next makes the descriptor
    /// readable; else it stays so.
    ///
    /// # Errors
    /// As of [`crate::Sockets::epoll_wait`]; EBADF once the stack is gone.
    pub fn poll(&self, events: &mut [EpollEvent]) -> Result<usize, Errno> {
        let runner = self.runner.upgrade().ok_or(Errno::EBADF)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut shared = runner.shared();
        state.wake(&mut shared);
        let found = self.look(&mut state, &mut shared, events);
        drop(shared);
        runner.watchdog.application_is_back();
        found
    }

    fn look(
        &self,
        state: &mut State,
        shared: &mut Shared<Engine>,
        events: &mut [EpollEvent],
    ) -> Result<usize, Errno> {
        for _ in 0..TURNS {
            let more = or_down(shared.machine.turn())?.more;
            let found = shared.machine.epoll_collect(self.set, events)?;
            if found > 0 {
                state.ring();
                return Ok(found);
            }
            if !more && state.arm(shared, self)? {
                return Ok(0);
            }
        }
        state.ring();
        Ok(0)
    }
}

impl State {
    /// The loop is to come again.
    fn ring(&mut self) {
        if !std::mem::replace(&mut self.rung, true) {
            self.bell.ringer().ring_anyway();
        }
    }

    /// The loop is here: nothing needs to wake it.
    fn wake(&mut self, shared: &mut Shared<Engine>) {
        if let Some(row) = self.row.take() {
            self.rung |= shared.machine.waiting.remove(row);
        }
        shared.lead.wake(self.ticket);
    }

    /// The loop is about to sleep; false if it must not.
    fn arm(&mut self, shared: &mut Shared<Engine>, outside: &ExternalLoop) -> Result<bool, Errno> {
        if std::mem::take(&mut self.rung) {
            self.bell.drain();
        }
        let object = shared.machine.index(outside.set)?;
        let Shared { machine, lead } = shared;
        let led = lead.is_held_by(self.ticket);
        if !led {
            self.ticket = lead.claim(Rank::Loop);
        }
        if let Some(ticket) = self.ticket {
            let mut ports = Vec::new();
            if !machine.arm(&mut ports).map_err(|_| Errno::ENETDOWN)? {
                return Ok(false);
            }
            if !led || ports != self.ports {
                outside.beacon.watch(&self.ports, &ports).map_err(|_| Errno::EIO)?;
                self.ports = ports;
            }
            let now = machine.time();
            let slice = if self.ports.is_empty() { LOOK_SOON } else { LOOK_AGAIN };
            let until = Instant::earliest(machine.next_timeout(), Some(now + slice));
            outside.beacon.set(until.map(|at| at.since(now))).map_err(|_| Errno::EIO)?;
            self.dated = true;
            let alarm = Alarm::Loop(self.bell.ringer(), outside.beacon.clone());
            lead.sleep(ticket, until, alarm);
        } else if std::mem::take(&mut self.dated) {
            // Timeouts are the business of a thread that leads.
            outside.beacon.set(None).map_err(|_| Errno::EIO)?;
        }
        self.row = Some(machine.waiting.add(Some(object), self.bell.ringer()));
        Ok(true)
    }
}

impl Drop for ExternalLoop {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(runner) = self.runner.upgrade() else { return };
        let mut shared = runner.shared();
        state.wake(&mut shared);
        if shared.lead.leave(state.ticket) {
            shared.machine.waiting.wake_any();
        }
    }
}
