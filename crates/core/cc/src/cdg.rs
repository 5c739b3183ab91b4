//! CDG (Hayes and Armitage, 2011): backs off with a probability that follows how fast the round-trip time grows, so
//! that many flows do not yield at once; tolerates losses where no queue is full; and does not starve beside flows
//! that know nothing but loss.

use base::{Duration, Rng};

use crate::classical::{Classical, HALF, Law, Part};
use crate::controller::{AckSample, PathInfo, Signal, SignalInfo};
use crate::reno::Reno;
use crate::round::Round;
use crate::tunable::tunables;

/// CDG.
///
/// | Tunable | Values | Default | Meaning |
/// |---|---|---|---|
/// | `beta_delay` | 1 to 99 | 70 | per cent of the window that a backoff for delay leaves |
/// | `beta_loss` | 1 to 99 | 50 | per cent of the window that a loss leaves |
/// | `exp_backoff_scale` | 1 to 255 | 3 | G: at a gradient of G ms a round the probability is 1 - 1/e |
/// | `alpha_inc` | 0 to 255 | 0 | rounds without a reduction after which growth is a segment a round faster; 0: never |
/// | `smoothing_factor` | 0 to 32 | 8 | rounds whose gradients are averaged; 0: the last one counts alone |
/// | `loss_compete_consec_cong` | 0 to 255 | 5 | backoffs that change nothing before delay is ignored |
/// | `loss_compete_hold_backoff` | 0 to 255 | 5 | rounds for which it is then ignored |
///
/// and those of [`Reno::tunables`].
pub type Cdg = Classical<Gradient>;

/// Most rounds of the moving average.
const SMOOTHING: usize = 32;

/// State of the bottleneck's queue, by the trends of the round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Unknown,
    Rising,
    Falling,
    Full,
    Empty,
}

/// The law of [`Cdg`].
#[derive(Clone, Debug)]
pub struct Gradient {
    round: Round,
    /// Extremes of this round and of the one before, microseconds.
    now: Extremes,
    last: Option<Extremes>,
    smallest: Trend,
    largest: Trend,
    level: Level,
    /// Window that NewReno would have, bytes: so that one loss takes no more than it would from such a flow.
    shadow: u32,
    /// Backoffs in a row that left the delay growing, and rounds for which delay is ignored.
    ineffective: u8,
    ignored: u8,
    /// Rounds since the last reduction.
    calm: u16,
    rng: Option<Rng>,
    tunables: Tunables,
}

#[derive(Clone, Copy, Debug)]
struct Tunables {
    beta_delay: u8,
    beta_loss: u8,
    scale: u8,
    ineffective: u8,
    hold: u8,
    alpha_inc: u8,
    smoothing: u8,
}

#[derive(Clone, Copy, Debug)]
struct Extremes {
    min: u32,
    max: u32,
}

/// A moving average of gradients, microseconds a round.
#[derive(Clone, Copy, Debug, Default)]
struct Trend {
    steps: [i32; SMOOTHING],
    next: u8,
    filled: u8,
}

impl Default for Gradient {
    fn default() -> Self {
        Gradient {
            round: Round::new(),
            now: Extremes::NONE,
            last: None,
            smallest: Trend::default(),
            largest: Trend::default(),
            level: Level::Unknown,
            shadow: 0,
            ineffective: 0,
            ignored: 0,
            calm: 0,
            rng: None,
            tunables: Tunables {
                beta_delay: 70,
                beta_loss: 50,
                scale: 3,
                ineffective: 5,
                hold: 5,
                alpha_inc: 0,
                smoothing: 8,
            },
        }
    }
}

impl Extremes {
    const NONE: Extremes = Extremes { min: u32::MAX, max: 0 };

    fn see(&mut self, rtt: Duration) {
        let micros = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX).min(i32::MAX as u32);
        self.min = self.min.min(micros);
        self.max = self.max.max(micros);
    }
}

impl Trend {
    fn push(&mut self, step: i32) {
        self.steps[usize::from(self.next)] = step;
        self.next = (self.next + 1) % SMOOTHING as u8;
        self.filled = (self.filled + 1).min(SMOOTHING as u8);
    }

    /// The mean gradient of the last `rounds`, one at least.
    fn mean(&self, rounds: u8) -> i32 {
        let counted = usize::from(rounds.min(self.filled).max(1));
        let newest = (1..=counted).map(|back| (usize::from(self.next) + SMOOTHING - back) % SMOOTHING);
        let sum: i64 = newest.map(|at| i64::from(self.steps[at])).sum();
        (sum / counted as i64) as i32
    }
}

impl Gradient {
    /// A round is over: what is the queue doing, and do we yield?
    fn round_over(&mut self, reno: &mut Reno, ack: &AckSample) {
        self.calm = self.calm.saturating_add(1);
        let now = core::mem::replace(&mut self.now, Extremes::NONE);
        if now.min > now.max {
            return;
        }
        let Some(last) = self.last.replace(now) else { return };
        self.smallest.push(now.min as i32 - last.min as i32);
        self.largest.push(now.max as i32 - last.max as i32);
        let rounds = self.tunables.smoothing;
        let (min, max) = (self.smallest.mean(rounds), self.largest.mean(rounds));
        self.level = self.level.next(min, max);
        if self.shadow > 0 {
            self.shadow = self.shadow.saturating_add(reno.mss());
        }
        if self.ignored > 0 {
            self.ignored -= 1;
            return;
        }
        if ack.in_recovery {
            return;
        }
        if min.max(max) <= 0 {
            self.ineffective = 0;
        } else if self.decides(min.max(max), ack) {
            self.back_off(reno);
        }
    }

