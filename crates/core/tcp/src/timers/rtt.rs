//! Round-trip time and retransmission timeout (RFC 6298).

use base::{Duration, Instant};

use crate::Config;

/// Granularity G of the clock behind the timers.
const GRANULARITY_NANOS: u64 = 1_000_000;
/// Longest sample believed: beyond it the fixed point would overflow.
const LONGEST: u32 = 200_000_000;
/// Fixed point: 16 steps a microsecond, so that small gains (RFC 7323, appendix G) still move the average.
const FINE: u32 = 16;

/// Smoothed round-trip time, its variation and the smallest sample, for one connection. Ambiguous samples (of
/// retransmitted data, Karn) are the caller's to leave out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rtt {
    /// In 1/16 us; 0 before the first sample.
    srtt: u32,
    /// In 1/16 us. Before the first sample the timeout to begin with, us; 0 for that of the settings.
    rttvar: u32,
    least: Least,
}

const _: () = assert!((LONGEST as u64) * (FINE as u64) < u32::MAX as u64);

/// The smallest round trip of about the last five minutes, as Linux keeps it (`tcp_min_rtt_wlen`: 300 s): long enough
/// that the queue a flow makes itself drains at times, short enough that a longer path is learnt. The smallest sample
/// is kept until it was not reached again for 275 to 309 s; the next sample, or SRTT if that is smaller, follows it. A
/// connection that was silent for more than nine minutes may keep it once more as long.
#[derive(Clone, Copy, Debug, Default)]
struct Least(u32);

impl Least {
    /// The lower bits: microseconds, 0 before the first sample. Above them: when it was last reached.
    const MICROS: u32 = (1 << Least::SHIFT) - 1;
    const SHIFT: u32 = 28;
    /// A step of that time, 2^35 ns or 34 s, as a power of two.
    const STEP: u32 = 35;
    /// Steps after which it is forgotten.
    const AGE: u32 = 9;

    fn micros(self) -> u32 {
        self.0 & Least::MICROS
    }

    #[inline(always)]
    fn of(micros: u32, now: Instant) -> Least {
        Least(((now.as_nanos() >> Least::STEP) as u32) << Least::SHIFT | micros)
    }

    #[inline(always)]
    fn take(&mut self, micros: u32, srtt: u32, now: Instant) {
        let step = (now.as_nanos() >> Least::STEP) as u32;
        let age = step.wrapping_sub(self.0 >> Least::SHIFT) % (1 << (32 - Least::SHIFT));
        if micros <= self.micros() || age > Least::AGE {
            self.0 = step << Least::SHIFT | micros.min(srtt);
        }
    }
}

const _: () = assert!(LONGEST <= Least::MICROS);

impl Rtt {
    /// Nothing measured yet.
    pub(crate) const fn new() -> Self {
        Rtt { srtt: 0, rttvar: 0, least: Least(0) }
    }

    /// Returns an estimator with these averages, microseconds.
    pub(crate) fn of(srtt_us: u32, rttvar_us: u32) -> Self {
        let fine = |micros: u32| micros.clamp(1, LONGEST) * FINE;
        Rtt { srtt: fine(srtt_us), rttvar: fine(rttvar_us), least: Least(0) }
    }

    /// Nothing measured yet; others found that a timeout of this many microseconds is right (0: the settings know).
    pub(crate) fn told(rto_us: u32) -> Self {
        Rtt { srtt: 0, rttvar: rto_us, least: Least(0) }
    }

    /// One sample a round trip (RFC 6298, section 2), in microseconds.
    pub(crate) fn sample(&mut self, micros: u32, now: Instant) {
        self.take(micros.min(LONGEST), 1, now);
    }

    /// One of about `samples` samples in this round trip, as timestamps and SACK give them: the gains shrink
    /// in proportion, so the memory stays a few round trips long (RFC 7323, appendix G).
    /// RFC 7323, 4.2-1.
    pub(crate) fn sample_of(&mut self, rtt: Duration, samples: u32, now: Instant) {
        self.take(rtt.as_micros().min(u128::from(LONGEST)) as u32, samples, now);
    }

