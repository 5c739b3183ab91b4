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
//! ([`Connection::prune`](crate::Connection::prune)).

use alloc::boxed::Box;

use base::Seq;
use wire::tcp::SackBlocks;

use crate::buffers::pool::CHUNK;
use crate::memory::least;
use crate::receiver::Receiver;
use crate::receiver::assembler::{Assembler, Inserted};
use crate::receiver::queue::Reassembly;
use crate::stats::info::ReassemblyInfo;
use crate::{Config, Cx, Pool};

/// Most bare duplicate acknowledgments owed at once to a peer without SACK: three start its fast retransmit,
/// a few more keep its clock running.
const OWED_MAX: u8 = 16;
/// Chunks of holes that out-of-order data may pin beside twice its own, while chunks are scarce.
const HOLES: u32 = 4;

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

impl Receiver {
    /// Is anything missing before what arrived, or anything to tell about it?
    #[inline(always)]
    pub(crate) fn is_missing(&self) -> bool {
        self.reassembly.is_some()
    }

    /// Runs held beyond holes.
    pub(crate) fn runs(&self) -> u16 {
        self.reassembly.as_ref().map_or(0, |queue| queue.held.runs())
    }

    /// SACK blocks there would be to send, were there room.
    pub(crate) fn block_count(&self) -> usize {
        self.reassembly.as_ref().map_or(0, |queue| queue.blocks())
    }

    /// The SACK blocks for the next segment, at most `max`, and whether the first reports a duplicate, which happens
    /// once (RFC 2883, section 4).
    /// RFC 2018, 4-1; RFC 2883, 4-2.
    pub(crate) fn sack_blocks(&mut self, max: usize) -> (SackBlocks, bool) {
        let Some(queue) = &mut self.reassembly else { return (SackBlocks::none(), false) };
        let duplicate = queue.duplicate.take();
        (queue.held.sack_blocks(self.nxt, duplicate, max), duplicate.is_some())
    }

    /// One more bare acknowledgment is owed for a segment that came out of order.
    pub(crate) fn owe(&mut self) {
        let queue = self.queue();
        queue.owed = (queue.owed + 1).min(OWED_MAX);
    }

    /// Remembers a duplicate for the next SACK option (RFC 2883, section 4).
    pub(crate) fn report_duplicate(&mut self, left: Seq, right: Seq) {
        self.queue().duplicate = Some((left, right));
    }

    pub(crate) fn reports_duplicate(&self) -> bool {
        self.reassembly.as_ref().is_some_and(|queue| queue.duplicate.is_some())
    }

    /// The first part of `offset..end`, counted from RCV.NXT, that is held.
    pub(crate) fn overlap(&self, offset: u32, end: u32) -> Option<(u32, u32)> {
        self.reassembly.as_ref().and_then(|queue| queue.held.overlap(offset, end))
    }

    /// The peer's FIN lies at `at`, beyond a hole. One that would lie before data that came, or behind another FIN, is
    /// not the peer's.
    pub(crate) fn note_fin(&mut self, at: Seq) {
        let beyond = self.nxt + self.queue().held.reach();
        let is_first = self.queue().fin.is_none_or(|fin| at.before(fin));
        if at.at_or_before(self.edge) && at.at_or_after(beyond) && is_first {
            self.queue().fin = Some(at);
        }
    }

    /// Does RCV.NXT stand at a FIN that came early?
    pub(crate) fn is_at_fin(&self) -> bool {
        self.reassembly.as_ref().is_some_and(|queue| queue.fin == Some(self.nxt))
    }

