//! CUBIC (RFC 9438) in integers: windows in bytes, time in milliseconds.

use base::{Duration, Instant};

use crate::classical::Part;
use crate::controller::{AckSample, Controller, PathInfo, Signal, SignalInfo, Window};
use crate::reno::{Reno, WINDOW_MAX};
use crate::tunable::{Tunable, TunableError, tunables};

/// The constants that RFC 9438 changed since CUBIC first spread.
#[derive(Clone, Copy, Debug)]
struct Constants {
    /// beta_cubic: what congestion leaves (section 4.6).
    keep: Part,
    /// alpha_cubic = 3 (1 - beta) / (1 + beta), segments a window (section 4.3).
    friendly: Part,
    /// (1 + beta) / 2: the plateau that fast convergence leaves (section 4.7).
    released: Part,
}

const RFC9438: Constants = Constants { keep: (7, 10), friendly: (9, 17), released: (17, 20) };
/// FreeBSD's and Linux's of 2009, which the published experiments of that time used.
const OF_2009: Constants = Constants { keep: (8, 10), friendly: (1, 3), released: (9, 10) };

/// Beyond this distance from K, in milliseconds, the curve no longer steepens: its cube still fits in 64 bits
/// and the window has long met another limit.
const CURVE_SPAN: u32 = 1 << 18;

/// RFC 9438, with RFC 9406. At most 80 bytes.
///
/// Tunables: `fast_convergence` (0 or 1, default 1), `abe` (0 or 1, default 0) and those of [`Reno::tunables`].
///
/// ```text
///            window
///    W_max ....................__---~~~....        the curve: flat around K, steep away from it
///                         _--~  |         `probing beyond the old maximum
///    0.7 W_max ......../~       |
///                     ^         ^
///                   t = 0     t = K = cbrt((W_max - W(0)) / C)
/// ```
#[derive(Clone, Debug)]
pub struct Cubic {
    reno: Reno,
    curve: Curve,
    /// Window when the threshold was last set: where the friendly window grows at full speed again.
    cwnd_prior: u32,
    undo: Undo,
    undo_valid: bool,
    in_recovery: bool,
    own: Own,
    of_2009: bool,
    /// Is `curve.time` a date or a span? Undo keeps a span or nothing.
    clock: Clock,
}

const _: () = assert!(size_of::<Cubic>() <= 80);

/// Tunables beside those of all window-based policies.
#[derive(Clone, Copy, Debug)]
struct Own {
    fast_convergence: bool,
    abe: bool,
}

/// Part of the window that a mark leaves with ABE (RFC 8511, section 3.1).
const KEPT_AFTER_MARK: Part = (17, 20);

impl Own {
    tunables! {
        "fast_convergence": fast_convergence, 0 => 1,
            "Does a flow whose window shrinks give way further to others (RFC 9438, section 4.7)?";
        "abe": abe, 0 => 1,
            "Does a mark leave 0.85 of the window, where a loss leaves 0.7 (ABE, RFC 8511)?";
    }
}

/// One avoidance stage of the window (an epoch), and what it remembers of the last.
#[derive(Clone, Copy, Debug)]
struct Curve {
    /// Plateau, bytes; 0 when there is none to return to.
    w_max: u32,
    /// When the curve reaches the plateau, milliseconds after the stage began.
    k: u32,
    /// Running: the stage's (virtual) beginning. Paused: how long it had run. Milliseconds.
    time: u32,
    /// Window that Reno would have by now, bytes (RFC 9438, section 4.3).
    w_est: u32,
}

#[derive(Clone, Copy, Debug)]
struct Undo {
    cwnd: u32,
    ssthresh: u32,
    curve: Curve,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Clock {
    /// No stage: the next acknowledgment in avoidance begins one.
    Stopped,
    /// The sender had too little to send; that time does not count (RFC 9438, section 4.2).
    Paused,
    Running,
}

impl Cubic {
    /// The name it is registered under.
    pub const NAME: &'static str = "cubic";
    /// The name of [`of_2009`](Cubic::of_2009).
    pub const NAME_OF_2009: &'static str = "cubic-2009";

    /// A policy that waits for `on_established` to learn its path.
    pub const fn new() -> Self {
        let curve = Curve { w_max: 0, k: 0, time: 0, w_est: 0 };
        Cubic {
            reno: Reno::new(),
            curve,
            cwnd_prior: 0,
            undo: Undo { cwnd: 0, ssthresh: 0, curve },
            undo_valid: false,
            in_recovery: false,
            own: Own { fast_convergence: true, abe: false },
            of_2009: false,
            clock: Clock::Stopped,
        }
    }

    /// Returns CUBIC with the constants of 2009: beta 0.8, alpha 1/3, and 0.9 of the window as fast convergence's
    /// plateau.
    pub const fn of_2009() -> Self {
        Cubic { of_2009: true, ..Cubic::new() }
    }

