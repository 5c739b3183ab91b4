//! The receive sequence space (RFC 9293, section 3.3.1): what arrived, what was acknowledged, and the window offered.

pub(crate) mod assembler;
mod buffer;
mod queue;
mod reassembly;
pub(crate) mod tuner;
pub(crate) mod window;

use alloc::boxed::Box;

use base::{Instant, Seq};

pub use self::buffer::ADOPTED_MIN;
pub(crate) use self::reassembly::{Kept, Limit};
use crate::buffers::chain::Chain;
use crate::receiver::queue::Reassembly;
use crate::sender::MIN_MSS;
use crate::start::Start;

/// ```text
///       readable from      nxt                             edge
///      ─────┬──────────────────┬───────────────────────────────┬────────────────
///       read│     readable     │ hole │ out of order │ hole │  │ not allowed yet
///      ─────┴──────────────────┴───────────────────────────────┴────────────────
///           │<──────────────── the receive buffer ────────────>│
///                   acked lies at or before nxt
/// ```
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Receiver {
    nxt: Seq,
    /// Right edge of the window we advertised: never moves left.
    edge: Seq,
    /// The acknowledgment sent last.
    acked: Seq,
    ts_recent: u32,
    /// Exists while we miss something.
    reassembly: Option<Box<Reassembly>>,
    buffer: Chain,
    /// When a valid segment last arrived, milliseconds.
    last_ms: u32,
    /// Receive buffer now allowed, bytes.
    limit: u32,
    /// Estimate of the peer's full segments.
    mss: u16,
    scale: u8,
    /// Acknowledgments that are not to be delayed yet.
    quick: u8,
    /// Segments that came with data.
    data_segments: u32,
    /// Bytes received in order.
    bytes: u64,
}

impl Receiver {
    /// Nothing has arrived.
    #[inline(always)]
    pub(crate) fn new(start: &Start, now: Instant) -> Receiver {
        Receiver {
            nxt: Seq::new(0),
            edge: Seq::new(0),
            acked: Seq::new(0),
            ts_recent: 0,
            reassembly: None,
            buffer: Chain::new(),
            last_ms: now.as_millis() as u32,
            limit: start.rcvbuf,
            mss: MIN_MSS,
            scale: start.rcv_scale,
            quick: start.quick,
            data_segments: 0,
            bytes: 0,
        }
    }

    /// RCV.NXT.
    #[inline(always)]
    pub(crate) fn nxt(&self) -> Seq {
        self.nxt
    }

    /// Right edge of the window we advertised.
    #[inline(always)]
    pub(crate) fn edge(&self) -> Seq {
        self.edge
    }

    /// RCV.WND as last advertised, bytes.
    #[inline(always)]
    pub(crate) fn window(&self) -> u32 {
        // A FIN may take the byte behind the edge.
        self.edge.distance_from(self.nxt).max(0) as u32
    }

    /// The acknowledgment sent last (Last.ACK.sent).
    #[inline(always)]
    pub(crate) fn acked(&self) -> Seq {
        self.acked
    }

    /// Bytes, or FIN, received and not acknowledged.
    #[inline(always)]
    pub(crate) fn unacknowledged(&self) -> u32 {
        self.nxt.offset_from(self.acked)
    }

    /// TS.Recent.
    #[inline(always)]
    pub(crate) fn ts_recent(&self) -> u32 {
        self.ts_recent
    }

    /// Estimate of the peer's full segments, bytes.
    #[inline(always)]
    pub(crate) fn mss(&self) -> u16 {
        self.mss
    }

    /// Our window scale.
    #[inline(always)]
    pub(crate) fn scale(&self) -> u8 {
        self.scale
    }

    /// Receive buffer now allowed, bytes.
    #[inline(always)]
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// Bytes received in order.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Segments that came with data.
    pub(crate) fn data_segments(&self) -> u32 {
        self.data_segments
    }

    /// Acknowledgments that are not to be delayed yet.
    #[inline(always)]
    pub(crate) fn quick(&self) -> u8 {
        self.quick
    }

    /// When a valid segment last arrived, milliseconds.
    #[inline(always)]
    pub(crate) fn last_ms(&self) -> u32 {
        self.last_ms
    }

    /// A valid segment arrives.
    #[inline(always)]
    pub(crate) fn note_arrival(&mut self, now: Instant) {
        self.last_ms = now.as_millis() as u32;
    }

    /// The peer's SYN has the number `syn`.
    #[inline(always)]
    pub(crate) fn begin_behind(&mut self, syn: Seq) {
        (self.nxt, self.acked) = (syn + 1, syn + 1);
    }

    /// Offers `window` bytes from RCV.NXT on.
    #[inline(always)]
    pub(crate) fn offer(&mut self, window: u32) {
        self.edge = self.nxt + window;
    }

    /// The right edge moves right.
    #[inline(always)]
    pub(crate) fn move_edge(&mut self, gain: u32) {
        self.edge += gain;
    }

    /// Our windows are told in units of two to the power of `scale` bytes.
    #[inline(always)]
    pub(crate) fn set_scale(&mut self, scale: u8) {
        self.scale = scale;
    }

    /// The receive buffer may hold `limit` bytes.
    pub(crate) fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// The peer's full segments have `mss` bytes as far as is known.
    #[inline(always)]
    pub(crate) fn set_mss(&mut self, mss: u16) {
        self.mss = mss;
    }

    /// So many acknowledgments are not delayed.
    pub(crate) fn set_quick(&mut self, quick: u8) {
        self.quick = quick;
    }

    /// The peer's timestamp to echo is `val`.
    #[inline(always)]
    pub(crate) fn note_timestamp(&mut self, val: u32) {
        self.ts_recent = val;
    }

    #[inline(always)]
    pub(crate) fn count_segments(&mut self, merged: u16) {
        self.data_segments = self.data_segments.wrapping_add(u32::from(merged.max(1)));
    }

    /// `len` bytes at RCV.NXT are received.
    #[inline(always)]
    pub(crate) fn advance(&mut self, len: u32) {
        self.nxt += len;
        self.bytes += u64::from(len);
    }

    /// The peer's FIN is received; behind it nothing can lie.
    #[inline(always)]
    pub(crate) fn take_fin(&mut self) {
        self.nxt += 1;
    }

    /// The peer is about to learn RCV.NXT, and of what lies beyond it if the segment `tells`; true if it knows all
    /// then. One SACK tells as much as many duplicates, and those count only in a `bare` acknowledgment (RFC 5681,
    /// section 2).
    #[inline(always)]
    pub(crate) fn acknowledge(&mut self, tells: bool, sack: bool, bare: bool) -> bool {
        self.acked = self.nxt;
        self.quick = self.quick.saturating_sub(1);
        match &mut self.reassembly {
            None => true,
            Some(_) if !tells => false,
            Some(queue) => queue.told(sack, bare),
        }
    }
}
