//! Turns of a set's two parts, the stack's and the kernel's, where a wait has room for few. As in the kernel's one
//! queue, a pass through one part follows a pass through the other.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Of so many waits that find something of ours, one looks at the kernel's too, where that had nothing before.
const LOOK_EVERY: u32 = 8;

/// State of the turns. Threads that wait for one set at once may each be off by a wait.
pub(crate) struct Turns {
    /// Waits, and events of ours, since the kernel's turn.
    waits: AtomicU32,
    passed: AtomicU32,
    /// The kernel's part had something when it was looked at last.
    busy: AtomicBool,
    /// Events that the kernel's part may still tell in its turn; 0: it is ours.
    left: AtomicU32,
    /// The word of the first event of the kernel's turn: when it comes again, the turn is over.
    first: AtomicU64,
}

impl Turns {
    pub(crate) const fn new() -> Turns {
        Turns {
            waits: AtomicU32::new(0),
            passed: AtomicU32::new(0),
            busy: AtomicBool::new(false),
            left: AtomicU32::new(0),
            first: AtomicU64::new(0),
        }
    }

    pub(crate) fn forget(&self) {
        self.end(false);
    }

    /// Something of the kernel's has changed in the set: its part is looked at in the next wait.
    pub(super) fn expect(&self) {
        self.busy.store(true, Ordering::Relaxed);
    }

    fn end(&self, busy: bool) {
        for counter in [&self.waits, &self.passed, &self.left] {
            counter.store(0, Ordering::Relaxed);
        }
        self.busy.store(busy, Ordering::Relaxed);
    }

    /// Counts a wait with room for `max`, while `queued` of ours may be ready. Returns how many events of ours come
    /// before the kernel's in it; `None` if the kernel's part has no turn in it.
    pub(super) fn before_kernels(&self, queued: usize, max: usize) -> Option<usize> {
        let waits = self.waits.fetch_add(1, Ordering::Relaxed);
        if self.left.load(Ordering::Relaxed) > 0 {
            return Some(0);
        }
        let left = queued.saturating_sub(self.passed.load(Ordering::Relaxed) as usize);
        if self.busy.load(Ordering::Relaxed) {
            (left < max).then_some(left)
        } else {
            (waits + 1 >= LOOK_EVERY).then_some(left.min(max - 1))
        }
    }

    /// A wait told so many events of ours.
    pub(super) fn told_ours(&self, events: usize) {
        self.passed.fetch_add(events as u32, Ordering::Relaxed);
    }

    /// The kernel's part told events with these words, into room for `room`, while `queued` of ours may be ready.
    pub(super) fn told_kernels(
        &self,
        mut words: impl ExactSizeIterator<Item = u64>,
        room: usize,
        queued: usize,
    ) {
        let (len, head) = (words.len(), words.next());
        let Some(head) = head.filter(|_| len == room) else { return self.end(len > 0) };
        let (left, first) = match self.left.load(Ordering::Relaxed) {
            0 => (queued as u32, None),
            left => (left, Some(self.first.load(Ordering::Relaxed))),
        };
        let left = left.saturating_sub(len as u32);
        if left == 0 || first == Some(head) || words.any(|word| word == first.unwrap_or(head)) {
            return self.end(true);
        }
        self.left.store(left, Ordering::Relaxed);
        self.first.store(first.unwrap_or(head), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
