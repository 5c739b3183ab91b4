//! A point on a port where packets can be watched: off, it costs one load per batch.

use crate::capture::Recorder;
use base::Instant;
use pio::{Gather, IoError, Layer, PacketIo, RxBatch, TxBatch, TxGather, TxMeta};
use ring::Frame;
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Clock = Box<dyn Fn() -> Instant + Send>;

/// Turns recording on a port on and off from any thread.
#[derive(Clone, Default)]
pub struct Switch(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// The number of the capture that runs, 0 for none.
    running: AtomicU64,
    /// Locked only while recording, or to change it.
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    recorder: Option<(Recorder, Clock)>,
    /// Captures begun so far.
    captures: u64,
}

impl Switch {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.0.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records to `recorder` from now on, in place of whatever was recorded to.
    pub(crate) fn start(&self, recorder: Recorder, clock: Clock) {
        let mut slot = self.slot();
        slot.recorder = Some((recorder, clock));
        slot.captures += 1;
        self.0.running.store(slot.captures, Ordering::Release);
    }

    /// Records no more.
    pub fn stop(&self) {
        self.0.running.store(0, Ordering::Release);
        self.slot().recorder = None;
    }

    /// The number of the capture that runs, if one does.
    #[inline]
    fn running(&self) -> Option<u64> {
        Some(self.0.running.load(Ordering::Relaxed)).filter(|&number| number > 0)
    }

    /// Records packets, each given by its parts.
    fn record<'a, P: Iterator<Item = &'a [u8]> + Clone>(
        &self,
        outbound: bool,
        packets: impl Iterator<Item = P>,
    ) {
        let mut slot = self.slot();
        let Some((recorder, clock)) = &mut slot.recorder else { return };
        if recorder.ring.is_abandoned() {
            slot.recorder = None;
            self.0.running.store(0, Ordering::Release);
            return;
        }
        let now = clock();
        recorder.begin_batch();
        packets.for_each(|parts| recorder.record(now, outbound, parts));
    }
}

/// A port that can be watched.
struct Tapped<P: PacketIo + ?Sized> {
    port: Box<P>,
    switch: Switch,
    /// The port sends payloads from where they lie.
    gathers: bool,
    /// Packets at the front of the transmit batch that came back from an earlier try, and the capture that has
    /// them already.
    came_back: (usize, u64),
}

/// Puts a tap on a port; the switch turns it on.
pub fn tapped<P: PacketIo + ?Sized + 'static>(mut port: Box<P>) -> (Box<dyn PacketIo>, Switch) {
    let switch = Switch::default();
    let gathers = port.gather().is_some();
    (Box::new(Tapped { port, switch: switch.clone(), gathers, came_back: (0, 0) }), switch)
}

impl<P: PacketIo + ?Sized> Tapped<P> {
    #[inline(never)]
    fn receive_watched(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let before = batch.len();
        let n = self.port.rx(batch)?;
        if n > 0 {
            // A packet in several frames is one packet.
            let packets = batch[before..].split_inclusive(|part| !part.meta.more);
            self.switch.record(false, packets.map(|parts| parts.iter().map(|part| part.frame.data())));
        }
        Ok(n)
    }

    /// Records for the capture of that number.
    #[inline(never)]
    fn send_watched(&mut self, batch: &mut TxBatch, number: u64) -> Result<usize, IoError> {
        let known = match self.came_back {
            (count, of) if of == number => count,
            _ => 0,
        };
        self.switch.record(true, batch.iter().skip(known).map(|packet| std::iter::once(packet.frame.data())));
        let sent = self.port.tx(batch);
        self.came_back = (batch.len(), number);
        sent
    }
}

impl<P: PacketIo + ?Sized> Layer for Tapped<P> {
    type Below = P;

    fn below(&self) -> &Self::Below {
        &self.port
    }

    fn below_mut(&mut self) -> &mut Self::Below {
        &mut self.port
    }

    #[inline]
    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        // Looked at first: while it is off, what the port says goes straight up.
        if self.switch.running().is_some() { self.receive_watched(batch) } else { self.port.rx(batch) }
    }

    fn gather(&mut self) -> Option<&mut dyn TxGather> {
        if self.gathers { Some(self) } else { None }
    }

    #[inline]
    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        match self.switch.running() {
            Some(number) => self.send_watched(batch, number),
            None => self.port.tx(batch),
        }
    }
}

impl<P: PacketIo + ?Sized> TxGather for Tapped<P> {
    fn gather_from(&mut self) -> usize {
        self.port.gather().map_or(usize::MAX, TxGather::gather_from)
    }

    fn tx_gather(&mut self, headers: &mut Frame, meta: &TxMeta, payload: &[IoSlice<'_>]) -> bool {
        let sent = self.port.gather().is_some_and(|port| port.tx_gather(headers, meta, payload));
        if sent && self.switch.running().is_some() {
            let pieces = payload.iter().map(|piece| &**piece);
            self.switch.record(true, std::iter::once(std::iter::once(headers.data()).chain(pieces)));
        }
        sent
    }

    fn gathers_at_once(&mut self) -> Option<usize> {
        self.port.gather()?.gathers_at_once()
    }

    fn tx_gather_all(&mut self, all: &[Gather<'_>]) {
        let Some(port) = self.port.gather() else { return };
        port.tx_gather_all(all);
        if self.switch.running().is_some() {
            let parts = all.iter().map(|one| {
                let pieces = one.payload.iter().map(|piece| &**piece);
                std::iter::once(one.headers).chain(pieces)
            });
            self.switch.record(true, parts);
        }
    }
}

#[cfg(test)]
mod tests;
