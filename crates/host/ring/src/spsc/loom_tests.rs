//! Goal: under every interleaving items arrive once, in order, and none is lost when an end goes.
use super::*;
use crate::sync::Arc;

#[test]
fn loom_order_and_end() {
    loom::model(|| {
        // One turn before the machine word ends: wrapping is explored too.
        let (mut tx, mut rx) = queue_at::<Box<u32>>(2, usize::MAX);
        let sender = loom::thread::spawn(move || {
            let mut next = 0;
            while next < 3 {
                match tx.push(Box::new(next)) {
                    Ok(()) => next += 1,
                    Err(_) => loom::thread::yield_now(),
                }
            }
        });
        let mut expected = 0;
        while !rx.is_finished() {
            match rx.pop() {
                Some(item) => {
                    assert_eq!(*item, expected);
                    expected += 1;
                }
                None => loom::thread::yield_now(),
            }
        }
        assert_eq!(expected, 3);
        sender.join().unwrap();
    });
}

#[test]
fn loom_batches() {
    loom::model(|| {
        let (mut tx, mut rx) = queue_at::<u32>(2, usize::MAX);
        let sender = loom::thread::spawn(move || {
            let mut items = 0..4;
            while !items.is_empty() {
                if tx.push_batch(&mut items) == 0 {
                    loom::thread::yield_now();
                }
            }
        });
        let mut out = Vec::new();
        while out.len() < 4 {
            if rx.pop_batch(&mut out, 2) == 0 {
                loom::thread::yield_now();
            }
        }
        assert_eq!(out, [0, 1, 2, 3]);
        sender.join().unwrap();
    });
}

#[test]
fn loom_what_nobody_took_is_dropped_once() {
    loom::model(|| {
        let (mut tx, mut rx) = queue_at::<Arc<()>>(2, usize::MAX);
        let item = Arc::new(());
        let mine = item.clone();
        let sender = loom::thread::spawn(move || {
            tx.push(item.clone()).unwrap();
            tx.push(item).unwrap();
        });
        let first = rx.pop();
        drop(rx);
        sender.join().unwrap();
        assert_eq!(Arc::strong_count(&mine), 1 + usize::from(first.is_some()));
    });
}
