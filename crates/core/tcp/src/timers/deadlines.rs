//! Dates that a connection waits for.

use alloc::boxed::Box;

use base::{Duration, Instant};

use crate::Times;
use crate::timers::rtt::Rtt;

/// When what is due, and what the retransmission timeout follows. [`Instant::FAR_FUTURE`] means not armed. Dates may
/// lie too early: what fires looks again.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Timers {
    /// Retransmission while something is in flight; otherwise the zero-window probe or the override of silly
    /// window avoidance.
    pub(super) rtx: Instant,
    /// The delayed acknowledgment.
    pub(super) delack: Instant,
    /// Keepalive, FIN-WAIT-2 of an orphan, another look at an exhausted pool, or the pace lets more go.
    pub(super) idle: Instant,
    pub(super) rtt: Rtt,
    /// Retransmission timeout, backoff included, microseconds.
    pub(super) rto_us: u32,
    /// When our SYN left first, the data now being retransmitted last made progress, or the last keepalive probe left;
    /// milliseconds.
    pub(super) stalled_ms: u32,
    /// The retransmission timeout's own date while `rtx` stands for an earlier one (`Bits::TAIL_PROBE`,
    /// `Bits::REORDERING`).
    pub(super) rto_at: Tick,
    /// Timeouts in a row without any progress, or probes without an answer.
    pub(super) retries: u8,
    /// Doublings of the retransmission timeout.
    pub(super) backoff: u8,
}

