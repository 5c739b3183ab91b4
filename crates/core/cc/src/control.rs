//! A connection's policy, stored inline where it is built in.

use alloc::boxed::Box;
use core::fmt;

use base::{Duration, Instant};

use crate::controller::{AckSample, Controller, EcnFeedback, Needs, PathInfo, Signal, SignalInfo, Window};
use crate::{Cubic, NewReno, Tunable, TunableError};

/// A connection's policy: the built-in ones inline, so that they cost no allocation and no indirect call;
/// registered ones boxed.
// The sizes differ by design: what matters is that the largest built-in fits in one cache line.
#[allow(clippy::large_enum_variant, reason = "boxing the common variant is what this type avoids")]
pub enum Control {
    /// RFC 5681 and RFC 6582.
    NewReno(NewReno),
    /// RFC 9438.
    Cubic(Cubic),
    /// A policy that a program registered.
    Boxed(Box<dyn Controller>),
}

const _: () = assert!(size_of::<Control>() <= 80);

/// One method of whichever policy this is.
macro_rules! either {
    ($control:expr, $policy:ident => $call:expr) => {
        match $control {
            Control::NewReno($policy) => $call,
            Control::Cubic($policy) => $call,
            Control::Boxed($policy) => $call,
        }
    };
}

impl Controller for Control {
    fn name(&self) -> &'static str {
        either!(self, policy => policy.name())
    }

    fn needs(&self) -> Needs {
        either!(self, policy => policy.needs())
    }

    fn on_established(&mut self, path: &PathInfo) {
        either!(self, policy => policy.on_established(path));
    }

    fn on_sent(&mut self, now: Instant, bytes: u32, in_flight: u32) {
        either!(self, policy => policy.on_sent(now, bytes, in_flight));
    }

    fn on_ack(&mut self, ack: &AckSample) {
        either!(self, policy => policy.on_ack(ack));
    }

    #[inline]
    fn on_unlimited(&mut self, now: Instant) -> bool {
        either!(self, policy => policy.on_unlimited(now))
    }

    fn on_ecn(&mut self, feedback: &EcnFeedback) {
        either!(self, policy => policy.on_ecn(feedback));
    }

    fn wants_ect1(&self) -> bool {
        either!(self, policy => policy.wants_ect1())
    }

    fn on_congestion(&mut self, signal: Signal, info: &SignalInfo) {
        either!(self, policy => policy.on_congestion(signal, info));
    }

    fn on_recovery_end(&mut self, info: &SignalInfo) {
        either!(self, policy => policy.on_recovery_end(info));
    }

    fn on_spurious(&mut self, signal: Signal, now: Instant) {
        either!(self, policy => policy.on_spurious(signal, now));
    }

    fn on_idle_restart(&mut self, now: Instant, idle: Duration, path: &PathInfo) {
        either!(self, policy => policy.on_idle_restart(now, idle, path));
    }

    fn on_mss_change(&mut self, mss: u32) {
        either!(self, policy => policy.on_mss_change(mss));
    }

    fn window(&self) -> Window {
        either!(self, policy => policy.window())
    }

    fn tunables(&self) -> [&'static [Tunable]; 2] {
        either!(self, policy => policy.tunables())
    }

    fn tunable(&self, name: &str) -> Option<i64> {
        either!(self, policy => policy.tunable(name))
    }

    fn set_tunable(&mut self, name: &str, value: i64) -> Result<(), TunableError> {
        either!(self, policy => policy.set_tunable(name, value))
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("name", &self.name()).field("window", &self.window()).finish()
    }
}

#[cfg(test)]
mod tests;
