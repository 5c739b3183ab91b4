//! State of the reassembly queue.

use base::Seq;

use crate::Pool;
use crate::receiver::assembler::Assembler;

/// Out-of-order data lies in the receive buffer at its place; this remembers which places are filled.
#[derive(Debug)]
pub(super) struct Reassembly {
    pub(super) held: Assembler,
    /// Bytes at the buffer's front that the application may read.
    pub(super) readable: u32,
    /// Bytes charged to the pool for the queue.
    pub(super) charged: u32,
    /// Most runs, when the last segment came.
    pub(super) limit: u16,
    /// A duplicate to report with the next SACK option (RFC 2883).
    pub(super) duplicate: Option<(Seq, Seq)>,
    /// Where the peer's FIN lies, if it came before what precedes it.
    pub(super) fin: Option<Seq>,
    /// Bare acknowledgments owed: to a peer without SACK each says that one more segment arrived (RFC 5681,
    /// section 4.2).
    pub(super) owed: u8,
}

impl Reassembly {
    /// SACK blocks there would be to send, were there room.
    pub(super) fn blocks(&self) -> usize {
        usize::from(self.held.runs()) + usize::from(self.duplicate.is_some())
    }

    /// An acknowledgment tells of what is held; true if none is owed any more.
    pub(super) fn told(&mut self, sack: bool, bare: bool) -> bool {
        self.owed = if sack { 0 } else { self.owed.saturating_sub(u8::from(bare)) };
        self.owed == 0
    }

    /// Nothing of it occupies the pool any more.
    pub(super) fn release(self, pool: &mut Pool) {
        pool.charge_out_of_order(self.charged, 0);
    }

    /// Nothing left to remember.
    pub(super) fn is_over(&self) -> bool {
        self.held.runs() == 0 && self.duplicate.is_none() && self.fin.is_none() && self.owed <= 1
    }
}
