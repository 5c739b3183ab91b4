//! A thread whose only business is to turn the core, or to wait and to hand on what came, for others of the program. It
//! leads for good: were another thread to lead, each packet would wake that one first.

use super::{Attempt, Ended, Machine, Rank, Runner, Sleep, Waiter};
use crate::engine::Engine;
use crate::sockets::Fd;
use base::Duration;

/// Leads as long as it lives. While its thread does something else no thread sleeps on the port, so that is to be
/// short.
pub struct PinnedLeader<'r, M: Machine = Engine> {
    runner: &'r Runner<M>,
    waiter: Waiter,
}

impl<M: Machine> Runner<M> {
    /// The calling thread leads from its first wait on. `polls`: it looks for packets before it sleeps; not where those
    /// whom it hands on to may need its CPU.
    pub fn pin(&self, polls: bool) -> PinnedLeader<'_, M> {
        PinnedLeader { runner: self, waiter: Waiter::new(Rank::Pinned, polls) }
    }
}

impl<M: Machine> PinnedLeader<'_, M> {
    /// As [`Runner::wait_beside`].
    ///
    /// # Errors
    /// As there.
    pub fn wait<R>(
        &mut self,
        on: Option<Fd>,
        timeout: Option<Duration>,
        sleep: Sleep<'_>,
        attempt: Attempt<'_, M, R>,
    ) -> Result<R, Ended> {
        self.waiter.deadline = None;
        let result = self.runner.wait_loop(&mut self.waiter, on, timeout, sleep, attempt);
        self.runner.watchdog.application_is_back();
        result
    }
}

impl<M: Machine> Drop for PinnedLeader<'_, M> {
    fn drop(&mut self) {
        self.runner.leave(&self.waiter, false);
    }
}
