//! Ports that stand on another port and change what passes, or only look.

use crate::port::*;
use base::{Addr, Duration, FlowKey, Instant};
use ring::Frame;
use std::io::IoSlice;
use std::os::fd::RawFd;
use std::sync::Arc;

/// A port made of another one below it. Everything goes straight down but what a layer takes into its own
/// hands; each is a [`PacketIo`] by that alone, and costs nothing where it is not put on.
pub trait Layer: Send {
    /// The port below.
    type Below: PacketIo + ?Sized;

    /// The port below, to ask.
    fn below(&self) -> &Self::Below;

    /// The port below, to use.
    fn below_mut(&mut self) -> &mut Self::Below;

    /// [`PacketIo::caps`] as seen from above.
    fn caps_above(&self) -> &Caps {
        self.below().caps()
    }

    /// [`PacketIo::take_long`] as seen from above.
    fn take_long_above(&mut self) -> Option<Frame> {
        self.below_mut().take_long()
    }

    /// [`PacketIo::retire`] as seen from above: a layer with frames of its own takes those back.
    fn retire_above(&mut self, frame: Frame) {
        self.below_mut().retire(frame);
    }

    /// [`PacketIo::rx`] as seen from above.
    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        self.below_mut().rx(batch)
    }

    /// [`PacketIo::tx`] as seen from above.
    fn send(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        self.below_mut().tx(batch)
    }

    /// [`PacketIo::gathers`] as seen from above. A layer that works on batches needs packets whole.
    fn gather_from(&self) -> Option<usize> {
        None
    }

    /// [`PacketIo::tx_gather`] as seen from above.
    fn send_gathered(&mut self, headers: &mut Frame, meta: &TxMeta, payload: &[IoSlice<'_>]) -> bool {
        let _ = (headers, meta, payload);
        false
    }

    /// [`PacketIo::gathers_at_once`] as seen from above.
    fn gather_at_once(&self) -> usize {
        0
    }

    /// [`PacketIo::tx_gather_all`] as seen from above.
    fn send_all_gathered(&mut self, all: &[Gather<'_>]) {
        let _ = all;
    }

    /// [`PacketIo::wait`] as seen from above.
    fn sleep(&mut self, timeout: Option<Duration>) -> Result<Wake, IoError> {
        self.below_mut().wait(timeout)
    }

    /// [`PacketIo::due`] as seen from above.
    fn due_above(&self) -> Option<Instant> {
        self.below().due()
    }

    /// [`PacketIo::poll_fds`] as seen from above.
    fn descriptors(&self) -> Vec<RawFd> {
        self.below().poll_fds()
    }

    /// [`PacketIo::claim`] as seen from above.
    ///
    /// # Errors
    /// See [`ClaimError`].
    fn claim_above(&mut self, claim: &PortClaim) -> Result<(), ClaimError> {
        self.below_mut().claim(claim)
    }

    /// [`PacketIo::release`] as seen from above.
    fn release_above(&mut self, claim: &PortClaim) {
        self.below_mut().release(claim);
    }

    /// [`PacketIo::steers`] as seen from above.
    fn steers_above(&self) -> bool {
        self.below().steers()
    }

    /// [`PacketIo::answers_here`] as seen from above.
    fn answers_above(&self, key: &FlowKey) -> bool {
        self.below().answers_here(key)
    }

    /// Counters of the layer itself, after those of the port below.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

impl<L: Layer> PacketIo for L {
    fn caps(&self) -> &Caps {
        self.caps_above()
    }

    fn take(&mut self) -> Option<Frame> {
        self.below_mut().take()
    }

    fn take_all(&mut self, count: usize, into: &mut Vec<Frame>) -> bool {
        self.below_mut().take_all(count, into)
    }

    fn take_long(&mut self) -> Option<Frame> {
        self.take_long_above()
    }

    fn retire(&mut self, frame: Frame) {
        self.retire_above(frame);
    }

    fn retire_all(&mut self, batch: &mut RxBatch) {
        // What was received came from below, also where a layer has frames of its own to send in.
        self.below_mut().retire_all(batch);
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        self.receive(batch)
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        self.send(batch)
    }

    fn gathers(&self) -> Option<usize> {
        self.gather_from()
    }

    fn tx_gather(&mut self, headers: &mut Frame, meta: &TxMeta, payload: &[IoSlice<'_>]) -> bool {
        self.send_gathered(headers, meta, payload)
    }

    fn gathers_at_once(&self) -> usize {
        self.gather_at_once()
    }

    fn tx_gather_all(&mut self, all: &[Gather<'_>]) {
        self.send_all_gathered(all);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<Wake, IoError> {
        self.sleep(timeout)
    }

    fn waker(&self) -> Arc<dyn Waker> {
        self.below().waker()
    }

    fn due(&self) -> Option<Instant> {
        self.due_above()
    }

    fn poll_fds(&self) -> Vec<RawFd> {
        self.descriptors()
    }

    fn claim(&mut self, claim: &PortClaim) -> Result<(), ClaimError> {
        self.claim_above(claim)
    }

    fn release(&mut self, claim: &PortClaim) {
        self.release_above(claim);
    }

    fn steers(&self) -> bool {
        self.steers_above()
    }

    fn answers_here(&self, key: &FlowKey) -> bool {
        self.answers_above(key)
    }

    fn serve(&mut self, claim: &PortClaim, wanted: bool) {
        self.below_mut().serve(claim, wanted);
    }

    fn is_ours(&self, key: &FlowKey, opens: bool) -> bool {
        self.below().is_ours(key, opens)
    }

    fn on_flow(&mut self, key: &FlowKey, lives: bool) {
        self.below_mut().on_flow(key, lives);
    }

    fn hand_over(&mut self, key: &FlowKey, state: &[u8]) -> bool {
        self.below_mut().hand_over(key, state)
    }

    fn take_over(&mut self, state: &mut Vec<u8>) -> bool {
        self.below_mut().take_over(state)
    }

    fn on_round_trip(&mut self, key: &FlowKey, srtt: Duration) {
        self.below_mut().on_round_trip(key, srtt);
    }

    fn net_events(&mut self, events: &mut Vec<NetEvent>) {
        self.below_mut().net_events(events);
    }

    fn resolve(&mut self, addr: Addr) {
        self.below_mut().resolve(addr);
    }

    fn stats(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.below().stats();
        all.extend(self.counters());
        all
    }
}
