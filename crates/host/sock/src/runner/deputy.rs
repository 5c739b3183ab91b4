//! The lead of a core in the place of its own thread: a thread that leads another runner, and would have to wait for
//! that thread on the CPU which both need, turns the core itself. No thread is switched to.
//!
//! It holds the lead while it sleeps, and lets go of it when it returns to its program. The core's thread, where it
//! leads for good, comes first.

use super::lead::{Alarm, Rank, Ticket};
use super::{Machine, Runner, Shared};
use pio::IoError;
use ring::Ringer;
use std::sync::Arc;

/// A leader whose thread waits in another runner.
pub(crate) struct Deputy<M: Machine> {
    runner: Arc<Runner<M>>,
    ticket: Option<Ticket>,
}

impl<M: Machine> Deputy<M> {
    pub(crate) fn new(runner: Arc<Runner<M>>) -> Deputy<M> {
        Deputy { runner, ticket: None }
    }

    /// Turns the machine; a leader that sleeps is told of a timeout that comes nearer.
    pub(crate) fn turn<R>(&self, turn: impl FnOnce(&mut M) -> R) -> R {
        let Shared { machine, lead } = &mut *self.runner.shared();
        let turned = turn(machine);
        lead.hurry(machine.next_timeout(), machine.engine().time());
        turned
    }

    /// Looks at the machine.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&mut M) -> R) -> R {
        self.runner.with(look)
    }

    /// Sleeps from now on, as leader if that is to be had, unless `arm` says that there is something to do; `alarm`
    /// wakes the thread.
    pub(crate) fn sleep(
        &mut self,
        alarm: Ringer,
        arm: impl FnOnce(&mut M) -> Result<bool, IoError>,
    ) -> Result<bool, IoError> {
        let Shared { machine, lead } = &mut *self.runner.shared();
        if !lead.is_held_by(self.ticket) {
            self.ticket = lead.claim(Rank::Thread);
        }
        let Some(ticket) = self.ticket else { return Ok(true) };
        let sleeps = arm(machine)?;
        if sleeps {
            let engine = machine.engine_mut();
            engine.load.on_sleep(engine.time());
            lead.sleep(ticket, None, Alarm::Bell(alarm));
        }
        Ok(sleeps)
    }

    /// Is awake again.
    pub(crate) fn wake(&self) {
        let Shared { machine, lead } = &mut *self.runner.shared();
        if lead.wake(self.ticket) {
            let engine = machine.engine_mut();
            engine.load.on_wake(engine.time());
            machine.disarm();
        }
    }

    /// Returns to the program.
    pub(crate) fn leave(&mut self) {
        if let ticket @ Some(_) = self.ticket.take() {
            self.runner.shared().lead.leave(ticket);
            self.runner.watchdog.application_is_back();
        }
    }
}
