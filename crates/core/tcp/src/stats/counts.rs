//! Counters of a connection.

use alloc::boxed::Box;

use base::Duration;

use crate::Limited;

/// Counters that are rarely updated.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Account {
    /// Segments with data or a FIN that were sent again, and their bytes.
    pub(super) again: u32,
    pub(super) bytes_again: u64,
    /// Segments that the peer reported as duplicates (RFC 2883).
    pub(super) duplicates: u32,
    /// Segments that arrived here out of order.
    pub(super) out_of_order: u32,
    /// Of these, those that were refused.
    pub(super) refused: u32,
    /// Segments that the acknowledgments delivered which echoed a mark (RFC 3168).
    pub(super) marked: u32,
    /// How long the peer's window, and how long the send buffer, was what held data back: see `Connection::watch`.
    pub(super) window: u32,
    pub(super) buffer: u32,
    /// Retransmission timeouts, and how long what they began took altogether, milliseconds; when the one under way
    /// began.
    pub(super) timeouts: u16,
    pub(super) timeout_recoveries: u16,
    pub(super) timeout_ms: u32,
    pub(super) timeout_began: Option<u32>,
}

/// Counters of connections that have something to count.
#[derive(Default, Debug)]
pub(crate) struct RareStats {
    pub(super) account: Account,
    /// Exists once something else than its application limited it.
    pub(super) limited: Option<Box<Limited>>,
}

impl RareStats {
    /// Segments that the peer reported as duplicates.
    pub(crate) fn count_duplicates(&mut self, segments: u32) {
        self.account.duplicates += segments;
    }

    /// A segment arrived out of order.
    pub(crate) fn count_out_of_order(&mut self) {
        self.account.out_of_order += 1;
    }

    /// One of these was refused.
    pub(crate) fn count_refused(&mut self) {
        self.account.refused += 1;
    }
}

/// Times that lie in [`crate::Info`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spans {
    pub(crate) busy: Duration,
    pub(crate) window: Duration,
    pub(crate) buffer: Duration,
}

/// A stop watch in one word, milliseconds modulo 2^32: the time it ran, less the time it was started at while it runs.
pub(super) fn toggle(watch: &mut u32, now: u32, run: bool) {
    *watch = if run { watch.wrapping_sub(now) } else { watch.wrapping_add(now) };
}

pub(super) fn read(watch: u32, now: u32, runs: bool) -> Duration {
    Duration::from_millis(if runs { watch.wrapping_add(now) } else { watch }.into())
}

/// Counters of every connection.
#[derive(Default, Debug)]
#[repr(C)]
pub(crate) struct Counts {
    segments_in: u32,
    segments_out: u32,
    retransmits: u32,
    /// How long the send buffer was not empty, milliseconds.
    pub(super) busy_ms: u32,
    bytes_acked: u64,
}

impl Counts {
    /// Segments in, modulo 2^32.
    pub(crate) fn segments_in(&self) -> u32 {
        self.segments_in
    }

    /// Segments out, modulo 2^32.
    pub(crate) fn segments_out(&self) -> u32 {
        self.segments_out
    }

    /// Segments that left again.
    pub(crate) fn retransmits(&self) -> u32 {
        self.retransmits
    }

    /// Bytes that the peer acknowledged.
    #[inline(always)]
    pub(crate) fn bytes_acked(&self) -> u64 {
        self.bytes_acked
    }

    /// A segment arrives, of which `merged` were made one.
    #[inline(always)]
    pub(crate) fn received(&mut self, merged: u16) {
        self.segments_in = self.segments_in.wrapping_add(u32::from(merged.max(1)));
    }

    #[inline(always)]
    pub(crate) fn sent(&mut self, segments: u32) {
        self.segments_out = self.segments_out.wrapping_add(segments);
    }

    pub(crate) fn retransmitted(&mut self) {
        self.retransmits = self.retransmits.wrapping_add(1);
    }

    #[inline(always)]
    pub(crate) fn acknowledged(&mut self, bytes: u32) {
        self.bytes_acked += u64::from(bytes);
    }
}
