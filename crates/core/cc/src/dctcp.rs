//! Data center TCP (RFC 8257): the network marks what meets a queue beyond a step, and the window gives way by as much
//! as was marked: a little for a few marks, half of it only where everything was marked.
//!
//! ```text
//!   marks ──> M, part of the last window's bytes ──> alpha = alpha (1 - g) + g M ──> cwnd = cwnd (1 - alpha / 2)
//! ```

use crate::classical::{Classical, HALF, Law, Part};
use crate::controller::{AckSample, EcnFeedback, PathInfo, Signal, SignalInfo};
use crate::reno::Reno;
use crate::round::Round;
use crate::tunable::tunables;

/// DCTCP. It counts what accurate ECN tells (RFC 9768); where echoes are RFC 3168's, which last until the sender
/// answers, it takes more for marked than was, and gives way more, as NewReno would at most.
///
/// | Tunable | Values | Default | Meaning |
/// |---|---|---|---|
/// | `shift_g` | 0 to 10 | 4 | g = 2^-`shift_g`: the weight of the last window |
/// | `alpha` | 0 to 1024 | 1024 | alpha at the beginning, of 1024: all of it is the cautious choice |
/// | `slowstart` | 0, 1 | 0 | the first mark halves the window, whatever alpha is |
///
/// and those of [`Reno::tunables`].
pub type Dctcp = Classical<Extent>;

/// 1 in the fixed point of alpha: with 24 bits the smallest g still takes alpha down to 2^-14.
const ONE: u32 = 1 << 24;
/// 1 in the tunable's.
const TUNABLE_ONE: u16 = 1024;
const SHIFT_MAX: u8 = 10;

/// The law of [`Dctcp`]: the extent of congestion.
#[derive(Clone, Debug)]
pub struct Extent {
    round: Round,
    /// DCTCP.Alpha, of [`ONE`].
    alpha: u32,
    /// Bytes that arrived in this window of observation, and those that arrived marked (DCTCP.BytesAcked and
    /// DCTCP.BytesMarked).
    arrived: u64,
    marked: u64,
    /// No mark was answered yet.
    fresh: bool,
    shift_g: u8,
    first_alpha: u16,
    slowstart: bool,
}

impl Default for Extent {
    fn default() -> Self {
        Extent {
            round: Round::new(),
            alpha: ONE,
            arrived: 0,
            marked: 0,
            fresh: true,
            shift_g: 4,
            first_alpha: TUNABLE_ONE,
            slowstart: false,
        }
    }
}

impl Extent {
    /// A window of observation is over (RFC 8257, section 3.3, steps 5 to 8).
    /// RFC 8257, 3.3-1 and 4.2-1.
    fn learn(&mut self) {
        if self.arrived == 0 {
            return;
        }
        let marked = self.marked.min(self.arrived);
        let part = (u128::from(marked) * u128::from(ONE) / u128::from(self.arrived)) as u32;
        self.alpha = self.alpha - (self.alpha >> self.shift_g) + (part >> self.shift_g);
        (self.arrived, self.marked) = (0, 0);
    }

    fn restart(&mut self) {
        self.alpha = u32::from(self.first_alpha) * (ONE / u32::from(TUNABLE_ONE));
    }
}

impl Law for Extent {
    const NAME: &'static str = "dctcp";
    const COUNTS_MARKS: bool = true;

    fn begin(&mut self, _path: &PathInfo) {
        let (shift_g, first_alpha, slowstart) = (self.shift_g, self.first_alpha, self.slowstart);
        *self = Extent { shift_g, first_alpha, slowstart, ..Extent::default() };
        self.restart();
    }

    /// RFC 8257, 3.3-2.
    fn marks(&mut self, feedback: &EcnFeedback) {
        self.arrived += u64::from(feedback.bytes);
        self.marked += u64::from(feedback.marked_bytes.min(feedback.bytes));
    }

    fn observe(&mut self, _reno: &mut Reno, ack: &AckSample) {
        if self.round.ends_with(ack) {
            self.learn();
        }
    }

    /// Section 3.3, step 9; a loss is answered as ever (section 3.5).
    /// RFC 8257, 3.3-3, 3.5-1 and 3.5-2.
    fn keep(&mut self, signal: Signal, _info: &SignalInfo, _reno: &Reno) -> Part {
        if signal != Signal::Ecn || (core::mem::replace(&mut self.fresh, false) && self.slowstart) {
            return HALF;
        }
        (2 * ONE - self.alpha, 2 * ONE)
    }

    tunables! {
        "shift_g": shift_g, 0 => SHIFT_MAX, "The estimate moves by 2^-shift_g of what is new.";
        "slowstart": slowstart, 0 => 1, "Does the first mark halve the window, whatever alpha is?";
        "alpha": first_alpha, 0 => TUNABLE_ONE, "The estimate at first, 1024 being 1.", then restart;
    }
}

#[cfg(test)]
mod tests;
