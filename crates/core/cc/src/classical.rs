//! The life that window-based policies share: slow start, reduce once an episode, recover, undo, resume. What is
//! left to each is its [`Law`]: how it grows in avoidance and how much it keeps.

use core::fmt;

use base::{Duration, Instant};

use crate::controller::{AckSample, Controller, EcnFeedback, Needs, PathInfo, Signal, SignalInfo, Window};
use crate::reno::Reno;
use crate::tunable::{Tunable, TunableError};

/// A part of a whole, such as (7, 10).
pub type Part = (u32, u32);

/// Half of what was in flight: RFC 5681, equation 4.
pub const HALF: Part = (1, 2);

/// The part in which one window-based policy differs from another. [`Classical`] makes a [`Controller`] of it.
///
/// ```
/// use cc::{AckSample, Classical, Controller, Law, Reno};
///
/// /// Two segments a round trip where Reno adds one.
/// #[derive(Clone, Debug, Default)]
/// struct Twice;
///
/// impl Law for Twice {
///     const NAME: &'static str = "twice";
///     fn avoid(&mut self, reno: &mut Reno, bytes: u32, ack: &AckSample) {
///         reno.add_per_window(2 * Reno::ONE, bytes, ack);
///     }
/// }
///
/// assert_eq!(Classical::<Twice>::new().name(), "twice");
/// ```
pub trait Law: Default + Send + fmt::Debug {
    /// The name the policy is registered under.
    const NAME: &'static str;
    /// Does it count marks, also where [`Needs::echoes`] is how they are told?
    const COUNTS_MARKS: bool = false;
    /// Does it answer marks as RFC 9331 asks, in proportion to them ([`Controller::wants_ect1`])?
    const SCALABLE: bool = false;

    /// How many flows it stands for: the window begins with a segment for each at least, and a timeout leaves as
    /// many, with a threshold of two for each.
    fn flows(&self) -> u32 {
        1
    }

    /// Are departures to be spread over the round trip ([`Needs::pacing`])?
    fn wants_pacing(&self) -> bool {
        false
    }

    /// A connection begins (again); tunables stay.
    fn begin(&mut self, path: &PathInfo) {
        let _ = path;
    }

    /// Does it answer a loss of the window of data that a mark has reduced already ([`Needs::losses_after_marks`])?
    /// Then [`keep`](Law::keep) says how much of the reduced window is left.
    fn answers_losses_after_marks(&self) -> bool {
        false
    }

    /// Every acknowledgment, before the window grows for it, also in recovery and when the window was not filled:
    /// what is measured is measured here. A policy that yields to delay may take from the window.
    fn observe(&mut self, reno: &mut Reno, ack: &AckSample) {
        let _ = (reno, ack);
    }

    /// Takes the ECN feedback of an acknowledgment, before any other call for it ([`Controller::on_ecn`]).
    fn marks(&mut self, feedback: &EcnFeedback) {
        let _ = feedback;
    }

    /// Growth in avoidance for `bytes` acknowledged bytes of a filled window: Reno's, unless said otherwise.
    fn avoid(&mut self, reno: &mut Reno, bytes: u32, ack: &AckSample) {
        reno.add_per_window(Reno::ONE, bytes, ack);
    }

    /// Growth while a loss is repaired, for `delivered` bytes that newly are known to have arrived: none, but for
    /// laws of several flows, of which only one has a loss to repair.
    fn repair(&mut self, reno: &mut Reno, delivered: u32, ack: &AckSample) {
        let _ = (reno, delivered, ack);
    }

    /// Congestion: how much of what is in flight is kept. `reno` still has the old window.
    fn keep(&mut self, signal: Signal, info: &SignalInfo, reno: &Reno) -> Part {
        let _ = (signal, info, reno);
        HALF
    }

    /// Everything that was outstanding when congestion was met has arrived.
    fn recovered(&mut self, info: &SignalInfo) {
        let _ = info;
    }

    /// The last reduction was a mistake, and the window is back: so is what else went with it.
    fn undo(&mut self) {}

    /// Returns tunables beside those of [`Reno::tunables`], which all policies of this kind have.
    fn tunables(&self) -> &'static [Tunable] {
        &[]
    }

    /// The value of one of the policy's own tunables.
    fn tunable(&self, name: &str) -> Option<i64> {
        let _ = name;
        None
    }

    /// Changes one of the policy's own tunables.
    fn set_tunable(&mut self, name: &str, value: i64) -> Result<(), TunableError> {
        let _ = (name, value);
        Err(TunableError::Unknown)
    }
}

