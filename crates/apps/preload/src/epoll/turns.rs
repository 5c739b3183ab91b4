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
mod tests {
    //! Goal: whatever is ready on each side and however little room there is, each gets half of its fair share or more,
    //! and a part in which nothing is ready is looked at now and then only.
    use super::*;

    /// Events of each of ours and of the kernel's that 1,000 waits tell, and looks at the kernel's part.
    fn told(ours: usize, kernels: usize, max: usize) -> (usize, usize, usize) {
        let turns = Turns::new();
        let (mut of_ours, mut of_kernels, mut looks, mut at) = (0, 0, 0, 0);
        for _ in 0..1_000 {
            let turn = turns.before_kernels(ours, max);
            let n = ours.min(turn.unwrap_or(max));
            turns.told_ours(n);
            of_ours += n;
            if turn.is_none() && n > 0 {
                continue;
            }
            looks += 1;
            let words: Vec<u64> = (0..kernels.min(max - n)).map(|i| ((at + i) % kernels) as u64).collect();
            at += words.len();
            of_kernels += words.len();
            turns.told_kernels(words.iter().copied(), max - n, ours);
            let rest = (ours - n).min(max - n - words.len());
            turns.told_ours(rest);
            of_ours += rest;
        }
        (of_ours, of_kernels, looks)
    }

    #[test]
    fn both_sides_have_their_turns() {
        for (ours, kernels, max) in
            (1..12).flat_map(|a| (1..12).flat_map(move |b| (1..12).map(move |m| (a, b, m))))
        {
            let (of_ours, of_kernels, _) = told(ours, kernels, max);
            let all = 1_000 * max.min(ours + kernels);
            let fair = |part: usize| all * part / (ours + kernels);
            assert!(
                of_ours * 2 >= fair(ours) && of_kernels * 2 >= fair(kernels),
                "{ours} {kernels} {max}: {of_ours} {of_kernels}"
            );
        }
        for max in 1..5 {
            assert_eq!(told(3, 0, max).2, 1_000 / LOOK_EVERY as usize);
        }
    }
}
