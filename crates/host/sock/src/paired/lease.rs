//! The lead of a stack thread's core, lent to the one application that runs on the same CPU: where only one of the
//! two can run, the application's thread that would wait turns the core, as in direct mode, and the stack thread looks
//! after the core while the application does something else.

use super::stack_thread::{End, Hub, StackThread};
use crate::cpu::only_cpu;
use crate::runner::Machine;
use crate::runner::deputy::Deputy;
use base::{Duration, Instant};
use pio::IoError;
use ring::Ringer;
use stack::Turn;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::thread::ThreadId;

/// The application's side.
pub(super) struct Lease {
    deputy: Deputy<Hub>,
    /// The thread that slept last, and whether it shares the stack thread's CPU.
    slept: Option<(ThreadId, bool)>,
    /// It ends with the last who holds it.
    pub(super) thread: Arc<StackThread>,
}

impl Lease {
    pub(super) fn new(thread: Arc<StackThread>) -> Lease {
        Lease { deputy: Deputy::new(thread.runner.clone()), slept: None, thread }
    }

    pub(super) fn is_lent(&self) -> bool {
        self.thread.is_lent()
    }

    /// Turns the core in the stack thread's place; `None` if the lead is that thread's.
    pub(super) fn turn(&self) -> Option<Turn> {
        if !self.is_lent() {
            return None;
        }
        // After a panic who waits hears that the core is gone.
        let end = End(&self.thread.runner);
        let turn = self.deputy.turn(|hub| {
            let (_, turn) = hub.round();
            // The queue was full: there is room again when this was taken.
            Turn { more: turn.more | hub.behind, ..turn }
        });
        std::mem::forget(end);
        Some(turn)
    }

    /// A thread is about to sleep: on the port, too, if the lead is lent. Returns false if there is something to do.
    /// `spun`: how long it has looked for packets.
    pub(super) fn sleep(
        &mut self,
        alarm: Ringer,
        spun: Duration,
        fds: &mut Vec<RawFd>,
    ) -> Result<bool, IoError> {
        self.ask();
        if !self.is_lent() {
            return Ok(true);
        }
        self.deputy.sleep(alarm, |hub| {
            hub.engine.load.on_spin(spun);
            Ok(!hub.worker.has_commands() && hub.engine.arm(fds).unwrap_or(true))
        })
    }

    /// Borrows the lead for a thread on the stack thread's only CPU; gives it back for one that runs elsewhere.
    fn ask(&mut self) {
        let me = std::thread::current().id();
        let Some(cpu) = self.thread.cpu() else { return };
        if self.slept.is_none_or(|(thread, _)| thread != me) {
            self.slept = Some((me, only_cpu() == Some(cpu)));
        }
        if self.slept.is_some_and(|(_, shares)| shares != self.is_lent()) {
            self.thread.lend(!self.is_lent());
        }
    }

    pub(super) fn wake(&self) {
        self.deputy.wake();
    }

    pub(super) fn leave(&mut self) {
        self.deputy.leave();
    }

    /// When the core must be turned at the latest. `revise`: without the timeouts that were cancelled.
    pub(super) fn next_timeout(&self, revise: Option<Instant>) -> Option<Instant> {
        if !self.is_lent() {
            return None;
        }
        self.deputy.look(|hub| match revise {
            Some(now) => hub.revised_timeout(now),
            None => hub.next_timeout(),
        })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.deputy.leave();
        self.thread.lend(false);
    }
}
