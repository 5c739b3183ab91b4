//! BBR, version 3 (draft-ietf-ccwg-bbr-06; names of its pseudocode in brackets): a model of the path instead of a
//! window that losses halve. The greatest delivery rate and the smallest round trip are measured, each at its time, for
//! they cannot be at once; what leaves is paced at the rate, and no more is in flight than the two hold, and a queue
//! for the probes. Losses bound the model where they are many.
//!
//! ```text
//!   acknowledgment ──> estimates (rate, round trip, aggregation, full pipe) ──┐
//!                      bounds (short term, long term)                         ├──> state ──> pacing rate, window
//!   losses ───────────────────────────^                                       ┘
//! ```
//! Integers throughout: bytes, bytes a second, per cent. What the draft does at each lost packet happens here at the
//! acknowledgment that tells of it. Marks count as losses (section 3.6: the end that sends ECT must answer them).

mod bounds;
mod cycle;
mod estimates;
mod probe_rtt;
mod state;
#[cfg(test)]
mod tests;

use base::{Duration, Instant, Rate};

use crate::controller::{AckSample, Controller, Needs, PathInfo, RateSample, Signal, SignalInfo, Window};
use crate::reno::WINDOW_MAX;
use bounds::{Bounds, Latest};
use cycle::Cycle;
use estimates::{Aggregation, FullPipe, MaxBandwidth, MinRtt, Rounds, part, volume};
use probe_rtt::Look;
use state::State;

/// Acknowledgments that told of losses in one round, for Startup to end by them (BBRStartupFullLossCnt).
const STARTUP_LOSSES: u8 = 6;
/// Rounds after which Drain ends in any case.
const DRAIN_ROUNDS: u32 = 3;
/// 100 - BBR.PacingMarginPercent.
const PACED: u64 = 99;
/// Largest burst that the window must hold thrice (C.send_quantum).
const QUANTUM_MAX: u64 = 65_536;

/// State to restore after a spurious recovery.
#[derive(Clone, Copy, Debug)]
struct Undo {
    state: Option<State>,
    bounds: Bounds,
}

/// BBR. It has no tunables.
#[derive(Clone, Debug)]
pub struct Bbr {
    state: State,
    rounds: Rounds,
    max_bw: MaxBandwidth,
    min_rtt: MinRtt,
    aggregation: Aggregation,
    full: FullPipe,
    latest: Latest,
    bounds: Bounds,
    cycle: Cycle,
    look: Look,
    undo: Undo,
    drain_began: u32,
    /// C.inflight, after the last acknowledgment.
    inflight: u32,
    /// The window was full at some time in this round (C.is_cwnd_limited).
    cwnd_limited: bool,
    in_recovery: bool,
    idle_restart: bool,
    cwnd: u32,
    prior_cwnd: u32,
    /// C.pacing_rate, bytes a second; 0 before the round trip is known.
    pacing: u64,
    initial_window: u32,
    mss: u32,
}

impl Bbr {
    /// The name it is registered under.
    pub const NAME: &'static str = "bbr";

    /// A policy that waits for `on_established` to learn its path.
    pub fn new() -> Self {
        Bbr::on(&PathInfo { mss: 536, srtt: None, initial_window: 5360, ssthresh: None })
    }

    /// OnInit.
    fn on(path: &PathInfo) -> Bbr {
        let mss = path.mss.clamp(1, u16::MAX.into());
        let cwnd = path.initial_window.clamp(mss, WINDOW_MAX);
        let mut bbr = Bbr {
            state: State::Startup,
            rounds: Rounds::default(),
            max_bw: MaxBandwidth::default(),
            min_rtt: MinRtt::new(path.srtt.filter(|srtt| !srtt.is_zero())),
            aggregation: Aggregation::new(),
            full: FullPipe::default(),
            latest: Latest::default(),
            bounds: Bounds::new(),
            cycle: Cycle::new(),
            look: Look::default(),
            undo: Undo { state: None, bounds: Bounds::new() },
            drain_began: 0,
            inflight: 0,
            cwnd_limited: false,
            in_recovery: false,
            idle_restart: false,
            cwnd,
            prior_cwnd: 0,
            pacing: 0,
            initial_window: cwnd,
            mss,
        };
        bbr.init_pacing(path.srtt);
        bbr
    }

    /// InitPacingRate, once there is a round trip to divide by.
    fn init_pacing(&mut self, srtt: Option<Duration>) {
        let Some(srtt) = srtt.filter(|srtt| !srtt.is_zero() && self.pacing == 0) else { return };
        let nominal = Rate::over(self.initial_window.into(), srtt).bytes_per_sec();
        self.pacing = part(nominal, State::Startup.pacing_gain()).max(1);
    }

    /// BBR.bw, bytes a second.
    fn bw(&self) -> u64 {
        self.max_bw.get().min(self.bounds.bw_short)
    }

