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
mod tests {
    //! Goal: who converses is looked for, who comes now and then is not, and either is learned soon after it begins.
    use super::*;
    use base::Rng;

    /// A core in virtual time, and what its pauses were like.
    struct Core {
        busy_poll: BusyPoll,
        now: Instant,
        looked: Duration,
        pauses: u32,
        found: u32,
    }

    const US: fn(u64) -> Duration = Duration::from_micros;

    impl Core {
        fn new(most: u64) -> Core {
            let now = Instant::from_secs(1);
            Core { busy_poll: BusyPoll::new(US(most), now), now, looked: Duration::ZERO, pauses: 0, found: 0 }
        }

        /// Work, then a pause that a packet ends.
        fn pause(&mut self, work: Duration, pause: Duration) {
            self.now += work;
            let (until, next) = (self.busy_poll.on_nothing(self.now), self.now + pause);
            assert_eq!(
                until,
                self.busy_poll.on_nothing(self.now.max(until)),
                "the first call of a pause decides"
            );
            self.pauses += 1;
            self.looked += until.min(next) - self.now;
            if next <= until {
                self.found += 1;
            } else {
                self.busy_poll.on_sleep(until);
            }
            self.now = next;
            self.busy_poll.on_work(next, true);
        }

        /// Runs with packets that come at random, `per_s` a second.
        fn chance(&mut self, rng: &mut Rng, work: u64, per_s: f64) {
            let share = (rng.below(1 << 30) as f64 + 1.0) / f64::from(1 << 30);
            self.pause(US(work), Duration::from_nanos((-share.ln() * 1e9 / per_s) as u64));
        }

        /// Microseconds of looking for a pause, since the last question.
        fn price(&mut self) -> f64 {
            let (looked, pauses) = (std::mem::take(&mut self.looked), std::mem::take(&mut self.pauses));
            self.found = 0;
            looked.as_nanos() as f64 / 1e3 / f64::from(pauses)
        }
    }

    #[test]
    fn a_conversation_is_looked_for() {
        let mut core = Core::new(40);
        (0..100).for_each(|_| core.pause(US(6), US(18)));
        assert_eq!(core.found, 100);
    }

    #[test]
    fn who_comes_now_and_then_is_not() {
        let (mut core, mut rng) = (Core::new(40), Rng::new(1));
        (0..200).for_each(|_| core.chance(&mut rng, 6, 1e4));
        core.price();
        (0..10_000).for_each(|_| core.chance(&mut rng, 6, 1e4));
        let price = core.price();
        assert!(price < 3.0, "{price} us of 40 for each packet at 10,000 a second");
    }

    #[test]
    fn a_conversation_after_silence_is_learned() {
        let mut core = Core::new(40);
        (0..1_000).for_each(|_| core.pause(US(6), Duration::from_millis(1)));
        let price = core.price();
        assert!(price < 40.0 / 16.0, "{price}");
        (0..u32::from(PROBE) + 1).for_each(|_| core.pause(US(6), US(18)));
        assert!(core.found >= 1, "one probe suffices to look again");
        core.price();
        (0..100).for_each(|_| core.pause(US(6), US(18)));
        assert_eq!(core.found, 100);
    }

    #[test]
    fn a_conversation_is_not_taken_for_work() {
        // Without looks it costs so much to sleep and to be woken that the core seems busy.
        let mut core = Core::new(40);
        core.busy_poll.calm.credit = 0;
        (0..500).for_each(|_| core.pause(US(30), US(50)));
        (0..u32::from(PROBE) + 1).for_each(|_| core.pause(US(30), US(50)));
        core.found = 0;
        (0..100).for_each(|_| core.pause(US(10), US(20)));
        assert!(core.found > 50, "{}", core.found);
    }

    #[test]
    fn a_busy_core_lets_packets_gather() {
        let (mut core, mut rng) = (Core::new(40), Rng::new(2));
        (0..200).for_each(|_| core.chance(&mut rng, 10, 1e5));
        core.price();
        (0..10_000).for_each(|_| core.chance(&mut rng, 10, 1e5));
        let price = core.price();
        assert!(price < 1.5, "{price} us for each pause of 10");
        // Where the next packet comes sooner than a sleeper wakes, looking is the cheaper way to wait.
        (0..1_000).for_each(|_| core.pause(US(10), US(2)));
        core.price();
        (0..100).for_each(|_| core.pause(US(10), US(2)));
        assert_eq!(core.found, 100);
    }

    #[test]
    fn looks_are_as_long_as_they_may_be() {
        let mut core = Core::new(0);
        (0..1_000).for_each(|_| core.pause(US(6), US(1)));
        assert_eq!((core.looked, core.found), (Duration::ZERO, 0));
        let mut core = Core::new(200);
        core.pause(US(1), US(150));
        core.pause(US(1), US(201));
        assert_eq!((core.looked, core.found), (US(350), 1));
        // A timer is nothing that looking has found.
        let (mut busy_poll, at) = (BusyPoll::new(US(20), Instant::ZERO), Instant::from_micros);
        for nth in 0..100 {
            busy_poll.on_nothing(at(nth * 40));
            busy_poll.on_sleep(at(nth * 40 + 20));
            busy_poll.on_work(at(nth * 40 + 25), false);
        }
        assert_eq!(busy_poll.calm.credit, 0);
        busy_poll.on_nothing(at(5_000));
        busy_poll.on_work(at(5_010), false);
        assert_eq!(busy_poll.calm.credit, 0);
    }
}
