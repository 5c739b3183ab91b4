//! Is a helper worth its price? That is measured while the work is done, and where it is not, one lane does it all.
//!
//! ```text
//!   alone ... alone | alone, long jobs shared, all shared, five times in turns | what was cheapest ... | in turns ...
//! ```
//! An *epoch* is some thousand items. What it took the owner from end to end, divided by its items, is the price of an
//! item: with what showing a job costs, with waiting for a thread that is late, and with fetching from another's
//! cache what a helper has looked at, which comes later and elsewhere and no job could be charged with. Each time it
//! is the second of two epochs that counts, when helpers are awake. Sharing has to be cheaper by a sixteenth. It is
//! judged by its mean, so that a helper which is stopped in the middle counts, the owner alone by the median. What was
//! chosen is watched: once it has cost a few epochs more than the owner alone would have, it ends. The more often the
//! owner is better off alone, the longer it is before that is tried again; so trying costs little, whatever helpers
//! cost.

use base::Instant;

/// From how many items on a job is shared, level by level: none is, long ones are, or all with a run for each lane.
const FROM: [usize; 3] = [usize::MAX, 32, 8];
/// Items of an epoch: some tenths of a millisecond.
const EPOCH: u64 = 2_048;
/// Epochs of each level in a trial.
const ROUNDS: usize = 5;
/// A sharing this part cheaper is worth it.
const GAIN: u64 = 16;
/// Epochs until sharing is tried again, at first and at most, and until the owner alone is.
const ALONE_MIN: u32 = 64;
const ALONE_MAX: u32 = 2_048;
const SHARED: u32 = 512;
/// Epochs' worth that sharing may cost more than the owner alone before it ends; in a trial, as many times as much.
const DEBT: u64 = 4;
const OUT: u64 = 2;

/// Decision whether a job is shared.
pub(super) enum Sharing {
    /// Nothing: each is that has enough items.
    Always,
    /// Decided by measurement with a clock.
    WhereWorth(Box<Worth>, Box<dyn Fn() -> Instant + Send>),
}

impl Sharing {
    /// Items that a job has at least that is shared now.
    #[inline]
    pub(super) fn from(&self) -> usize {
        match self {
            Sharing::Always => 0,
            Sharing::WhereWorth(worth, _) => worth.from(),
        }
    }

    /// A job of so many items, which could be shared.
    #[inline]
    pub(super) fn on_job(&mut self, items: usize) {
        if let Sharing::WhereWorth(worth, clock) = self
            && worth.on_items(items)
        {
            worth.on_time(clock());
        }
    }

    /// The owner sleeps.
    pub(super) fn on_rest(&mut self) {
        if let Sharing::WhereWorth(worth, _) = self {
            worth.on_rest();
        }
    }

    /// Trials begun, and whether something is shared now.
    pub(super) fn told(&self) -> (u64, u64) {
        match self {
            Sharing::Always => (0, 1),
            Sharing::WhereWorth(worth, _) => (worth.trials, u64::from(worth.level > 0)),
        }
    }
}

/// Whether to share, and what is known of it.
pub(super) struct Worth {
    /// Level of sharing in this epoch.
    level: usize,
    begun: Option<Instant>,
    items: u64,
    trial: Option<Trial>,
    /// Epochs until the next trial, and how many they are the next time that the owner is better off alone.
    left: u32,
    alone_limit: u32,
    /// The price of an item without help when it was tried last, and what sharing cost above that since.
    alone: u64,
    debt: u64,
    trials: u64,
}

/// Prices of an item, level by level.
#[derive(Default)]
struct Trial {
    prices: [[u64; ROUNDS]; FROM.len()],
    round: usize,
    /// The epoch before was of this level, too: who slept is awake, and caches hold what this level leaves in them.
    warm: bool,
    out: [bool; FROM.len()],
}

impl Worth {
    /// Nothing is known: the owner begins alone.
    pub(super) fn new() -> Worth {
        Worth {
            level: 0,
            begun: None,
            items: 0,
            trial: None,
            left: ALONE_MIN / 8,
            alone_limit: ALONE_MIN,
            alone: 0,
            debt: 0,
            trials: 0,
        }
    }

    /// Items that a job has at least that is shared now.
    #[inline]
    pub(super) fn from(&self) -> usize {
        FROM[self.level]
    }

    /// Items of a job that could be shared, whether it was or not. True: [`Worth::on_time`] is to follow.
    #[inline]
    pub(super) fn on_items(&mut self, items: usize) -> bool {
        self.items += items as u64;
        self.begun.is_none() || self.items >= EPOCH
    }

    /// The owner had nothing to do for a while: what this epoch takes says nothing.
    #[inline]
    pub(super) fn on_rest(&mut self) {
        (self.begun, self.items) = (None, 0);
    }