    /// BDPMultiple: so many per cent of what `bw` delivers in a round trip.
    fn bdp(&self, bw: u64, percent: u64) -> u32 {
        let Some(rtt) = self.min_rtt.least else { return self.initial_window };
        part(volume(bw, rtt), percent).min(WINDOW_MAX.into()) as u32
    }

    /// BBR.MinPipeCwnd.
    fn min_pipe(&self) -> u32 {
        4 * self.mss
    }

    /// TargetInflight.
    fn target_inflight(&self) -> u32 {
        self.bdp(self.bw(), 100).min(self.cwnd)
    }

    /// QuantizationBudget: room for what leaves, is cut and is acknowledged in pieces.
    fn budget(&self, inflight: u32) -> u32 {
        let quantum = (self.pacing / 1000).min(QUANTUM_MAX).max(2 * u64::from(self.mss));
        let probe = if self.state == State::Up { 2 * self.mss } else { 0 };
        inflight.max(3 * quantum as u32).max(self.min_pipe()).saturating_add(probe)
    }

    /// The application bounded the sample, or we did when we looked for the round trip.
    fn is_app_limited(&self, sample: &RateSample) -> bool {
        sample.app_limited || self.is_muted(sample)
    }

    fn is_muted(&self, sample: &RateSample) -> bool {
        self.look.muted.is_some_and(|muted| sample.prior <= muted)
    }

    /// UpdateModelAndState, but for the round trip.
    fn update(&mut self, ack: &AckSample, sample: &RateSample, acked: u32) {
        self.rounds.on_sample(sample.prior, sample.total);
        if self.rounds.start {
            self.cycle.on_round();
            self.cwnd_limited = false;
        }
        self.cwnd_limited |= ack.in_flight.saturating_add(self.mss) > self.cwnd;
        if sample.newly_lost > 0 {
            self.latest.events = self.latest.events.saturating_add(1);
            self.note_loss();
            self.judge_probe(ack.now, sample);
        }
        self.latest.on_sample(sample);
        let rate = sample.rate().bytes_per_sec();
        let app_limited = self.is_app_limited(sample);
        self.max_bw.on_sample(rate, app_limited);
        if self.latest.round_start {
            // What left while we looked for the round trip was bounded by us: its rate is no measure of the path.
            if self.latest.lost && !self.state.accelerates() && !self.is_muted(sample) {
                self.bounds.lower(&self.latest, self.max_bw.get(), self.cwnd);
            }
            self.latest.lost = false;
        }
        let (bw, full) = (self.bw(), (&self.rounds, self.full.reached));
        self.aggregation.on_ack(ack.now, bw, acked, self.cwnd, full);
        if self.rounds.start && !app_limited {
            self.full.on_round(rate);
        }
        self.check_startup_done(sample);
        self.check_drain_done(ack.now);
        self.turn_cycle(ack, sample, acked);
    }

    /// CheckStartupDone: deliveries no longer follow, or too much is lost (CheckStartupHighLoss).
    fn check_startup_done(&mut self, sample: &RateSample) {
        if self.state != State::Startup {
            return;
        }
        let lossy = self.latest.round_start && self.in_recovery && self.latest.events >= STARTUP_LOSSES;
        if lossy && !self.full.reached && bounds::is_too_high(sample) {
            self.undo.state = Some(State::Startup);
            self.full.reached = true;
            self.bounds.inflight_long = self.bdp(self.bw(), 100).max(self.latest.inflight).min(WINDOW_MAX);
        }
        if self.full.reached {
            self.state = State::Drain;
            self.drain_began = self.rounds.count;
        }
    }

    /// CheckDrainDone.
    fn check_drain_done(&mut self, now: Instant) {
        let empty = self.inflight <= self.budget(self.bdp(self.bw(), 100));
        let late = self.rounds.count.wrapping_sub(self.drain_began) > DRAIN_ROUNDS;
        if self.state == State::Drain && (empty || late) {
            self.start_down(now);
        }
    }

    /// NoteLoss.
    fn note_loss(&mut self) {
        if self.latest.on_loss(&self.rounds) {
            self.save();
        }
    }

    /// SaveStateUponLoss.
    fn save(&mut self) {
        self.save_cwnd();
        self.undo = Undo { state: None, bounds: self.bounds };
    }

    /// SaveCwnd: the last window that neither a repair nor a look for the round trip has cut.
    fn save_cwnd(&mut self) {
        let whole = !self.in_recovery && self.state != State::ProbeRtt;
        self.prior_cwnd = if whole { self.cwnd } else { self.prior_cwnd.max(self.cwnd) };
    }