/// A [`Law`] with the life around it.
#[derive(Clone, Debug, Default)]
pub struct Classical<L> {
    reno: Reno,
    in_recovery: bool,
    undo: Option<Undo>,
    law: L,
}

#[derive(Clone, Copy, Debug)]
struct Undo {
    cwnd: u32,
    ssthresh: u32,
}

impl<L: Law> Classical<L> {
    /// The name it is registered under.
    pub const NAME: &'static str = L::NAME;

    /// A policy that waits for `on_established` to learn its path.
    pub fn new() -> Self {
        Classical::default()
    }

    fn begin(&mut self, path: &PathInfo) {
        self.reno.begin(&self.with_room(path));
        self.in_recovery = false;
        self.undo = None;
        self.law.begin(path);
    }

    /// The first window has a segment for each flow.
    fn with_room(&self, path: &PathInfo) -> PathInfo {
        let least = self.law.flows().saturating_mul(path.mss);
        PathInfo { initial_window: path.initial_window.max(least), ..*path }
    }

    fn save(&mut self) {
        self.undo = Some(Undo { cwnd: self.reno.cwnd, ssthresh: self.reno.ssthresh });
    }

    /// For tests: the law, to look into.
    #[cfg(test)]
    pub(crate) fn law(&self) -> &L {
        &self.law
    }
}

impl<L: Law> Controller for Classical<L> {
    fn name(&self) -> &'static str {
        L::NAME
    }

    fn needs(&self) -> Needs {
        Needs {
            pacing: self.law.wants_pacing(),
            echoes: L::COUNTS_MARKS,
            losses_after_marks: self.law.answers_losses_after_marks(),
            ..Needs::default()
        }
    }

    fn on_established(&mut self, path: &PathInfo) {
        self.begin(path);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.law.observe(&mut self.reno, ack);
        if !ack.window_limited {
            return;
        }
        if ack.in_recovery {
            return self.law.repair(&mut self.reno, ack.bytes.max(ack.sacked), ack);
        }
        let bytes = if self.reno.in_slow_start() { self.reno.slow_start(ack) } else { ack.bytes };
        if bytes > 0 {
            self.law.avoid(&mut self.reno, bytes, ack);
        }
    }

    fn on_ecn(&mut self, feedback: &EcnFeedback) {
        self.law.marks(feedback);
    }

    fn wants_ect1(&self) -> bool {
        L::SCALABLE
    }

    fn on_congestion(&mut self, signal: Signal, info: &SignalInfo) {
        let keep = self.law.keep(signal, info, &self.reno);
        match signal {
            Signal::Loss => {
                self.save();
                let whole = if info.after_mark { self.reno.cwnd } else { info.flight_size };
                self.reno.reduce(whole, keep);
                self.in_recovery = true;
            }
            Signal::Ecn => {
                self.undo = None;
                // What is paced is seldom all in flight, and small reductions must not become large by that.
                let whole = if L::SCALABLE { self.reno.cwnd } else { info.flight_size };
                self.reno.reduce(whole, keep);
            }
            Signal::Timeout { nth } => {
                let first = nth <= 1;
                if first {
                    self.save();
                }
                let before = self.reno.cwnd;
                self.reno.collapse(info.flight_size, keep, first, self.in_recovery);
                self.reno.spare(self.law.flows(), before, first);
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
        self.law.recovered(info);
        self.reno.repaired();
    }

    fn on_spurious(&mut self, _signal: Signal, _now: Instant) {
        if let Some(undo) = self.undo.take() {
            self.reno.restore(undo.cwnd, undo.ssthresh);
            self.in_recovery = false;
            self.law.undo();
        }
    }

    fn on_idle_restart(&mut self, _now: Instant, _idle: Duration, path: &PathInfo) {
        self.reno.idle_restart(&self.with_room(path));
    }

    /// RFC 5681, 3.1-13.
    fn on_mss_change(&mut self, mss: u32) {
        self.reno.mss_change(mss);
        // What an undo would bring back was counted in other segments.
        self.undo = None;
    }

    fn window(&self) -> Window {
        Window { cwnd: self.reno.cwnd, ssthresh: self.reno.ssthresh, pacing: None }
    }

    fn tunables(&self) -> [&'static [Tunable]; 2] {
        [self.law.tunables(), self.reno.tunables()]
    }

    fn tunable(&self, name: &str) -> Option<i64> {
        self.law.tunable(name).or_else(|| self.reno.tunable(name))
    }

    fn set_tunable(&mut self, name: &str, value: i64) -> Result<(), TunableError> {
        match self.law.set_tunable(name, value) {
            Err(TunableError::Unknown) => self.reno.set_tunable(name, value),
            done => done,
        }
    }
}
