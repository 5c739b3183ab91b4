//! Model of the path: its bandwidth, its round trip, its aggregation of acknowledgments, and whether it is full.

use base::{Duration, Instant};

/// `percent` of `amount`.
pub(super) fn part(amount: u64, percent: u64) -> u64 {
    u64::try_from(u128::from(amount) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

/// Bytes that pass in `time` at `rate` bytes a second.
pub(super) fn volume(rate: u64, time: Duration) -> u64 {
    let bytes = u128::from(rate).saturating_mul(time.as_nanos()) / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Round trips told by packets: one is over when something arrives that left after the last one was over (draft,
/// section 5.5.1).
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Rounds {
    /// C.delivered.
    pub(super) delivered: u64,
    next: u64,
    pub(super) count: u32,
    /// The last acknowledgment began a round.
    pub(super) start: bool,
}

impl Rounds {
    /// Takes a sample: `prior` bytes had been delivered when the segment left that is delivered now, `total` with
    /// it.
    pub(super) fn on_sample(&mut self, prior: u64, total: u64) {
        self.delivered = total;
        self.start = prior >= self.next;
        if self.start {
            self.begin();
            self.count = self.count.wrapping_add(1);
        }
    }

    /// StartRound.
    pub(super) fn begin(&mut self) {
        self.next = self.delivered;
    }
}

/// The greatest delivery rate of this cycle of probing and of the one before, bytes a second (sections 5.5.3 to
/// 5.5.6).
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct MaxBandwidth {
    before: u64,
    now: u64,
}

impl MaxBandwidth {
    pub(super) fn get(&self) -> u64 {
        self.before.max(self.now)
    }

    /// A sample that the application bounded tells only if it is more.
    pub(super) fn on_sample(&mut self, rate: u64, app_limited: bool) {
        if rate >= self.get() || !app_limited {
            self.now = self.now.max(rate);
        }
    }

    /// AdvanceMaxBwFilter. A cycle without samples forgets nothing.
    pub(super) fn advance(&mut self) {
        if self.now > 0 {
            (self.before, self.now) = (self.now, 0);
        }
    }
}

/// BBR.MinRTTFilterLen.
const REMEMBERED: Duration = Duration::from_secs(10);
/// BBR.ProbeRTTInterval.
const INTERVAL: Duration = Duration::from_secs(5);

/// The smallest round-trip time of the last ten seconds, and of the last five: where that is not met again, it has to
/// be looked for (section 5.3.4.3, UpdateMinRTT).
#[derive(Clone, Copy, Debug)]
pub(super) struct MinRtt {
    pub(super) least: Option<Duration>,
    stamp: Instant,
    recent: Option<Duration>,
    recent_stamp: Instant,
    /// It is time to look (BBR.probe_rtt_expired).
    pub(super) expired: bool,
}

impl MinRtt {
    pub(super) fn new(srtt: Option<Duration>) -> MinRtt {
        MinRtt {
            least: srtt,
            stamp: Instant::ZERO,
            recent: None,
            recent_stamp: Instant::ZERO,
            expired: false,
        }
    }

    pub(super) fn on_ack(&mut self, now: Instant, rtt: Option<Duration>) {
        // The first sample starts the clock.
        self.expired = self.recent.is_some() && now > self.recent_stamp + INTERVAL;
        if let Some(rtt) = rtt.filter(|rtt| self.expired || self.recent.is_none_or(|recent| *rtt < recent)) {
            (self.recent, self.recent_stamp) = (Some(rtt), now);
        }
        let Some(recent) = self.recent else { return };
        if self.least.is_none_or(|least| recent < least) || now > self.stamp + REMEMBERED {
            (self.least, self.stamp) = (Some(recent), self.recent_stamp);
        }
    }

    /// It was looked for: again in five seconds.
    pub(super) fn looked(&mut self, now: Instant) {
        self.recent_stamp = now;
    }
}

/// Rounds that the greatest aggregation is remembered for, at least; twice that at most.
const AGGREGATION_ROUNDS: u32 = 5;

/// How much more than expected acknowledgments bring at once (section 5.5.9): the window must bridge the silence
/// before them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aggregation {
    since: Instant,
    delivered: u64,
    before: u32,
    now: u32,
    begun: u32,
}

impl Aggregation {
    pub(super) fn new() -> Aggregation {
        Aggregation { since: Instant::ZERO, delivered: 0, before: 0, now: 0, begun: 0 }
    }

    /// BBR.extra_acked, bytes.
    pub(super) fn extra(&self) -> u32 {
        self.before.max(self.now)
    }

    pub(super) fn restart(&mut self, now: Instant) {
        (self.since, self.delivered) = (now, 0);
    }

    /// `acked` bytes arrived where `bandwidth` is expected; never more than `most` counts. `full`: the pipe was full
    /// once, and more rounds are remembered than one.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        bandwidth: u64,
        acked: u32,
        most: u32,
        (rounds, full): (&Rounds, bool),
    ) {
        let mut expected = volume(bandwidth, now.since(self.since));
        if self.delivered <= expected {
            self.restart(now);
            expected = 0;
        }
        self.delivered += u64::from(acked);
        let extra = (self.delivered - expected).min(u64::from(most)) as u32;
        let length = if full { AGGREGATION_ROUNDS } else { 1 };
        if rounds.start && rounds.count.wrapping_sub(self.begun) >= length {
            (self.before, self.now, self.begun) = (self.now, 0, rounds.count);
        }
        self.now = self.now.max(extra);
    }
}

/// Rounds without growth that mean a full pipe.
const PLATEAU: u8 = 3;

/// Do deliveries still follow a rising rate (section 5.3.1.2)?
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct FullPipe {
    rate: u64,
    count: u8,
    /// They do not, since it was last looked for.
    pub(super) now: bool,
    /// They ever did not.
    pub(super) reached: bool,
}

impl FullPipe {
    /// For tests: rounds without growth.
    #[cfg(test)]
    pub(super) fn count(&self) -> u8 {
        self.count
    }

    /// Looks anew, from `rate` on.
    pub(super) fn reset(&mut self, rate: u64) {
        *self = FullPipe { rate, reached: self.reached, ..FullPipe::default() };
    }

    /// A round's first sample that the application did not bound.
    pub(super) fn on_round(&mut self, rate: u64) {
        if self.now {
            return;
        }
        if rate >= part(self.rate, 125) {
            return self.reset(rate);
        }
        self.count += 1;
        self.now = self.count >= PLATEAU;
        self.reached |= self.now;
    }
}
