//! A thread whose only business is to wait and to hand on what came, for others of the program. It leads for good: were
//! another thread to lead, each packet would wake that one first. It never looks for packets before it sleeps: those it
//! hands on to may need its CPU.

use super::{Ended, Hosted, Turn, Woken};
use crate::Errno;
use crate::engine::Engine;
use crate::sockets::Fd;
use base::Duration;
use std::os::fd::RawFd;

/// Leads as long as it lives. While its thread does something else no thread sleeps on the port, so that is to be
/// short.
pub struct PinnedLeader<'h> {
    hosted: &'h Hosted,
    turn: Turn,
}

impl Hosted {
    /// The calling thread leads from its first wait on.
    pub fn stand(&self) -> PinnedLeader<'_> {
        PinnedLeader { hosted: self, turn: Turn { stands: true, ..Turn::default() } }
    }
}

impl PinnedLeader<'_> {
    /// As [`Hosted::wait_beside`], for as long as it takes.
    ///
    /// # Errors
    /// As there.
    pub fn wait<R>(
        &mut self,
        on: Option<Fd>,
        sleep: &mut dyn FnMut(&[RawFd], Option<Duration>) -> Woken,
        attempt: &mut dyn FnMut(&mut Engine) -> Result<R, Errno>,
    ) -> Result<R, Ended> {
        let result = self.hosted.wait_loop(&mut self.turn, on, None, sleep, attempt);
        self.hosted.watchdog.application_is_back();
        result
    }
}

impl Drop for PinnedLeader<'_> {
    fn drop(&mut self) {
        self.hosted.leave(&self.turn, false);
    }
}
