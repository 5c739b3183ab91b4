//! Three dates a connection waits for, and what happens when they come.

mod deadlines;
pub(crate) mod rtt;
pub(crate) mod times;

pub(crate) use deadlines::{Keepalive, OwnTimes, Tick, Timers};

use base::{Duration, Instant};
use cc::Signal;

use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::options::Switch;
use crate::timers::deadlines::after;
use crate::timers::rtt::{backed_off, nanos};
use crate::{Config, Cx, Error, Incident, State};

crate::bits::writer!(SYN_LOST, REORDERING, TAIL_PROBE, REHASHED);

/// A SYN that was lost although the timeout was below this says that the timeout was too short (RFC 6298,
/// rule 5.7).
const RTO_AFTER_LOST_SYN: Duration = Duration::from_secs(3);
/// Longest that TCP_CORK or MSG_MORE holds back a segment that is not full (tcp(7)).
const CORK: Duration = Duration::from_millis(200);
/// When a write that found the pool exhausted looks again.
const MEMORY_RETRY: Duration = Duration::from_millis(10);

impl Connection {
    /// When `on_timeout` wants to be called; may be called early (a lower bound).
    pub fn poll_timeout(&self) -> Option<Instant> {
        let first = self.timers.rtx.min(self.timers.delack).min(self.timers.idle);
        (first != Instant::FAR_FUTURE).then_some(first)
    }

    /// `poll_timeout` has come (calling it early is harmless).
    pub fn on_timeout(&mut self, cx: &mut Cx<'_>) {
        if cx.probe.is_some() {
            self.note_timers(cx);
        }
        if self.timers.delack <= cx.now {
            self.on_delayed_ack(cx);
        }
        if self.timers.rtx <= cx.now {
            let deadline = self.rto_deadline();
            self.timers.rtx = Instant::FAR_FUTURE;
            self.on_rtx(cx, deadline);
        }
        if self.timers.idle <= cx.now {
            self.timers.idle = Instant::FAR_FUTURE;
            self.on_idle(cx);
        }
    }

    /// Computes the retransmission timeout anew: after every sample and every change of the backoff (RFC
    /// 6298).
    #[inline]
    pub(crate) fn refresh_rto(&mut self, config: &Config) {
        let nanos = self.timers.rtt.rto_nanos(config);
        self.timers.rto_us = (nanos / 1_000) as u32;
        if self.timers.backoff > 0 || self.bits.has(Bits::SYN_LOST) || self.options.has(Switch::OWN_TIMES) {
            self.stretch_rto(config);
        }
    }

    /// Applies backoff to the timeout.
    /// RFC 6298, 5-7.
    #[cold]
    fn stretch_rto(&mut self, config: &Config) {
        let floor = self.times().rto_min;
        if !floor.is_zero() {
            self.timers.rto_us = (self.timers.rtt.rto_nanos_above(config, nanos(floor)) / 1_000) as u32;
        }
        let mut rto = self.timers.rto();
        if self.bits.has(Bits::SYN_LOST) && !self.timers.rtt.is_measured() && self.state().is_synchronized() {
            rto = rto.max(RTO_AFTER_LOST_SYN);
        }
        let rto = backed_off(rto, self.timers.backoff, config);
        self.timers.rto_us = u32::try_from(rto.as_micros()).unwrap_or(u32::MAX);
    }

    /// (Re)starts the retransmission timer. A user timeout (RFC 5482) is never overslept.
    /// RFC 6298, 5-8; RFC 8985, 8-1.
    #[inline(never)]
    pub(crate) fn arm_rtx(&mut self, cx: &Cx<'_>) {
        self.arm::<false>(cx);
    }

    /// Starts the retransmission timer because something leaves and nothing else is in flight, or because something
    /// was acknowledged (RFC 6298, rules 5.1 and 5.3). The user timeout counts from here.
    #[inline(never)]
    pub(crate) fn start_rtx(&mut self, cx: &Cx<'_>) {
        self.arm::<true>(cx);
    }

