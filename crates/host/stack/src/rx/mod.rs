//! The way in: a batch is walked three times, so that the cache misses of its packets overlap.
//!
//! ```text
//!   port.rx ──> parse   what is it, whose flow, is its checksum right? The flow's bucket is asked for
//!           ──> lookup  which connection or TIME-WAIT entry? It is asked for
//!           ──> deliver to it, a merged run as one segment; without one: listen, time_wait, unmatched
//! ```
//! What a pass found may be stale by the next (a segment of the same batch opens or ends a connection): then it is
//! looked up again.

pub(crate) mod adopted;
mod deliver;
mod held;
mod listen;
mod lookup;
mod parse;
mod time_wait;
mod unmatched;

use base::{FlowKey, Instant};
use offload::BatchGro;
use pio::{BATCH_MAX, Gro, Medium, RxBatch, RxPacket};

use crate::core::Core;
use crate::turn::Turn;

pub use held::Offload;
pub(crate) use parse::Arrival;

/// Batches received in one turn at most, unless said otherwise.
pub(crate) const BATCHES: u8 = 2;

/// Buffers of receiving, kept from turn to turn to avoid allocation.
pub(crate) struct Rx {
    pub(crate) batch: RxBatch,
    pub(crate) arrivals: Vec<Arrival>,
    /// The flow table's version when the arrivals were looked up.
    version: u32,
    /// Packets that continue each other, if they are to be delivered as one.
    pub(crate) merged_runs: Option<Box<BatchGro>>,
    /// Holds packets before they are delivered, if that is on.
    pub(crate) gro: Option<Box<Gro>>,
}

/// Sender of a segment, and its flow.
#[derive(Clone, Copy)]
pub(crate) struct Sender<'a> {
    pub(crate) key: &'a FlowKey,
    pub(crate) hash: u64,
    /// Header and data, which a signature covers.
    pub(crate) tcp: &'a [u8],
    pub(crate) frame: &'a [u8],
    /// The batch it came with.
    pub(crate) batch: &'a [RxPacket],
}

impl Rx {
    pub(crate) fn new(offload: Offload, batches: u8) -> Self {
        let gro = offload.gro().map(Box::new);
        let batch = if gro.is_some() { Gro::up_max(batches.into()) } else { BATCH_MAX };
        Rx {
            batch: RxBatch::with_capacity(batch),
            arrivals: Vec::with_capacity(batch),
            version: 0,
            merged_runs: (offload != Offload::Off).then(|| Box::new(BatchGro::new(batch))),
            gro,
        }
    }
}

impl Sender<'_> {
    /// The link-layer sender: where an answer that belongs to no connection goes.
    pub(crate) fn mac(&self, medium: Medium) -> [u8; 6] {
        sender_of(self.frame, medium)
    }
}

fn sender_of(frame: &[u8], medium: Medium) -> [u8; 6] {
    match medium {
        Medium::Ethernet => frame.get(6..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default(),
        Medium::Ip => [0; 6],
    }
}

impl Core {
    /// Receives and processes a bounded number of packets.
    /// RFC 9293, MUST-59.
    pub(crate) fn receive(&mut self, now: Instant, rx: &mut Rx, turn: &mut Turn) {
        self.end_adopted();
        if rx.gro.is_some() {
            return self.receive_held(now, rx, turn);
        }
        let mut left = self.batches;
        while left > 0 {
            left -= 1;
            if let Err(error) = self.port.io.rx(&mut rx.batch) {
                self.fail(error);
            }
            let received = rx.batch.len();
            if received == 0 {
                break;
            }
            turn.received += received as u32;
            self.parse_batch(now, rx);
            self.deliver_batch(now, rx);
            if received < BATCH_MAX {
                break;
            }
            turn.more |= left == 0;
        }
        self.stats.packets_in += u64::from(turn.received);
    }

    /// The batch is looked up and processed, and its frames go back.
    #[inline]
    pub(crate) fn deliver_batch(&mut self, now: Instant, rx: &mut Rx) {
        self.look_up(rx);
        self.deliver_all(now, rx);
        rx.arrivals.clear();
        self.shared.adopted.put_away(&mut rx.batch, self.port.io.as_mut());
    }
}
