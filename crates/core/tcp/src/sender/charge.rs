//! Memory charged to the send buffer for its content, and how much a write may add.
//!
//! Plainly a byte is a byte: the buffer holds [`SendBuffer::limit`] of them. As Linux charges them (the quirk
//! `charge_pieces`), bytes lie in pieces, each a buffer of its own (`struct sk_buff`) that costs [`PIECE`] bytes
//! beside those it holds. Room is asked for only where a piece begins, so the last one may pass the limit; and what a
//! write finds free is what is left of the last piece and as many whole ones as may begin.
//!
//! ```text
//!   snd_una            snd_nxt                anchor
//!     | sent, in bursts  | leaves at once       | piece | piece | pie..|
//! ```
//! A piece is as large as half the largest window that the peer ever offered, so that two of them fill it
//! (tcp_bound_to_half_wnd), and what leaves never reaches over its end. Those already sent are counted as bursts of
//! half the congestion window, which is what they left as.
//!
//! [`SendBuffer::limit`]: crate::sender::send_buffer::SendBuffer

use cc::Controller;

use crate::connection::{Bits, Connection};
use crate::{Config, Cx};

crate::bits::writer!(CHARGED, PIECES);

/// Bytes charged for a piece beside its data: `struct sk_buff` with its clone's share (256), the headers' memory
/// (704) and what describes the data (320) on 64-bit machines.
const PIECE: u32 = 1_280;
/// A piece is never larger than a super-segment with its headers.
const PIECE_MAX: u32 = 65_215;
/// Windows up to this need not be halved (TCP_MSS_DEFAULT).
const TINY_WINDOW: u32 = 536;
/// Segments of the pieces of a TCP_NOTSENT_LOWAT where pieces are not charged.
const SUPER_SEGMENT: u32 = 16;
/// The least number of segments that a buffer which grows by itself has room for twice.
const SEGMENTS_MIN: u32 = 10;

impl Connection {
    /// Adds what the settings say to the socket's options: how the buffer is charged, whether TCP_NOTSENT_LOWAT bounds
    /// it, and when acknowledgments are hurried.
    pub(crate) fn heed_defaults(&mut self, config: &Config) {
        self.options.set_defaults(config.notsent_lowat, config.quirks.ack_second_segment);
        let charged = config.quirks.charge_pieces;
        self.bits.put(Bits::CHARGED, charged, WRITER);
        self.bits.put(Bits::PIECES, charged || self.options.lowat() != u32::MAX, WRITER);
    }

    /// Returns the bytes charged to the buffer.
    pub(crate) fn charge(&self) -> u32 {
        let held = self.snd.queued();
        if !self.bits.has(Bits::CHARGED) {
            return held;
        }
        let unsent = self.snd.unsent();
        let waiting = PIECE.saturating_mul(unsent.div_ceil(self.piece()));
        self.charge_sent(held - unsent).saturating_add(unsent).saturating_add(waiting)
    }

    fn charge_sent(&self, bytes: u32) -> u32 {
        bytes.saturating_add(PIECE.saturating_mul(bytes.div_ceil(self.burst())))
    }

    fn whole(&self, bytes: u32) -> u32 {
        let mss = u32::from(self.snd.mss());
        (bytes - bytes % mss).max(mss)
    }

    /// Bytes of a piece.
    fn piece(&self) -> u32 {
        if !self.bits.has(Bits::CHARGED) {
            return SUPER_SEGMENT * u32::from(self.snd.mss());
        }
        let window = self.snd.largest_window();
        let half = if window > TINY_WINDOW { window / 2 } else { window.max(1) };
        self.whole(half.min(PIECE_MAX))
    }

    /// Bytes of a piece that was sent.
    fn burst(&self) -> u32 {
        self.whole(self.control.window().cwnd / 2).min(self.piece())
    }

    /// Returns the bytes that may leave at once, in whole segments.
    fn leaves(&self) -> u32 {
        let window = self.snd.usable_window().min(self.congestion_room());
        window - window % u32::from(self.snd.mss())
    }

    /// Bytes that may be written where they lie in pieces: those that leave at once, and behind them as many pieces as
    /// may begin while the charge is below the limit and less than `TCP_NOTSENT_LOWAT` bytes wait.
    #[cold]
    pub(crate) fn room_in_pieces(&mut self, cx: &mut Cx<'_>, wanted: usize) -> usize {
        if self.bits.has(Bits::CHARGED) {
            self.lay_pieces();
        }
        if cx.pool.is_scarce() || (!self.bits.has(Bits::CHARGED) && wanted > self.snd.buffer().room()) {
            self.grow_send_buffer(cx);
        }
        let (lowat, unsent, piece) = (self.options.lowat(), self.snd.unsent(), self.piece());
        if unsent >= lowat {
            return 0;
        }
        let leaves = self.leaves();
        let waiting = match lowat {
            u32::MAX => u32::MAX,
            lowat => lowat.div_ceil(piece).saturating_mul(piece),
        };
        let most = leaves.saturating_add(waiting);
        let most = if self.bits.has(Bits::CHARGED) {
            most.min(self.most_unsent(leaves, piece))
        } else {
            most.min(unsent.saturating_add(self.snd.buffer().room() as u32))
        };
        most.saturating_sub(unsent) as usize
    }

    /// The most that may wait unsent before the charge reaches the limit.
    fn most_unsent(&self, leaves: u32, piece: u32) -> u32 {
        let begin = |charged: u32, piece: u32| {
            self.snd.buffer().limit().saturating_sub(charged).div_ceil(piece + PIECE).saturating_mul(piece)
        };
        let sent = self.snd.queued() - self.snd.unsent();
        let now = begin(self.charge_sent(sent), self.burst());
        if now < leaves {
            return now;
        }
        leaves.saturating_add(begin(self.charge_sent(sent + leaves), piece))
    }

    /// A write is about to be taken: where the pieces begin that do not leave at once.
    fn lay_pieces(&mut self) {
        if self.snd.unsent() == 0 {
            self.cold_mut().sizes.pieces = self.snd.nxt() + self.leaves();
        }
    }

    /// Bytes that may leave in one burst before a piece ends.
    pub(crate) fn within_piece(&self, most: u32) -> u32 {
        let Some(cold) = self.cold().filter(|_| self.bits.has(Bits::CHARGED)) else { return most };
        let (piece, ahead) = (self.piece(), self.snd.nxt().distance_from(cold.sizes.pieces));
        let left = match u32::try_from(ahead) {
            Ok(behind) => piece - behind % piece,
            Err(_) => cold.sizes.pieces.offset_from(self.snd.nxt()),
        };
        // Pieces that were laid for segments of another size do not end where segments do.
        most.min(self.whole(left))
    }

    /// The limit of a buffer that grows by itself: twice the congestion window, or, as Linux sets it, room for two
    /// windows of segments, each with the memory that it costs (tcp_sndbuf_expand).
    pub(crate) fn grown_limit(&self, cx: &Cx<'_>) -> u32 {
        let mss = u32::from(self.snd.mss());
        let cwnd = self.control.window().cwnd;
        if !self.bits.has(Bits::CHARGED) {
            return cwnd.saturating_mul(2).clamp(cx.config.sndbuf.0, cx.config.sndbuf.1);
        }
        if self.pipe() >= cwnd - cwnd % mss {
            // Who fills the congestion window has enough to send.
            return self.snd.buffer().limit();
        }
        let each = (mss + 640).next_power_of_two() + 256;
        let segments = (cwnd / mss).max(SEGMENTS_MIN);
        segments.saturating_mul(2 * each).min(cx.config.sndbuf.1)
    }
}
