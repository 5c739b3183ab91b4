//! Reassembly queue: out-of-order data, and its bounds.
//!
//! ```text
//!            rcv_nxt                                        rcv_adv
//!   ─────────┬──────────┬────────────┬────────┬─────────┬───┬─────
//!   readable │   hole   │ run, held  │  hole  │   run   │   │
//!   ─────────┴──────────┴────────────┴────────┴─────────┴───┴─────
//!            │<──── chunks of the receive buffer ──────>│
//! ```
//! Four limits, each of which grows and shrinks with what the connection is: bytes, by the window that was offered;
//! runs, by the full segments that fit into it; memory as it is really occupied, holes included, by the window again;
//! and the memory of all connections of a core together, by a share of its pool. What passes one of them is dropped,
//! counted and never SACKed. What starts at RCV.NXT meets none of them, or a full queue could never empty. What was
//! SACKed once is given up only where chunks are scarce and it pins far more of them than it fills
//! ([`Connection::prune`]).

use alloc::boxed::Box;

use base::Seq;

use crate::assembler::{Assembler, Inserted};
use crate::connection::{Bits, Connection};
use crate::pool::CHUNK;
use crate::{Config, Cx, Pool};

/// Most bare duplicate acknowledgments owed at once to a peer without SACK: three start its fast retransmit,
/// a few more keep its clock running.
const OWED_MAX: u8 = 16;

/// Out-of-order data lies in the receive buffer at its place; this remembers which places are filled.
#[derive(Debug)]
pub(crate) struct Reassembly {
    pub(crate) held: Assembler,
    /// Bytes at the buffer's front that the application may read.
    pub(crate) readable: u32,
    /// Bytes charged to the pool for the queue.
    charged: u32,
    /// Most runs, when the last segment came.
    limit: u16,
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

    /// Nothing of it occupies the pool any more.
    pub(crate) fn release(self, pool: &mut Pool) {
        pool.charge_out_of_order(self.charged, 0);
    }

    /// Nothing left to remember.
    fn is_over(&self) -> bool {
        self.held.runs() == 0 && self.duplicate.is_none() && self.fin.is_none() && self.owed <= 1
    }
}

/// Figures of a connection's queue of out-of-order data.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReassemblyInfo {
    /// Runs held, each between two holes.
    pub runs: u16,
    /// Their bytes.
    pub bytes: u32,
    /// Bytes of memory that they occupy: whole chunks, those of holes included, and what is noted about them.
    pub memory: u32,
    /// Most runs, when something last came out of order; 0 while nothing is missing. The bytes are bounded by
    /// [`crate::Info::rcv_wnd`].
    pub limit: u16,
    /// Segments refused ever.
    pub refused: u32,
}

/// Result of queueing out-of-order data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    New,
    /// New, and the pool had no room for the rest.
    Cut,
    Duplicate,
    Refused(Limit),
    NoMemory,
}

/// Bound by which a segment was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Limit {
    /// One run too many for this connection.
    Runs,
    /// Too much memory for all connections.
    Share,
    /// It lies beyond the peer's FIN.
    Fin,
}

impl Connection {
    /// Bytes readable now.
    pub fn readable(&self) -> u32 {
        match &self.reassembly {
            None => self.rx.len(),
            Some(reassembly) => reassembly.readable,
        }
    }

    pub(crate) fn reassembly(&mut self) -> &mut Reassembly {
        let readable = self.rx.len();
        self.reassembly.get_or_insert_with(|| {
            Box::new(Reassembly {
                held: Assembler::new(),
                readable,
                charged: 0,
                limit: 0,
                duplicate: None,
                fin: None,
                owed: 0,
            })
        })
    }

    /// Returns the content of the queue and its cost.
    pub(crate) fn reassembly_info(&self, refused: u32) -> ReassemblyInfo {
        self.reassembly.as_ref().map_or(ReassemblyInfo { refused, ..ReassemblyInfo::default() }, |queue| {
            ReassemblyInfo {
                runs: queue.held.runs(),
                bytes: queue.held.bytes(),
                memory: queue.charged,
                limit: queue.limit,
                refused,
            }
        })
    }

    /// Most runs: as many as full segments fit into the window, and one, so that whatever is lost, all that arrived is
    /// held.
    fn run_limit(&self, config: &Config) -> u16 {
        let segments = self.receive_window() / u32::from(self.rcv_mss) + 1;
        segments.min(config.reassembly_runs.into()) as u16
    }

