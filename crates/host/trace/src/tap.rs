//! A point on a port where packets can be watched: off, it costs one load per batch.

use crate::capture::Recorder;
use base::{Addr, Duration, Instant};
use pio::{Caps, ClaimError, IoError, NetEvent, PacketIo, PortClaim, RxBatch, TxBatch, Wake, Waker};
use ring::Frame;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Clock = Box<dyn Fn() -> Instant + Send>;

/// Turns recording on a port on and off from any thread.
#[derive(Clone, Default)]
pub struct Switch(Arc<Inner>);

#[derive(Default)]
struct Inner {
    on: AtomicBool,
    /// Locked only while recording, or to change it.
    recorder: Mutex<Option<(Recorder, Clock)>>,
}

impl Switch {
    fn recorder(&self) -> MutexGuard<'_, Option<(Recorder, Clock)>> {
        self.0.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records to `recorder` from now on, in place of whatever was recorded to.
    pub(crate) fn start(&self, recorder: Recorder, clock: Clock) {
        *self.recorder() = Some((recorder, clock));
        self.0.on.store(true, Ordering::Release);
    }

    /// Records no more.
    pub fn stop(&self) {
        self.0.on.store(false, Ordering::Release);
        *self.recorder() = None;
    }

    fn record<'a>(&self, outbound: bool, packets: impl Iterator<Item = &'a Frame>) {
        let mut slot = self.recorder();
        let Some((recorder, clock)) = slot.as_mut() else { return };
        if recorder.is_abandoned() {
            *slot = None;
            self.0.on.store(false, Ordering::Release);
            return;
        }
        let now = clock();
        packets.for_each(|frame| recorder.record(now, outbound, frame.data()));
    }
}

/// A port that can be watched.
struct Tapped {
    port: Box<dyn PacketIo>,
    switch: Switch,
    /// Packets at the front of the transmit batch that were recorded in an earlier try and came back.
    recorded: usize,
}

/// Puts a tap on a port; the switch turns it on.
pub fn tapped(port: Box<dyn PacketIo>) -> (Box<dyn PacketIo>, Switch) {
    let switch = Switch::default();
    (Box::new(Tapped { port, switch: switch.clone(), recorded: 0 }), switch)
}

impl PacketIo for Tapped {
    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let before = batch.len();
        let n = self.port.rx(batch)?;
        if n > 0 && self.switch.0.on.load(Ordering::Relaxed) {
            self.switch.record(false, batch[before..].iter().map(|packet| &packet.frame));
        }
        Ok(n)
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        if self.switch.0.on.load(Ordering::Relaxed) {
            self.switch.record(true, batch.iter().skip(self.recorded).map(|packet| &packet.frame));
            self.recorded = batch.len();
        }
        let n = self.port.tx(batch);
        self.recorded = self.recorded.min(batch.len());
        n
    }

    fn caps(&self) -> &Caps {
        self.port.caps()
    }

    fn take(&mut self) -> Option<Frame> {
        self.port.take()
    }

    fn retire(&mut self, frame: Frame) {
        self.port.retire(frame);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<Wake, IoError> {
        self.port.wait(timeout)
    }

    fn waker(&self) -> Arc<dyn Waker> {
        self.port.waker()
    }

    fn poll_fds(&self) -> Vec<RawFd> {
        self.port.poll_fds()
    }

    fn claim(&mut self, claim: &PortClaim) -> Result<(), ClaimError> {
        self.port.claim(claim)
    }

    fn release(&mut self, claim: &PortClaim) {
        self.port.release(claim);
    }

    fn net_events(&mut self, events: &mut Vec<NetEvent>) {
        self.port.net_events(events);
    }

    fn resolve(&mut self, addr: Addr) {
        self.port.resolve(addr);
    }

    fn stats(&self) -> Vec<(&'static str, u64)> {
        self.port.stats()
    }
}

#[cfg(test)]
mod tests {
    //! Goal: what passes is recorded once, in both directions, and only while the switch is on.
    use super::*;
    use crate::capture;
    use pio::{PairConfig, TxMeta, TxPacket, pair};

    fn send(port: &mut dyn PacketIo, octets: usize) {
        let mut frame = port.take().unwrap();
        frame.set_range(64, octets);
        let mut batch = TxBatch::from([TxPacket { frame, meta: TxMeta::default() }]);
        port.tx(&mut batch).unwrap();
    }

    #[test]
    fn both_directions_while_on() {
        let (a, mut b) = pair(&PairConfig::default()).unwrap();
        let (mut a, switch) = tapped(Box::new(a));
        send(&mut *a, 60);
        let mut taken = capture(&switch, || Instant::from_secs(5), 64, 65_536);
        send(&mut *a, 1_000);
        send(&mut b, 70);
        let mut batch = RxBatch::new();
        assert_eq!(a.rx(&mut batch).unwrap(), 1);
        let mut out = Vec::new();
        assert_eq!(taken.drain(0, &mut out), 2);
        switch.stop();
        send(&mut *a, 60);
        assert_eq!(taken.drain(0, &mut out), 0);
        assert_eq!((taken.stats().written(), taken.stats().dropped()), (2, 0));
        batch.drain(..).for_each(|packet| a.retire(packet.frame));
    }

    #[test]
    fn a_reader_that_leaves_turns_it_off() {
        let (a, _b) = pair(&PairConfig::default()).unwrap();
        let (mut a, switch) = tapped(Box::new(a));
        drop(capture(&switch, || Instant::ZERO, 64, 65_536));
        send(&mut *a, 60);
        assert!(!switch.0.on.load(Ordering::Relaxed));
    }
}
