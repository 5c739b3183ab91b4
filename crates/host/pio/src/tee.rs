//! A port that writes down what passes through another.

use crate::port::*;
use crate::record::Recorder;
use base::{Addr, Duration, Instant};
use ring::Frame;
use std::os::fd::RawFd;
use std::sync::Arc;
use wire::pcap::ng::Direction;

/// Records every packet of `P`, both ways, and changes none.
pub struct Tee<P> {
    inner: P,
    recorder: Recorder,
    clock: Box<dyn FnMut() -> Instant + Send>,
}

impl<P: PacketIo> Tee<P> {
    /// Record what passes through `inner`, dated by `clock`.
    pub fn new(inner: P, recorder: Recorder, clock: impl FnMut() -> Instant + Send + 'static) -> Tee<P> {
        Tee { inner, recorder, clock: Box::new(clock) }
    }

    /// The port itself; the recording ends.
    pub fn into_inner(self) -> P {
        self.inner
    }
}

impl<P: PacketIo> PacketIo for Tee<P> {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn take(&mut self) -> Option<Frame> {
        self.inner.take()
    }

    fn retire(&mut self, frame: Frame) {
        self.inner.retire(frame);
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let before = batch.len();
        let got = self.inner.rx(batch)?;
        if got > 0 {
            let at = (self.clock)();
            let mut packet = Vec::new();
            for part in &batch[before..] {
                if !part.meta.more && packet.is_empty() {
                    self.recorder.packet(at, Direction::Inbound, part.frame.data());
                    continue;
                }
                // A packet in several frames is one in the file.
                packet.extend_from_slice(part.frame.data());
                if !part.meta.more {
                    self.recorder.packet(at, Direction::Inbound, &packet);
                    packet.clear();
                }
            }
        }
        Ok(got)
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        if batch.is_empty() {
            return self.inner.tx(batch);
        }
        // Which of them go is known afterwards, when they are gone: so all are copied, and what stays is
        // forgotten.
        let at = (self.clock)();
        let mut marks = Vec::with_capacity(batch.len() + 1);
        for packet in batch.iter() {
            marks.push(self.recorder.mark());
            self.recorder.copy(at, Direction::Outbound, packet.frame.data());
        }
        let result = self.inner.tx(batch);
        let sent = *result.as_ref().unwrap_or(&0);
        if let Some(mark) = marks.get(sent) {
            self.recorder.forget(*mark);
        }
        self.recorder.flush_if_full();
        result
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<Wake, IoError> {
        self.recorder.flush();
        self.inner.wait(timeout)
    }

    fn waker(&self) -> Arc<dyn Waker> {
        self.inner.waker()
    }

    fn poll_fds(&self) -> Vec<RawFd> {
        self.inner.poll_fds()
    }

    fn claim(&mut self, claim: &PortClaim) -> Result<(), ClaimError> {
        self.inner.claim(claim)
    }

    fn release(&mut self, claim: &PortClaim) {
        self.inner.release(claim);
    }

    fn net_events(&mut self, events: &mut Vec<NetEvent>) {
        self.inner.net_events(events);
    }

    fn resolve(&mut self, addr: Addr) {
        self.inner.resolve(addr);
    }

    fn stats(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.inner.stats();
        all.extend([("recorder_lost", self.recorder.lost()), ("recorder_failed", self.recorder.failed())]);
        all
    }
}
