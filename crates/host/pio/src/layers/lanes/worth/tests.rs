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
