//! Entries of a set that are noted here: what is no connection.

use libc::c_int;
use sock::{EpollEvent, Ready};

/// EPOLLWAKEUP: nothing of ours suspends the machine.
const WAKEUP: u32 = 1 << 29;

/// Bits as the stack knows them.
pub(crate) fn interest(bits: u32) -> Ready {
    Ready(bits & !WAKEUP)
}

/// Entry of a set that is no connection.
#[derive(Clone, Copy)]
pub(crate) struct Watch {
    /// Which ([`Description::name`]).
    pub(super) target: usize,
    pub(super) fd: c_int,
    pub(super) events: u32,
    pub(super) data: u64,
    /// Of a listener that is to be told of once: the word in place of the program's, which nothing else has. Either
    /// side has an event of it, and only the first counts.
    pub(super) shot: Option<u64>,
    /// The one event was told, and neither side watches: Linux tells a hang-up of whatever it watches.
    pub(super) fired: bool,
}

impl Watch {
    pub(super) fn event(&self) -> EpollEvent {
        EpollEvent { ready: interest(self.events), data: self.shot.unwrap_or(self.data) }
    }
}

/// Where something is watched: the set, a number that it had, and the number in it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watcher {
    pub(super) set: usize,
    pub(super) epfd: c_int,
    pub(super) fd: c_int,
}
