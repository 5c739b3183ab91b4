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

use super::{Hosted, LOOK_AGAIN, LOOK_SOON, Shared, bell};
use crate::Errno;
use crate::sockets::{EpollEvent, Fd};
use crate::waiting::Wake as Wakes;
use base::{Duration, Instant};
use pio::{Beacon, IoError, Wake};
use ring::Sleeper;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Turns of one poll that finds nothing, while each says that there is more.
const TURNS: u32 = 4;

/// One epoll set in an event loop of the application.
pub struct ExternalLoop {
    hosted: Weak<Hosted>,
    set: Fd,
    beacon: Arc<Beacon>,
    state: Mutex<State>,
}

/// State of the loop's side between two polls.
struct State {
    bell: Sleeper,
    /// Our row among those who wait, while armed.
    row: Option<u64>,
    /// Our ticket for the lead.
    ticket: u64,
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
    pub fn new(hosted: &Arc<Hosted>, set: Fd) -> io::Result<ExternalLoop> {
        let bell = bell()?;
        let beacon = Arc::new(Beacon::new(bell.fd())?);
        // What happened before is told by the first poll.
        bell.ringer().ring_anyway();
        let state = State { bell, row: None, ticket: 0, rung: true, ports: Vec::new(), dated: false };
        Ok(ExternalLoop { hosted: Arc::downgrade(hosted), set, beacon, state: Mutex::new(state) })
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
        let hosted = self.hosted.upgrade().ok_or(Errno::EBADF)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut shared = hosted.shared();
        state.wake(&mut shared);
        let found = self.look(&mut state, &mut shared, events);
        drop(shared);
        hosted.watchdog.application_is_back();
        found
    }

    fn look(
        &self,
        state: &mut State,
        shared: &mut Shared,
        events: &mut [EpollEvent],
    ) -> Result<usize, Errno> {
        for _ in 0..TURNS {
            let more = match shared.engine.turn() {
                Ok(turn) => turn.more,
                Err(IoError::Down) => false,
                Err(_) => return Err(Errno::ENETDOWN),
            };
            let found = shared.engine.epoll_collect(self.set, events)?;
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
    fn leads(&self, shared: &Shared) -> bool {
        self.ticket != 0 && shared.lead.holder == self.ticket
    }

    /// The loop is to come again.
    fn ring(&mut self) {
        if !std::mem::replace(&mut self.rung, true) {
            self.bell.ringer().ring_anyway();
        }
    }

    /// The loop is here: nothing needs to wake it.
    fn wake(&mut self, shared: &mut Shared) {
        if let Some(row) = self.row.take() {
            self.rung |= shared.engine.waiting.remove(row);
        }
        if self.leads(shared) {
            shared.lead.asleep = None;
        }
    }

    /// The loop is about to sleep; false if it must not.
    fn arm(&mut self, shared: &mut Shared, outside: &ExternalLoop) -> Result<bool, Errno> {
        if std::mem::take(&mut self.rung) {
            self.bell.drain();
        }
        let object = shared.engine.index(outside.set)?;
        let led = self.leads(shared);
        if !led {
            self.ticket = shared.lead.take_for_loop(&outside.beacon).unwrap_or(0);
        }
        if self.leads(shared) {
            // The port arms itself for a sleep, and takes note of what ended the last one.
            match shared.engine.core.io().wait(Some(Duration::ZERO)) {
                Ok(Wake::Timeout) | Err(IoError::Down) => {}
                Ok(_) => return Ok(false),
                Err(_) => return Err(Errno::ENETDOWN),
            }
            let ports = shared.engine.core.io().poll_fds();
            if !led || ports != self.ports {
                outside.beacon.watch(&self.ports, &ports).map_err(|_| Errno::EIO)?;
                self.ports = ports;
            }
            let now = shared.engine.time();
            let slice = if self.ports.is_empty() { LOOK_SOON } else { LOOK_AGAIN };
            let until = Instant::earliest(shared.engine.core.next_timeout(), Some(now + slice));
            outside.beacon.set(until.map(|at| at.since(now))).map_err(|_| Errno::EIO)?;
            self.dated = true;
            shared.lead.asleep = Some((until, self.bell.ringer()));
        } else if std::mem::take(&mut self.dated) {
            // Dates are the business of a thread that leads.
            outside.beacon.set(None).map_err(|_| Errno::EIO)?;
        }
        self.row = Some(shared.engine.waiting.add(Some(object), Wakes::Bell(self.bell.ringer())));
        Ok(true)
    }
}

impl Drop for ExternalLoop {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(hosted) = self.hosted.upgrade() else { return };
        let mut shared = hosted.shared();
        state.wake(&mut shared);
        if state.leads(&shared) {
            (shared.lead.holder, shared.lead.loops) = (0, None);
            shared.engine.waiting.wake_any();
        }
    }
}
