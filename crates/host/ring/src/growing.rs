//! A pool that maps its slots when they are needed.

use crate::frame::{Frame, FramePool};
use std::io;

/// Slots of several [`FramePool`]s, the next of which is made when those that there are have no free slot. Addresses,
/// too, cost a program that limits them (RLIMIT_AS).
pub struct GrowingPool {
    pools: Vec<FramePool>,
    pools_max: usize,
    refused: u64,
}

impl GrowingPool {
    /// Maps `slots` slots of `slot_size` bytes, and later as many again, `pools_max` times altogether.
    ///
    /// # Errors
    /// As [`FramePool::new`]'s.
    pub fn new(pools_max: usize, slots: u32, slot_size: usize) -> io::Result<GrowingPool> {
        Ok(GrowingPool { pools: vec![FramePool::new(slots, slot_size)?], pools_max, refused: 0 })
    }

    /// Takes a free slot, as [`FramePool::take`] does.
    #[inline]
    pub fn take(&mut self) -> Option<Frame> {
        if self.pools[0].available() > 0 { self.pools[0].take() } else { self.take_more() }
    }

    #[cold]
    fn take_more(&mut self) -> Option<Frame> {
        if let Some(pool) = self.pools.iter_mut().find(|pool| pool.available() > 0) {
            return pool.take();
        }
        let first = &self.pools[0];
        let more = (self.pools.len() < self.pools_max)
            .then(|| FramePool::new(first.slots(), first.slot_size()).ok())
            .flatten();
        let Some(mut more) = more else {
            self.refused += 1;
            return None;
        };
        let frame = more.take();
        self.pools.push(more);
        frame
    }

    /// Gives a slot back. Panics if the frame is another pool's.
    #[inline]
    pub fn retire(&mut self, frame: Frame) {
        let owner = self.pools.iter().position(|pool| pool.owns(&frame)).unwrap_or(0);
        self.pools[owner].retire(frame);
    }

    /// Returns the number of free slots that are mapped.
    pub fn available(&self) -> u32 {
        self.pools.iter().map(FramePool::available).sum()
    }

    /// Returns the number of times a slot was asked for and none was free.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
