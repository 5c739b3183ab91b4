//! HyStart++ (RFC 9406): the first slow start ends when the round-trip time grows, before the queue overflows. A
//! few rounds of slower growth tell a queue from a passing delay.

use crate::controller::AckSample;
use crate::hystart_limits::{HyStartLimits, TICK_US};
use crate::round::Round;
use crate::tunable::Field;

/// No sample yet.
const UNKNOWN: u16 = u16::MAX;
/// MIN_RTT_DIVISOR.
const DIVISOR: u16 = 8;
/// Slow start runs until a loss.
const OFF: u8 = u8::MAX;
/// Linux's rule is asked instead of RFC 9406's.
const CLASSIC: u8 = u8::MAX - 1;
/// That rule: below this many segments it ends nothing, an eighth counts from 4 ms on, and 16 ms always do, after
/// eight samples.
const CLASSIC_WINDOW: u32 = 16;
const CLASSIC_LEAST: u16 = 4_000 / 64;
const CLASSIC_MOST: u16 = 16_000 / 64;
const CLASSIC_SAMPLES: u8 = 8;
/// Acknowledgments so close, in ticks, are one train: 2 ms.
const TRAIN: u16 = 2_000 / 64;
/// Lengthening of a train that gaps by receiver or pacing may cause: 1 ms.
const TRAIN_SLACK: u16 = 1_000 / 64;

/// Which rule ends the first slow start without a loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// None.
    Off,
    /// RFC 9406.
    Plus,
    /// Linux's CUBIC: the HyStart that RFC 9406 grew from.
    Classic,
}

/// Pace of the first slow start after an acknowledgment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pace {
    /// Grow as slow start does.
    Full,
    /// Conservative slow start: this much of `bytes`.
    Slower,
    /// A queue it is: avoidance begins.
    Enough,
    /// As before, without any growth.
    Stop,
}

impl Pace {
    /// How much of a step of `bytes` is taken.
    /// RFC 9406, 4.2-3.
    pub(crate) fn of(self, bytes: u32, limits: &HyStartLimits) -> u32 {
        match self {
            Pace::Full => bytes,
            Pace::Slower | Pace::Enough => bytes / limits.slower(),
            Pace::Stop => 0,
        }
    }
}

/// One connection's first slow start, round by round. 12 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HyStart {
    round: Round,
    /// Smallest round-trip time of this round and of the one before.
    now_min: u16,
    last_min: u16,
    /// Smallest round trip when conservative slow start began (cssBaselineMinRtt); [`UNKNOWN`] outside of it.
    baseline: u16,
    /// Samples in this round, as far as they matter.
    samples: u8,
    /// Rounds of conservative slow start, or [`OFF`].
    rounds: u8,
}

const _: () = assert!(size_of::<HyStart>() == 12);

impl HyStart {
    /// Nothing is known about the path.
    pub(crate) const fn new(rule: Rule) -> HyStart {
        let rounds = match rule {
            Rule::Off => OFF,
            Rule::Plus => 0,
            Rule::Classic => CLASSIC,
        };
        HyStart {
            round: Round::new(),
            now_min: UNKNOWN,
            last_min: UNKNOWN,
            baseline: UNKNOWN,
            samples: 0,
            rounds,
        }
    }

    /// Nothing is known any more; the rule stays.
    pub(crate) fn restart(&mut self) {
        let rounds = if self.rounds >= CLASSIC { self.rounds } else { 0 };
        *self = HyStart { rounds, ..HyStart::new(Rule::Plus) };
    }

    /// Returns the rule in force.
    pub(crate) const fn rule(&self) -> Rule {
        match self.rounds {
            OFF => Rule::Off,
            CLASSIC => Rule::Classic,
            _ => Rule::Plus,
        }
    }

