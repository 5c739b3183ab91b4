//! A port that hands over few packets a turn and takes few at a time, for what batches are worth.

use pio::{BATCH_MAX, IoError, Layer, PacketIo, RxBatch, RxPacket, TxBatch};
use stack::{BATCHES_MAX, CoreConfig};
use std::collections::VecDeque;

/// A port with at most so many packets a turn: as a stack calls until a batch is not full, and so many times at most.
pub(crate) struct Few<P> {
    below: P,
    most: usize,
    asks: usize,
    /// Packets and calls of this turn.
    given: usize,
    calls: usize,
    fresh: RxBatch,
    waiting: VecDeque<RxPacket>,
    leaving: TxBatch,
}

impl<P: PacketIo> Few<P> {
    /// `below` with at most `most` packets a turn, of a stack with [`batches`] a turn.
    pub(crate) fn new(below: P, most: usize) -> Few<P> {
        Few {
            below,
            most,
            asks: batches(most).into(),
            given: 0,
            calls: 0,
            fresh: RxBatch::new(),
            waiting: VecDeque::new(),
            leaving: TxBatch::new(),
        }
    }
}

/// Batches that a stack must receive in a turn for so many packets: as many as it does by itself, or more.
pub(crate) fn batches(most: usize) -> u8 {
    let usual = CoreConfig::default().batches;
    if most == usize::MAX { usual } else { (most.div_ceil(BATCH_MAX) as u8).clamp(usual, BATCHES_MAX) }
}

impl<P: PacketIo> Layer for Few<P> {
    type Below = P;

    fn below(&self) -> &P {
        &self.below
    }

    fn below_mut(&mut self) -> &mut P {
        &mut self.below
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        if self.waiting.is_empty() {
            self.below.rx(&mut self.fresh)?;
            self.waiting.extend(self.fresh.drain(..));
        }
        let count = (self.most - self.given).min(BATCH_MAX).min(self.waiting.len());
        batch.extend(self.waiting.drain(..count));
        (self.given, self.calls) = (self.given + count, self.calls + 1);
        if count < BATCH_MAX || self.calls == self.asks {
            (self.given, self.calls) = (0, 0);
        }
        Ok(count)
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        let mut sent = 0;
        while !batch.is_empty() {
            let count = self.most.min(BATCH_MAX).min(batch.len());
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
