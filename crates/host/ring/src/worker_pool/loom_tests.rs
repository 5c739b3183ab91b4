//! Goal: under every interleaving each run is done once, by a thread that sees the job it belongs to, before the
//! owner goes on; also by a helper that comes late, and when the owner panics.
use super::*;
use crate::sync::Arc;
use crate::sync::UnsafeCell;

/// An item that loom watches.
struct Item(UnsafeCell<u32>);

// SAFETY: this is what is tested: loom reports two at it.
unsafe impl Sync for Item {}
// SAFETY: as above.
unsafe impl Send for Item {}

fn add(item: &Item, more: u32) {
    // SAFETY: see `Item`.
    item.0.with_mut(|item| unsafe { *item += more });
}

fn of(item: &Item) -> u32 {
    // SAFETY: see `Item`.
    item.0.with(|item| unsafe { *item })
}

/// All schedules with up to three preemptions. A waiting thread may look often before another thread runs.
fn explorer() -> loom::model::Builder {
    let mut explorer = loom::model::Builder::new();
    (explorer.preemption_bound, explorer.max_branches) = (Some(3), 20_000);
    explorer
}

#[test]
fn loom_two_jobs_and_a_helper() {
    explorer().check(|| {
        let board = Arc::new(Board::new(2));
        let items: Arc<Vec<Item>> = Arc::new((0..2).map(|_| Item(UnsafeCell::new(0))).collect());
        let theirs = board.clone();
        let helper = loom::thread::spawn(move || {
            theirs.help(1);
            theirs.help(1);
        });
        for job in 1..=2u32 {
            board.share(2, &|run| add(&items[run], job), || ()).unwrap();
            assert!(items.iter().all(|item| of(item) == [1, 3][job as usize - 1]));
        }
        helper.join().unwrap();
    });
}

#[test]
fn loom_a_helper_that_sleeps_hears_of_the_end() {
    loom::model(|| {
        let board = Arc::new(Board::new(2));
        let (ringer, mut sleeper) = crate::doorbell::doorbell().unwrap();
        let theirs = board.clone();
        let helper = loom::thread::spawn(move || serve(&theirs, 1, &mut sleeper));
        board.stop.store(true, Ordering::Release);
        ringer.ring_anyway();
        helper.join().unwrap();
        assert_eq!(board.asleep.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn loom_two_helpers() {
    explorer().check(|| {
        let board = Arc::new(Board::new(2));
        let items: Arc<Vec<Item>> = Arc::new((0..2).map(|_| Item(UnsafeCell::new(0))).collect());
        let helpers: Vec<_> = (0..2)
            .map(|lane| {
                let theirs = board.clone();
                loom::thread::spawn(move || theirs.help(lane))
            })
            .collect();
        board.share(2, &|run| add(&items[run], 1), || ()).unwrap();
        assert!(items.iter().all(|item| of(item) == 1));
        board.share(1, &|run| add(&items[run], 1), || ()).unwrap();
        assert_eq!((of(&items[0]), of(&items[1])), (2, 1));
        for helper in helpers {
            helper.join().unwrap();
        }
    });
}
