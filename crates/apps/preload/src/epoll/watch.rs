//! Entries of a set that are noted here: what is no connection.

use libc::c_int;
use sock::Ready;

/// EPOLLWAKEUP: nothing of ours suspends the machine.
const WAKEUP: u32 = 1 << 29;
pub(super) const ONCE: u32 = libc::EPOLLONESHOT as u32;
/// The target of an entry that is the kernel's, whose one event was told before: no description has this name.
pub(super) const GONE: usize = 0;

/// Bits as the stack knows them.
pub(crate) fn interest(bits: u32) -> Ready {
    Ready(bits & !WAKEUP)
}

/// Entry of a set that is no connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watch {
    /// Which ([`Description::name`](crate::description::Description::name)).
    pub(super) target: usize,
    pub(super) fd: c_int,
    pub(super) events: u32,
    pub(super) data: u64,
    /// Of a listener that is to be told of once: the word in place of the program's, which nothing else has. Either
    /// side has an event of it, and only the first counts.
    pub(super) shot: Option<u64>,
    /// The one event was told, and neither side watches: Linux tells a hang-up of whatever it watches.
    pub(super) fired: bool,
    /// The stack's part of the set watches it so.
    pub(super) entered: bool,
}

impl Watch {
    /// Returns true if the one event was told: here, or by the set `epfd` of the kernel's. That keeps of such a
    /// registration how it watches, and not for what, as its file in /proc shows.
    pub(super) fn has_fired(&self, epfd: c_int) -> bool {
        const HOW: u32 = ONCE | WAKEUP | Ready::EDGE.0 | Ready::EXCLUSIVE.0;
        if self.fired || self.events & ONCE == 0 {
            return self.fired;
        }
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{epfd}")).unwrap_or_default();
        let (fd, word) = (self.fd.to_string(), format!("{:x}", self.shot.unwrap_or(self.data)));
        text.lines().any(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["tfd:", number, "events:", events, "data:", data, ..] => {
                let asked = u32::from_str_radix(events, 16).unwrap_or(u32::MAX);
                number == fd && data == word && asked & !HOW == 0
            }
            _ => false,
        })
    }
}

/// Where something is watched: the set, a number that it had, and the number in it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watcher {
    pub(super) set: usize,
    pub(super) epfd: c_int,
    pub(super) fd: c_int,
}