    fn queue(&mut self) -> &mut Reassembly {
        let readable = self.buffer.len();
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
    pub(crate) fn info(&self, refused: u32) -> ReassemblyInfo {
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
        let segments = self.window() / u32::from(self.mss) + 1;
        segments.min(config.reassembly_runs.into()) as u16
    }

    /// Keeps data that starts `offset` bytes beyond RCV.NXT and lies in the window. Where bytes came before, those
    /// stay. If it `discards` data, only notes are kept.
    pub(crate) fn keep(&mut self, cx: &mut Cx<'_>, offset: u32, data: &[u8], discards: bool) -> Kept {
        let (runs, nxt) = (self.run_limit(cx.config), self.nxt);
        let queue = self.queue();
        queue.limit = runs;
        let room = queue.fin.map_or(u32::MAX, |fin| fin.offset_from(nxt).saturating_sub(offset));
        let data = &data[..data.len().min(room as usize)];
        let end = offset + data.len() as u32;
        if data.is_empty() {
            return Kept::Refused(Limit::Fin);
        }
        if offset > 0 && !queue.held.admits(offset, end, runs.into()) {
            return Kept::Refused(Limit::Runs);
        }
        if discards {
            // Nothing reads it, but what was SACKed must not be asked for again.
            return self.hold(offset, end, data.len());
        }
        // Memory first: a byte noted as held must be there.
        let at = self.queue().readable + offset;
        let len = at + data.len() as u32;
        let fits = match offset {
            0 if self.buffer.missing_for(len) > cx.pool.available() && self.extend_least(cx.pool, len) => {
                data.len()
            }
            0 => data.len().min(self.buffer.most(cx.pool).saturating_sub(at) as usize),
            _ if self.passes_share(cx, len, data.len() as u32) => return Kept::Refused(Limit::Share),
            _ => data.len(),
        };
        if fits == 0 || !self.buffer.extend_to(cx.pool, at + fits as u32) {
            return Kept::NoMemory;
        }
        self.write_missing(cx, offset, &data[..fits]);
        let kept = self.hold(offset, offset + fits as u32, data.len());
        self.charge_reassembly(cx);
        kept
    }

    /// Notes that `offset..end` is held, which the limits allow; `wanted` bytes came.
    fn hold(&mut self, offset: u32, end: u32, wanted: usize) -> Kept {
        match self.queue().held.insert(offset, end, usize::MAX) {
            Inserted::Duplicate => Kept::Duplicate,
            _ if (end - offset) as usize == wanted => Kept::New,
            _ => Kept::Cut,
        }
    }

    /// Would a buffer of `len` bytes, `data` of them new, take more than the share of the pool that out-of-order data
    /// may have?
    fn passes_share(&self, cx: &Cx<'_>, len: u32, data: u32) -> bool {
        let share = u64::from(cx.pool.limit()) * CHUNK as u64 * u64::from(cx.config.reassembly_share) / 100;
        let more = u64::from(self.buffer.missing_for(len)) * CHUNK as u64;
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
            let written = self.buffer.write_at(cx.pool, queue.readable + at, piece);
            debug_assert!(written, "the buffer was extended");
            at = right;
        }
    }

    /// Tells the pool what the queue occupies now.
    fn charge_reassembly(&mut self, cx: &mut Cx<'_>) {
        if let Some(queue) = &mut self.reassembly {
            let cost = self.buffer.chunks_beyond(queue.readable) * CHUNK as u32 + queue.held.footprint();
            cx.pool.charge_out_of_order(queue.charged, cost);
            queue.charged = cost;
            cx.counters.list_steps += queue.held.take_steps();
        }
    }

    /// RCV.NXT moves over what has become contiguous; by how much. It is readable unless the receiver `discards` data.
    pub(crate) fn fill(&mut self, cx: &mut Cx<'_>, discards: bool) -> u32 {
        let Some(queue) = &mut self.reassembly else { return 0 };
        let n = queue.held.advance();
        if !discards {
            queue.readable += n;
        }
        self.charge_reassembly(cx);
        self.advance(n);
        n
    }

    /// Gives the memory back once nothing is missing.
    pub(crate) fn tidy(&mut self, cx: &mut Cx<'_>) {
        if self.reassembly.as_ref().is_some_and(|queue| queue.is_over()) {
            self.forget_out_of_order(cx);
        }
    }

    /// Nothing reads any more: of what lies beyond the first hole only the notes are kept.
    pub(crate) fn discard_out_of_order(&mut self, cx: &mut Cx<'_>) {
        if let Some(queue) = &self.reassembly {
            self.buffer.truncate(cx.pool, queue.readable);
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
            self.buffer.truncate(cx.pool, queue.readable);
            queue.release(cx.pool);
        }
    }

    /// Makes the receive buffer `len` bytes long, holes included, for data at RCV.NXT: false where there is no memory.
    #[cold]
    fn extend_least(&mut self, pool: &mut Pool, len: u32) -> bool {
        let (buffer, fits) = (&mut self.buffer, len <= least(self.mss));
        fits && pool.dip(Pool::limit, |pool| buffer.extend_to(pool, len))
    }

    /// Returns the most that may be offered to the peer while chunks are scarce.
    #[cold]
    pub(crate) fn scarce_room(&self, pool: &Pool) -> u32 {
        let left = pool.limit().saturating_sub(pool.used()).saturating_mul(CHUNK as u32);
        pool.share().max(least(self.mss)).saturating_sub(self.readable()).min(left)
    }

    /// Does out-of-order data, of which the buffer would be `len` bytes long with `more` of them new, pin too much
    /// while chunks are scarce?
    #[cold]
    fn pins_too_much(&self, pool: &Pool, len: u32, more: u32) -> bool {
        let Some(queue) = &self.reassembly else { return false };
        let pinned = self.buffer.chunks_between(queue.readable, len.max(self.buffer.len()));
        let filled = (queue.held.bytes() + more).div_ceil(CHUNK as u32);
        let share = pool.share().max(least(self.mss)) / CHUNK as u32;
        pinned > (2 * filled + HOLES).min(share.max(HOLES))
    }

    /// Does what is held out of order pin more than it may while chunks are scarce?
    pub(crate) fn is_to_prune(&self, pool: &Pool) -> bool {
        let held = self.reassembly.as_ref().map_or(0, |queue| queue.held.bytes());
        held > 0 && pool.is_scarce() && self.pins_too_much(pool, 0, 0)
    }
}
