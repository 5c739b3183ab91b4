//! Goal: each item is done once, by whomever; nothing is touched afterwards; a panic is told and nothing hangs.
use super::*;
use base::Rng;
use std::collections::BTreeSet;
use std::sync::Mutex;

fn worker_pool(helpers: usize) -> WorkerPool {
    WorkerPool::start(helpers, "test", |_| {}).unwrap()
}

#[test]
fn each_item_once_whoever_helps() {
    for helpers in [0, 1, 3] {
        let mut worker_pool = worker_pool(helpers);
        assert_eq!(worker_pool.lanes(), 1 + helpers);
        let mut rng = Rng::new(helpers as u64);
        for job in 0..if cfg!(miri) { 20 } else { 3_000u64 } {
            let mut items: Vec<u64> = (0..rng.below(70)).collect();
            let run = 1 + rng.below(20) as usize;
            // Borrowed from this frame: the job must be over when `each` returns.
            let added = job.to_string();
            let done = worker_pool.each(&mut items, run, &|first, part: &mut [u64]| {
                for (nth, item) in part.iter_mut().enumerate() {
                    assert_eq!(*item, (first + nth) as u64);
                    *item += added.parse::<u64>().unwrap();
                }
            });
            assert_eq!(done, Ok(()));
            assert!(items.iter().enumerate().all(|(nth, item)| *item == nth as u64 + job));
        }
    }
}

#[test]
fn shares_are_all_of_it_and_none_twice() {
    for helpers in 0..5 {
        let worker_pool = worker_pool(helpers);
        for (len, run) in [(0, 3), (1, 1), (45, 12), (45, 4), (7, 100), (64, 1)] {
            let shares = (0..worker_pool.lanes()).flat_map(|lane| worker_pool.share(lane, len, run));
            assert!(shares.eq(0..len), "{len} in runs of {run} for {helpers} helpers");
        }
    }
}

#[test]
fn helpers_help_and_sleep_and_help_again() {
    let mut worker_pool = worker_pool(1);
    let who = Mutex::new(BTreeSet::new());
    for _ in 0..2 {
        who.lock().unwrap().clear();
        // Until both have had some of it, however long a thread takes to start or wake.
        while who.lock().unwrap().len() < 2 {
            let work = |_: usize, _: &mut [u8]| {
                who.lock().unwrap().insert(std::thread::current().name().map(str::to_owned));
                std::thread::yield_now();
            };
            worker_pool.each(&mut [0; 64], 1, &work).unwrap();
        }
        // Long enough to sleep; if it is still awake, the test only tests less.
        std::thread::sleep(std::time::Duration::from_millis(if cfg!(miri) { 1 } else { 20 }));
    }
}

#[test]
fn each_helper_begins_with_its_number_and_ends_with_the_worker_pool() {
    let begun = std::sync::Arc::new(Mutex::new(Vec::new()));
    let mine = begun.clone();
    let worker_pool = WorkerPool::start(3, "test", move |number| mine.lock().unwrap().push(number)).unwrap();
    drop(worker_pool);
    let mut begun = std::sync::Arc::into_inner(begun).expect("their threads are over").into_inner().unwrap();
    begun.sort_unstable();
    assert_eq!(begun, [0, 1, 2]);
}

#[test]
fn a_helpers_panic_is_told_and_stays() {
    let mut worker_pool = worker_pool(1);
    let owner = std::thread::current().id();
    let mut told = Ok(());
    while told.is_ok() {
        told = worker_pool.each(&mut [0; 64], 1, &|_, _: &mut [u8]| {
            assert!(std::thread::current().id() == owner, "a helper's panic, which is part of the test");
            std::thread::yield_now();
        });
    }
    assert_eq!(told, Err(Lost));
    assert_eq!(worker_pool.each(&mut [0; 64], 1, &|_, _: &mut [u8]| {}), Err(Lost));
    assert_eq!(worker_pool.each(&mut [0; 1], 1, &|_, _: &mut [u8]| {}), Err(Lost), "though it needs no help");
}

#[test]
fn the_owners_panic_waits_for_the_helpers() {
    let mut worker_pool = worker_pool(2);
    let owner = std::thread::current().id();
    let mut items = vec![0u8; 64];
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        worker_pool.each(&mut items, 1, &|_, part: &mut [u8]| {
            assert!(std::thread::current().id() != owner, "the owner's panic, which is part of the test");
            std::thread::sleep(std::time::Duration::from_millis(1));
            part[0] = 1;
        })
    }));
    // All 64 done by helpers before the owner came is possible, if hardly.
    if caught.is_err() {
        assert!(items.len() == 64, "nothing writes here any more");
        assert_eq!(worker_pool.each(&mut items, 1, &|_, _: &mut [u8]| {}), Err(Lost));
    }
}
