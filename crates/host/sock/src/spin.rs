//! How long an idle core looks for packets before it sleeps in the kernel.
//!
//! **What is at stake.** A sleep costs a system call, a wake-up and, on machines that halt an idle core, tens of
//! microseconds until packets are seen: about as much as looking for `limit`. Whoever looks that long and only then
//! sleeps pays at most twice what one who knew the future would have paid (the ski-rental bound), so nobody ever looks
//! longer. But packets that come soon are no proof that looking paid. A lone client that waits for each answer asks
//! the sooner the sooner it is answered: looking brings 41,000 requests a second where sleeping brings 16,000. Where
//! 64 clients keep their own core full, nobody waits for the microseconds that we save: looking costs 3 us more a
//! connection and brings nothing, although most looks find something.
//!
//! **So it is measured.** Idle periods come in epochs of [`EPOCH`]. In some the core looks for up to `limit`, in
//! others only glances (a small part of it: packets that are just arriving); what counts is the time per packet. If
//! looking makes a fifth less of it, looking pays. Epochs of the other kind are tried now and then, the more seldom
//! the surer the answer. A load that looking does not change (slow requests, full clients) is one that sleeps.

use base::{Duration, Instant};

/// Idle periods in an epoch.
const EPOCH: u32 = 32;
/// A glance, as a part of the limit.
const GLANCE: u32 = 32;
/// Longest time between packets that counts, in limits: what comes later has nothing to do with us.
const LONG: u32 = 20;
/// Trials that must say the opposite before a firm opinion changes.
const FIRM: i8 = 3;
/// Most epochs between two trials: of sleeping, which a client feels, and of looking, which costs CPU.
const SLEEP_TRIAL: u32 = 256;
const LOOK_TRIAL: u32 = 32;

/// Decides for one core between looking and sleeping.
#[derive(Debug)]
pub(crate) struct Spin {
    limit: Duration,
    spun: Duration,
    /// When the idle period began.
    idle: Option<Instant>,
    /// When the core last looked, if it did nothing else since.
    looked: Option<Instant>,
    /// When packets last came.
    found: Option<Instant>,
    /// The epoch that runs.
    epoch: Epoch,
    /// Time per packet in the last epoch of the favoured kind.
    usual: Option<u64>,
    /// Above zero: looking pays.
    votes: i8,
    /// Epochs until the next trial, and how many it was last time.
    wait: u32,
    hold: u32,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    looks: bool,
    periods: u32,
    packets: u64,
    nanos: u64,
}

impl Epoch {
    const fn new(looks: bool) -> Epoch {
        Epoch { looks, periods: 0, packets: 0, nanos: 0 }
    }

    /// Nanoseconds per packet.
    fn pace(&self) -> u64 {
        self.nanos / self.packets.max(1)
    }
}

impl Spin {
    /// Looks for `limit` at most in each idle period; zero sleeps at once.
    pub(crate) const fn new(limit: Duration) -> Spin {
        Spin {
            limit,
            spun: Duration::ZERO,
            idle: None,
            looked: None,
            found: None,
            epoch: Epoch::new(true),
            usual: None,
            votes: 1,
            wait: 1,
            hold: 1,
        }
    }

    /// Time spent looking for packets that were not there.
    pub(crate) fn spun(&self) -> Duration {
        self.spun
    }

    /// A look at `now` found nothing, and there is nothing else to do: look again (or sleep)?
    pub(crate) fn looks_again(&mut self, now: Instant) -> bool {
        self.count(now);
        let since = *self.idle.get_or_insert(now);
        let patience = if self.epoch.looks { self.limit } else { self.limit / GLANCE };
        let again = now.since(since) < patience;
        self.looked = again.then_some(now);
        again
    }

    /// The core goes to do something else.
    pub(crate) fn leave(&mut self) {
        self.looked = None;
    }

    /// A look at `now` found `packets`, or something else to do.
    pub(crate) fn on_work(&mut self, now: Instant, packets: u32) {
        self.count(now);
        self.looked = None;
        if packets > 0 {
            let before = self.found.replace(now).unwrap_or(now);
            self.epoch.nanos += now.since(before).min(self.limit * LONG).as_nanos() as u64;
            self.epoch.packets += u64::from(packets);
        }
        if self.idle.take().is_some() {
            self.epoch.periods += 1;
            if self.epoch.periods >= EPOCH {
                self.end_epoch();
            }
        }
    }

