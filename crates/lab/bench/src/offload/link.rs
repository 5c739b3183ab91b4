//! A link that hands packets over a few at a time, as a core finds them that keeps up with it, and perhaps in another
//! order than they were sent in.

use pio::{IoError, Layer, PacketIo, Pair, RxBatch, RxPacket};
use std::collections::VecDeque;

/// Every so many packets one is overtaken by half of them.
const MIXED: usize = 16;

/// How a link hands packets over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Manner {
    /// Packets a call at most.
    pub(super) at_once: usize,
    /// In another order.
    pub(super) mixed: bool,
}

impl Manner {
    /// That end of a pair with this manner; as it is, if the manner is no other.
    pub(super) fn apply(self, below: Pair) -> Box<dyn PacketIo> {
        if self == super::AT_ONCE {
            return Box::new(below);
        }
        Box::new(Link { below, manner: self, fresh: Vec::new(), waiting: VecDeque::new() })
    }
}

/// One end of a pair, with that manner.
struct Link {
    below: Pair,
    manner: Manner,
    fresh: RxBatch,
    waiting: VecDeque<RxPacket>,
}

impl Layer for Link {
    type Below = Pair;

    fn below(&self) -> &Pair {
        &self.below
    }

    fn below_mut(&mut self) -> &mut Pair {
        &mut self.below
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        if self.waiting.is_empty() {
            self.below.rx(&mut self.fresh)?;
            if self.manner.mixed {
                for some in self.fresh.chunks_exact_mut(MIXED) {
                    some[..MIXED / 2].rotate_left(1);
                }
            }
            self.waiting.extend(self.fresh.drain(..));
        }
        let count = self.manner.at_once.min(self.waiting.len());
        batch.extend(self.waiting.drain(..count));
        Ok(count)
    }
}