    #[inline(always)]
    fn arm<const PROGRESS: bool>(&mut self, cx: &Cx<'_>) {
        self.stand_for_rto();
        let deadline = after(cx.now, self.timers.rto_us);
        self.timers.rtx = deadline;
        if let Some(wait) = self.probe_wait(cx.config) {
            self.timers.set_rtx_before(after(cx.now, wait).min(deadline), deadline);
            self.bits.set(Bits::TAIL_PROBE, WRITER);
        }
        if self.options.has_user_timeout() {
            self.heed_user_timeout(cx, PROGRESS);
        }
    }

    /// Keeps the timer within the user timeout, which counts from now if there was `progress`.
    /// RFC 5482, 4.1-1.
    #[cold]
    fn heed_user_timeout(&mut self, cx: &Cx<'_>, progress: bool) {
        if progress {
            self.note_progress(cx);
        }
        let end = cx.now + self.options.user_timeout().saturating_sub(self.stalled(cx));
        if end < self.timers.rtx {
            self.timers.rtx = end;
            self.bits.clear(Bits::TAIL_PROBE, WRITER);
        }
    }

    /// Lets the user timeout count from now: something was acknowledged, or the first of what is in flight leaves. A
    /// SYN's counts from the first one.
    pub(crate) fn note_progress(&mut self, cx: &Cx<'_>) {
        if self.timers.retries == 0 && self.state() != State::SynSent {
            self.timers.stalled_ms = cx.now.as_millis() as u32;
        }
    }

    /// Puts the probe timeout off because more leaves, at most to the end of the retransmission timeout, which sending
    /// does not start again (RFC 6298, rule 5.1; RFC 8985, section 7.2).
    /// RFC 6298, 5-1; RFC 8985, 7.2-1.
    #[inline(never)]
    pub(crate) fn put_off_probe(&mut self, cx: &Cx<'_>) {
        let Some(wait) = self.probe_wait(cx.config) else { return };
        self.timers.rtx = after(cx.now, wait).min(self.timers.rto_at.following(self.timers.rtx));
        if self.options.has_user_timeout() {
            self.heed_user_timeout(cx, false);
        }
    }

    /// Returns when the retransmission timeout is due, whatever comes before it in its timer.
    pub(crate) fn rto_deadline(&self) -> Instant {
        if self.bits.has(Bits::TAIL_PROBE | Bits::REORDERING) && self.timers.rtx != Instant::FAR_FUTURE {
            return self.timers.rto_at.following(self.timers.rtx);
        }
        self.timers.rtx
    }

    /// The retransmission timer stands for nothing else.
    #[inline(always)]
    fn stand_for_rto(&mut self) {
        self.bits.clear(Bits::REORDERING, WRITER);
        self.bits.clear(Bits::TAIL_PROBE, WRITER);
    }

    /// Lets the timer stand for the reordering timer, which is due at `at`, before the retransmission timeout.
    pub(crate) fn hasten_reordering(&mut self, at: Instant, timeout: Instant) {
        self.timers.set_rtx_before(at, timeout);
        self.bits.set(Bits::REORDERING, WRITER);
        self.bits.clear(Bits::TAIL_PROBE, WRITER);
    }

    /// Lets the timer stand for the retransmission timeout alone, which is due at `deadline`.
    /// RFC 8985, 7.3-5.
    pub(crate) fn resume_rto(&mut self, cx: &Cx<'_>, deadline: Instant) {
        self.stand_for_rto();
        self.timers.rtx = deadline;
        if self.options.has_user_timeout() {
            self.heed_user_timeout(cx, false);
        }
    }

    /// Returns how long the data in flight has made no progress. Without a user timeout that is known from the first
    /// timeout on, and zero before it.
    fn stalled(&self, cx: &Cx<'_>) -> Duration {
        if self.timers.retries == 0 && !self.options.has_user_timeout() {
            return Duration::ZERO;
        }
        Duration::from_millis((cx.now.as_millis() as u32).wrapping_sub(self.timers.stalled_ms).into())
    }