    fn count(&mut self, now: Instant) {
        if let Some(looked) = self.looked {
            self.spun += now.since(looked);
        }
    }

    fn favours_looking(&self) -> bool {
        self.votes > 0
    }

    fn end_epoch(&mut self) {
        let Epoch { looks, packets, .. } = self.epoch;
        let (pace, favoured) = (self.epoch.pace(), self.favours_looking());
        let trial = looks != favoured;
        match self.usual {
            // Timers alone say nothing.
            _ if packets == 0 => {}
            Some(usual) if trial => {
                let (look, sleep) = if looks { (pace, usual) } else { (usual, pace) };
                self.vote(look.saturating_mul(5) <= sleep.saturating_mul(4));
            }
            _ if !trial => self.usual = Some(pace),
            _ => {}
        }
        let favoured = self.favours_looking();
        if trial {
            self.wait = self.hold;
        }
        // Each trial follows an epoch of the favoured kind, whose pace is fresh.
        let try_now = !trial && self.wait == 0;
        self.wait = self.wait.saturating_sub(1);
        self.epoch = Epoch::new(favoured != try_now);
    }

    fn vote(&mut self, pays: bool) {
        let agreed = pays == self.favours_looking();
        self.votes = (self.votes + if pays { 1 } else { -1 }).clamp(1 - FIRM, FIRM);
        let most = if pays { SLEEP_TRIAL } else { LOOK_TRIAL };
        self.hold = if agreed { (self.hold * 2).min(most) } else { 1 };
    }
}

#[cfg(test)]
mod tests {
    //! Goal: never longer than the limit; each load ends up near the better of the two ways, whichever that is, also
    //! after it changed.
    use super::*;
    use base::Rng;

    const LIMIT: Duration = Duration::from_micros(50);

    /// A load as the core feels it, in nanoseconds.
    struct Load {
        /// From our answer to the next packet, if we saw the last one at once.
        gap: u64,
        /// The same after we slept: the peer sleeps deeper too.
        gap_after_sleep: u64,
        /// Packets come at this distance whatever we do (a full client); then several may wait.
        steady: bool,
        /// Gaps are exponential with this mean instead of all alike.
        random: bool,
    }

    /// From the bell to our first look.
    const WAKE: u64 = 15_000;
    /// CPU of a sleep and its wake-up.
    const SLEEP_CPU: u64 = 10_000;
    /// Between two looks.
    const STEP: u64 = 500;
    /// Work per packet.
    const WORK: u64 = 4_000;

    #[derive(Default, Debug)]
    struct Outcome {
        packets: u64,
        sleeps: u64,
        elapsed: u64,
        spun: u64,
        slept_late: u64,
    }

    /// Runs `periods` idle periods of a load; checks the limit on the way.
    fn run(spin: &mut Spin, load: &Load, rng: &mut Rng, periods: u32) -> Outcome {
        let mut out = Outcome::default();
        let start = spin.found.map_or(1_000_000, Instant::as_nanos);
        let (mut now, mut slept) = (start, false);
        let mut next_steady = now;
        for period in 0..periods {
            let mean = if slept && !load.steady { load.gap_after_sleep } else { load.gap };
            let scale = if load.random { -(1.0 - rng.below(1 << 20) as f64 / 1_048_576.0).ln() } else { 1.0 };
            let gap = (mean as f64 * scale) as u64;
            let arrival = if load.steady { next_steady } else { now + gap };
            let begin = now;
            slept = false;
            while now < arrival {
                if spin.looks_again(Instant::from_nanos(now)) {
                    now += STEP;
                    assert!(now - begin <= LIMIT.as_nanos() as u64 + STEP, "looks longer than the limit");
                } else {
                    spin.leave();
                    slept = true;
                    out.sleeps += 1;
                    out.slept_late += u64::from(period >= periods / 2);
                    now = now.max(arrival) + WAKE;
                }
            }
            let mut packets = u32::from(!load.steady);
            while load.steady && next_steady <= now {
                next_steady += load.gap;
                packets += 1;
            }
            spin.on_work(Instant::from_nanos(now), packets);
            now += WORK * u64::from(packets);
            out.packets += u64::from(packets);
        }
        out.elapsed = now - start;
        out.spun = spin.spun().as_nanos() as u64;
        out
    }

