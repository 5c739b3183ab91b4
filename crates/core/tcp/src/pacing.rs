//! Pacing: departures spread over the round trip instead of sent in bursts as acknowledgments come, so that a small
//! buffer on the way is enough. A connection is paced if its policy asks for it, its application set
//! SO_MAX_PACING_RATE, or the setting `pacing` is on. In slow start it is paced by default (`pace_slow_start`) if the
//! round trip is long, while more waits than the window lets go, and until the pace lets a whole super-segment go in a
//! quarter of a millisecond: an answer that the window has room for, or soon will, leaves at once, and a fast path
//! needs no timers.
//!
//! ```text
//!  bytes
//!    │                        ┌──── a quantum: what a millisecond lets go, two segments at least, so that
//!    │                   ┌────┘     super-segments stay worth their name
//!    │              ┌────┘          the corners lie on a line of slope `rate`
//!    │         ┌────┘
//!    │─────────┘ the initial window leaves at once (RFC 6928), and counts
//!    └──────────────────────── time
//! ```
//! In any time `t` no more leaves than `rate * t` and a quantum and a half; where the rate changes meanwhile, the
//! greatest counts. A tail loss probe, the first retransmission after a timeout and a window probe never wait: they
//! keep the connection alive. They count all the same.
//!
//! Paced or not, super-segments on long paths hold no more than such a quantum (`autosize`). A receiver that counts
//! packets, as Linux does to open its window, would otherwise see few of them and open slowly.

pub(crate) mod quantum;

use alloc::boxed::Box;

use base::Rate;
use cc::{Controller, Window};

use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::pacing::quantum::{Pacing, millisecond, quantum};
use crate::{Config, Cx};

crate::bits::writer!(PACED, PACE_WAIT, AUTOSIZED);

/// Largest super-segment there is.
const LARGEST: u64 = 65_536;

/// Shortest round trip that counts as long, microseconds: about two quanta.
const LONG_PATH_US: u32 = 2_000;
/// From this rate on, bytes a second, pacing by default ends: a super-segment leaves in a quarter of a millisecond.
const FAST: u64 = LARGEST * 4_000;

impl Connection {
    /// Decides whether departures are paced and deliveries measured, when the policy, the options or the round trip
    /// change.
    #[inline(always)]
    pub(crate) fn refresh_pacing(&mut self, cx: &Cx<'_>) {
        let needs = self.control.needs();
        let asked = cx.config.pacing || needs.pacing || self.pace_cap().is_some();
        let watched = asked || needs.rates || self.bits.has(Bits::PACED | Bits::SAMPLED);
        if watched || self.timers.rtt().min_micros() >= LONG_PATH_US {
            self.decide_pacing(cx, asked);
        }
    }

    #[cold]
    fn decide_pacing(&mut self, cx: &Cx<'_>, asked: bool) {
        let needs = self.control.needs();
        let starting = !asked && self.paces_slow_start(cx.config);
        if (asked || starting) != self.bits.has(Bits::PACED) {
            self.switch_pacing(cx, asked || starting);
        }
        if self.bits.has(Bits::PACED) {
            self.pacing_mut().starting = starting;
        }
        if needs.rates != self.bits.has(Bits::SAMPLED) {
            self.switch_sampling(needs.rates);
        }
    }

    /// The round trip was measured: a long path has its departures paced in slow start, and super-segments bounded.
    #[inline(always)]
    pub(crate) fn heed_round_trip(&mut self, cx: &Cx<'_>) {
        if self.timers.rtt().min_micros() >= LONG_PATH_US || self.bits.has(Bits::AUTOSIZED) {
            self.judge_path(cx);
        }
    }

    #[cold]
    fn judge_path(&mut self, cx: &Cx<'_>) {
        let long = self.timers.rtt().min_micros() >= LONG_PATH_US;
        self.bits.put(Bits::AUTOSIZED, long && cx.config.autosize, WRITER);
        if self.state().is_synchronized() {
            self.refresh_pacing(cx);
        }
    }

    /// Does slow start want a pace on its own? It begins once more waits than the window lets go, so a short answer
    /// costs nothing. A repair goes by acknowledgments alone.
    fn paces_slow_start(&self, config: &Config) -> bool {
        if self.timers.rtt().min_micros() < LONG_PATH_US || !config.pace_slow_start {
            return false;
        }
        let window = self.control.window();
        window.cwnd < window.ssthresh
            && !self.ends_soon(&window)
            && !self.recovery.is_active()
            && self.snd.duplicates() == 0
            && (self.bits.has(Bits::PACED) || self.snd.unsent() > self.congestion_room())
            && self.window_rate(config, &window).is_some_and(|rate| rate.bytes_per_sec() < FAST)
    }

    /// Does all that was written leave within two round trips of a small window? Spread, its end would wait for half of
    /// one. A send buffer that is kept full holds more.
    fn ends_soon(&self, window: &Window) -> bool {
        u64::from(window.cwnd) <= LARGEST / 2 && self.snd.queued() <= 3 * window.cwnd
    }

    #[cold]
    fn switch_pacing(&mut self, cx: &Cx<'_>, on: bool) {
        self.bits.put(Bits::PACED, on, WRITER);
        if !on {
            return self.on_pace();
        }
        let first = self.initial_window(cx);
        let sent = self.snd.data_segments() > 0;
        let pacing = self.pacing_mut();
        (pacing.next, pacing.left) = (cx.now, if sent { 0 } else { first });
    }

    fn pacing_mut(&mut self) -> &mut Pacing {
        self.cold_mut().pacing.0.get_or_insert_with(|| Box::new(Pacing::new(None)))
    }

    /// SO_MAX_PACING_RATE.
    pub(crate) fn pace_cap(&self) -> Option<Rate> {
        self.cold()?.pacing.0.as_ref()?.cap
    }

