//! A thread whose only business is to turn the core, or to wait and to hand on what came, for others of the program. It
//! leads for good: were another thread to lead, each packet would wake that one first.

use super::{Attempt, Ended, Machine, Rank, Runner, Sleep, Waiter};
use crate::Errno;
use crate::cpu::only_cpu;
use crate::engine::Engine;
use crate::sockets::Fd;
use base::Duration;
use std::os::fd::RawFd;
use std::sync::Arc;

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

impl Runner {
    /// Starts a thread that turns the core for good, also while the program computes. It ends at most a second after
    /// the last other handle is gone.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start_stack_thread(self: &Arc<Self>) -> std::io::Result<()> {
        let runner = self.clone();
        let lead = move || {
            runner.park.shield_thread();
            let mut leader = runner.pin(only_cpu().is_none());
            let mut sleep = |fds: &[RawFd], left| runner.park.sleep(fds, left, true);
            let mut ends = |_: &mut Engine| match Arc::strong_count(&runner) {
                1 => Ok(()),
                _ => Err(Errno::EAGAIN),
            };
            // A port that is gone is the program's to hear of, in its next call.
            while leader.wait(None, None, &mut sleep, &mut ends) == Err(Ended::Signal) {}
        };
        std::thread::Builder::new().name("ms-stack".into()).spawn(lead).map(drop)
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