    /// RestoreCwnd.
    fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    /// SetPacingRateWithGain. Before the pipe was ever full the rate only rises.
    fn set_pacing(&mut self, gain: u64) {
        let rate = part(part(self.bw(), gain), PACED);
        if (self.full.reached && rate > 0) || rate > self.pacing {
            self.pacing = rate;
        }
    }

    /// SetCwnd.
    fn set_cwnd(&mut self, acked: u32) {
        let inflight = self.bdp(self.bw(), self.state.cwnd_gain()).saturating_add(self.aggregation.extra());
        let most = self.budget(inflight).min(WINDOW_MAX);
        let grown = self.cwnd.saturating_add(acked).min(WINDOW_MAX);
        if self.full.reached {
            self.cwnd = grown.min(most);
        } else if self.cwnd < most || self.rounds.delivered < self.initial_window.into() {
            self.cwnd = grown;
        }
        self.cwnd = self.cwnd.max(self.min_pipe());
        self.bound_cwnd();
    }

    /// BoundCwndForProbeRTT and BoundCwndForModel.
    fn bound_cwnd(&mut self) {
        let cap = match self.state {
            State::Startup | State::Drain => bounds::NONE,
            State::Down | State::Refill | State::Up => self.bounds.inflight_long,
            State::Cruise => self.with_headroom(),
            State::ProbeRtt => self.with_headroom().min(self.probe_rtt_cwnd()),
        };
        let cap = cap.min(self.bounds.inflight_short).max(self.min_pipe());
        self.cwnd = self.cwnd.min(cap);
    }
}

impl Default for Bbr {
    fn default() -> Self {
        Bbr::new()
    }
}

impl Controller for Bbr {
    fn name(&self) -> &'static str {
        Bbr::NAME
    }

    fn needs(&self) -> Needs {
        Needs { pacing: true, rates: true, unmetered: true, ..Needs::default() }
    }

    fn on_established(&mut self, path: &PathInfo) {
        *self = Bbr::on(path);
    }

    /// HandleRestartFromIdle: with nothing in flight before, at exactly the path's rate.
    fn on_sent(&mut self, now: Instant, bytes: u32, in_flight: u32) {
        if in_flight > bytes {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(now);
        if self.state.probes_bandwidth() {
            self.set_pacing(100);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }

    /// UpdateOnACK.
    fn on_ack(&mut self, ack: &AckSample) {
        let acked = ack.bytes.max(ack.sacked);
        self.init_pacing(Some(ack.srtt));
        self.inflight = ack.in_flight.saturating_sub(acked);
        match ack.rate {
            Some(sample) => self.update(ack, sample, acked),
            None => self.rounds.start = false,
        }
        self.min_rtt.on_ack(ack.now, ack.rtt);
        self.check_probe_rtt(ack.now);
        if let Some(sample) = ack.rate {
            self.idle_restart = false;
            self.latest.advance(sample);
        }
        self.set_pacing(self.state.pacing_gain());
        self.set_cwnd(acked);
    }

    /// Only a timeout takes the window (OnEnterRTO); what a loss or a mark bounds, the model does when the round is
    /// over.
    fn on_congestion(&mut self, signal: Signal, _info: &SignalInfo) {
        self.note_loss();
        if signal == Signal::Ecn {
            return;
        }
        if !matches!(signal, Signal::Timeout { nth: 2.. }) {
            self.save();
        }
        self.in_recovery = true;
        if let Signal::Timeout { .. } = signal {
            self.cwnd = self.mss;
        }
    }

    fn on_recovery_end(&mut self, _info: &SignalInfo) {
        if core::mem::replace(&mut self.in_recovery, false) {
            self.restore_cwnd();
            self.bound_cwnd();
        }
    }

    /// HandleSpuriousLossDetection.
    fn on_spurious(&mut self, _signal: Signal, _now: Instant) {
        self.in_recovery = false;
        self.restore_cwnd();
        self.latest.lost = false;
        self.full.reset(0);
        self.bounds.widen(&self.undo.bounds);
        match self.undo.state.take() {
            Some(State::Startup) if self.state != State::Startup => {
                self.full.reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::Up) if !matches!(self.state, State::Up | State::ProbeRtt) => self.start_refill(),
            _ => {}
        }
    }

    /// Keeps the model of the path over an idle time (section 5.4): the window stays, and pacing keeps it from
    /// leaving at once.
    fn on_idle_restart(&mut self, _now: Instant, _idle: Duration, _path: &PathInfo) {}

    fn on_mss_change(&mut self, mss: u32) {
        self.mss = mss.clamp(1, u16::MAX.into());
        self.cwnd = self.cwnd.max(self.mss);
    }

    fn window(&self) -> Window {
        let pacing = (self.pacing > 0).then(|| Rate::from_bytes_per_sec(self.pacing));
        Window { cwnd: self.cwnd, ssthresh: u32::MAX, pacing }
    }
}