    /// Changes it; `None` is no limit.
    pub(crate) fn set_pace_cap(&mut self, cap: Option<Rate>) {
        if cap != self.pace_cap() {
            self.pacing_mut().cap = cap;
        }
    }

    /// The rate that the policy gives, or the window in a round trip and a little more, so that the window can fill; no
    /// more than the application allows. `None` before the round trip is known.
    pub fn pacing_rate(&self, config: &Config) -> Option<Rate> {
        let window = self.control.window();
        let own = window.pacing.or_else(|| self.window_rate(config, &window));
        let cap = self.pace_cap().filter(|&cap| cap > Rate::default());
        match (own, cap) {
            (Some(own), Some(cap)) => Some(own.min(cap)),
            (own, cap) => own.or(cap),
        }
    }

    /// The window, or what is in flight beyond it, in a round trip; twice that where slow start may double it.
    fn window_rate(&self, config: &Config, window: &Window) -> Option<Rate> {
        let rtt = u64::from(self.timers.rtt().srtt_micros()?.max(1));
        let starting = window.cwnd < window.ssthresh / 2;
        let percent = if starting { config.pacing_ss_ratio } else { config.pacing_ca_ratio };
        let bytes = u64::from(window.cwnd.max(self.snd.flight()));
        Some(Rate::from_bytes_per_sec(bytes * u64::from(percent) * 10_000 / rtt))
    }

    /// Bytes that the pace lets go at once; without any, the timer is set to when it does.
    #[cold]
    pub(crate) fn paced_room(&mut self, cx: &mut Cx<'_>, mss: u32) -> Option<u32> {
        let Some(rate) = self.pacing_rate(cx.config) else { return Some(u32::MAX) };
        if self.pacing_mut().starting {
            if !self.paces_slow_start(cx.config) {
                self.switch_pacing(cx, false);
                return Some(u32::MAX);
            }
            if self.snd.unsent() <= self.congestion_room() {
                self.bits.clear(Bits::PACE_WAIT, WRITER);
                return Some(u32::MAX);
            }
        }
        let quantum = quantum(rate, mss, cx.config);
        match self.pacing_mut().room(cx.now, mss, quantum) {
            Ok(room) => {
                self.bits.clear(Bits::PACE_WAIT, WRITER);
                Some(room)
            }
            Err(at) => {
                cx.counters.paced += u64::from(!self.bits.has(Bits::PACE_WAIT));
                self.bits.set(Bits::PACE_WAIT, WRITER);
                self.timers.hasten_idle(at);
                // Not the window held it back, unless it was full in this round trip.
                let (most, cwnd) =
                    (self.snd.flight().max(self.snd.round_flight()), self.control.window().cwnd);
                self.note_cwnd_limited(most.saturating_add(mss) > cwnd);
                None
            }
        }
    }

    /// `bytes` of a paced connection leave, old or new.
    #[cold]
    pub(crate) fn note_paced(&mut self, cx: &Cx<'_>, bytes: u32) {
        if let Some(rate) = self.pacing_rate(cx.config).filter(|_| bytes > 0) {
            self.pacing_mut().on_sent(cx.now, bytes, rate);
        }
    }

    /// The timer that pacing shares has come, or nothing is paced any more. When the next quantum may leave is looked
    /// at anew.
    #[cold]
    pub(crate) fn on_pace(&mut self) {
        self.bits.clear(Bits::PACE_WAIT, WRITER);
        self.request(Due::DATA);
    }

    /// Bytes that may leave as one super-segment where there is a bound: what says that the window was reduced must
    /// not be said of many segments at once (RFC 3168, section 6.1.2), and each segment has a signature of its own.
    /// `None`: nothing may leave yet.
    #[cold]
    pub(crate) fn bounded_burst(&mut self, cx: &mut Cx<'_>, mss: u32, most: u32) -> Option<u32> {
        let mut most = most;
        if self.bits.has(Bits::PACED) {
            most = most.min(self.paced_room(cx, mss)?);
        }
        if self.bits.has(Bits::REDUCED | Bits::SIGNED) || self.shows_cwr() {
            return Some(mss);
        }
        Some(if self.bits.has(Bits::BURSTS | Bits::AUTOSIZED) {
            self.measured_burst(cx, mss, self.within_piece(most))
        } else {
            most
        })
    }

    /// No more than half the window, nor than what the pace of the round trip lets go at once. The least there is in
    /// slow start while the peer's window is opening and not far ahead: it may open by the packet.
    fn measured_burst(&self, cx: &Cx<'_>, mss: u32, most: u32) -> u32 {
        let window = self.control.window();
        let whole = |bytes: u32| (bytes - bytes % mss).max(mss);
        let least = u32::from(cx.config.min_burst) * mss;
        // A window that does not open any more has no use for packets to count.
        let opens = self.bits.has(Bits::OPENING) && self.snd.window() / 2 < window.cwnd;
        let narrow = opens && window.cwnd < window.ssthresh;
        let paced =
            if narrow && self.bits.has(Bits::AUTOSIZED) { Some(least) } else { self.autosized(cx.config) };
        let paced = paced.unwrap_or(most).max(least);
        most.min(whole(paced)).min(whole(window.cwnd / 2))
    }

    /// Returns the bytes that leave in a millisecond; more where the path is short (Linux's tcp_tso_autosize).
    fn autosized(&self, config: &Config) -> Option<u32> {
        let rate = self.pacing_rate(config)?;
        let short = self.timers.rtt().min_rtt().as_micros() as u64 >> 9;
        let extra = if short < 32 { LARGEST >> short } else { 0 };
        Some((millisecond(rate) + extra).min(LARGEST) as u32)
    }
}

#[cfg(test)]
mod tests;
