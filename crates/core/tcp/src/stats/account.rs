//! Counters of a connection for its owner only (RFC 4898, and Linux's `struct tcp_info`). Counters that every
//! segment updates lie in the connection; the rest here, in a box that a connection without trouble never gets.

use cc::Controller;

use crate::bits::{Flag, Owned};
use crate::connection::{Bits, Connection};
use crate::stats::counts::{Account, Spans, read, toggle};
use crate::stats::{WRITER, Writer};
use crate::{Cx, Limit};

impl Connection {
    /// The send buffer was empty and is not, or the other way round.
    #[inline]
    pub(crate) fn note_busy(&mut self, now_ms: u32, busy: bool) {
        toggle(&mut self.counts.busy_ms, now_ms, busy);
    }

    /// Notes what holds unsent data back, as Linux reports it: only the peer's window, or a send buffer that is too
    /// small for the congestion window (`Bits::WINDOW_STARVED`, `Bits::BUFFER_STARVED`; both at once count for the
    /// buffer).
    #[cold]
    pub(crate) fn watch<const PLACE: u8>(&mut self, cx: &Cx<'_>, reason: Flag<PLACE>, on: bool)
    where
        Flag<PLACE>: Owned<Writer = Writer>,
    {
        if self.bits.has(reason) == on {
            return;
        }
        let now = cx.now.as_millis() as u32;
        let (window, buffer) = self.watched();
        self.bits.put(reason, on, WRITER);
        let (window_then, buffer_then) = self.watched();
        let account = &mut self.cold_mut().stats.account;
        if window != window_then {
            toggle(&mut account.window, now, window_then);
        }
        if buffer != buffer_then {
            toggle(&mut account.buffer, now, buffer_then);
        }
    }

    /// Of `full`, a segment or what is ready of one, the peer's window takes `wanted` and the congestion window
    /// `congestion`.
    #[cold]
    pub(crate) fn judge_window(&mut self, cx: &Cx<'_>, full: u32, wanted: u32, congestion: u32) {
        self.watch(cx, Bits::WINDOW_STARVED, wanted < full && congestion >= full);
    }

    /// Which of the two is counted now?
    fn watched(&self) -> (bool, bool) {
        let buffer = self.bits.has(Bits::BUFFER_STARVED);
        (self.bits.has(Bits::WINDOW_STARVED) && !buffer, buffer)
    }

    /// Nothing waits any more.
    #[cold]
    pub(crate) fn stop_watches(&mut self, cx: &Cx<'_>) {
        self.watch(cx, Bits::BUFFER_STARVED, false);
        self.watch(cx, Bits::WINDOW_STARVED, false);
    }

    /// The application waits for room, everything it wrote was sent, and the congestion window would let more go: the
    /// buffer is what is too small.
    #[cold]
    pub(crate) fn note_starved(&mut self, cx: &mut Cx<'_>) {
        let room = self.control.window().cwnd > self.snd.flight() && self.snd.window() > self.snd.flight();
        if room && self.snd.unsent() == 0 && self.bits.has(Bits::NO_SPACE) && self.state().may_send() {
            self.watch(cx, Bits::BUFFER_STARVED, true);
            self.put_limit(cx, Limit::Buffer);
        }
    }

    /// How long there was something to send, and what held it back, at `now` in milliseconds.
    pub(crate) fn spans(&self, now: u32) -> Spans {
        let (window, buffer) = self.watched();
        let account = self.account();
        Spans {
            busy: read(self.counts.busy_ms, now, self.snd.queued() > 0),
            window: read(account.window, now, window),
            buffer: read(account.buffer, now, buffer),
        }
    }

    /// Returns the rare counters.
    pub(crate) fn account(&self) -> Account {
        self.cold().map_or(Account::default(), |cold| cold.stats.account)
    }

    /// Segments that `bytes` fill.
    pub(crate) fn segments(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.snd.mss().into())
    }

    /// A segment of `bytes` leaves once more. Without data it is a FIN, which counts as no segment with data at first
    /// either.
    #[cold]
    pub(crate) fn count_again(&mut self, bytes: u32) {
        if bytes > 0 {
            let account = &mut self.cold_mut().stats.account;
            account.again = account.again.wrapping_add(1);
            account.bytes_again += u64::from(bytes);
        }
    }

    /// The byte that probed a window was taken: it left once.
    #[cold]
    pub(crate) fn uncount_probe(&mut self) {
        let account = &mut self.cold_mut().stats.account;
        account.again = account.again.wrapping_sub(1);
        account.bytes_again = account.bytes_again.saturating_sub(1);
    }

    /// An acknowledgment that echoes a mark delivered `bytes`.
    #[cold]
    pub(crate) fn count_marked(&mut self, bytes: u32) {
        if bytes > 0 {
            let segments = self.segments(bytes);
            self.cold_mut().stats.account.marked += segments;
        }
    }

    /// The end: what was measured stands still.
    pub(crate) fn stop_counting(&mut self, cx: &mut Cx<'_>) {
        if self.snd.queued() > 0 {
            self.note_busy(cx.now.as_millis() as u32, false);
        }
        if self.bits.has(Bits::WINDOW_STARVED | Bits::BUFFER_STARVED) {
            self.stop_watches(cx);
        }
        self.put_limit(cx, Limit::Application);
        self.watch_reader(cx, false);
    }

    /// Segments with data, a SYN or a lone FIN that the peer is known to have got, each once: what left, less what is
    /// still under way.
    pub(crate) fn delivered(&self) -> u32 {
        let fin = u32::from(self.bits.has(Bits::LONE_FIN));
        let sent = self.snd.data_segments().wrapping_sub(self.account().again);
        if !self.state().is_synchronized() {
            return 0;
        }
        let waiting = self.snd.fin_in_flight();
        let data = self.snd.flight() - u32::from(waiting);
        let missing = self.segments(data.saturating_sub(self.sacked())) + if waiting { fin } else { 0 };
        // A SYN and the data that it took along are one segment.
        let syn = u32::from(!self.bits.has(Bits::ACTIVE) || !self.bits.has(Bits::SYN_DATA_TAKEN));
        sent.wrapping_add(syn + fin).wrapping_sub(missing)
    }

    /// A timeout begins a repair, or comes while one lasts.
    #[cold]
    pub(crate) fn note_timeout(&mut self, cx: &Cx<'_>) {
        let now = cx.now.as_millis() as u32;
        let account = &mut self.cold_mut().stats.account;
        account.timeouts = account.timeouts.saturating_add(1);
        if account.timeout_began.is_none() {
            account.timeout_began = Some(now);
            account.timeout_recoveries = account.timeout_recoveries.saturating_add(1);
        }
    }

    /// Notes that the recovery that a timeout began is over.
    #[cold]
    pub(crate) fn note_timeout_over(&mut self, cx: &Cx<'_>) {
        let now = cx.now.as_millis() as u32;
        if let Some(began) = self.cold_mut().stats.account.timeout_began.take() {
            let account = &mut self.cold_mut().stats.account;
            account.timeout_ms = account.timeout_ms.saturating_add(now.wrapping_sub(began));
        }
    }
}
