//! Ports that stand on another port and change what passes, or only look.

pub(crate) mod card;
pub(crate) mod classify;
pub(crate) mod gro;
pub(crate) mod lanes;
pub(crate) mod steer;

use crate::port::*;
use ring::Frame;
use std::os::fd::RawFd;

/// A port made of another one below it. Everything goes straight down but what a layer takes into its own
/// hands; each is a [`PacketIo`] by that alone, and costs nothing where it is not put on.
pub trait Layer: Send {
    /// The port below.
    type Below: PacketIo + ?Sized;

    /// The port below, to ask.
    fn below(&self) -> &Self::Below;

    /// The port below, to use.
    fn below_mut(&mut self) -> &mut Self::Below;

    /// As [`PacketIo::caps`].
    fn caps(&self) -> &Caps {
        self.below().caps()
    }

    /// As [`PacketIo::take_long`].
    fn take_long(&mut self) -> Option<Frame> {
        self.below_mut().take_long()
    }

    /// As [`PacketIo::retire`]: a layer with frames of its own takes those back.
    fn retire(&mut self, frame: Frame) {
        self.below_mut().retire(frame);
    }

    /// As [`PacketIo::rx`].
    ///
    /// # Errors
    /// See [`IoError`].
    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        self.below_mut().rx(batch)
    }

    /// As [`PacketIo::tx`].
    ///
    /// # Errors
    /// See [`IoError`].
    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        self.below_mut().tx(batch)
    }

    /// As [`PacketIo::arm`].
    ///
    /// # Errors
    /// See [`IoError`].
    fn arm(&mut self, fds: &mut Vec<RawFd>) -> Result<bool, IoError> {
        self.below_mut().arm(fds)
    }

    /// As [`PacketIo::gather`]. A layer that works on batches needs packets whole.
    fn gather(&mut self) -> Option<&mut dyn TxGather> {
        None
    }

    /// As [`PacketIo::claims`].
    fn claims(&mut self) -> Option<&mut dyn Claims> {
        self.below_mut().claims()
    }

    /// As [`PacketIo::net`].
    fn net(&mut self) -> Option<&mut dyn NetEvents> {
        self.below_mut().net()
    }

    /// As [`PacketIo::delays`].
    fn delays(&self) -> Option<&dyn Delays> {
        self.below().delays()
    }

    /// Counters of the layer itself, after those of the port below.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

impl<L: Layer> PacketIo for L {
    fn caps(&self) -> &Caps {
        Layer::caps(self)
    }

    fn take(&mut self) -> Option<Frame> {
        self.below_mut().take()
    }

    fn take_all(&mut self, count: usize, into: &mut Vec<Frame>) -> bool {
        self.below_mut().take_all(count, into)
    }

    fn take_long(&mut self) -> Option<Frame> {
        Layer::take_long(self)
    }

    fn retire(&mut self, frame: Frame) {
        Layer::retire(self, frame);
    }

    fn retire_all(&mut self, batch: &mut RxBatch) {
        // What was received came from below, also where a layer has frames of its own to send in.
        self.below_mut().retire_all(batch);
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        Layer::rx(self, batch)
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        Layer::tx(self, batch)
    }

    fn arm(&mut self, fds: &mut Vec<RawFd>) -> Result<bool, IoError> {
        Layer::arm(self, fds)
    }

    fn stats(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.below().stats();
        all.extend(self.counters());
        all
    }

    fn gather(&mut self) -> Option<&mut dyn TxGather> {
        Layer::gather(self)
    }

    fn claims(&mut self) -> Option<&mut dyn Claims> {
        Layer::claims(self)
    }

    fn net(&mut self) -> Option<&mut dyn NetEvents> {
        Layer::net(self)
    }

    fn delays(&self) -> Option<&dyn Delays> {
        Layer::delays(self)
    }
}
