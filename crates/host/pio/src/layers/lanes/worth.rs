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
    /// The epoch before was of this level, too: helpers that slept are awake, and caches hold what this level leaves in
    /// them.
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
mod tests;
