//! Goal: against a plain map of dates, nothing fires early, nothing late by more than a crowded slot's
//! length, and `next` always moves forward, over every level and across jumps of the clock.
use super::*;
use base::Rng;
use std::collections::BTreeMap;

/// Some of those with dates have later ones by now, or none, and a few earlier ones.
fn revise(wheel: &mut Wheel, oracle: &mut BTreeMap<u32, u64>, rng: &mut Rng) {
    let salt = rng.next_u64();
    wheel.revise(|index| {
        let noted = *oracle.get(&index)?;
        // A thread that is asked twice says the same.
        let mut draw = Rng::new(salt ^ u64::from(index));
        let at = match draw.below(16) {
            0..=5 => return oracle.remove(&index).and(None),
            6..=9 => noted.saturating_add(draw.next_u64() >> (19 + draw.below(45))),
            10 if salt.is_multiple_of(8) => noted - noted.min(draw.below(1 << 20)),
            _ => noted,
        };
        // From now on this is its date.
        oracle.insert(index, at);
        Some(Instant::from_nanos(at))
    });
}

/// Runs operations drawn from `seed` against the oracle.
fn model(seed: u64) {
    let mut rng = Rng::new(seed);
    let (mut wheel, mut oracle) = (Wheel::new(), BTreeMap::<u32, u64>::new());
    let mut now = rng.next_u64() >> (14 + rng.below(50));
    let mut due = Vec::new();
    for step in 0..3000 {
        match rng.below(12) {
            0..=5 => {
                let index = rng.below(600) as u32;
                let at = now + (rng.next_u64() >> (19 + rng.below(45)));
                wheel.note(index, Instant::from_nanos(at));
                let noted = oracle.entry(index).or_insert(at);
                *noted = at.min(*noted);
            }
            6 | 7 => now += rng.next_u64() >> (18 + rng.below(46)),
            8 | 9 => revise(&mut wheel, &mut oracle, &mut rng),
            _ => now = wheel.next().map_or(now, |at| at.as_nanos().max(now)),
        }
        let limit = 1 + rng.below(64) as usize;
        loop {
            due.clear();
            wheel.expire(Instant::from_nanos(now), limit, &mut due);
            for index in &due {
                let at = oracle.remove(index);
                assert!(
                    at.is_some_and(|at| at <= now),
                    "seed {seed} step {step}: {index} early, {at:?} {now}"
                );
            }
            if wheel.next().is_none_or(|at| at.as_nanos() > now) {
                break;
            }
            assert!(!due.is_empty(), "seed {seed} step {step}: no progress");
        }
        let late = oracle.values().find(|&&at| at <= now);
        assert!(late.is_none(), "seed {seed} step {step}: {late:?} not fired at {now}");
        let first = oracle.values().min();
        assert!(
            wheel.next().map(Instant::as_nanos) <= first.copied().or(Some(u64::MAX)),
            "seed {seed} step {step}"
        );
        assert!(wheel.next().is_some() || oracle.is_empty(), "seed {seed} step {step}");
    }
}

#[test]
fn against_a_map() {
    for seed in 0..40 {
        model(seed);
    }
}

#[test]
fn the_next_date_is_the_earliest_that_holds() {
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let (mut wheel, mut due) = (Wheel::new(), Vec::new());
        let mut now = rng.next_u64() >> (14 + rng.below(50));
        wheel.expire(Instant::from_nanos(now), 1, &mut due);
        let mut real = BTreeMap::new();
        for index in 0..1 + rng.below(5) as u32 {
            let noted = now + 1 + (rng.next_u64() >> (19 + rng.below(45)));
            wheel.note(index, Instant::from_nanos(noted));
            let later = noted + (rng.next_u64() >> (19 + rng.below(45)));
            real.insert(index, [None, Some(noted), Some(later)][rng.below(3) as usize]);
        }
        let ask = |real: &BTreeMap<u32, Option<u64>>, index| real[&index].map(Instant::from_nanos);
        // What happens is what was meant to, and nothing wakes the core in between.
        while let Some(first) = real.values().flatten().min().copied() {
            wheel.revise(|index| ask(&real, index));
            assert_eq!(wheel.next().map(Instant::as_nanos), Some(first), "seed {seed}");
            now = first;
            due.clear();
            wheel.expire(Instant::from_nanos(now), 64, &mut due);
            assert!(!due.is_empty() && due.iter().all(|index| real[index] == Some(now)), "seed {seed}");
            for index in &due {
                real.insert(*index, None);
            }
        }
        wheel.revise(|index| ask(&real, index));
        assert_eq!(wheel.next(), None, "seed {seed}");
    }
}

#[test]
fn who_asks_a_crowd_asks_some_of_it() {
    let mut wheel = Wheel::new();
    for index in 0..100_000 {
        wheel.note(index, Instant::from_secs(1));
    }
    let mut asked = 0;
    wheel.revise(|_| {
        asked += 1;
        Some(Instant::from_secs(1))
    });
    assert!((WAYS..=REVISE_BUDGET * WAYS).contains(&asked), "{asked}");
    assert_eq!(wheel.next(), Some(Instant::from_secs(1)));
}

#[test]
fn a_million_timers_of_one_slot_do_not_stop_the_core() {
    let mut wheel = Wheel::new();
    let day = 86_400_000_000_000;
    for index in 0..100_000 {
        wheel.note(index, Instant::from_nanos(day + u64::from(index)));
    }
    let (mut due, mut turns, mut fired) = (Vec::new(), 0, 0);
    while fired < 100_000 {
        due.clear();
        wheel.expire(Instant::from_nanos(day + 100_000), 1024, &mut due);
        assert!(due.len() <= 1024);
        fired += due.len();
        turns += 1;
    }
    assert!(turns >= 100_000 / 1024);
    assert_eq!(wheel.next(), None);
}

#[test]
fn dates_taken_back_leave_no_lines_behind() {
    let mut wheel = Wheel::new();
    let hour = Instant::from_secs(3_600);
    let mut due = Vec::new();
    for round in 1..2_000u64 {
        let soon = Instant::from_millis(40 * round);
        for index in 0..50 {
            wheel.note(index, hour);
            wheel.note(index, soon);
        }
        due.clear();
        wheel.expire(soon, 64, &mut due);
        assert_eq!(due.len(), 50);
    }
    assert_eq!(wheel.lines.lines.len(), PAGE, "a page of lines for fifty dates");
    assert_eq!(wheel.next(), None);
}

#[test]
fn moving_a_date_later_changes_nothing() {
    let mut wheel = Wheel::new();
    wheel.note(3, Instant::from_millis(10));
    wheel.note(3, Instant::from_millis(20));
    assert_eq!(wheel.next(), Some(Instant::from_millis(10)));
    let mut due = Vec::new();
    wheel.expire(Instant::from_nanos(9_999_999), 8, &mut due);
    assert!(due.is_empty());
    wheel.expire(Instant::from_millis(10), 8, &mut due);
    assert_eq!(due, [3]);
}