    /// An epoch begins or ends.
    pub(super) fn on_time(&mut self, now: Instant) {
        let items = std::mem::take(&mut self.items).max(1);
        let Some(begun) = self.begun.replace(now) else { return };
        let price = (now.since(begun).as_nanos() as u64).saturating_mul(1_000) / items;
        match self.trial.take() {
            Some(trial) => self.tried(trial, price),
            None => self.went_on(price),
        }
    }

    fn went_on(&mut self, price: u64) {
        if self.level > 0 {
            self.debt = (self.debt + price).saturating_sub(self.alone);
            if self.debt > DEBT * self.alone {
                return self.settle(0);
            }
        }
        self.left -= 1;
        if self.left == 0 {
            if self.level > 0 {
                // It kept its promise.
                self.alone_limit = ALONE_MIN;
            }
            (self.level, self.trial) = (0, Some(Trial::default()));
            self.trials += 1;
        }
    }

    fn tried(&mut self, mut trial: Trial, price: u64) {
        let Trial { prices, round, warm, out } = &mut trial;
        prices[self.level][*round] = price;
        out[self.level] = self.level > 0 && price > OUT * prices[0][*round];
        *warm = !*warm && !out[self.level];
        if *warm {
            self.trial = Some(trial);
            return;
        }
        let next = (self.level + 1..FROM.len()).find(|level| !out[*level]);
        self.level = next.unwrap_or(0);
        *round += usize::from(next.is_none());
        if *round < ROUNDS && !out[1..].iter().all(|out| *out) {
            self.trial = Some(trial);
        } else {
            self.judge(&trial);
        }
    }

    fn judge(&mut self, trial: &Trial) {
        let mut alone = trial.prices[0];
        let alone = &mut alone[..trial.round];
        alone.sort_unstable();
        self.alone = alone[alone.len() / 2];
        let mean = |level: usize| trial.prices[level].iter().sum::<u64>() / ROUNDS as u64;
        let cheap = |level: &usize| !trial.out[*level] && mean(*level) < self.alone - self.alone / GAIN;
        let best = (1..FROM.len()).filter(cheap).min_by_key(|level| mean(*level));
        self.settle(best.unwrap_or(0));
    }

