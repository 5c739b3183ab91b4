//! Records that the hosts of a run write while it goes on, beside the results: files that change nothing in it.

use base::{Duration, Instant};

use crate::captures::{self, Captures};
use crate::logs::Logs;
use crate::spec::{SpecError, Task};
use crate::world::World;

/// Records of a run under way.
pub(crate) struct Records {
    logs: Logs,
    captures: Captures,
}

impl Records {
    /// Begins what `task` wants: nothing, if its file does not say so or nothing said where.
    ///
    /// # Errors
    /// A file cannot be made.
    pub(crate) fn begin(world: &mut World, task: &Task) -> Result<Records, SpecError> {
        Ok(Records { logs: Logs::begin(world, task)?, captures: Captures::begin(world, task)? })
    }

    /// How much time may pass between two calls of [`Records::drain`]; any if `None`.
    pub(crate) fn pace(&self) -> Option<Duration> {
        (!self.captures.is_empty()).then_some(captures::PACE)
    }

    /// Writes what there is so far.
    ///
    /// # Errors
    /// A file takes no more.
    pub(crate) fn drain(&mut self) -> Result<(), SpecError> {
        self.logs.drain()?;
        self.captures.drain()
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// As for [`Records::drain`].
    pub(crate) fn end(self, world: &mut World, now: Instant) -> Result<(), SpecError> {
        self.logs.end(world, now)?;
        self.captures.end(world, now)
    }
}
