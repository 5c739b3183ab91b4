//! How the receive buffer finds its size.

use crate::scale::Clock;

/// How long the shortest round trip is believed, microseconds. A queue that the window itself has made must not become
/// the path's length, and a path that really became longer must be believed in the end.
pub(super) const SHORTEST_FOR_US: u32 = 60_000_000;

/// Receive buffer tuning: how much the application took in the last round trip tells how much the path
/// delivers; twice that never holds the sender back (W. Feng et al., "Dynamic Right-Sizing", 2000). Of what came in
/// a round only the part counts that the path delivers in its shortest round trip: the rest waited in a queue, and a
/// larger window would only lengthen that.
#[derive(Debug)]
pub(crate) struct Tuner {
    /// Bytes the application took in this round trip.
    pub(super) taken: u32,
    /// The most it took in one, queues aside.
    pub(super) best: u32,
    /// The shortest round trip of the last [`SHORTEST_FOR_US`] to twice that, microseconds: of the time that ended at
    /// `counted`, and since.
    pub(super) shortest: [u32; 2],
    /// When the second of these began, microseconds.
    pub(super) counted: u32,
    /// The most that came in a millisecond of that time, bytes.
    pub(super) fastest: u32,
    /// Last round: bytes read, its length, and the length that it should have had, both in microseconds.
    pub(super) last: [u32; 3],
    /// When this round trip began, microseconds.
    pub(super) since: u32,
    /// How old the peer's youngest echo of our timestamps was in this round, ticks of their clock.
    pub(super) youngest: u32,
    /// Smallest echo of the round before, microseconds: the path may have become longer since our last own
    /// measurement, and a pure receiver makes none.
    pub(super) echo: u32,
    /// A tick of that clock, microseconds.
    pub(super) tick_us: u32,
}

/// The tuner, once much was received.
#[derive(Default, Debug)]
pub(crate) struct Tuning(pub(super) Option<Tuner>);

impl Tuner {
    pub(super) fn new(now: u32, clock: Clock) -> Tuner {
        Tuner {
            taken: 0,
            best: 0,
            shortest: [u32::MAX; 2],
            counted: now,
            fastest: 0,
            last: [0, 1, 0],
            since: now,
            youngest: u32::MAX,
            echo: 0,
            tick_us: clock.tick_us(),
        }
    }

    /// Returns how long a round lasts, in microseconds: `srtt`, as far as echoes confirm it. They count ticks, of which
    /// the first may just have begun. A connection that only receives knows no round trip but that of its handshake:
    /// the path may have become longer since, or the handshake may have waited in a queue.
    pub(super) fn round(&self, srtt: u32) -> u32 {
        let most = self.youngest.saturating_add(1).saturating_mul(self.tick_us);
        srtt.min(most).max(self.echo.saturating_sub(1).saturating_mul(self.tick_us))
    }

    /// Returns the bytes that the application would have read in the last round, had that lasted exactly one round
    /// trip.
    pub(super) fn last(&self) -> u64 {
        let [taken, lasted, span] = self.last.map(u64::from);
        (taken * span / lasted).min(u32::MAX.into())
    }

    /// Returns the bytes that the application read in a round trip without queueing, if round trips now last `span`
    /// microseconds. A round that lasted more than two of them, because the flow had to wait for others, counts by
    /// its rate.
    pub(super) fn without_queue(&mut self, now: u32, span: u32) -> u32 {
        let lasted = now.wrapping_sub(self.since).max(1);
        let rate = (u64::from(self.taken) * 1_000 / u64::from(lasted)).min(u32::MAX.into()) as u32;
        if now.wrapping_sub(self.counted) >= SHORTEST_FOR_US {
            (self.shortest, self.counted, self.fastest) = ([self.shortest[1], u32::MAX], now, 0);
        }
        // A queue lengthens round trips and takes nothing off the rate; a longer path takes some where the window
        // limits. While the path changes, a round trip is of both paths.
        let about = |time: u32| time.saturating_add(time / 4);
        let steady = span <= about(self.last[2]) && lasted <= about(span);
        if steady && rate < self.fastest / 2 && span / 2 > self.shortest[0].min(self.shortest[1]) {
            (self.shortest, self.counted, self.fastest) = ([u32::MAX; 2], now, 0);
        }
        self.fastest = self.fastest.max(rate);
        let shortest = self.shortest[0].min(self.shortest[1]).min(span);
        (u64::from(self.taken) * u64::from(shortest) / u64::from(span.max(lasted / 2).max(1))) as u32
    }

    /// The round is over, which should have lasted for `span` microseconds.
    pub(super) fn begin_round(&mut self, now: u32, span: u32) {
        self.last = [self.taken, now.wrapping_sub(self.since).max(1), span];
        (self.taken, self.since) = (0, now);
        match core::mem::replace(&mut self.youngest, u32::MAX) {
            u32::MAX => {}
            youngest => self.echo = youngest,
        }
    }
}

#[cfg(test)]
impl Tuning {
    pub(crate) fn is_begun(&self) -> bool {
        self.0.is_some()
    }
}
