//! How many look at each point: numbers that are written from outside of the program, but for its tests.

use crate::points::Id;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Semaphores have 16 bits; they are read four at a time.
const LANES: usize = 4;
const WORDS: usize = Id::COUNT.div_ceil(LANES);

/// In the section where tools expect them. Tracers and the kernel write to them, two bytes at a time; `used` says that
/// an observer may whom the compiler does not see.
#[used]
#[unsafe(link_section = ".probes")]
pub(crate) static SEMAPHORES: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

/// A word as it is now.
#[inline(always)]
fn word(index: usize) -> u64 {
    SEMAPHORES[index].load(Relaxed)
}

/// Does an observer look at any point?
#[inline]
pub fn watched() -> bool {
    (0..WORDS).fold(0, |all, index| all | word(index)) != 0
}

/// Does an observer look at this one?
#[inline]
pub fn is_watched(point: Id) -> bool {
    let index = point as usize;
    word(index / LANES) >> (16 * (index % LANES)) & 0xffff != 0
}

/// An observer of this program looks at a point: for tests of what reaches points. Gone when dropped.
#[derive(Debug)]
pub struct Look(Id);

/// Looks at a point from inside of the program.
pub fn look(point: Id) -> Look {
    let (word, one) = lane(point);
    word.fetch_add(one, Relaxed);
    Look(point)
}

impl Drop for Look {
    fn drop(&mut self) {
        let (word, one) = lane(self.0);
        word.fetch_sub(one, Relaxed);
    }
}

/// The word with a point's semaphore, and one of it.
fn lane(point: Id) -> (&'static AtomicU64, u64) {
    let index = point as usize;
    (&SEMAPHORES[index / LANES], 1 << (16 * (index % LANES)))
}
