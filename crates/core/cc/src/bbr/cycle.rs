//! The cycle of probing for bandwidth (draft-ietf-ccwg-bbr, section 5.3.3): down, cruise, refill, up.

use base::{Duration, Rng};

use super::bounds::{self, BETA, NONE};
use super::estimates::part;
use super::{Bbr, State};
use crate::controller::{AckSample, RateSample};
use crate::reno::WINDOW_MAX;

/// Rounds after which a probe is due at the latest, so that flows with few segments in flight probe as often as Reno
/// would lose.
const ROUNDS_MAX: u32 = 63;
/// The least wall-clock time between two probes, and how much longer it may be.
const WAIT: Duration = Duration::from_secs(2);
const WAIT_MORE_MS: u64 = 1_000;
/// BBR.Headroom, per cent.
const HEADROOM: u64 = 15;

/// Phase of acknowledgments relative to the last probe (BBR.ack_phase).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Acks {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// The state of the cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    acks: Acks,
    /// Acknowledgments are about what a probe sent (BBR.is_bw_probe_sample).
    sampling: bool,
    began: base::Instant,
    wait: Duration,
    rounds_since_up: u32,
    /// How the long-term bound rises in a probe: each `per_step` bytes acknowledged add a segment, and that grows
    /// twice as fast each round.
    up_rounds: u32,
    up_acked: u32,
    per_step: u32,
    /// The last probe was too much; the last one ended before it could be (precautionary bandwidth probing).
    too_high: bool,
    precautionary: bool,
}

impl Cycle {
    pub(super) fn new() -> Cycle {
        Cycle {
            acks: Acks::Init,
            sampling: false,
            began: base::Instant::ZERO,
            wait: Duration::ZERO,
            rounds_since_up: 0,
            up_rounds: 0,
            up_acked: 0,
            per_step: NONE,
            too_high: false,
            precautionary: false,
        }
    }

    pub(super) fn on_round(&mut self) {
        self.rounds_since_up = self.rounds_since_up.saturating_add(1);
    }

    /// Another state takes over: what comes in is no longer about a probe.
    pub(super) fn stop(&mut self) {
        self.acks = Acks::ProbeStopping;
    }
}

impl Bbr {
    /// UpdateProbeBWCyclePhase.
    pub(super) fn turn_cycle(&mut self, ack: &AckSample, sample: &RateSample, acked: u32) {
        if !self.full.reached || self.adapt_long_term(sample, acked) || !self.state.probes_bandwidth() {
            return;
        }
        let state = self.state;
        match state {
            State::Down if self.is_time_to_probe(ack) => self.start_refill(),
            State::Down if self.is_time_to_cruise() => self.start_cruise(),
            State::Cruise if self.is_time_to_probe(ack) => self.start_refill(),
            State::Refill if self.rounds.start => {
                self.cycle.sampling = true;
                self.start_up(sample);
            }
            State::Up if self.is_time_to_go_down(sample) => {
                self.cycle.too_high = false;
                self.start_down(ack.now);
            }
            _ => {}
        }
    }

    pub(super) fn start_down(&mut self, now: base::Instant) {
        self.latest.reset();
        self.cycle.per_step = NONE;
        self.pick_wait(now);
        self.cycle.began = now;
        self.cycle.acks = Acks::ProbeStopping;
        self.rounds.begin();
        self.state = State::Down;
    }

    pub(super) fn start_cruise(&mut self) {
        self.state = State::Cruise;
    }

    pub(super) fn start_refill(&mut self) {
        self.bounds.forget_short();
        (self.cycle.up_rounds, self.cycle.up_acked) = (0, 0);
        self.cycle.precautionary = false;
        self.cycle.acks = Acks::Refilling;
        self.rounds.begin();
        self.state = State::Refill;
    }

    fn start_up(&mut self, sample: &RateSample) {
        self.cycle.acks = Acks::ProbeStarting;
        self.rounds.begin();
        self.full.reset(sample.rate().bytes_per_sec());
        self.state = State::Up;
        self.steepen();
    }

    /// PickProbeWait: chance keeps flows apart. It follows from the date and what was delivered, so that a run repeats.
    fn pick_wait(&mut self, now: base::Instant) {
        let mut rng = Rng::new(now.as_nanos() ^ self.rounds.delivered.rotate_left(40));
        self.cycle.rounds_since_up = rng.below(2) as u32;
        self.cycle.wait = WAIT + Duration::from_millis(rng.below(WAIT_MORE_MS));
    }

