//! The send sequence space (RFC 9293, section 3.3.1): what was written, sent and acknowledged, and the peer's window.

pub(crate) mod charge;
pub(crate) mod send_buffer;

use base::{Instant, Seq};

use crate::buffers::pool::Pool;
use crate::buffers::sent::{Cursor, Sent, TxTimes};
use crate::sender::send_buffer::SendBuffer;

/// Least MSS we believe in: smaller ones only serve to make us send storms of tiny segments.
pub(crate) const MIN_MSS: u16 = 88;

/// ```text
///                      una                   nxt               una + queued()
///      ────────────────┬─────────────────────┬────────────────┬─────┬───────────
///       acknowledged   │      in flight      │    not sent    │ FIN │
///      ────────────────┴─────────────────────┴────────────────┴─────┴───────────
///                      │<───────── the send buffer ──────────>│
///                      │<─── wnd: the peer's window ───>│
/// ```
/// Before our SYN is acknowledged `una` is its number and the buffer holds only what goes with the SYN. Our FIN
/// occupies the byte behind the buffer; it was sent if the flight is longer than the buffer.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Sender {
    una: Seq,
    nxt: Seq,
    wnd: u32,
    /// Sequence number of the segment that last set `wnd`. (SND.WL2 is not needed: an acknowledgment below SND.UNA
    /// never gets as far as the window.)
    wl1: Seq,
    /// The most that was in flight at once in the round trip that ends with `round_end`.
    round_flight: u32,
    round_end: Seq,
    /// An acknowledgment beyond this one gives the next sample of the round-trip time.
    rtt_seq: Seq,
    /// When what is in flight left.
    sent: Sent,
    /// Segments that left with data, again or not.
    data_segments: u32,
    buffer: SendBuffer,
    /// Bytes of data in a full segment.
    mss: u16,
    peer_mss: u16,
    path_mtu: u16,
    scale: u8,
    /// Duplicate acknowledgments in a row.
    duplicates: u8,
    /// End of the last segment sent that was not full (Minshall's form of Nagle's algorithm).
    small: Seq,
    /// Largest window the peer ever offered.
    wnd_max: u32,
    /// When data last left, milliseconds.
    last_ms: u32,
    /// Offset of our timestamps.
    ts_offset: u32,
}

/// Sizes of segments where one size does not describe all.
#[derive(Debug)]
pub(crate) struct SegmentSizes {
    /// SND.NXT when segments of another size than SND.MSS were last in flight: SACK blocks made one shorter, or the
    /// path MTU fell.
    uneven: Option<Seq>,
    /// Where the first piece of what waits in the send buffer begins, if it is charged by the piece.
    pieces: Seq,
}

impl SegmentSizes {
    pub(crate) fn new(una: Seq) -> SegmentSizes {
        SegmentSizes { uneven: None, pieces: una }
    }

    /// Segments of another size than SND.MSS are in flight before `nxt`.
    pub(crate) fn note_uneven(&mut self, nxt: Seq) {
        self.uneven = Some(nxt);
    }

    /// Are some of them not acknowledged by `una`?
    pub(crate) fn is_uneven_behind(&self, una: Seq) -> bool {
        self.uneven.is_some_and(|end| end.after(una))
    }
}

impl Sender {
    /// Nothing was sent.
    #[inline(always)]
    pub(crate) fn new(isn: Seq, ts_offset: u32, (limit, path_mtu): (u32, u16), now: Instant) -> Sender {
        Sender {
            una: isn,
            nxt: isn,
            wnd: 0,
            wl1: isn,
            round_flight: 0,
            round_end: isn,
            rtt_seq: isn,
            sent: Sent::new(isn),
            data_segments: 0,
            buffer: SendBuffer::new(limit),
            mss: MIN_MSS,
            peer_mss: 0,
            path_mtu,
            scale: 0,
            duplicates: 0,
            small: isn,
            wnd_max: 0,
            last_ms: now.as_millis() as u32,
            ts_offset,
        }
    }

    /// SND.UNA.
    #[inline(always)]
    pub(crate) fn una(&self) -> Seq {
        self.una
    }

    /// SND.NXT.
    #[inline(always)]
    pub(crate) fn nxt(&self) -> Seq {
        self.nxt
    }

    /// SND.WND, bytes.
    #[inline(always)]
    pub(crate) fn window(&self) -> u32 {
        self.wnd
    }

    /// Largest window the peer ever offered, bytes.
    #[inline(always)]
    pub(crate) fn largest_window(&self) -> u32 {
        self.wnd_max
    }

    /// The peer's window scale.
    #[inline(always)]
    pub(crate) fn scale(&self) -> u8 {
        self.scale
    }

    /// Bytes of data in a full segment.
    #[inline(always)]
    pub(crate) fn mss(&self) -> u16 {
        self.mss
    }