    const PING_PONG: Load = Load { gap: 15_000, gap_after_sleep: 35_000, steady: false, random: false };
    const FULL_CLIENT: Load = Load { gap: 6_500, gap_after_sleep: 6_500, steady: true, random: false };
    const SLOW: Load = Load { gap: 300_000, gap_after_sleep: 300_000, steady: false, random: true };

    #[test]
    fn a_lone_client_is_waited_for() {
        let mut spin = Spin::new(LIMIT);
        let out = run(&mut spin, &PING_PONG, &mut Rng::new(1), 40_000);
        assert!(out.slept_late * 200 < out.packets, "{out:?}");
    }

    #[test]
    fn a_full_client_is_not() {
        let mut spin = Spin::new(LIMIT);
        let out = run(&mut spin, &FULL_CLIENT, &mut Rng::new(1), 40_000);
        assert!(out.spun * 10 < out.elapsed, "{out:?}");
    }

    #[test]
    fn slow_requests_are_slept_for() {
        let mut spin = Spin::new(LIMIT);
        let out = run(&mut spin, &SLOW, &mut Rng::new(1), 20_000);
        assert!(out.spun / out.packets < 5_000, "{out:?}");
    }

    #[test]
    fn it_learns_again() {
        let (mut spin, mut rng) = (Spin::new(LIMIT), Rng::new(7));
        for round in 0..6 {
            let load = [&FULL_CLIENT, &PING_PONG, &SLOW, &PING_PONG][round % 4];
            let before = spin.spun().as_nanos() as u64;
            let out = run(&mut spin, load, &mut rng, 40_000);
            if round % 2 == 1 {
                assert!(out.slept_late * 200 < out.packets, "round {round}: {out:?}");
            } else {
                assert!((out.spun - before) * 8 < out.elapsed, "round {round}: {out:?}");
            }
        }
    }

    #[test]
    fn looking_costs_at_most_twice_what_foresight_would() {
        let mut rng = Rng::new(3);
        let limit = LIMIT.as_nanos() as u64;
        for _ in 0..2_000 {
            let mut spin = Spin::new(LIMIT);
            let scale = 1 + rng.below(20);
            let gap = rng.below(1 << scale);
            let mut looked_at = 0;
            let slept = loop {
                if looked_at >= gap {
                    break false;
                }
                if !spin.looks_again(Instant::from_nanos(1 + looked_at)) {
                    break true;
                }
                looked_at += 1 + rng.below(2 * STEP);
            };
            let cost = looked_at + if slept { limit } else { 0 };
            assert!(cost <= 2 * gap.min(limit) + 2 * STEP, "gap {gap}: {cost}");
        }
    }

    #[test]
    fn zero_never_looks() {
        let mut spin = Spin::new(Duration::ZERO);
        assert!(!spin.looks_again(Instant::from_secs(1)));
        spin.on_work(Instant::from_secs(2), 1);
        assert_eq!(spin.spun(), Duration::ZERO);
    }

    /// What a load costs: CPU of looking and sleeping, and the time that packets take, which clients feel.
    fn cost(out: &Outcome, spun_before: u64) -> f64 {
        let cpu = out.spun - spun_before + out.sleeps * SLEEP_CPU;
        (cpu + out.elapsed) as f64 / out.packets as f64
    }

    #[test]
    fn never_far_from_the_better_way() {
        for seed in 0..60 {
            let mut rng = Rng::new(seed);
            let gap = 1 << (9 + rng.below(12));
            let gap = gap + rng.below(gap);
            let load = Load {
                gap,
                gap_after_sleep: if gap < 30_000 { gap + rng.below(15_000) } else { gap },
                steady: rng.below(3) == 0,
                random: rng.below(2) == 0,
            };
            let mut ways = [0.0; 3];
            for (way, cost_of) in ways.iter_mut().enumerate() {
                let mut spin = Spin::new(LIMIT);
                // Opinions that no vote can change: the two fixed ways.
                match way {
                    0 => (spin.wait, spin.hold) = (u32::MAX, 1),
                    1 => (spin.wait, spin.hold, spin.votes, spin.epoch.looks) = (u32::MAX, 1, -1, false),
                    _ => {}
                }
                *cost_of = cost(&run(&mut spin, &load, &mut Rng::new(seed), 20_000), 0);
            }
            let best = ways[0].min(ways[1]);
            assert!(
                ways[2] <= best * 1.5,
                "seed {seed}: look {}, sleep {}, ours {}",
                ways[0],
                ways[1],
                ways[2]
            );
        }
    }
}
