//! How long a core with nothing to do looks for packets before it sleeps.
//!
//! To sleep and be woken costs some time of the processor and delays the packet that ends it; to look costs the time
//! until that packet comes. So looking pays where packets come soon, as they do in a conversation of one question at
//! a time, and is waste where they come from many, now and then, or to a core that has enough to do: those that come
//! while it sleeps are then dealt with together. What the last looks brought, and how busy the core is, tell which.

use base::{Duration, Instant};

/// Value of a saved wake-up to the waiting thread, as a part of the longest poll, in eighths: of packets that come
/// at random, those are polled for whose mean distance is not above that.
const WORTH: u32 = 5;
/// Approximate cost of a sleep and a wake to a core, and their value to a busy one. Such a core delays its clients
/// little when it sleeps.
const SLEEP: Duration = Duration::from_micros(5);
/// Parts of its time, in tenths, that a core works for when it becomes busy, and when it no longer is. To sleep and to
/// be woken is work, too: one that converses works for up to four tenths if it does not look.
const BUSY: [u64; 2] = [5, 4];
/// An account is as good as so many looks that found something at once, at most.
const CREDIT: i64 = 8;
/// Of a core that does not look, each so many-th pause is looked at after all, to learn that times have changed.
const PROBE: u8 = 32;
/// Pauses over which work is averaged, as a power of two.
const MEMORY: u32 = 4;
/// A pause counts as so long at most: one of seconds would make every core idle for long.
const PAUSE_MAX: Duration = Duration::from_micros(200);

/// The policy, and what it knows.
#[derive(Clone, Debug)]
pub(crate) struct BusyPoll {
    /// While the core has little to do, and while it has much.
    calm: Account,
    hurried: Account,
    busy: bool,
    state: State,
    /// Nanoseconds of work, and of work and pauses, as averages times two to the power of [`MEMORY`].
    work: u64,
    whole: u64,
}

/// State of the core, and since when.
#[derive(Clone, Copy, Debug)]
enum State {
    Working(Instant),
    /// It has nothing to do and looks for packets, until then.
    Looking(Instant, Instant),
    /// It has nothing to do and sleeps, or is about to.
    Resting(Instant),
}

/// Gains and costs of polling.
#[derive(Clone, Debug)]
struct Account {
    /// How long a look lasts at most; zero: no looks.
    most: Duration,
    /// Value of a poll that finds a packet.
    worth: Duration,
    /// Nanoseconds that looks were worth more than they cost, from zero to [`CREDIT`] times that.
    credit: i64,
    /// Pauses since the last look.
    unlooked: u8,
}

impl Account {
    fn new(most: Duration, worth: Duration) -> Account {
        Account { most, worth, credit: CREDIT * nanos(worth), unlooked: 0 }
    }

    /// How long to look in the pause that begins, if at all.
    fn look(&mut self) -> Option<Duration> {
        self.unlooked += 1;
        let looks = !self.most.is_zero() && (self.credit > 0 || self.unlooked >= PROBE);
        if looks || self.most.is_zero() {
            self.unlooked = 0;
        }
        looks.then_some(self.most)
    }

    /// A look has ended.
    fn on_looked(&mut self, time: Duration, found: bool) {
        let worth = if found { nanos(self.worth) } else { 0 };
        self.credit = (self.credit + worth - nanos(time)).clamp(0, CREDIT * nanos(self.worth));
    }
}

fn nanos(time: Duration) -> i64 {
    time.as_nanos() as i64
}

impl BusyPoll {
    /// Looks of so long at most.
    pub(crate) fn new(most: Duration, now: Instant) -> BusyPoll {
        let (calm, hurried) = (Account::new(most, most * WORTH / 8), Account::new(most.min(SLEEP), SLEEP));
        // Who has just begun is not busy.
        let whole = (PAUSE_MAX.as_nanos() as u64) << MEMORY;
        BusyPoll { calm, hurried, busy: false, state: State::Working(now), work: 0, whole }
    }

    /// There is nothing to do at `now`: until when to look for packets. The first call of a pause decides.
    pub(crate) fn on_nothing(&mut self, now: Instant) -> Instant {
        if let State::Working(since) = self.state {
            let worked = now - since;
            self.remember(worked, worked);
            self.busy = self.work * 10 > self.whole * BUSY[usize::from(self.busy)];
            self.state = match self.account().look() {
                Some(time) => State::Looking(now, now + time),
                None => State::Resting(now),
            };
        }
        match self.state {
            State::Looking(_, until) => until,
            _ => now,
        }
    }

    /// There is something to do at `now`; `packets`: because some came.
    pub(crate) fn on_work(&mut self, now: Instant, packets: bool) {
        let (State::Looking(since, _) | State::Resting(since)) = self.state else { return };
        if packets && matches!(self.state, State::Looking(..)) {
            self.account().on_looked(now - since, true);
        }
        self.remember(Duration::ZERO, (now - since).min(PAUSE_MAX));
        self.state = State::Working(now);
    }

    /// The core goes to sleep at `now`: what it looked for did not come.
    pub(crate) fn on_sleep(&mut self, now: Instant) {
        if let State::Looking(since, _) = self.state {
            self.account().on_looked(now - since, false);
            self.state = State::Resting(since);
        }
    }

    fn account(&mut self) -> &mut Account {
        if self.busy { &mut self.hurried } else { &mut self.calm }
    }

    fn remember(&mut self, work: Duration, whole: Duration) {
        let average = |sum: u64, value: Duration| sum - (sum >> MEMORY) + value.as_nanos() as u64;
        (self.work, self.whole) = (average(self.work, work), average(self.whole, whole));
    }
}

#[cfg(test)]
mod tests;