    /// An acknowledgment in the first slow start, with a window of `segments` (RFC 9406, section 4.2).
    pub(crate) fn on_ack(&mut self, ack: &AckSample, segments: u32) -> Pace {
        match self.rule() {
            Rule::Off => return Pace::Full,
            Rule::Classic if segments < CLASSIC_WINDOW => return Pace::Full,
            Rule::Classic => return self.classic(ack),
            Rule::Plus => {}
        }
        if let Some(rtt) = ack.rtt {
            self.now_min = self.now_min.min(ticks(rtt));
            self.samples = self.samples.saturating_add(1);
        }
        if self.samples >= ack.hystart.samples() {
            self.judge(ack.hystart);
        }
        if self.round.ends_with(ack) { self.next_round(ack.hystart) } else { self.pace() }
    }

    /// HyStart as Linux has it (S. Ha and I. Rhee, "Taming the elephants", 2011): slow start is over when the
    /// acknowledgments of a round come in a train longer than half the least round trip, or when from the ninth sample
    /// of a round on the least of them exceeds that by an eighth. `last_min` is when the round began, `baseline` when
    /// the train's last acknowledgment came, both in ticks modulo 2^16.
    fn classic(&mut self, ack: &AckSample) -> Pace {
        let now = (ack.now.as_micros() / TICK_US as u64) as u16;
        if self.round.is_passed_by(ack) {
            (self.last_min, self.baseline) = (now, now);
            (self.now_min, self.samples) = (UNKNOWN, 0);
        }
        let Some(rtt) = ack.rtt else { return Pace::Full };
        let least = ticks(ack.min_rtt);
        if now.wrapping_sub(self.baseline) <= TRAIN {
            self.baseline = now;
            if now.wrapping_sub(self.last_min) > (least + TRAIN_SLACK) / 2 {
                return Pace::Stop;
            }
        }
        self.now_min = self.now_min.min(ticks(rtt));
        if self.samples < CLASSIC_SAMPLES {
            self.samples += 1;
            return Pace::Full;
        }
        let grown = self.now_min > least.saturating_add((least / DIVISOR).clamp(CLASSIC_LEAST, CLASSIC_MOST));
        if grown { Pace::Stop } else { Pace::Full }
    }

    fn pace(&self) -> Pace {
        if self.baseline == UNKNOWN { Pace::Full } else { Pace::Slower }
    }

    /// Has the round-trip time grown, or was it a passing delay?
    /// RFC 9406, 4.2-2 and 4.2-4.
    fn judge(&mut self, limits: &HyStartLimits) {
        if self.baseline != UNKNOWN {
            if self.now_min < self.baseline {
                self.baseline = UNKNOWN;
            }
            return;
        }
        if self.last_min == UNKNOWN {
            return;
        }
        let (least, most) = limits.thresholds();
        let threshold = (self.last_min / DIVISOR).clamp(least, most);
        if self.now_min >= self.last_min.saturating_add(threshold) {
            self.baseline = self.now_min;
            self.rounds = 0;
        }
    }

    /// A round is over, and the next has begun.
    /// RFC 9406, 4.2-1 and 4.2-5.
    fn next_round(&mut self, limits: &HyStartLimits) -> Pace {
        if self.baseline != UNKNOWN {
            self.rounds += 1;
            if self.rounds >= limits.rounds() {
                return Pace::Enough;
            }
        }
        self.last_min = self.now_min;
        self.now_min = UNKNOWN;
        self.samples = 0;
        self.pace()
    }
}

fn ticks(time: base::Duration) -> u16 {
    (time.as_micros() / TICK_US).min(u128::from(UNKNOWN / 2)) as u16
}

/// By the number of its [`Rule`].
impl Field for HyStart {
    fn number(&self) -> i64 {
        self.rule() as i64
    }
    fn set(&mut self, number: i64) {
        *self = HyStart::new([Rule::Off, Rule::Plus, Rule::Classic][number as usize]);
    }
}

#[cfg(test)]
mod tests;
