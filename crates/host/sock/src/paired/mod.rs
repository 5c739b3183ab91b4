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
//! Any number of threads share a [`Paired`]. Of those that block, one leads: it waits for the doorbell on behalf of all
//! and wakes whom an event concerns ([`crate::runner`]). A program that scales gives each thread its own `Paired`,
//! linked to its core's stack thread; one that does not care links one `Paired` to all of them.

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

use crate::SystemClock;
use crate::engine::{Engine, Limits};
use crate::runner::{Machine, Park, Runner, Threads};
use base::Instant;
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
        let links = threads.iter().map(|thread| thread.link(ringer.clone())).collect();
        let rings = RingPool::new(first.config.ring, first.config.rings_kept);
        let mut remote = Remote::new(links, bell, first.config.connections, rings, defaults);
        remote.threads = threads.to_vec();
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
        self.collect();
    }

    fn look_again(&mut self) -> bool {
        self.collect() > 0
    }

    fn turn(&mut self) -> Result<Turn, IoError> {
        self.now = self.time();
        Ok(Turn { received: self.collect(), ..Turn::default() })
    }

    fn arm(&mut self, fds: &mut Vec<RawFd>) -> Result<bool, IoError> {
        self.core.bell.flag().announce();
        if self.core.has_events() {
            self.core.bell.flag().awake();
            return Ok(false);
        }
        fds.push(self.core.bell.fd().as_raw_fd());
        Ok(true)
    }

    fn disarm(&mut self) {
        self.core.bell.flag().awake();
        self.core.bell.drain();
    }

    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    /// Looks at the first core; what it changes there is a default for the sockets here from then on.
    fn look(&mut self, look: Box<dyn FnOnce(&mut Engine) + Send + '_>) {
        if let Some(first) = self.core.threads.first() {
            self.core.defaults = first.look(|engine| {
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