    /// The peer's MSS option; 0 before its SYN.
    #[inline(always)]
    pub(crate) fn peer_mss(&self) -> u16 {
        self.peer_mss
    }

    /// Largest packet for the path as far as known, bytes.
    pub(crate) fn path_mtu(&self) -> u16 {
        self.path_mtu
    }

    /// Duplicate acknowledgments in a row.
    #[inline(always)]
    pub(crate) fn duplicates(&self) -> u8 {
        self.duplicates
    }

    /// The most that was in flight at once in this round trip, bytes.
    #[inline(always)]
    pub(crate) fn round_flight(&self) -> u32 {
        self.round_flight
    }

    /// Segments that left with data, again or not.
    #[inline(always)]
    pub(crate) fn data_segments(&self) -> u32 {
        self.data_segments
    }

    /// When what is in flight left.
    #[inline(always)]
    pub(crate) fn sent(&self) -> &Sent {
        &self.sent
    }

    #[inline(always)]
    pub(crate) fn buffer(&self) -> &SendBuffer {
        &self.buffer
    }

    /// For what the application writes, and how much of it there may be.
    #[inline(always)]
    pub(crate) fn buffer_mut(&mut self) -> &mut SendBuffer {
        &mut self.buffer
    }

    /// Bytes (and SYN or FIN) sent and not acknowledged.
    #[inline(always)]
    pub(crate) fn flight(&self) -> u32 {
        self.nxt.offset_from(self.una)
    }

    /// Bytes written and not acknowledged.
    #[inline(always)]
    pub(crate) fn queued(&self) -> u32 {
        self.buffer.len()
    }

    /// Bytes written and not sent.
    #[inline(always)]
    pub(crate) fn unsent(&self) -> u32 {
        self.buffer.len().saturating_sub(self.flight())
    }

    /// Is our FIN, or before the handshake our SYN, in flight?
    #[inline(always)]
    pub(crate) fn fin_in_flight(&self) -> bool {
        self.flight() > self.buffer.len()
    }

    /// Bytes of data among the `acked` first numbers in flight; one of these may be the FIN.
    #[inline(always)]
    pub(crate) fn data_in(&self, acked: u32) -> u32 {
        acked.min(self.buffer.len())
    }

    /// Bytes of the peer's window that nothing in flight takes.
    #[inline(always)]
    pub(crate) fn usable_window(&self) -> u32 {
        self.wnd.saturating_sub(self.flight())
    }

    /// Was the last segment that was not full acknowledged, up to `una`?
    #[inline(always)]
    pub(crate) fn is_full_from(&self, una: Seq) -> bool {
        self.small.at_or_before(una)
    }

    /// Is everything acknowledged that was in flight when this round trip began?
    #[inline(always)]
    pub(crate) fn round_is_over(&self) -> bool {
        self.una.at_or_after(self.round_end)
    }

    /// Does an acknowledgment of `ack` give a sample of the round-trip time?
    #[inline(always)]
    pub(crate) fn is_timed(&self, ack: Seq) -> bool {
        ack.after(self.rtt_seq)
    }

    /// Is a segment with this number no older than the one that last set the window?
    #[inline(always)]
    pub(crate) fn is_newer(&self, seq: Seq) -> bool {
        self.wl1.at_or_before(seq)
    }

    /// Is a segment with this number newer than the one that last set the window?
    pub(crate) fn is_later(&self, seq: Seq) -> bool {
        self.wl1.before(seq)
    }

    /// Nothing is in flight, and `first` is the next number to send.
    pub(crate) fn begin_at(&mut self, first: Seq) {
        (self.una, self.nxt, self.small, self.rtt_seq) = (first, first, first, first);
        self.sent = Sent::new(first);
    }

    /// Takes what the peer's SYN says about what it receives.
    #[inline(always)]
    pub(crate) fn agree(&mut self, peer_mss: u16, scale: u8) {
        (self.peer_mss, self.scale) = (peer_mss, scale);
    }

    /// Full segments have `mss` bytes of data from now on; how many they had.
    #[inline(always)]
    pub(crate) fn set_mss(&mut self, mss: u16) -> u16 {
        core::mem::replace(&mut self.mss, mss)
    }

    /// Packets for the path have at most `mtu` bytes from now on.
    pub(crate) fn set_path_mtu(&mut self, mtu: u16) {
        self.path_mtu = mtu;
    }

    pub(crate) fn count_duplicate(&mut self) {
        self.duplicates = self.duplicates.saturating_add(1);
    }

    /// Duplicate acknowledgments are counted from zero again.
    #[inline(always)]
    pub(crate) fn forget_duplicates(&mut self) {
        self.duplicates = 0;
    }