    /// RFC 6298, 2-2 and 2-3; RFC 8985, 6.2-7.
    #[inline(always)]
    fn take(&mut self, micros: u32, samples: u32, now: Instant) {
        // A sample of zero would read as "none yet".
        let micros = micros.max(1);
        let r = i64::from(micros * FINE);
        if self.srtt == 0 {
            (self.srtt, self.rttvar) = (r as u32, r as u32 / 2);
            self.least = Least::of(micros, now);
            return;
        }
        self.least.take(micros, (self.srtt / FINE).max(1), now);
        // Mostly there is one: the divisors are constants then.
        match samples {
            0 | 1 => self.smooth(r, 1),
            n => self.smooth(r, i64::from(n)),
        }
    }

    #[inline(always)]
    fn smooth(&mut self, r: i64, n: i64) {
        let (srtt, rttvar) = (i64::from(self.srtt), i64::from(self.rttvar));
        self.rttvar = (rttvar + nearest((srtt - r).abs() - rttvar, 4 * n)) as u32;
        self.srtt = (srtt + nearest(r - srtt, 8 * n)).max(1) as u32;
    }

    /// Has anything been measured?
    pub(crate) fn is_measured(&self) -> bool {
        self.srtt != 0
    }

    /// SRTT; zero before the first sample.
    pub(crate) fn srtt(&self) -> Duration {
        fine(self.srtt)
    }

    /// SRTT in whole microseconds, once there is one.
    pub(crate) fn srtt_micros(&self) -> Option<u32> {
        self.is_measured().then_some(self.srtt / FINE)
    }

    /// RTTVAR; zero before the first sample.
    pub(crate) fn rttvar(&self) -> Duration {
        if self.is_measured() { fine(self.rttvar) } else { Duration::ZERO }
    }

    /// RTTVAR in whole microseconds, once there is one.
    pub(crate) fn rttvar_micros(&self) -> u32 {
        if self.is_measured() { self.rttvar / FINE } else { 0 }
    }

    /// The smallest sample of the last minutes; zero before the first.
    pub(crate) fn min_rtt(&self) -> Duration {
        Duration::from_micros(u64::from(self.least.micros()))
    }

    /// Returns the smallest round trip in microseconds.
    #[inline(always)]
    pub(crate) fn min_micros(&self) -> u32 {
        self.least.micros()
    }

    /// SRTT + max(G, 4 RTTVAR) within the configured floor and ceiling; the initial value before the first
    /// sample.
    pub(crate) fn rto(&self, config: &Config) -> Duration {
        Duration::from_nanos(self.rto_nanos(config))
    }

    /// Returns the retransmission timeout in nanoseconds.
    /// RFC 6298, 2-1, 2-2 and 4-1.
    #[inline]
    pub(crate) fn rto_nanos(&self, config: &Config) -> u64 {
        self.rto_nanos_above(config, nanos(config.rto_min))
    }

    /// Returns the same with this floor, in nanoseconds, instead of the setting `rto_min`.
    #[inline(always)]
    pub(crate) fn rto_nanos_above(&self, config: &Config, floor: u64) -> u64 {
        let rto = if self.is_measured() {
            let least = if config.rto_above_srtt { floor } else { GRANULARITY_NANOS };
            fine_nanos(self.srtt) + least.max(4 * fine_nanos(self.rttvar))
        } else if self.rttvar != 0 {
            u64::from(self.rttvar) * 1_000
        } else {
            nanos(config.rto_initial)
        };
        rto.max(floor).min(nanos(config.rto_max))
    }
}

/// `rto` doubled `n` times (RFC 6298, rule 5.5), at most the configured ceiling.
/// RFC 6298, 2-5.
pub(crate) fn backed_off(rto: Duration, n: u8, config: &Config) -> Duration {
    rto.saturating_mul(1 << n.min(30)).min(config.rto_max)
}

fn fine(value: u32) -> Duration {
    Duration::from_nanos(fine_nanos(value))
}

fn fine_nanos(value: u32) -> u64 {
    u64::from(value) * 1_000 / u64::from(FINE)
}

/// Without the detour over 128 bits.
pub(crate) fn nanos(time: Duration) -> u64 {
    time.as_secs() * 1_000_000_000 + u64::from(time.subsec_nanos())
}

/// `a / b` to the nearest integer, `b > 0`.
#[inline(always)]
fn nearest(a: i64, b: i64) -> i64 {
    (a + a.signum() * (b / 2)) / b
}

#[cfg(test)]
mod tests;
