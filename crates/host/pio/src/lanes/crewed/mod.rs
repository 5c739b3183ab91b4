//! A port whose owner has helpers: they verify what arrived along with it, before the stack looks at it.
//!
//! ```text
//!   rx of the port below ──> batch ── runs of packets, pulled by the owner and its helpers:
//!                                      headers, checksum; sound: marked as verified
//!                            batch <── all done
//! ```
//! Nothing decides anything here. What is sound is marked so, which spares the stack the sum; of everything else
//! nothing is said, so the stack finds out by itself what is wrong with it, drops it and counts it. While packets are
//! verified the owner works along and waits, so the stack gets them in the order in which they came, and a helper that
//! is late takes less. Above, the same helpers cut what is sent ([`Lanes`](super::Lanes)) and copy what is read, by
//! [`PacketIo::crew`].

#[cfg(test)]
mod tests;

use super::worth::Sharing;
use crate::layer::Layer;
use crate::look::{judge, look};
use crate::port::*;
use base::Duration;
use ring::{Crew, Frame};
use std::io::IoSlice;
use wire::checksum::Summer;

/// Bytes of a packet whose checksum is work.
const LONG: usize = 512;
/// Packets of that kind in a batch that are worth sharing: what two lanes pull at least.
const SHARE_FROM: u32 = 2 * *Crew::RUN.start() as u32;

/// One bit for each packet of a batch.
const _: () = assert!(BATCH_MAX <= u64::BITS as usize);

/// A port with helpers.
pub(super) struct Crewed {
    below: Box<dyn PacketIo>,
    crew: Crew,
    summer: Summer,
    sharing: Sharing,
    lost: bool,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    batches: u64,
    verified: u64,
    unsound: u64,
}

impl Crewed {
    pub(super) fn on(below: Box<dyn PacketIo>, crew: Crew, sharing: Sharing) -> Crewed {
        Crewed { below, crew, summer: crate::summer(), sharing, lost: false, counts: Counts::default() }
    }

    /// Verifies packets of a batch that are long and of which the port knows nothing, if there are enough of them.
    fn verify(&mut self, batch: &mut RxBatch, first: usize) -> Result<(), IoError> {
        let batch = batch.get_mut(first..).unwrap_or_default();
        let wanted = unknown(batch);
        let count = wanted.count_ones();
        if count < SHARE_FROM {
            return Ok(());
        }
        self.sharing.on_job(count as usize);
        if (count as usize) < self.sharing.from() {
            return Ok(());
        }
        let (summer, &Caps { medium, local_peer, .. }) = (self.summer, self.below.caps());
        let verify = |first: usize, packets: &mut [RxPacket]| {
            for (nth, RxPacket { frame, meta }) in packets.iter_mut().enumerate() {
                if wanted & 1 << (first + nth) != 0 {
                    let octets = frame.data();
                    if let Some(seen) = look(octets, octets.len(), medium) {
                        meta.checksum = judge(&seen.packet, octets, summer, local_peer);
                    }
                }
            }
        };
        let run = self.crew.run(batch.len());
        if self.crew.each(batch, run, &verify).is_err() {
            return Err(self.lose());
        }
        let unsound = (unknown(batch) & wanted).count_ones();
        self.counts.batches += 1;
        self.counts.unsound += u64::from(unsound);
        self.counts.verified += u64::from(wanted.count_ones() - unsound);
        Ok(())
    }

    /// A helper panicked: it is unknown what is left of its work.
    #[cold]
    fn lose(&mut self) -> IoError {
        eprintln!("millstream: {}: a lane's thread panicked; the port is closed", self.below.caps().name);
        self.lost = true;
        IoError::Gone
    }
}

/// The packets of a batch, bit by bit, that are long, in one frame, and of whose checksum nothing is known.
fn unknown(batch: &[RxPacket]) -> u64 {
    let (mut bits, mut goes_on) = (0, false);
    for (nth, RxPacket { frame, meta }) in batch.iter().take(BATCH_MAX).enumerate() {
        let whole = !std::mem::replace(&mut goes_on, meta.more) && !meta.more;
        let wanted = whole && meta.checksum == RxChecksum::Unverified && frame.len() >= LONG;
        bits |= u64::from(wanted) << nth;
    }
    bits
}

impl Layer for Crewed {
    type Below = dyn PacketIo;

    fn below(&self) -> &Self::Below {
        &*self.below
    }

    fn below_mut(&mut self) -> &mut Self::Below {
        &mut *self.below
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        if self.lost {
            return Err(IoError::Gone);
        }
        let before = batch.len();
        let count = self.below.rx(batch)?;
        if let Err(error) = self.verify(batch, before) {
            for packet in batch.drain(before..) {
                self.below.retire(packet.frame);
            }
            return Err(error);
        }
        Ok(count)
    }

    fn gather_from(&self) -> Option<usize> {
        self.below.gathers()
    }

    fn send_gathered(&mut self, headers: &mut Frame, meta: &TxMeta, payload: &[IoSlice<'_>]) -> bool {
        self.below.tx_gather(headers, meta, payload)
    }

    fn gather_at_once(&self) -> usize {
        self.below.gathers_at_once()
    }

    fn send_all_gathered(&mut self, all: &[Gather<'_>]) {
        self.below.tx_gather_all(all);
    }

    fn crew_above(&mut self) -> Option<&mut Crew> {
        Some(&mut self.crew)
    }

    fn crew_to_read_above(&mut self) -> Option<&mut Crew> {
        // Who verified it has it in its cache: either both are shared or neither is.
        (self.sharing.from() < usize::MAX).then_some(&mut self.crew)
    }

    fn sleep(&mut self, timeout: Option<Duration>) -> Result<Wake, IoError> {
        self.crew.rest();
        self.sharing.on_rest();
        self.below.wait(timeout)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let Counts { batches, verified, unsound } = self.counts;
        let (trials, sharing) = self.sharing.told();
        vec![
            ("lanes_rx_batches", batches),
            ("lanes_rx_verified", verified),
            ("lanes_rx_unsound", unsound),
            ("lanes_rx_trials", trials),
            ("lanes_rx_sharing", sharing),
        ]
    }
}
