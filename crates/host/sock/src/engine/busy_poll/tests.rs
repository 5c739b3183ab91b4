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
