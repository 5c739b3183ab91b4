//! Connections that a member leaves to another one because it ends, or listens no more, before its application has
//! accepted them. What they are the stacks know.
//!
//! A place is free, then its connection's bucket's once it is filled, then the member's that takes it, until that
//! member has told the connection's flow.

use super::table::each;
use ring::shared::WORD;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

/// Connections that may be on their way at once.
pub(super) const COUNT: usize = u64::BITS as usize;
/// Words for a connection: its length in bytes, its fingerprint, and its state.
const WORDS: usize = 2048;
const STATE: usize = 2;
/// Bytes for all.
pub(super) const LEN: usize = COUNT * WORDS * WORD;

/// A place's word: the bucket and 1 below, the member that asked for it and 1, the member that takes it and 1 above.
const ASKED: u32 = 16;
const TAKER: u32 = 32;

fn bucket_of(word: u64) -> Option<usize> {
    (word as u16 as usize).checked_sub(1)
}

fn asked_of(word: u64) -> Option<usize> {
    ((word as u32 >> ASKED) as usize).checked_sub(1)
}

fn taker_of(word: u64) -> Option<usize> {
    ((word >> TAKER) as usize).checked_sub(1)
}

/// The places of a group.
pub(super) struct Handovers<'a> {
    /// Places that are not free, a bit each.
    pub(super) taken: &'a AtomicU64,
    pub(super) places: &'a [AtomicU64],
    pub(super) memory: &'a [AtomicU64],
}

impl Handovers<'_> {
    fn filled(&self) -> impl Iterator<Item = (usize, u64)> {
        each(self.taken.load(SeqCst)).map(|at| (at, self.places[at].load(SeqCst)))
    }

    /// Returns true if a connection of the bucket is on its way.
    pub(super) fn has(&self, bucket: usize) -> bool {
        self.filled().any(|(_, word)| bucket_of(word) == Some(bucket))
    }

    /// Returns true if the connection is on its way.
    pub(super) fn has_flow(&self, bucket: usize, print: u64) -> bool {
        let is = |at: usize| self.memory[at * WORDS + 1].load(SeqCst) == print;
        self.filled().any(|(at, word)| bucket_of(word) == Some(bucket) && is(at))
    }

    /// Fills a place, for the heir of the bucket or for a member that has asked; false if none is free, or if the
    /// state is too long.
    pub(super) fn put(&self, bucket: usize, print: u64, to: Option<usize>, state: &[u8]) -> bool {
        if state.len().div_ceil(WORD) > WORDS - STATE {
            return false;
        }
        let claim = |at: &usize| self.taken.fetch_or(1 << at, SeqCst) >> at & 1 == 0;
        let Some(at) = each(!self.taken.load(SeqCst)).find(claim) else { return false };
        let memory = &self.memory[at * WORDS..(at + 1) * WORDS];
        memory[0].store(state.len() as u64, SeqCst);
        memory[1].store(print, SeqCst);
        for (word, bytes) in memory[STATE..].iter().zip(state.chunks(WORD)) {
            let mut all = [0; WORD];
            all[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(all), SeqCst);
        }
        let asked = to.map_or(0, |member| member as u64 + 1) << ASKED;
        self.places[at].store((bucket as u64 + 1) | asked, SeqCst);
        true
    }

    /// Frees what `member` took before, and takes the next connection that it asked for, or of a bucket that is `its`.
    pub(super) fn take(&self, member: usize, its: impl Fn(usize) -> bool, state: &mut Vec<u8>) -> bool {
        self.filled().filter(|(_, word)| taker_of(*word) == Some(member)).for_each(|(at, _)| {
            self.places[at].store(0, SeqCst);
            self.taken.fetch_and(!(1 << at), SeqCst);
        });
        let claim = |(at, word): &(usize, u64)| {
            let taken = word | (member as u64 + 1) << TAKER;
            let its = asked_of(*word).map_or_else(|| bucket_of(*word).is_some_and(&its), |to| to == member);
            let wanted = taker_of(*word).is_none() && its;
            wanted && self.places[*at].compare_exchange(*word, taken, SeqCst, SeqCst).is_ok()
        };
        let Some((at, _)) = self.filled().find(claim) else { return false };
        let memory = &self.memory[at * WORDS..(at + 1) * WORDS];
        let len = memory[0].load(SeqCst).min(((WORDS - STATE) * WORD) as u64) as usize;
        state.clear();
        state.extend(
            memory[STATE..].iter().take(len.div_ceil(WORD)).flat_map(|word| word.load(SeqCst).to_ne_bytes()),
        );
        state.truncate(len);
        true
    }

    /// A member is gone: another one takes what it did not tell, and what it asked for.
    pub(super) fn give_back(&self, member: usize) {
        let its = |word: u64| [taker_of(word), asked_of(word)].contains(&Some(member));
        self.filled().filter(|(_, word)| its(*word)).for_each(|(at, word)| {
            self.places[at].store(word & u64::from(u16::MAX), SeqCst);
        });
    }
}