    /// Keeps data that starts `offset` bytes beyond RCV.NXT and lies in the window. Where bytes came before, those
    /// stay.
    pub(crate) fn keep(&mut self, cx: &mut Cx<'_>, offset: u32, data: &[u8]) -> Kept {
        let (runs, rcv_nxt) = (self.run_limit(cx.config), self.rcv_nxt);
        let queue = self.reassembly();
        queue.limit = runs;
        let room = queue.fin.map_or(u32::MAX, |fin| fin.offset_from(rcv_nxt).saturating_sub(offset));
        let data = &data[..data.len().min(room as usize)];
        let end = offset + data.len() as u32;
        if data.is_empty() {
            return Kept::Refused(Limit::Fin);
        }
        if offset > 0 && !queue.held.admits(offset, end, runs.into()) {
            return Kept::Refused(Limit::Runs);
        }
        if self.bits.has(Bits::READ_CLOSED) {
            // Nothing reads it, but what was SACKed must not be asked for again.
            return self.hold(offset, end, data.len());
        }
        // Memory first: a byte noted as held must be there.
        let at = self.reassembly().readable + offset;
        let len = at + data.len() as u32;
        let fits = match offset {
            0 if self.rx.missing_for(len) > cx.pool.available() && self.extend_least(cx, len) => data.len(),
            0 => data.len().min(self.rx.most(cx.pool).saturating_sub(at) as usize),
            _ if self.passes_share(cx, len, data.len() as u32) => return Kept::Refused(Limit::Share),
            _ => data.len(),
        };
        if fits == 0 || !self.rx.extend_to(cx.pool, at + fits as u32) {
            return Kept::NoMemory;
        }
        self.write_missing(cx, offset, &data[..fits]);
        let kept = self.hold(offset, offset + fits as u32, data.len());
        self.charge_reassembly(cx);
        kept
    }

    /// Notes that `offset..end` is held, which the limits allow; `wanted` bytes came.
    fn hold(&mut self, offset: u32, end: u32, wanted: usize) -> Kept {
        match self.reassembly().held.insert(offset, end, usize::MAX) {
            Inserted::Duplicate => Kept::Duplicate,
            _ if (end - offset) as usize == wanted => Kept::New,
            _ => Kept::Cut,
        }
    }

    /// Would a buffer of `len` bytes, `data` of them new, take more than the share of the pool that out-of-order data
    /// may have?
    fn passes_share(&self, cx: &Cx<'_>, len: u32, data: u32) -> bool {
        let share = u64::from(cx.pool.limit()) * CHUNK as u64 * u64::from(cx.config.reassembly_share) / 100;
        let more = u64::from(self.rx.missing_for(len)) * CHUNK as u64;
        let scarce = cx.pool.is_scarce() && self.pins_too_much(cx.pool, len, data);
        more > 0 && (scarce || cx.pool.out_of_order() + more > share)
    }

    /// Writes the bytes of `data` that are not held yet.
    fn write_missing(&mut self, cx: &mut Cx<'_>, offset: u32, data: &[u8]) {
        let Some(queue) = &self.reassembly else { return };
        let end = offset + data.len() as u32;
        let mut at = offset;
        while at < end {
            let (left, right) = queue.held.overlap(at, end).unwrap_or((end, end));
            let piece = &data[(at - offset) as usize..(left - offset) as usize];
            let written = self.rx.write_at(cx.pool, queue.readable + at, piece);
            debug_assert!(written, "the buffer was extended");
            at = right;
        }
    }

    /// Tells the pool what the queue occupies now.
    fn charge_reassembly(&mut self, cx: &mut Cx<'_>) {
        if let Some(queue) = &mut self.reassembly {
            let cost = self.rx.chunks_beyond(queue.readable) * CHUNK as u32 + queue.held.footprint();
            cx.pool.charge_out_of_order(queue.charged, cost);
            queue.charged = cost;
            cx.counters.list_steps += queue.held.take_steps();
        }
    }

    /// RCV.NXT moves over what has become contiguous; by how much.
    pub(crate) fn advance_reassembly(&mut self, cx: &mut Cx<'_>) -> u32 {
        let unread = !self.bits.has(Bits::READ_CLOSED);
        let Some(queue) = &mut self.reassembly else { return 0 };
        let n = queue.held.advance();
        if unread {
            queue.readable += n;
        }
        self.charge_reassembly(cx);
        n
    }

    /// Gives the memory back once nothing is missing.
    pub(crate) fn tidy_reassembly(&mut self, cx: &mut Cx<'_>) {
        if self.reassembly.as_ref().is_some_and(|reassembly| reassembly.is_over()) {
            self.forget_out_of_order(cx);
        }
    }

    /// Nothing reads any more: of what lies beyond the first hole only the notes are kept.
    pub(crate) fn discard_out_of_order(&mut self, cx: &mut Cx<'_>) {
        if let Some(queue) = &self.reassembly {
            self.rx.truncate(cx.pool, queue.readable);
            self.charge_reassembly(cx);
        }
    }

    /// Forgets what lies beyond the first hole. RFC 2018, section 8, lets a receiver do that at any time; this one does
    /// it at the connection's end, at the peer's FIN, behind which nothing can lie, when nothing is held, and where
    /// memory is scarce.
    #[inline]
    pub(crate) fn forget_out_of_order(&mut self, cx: &mut Cx<'_>) {
        if self.reassembly.is_some() {
            self.forget_held(cx);
        }
    }

    #[cold]
    fn forget_held(&mut self, cx: &mut Cx<'_>) {
        if let Some(queue) = self.reassembly.take() {
            self.rx.truncate(cx.pool, queue.readable);
            queue.release(cx.pool);
        }
    }
}