    fn settle(&mut self, level: usize) {
        (self.level, self.debt) = (level, 0);
        self.left = if level > 0 { SHARED } else { self.alone_limit };
        if level == 0 {
            self.alone_limit = (2 * self.alone_limit).min(ALONE_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: in virtual time, with what helpers cost as a model: who gains nothing by them loses next to nothing, who
    //! gains has nearly all of it, and what changes is noticed; stalls and noise do not fool it.
    use super::*;
    use base::{Duration, Rng};

    /// Cost of work, in picoseconds.
    #[derive(Clone, Copy)]
    struct Model {
        /// An item: what only the owner does, and what can be shared.
        owner: u64,
        shared: u64,
        /// A job that is shared: showing it and waiting.
        job: u64,
        /// An item that was shared, later on: fetching it from another's cache.
        far: u64,
        /// One shared job of so many has a helper that is stopped, for a millisecond; 0: none.
        stops: u64,
        /// Items of a job, at least and at most.
        sizes: (u64, u64),
    }

    const PLAIN: Model = Model { owner: 40_000, shared: 40_000, job: 0, far: 0, stops: 0, sizes: (64, 64) };

    impl Model {
        fn alone(&self, items: u64) -> u64 {
            items * (self.owner + self.shared)
        }

        fn together(&self, items: u64, rng: &mut Rng) -> u64 {
            let stop = if self.stops > 0 && rng.below(self.stops) == 0 { 1_000_000_000 } else { 0 };
            items * (self.owner + self.shared / 2 + self.far) + self.job + stop
        }
    }

    /// Does so many items of work; what it took, as a share of what the owner takes alone.
    fn work(worth: &mut Worth, at: &mut Instant, model: &Model, rng: &mut Rng, items: u64) -> f64 {
        let (mut left, mut took, mut alone) = (items, 0, 0);
        let begin = *at;
        while left > 0 {
            let size = (model.sizes.0 + rng.below(model.sizes.1 - model.sizes.0 + 1)).min(left);
            left -= size;
            let shares = size as usize >= worth.from();
            let price = if shares { model.together(size, rng) } else { model.alone(size) };
            // What else is in the way differs by a tenth.
            let noise = 95 + rng.below(11);
            took += price * noise / 100;
            alone += model.alone(size);
            *at = begin + Duration::from_nanos(took / 1_000);
            if size >= 8 && worth.on_items(size as usize) {
                worth.on_time(*at);
            }
        }
        took as f64 / alone as f64
    }

    const MANY: u64 = 6_000 * EPOCH;

    fn ratio(model: &Model, seed: u64) -> f64 {
        let (mut worth, mut at, mut rng) = (Worth::new(), Instant::from_secs(1), Rng::new(seed));
        work(&mut worth, &mut at, model, &mut rng, MANY)
    }

    #[test]
    #[cfg_attr(miri, ignore = "it is long, and nothing in it is unsafe")]
    fn who_gains_nothing_loses_next_to_nothing() {
        let dear = [
            Model { far: 20_000, ..PLAIN },
            // 0.82, 0.45 and a tenth of what one does.
            Model { far: 38_000, ..PLAIN },
            Model { far: 118_000, ..PLAIN },
            Model { far: 740_000, ..PLAIN },
            // Nearly, but not quite, so dear that a trial ends at once.
            Model { far: 90_000, ..PLAIN },
            // Each job costs more than it saves.
            Model { job: 2_000_000, ..PLAIN },
            Model { job: 1_000_000, sizes: (8, 40), ..PLAIN },
            // It would be worth it, but for a helper that is stopped now and then, or often.
            Model { stops: 1_000, ..PLAIN },
            Model { stops: 300, ..PLAIN },
            Model { stops: 30, ..PLAIN },
        ];
        for (nth, model) in dear.iter().enumerate() {
            for seed in 0..3 {
                let ratio = ratio(model, seed);
                assert!(ratio < 1.03, "model {nth}, seed {seed}: {ratio}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "it is long, and nothing in it is unsafe")]
    fn who_gains_has_nearly_all_of_it() {
        for (model, ideal) in [
            (PLAIN, 0.75),
            (Model { owner: 10_000, shared: 70_000, ..PLAIN }, 45.0 / 80.0),
            // 52 items a job.
            (Model { job: 500_000, sizes: (40, 64), ..PLAIN }, (52.0 * 60.0 + 500.0) / (52.0 * 80.0)),
        ] {
            for seed in 0..3 {
                let ratio = ratio(&model, seed);
                assert!(ratio < ideal + 0.02, "{ideal}, seed {seed}: {ratio}");
            }
        }
    }

    /// Short jobs that lose beside long ones that gain: the long ones alone are shared.
    #[test]
    #[cfg_attr(miri, ignore = "it is long, and nothing in it is unsafe")]
    fn how_long_a_job_has_to_be_is_found_out() {
        let model = Model { job: 600_000, sizes: (8, 64), ..PLAIN };
        let (mut worth, mut at, mut rng) = (Worth::new(), Instant::from_secs(1), Rng::new(1));
        let ratio = work(&mut worth, &mut at, &model, &mut rng, MANY);
        // All are 0.958, long ones alone 0.928.
        assert!(ratio < 0.94, "{ratio}");
        let short = (0..200).filter(|_| {
            work(&mut worth, &mut at, &model, &mut rng, EPOCH);
            worth.from() == FROM[2]
        });
        assert!(short.count() < 30, "all jobs are shared in trials only");
    }

    #[test]
    #[cfg_attr(miri, ignore = "it is long, and nothing in it is unsafe")]
    fn what_changes_is_noticed() {
        for seed in 0..3 {
            let (mut worth, mut at, mut rng) = (Worth::new(), Instant::from_secs(1), Rng::new(seed));
            let dear = Model { far: 118_000, ..PLAIN };
            work(&mut worth, &mut at, &PLAIN, &mut rng, MANY / 8);
            let gain = work(&mut worth, &mut at, &PLAIN, &mut rng, MANY / 8);
            assert!(gain < 0.78, "{gain}");
            // Another thread has the helper's core now.
            let loss = work(&mut worth, &mut at, &dear, &mut rng, MANY / 2);
            assert!(loss < 1.03, "{loss}");
            let again = work(&mut worth, &mut at, &PLAIN, &mut rng, MANY);
            assert!(again < 0.9, "and has left it: {again}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "it is long, and nothing in it is unsafe")]
    fn without_a_measure_nothing_is_shared() {
        // A clock that stands still, and an owner that always rests before an epoch is over.
        let (mut still, mut resting) = (Worth::new(), Worth::new());
        for job in 0..1_000_000u64 {
            if still.on_items(64) {
                still.on_time(Instant::from_secs(1));
            }
            if resting.on_items(64) {
                resting.on_time(Instant::from_secs(1) + Duration::from_micros(5 * job));
            }
            if job % 8 == 0 {
                resting.on_rest();
            }
            assert_eq!((resting.trials, resting.from()), (0, FROM[0]));
            assert!(still.trial.is_some() || still.from() == FROM[0], "but to try it");
        }
        assert!(still.trials > 1);
    }
}
