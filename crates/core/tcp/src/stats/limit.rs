//! Limits of a connection, and the time spent under each: RFC 4898's tcpEStatsPerfSndLim, with more causes than
//! that has, and the same for what is received.
//!
//! The sender's limit is judged where it has nothing more to send for now: at the end of `poll_transmit`'s look
//! at data. A connection whose application always was what it waited for, as most are, keeps no account of this.

use alloc::boxed::Box;

use cc::Controller;

use crate::connection::{Bits, Connection};
use crate::stats::WRITER;
use crate::stats::limited::{Limit, Limited, ReceiveLimit};
use crate::{Config, Counters, Cx};

/// Where the limit stands among a connection's bits.
const SHIFT: u32 = Bits::FACTS;
const FIELD: u64 = 7 << SHIFT;
const _: () = assert!(Limit::COUNT <= 8);

/// Bits to be examined closely, and their value on a connection that the congestion window limited before and still
/// does: the common state of bulk transfers.
const CLOSELY: u64 =
    FIELD | Bits::CWND_LIMITED.or(Bits::WINDOW_STARVED).or(Bits::BUFFER_STARVED).or(Bits::PACE_WAIT).raw();
const STEADY: u64 = (Limit::Congestion as u64) << SHIFT | Bits::CWND_LIMITED.raw();

impl Bits {
    fn limit(self) -> Limit {
        Limit::ALL.get(self.rest() as usize).copied().unwrap_or(Limit::Stack)
    }
}

fn counter(counters: &mut Counters, limit: Limit) -> Option<&mut u64> {
    match limit {
        Limit::Application => None,
        Limit::Buffer => Some(&mut counters.limited_send_buffer_us),
        Limit::Window => Some(&mut counters.limited_peer_window_us),
        Limit::Congestion => Some(&mut counters.limited_congestion_window_us),
        Limit::Pacing => Some(&mut counters.limited_pacing_us),
        Limit::Recovery => Some(&mut counters.limited_loss_recovery_us),
        Limit::Stack => Some(&mut counters.limited_stack_us),
    }
}

impl Connection {
    /// Returns the present limit of sending.
    pub fn limit(&self) -> Limit {
        self.bits.limit()
    }

    /// Returns the present limit of the peer's sending.
    pub fn receive_limit(&self, now_us: u32) -> ReceiveLimit {
        let unread = self.rcv.readable() >= (self.buffer_limit() / 2).max(1);
        match () {
            () if !self.state().may_receive() => ReceiveLimit::Peer,
            () if self.bits.has(Bits::SHUT) || unread => ReceiveLimit::Reader,
            () if self.fills_buffer(now_us) => ReceiveLimit::Buffer,
            () => ReceiveLimit::Peer,
        }
    }

    /// How long it was limited by what, at `now` in milliseconds.
    pub(crate) fn limited(&self, now: u32) -> Limited {
        let mut limited =
            self.cold().and_then(|cold| cold.stats.limited.as_deref()).copied().unwrap_or_default();
        if self.limit() != Limit::Application {
            let time = &mut limited.times[self.limit() as usize];
            *time = time.wrapping_add(now.wrapping_sub(limited.since));
        }
        if self.bits.has(Bits::SHUT) {
            limited.reader = limited.reader.wrapping_add(now.wrapping_sub(limited.reader_since));
        }
        limited
    }

    /// Nothing more may leave now, though something waits.
    #[inline(always)]
    pub(crate) fn judge_limit(&mut self, cx: &mut Cx<'_>) {
        if self.bits.raw() & CLOSELY != STEADY || self.recovery.is_active() {
            let limit = self.limit_of_waiting(cx.config);
            self.put_limit(cx, limit);
        }
    }

    /// Nothing waits any more.
    #[inline(always)]
    pub(crate) fn all_left(&mut self, cx: &mut Cx<'_>) {
        if self.limit() != Limit::Application {
            let limit = self.limit_of_idle();
            self.put_limit(cx, limit);
        }
    }

