//! Records that the hosts of a run write while it goes on, beside the results: files that change nothing in it.

use base::{Duration, Instant};
use emu::HostId;
use stack::Core;
use std::path::{Path, PathBuf};

use crate::build::{Node, World};
use crate::captures::{self, Captures};
use crate::logs::Logs;
use crate::spec::{Point, SpecError, Task};

/// Where it goes; what has no folder is not written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folders {
    /// SIFTR's logs (the key `siftr`).
    pub siftr: Option<PathBuf>,
    /// Captures with states (the key `capture`).
    pub captures: Option<PathBuf>,
}

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

/// The hosts with a stack, senders before receivers, and what each one's files are called in this run.
pub(crate) fn named_hosts(world: &World, task: &Task) -> Vec<(HostId, String)> {
    let run = format!("{}seed-{}", words(&task.point), task.seed);
    let side = |side: &'static str, hosts: &[HostId]| {
        let named = |(nth, host): (usize, &HostId)| (*host, format!("{run}-{side}-{}", nth + 1));
        hosts.iter().enumerate().map(named).collect::<Vec<_>>()
    };
    [side("sender", &world.senders), side("receiver", &world.receivers)].concat()
}

/// The stack of a host, if it has one.
pub(crate) fn core(world: &mut World, host: HostId) -> Option<&mut Core> {
    match world.net.host_mut(host) {
        Node::Sender(host) => Some(&mut host.core),
        Node::Receiver(host) => Some(&mut host.core),
        Node::Metronome(_) | Node::Card(_) => None,
    }
}

pub(crate) fn told(path: &Path, error: &std::io::Error) -> SpecError {
    SpecError(format!("{}: {error}", path.display()))
}

/// Returns the varied values as a part of a file's name.
fn words(point: &Point) -> String {
    let words: String = point.iter().map(|(place, value)| format!("{place}-{value}-")).collect();
    words.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect()
}
