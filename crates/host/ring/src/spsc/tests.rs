//! Goal: a queue is a bounded `VecDeque`, drops each item once, and wraps where the machine word does.
use super::*;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use base::Rng;
use std::collections::VecDeque;

/// An item that tells when it goes.
#[derive(Debug)]
struct Counted(u64, Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

fn model(rng: &mut Rng, steps: usize) {
    let dropped = Arc::default();
    let mut next = 0;
    let mut item = || {
        next += 1;
        Counted(next, Arc::clone(&dropped))
    };
    let start = 0usize.wrapping_sub(rng.below(8) as usize);
    let (mut tx, mut rx) = queue_at(1 + rng.below(9) as usize, start);
    let capacity = tx.capacity();
    let mut oracle = VecDeque::new();
    let mut out = Vec::new();
    for _ in 0..steps {
        match rng.below(4) {
            0 => {
                let it = item();
                let number = it.0;
                match tx.push(it) {
                    Ok(()) => oracle.push_back(number),
                    Err(back) => assert!(back.0 == number && oracle.len() == capacity),
                }
            }
            1 => {
                let mut items: Vec<_> = (0..rng.below(6)).map(|_| item()).collect();
                let (free, many) = (capacity - oracle.len(), items.len());
                let mut batch = items.drain(..).inspect(|it| oracle.push_back(it.0));
                assert_eq!(tx.push_batch(&mut batch), free.min(many));
                assert_eq!(batch.len(), many - free.min(many), "what does not fit stays");
                drop(batch);
                oracle.truncate(capacity);
            }
            2 => {
                assert_eq!(rx.front().map(|it| it.0), oracle.front().copied());
                assert_eq!(rx.pop().map(|it| it.0), oracle.pop_front());
            }
            _ => {
                let max = rng.below(6) as usize;
                let count = rx.pop_batch(&mut out, max);
                assert_eq!(count, max.min(oracle.len()));
                assert!(out.drain(..).map(|it| it.0).eq(oracle.drain(..count)));
            }
        }
        assert_eq!((rx.len(), tx.room()), (oracle.len(), capacity - oracle.len()));
        assert_eq!((rx.is_empty(), rx.waiting()), (oracle.is_empty(), oracle.len()));
    }
    assert!(!tx.is_abandoned() && !rx.is_finished() && !rx.is_orphaned());
    drop(tx);
    assert!(rx.is_orphaned());
    assert_eq!(rx.is_finished(), oracle.is_empty());
    drop(rx);
    assert_eq!(dropped.load(Ordering::Relaxed), next, "each item is dropped once");
}

#[test]
fn is_a_bounded_deque() {
    let (seeds, steps) = if cfg!(miri) { (8, 60) } else { (300, 300) };
    for seed in 0..seeds {
        eprintln!("seed {seed}");
        model(&mut Rng::new(seed), steps);
    }
}

#[test]
fn two_threads_keep_order() {
    let total: u64 = if cfg!(miri) { 200 } else { 200_000 };
    let (mut tx, mut rx) = queue::<Box<u64>>(16);
    let sender = std::thread::spawn(move || {
        let mut items = (0..total).map(Box::new).peekable();
        while items.peek().is_some() {
            if tx.push_batch(&mut items.by_ref().take(5)) == 0 {
                std::thread::yield_now();
            }
        }
    });
    let mut expected = 0;
    let mut out = Vec::new();
    while !rx.is_finished() {
        if rx.pop_batch(&mut out, 7) == 0 {
            std::thread::yield_now();
        }
        for item in out.drain(..) {
            assert_eq!(*item, expected);
            expected += 1;
        }
    }
    assert_eq!(expected, total);
    sender.join().unwrap();
}
