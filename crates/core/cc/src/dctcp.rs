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
mod tests {
    //! Goal: alpha is what real numbers say, the window gives way by half of it, and losses still halve.
    use super::*;
    use crate::testing::{Lab, MSS};
    use crate::{Controller, TunableError};
    use base::{Instant, Rng};

    /// In avoidance, alpha being so many 1024ths.
    fn lab(alpha: i64) -> Lab<Dctcp> {
        let mut policy = Dctcp::new();
        policy.set_tunable("alpha", alpha).unwrap();
        Lab::new(policy, 100, Some(50))
    }

    /// `bytes` arrive, of which `marked` with a mark.
    fn arrive(lab: &mut Lab<Dctcp>, bytes: u32, marked: u32) {
        let feedback = EcnFeedback {
            now: Instant::from_millis(lab.now),
            segments: bytes.div_ceil(MSS),
            marked_segments: marked.div_ceil(MSS),
            bytes,
            marked_bytes: marked,
        };
        lab.policy.on_ecn(&feedback);
        lab.ack(bytes);
    }

    /// A whole window arrives and ends the round: so many per cent of it marked.
    fn window(lab: &mut Lab<Dctcp>, percent: u32) {
        let cwnd = lab.policy.window().cwnd;
        arrive(lab, cwnd, cwnd / 100 * percent);
    }

    fn alpha(lab: &Lab<Dctcp>) -> f64 {
        f64::from(lab.policy.law().alpha) / f64::from(ONE)
    }

    /// RFC 8257, 3.3-3.
    #[test]
    fn one_marked_window_takes_a_thirty_second_and_full_alpha_halves() {
        let mut lab = lab(0);
        window(&mut lab, 100);
        assert_eq!(alpha(&lab), 0.0625);
        let before = lab.cwnd();
        lab.congest(Signal::Ecn, before as u32);
        assert!((lab.cwnd() - before * 0.96875).abs() < 0.001, "to the byte: {} of {before}", lab.cwnd());

        let mut lab = self::lab(1024);
        assert_eq!(alpha(&lab), 1.0);
        lab.congest(Signal::Ecn, 100);
        assert_eq!((lab.cwnd(), lab.ssthresh()), (50.0, 50.0));
    }

    /// RFC 8257, 3.3-1 and 4.2-1.
    #[test]
    fn alpha_agrees_with_real_numbers() {
        for shift in 0..=SHIFT_MAX {
            let mut policy = Dctcp::new();
            policy.set_tunable("shift_g", shift.into()).unwrap();
            let mut lab = Lab::new(policy, 100, Some(50));
            let (mut rng, mut real) = (Rng::new(shift.into()), 1.0);
            let g = 0.5f64.powi(shift.into());
            for nth in 0..3000u64 {
                // Seasons, so that it goes up and down.
                let percent = if nth / 300 % 2 == 0 { rng.below(101) } else { 0 };
                let cwnd = lab.policy.window().cwnd;
                let marked = cwnd / 100 * percent as u32;
                arrive(&mut lab, cwnd, marked);
                real = real * (1.0 - g) + g * f64::from(marked) / f64::from(cwnd);
                // Each step rounds by a unit or two, and forgets with g what earlier ones did.
                let error = 3.0 / f64::from(ONE) / g;
                assert!((alpha(&lab) - real).abs() <= error, "g 2^-{shift}: {} {real}", alpha(&lab));
            }
        }
    }

    /// RFC 8257, 3.3-2.
    #[test]
    fn a_window_is_counted_whole_however_its_acknowledgments_come() {
        let mut lab = lab(0);
        // What is in flight when a round ends makes the next: nothing is learned before it has arrived.
        lab.ack(MSS);
        for nth in 0..98 {
            arrive(&mut lab, MSS, if nth % 2 == 0 { MSS } else { 0 });
            assert_eq!(alpha(&lab), 0.0, "after {nth}");
        }
        arrive(&mut lab, MSS, MSS);
        assert!((alpha(&lab) - 50.0 / 99.0 / 16.0).abs() < 1e-6, "{}", alpha(&lab));
    }

    /// RFC 8257, 3.5-1 and 3.5-2.
    #[test]
    fn losses_and_timeouts_are_answered_as_ever() {
        for signal in [Signal::Loss, Signal::Timeout { nth: 1 }] {
            let mut lab = lab(0);
            lab.congest(signal, 100);
            assert_eq!(lab.ssthresh(), 50.0);
        }
    }

    #[test]
    fn the_first_mark_may_halve() {
        let mut policy = Dctcp::new();
        for (name, value) in [("alpha", 0), ("slowstart", 1)] {
            policy.set_tunable(name, value).unwrap();
        }
        let mut lab = Lab::new(policy, 100, None);
        lab.congest(Signal::Ecn, 100);
        assert_eq!(lab.cwnd(), 50.0);
        lab.congest(Signal::Ecn, 50);
        assert_eq!(lab.cwnd(), 50.0, "alpha is still 0");
        let path = crate::testing::path(100, None);
        lab.policy.recycle(&path);
        lab.congest(Signal::Ecn, 100);
        assert_eq!(lab.cwnd(), 50.0, "a new life");
    }

    #[test]
    fn tunables_have_bounds() {
        let mut policy = Dctcp::new();
        for (name, most) in [("shift_g", 10), ("alpha", 1024), ("slowstart", 1)] {
            assert_eq!(policy.set_tunable(name, most), Ok(()));
            for value in [-1, most + 1] {
                let error = Err(TunableError::OutOfRange { min: 0, max: most });
                assert_eq!(policy.set_tunable(name, value), error, "{name} {value}");
            }
        }
    }
}