    /// The segment `seq` offers `window` bytes: true if the peer never offered so much, unless it is its first window.
    /// RFC 5961, 5.2-2.
    #[inline(always)]
    pub(crate) fn set_window(&mut self, window: u32, seq: Seq) -> bool {
        (self.wnd, self.wl1) = (window, seq);
        let before = self.wnd_max;
        self.wnd_max = before.max(window);
        before > 0 && window > before
    }

    /// The segment `seq` offers the same window again.
    #[inline(always)]
    pub(crate) fn confirm_window(&mut self, seq: Seq) {
        self.wl1 = seq;
    }

    /// `len` bytes leave for the first time, and the FIN: true if more is in flight than before in this round trip, or
    /// if another one begins. Nagle's algorithm waits for an `incomplete` segment.
    #[inline(always)]
    pub(crate) fn transmitted(&mut self, len: u32, fin: bool, incomplete: bool) -> bool {
        if incomplete {
            self.small = self.nxt + len;
        }
        self.nxt += len + u32::from(fin);
        let most = self.flight() > self.round_flight || self.round_is_over();
        if most {
            (self.round_flight, self.round_end) = (self.flight(), self.nxt);
        }
        most
    }

    /// When data last left, milliseconds.
    #[inline(always)]
    pub(crate) fn last_ms(&self) -> u32 {
        self.last_ms
    }

    /// Offset of our timestamps.
    #[inline(always)]
    pub(crate) fn ts_offset(&self) -> u32 {
        self.ts_offset
    }

    /// Data leaves, for the first time or again, `now` in milliseconds.
    #[inline(always)]
    pub(crate) fn note_sending(&mut self, now: u32) {
        self.last_ms = now;
    }

    /// Our SYN leaves with `data` bytes.
    #[inline(always)]
    pub(crate) fn transmitted_syn(&mut self, data: u32) {
        self.nxt = self.una + 1 + data;
        self.data_segments += u32::from(data > 0);
    }

    /// The peer took the byte beyond SND.NXT that probed its window.
    pub(crate) fn probe_taken(&mut self) {
        self.nxt += 1;
    }

    /// So many segments leave with data, for the first time or again.
    #[inline(always)]
    pub(crate) fn count_segments(&mut self, segments: u32) {
        self.data_segments = self.data_segments.wrapping_add(segments);
    }

    /// Notes that the data that ends at SND.NXT leaves now.
    #[inline(always)]
    pub(crate) fn note_tx_time(&mut self, log: &mut TxTimes, now: Instant) {
        self.sent.push(log, self.una, self.nxt, now.as_micros() as u32);
    }

    /// Takes back the segments from `seq` on, which did not leave.
    pub(crate) fn take_back(&mut self, seq: Seq) {
        self.nxt = seq;
        self.sent.cut(seq);
        self.rtt_seq = self.rtt_seq.earlier(seq);
        self.small = self.small.earlier(seq);
    }

    /// Nothing now in flight tells the round-trip time any more: it was sent twice (Karn's rule, RFC 6298, section 3),
    /// or gave its sample.
    /// RFC 9293, MUST-18; RFC 6298, 3-1.
    #[inline(always)]
    pub(crate) fn stop_timing(&mut self) {
        self.rtt_seq = self.nxt;
    }

    /// Takes `acked` numbers off the front of the flight: the bytes of data among them, and when the last of them left,
    /// if that is known. Cursors in the log are moved along.
    #[inline(always)]
    pub(crate) fn acknowledge(
        &mut self,
        pool: &mut Pool,
        acked: u32,
        cursors: Option<&mut [Cursor; 2]>,
    ) -> (u32, Option<u32>) {
        let data = self.data_in(acked);
        self.buffer.consume(pool, data);
        self.una += acked;
        let log = pool.tx_times_mut();
        let left = match cursors {
            None => self.sent.retire(log, self.una),
            Some(cursors) => self.sent.retire_with(log, self.una, cursors),
        };
        (data, left)
    }

    /// Our SYN is acknowledged; when it left, if that is known. Data that went along stays in the buffer.
    pub(crate) fn acknowledge_syn(&mut self, log: &mut TxTimes, ack: Seq) -> Option<u32> {
        self.una = ack;
        self.when_left(log, ack)
    }

    /// When the byte before `ack` left, if that is known; what left earlier is forgotten.
    pub(crate) fn when_left(&mut self, log: &mut TxTimes, ack: Seq) -> Option<u32> {
        self.sent.retire(log, ack)
    }

    /// Gives everything back.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        self.buffer.release(pool);
        self.sent.release(pool.tx_times_mut());
    }

    /// The connection is over: nothing is in flight, and what still leaves has the number `seq`.
    pub(crate) fn end_at(&mut self, seq: Seq) {
        (self.una, self.nxt) = (seq, seq);
    }
}
