//! The flows of one member, for the others to look up: prints of 64 bits in lines of eight, found by a few loads.
//!
//! Nothing ever moves, so that a reader needs no lock; a line that is full passes on to the next three. What finds no
//! room there makes its bucket blurred: until it ends, others keep silent about unknown flows of that bucket.

use super::table::BUCKETS;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

/// Bytes for a member: 261,632 flows.
pub(super) const LEN: usize = 2 << 20;

const WAYS: usize = 8;
const COUNTS: usize = 0;
const BLURS: usize = BUCKETS;
const LINES: usize = 2 * BUCKETS;
/// Lines in which a print may lie.
const REACH: usize = 4;

/// The words of a member.
pub(super) struct Flows<'a>(pub(super) &'a [AtomicU64]);

impl Flows<'_> {
    /// Where a print may lie.
    fn places(&self, print: u64) -> impl Iterator<Item = &AtomicU64> {
        let lines = (self.0.len() - LINES) / WAYS;
        let first = (((print >> 32) * lines as u64) >> 32) as usize;
        let at = (first..first + REACH).map(move |line| LINES + line % lines * WAYS);
        at.flat_map(|at| &self.0[at..at + WAYS])
    }

    /// Forgets all.
    pub(super) fn clear(&self) {
        // What was never written is not touched, lest it take memory.
        self.0.iter().filter(|word| word.load(SeqCst) != 0).for_each(|word| word.store(0, SeqCst));
    }

    /// Flows in a bucket.
    pub(super) fn count(&self, bucket: usize) -> u64 {
        self.0[COUNTS + bucket].load(SeqCst)
    }

    pub(super) fn insert(&self, bucket: usize, print: u64) {
        self.0[COUNTS + bucket].fetch_add(1, SeqCst);
        let stored = self.places(print).any(|place| place.compare_exchange(0, print, SeqCst, SeqCst).is_ok());
        if !stored {
            self.0[BLURS + bucket].fetch_add(1, SeqCst);
        }
    }

    pub(super) fn remove(&self, bucket: usize, print: u64) {
        let found = self.places(print).any(|place| place.compare_exchange(print, 0, SeqCst, SeqCst).is_ok());
        if !found {
            self.0[BLURS + bucket].fetch_sub(1, SeqCst);
        }
        self.0[COUNTS + bucket].fetch_sub(1, SeqCst);
    }

    /// Is the flow here, or can that not be told? A new connection is not refused for that.
    pub(super) fn may_have(&self, bucket: usize, print: u64, opens: bool) -> bool {
        let blurred = !opens && self.0[BLURS + bucket].load(SeqCst) > 0;
        blurred || self.count(bucket) > 0 && self.places(print).any(|place| place.load(SeqCst) == print)
    }
}
