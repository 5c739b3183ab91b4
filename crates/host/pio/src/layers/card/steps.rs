//! Workers without threads: a program that uses the card lets them work, in an order that a seed says. So what becomes
//! of packets when workers are faster or slower than each other can be played again, in virtual time too.

use super::link::Link;
use super::mover::Mover;
use super::receiver::Receiver;
use super::threads::Clock;
use super::worker::Worker;
use crate::port::BATCH_MAX;
use base::{Instant, Rng};

pub(super) struct Steps {
    pub(super) link: Link,
    pub(super) receivers: Vec<Receiver>,
    pub(super) mover: Mover,
    pub(super) clock: Clock,
    pub(super) rng: Rng,
}

impl Steps {
    /// The worker at the link has a turn, and others in any order, as often as chance will have it.
    pub(super) fn run(&mut self) {
        let now = (self.clock)();
        self.link.turn(now, BATCH_MAX);
        let workers = self.receivers.len() as u64 + 2;
        for _ in 0..self.rng.below(4 * workers) {
            let most = 1 + self.rng.below(BATCH_MAX as u64) as usize;
            let worker: &mut dyn Worker = match self.rng.below(workers) as usize {
                0 => &mut self.link,
                1 => &mut self.mover,
                nth => &mut self.receivers[nth - 2],
            };
            worker.turn(now, most);
        }
    }

    /// When they are to be let work again.
    pub(super) fn due(&self) -> Option<Instant> {
        let dates = self.receivers.iter().map(Worker::due);
        dates.chain([self.link.due()]).fold(None, Instant::earliest)
    }

    /// Does anything wait for a turn?
    pub(super) fn is_ready(&mut self) -> bool {
        let Steps { link, receivers, mover, .. } = self;
        link.is_ready() || mover.is_ready() || receivers.iter_mut().any(Worker::is_ready)
    }
}