    /// The core has no frame for what it could send, or its port takes no more.
    #[cold]
    pub fn on_blocked(&mut self, cx: &mut Cx<'_>) {
        if self.snd.unsent() > 0 && self.may_send() {
            self.put_limit(cx, Limit::Stack);
        }
    }

    fn limit_of_idle(&self) -> Limit {
        if self.phase().repairs() {
            Limit::Recovery
        } else if self.bits.has(Bits::BUFFER_STARVED) {
            Limit::Buffer
        } else {
            Limit::Application
        }
    }

    #[cold]
    fn limit_of_waiting(&self, config: &Config) -> Limit {
        let full = self.snd.unsent().min(self.snd.mss().into());
        if full == 0 || self.phase().repairs() || !self.may_send() {
            return self.limit_of_idle();
        }
        if self.bits.has(Bits::PACE_WAIT) && !self.is_paced_by_window(config) {
            return Limit::Pacing;
        }
        let (window, congestion) = (self.snd.usable_window(), self.congestion_room());
        match () {
            () if window < full && window <= congestion => Limit::Window,
            () if congestion < full || self.bits.has(Bits::PACE_WAIT) => Limit::Congestion,
            () => Limit::Application,
        }
    }

    /// Does the pace only spread the congestion window over a round trip?
    fn is_paced_by_window(&self, config: &Config) -> bool {
        let cap = self.pace_cap().filter(|&cap| cap > Default::default());
        self.control.window().pacing.is_none() && cap.is_none_or(|cap| self.pacing_rate(config) != Some(cap))
    }

    /// `limit` is what it waits for from now on.
    pub(crate) fn put_limit(&mut self, cx: &mut Cx<'_>, limit: Limit) {
        if limit != self.limit() {
            self.change_limit(cx, limit);
        }
    }

    #[cold]
    fn change_limit(&mut self, cx: &mut Cx<'_>, to: Limit) {
        let (from, now) = (self.limit(), cx.now.as_millis() as u32);
        self.bits.set_rest(to as u64, WRITER);
        let limited = self.limited_mut();
        let ran = now.wrapping_sub(limited.since);
        limited.since = now;
        if from.kind() != to.kind() {
            let entries = &mut limited.entries[to.kind() as usize];
            *entries = entries.wrapping_add(1);
        }
        if let Some(total) = counter(cx.counters, from) {
            let time = &mut limited.times[from as usize];
            *time = time.wrapping_add(ran);
            *total += u64::from(ran) * 1_000;
        }
    }

    /// Brings the core's counters of such times up to date.
    pub fn settle_limit(&mut self, cx: &mut Cx<'_>) {
        if self.limit() != Limit::Application {
            self.change_limit(cx, self.limit());
        }
        if self.bits.has(Bits::SHUT) {
            self.count_reader(cx);
        }
    }

    /// The window offered to the peer was shut because what the application has not read fills the buffer, or it was
    /// opened again.
    #[cold]
    pub(crate) fn watch_reader(&mut self, cx: &mut Cx<'_>, shut: bool) {
        if self.bits.has(Bits::SHUT) == shut || (shut && self.rcv.readable() < self.buffer_limit() / 2) {
            return;
        }
        if shut {
            self.limited_mut().reader_since = cx.now.as_millis() as u32;
        } else {
            self.count_reader(cx);
        }
        self.bits.put(Bits::SHUT, shut, WRITER);
    }

    fn count_reader(&mut self, cx: &mut Cx<'_>) {
        let (now, limited) = (cx.now.as_millis() as u32, self.limited_mut());
        let ran = now.wrapping_sub(core::mem::replace(&mut limited.reader_since, now));
        limited.reader = limited.reader.wrapping_add(ran);
        cx.counters.limited_reader_us += u64::from(ran) * 1_000;
    }

    fn limited_mut(&mut self) -> &mut Limited {
        self.cold_mut().stats.limited.get_or_insert_with(Box::default)
    }
}

#[cfg(test)]
mod tests;