    /// With probability 1 - exp(-gradient / G)?
    fn decides(&mut self, gradient: i32, ack: &AckSample) -> bool {
        let rng = self.rng.get_or_insert_with(|| Rng::new(ack.now.as_nanos()));
        let exponent = gradient as u64 * 1024 / (u64::from(self.tunables.scale) * 1000);
        rng.below(1 << 16) >= u64::from(exp_minus(exponent))
    }

    /// Segments that a window of acknowledgments is worth.
    fn alpha(&self) -> u32 {
        1 + u32::from(self.calm.checked_div(self.tunables.alpha_inc.into()).unwrap_or(0))
    }

    fn back_off(&mut self, reno: &mut Reno) {
        self.ineffective = self.ineffective.saturating_add(1);
        if self.ineffective > self.tunables.ineffective {
            self.ignored = self.tunables.hold;
            self.ineffective = 0;
            return;
        }
        self.calm = 0;
        self.shadow = self.shadow.max(reno.cwnd());
        let left = u64::from(reno.cwnd()) * u64::from(self.tunables.beta_delay) / 100;
        reno.yield_to(left as u32);
    }
}

impl Level {
    /// Both extremes grow: the queue fills. The larger stops first when there is no more room, the smaller when there
    /// is nothing left to drain.
    fn next(self, min: i32, max: i32) -> Level {
        match (self, min > 0, max > 0, min < 0, max < 0) {
            (_, true, true, ..) => Level::Rising,
            (_, _, _, true, true) => Level::Falling,
            (Level::Rising, true, false, ..) => Level::Full,
            (Level::Falling, _, _, false, true) => Level::Empty,
            (level, ..) => level,
        }
    }
}

/// exp(-x / 1024) in 65536ths: the product of the factors that x's binary digits name.
fn exp_minus(x: u64) -> u32 {
    /// 65536 exp(-2^i / 1024).
    const FACTORS: [u32; 14] = [
        65_472, 65_408, 65_280, 65_026, 64_520, 63_520, 61_565, 57_835, 51_039, 39_750, 24_109, 8_869, 1_200,
        22,
    ];
    if x >> FACTORS.len() != 0 {
        return 0;
    }
    let factors = FACTORS.iter().enumerate().filter(|(bit, _)| x >> bit & 1 == 1);
    factors.fold(1 << 16, |product: u64, (_, factor)| (product * u64::from(*factor) + (1 << 15)) >> 16) as u32
}

impl Law for Gradient {
    const NAME: &'static str = "cdg";

    fn begin(&mut self, _path: &PathInfo) {
        *self = Gradient { tunables: self.tunables, ..Gradient::default() };
    }

    fn observe(&mut self, reno: &mut Reno, ack: &AckSample) {
        if let Some(rtt) = ack.rtt {
            self.now.see(rtt);
        }
        if self.round.ends_with(ack) {
            self.round_over(reno, ack);
        }
    }

    fn avoid(&mut self, reno: &mut Reno, bytes: u32, ack: &AckSample) {
        reno.add_per_window(self.alpha() * Reno::ONE, bytes, ack);
    }

    /// Where the queue is known not to be full a loss is not congestion: the window stays.
    fn keep(&mut self, signal: Signal, info: &SignalInfo, reno: &Reno) -> Part {
        if let Signal::Timeout { .. } = signal {
            (self.shadow, self.calm) = (0, 0);
            return HALF;
        }
        let flight = info.flight_size.min(reno.cwnd()).max(1);
        let tolerated = signal == Signal::Loss && matches!(self.level, Level::Falling | Level::Empty);
        if tolerated {
            return (1, 1);
        }
        self.calm = 0;
        // The shadow keeps what delay took: at most all that is in flight.
        let kept = self.shadow.max(flight);
        let part = (u64::from(kept) * u64::from(self.tunables.beta_loss) / 100) as u32;
        self.shadow = if self.shadow > 0 { part } else { 0 };
        (part.min(flight), flight)
    }

    tunables! {
        "beta_delay": tunables.beta_delay, 1 => 99, "What a backoff for delay leaves, percent.";
        "beta_loss": tunables.beta_loss, 1 => 99, "What a backoff for a loss leaves, percent.";
        "exp_backoff_scale": tunables.scale, 1 => u8::MAX,
            "Scale of the probability to back off: the larger, the rarer.";
        "alpha_inc": tunables.alpha_inc, 0 => u8::MAX,
            "Rounds without a reduction after which the window grows by one segment a round more; 0 never adds any.";
        "smoothing_factor": tunables.smoothing, 0 => SMOOTHING,
            "Rounds whose gradients of the round-trip time are averaged; 0 and 1 take the last as it is.";
        "loss_compete_consec_cong": tunables.ineffective, 0 => u8::MAX,
            "Backoffs in a row without effect after which delay is ignored for a while; 0 never ignores it.";
        "loss_compete_hold_backoff": tunables.hold, 0 => u8::MAX,
            "Backoffs for delay that are then left out.";
    }
}

#[cfg(test)]
mod tests;