impl Timers {
    /// Nothing is armed; others found that a timeout of this many microseconds is right (0: the settings know).
    #[inline(always)]
    pub(crate) fn new(rto_us: u32) -> Timers {
        Timers {
            rtx: Instant::FAR_FUTURE,
            delack: Instant::FAR_FUTURE,
            idle: Instant::FAR_FUTURE,
            rtt: Rtt::told(rto_us),
            rto_us: 0,
            stalled_ms: 0,
            rto_at: Tick::default(),
            retries: 0,
            backoff: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// The retransmission timeout, backoff included, microseconds.
    #[inline(always)]
    pub(crate) fn rto_us(&self) -> u32 {
        self.rto_us
    }

    /// The retransmission timeout, backoff included.
    pub(crate) fn rto(&self) -> Duration {
        Duration::from_micros(self.rto_us.into())
    }

    /// Timeouts in a row without any progress, or probes without an answer.
    #[inline(always)]
    pub(crate) fn retries(&self) -> u8 {
        self.retries
    }

    /// Doublings of the retransmission timeout.
    #[inline(always)]
    pub(crate) fn backoff(&self) -> u8 {
        self.backoff
    }

    /// A round trip was measured, which ends the backoff (RFC 6298, section 5).
    #[inline(always)]
    pub(crate) fn sample(&mut self, micros: u32, now: Instant) {
        self.rtt.sample(micros, now);
        self.backoff = 0;
    }

    /// As `sample`, for one of about `samples` in this round trip.
    #[inline(always)]
    pub(crate) fn sample_of(&mut self, rtt: Duration, samples: u32, now: Instant) {
        self.rtt.sample_of(rtt, samples, now);
        self.backoff = 0;
    }

    /// The peer answers: what was in flight made progress, or a probe.
    #[inline(always)]
    pub(crate) fn answered(&mut self) {
        self.retries = 0;
    }

    /// Timeouts are not doubled any more.
    pub(crate) fn end_backoff(&mut self) {
        self.backoff = 0;
    }

    /// Our SYN leaves for the first time.
    #[inline(always)]
    pub(crate) fn note_opening(&mut self, now: Instant) {
        self.stalled_ms = now.as_millis() as u32;
    }

    #[inline(always)]
    pub(crate) fn is_rtx_armed(&self) -> bool {
        self.rtx != Instant::FAR_FUTURE
    }

    #[inline(always)]
    pub(crate) fn is_rtx_due(&self, now: Instant) -> bool {
        self.rtx <= now
    }

    #[inline(always)]
    pub(crate) fn stop_rtx(&mut self) {
        self.rtx = Instant::FAR_FUTURE;
    }

    pub(crate) fn set_rtx(&mut self, at: Instant) {
        self.rtx = at;
    }

    /// Lets the timeout under way last for `whole` since it began.
    pub(crate) fn prolong_rtx(&mut self, whole: Duration) {
        let begun = self.rtx.as_nanos().saturating_sub(u64::from(self.rto_us) * 1_000);
        self.rtx = Instant::from_nanos(begun) + whole;
    }

    /// The timer stands for something due `at`, before the retransmission timeout, which is due at `deadline`.
    #[inline(always)]
    pub(crate) fn set_rtx_before(&mut self, at: Instant, deadline: Instant) {
        self.rto_at = Tick::at(deadline);
        self.rtx = at;
    }

    #[inline(always)]
    pub(crate) fn is_delack_armed(&self) -> bool {
        self.delack != Instant::FAR_FUTURE
    }

    pub(crate) fn is_delack_due(&self, now: Instant) -> bool {
        self.delack <= now
    }

    #[inline(always)]
    pub(crate) fn set_delack(&mut self, at: Instant) {
        self.delack = at;
    }

    #[inline(always)]
    pub(crate) fn stop_delack(&mut self) {
        self.delack = Instant::FAR_FUTURE;
    }

    pub(crate) fn is_idle_due(&self, now: Instant) -> bool {
        self.idle <= now
    }

    pub(crate) fn set_idle(&mut self, at: Instant) {
        self.idle = at;
    }

    /// Something else waits until `at`.
    pub(crate) fn hasten_idle(&mut self, at: Instant) {
        self.idle = self.idle.min(at);
    }

    /// Nothing is armed any more.
    pub(crate) fn stop(&mut self) {
        (self.rtx, self.delack, self.idle) = (Instant::FAR_FUTURE, Instant::FAR_FUTURE, Instant::FAR_FUTURE);
    }
}

/// Keepalive probes in a row without an answer.
#[derive(Default, Debug)]
pub(crate) struct Keepalive(pub(super) u8);

impl Keepalive {
    pub(crate) fn unanswered(&self) -> u8 {
        self.0
    }

    pub(crate) fn restart(&mut self) {
        self.0 = 0;
    }
}

/// A date to within 1.05 ms, in two bytes, rounded up: it can be told as long as it lies at most [`Tick::REACH`] after
/// a date that is known.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Tick(u16);

impl Tick {
    pub(super) const SHIFT: u32 = 20;
    /// How far ahead a date may lie.
    pub(crate) const REACH: Duration = Duration::from_secs(60);

    pub(super) const fn ceil(at: Instant) -> u64 {
        (at.as_nanos() + (1 << Tick::SHIFT) - 1) >> Tick::SHIFT
    }

    pub(super) const fn at(date: Instant) -> Tick {
        Tick(Tick::ceil(date) as u16)
    }

    /// Returns the first such date that does not lie before `known`.
    pub(super) fn following(self, known: Instant) -> Instant {
        let from = Tick::ceil(known);
        let ahead = u64::from(self.0.wrapping_sub(from as u16));
        Instant::from_nanos((from + ahead) << Tick::SHIFT)
    }
}

const _: () = assert!(Tick::REACH.as_nanos() < 1 << (16 + Tick::SHIFT));

/// Returns the date `micros` microseconds after `now`.
#[inline(always)]
pub(super) fn after(now: Instant, micros: u32) -> Instant {
    Instant::from_nanos(now.as_nanos().saturating_add(u64::from(micros) * 1_000))
}

/// Times of its own, if `Switch::OWN_TIMES`.
#[derive(Default, Debug)]
pub(crate) struct OwnTimes(pub(super) Option<Box<Times>>);