    /// IsTimeToProbeBW.
    fn is_time_to_probe(&self, ack: &AckSample) -> bool {
        let segments = self.target_inflight() / self.mss;
        ack.now > self.cycle.began + self.cycle.wait || self.cycle.rounds_since_up >= segments.min(ROUNDS_MAX)
    }

    /// IsTimeToCruise: there is room for others, and no queue of ours.
    fn is_time_to_cruise(&self) -> bool {
        let bdp = self.budget(self.bdp(self.max_bw.get(), 100));
        self.inflight <= self.with_headroom() && self.inflight <= bdp
    }

    /// IsTimeToGoDown.
    fn is_time_to_go_down(&mut self, sample: &RateSample) -> bool {
        if self.cycle.too_high && self.inflight >= self.bounds.inflight_long {
            self.cycle.precautionary = true;
            return true;
        }
        if self.cwnd_limited && self.cwnd >= self.bounds.inflight_long {
            // Not the path bounds deliveries now.
            self.full.reset(sample.rate().bytes_per_sec());
            return false;
        }
        self.full.now
    }

    /// InflightWithHeadroom.
    pub(super) fn with_headroom(&self) -> u32 {
        let long = self.bounds.inflight_long;
        if long == NONE {
            return NONE;
        }
        let headroom = part(long.into(), HEADROOM).max(self.mss.into()) as u32;
        long.saturating_sub(headroom).max(self.min_pipe())
    }

    /// RaiseInflightLongtermSlope.
    fn steepen(&mut self) {
        let growth = 1u32 << self.cycle.up_rounds;
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(30);
        self.cycle.per_step = (self.cwnd / growth).max(self.mss);
    }

    /// ProbeInflightLongtermUpward.
    fn raise_long_term(&mut self, acked: u32) {
        if !self.cwnd_limited || self.cwnd < self.bounds.inflight_long {
            return;
        }
        let step = self.cycle.per_step.max(1);
        self.cycle.up_acked = self.cycle.up_acked.saturating_add(acked);
        let raise = (self.cycle.up_acked / step).saturating_mul(self.mss);
        self.cycle.up_acked %= step;
        self.bounds.inflight_long = self.bounds.inflight_long.saturating_add(raise).min(WINDOW_MAX);
        if self.rounds.start {
            self.steepen();
        }
    }

    /// AdaptLongTermModel. True if it decided on a state.
    fn adapt_long_term(&mut self, sample: &RateSample, acked: u32) -> bool {
        if self.rounds.start && self.cycle.acks == Acks::ProbeStarting {
            self.cycle.acks = Acks::ProbeFeedback;
        }
        if self.rounds.start && self.cycle.acks == Acks::ProbeStopping {
            self.cycle.sampling = false;
            self.cycle.acks = Acks::Init;
            if self.state.probes_bandwidth() {
                if !self.is_app_limited(sample) {
                    self.max_bw.advance();
                }
                if self.cycle.precautionary && !self.cycle.too_high {
                    // What was feared did not happen.
                    self.start_refill();
                    return true;
                }
            }
        }
        if !bounds::is_too_high(sample) && self.bounds.inflight_long != NONE {
            self.bounds.inflight_long = self.bounds.inflight_long.max(sample.in_flight.min(WINDOW_MAX));
            if self.state == State::Up {
                self.raise_long_term(acked);
            }
        }
        false
    }

    /// Losses among what a probe sent (HandleLostPacket). The draft asks at each lost packet what was in flight when
    /// it left; here the acknowledgment that tells of the loss answers, for what left last of what arrived.
    pub(super) fn judge_probe(&mut self, now: base::Instant, sample: &RateSample) {
        if !self.cycle.sampling || !bounds::is_too_high(sample) {
            return;
        }
        self.cycle.too_high = true;
        self.cycle.sampling = false;
        if !self.is_app_limited(sample) {
            let least = part(self.target_inflight().into(), BETA) as u32;
            self.bounds.inflight_long = sample.in_flight.max(least).min(WINDOW_MAX);
        }
        if self.state == State::Up {
            self.undo.state = Some(State::Up);
            self.start_down(now);
        }
    }
}
