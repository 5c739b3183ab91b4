//! How much of its core's pool a connection may take, so that what many hold never stops the others (Linux's
//! `tcp_mem`).
//!
//! ```text
//!  0                  low, 1/2                3/4, high             7/8            limit
//!  |   as it likes     |   its share, or the   |   the least of each |  the least of  |
//!  |                   |   least, if more      |   connection          |  what arrives  |
//! ```
//! The *least* of a connection is two segments, or two chunks if that is more, each way: enough to go on. Its *share*
//! is an eighth of what is left below `high` (the dynamic thresholds of Choudhury and Hahne, 1998): it shrinks as
//! others take theirs, and no count of them is needed. Of its share a sender gets no more than it can use: what is in
//! flight, and what the peer's window and the congestion window would let go at once. A peer that does not read shuts
//! its window, so it soon holds the least.
//!
//! Memory that a connection holds is not taken away, with two exceptions: out-of-order data that pins far more
//! memory than it has bytes, and orphans, whose application is gone.

use cc::Controller;
use wire::tcp::Pieces;

use crate::buffers::pool::{CHUNK, Pool};
use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::{Cx, DropReason, Events, State};

crate::bits::writer!(COUNTED);

/// A share is what is left, divided by this.
const SHARE: u32 = 8;

impl Pool {
    /// Bytes that one connection may hold one way while chunks are scarce.
    pub(crate) fn share(&self) -> u32 {
        (u64::from(self.available()) * CHUNK as u64 / u64::from(SHARE)).min(u32::MAX.into()) as u32
    }
}

/// Two segments of `mss` bytes, or two chunks.
pub(crate) fn least(mss: u16) -> u32 {
    (2 * u32::from(mss)).max(2 * CHUNK as u32)
}

impl Connection {
    /// Sets the send buffer's limit while chunks are scarce.
    #[cold]
    pub(crate) fn fit_send_buffer(&mut self, cx: &mut Cx<'_>) {
        let usable = self.snd.flight().saturating_add(self.snd.window().min(self.control.window().cwnd));
        let most = usable.min(cx.pool.share()).max(least(self.snd.mss()));
        let wanted = match self.options.sndbuf() {
            0 => self.grown_limit(cx),
            fixed => fixed,
        };
        cx.counters.send_buffers_bounded += u64::from(most < wanted);
        self.snd.buffer_mut().set_limit(most.min(wanted));
    }

    /// Copies `data` from `taken` on to the send buffer, as far as it is the least that a connection may hold. Returns
    /// the number of bytes.
    #[cold]
    pub(crate) fn append_least(&mut self, cx: &mut Cx<'_>, data: &[u8]) -> usize {
        let room = least(self.snd.mss()).saturating_sub(self.snd.queued()) as usize;
        let (tx, data) = (self.snd.buffer_mut(), &data[..data.len().min(room)]);
        cx.pool.dip(Pool::writes_end, |pool| tx.append(pool, data))
    }

    /// Returns the number of bytes that a connection which holds nothing could write now.
    pub(crate) fn memory_for_writing(&self, pool: &Pool) -> usize {
        pool.writes_end().saturating_sub(pool.used()) as usize * CHUNK
    }

    /// Takes the rest of data in order, `taken` bytes of which the pool had chunks for, as far as that is the least
    /// that a connection may hold.
    #[cold]
    pub(crate) fn take_least(
        &mut self,
        cx: &mut Cx<'_>,
        (data, rest): (&[u8], Option<&dyn Pieces>),
        taken: usize,
    ) -> Result<(), DropReason> {
        let more = self.rcv.append_least(cx.pool, (data, rest), taken);
        self.rcv.advance(more as u32);
        cx.counters.bytes_in += more as u64;
        if more > 0 && self.is_worth_reading() {
            self.raise(Events::READABLE);
        }
        if taken + more < data.len() + rest.map_or(0, |rest| rest.len() as usize) {
            cx.counters.no_memory += 1;
            self.request(Due::ACK);
            return Err(DropReason::NoMemory);
        }
        self.acknowledge_data(cx);
        Ok(())
    }

    /// Gives up out-of-order data that pins more than it may while chunks are scarce, as RFC 2018, section 8, lets a
    /// receiver (Linux's tcp_prune_ofo_queue). Returns true if it did.
    pub fn prune(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.rcv.is_to_prune(cx.pool) {
            return false;
        }
        cx.counters.out_of_order_pruned += 1;
        self.rcv.forget_out_of_order(cx);
        true
    }

    /// The application is gone while something is still to be sent. Resets the connection where there are too many of
    /// its kind, or memory is short.
    #[inline]
    pub(crate) fn become_orphan(&mut self, cx: &mut Cx<'_>) {
        if self.state() == State::Closed || self.snd.queued() == 0 {
            return;
        }
        cx.pool.orphans += 1;
        self.bits.set(Bits::COUNTED, WRITER);
        if cx.pool.orphans > cx.config.max_orphans {
            cx.counters.orphans_reset += 1;
            self.reset(cx);
        } else {
            self.yield_memory(cx);
        }
    }

    /// Resets an orphan that holds more than the least while the pool is used up but for that. Returns true if it did.
    #[inline]
    pub(crate) fn yield_memory(&mut self, cx: &mut Cx<'_>) -> bool {
        let yields = cx.pool.available() == 0 && self.snd.queued() > least(self.snd.mss());
        if yields {
            cx.counters.orphans_reset += 1;
            self.reset(cx);
        }
        yields
    }

    /// It is one no longer.
    pub(crate) fn forget_orphan(&mut self, pool: &mut Pool) {
        if self.bits.has(Bits::COUNTED) {
            self.bits.clear(Bits::COUNTED, WRITER);
            pool.orphans -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
