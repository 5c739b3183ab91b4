//! What the receiver keeps while it misses something.

use alloc::boxed::Box;

use base::Seq;

use crate::Cx;
use crate::assembler::{Assembler, Inserted};
use crate::connection::Connection;

/// Most bare duplicate acknowledgments owed at once to a peer without SACK: three start its fast retransmit,
/// a few more keep its clock running.
const OWED_MAX: u8 = 16;

/// Out-of-order data lies in the receive buffer at its place; this remembers which places are filled.
#[derive(Debug)]
pub(crate) struct Reassembly {
    pub(crate) held: Assembler,
    /// Octets at the buffer's front that the application may read.
    pub(crate) readable: u32,
    /// A duplicate to report with the next SACK option (RFC 2883).
    pub(crate) duplicate: Option<(Seq, Seq)>,
    /// Where the peer's FIN lies, if it came before what precedes it.
    pub(crate) fin: Option<Seq>,
    /// Bare acknowledgments owed: to a peer without SACK each says that one more segment arrived (RFC 5681,
    /// section 4.2).
    pub(crate) owed: u8,
}

impl Reassembly {
    /// SACK blocks there would be to send, were there room.
    pub(crate) fn blocks(&self) -> usize {
        usize::from(self.held.runs()) + usize::from(self.duplicate.is_some())
    }

    pub(crate) fn owe(&mut self) {
        self.owed = (self.owed + 1).min(OWED_MAX);
    }

    /// Nothing left to remember.
    fn is_over(&self) -> bool {
        self.held.runs() == 0 && self.duplicate.is_none() && self.fin.is_none() && self.owed <= 1
    }
}

impl Connection {
    /// Octets readable now.
    pub fn readable(&self) -> u32 {
        match &self.reassembly {
            None => self.rx.len(),
            Some(reassembly) => reassembly.readable,
        }
    }

    pub(crate) fn reassembly(&mut self) -> &mut Reassembly {
        let readable = self.rx.len();
        self.reassembly.get_or_insert_with(|| {
            Box::new(Reassembly { held: Assembler::new(), readable, duplicate: None, fin: None, owed: 0 })
        })
    }

    /// Keeps data that starts `offset` octets beyond RCV.NXT.
    pub(crate) fn keep(&mut self, cx: &mut Cx<'_>, offset: u32, data: &[u8]) -> Kept {
        let mss = u32::from(self.snd_mss.max(self.rcv_mss));
        let runs = (self.rcvbuf / mss + 1).min(cx.config.reassembly_runs.into()) as usize;
        let end = offset + data.len() as u32;
        let at = self.reassembly().readable + offset;
        // Memory first: an octet noted as held must be there.
        if !self.rx.extend_to(cx.pool, at + data.len() as u32) {
            return Kept::NoMemory;
        }
        match self.reassembly().held.insert(offset, end, runs) {
            Inserted::Refused => Kept::Refused,
            Inserted::Duplicate => Kept::Duplicate,
            Inserted::New => {
                self.rx.write_at(cx.pool, at, data);
                Kept::New
            }
        }
    }

    /// RCV.NXT moves over what has become contiguous; by how much.
    pub(crate) fn advance_reassembly(&mut self) -> u32 {
        let Some(reassembly) = &mut self.reassembly else { return 0 };
        let n = reassembly.held.advance();
        reassembly.readable += n;
        n
    }

    /// Gives the memory back once nothing is missing.
    pub(crate) fn tidy_reassembly(&mut self, cx: &mut Cx<'_>) {
        if self.reassembly.as_ref().is_some_and(|reassembly| reassembly.is_over()) {
            self.forget_out_of_order(cx);
        }
    }

    /// Forgets what lies beyond the first hole (the peer sends it again): SACK is only advice (RFC 2018,
    /// section 8).
    pub(crate) fn forget_out_of_order(&mut self, cx: &mut Cx<'_>) {
        if let Some(reassembly) = self.reassembly.take() {
            self.rx.truncate(cx.pool, reassembly.readable);
        }
    }
}

/// What became of out-of-order data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    New,
    Duplicate,
    Refused,
    NoMemory,
}
