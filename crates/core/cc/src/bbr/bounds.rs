//! Bounds below the estimates, set by losses. Short-term bounds hold until the next probe and come from the data
//! delivered in a round with losses; the long-term bound is the amount that a probe found too large.

use super::estimates::{Rounds, part};
use crate::controller::RateSample;

/// BBR.Beta, per cent.
pub(super) const BETA: u64 = 70;
/// BBR.LossThresh: more than a fiftieth of what was in flight is too much.
const LOSS_THRESH: u64 = 50;
/// No bound.
pub(super) const NONE: u32 = u32::MAX;

/// Losses say that so much in flight was too much (IsInflightTooHigh).
pub(super) fn is_too_high(sample: &RateSample) -> bool {
    u64::from(sample.lost) * LOSS_THRESH > u64::from(sample.in_flight)
}

/// The bounds themselves, as a mistake gives them back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// BBR.bw_shortterm, bytes a second; [`u64::MAX`] for none.
    pub(super) bw_short: u64,
    /// BBR.inflight_shortterm.
    pub(super) inflight_short: u32,
    /// BBR.inflight_longterm.
    pub(super) inflight_long: u32,
}

impl Bounds {
    pub(super) const fn new() -> Bounds {
        Bounds { bw_short: u64::MAX, inflight_short: NONE, inflight_long: NONE }
    }

    /// ResetShortTermModel.
    pub(super) fn forget_short(&mut self) {
        (self.bw_short, self.inflight_short) = (u64::MAX, NONE);
    }

    /// A reduction was a mistake.
    pub(super) fn widen(&mut self, to: &Bounds) {
        self.bw_short = self.bw_short.max(to.bw_short);
        self.inflight_short = self.inflight_short.max(to.inflight_short);
        self.inflight_long = self.inflight_long.max(to.inflight_long);
    }

    /// A round with losses is over: what it delivered, but no less than seven tenths (InitLowerBounds,
    /// LossLowerBounds).
    pub(super) fn lower(&mut self, latest: &Latest, max_bw: u64, cwnd: u32) {
        let bw = if self.bw_short == u64::MAX { max_bw } else { self.bw_short };
        let inflight = if self.inflight_short == NONE { cwnd } else { self.inflight_short };
        self.bw_short = latest.bw.max(part(bw, BETA));
        self.inflight_short = latest.inflight.max(part(inflight.into(), BETA) as u32);
    }
}

/// The greatest deliveries of this round, and whether anything of it was lost (draft, section 5.5.10.3).
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Latest {
    bw: u64,
    pub(super) inflight: u32,
    /// The round with losses is over when something arrives that left with so much delivered.
    round: u64,
    pub(super) round_start: bool,
    /// BBR.is_loss_in_round.
    pub(super) lost: bool,
    /// Acknowledgments of this round that told of losses.
    pub(super) events: u8,
}

impl Latest {
    /// Something was lost (NoteLoss). True if it is the first of this round.
    pub(super) fn on_loss(&mut self, rounds: &Rounds) -> bool {
        let first = !core::mem::replace(&mut self.lost, true);
        if first {
            self.round = rounds.delivered;
        }
        first
    }

    /// UpdateLatestDeliverySignals.
    pub(super) fn on_sample(&mut self, sample: &RateSample) {
        self.bw = self.bw.max(sample.rate().bytes_per_sec());
        self.inflight = self.inflight.max(sample.delivered);
        self.round_start = sample.prior >= self.round;
        if self.round_start {
            self.round = sample.total;
        }
    }

    /// AdvanceLatestDeliverySignals.
    pub(super) fn advance(&mut self, sample: &RateSample) {
        if self.round_start {
            (self.bw, self.inflight) = (sample.rate().bytes_per_sec(), sample.delivered);
            self.events = 0;
        }
    }

    /// ResetCongestionSignals.
    pub(super) fn reset(&mut self) {
        (self.lost, self.bw, self.inflight) = (false, 0, 0);
    }
}
