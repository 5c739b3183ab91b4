//! Quanta that a pace lets go.

use alloc::boxed::Box;

use base::{Instant, Rate};

use crate::Config;

/// One connection's account.
#[derive(Debug)]
pub(super) struct Pacing {
    /// When all that left so far has passed at the rate: the next quantum begins then.
    pub(super) next: Instant,
    /// Bytes of the quantum begun that may still leave.
    pub(super) left: u32,
    /// SO_MAX_PACING_RATE.
    pub(super) cap: Option<Rate>,
    /// Only slow start asks for pacing.
    pub(super) starting: bool,
}

/// The account, once departures were paced or a rate was asked for.
#[derive(Default, Debug)]
pub(crate) struct Pace(pub(super) Option<Box<Pacing>>);

impl Pacing {
    pub(super) fn new(cap: Option<Rate>) -> Pacing {
        Pacing { next: Instant::ZERO, left: 0, cap, starting: false }
    }

    /// Bytes that may leave at `now`: whole segments of `mss`, one at least; or when some may.
    pub(super) fn room(&mut self, now: Instant, mss: u32, quantum: u32) -> Result<u32, Instant> {
        if self.left < mss {
            if self.next > now {
                return Err(self.next);
            }
            self.left = quantum;
        }
        Ok(self.left - self.left % mss)
    }

    /// `bytes` leave. A late send makes up for half of what leaves now, at most: timers are never punctual.
    pub(super) fn on_sent(&mut self, now: Instant, bytes: u32, rate: Rate) {
        let time = rate.spacing(bytes.into());
        let late = now.since(self.next).min(time / 2);
        self.next = self.next.max(now) + (time - late);
        self.left = self.left.saturating_sub(bytes);
    }
}

/// Returns the bytes that leave in about a millisecond (2^-10 s).
pub(super) fn millisecond(rate: Rate) -> u64 {
    rate.bytes_per_sec() >> 10
}

pub(super) fn quantum(rate: Rate, mss: u32, config: &Config) -> u32 {
    let least = u64::from(config.min_burst) * u64::from(mss);
    u32::try_from(millisecond(rate).max(least)).unwrap_or(u32::MAX)
}
