//! Common parts of the policies' tests: one path, and events on it in segments.

use base::{Duration, Instant};

use crate::{AckSample, Controller, HyStartLimits, PathInfo, Signal, SignalInfo};

pub(crate) const MSS: u32 = 1000;

/// A policy on a path with an MSS of [`MSS`]; windows are told in segments, time in milliseconds.
pub(crate) struct Lab<C> {
    pub(crate) policy: C,
    pub(crate) now: u64,
    pub(crate) rtt: u64,
    /// The smallest round-trip time ever seen, if this path was once faster than now.
    pub(crate) least: u64,
    /// Losses come after a mark of the same window.
    pub(crate) after_mark: bool,
    pub(crate) hystart: &'static HyStartLimits,
}

impl<C: Controller> Lab<C> {
    pub(crate) fn new(mut policy: C, initial: u32, ssthresh: Option<u32>) -> Self {
        policy.on_established(&path(initial, ssthresh));
        Lab {
            policy,
            now: 1000,
            rtt: 100,
            least: u64::MAX,
            after_mark: false,
            hystart: &HyStartLimits::STANDARD,
        }
    }

    pub(crate) fn cwnd(&self) -> f64 {
        f64::from(self.policy.window().cwnd) / f64::from(MSS)
    }

    pub(crate) fn ssthresh(&self) -> f64 {
        f64::from(self.policy.window().ssthresh) / f64::from(MSS)
    }

    pub(crate) fn sample(&self, bytes: u32) -> AckSample<'static> {
        let rtt = Duration::from_millis(self.rtt);
        AckSample {
            now: Instant::from_millis(self.now),
            bytes,
            sacked: 0,
            segments: 1,
            in_flight: self.policy.window().cwnd,
            rtt: Some(rtt),
            srtt: rtt,
            min_rtt: Duration::from_millis(self.rtt.min(self.least)),
            rate: None,
            window_limited: true,
            in_recovery: false,
            paced: false,
            hystart: self.hystart,
        }
    }

    /// Now, and the round trip, in seconds.
    pub(crate) fn seconds(&self) -> (f64, f64) {
        (self.now as f64 / 1000.0, self.rtt as f64 / 1000.0)
    }

    pub(crate) fn ack(&mut self, bytes: u32) {
        let sample = self.sample(bytes);
        self.policy.on_ack(&sample);
    }

    /// A round trip in which the whole window is acknowledged, two segments an acknowledgment.
    pub(crate) fn round(&mut self) {
        self.round_with(|_| {});
    }

    /// As `round`, with a callback after each acknowledgment.
    pub(crate) fn round_with(&mut self, mut each: impl FnMut(&Self)) {
        let acks = (self.policy.window().cwnd / (2 * MSS)).max(1);
        for i in 1..=u64::from(acks) {
            let then = self.now;
            self.now = then + self.rtt * i / u64::from(acks);
            self.ack(2 * MSS);
            each(self);
            self.now = then;
        }
        self.now += self.rtt;
    }

    pub(crate) fn congest(&mut self, signal: Signal, flight: u32) {
        let info = self.info(flight);
        self.policy.on_congestion(signal, &info);
    }

    pub(crate) fn recovered(&mut self, flight: u32) {
        let info = self.info(flight);
        self.policy.on_recovery_end(&info);
    }

    /// One loss with a full window in flight, recovered at once.
    pub(crate) fn lose(&mut self) {
        let flight = self.policy.window().cwnd / MSS;
        self.congest(Signal::Loss, flight);
        self.recovered(flight);
    }

    pub(crate) fn info(&self, flight: u32) -> SignalInfo {
        SignalInfo {
            now: Instant::from_millis(self.now),
            flight_size: flight * MSS,
            mss: MSS,
            metered: false,
            after_mark: self.after_mark,
        }
    }
}

pub(crate) fn path(initial: u32, ssthresh: Option<u32>) -> PathInfo {
    PathInfo { mss: MSS, srtt: None, initial_window: initial * MSS, ssthresh: ssthresh.map(|s| s * MSS) }
}