    fn constants(&self) -> &'static Constants {
        if self.of_2009 { &OF_2009 } else { &RFC9438 }
    }

    fn begin(&mut self, path: &PathInfo) {
        self.reno.begin(path);
        self.curve.w_max = 0;
        self.clock = Clock::Stopped;
        self.undo_valid = false;
        self.in_recovery = false;
        self.cwnd_prior = 0;
    }

    /// Growth in avoidance for `bytes` acknowledged bytes.
    /// RFC 9438, 4.3-1 and 4.4-1.
    fn avoid(&mut self, bytes: u32, ack: &AckSample) {
        let elapsed = self.elapsed(millis(ack.now));
        if self.reno.acked_a_window(bytes) {
            let share = self.friendly_share();
            self.curve.w_est = (self.curve.w_est + share).min(WINDOW_MAX);
        }
        let mss = self.reno.mss();
        let cwnd = self.reno.cwnd;
        if self.curve.at(elapsed, mss) < self.curve.w_est {
            self.reno.grow(self.curve.w_est.saturating_sub(cwnd).min(bytes));
            return;
        }
        let rtt = u32::try_from(ack.srtt.as_millis()).unwrap_or(u32::MAX);
        let ceiling = cwnd.saturating_add(cwnd / 2);
        let target = self.curve.at(elapsed.saturating_add(rtt), mss).clamp(cwnd, ceiling);
        let step = u64::from(bytes.min(cwnd)) * u64::from(target - cwnd) / u64::from(cwnd);
        self.reno.grow(step as u32);
    }

    /// alpha_cubic segments a window until Reno's window would have regained what was lost, then one.
    /// RFC 9438, 4.3-1.
    fn friendly_share(&self) -> u32 {
        let mss = self.reno.mss();
        if self.curve.w_est >= self.cwnd_prior { mss } else { part(mss, self.constants().friendly) }
    }

    /// Milliseconds of avoidance in this stage; begins one, or resumes a paused one.
    fn elapsed(&mut self, now: u32) -> u32 {
        match self.clock {
            Clock::Running => {}
            Clock::Paused => self.curve.time = now.wrapping_sub(self.curve.time),
            Clock::Stopped => {
                self.curve.restart(now, self.reno.cwnd, self.reno.mss());
                self.reno.clear_credit();
            }
        }
        self.clock = Clock::Running;
        now.wrapping_sub(self.curve.time)
    }

    /// RFC 9438, 4.2-2.
    #[inline]
    fn pause(&mut self, now: u32) {
        if self.clock == Clock::Running {
            self.curve.time = now.wrapping_sub(self.curve.time);
            self.clock = Clock::Paused;
        }
    }

    fn save(&mut self, now: Instant) {
        self.pause(millis(now));
        let mut curve = self.curve;
        if self.clock == Clock::Stopped {
            // A stage that had not begun begins anew; there is nothing of it to keep but the plateau.
            curve.w_est = 0;
        }
        self.undo = Undo { cwnd: self.reno.cwnd, ssthresh: self.reno.ssthresh, curve };
        self.undo_valid = true;
    }

    /// Loss or ECN (RFC 9438, sections 4.6 and 4.7).
    /// RFC 9438, 4.6-1 and 4.7-1.
    fn reduce(&mut self, flight: u32, keep: Part) {
        let cwnd = self.reno.cwnd;
        let releasing = self.own.fast_convergence && cwnd < self.curve.w_max;
        self.curve.w_max = if releasing { part(cwnd, self.constants().released) } else { cwnd };
        self.cwnd_prior = cwnd;
        self.reno.reduce(flight, keep);
        self.clock = Clock::Stopped;
    }

    /// Returns the part of the window that a mark leaves. A queue that marks is short: to give way as for a loss would
    /// empty it.
    /// RFC 8511, 3-1.
    fn kept_after_mark(&self) -> Part {
        if self.own.abe { KEPT_AFTER_MARK } else { self.constants().keep }
    }

    /// RFC 9438, 4.8-1.
    fn time_out(&mut self, flight: u32, first: bool) {
        if first {
            self.cwnd_prior = self.reno.cwnd;
        }
        self.reno.collapse(flight, self.constants().keep, first, self.in_recovery);
        // Section 4.8: the next stage takes its plateau from where avoidance begins.
        self.curve.w_max = 0;
        self.clock = Clock::Stopped;
        self.in_recovery = false;
    }
}

impl Curve {
    /// A stage begins at window `cwnd`; without a plateau above it, it starts on the plateau (RFC 9438,
    /// sections 4.8 and 4.10).
    fn restart(&mut self, now: u32, cwnd: u32, mss: u32) {
        self.w_max = self.w_max.max(cwnd);
        self.k = cube_root(u64::from(self.w_max - cwnd) * 2_500_000_000 / u64::from(mss));
        self.time = now;
        self.w_est = cwnd;
    }