    /// Returns how many milliseconds ago our first SYN left.
    pub(crate) fn opening_ms(&self, cx: &Cx<'_>) -> u32 {
        (cx.now.as_millis() as u32).wrapping_sub(self.timers.stalled_ms)
    }

    /// Something waits although nothing is in flight: the peer's window is shut or too small, or the
    /// application corked the connection.
    pub(crate) fn arm_override(&mut self, cx: &Cx<'_>) {
        let shut = self.snd.window() == 0 || !self.is_held();
        self.stand_for_rto();
        self.timers.rtx = cx.now + if shut { self.timers.rto() } else { CORK };
    }

    /// RFC 5681, 4.2-2.
    fn on_delayed_ack(&mut self, cx: &mut Cx<'_>) {
        self.timers.delack = Instant::FAR_FUTURE;
        if self.rcv.unacknowledged() > 0 {
            cx.counters.delayed_acks += 1;
            self.request(Due::ACK);
        }
        // The application did not answer in time: it is not a dialogue after all.
        self.end_dialogue();
    }

    /// Handles the timer; the retransmission timeout is due at `deadline`.
    fn on_rtx(&mut self, cx: &mut Cx<'_>, deadline: Instant) {
        match self.state() {
            State::Closed => {}
            State::SynSent | State::SynReceived => self.on_syn_timeout(cx),
            // The user timeout shares their place too.
            _ if (self.timers.retries > 0 || self.is_watched()) && self.is_overdue(cx) => {
                self.on_retransmission_timeout(cx);
            }
            _ if self.bits.has(Bits::REORDERING) => {
                self.on_reordering_timeout(cx, deadline);
                if self.timers.rtx <= cx.now {
                    self.on_rto(cx);
                }
            }
            _ if self.bits.has(Bits::TAIL_PROBE) && self.may_probe() && self.has_probe() => {
                self.on_probe_due(cx)
            }
            // There is nothing to probe with any more, or no reason: what is left of the timeout is waited for.
            _ if self.bits.has(Bits::TAIL_PROBE) && cx.now < deadline => self.resume_rto(cx, deadline),
            _ => self.on_rto(cx),
        }
    }

    /// Handles the retransmission timeout, or the zero-window probe in its place.
    pub(crate) fn on_rto(&mut self, cx: &mut Cx<'_>) {
        if self.snd.flight() == 0 || self.snd.window() == 0 {
            self.on_probe_timeout(cx);
        } else {
            self.on_retransmission_timeout(cx);
        }
    }

    /// RFC 9293, MUST-22 and MUST-23; RFC 3168, 6.1.1.1-1; RFC 7413, 4.2.2-5.
    fn on_syn_timeout(&mut self, cx: &mut Cx<'_>) {
        let over = self.timers.retries >= self.opening_limit(cx.config) || self.is_overdue(cx);
        if self.bits.has(Bits::FAST_OPEN) {
            self.note_silence(cx, over);
        }
        if over {
            return self.fail(cx, self.silence());
        }
        self.count_retry(cx);
        self.bits.set(Bits::SYN_LOST, WRITER);
        self.choose_another_path(cx);
        if self.state() == State::SynSent && cx.config.ecn_fallback {
            // A box on the way may drop what asks for ECN (RFC 3168, section 6.1.1.1).
            self.give_up_ecn();
        }
        self.snd.stop_timing();
        self.request(Due::SYN);
        self.arm_rtx(cx);
    }

    /// Returns how often the SYN or SYN-ACK goes again.
    pub(crate) fn opening_limit(&self, config: &Config) -> u8 {
        match (self.state(), self.options.syn_count()) {
            (State::SynReceived, 0) => config.synack_retries,
            (_, 0) => config.syn_retries,
            (_, count) => count,
        }
    }

