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

use crate::connection::{Bits, Connection};
use crate::output::Due;
use crate::pool::{CHUNK, Pool};
use crate::{Cx, DropReason, Events, State};

/// A share is what is left, divided by this.
const SHARE: u32 = 8;
/// Chunks of holes that out-of-order data may pin beside twice its own, while chunks are scarce.
const HOLES: u32 = 4;

impl Pool {
    /// Bytes that one connection may hold one way while chunks are scarce.
    fn share(&self) -> u32 {
        (u64::from(self.available()) * CHUNK as u64 / u64::from(SHARE)).min(u32::MAX.into()) as u32
    }
}

/// Two segments of `mss` bytes, or two chunks.
fn least(mss: u16) -> u32 {
    (2 * u32::from(mss)).max(2 * CHUNK as u32)
}

impl Connection {
    /// Sets the send buffer's limit while chunks are scarce.
    #[cold]
    pub(crate) fn fit_send_buffer(&mut self, cx: &mut Cx<'_>) {
        let usable = self.snd.flight().saturating_add(self.snd.window().min(self.control.window().cwnd));
        let most = usable.min(cx.pool.share()).max(least(self.snd.mss()));
        let wanted = match self.options.sndbuf {
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
        let room = least(self.rcv_mss).saturating_sub(self.rx.len()) as usize;
        let (rx, mut skip, mut more) = (&mut self.rx, taken, 0);
        cx.pool.dip(Pool::limit, |pool| {
            let mut append = |piece: &[u8]| {
                let fresh = &piece[skip.min(piece.len())..];
                skip -= piece.len() - fresh.len();
                more += rx.append(pool, &fresh[..fresh.len().min(room - more)]);
                more < room
            };
            if append(data)
                && let Some(rest) = rest
            {
                rest.for_each(&mut append);
            }
        });
        self.rcv_nxt += more as u32;
        self.bytes_received += more as u64;
        cx.counters.bytes_in += more as u64;
        if more > 0 && self.is_worth_reading() {
            self.events |= Events::READABLE;
        }
        if taken + more < data.len() + rest.map_or(0, |rest| rest.len() as usize) {
            cx.counters.no_memory += 1;
            self.due |= Due::ACK;
            return Err(DropReason::NoMemory);
        }
        self.acknowledge_data(cx);
        Ok(())
    }

    /// Makes the receive buffer `len` bytes long, holes included, for data at RCV.NXT: false where there is no memory.
    #[cold]
    pub(crate) fn extend_least(&mut self, cx: &mut Cx<'_>, len: u32) -> bool {
        let (rx, fits) = (&mut self.rx, len <= least(self.rcv_mss));
        fits && cx.pool.dip(Pool::limit, |pool| rx.extend_to(pool, len))
    }

    /// Returns the most that may be offered to the peer while chunks are scarce.
    #[cold]
    pub(crate) fn scarce_room(&self, pool: &Pool) -> u32 {
        let left = pool.limit().saturating_sub(pool.used()).saturating_mul(CHUNK as u32);
        pool.share().max(least(self.rcv_mss)).saturating_sub(self.readable()).min(left)
    }

    /// Does out-of-order data, of which the buffer would be `len` bytes long with `more` of them new, pin too much
    /// while chunks are scarce?
    #[cold]
    pub(crate) fn pins_too_much(&self, pool: &Pool, len: u32, more: u32) -> bool {
        let Some(queue) = &self.reassembly else { return false };
        let pinned = self.rx.chunks_between(queue.readable, len.max(self.rx.len()));
        let filled = (queue.held.bytes() + more).div_ceil(CHUNK as u32);
        let share = pool.share().max(least(self.rcv_mss)) / CHUNK as u32;
        pinned > (2 * filled + HOLES).min(share.max(HOLES))
    }

    /// Gives up out-of-order data that pins more than it may while chunks are scarce, as RFC 2018, section 8, lets a
    /// receiver (Linux's tcp_prune_ofo_queue). Returns true if it did.
    pub fn prune(&mut self, cx: &mut Cx<'_>) -> bool {
        let held = self.reassembly.as_ref().map_or(0, |queue| queue.held.bytes());
        if held == 0 || !cx.pool.is_scarce() || !self.pins_too_much(cx.pool, 0, 0) {
            return false;
        }
        cx.counters.out_of_order_pruned += 1;
        self.forget_out_of_order(cx);
        true
    }

    /// The application is gone while something is still to be sent. Resets the connection where there are too many of
    /// its kind, or memory is short.
    #[inline]
    pub(crate) fn become_orphan(&mut self, cx: &mut Cx<'_>) {
        if self.state == State::Closed || self.snd.queued() == 0 {
            return;
        }
        cx.pool.orphans += 1;
        self.bits.set(Bits::COUNTED);
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
            self.bits.clear(Bits::COUNTED);
            pool.orphans -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
