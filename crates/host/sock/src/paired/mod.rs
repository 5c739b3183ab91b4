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
//! Many bytes at a time go to blocks of memory instead, of which the queue has references: those of a large write
//! become part of the send buffer, as does memory that the application lends. What arrived is read in the link's
//! frames, or where those are scarce in blocks that the stack thread fills (`blocks`).
//!
//! Reading, writing, accepting, connecting and epoll need no answer and so never wait for the stack thread; what asks
//! for one (bind, listen, TCP_INFO, ...) waits for one turn. Events reach an application once per turn.
//!
//! Any number of threads share a [`Paired`]. Of those that block, one leads: it waits for the doorbell on behalf of all
//! and wakes whom an event concerns ([`crate::runner`]). A program that scales gives each thread its own `Paired`,
//! linked to its core's stack thread; one that does not care links one `Paired` to all of them.
//!
//! Where the only application of a stack thread has to run on the same CPU, a hand-over to that thread would be two
//! changes of threads for nothing. There who waits turns the core, too, and the stack thread looks after it in between
//! (`lease`).

mod blocks;
mod calls;
mod lease;
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

use crate::SystemClock;
use crate::engine::{Engine, Limits};
use crate::runner::{Machine, Park, Runner, STALE, Threads};
use base::Instant;
use lease::Lease;
use message::RingPool;
use pio::IoError;
use stack::Turn;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// Sockets whose connections live on stack threads.
pub type Paired = Runner<Engine<Remote>>;

impl Paired {
    /// Sockets on the cores of `threads`: listeners listen on all of them, connects take turns.
    ///
    /// # Errors
    /// There is no stack thread, or no descriptor to be had for the doorbell.
    pub fn over(threads: &[Arc<StackThread>], limits: Limits) -> io::Result<Paired> {
        Paired::over_with(threads, limits, Box::new(Threads))
    }

    /// As [`Paired::over`], for a program whose threads sleep as `park` says.
    ///
    /// # Errors
    /// As there.
    pub fn over_with(
        threads: &[Arc<StackThread>],
        limits: Limits,
        park: Box<dyn Park>,
    ) -> io::Result<Paired> {
        let Some(first) = threads.first() else { return Err(io::ErrorKind::InvalidInput.into()) };
        let (ringer, bell) = ring::doorbell()?;
        let defaults = first.look(|engine| Defaults::of(&engine.core));
        let link = |thread: &Arc<StackThread>| {
            let mut link = thread.link(ringer.clone());
            link.lease = Some(Lease::new(thread.clone()));
            link
        };
        let links = threads.iter().map(link).collect();
        let rings = RingPool::new(first.config.ring, first.config.rings_kept);
        let remote = Remote::new(links, bell, first.config.connections, rings, defaults);
        let limits = Limits { spin: first.config.spin, ..limits };
        Ok(Runner::new(Engine::new(remote, Box::new(SystemClock::new()), limits), park))
    }
}

impl Machine for Engine<Remote> {
    type Below = Remote;

    fn engine(&self) -> &Engine<Remote> {
        self
    }

    fn engine_mut(&mut self) -> &mut Engine<Remote> {
        self
    }

    fn begin(&mut self) {
        if self.collect() > 0 {
            let now = self.time();
            self.busy_poll.on_work(now, true);
        }
    }

    fn look_again(&mut self) -> bool {
        if self.core.lease().is_some_and(Lease::is_lent) {
            return self.is_stale(STALE) && self.turn().is_ok_and(|turn| turn.received > 0);
        }
        self.collect() > 0
    }

    fn turn(&mut self) -> Result<Turn, IoError> {
        let turn = self.core.lease().and_then(Lease::turn).unwrap_or_default();
        self.now = self.time();
        let events = self.collect();
        Ok(Turn { received: turn.received + events, ..turn })
    }

    fn arm(&mut self, fds: &mut Vec<RawFd>) -> Result<bool, IoError> {
        let Engine { core, load, .. } = self;
        core.bell.flag().announce();
        let alarm = core.bell.ringer();
        let lent = core.lease_mut().map_or(Ok(true), |lease| lease.sleep(alarm, load.take_spun(), fds));
        if core.has_events() || !lent? {
            self.disarm();
            return Ok(false);
        }
        fds.push(self.core.bell.fd().as_raw_fd());
        Ok(true)
    }

    fn disarm(&mut self) {
        self.core.bell.flag().awake();
        self.core.bell.drain();
        if let Some(lease) = self.core.lease() {
            lease.wake();
        }
    }

    fn leave(&mut self) {
        if let Some(lease) = self.core.lease_mut() {
            lease.leave();
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.core.lease()?.next_timeout(None)
    }

    fn revised_timeout(&mut self, now: Instant) -> Option<Instant> {
        self.core.lease()?.next_timeout(Some(now))
    }

    /// Looks at the first core; what it changes there is a default for the sockets here from then on.
    fn look(&mut self, look: Box<dyn FnOnce(&mut Engine) + Send + '_>) {
        if let Some(lease) = &self.core.links[0].lease {
            self.core.defaults = lease.thread.look(|engine| {
                look(engine);
                Defaults::of(&engine.core)
            });
        }
    }
}

impl Engine<Remote> {
    /// Takes what the stack threads said and tells the epoll sets and the sleepers; how many events that were.
    fn collect(&mut self) -> u32 {
        let mut events = 0;
        self.publish(|remote, notices| events = remote.collect(notices));
        events
    }
}