    /// RFC 6298, rules 5.4 to 5.6, and RFC 5681, section 3.1.
    /// RFC 9293, MUST-19.
    fn on_retransmission_timeout(&mut self, cx: &mut Cx<'_>) {
        if self.give_up(cx) {
            return;
        }
        cx.counters.timeouts += 1;
        self.note_timeout(cx);
        self.count_retry(cx);
        self.choose_another_path(cx);
        if self.bits.has(Bits::PROBING_MTU) {
            self.forget_mtu_probe(cx);
        }
        if cx.config.mtu_probing > 0 || self.options.has(Switch::BLACK_HOLES) {
            self.suspect_black_hole(cx);
        }
        self.note(cx, Incident::Timeout { nth: self.timers.retries });
        self.tell_congestion(cx, Signal::Timeout { nth: self.timers.retries.into() });
        if self.bits.has(Bits::SYN_DATA) {
            self.note_stall(cx);
        }
        self.begin_timeout_recovery(cx);
        self.arm_rtx(cx);
        self.request(Due::DATA);
    }

    /// Chooses another flow label after total loss: it may lead over another of several paths.
    /// RFC 6438, 3-1.
    fn choose_another_path(&mut self, cx: &mut Cx<'_>) {
        if !cx.config.rehash || self.key().is_v4() {
            return;
        }
        cx.counters.rehashes += 1;
        self.bits.set(Bits::REHASHED, WRITER);
        self.cold_mut().path.choose_another();
    }

    /// The peer's window is shut (RFC 9293, section 3.8.6.1), or what it lets through is too little to be
    /// sent at once (section 3.8.6.2.1, condition 4).
    /// RFC 9293, MUST-35, MUST-36, MUST-60, SHLD-29 and SHLD-30.
    fn on_probe_timeout(&mut self, cx: &mut Cx<'_>) {
        if self.snd.flight() == 0 && !self.has_unsent() {
            return;
        }
        if self.snd.window() > 0 {
            self.end_more();
            self.force();
            return;
        }
        if self.give_up(cx) {
            return;
        }
        self.count_retry(cx);
        self.request(Due::PROBE);
        self.arm_rtx(cx);
    }

    /// One more timeout in a row.
    pub(crate) fn count_retry(&mut self, cx: &Cx<'_>) {
        if self.timers.retries == 0 && !self.is_watched() && self.state() != State::SynSent {
            let waited = self.first_wait().as_millis() as u32;
            self.timers.stalled_ms = (cx.now.as_millis() as u32).wrapping_sub(waited);
        }
        self.timers.retries = self.timers.retries.saturating_add(1);
        self.timers.backoff = self.timers.backoff.saturating_add(1);
        self.refresh_rto(cx.config);
    }

    /// Returns the timeout before the first of the timeouts in a row.
    fn first_wait(&self) -> Duration {
        let rto = self.timers.rto();
        if self.options.has_user_timeout() { rto.min(self.options.user_timeout()) } else { rto }
    }

    /// Returns true if the start of the user timeout is known before the first timeout. It is not while the peer's
    /// window is shut: then the user timeout counts from the first probe without an answer.
    fn is_watched(&self) -> bool {
        let is_known = self.state() == State::SynSent || (self.snd.flight() > 0 && self.snd.window() > 0);
        self.options.has_user_timeout() && is_known
    }

    /// Has the user timeout passed since the last progress?
    /// RFC 5482, 4.1-1.
    fn is_overdue(&self, cx: &Cx<'_>) -> bool {
        let known = self.timers.retries > 0 || self.is_watched();
        let waited = if known { self.stalled(cx) } else { self.first_wait() };
        self.options.has_user_timeout() && waited >= self.options.user_timeout()
    }

