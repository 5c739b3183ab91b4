//! Scheduler of several queues that share one way up: an equal share of bytes to each that has packets, and packets
//! without data first.
//!
//! ```text
//!   control:  queue 0, queue 1, ...  in turn  ──first──┐
//!                                                       ├──> one after the other
//!   data:     the queue that had the fewest bytes  ───┘
//! ```
//! A queue's bytes are counted while it has data waiting; one that comes back after a pause begins where the others
//! are, so it is owed nothing for the time when it wanted nothing. Then of any two queues with data one never is ahead
//! of the other by more than the largest packet: only a queue that is not ahead goes next.

use alloc::vec;
use alloc::vec::Vec;

/// Most queues.
pub const QUEUES_MAX: usize = 32;
/// Control packets that go in a row while data waits; then one packet of data goes. Without this bound a flood of SYNs
/// would hold up established connections for ever.
pub const CONTROL_RUN: u32 = 64;

/// Next packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// The first control packet of that queue.
    Control(usize),
    /// The first packet of data of that queue; [`Arbiter::on_moved`] is to be told its bytes.
    Data(usize),
}

/// The shares of queues.
#[derive(Clone, Debug)]
pub struct Arbiter {
    /// Bytes of each, as if it had always had data.
    moved: Vec<u64>,
    /// Which had data when they were last asked.
    busy: u32,
    /// The bytes of the queue that went last, before it went: no flow with data has fewer.
    level: u64,
    /// Queue that goes first of those with control packets.
    first: usize,
    /// Control packets since data last went.
    run: u32,
}

impl Arbiter {
    /// Nothing has had anything.
    ///
    /// # Panics
    /// Without a queue, or with more than [`QUEUES_MAX`].
    pub fn new(queues: usize) -> Arbiter {
        assert!((1..=QUEUES_MAX).contains(&queues), "{queues} queues");
        Arbiter { moved: vec![0; queues], busy: 0, level: 0, first: 0, run: 0 }
    }

    /// Which queue goes next, of those that have control packets and those that have data: a bit for each. `None` if
    /// none has anything.
    pub fn poll(&mut self, control: u32, data: u32) -> Option<Next> {
        let all = u32::MAX >> (QUEUES_MAX - self.moved.len());
        let (control, data) = (control & all, data & all);
        for queue in each(data & !self.busy) {
            self.moved[queue] = self.moved[queue].max(self.level);
        }
        self.busy = data;
        if control != 0 && (data == 0 || self.run < CONTROL_RUN) {
            // Those from `first` on, then those before.
            let later = control & (u32::MAX << self.first);
            let queue = if later != 0 { later } else { control }.trailing_zeros() as usize;
            self.first = (queue + 1) % self.moved.len();
            self.run = if data == 0 { 0 } else { self.run + 1 };
            return Some(Next::Control(queue));
        }
        let queue = each(data).min_by_key(|queue| self.moved[*queue])?;
        self.level = self.moved[queue];
        self.run = 0;
        Some(Next::Data(queue))
    }

    /// So many bytes of data of a queue went.
    pub fn on_moved(&mut self, queue: usize, bytes: usize) {
        self.moved[queue] += bytes as u64;
    }
}

/// The numbers of the bits that are set.
fn each(mut bits: u32) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(bit)
    })
}

#[cfg(test)]
mod tests;