    /// W_cubic in bytes, `elapsed` milliseconds into the stage: W_max + C (t - K)^3 segments, C = 0.4.
    /// RFC 9438, 4.2-1.
    fn at(&self, elapsed: u32, mss: u32) -> u32 {
        let distance = u64::from(elapsed.abs_diff(self.k).min(CURVE_SPAN));
        let bytes = distance.pow(3) / 1_000_000 * u64::from(mss) / 2500;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if elapsed < self.k {
            self.w_max.saturating_sub(bytes)
        } else {
            self.w_max.saturating_add(bytes).min(WINDOW_MAX)
        }
    }
}

/// A part of `bytes`.
fn part(bytes: u32, (part, whole): Part) -> u32 {
    (u64::from(bytes) * u64::from(part) / u64::from(whole)) as u32
}

/// A clock that wraps after 49 days; only differences of it are used.
fn millis(now: Instant) -> u32 {
    now.as_millis() as u32
}

/// The integer cube root, bit by bit, of anything below 2^63: once an epoch.
fn cube_root(n: u64) -> u32 {
    (0..21).rev().fold(0u64, |root, bit| {
        let candidate = root | 1 << bit;
        if candidate.pow(3) <= n { candidate } else { root }
    }) as u32
}

impl Default for Cubic {
    fn default() -> Self {
        Cubic::new()
    }
}

impl Controller for Cubic {
    fn name(&self) -> &'static str {
        if self.of_2009 { Self::NAME_OF_2009 } else { Self::NAME }
    }

    fn on_established(&mut self, path: &PathInfo) {
        self.begin(path);
    }

    /// RFC 9438, 4.10-1.
    fn on_ack(&mut self, ack: &AckSample) {
        if !ack.window_limited {
            self.on_unlimited(ack.now);
            return;
        }
        if ack.in_recovery {
            return;
        }
        let bytes = if self.reno.in_slow_start() { self.reno.slow_start(ack) } else { ack.bytes };
        if bytes > 0 {
            self.avoid(bytes, ack);
        }
    }

    #[inline]
    fn on_unlimited(&mut self, now: Instant) -> bool {
        self.pause(millis(now));
        true
    }

    fn on_congestion(&mut self, signal: Signal, info: &SignalInfo) {
        match signal {
            Signal::Loss => {
                self.save(info.now);
                self.reduce(info.flight_size, self.constants().keep);
                self.in_recovery = true;
            }
            Signal::Ecn => {
                self.undo_valid = false;
                self.reduce(info.flight_size, self.kept_after_mark());
            }
            Signal::Timeout { nth } => {
                let first = nth <= 1;
                if first {
                    self.save(info.now);
                }
                self.time_out(info.flight_size, first);
            }
        }
    }

    fn on_recovery_end(&mut self, info: &SignalInfo) {
        if self.in_recovery {
            self.in_recovery = false;
            if !info.metered {
                self.reno.leave_recovery(info.flight_size);
            }
        }
        self.reno.repaired();
    }

    /// RFC 9438, section 4.9. The stage goes on from where it stood; the time spent on the mistake is not its.
    /// RFC 9438, 4.9-1.
    fn on_spurious(&mut self, _signal: Signal, _now: Instant) {
        if !self.undo_valid {
            return;
        }
        self.undo_valid = false;
        self.in_recovery = false;
        self.reno.restore(self.undo.cwnd, self.undo.ssthresh);
        self.curve = self.undo.curve;
        self.cwnd_prior = self.curve.w_max;
        self.clock = if self.curve.w_est == 0 { Clock::Stopped } else { Clock::Paused };
    }

    fn on_idle_restart(&mut self, _now: Instant, _idle: Duration, path: &PathInfo) {
        self.reno.idle_restart(path);
        self.clock = Clock::Stopped;
    }

    fn on_mss_change(&mut self, mss: u32) {
        self.reno.mss_change(mss);
        // The curve counts segments: a new stage begins in the new unit, towards the same plateau.
        self.clock = Clock::Stopped;
        // What an undo would bring back was counted in other segments.
        self.undo_valid = false;
    }

    fn window(&self) -> Window {
        Window { cwnd: self.reno.cwnd, ssthresh: self.reno.ssthresh, pacing: None }
    }

    fn tunables(&self) -> [&'static [Tunable]; 2] {
        [self.own.tunables(), self.reno.tunables()]
    }

    fn tunable(&self, name: &str) -> Option<i64> {
        self.own.tunable(name).or_else(|| self.reno.tunable(name))
    }

    fn set_tunable(&mut self, name: &str, value: i64) -> Result<(), TunableError> {
        match self.own.set_tunable(name, value) {
            Err(TunableError::Unknown) => self.reno.set_tunable(name, value),
            done => done,
        }
    }
}

#[cfg(test)]
mod tests;