    /// R2 of RFC 9293, section 3.8.3: too many timeouts in a row. True if that was the end.
    /// RFC 9293, MUST-20, MUST-21 and SHLD-11.
    fn give_up(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.bits.has(Bits::ORPHAN) && self.yield_memory(cx) {
            return true;
        }
        if self.is_overdue(cx) {
            cx.counters.user_timeouts += 1;
        } else if self.bits.has(Bits::ORPHAN) {
            // A shut window is no reason to live for ever: `backoff` counts answered probes too.
            if self.timers.retries.max(self.timers.backoff) < cx.config.orphan_retries {
                return false;
            }
            cx.counters.orphan_timeouts += 1;
        } else if self.timers.retries < cx.config.data_retries || self.options.has_user_timeout() {
            return false;
        }
        self.fail(cx, self.silence());
        true
    }

    /// The error of a peer that is silent: what ICMP said since it was last heard, or just that.
    pub(crate) fn silence(&self) -> Error {
        self.soft_error().unwrap_or(Error::TimedOut)
    }

    /// Keepalive counts from the last segment received, so receiving need not touch the timer.
    pub(crate) fn arm_keepalive(&mut self, now: Instant) {
        let silent = (now.as_millis() as u32).wrapping_sub(self.rcv.last_ms());
        let wait = self.options.keep_idle().saturating_sub(Duration::from_millis(silent.into()));
        self.timers.idle =
            if self.bits.has(Bits::PACE_WAIT) { self.timers.idle.min(now + wait) } else { now + wait };
    }

    /// A write found no chunk: look again soon, since nothing tells.
    pub(crate) fn arm_memory_retry(&mut self, now: Instant) {
        self.timers.hasten_idle(now + MEMORY_RETRY);
    }

    fn on_idle(&mut self, cx: &mut Cx<'_>) {
        if self.bits.has(Bits::PACE_WAIT) {
            self.on_pace();
        }
        if self.state() == State::FinWait2 && self.bits.has(Bits::ORPHAN) {
            cx.counters.orphan_timeouts += 1;
            return self.finish(cx);
        }
        if self.bits.has(Bits::NO_SPACE) && self.state().may_send() && self.snd.queued() == 0 {
            if self.memory_for_writing(cx.pool) > 0 {
                self.announce_space();
            } else {
                self.arm_memory_retry(cx.now);
            }
        }
        if self.options.has(Switch::KEEPALIVE) && self.state().is_synchronized() {
            self.keepalive(cx);
        }
    }

    /// RFC 9293, section 3.8.4.
    /// RFC 9293, MAY-5, MUST-24, MUST-26, MUST-27 and MUST-29.
    fn keepalive(&mut self, cx: &mut Cx<'_>) {
        let silent =
            Duration::from_millis((cx.now.as_millis() as u32).wrapping_sub(self.rcv.last_ms()).into());
        if self.rcv.last_ms().wrapping_sub(self.timers.stalled_ms) as i32 >= 0 {
            self.keepalive.restart();
        }
        let due = self.options.keep_idle() + self.options.keep_interval() * self.keepalive.0.into();
        if silent < due {
            self.timers.hasten_idle(cx.now + (due - silent));
            return;
        }
        if self.snd.flight() > 0 || self.has_unsent() {
            // Retransmissions and probes watch over the peer already.
            self.timers.hasten_idle(cx.now + self.options.keep_idle());
            return;
        }
        let overdue = self.options.has_user_timeout() && silent >= self.options.user_timeout();
        let failed = self.keepalive.0 >= self.options.keep_count() || (overdue && self.keepalive.0 > 0);
        if failed {
            cx.counters.keepalive_failures += 1;
            self.fail(cx, self.silence());
            self.request_only(Due::RST);
            return;
        }
        self.keepalive.0 += 1;
        self.timers.stalled_ms = cx.now.as_millis() as u32;
        self.request(Due::KEEPALIVE);
        self.timers.hasten_idle(cx.now + self.options.keep_interval());
    }
}

#[cfg(test)]
mod tests;
