//! NewReno: RFC 5681's additive increase and halving, with RFC 6582's single reduction an episode. The
//! connection finds and repairs losses (RFC 6675); its pipe against this window decides what may be sent.

use base::{Duration, Instant};

use crate::controller::{AckSample, Controller, PathInfo, Signal, SignalInfo, TunableError, Window};
use crate::reno::Reno;

/// Half of what was in flight.
const KEEP: (u32, u32) = (1, 2);

/// RFC 5681 and RFC 6582, with RFC 9406. 40 octets.
///
/// Tunables: `abc_limit`, the L of RFC 3465 (1 to 255, default 2),
/// and `hystart`, whether the first slow start watches the round-trip time (RFC 9406; 0 or 1, default 1).
#[derive(Clone, Debug)]
pub struct NewReno {
    reno: Reno,
    in_recovery: bool,
    undo: Option<Undo>,
}

#[derive(Clone, Copy, Debug)]
struct Undo {
    cwnd: u32,
    ssthresh: u32,
}

impl NewReno {
    /// The name it is registered under.
    pub const NAME: &'static str = "newreno";

    /// A policy that waits for `on_established` to learn its path.
    pub const fn new() -> Self {
        NewReno { reno: Reno::new(), in_recovery: false, undo: None }
    }

    fn save(&mut self) {
        self.undo = Some(Undo { cwnd: self.reno.cwnd, ssthresh: self.reno.ssthresh });
    }
}

impl Default for NewReno {
    fn default() -> Self {
        NewReno::new()
    }
}

impl Controller for NewReno {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_established(&mut self, path: &PathInfo) {
        self.reno.begin(path);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        if ack.in_recovery || !ack.window_limited {
            return;
        }
        let bytes = if self.reno.in_slow_start() { self.reno.slow_start(ack) } else { ack.bytes };
        if bytes > 0 && self.reno.acked_a_window(bytes) {
            self.reno.grow(self.reno.mss());
        }
    }

    fn on_congestion(&mut self, signal: Signal, info: &SignalInfo) {
        match signal {
            Signal::Loss => {
                self.save();
                self.reno.reduce(info.flight_size, KEEP);
                self.in_recovery = true;
            }
            Signal::Ecn => {
                self.undo = None;
                self.reno.reduce(info.flight_size, KEEP);
            }
            Signal::Timeout { nth } => {
                let first = nth <= 1;
                if first {
                    self.save();
                }
                self.reno.collapse(info.flight_size, KEEP, first, self.in_recovery);
                self.in_recovery = false;
            }
        }
    }

    /// RFC 9937, 6-6.
    fn on_recovery_end(&mut self, info: &SignalInfo) {
        if self.in_recovery {
            self.in_recovery = false;
            if !info.metered {
                self.reno.leave_recovery(info.flight_size);
            }
        }
        self.reno.repaired();
    }

    fn on_spurious(&mut self, _signal: Signal, _now: Instant) {
        if let Some(undo) = self.undo.take() {
            self.reno.restore(undo.cwnd, undo.ssthresh);
            self.in_recovery = false;
        }
    }

    fn on_idle_restart(&mut self, _now: Instant, _idle: Duration, path: &PathInfo) {
        self.reno.idle_restart(path);
    }

    fn on_mss_change(&mut self, mss: u32) {
        self.reno.mss_change(mss);
    }

    fn window(&self) -> Window {
        Window { cwnd: self.reno.cwnd, ssthresh: self.reno.ssthresh, pacing: None }
    }

    fn set_tunable(&mut self, name: &str, value: i64) -> Result<(), TunableError> {
        self.reno.set_tunable(name, value)
    }

    fn recycle(&mut self, path: &PathInfo) {
        self.reno.begin(path);
        self.in_recovery = false;
        self.undo = None;
    }
}

#[cfg(test)]
mod tests;
