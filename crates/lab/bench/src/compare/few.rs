//! A port that hands over and takes few packets at a time, for what batches are worth.

use pio::{IoError, Layer, PacketIo, RxBatch, RxPacket, TxBatch};
use std::collections::VecDeque;

/// A port with batches of at most so many packets.
pub(crate) struct Few<P> {
    below: P,
    most: usize,
    fresh: RxBatch,
    waiting: VecDeque<RxPacket>,
    leaving: TxBatch,
}

impl<P: PacketIo> Few<P> {
    /// `below` with batches of at most `most` packets.
    pub(crate) fn new(below: P, most: usize) -> Few<P> {
        Few { below, most, fresh: RxBatch::new(), waiting: VecDeque::new(), leaving: TxBatch::new() }
    }
}

impl<P: PacketIo> Layer for Few<P> {
    type Below = P;

    fn below(&self) -> &P {
        &self.below
    }

    fn below_mut(&mut self) -> &mut P {
        &mut self.below
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        if self.waiting.is_empty() {
            self.below.rx(&mut self.fresh)?;
            self.waiting.extend(self.fresh.drain(..));
        }
        let count = self.most.min(self.waiting.len());
        batch.extend(self.waiting.drain(..count));
        Ok(count)
    }

    fn send(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        let mut sent = 0;
        while !batch.is_empty() {
            let count = self.most.min(batch.len());
            self.leaving.extend(batch.drain(..count));
            let left = self.below.tx(&mut self.leaving)?;
            sent += left;
            if !self.leaving.is_empty() {
                // What found no room goes back to the front, in order.
                while let Some(packet) = self.leaving.pop_back() {
                    batch.push_front(packet);
                }
                break;
            }
        }
        Ok(sent)
    }
}
