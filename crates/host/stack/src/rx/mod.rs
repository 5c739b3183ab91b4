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
mod batch;
mod deliver;
mod held;
mod listen;
mod lookup;
mod parse;
mod time_wait;
mod unmatched;

use base::Instant;
use pio::BATCH_MAX;

use crate::core::Core;
use crate::turn::Turn;

pub use batch::Offload;
pub(crate) use batch::{Arrival, BATCHES, Rx, Sender};

impl Core {
    /// Receives and processes a bounded number of packets.
    /// RFC 9293, MUST-59.
    pub(crate) fn receive(&mut self, now: Instant, rx: &mut Rx, turn: &mut Turn) {
        self.end_adopted();
        if rx.gro.is_some() {
            return self.receive_held(now, rx, turn);
        }
        for _ in 0..self.batches {
            if let Err(error) = self.port.io.rx(&mut rx.batch) {
                self.fail(error);
            }
            let received = rx.batch.len();
            if received == 0 {
                return;
            }
            turn.received += received as u32;
            self.stats.packets_in += received as u64;
            self.parse_batch(now, rx);
            self.deliver_batch(now, rx);
            if received < BATCH_MAX {
                return;
            }
        }
        turn.more = true;
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
