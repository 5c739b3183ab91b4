//! Goal: no interleaving sleeps over an item. (A lost wake-up is a deadlock, which loom reports.)
use super::*;
use crate::spsc;

#[test]
fn loom_nothing_is_slept_over() {
    loom::model(|| {
        let (mut tx, mut rx) = spsc::queue(2);
        let (ringer, mut sleeper) = doorbell().unwrap();
        let sender = loom::thread::spawn(move || {
            for item in 0..2u32 {
                tx.push(item).unwrap();
                ringer.ring();
            }
        });
        let mut expected = 0;
        while expected < 2 {
            match rx.pop() {
                Some(item) => {
                    assert_eq!(item, expected);
                    expected += 1;
                }
                None => {
                    sleeper.sleep(None, || !rx.is_empty()).unwrap();
                }
            }
        }
        sender.join().unwrap();
    });
}

#[test]
fn loom_two_ringers() {
    // Three threads: all schedules with up to three preemptions, which take seconds, not hours.
    let mut explorer = loom::model::Builder::new();
    explorer.preemption_bound = Some(3);
    explorer.check(|| {
        let (ringer, mut sleeper) = doorbell().unwrap();
        let ends: Vec<_> = (0..2)
            .map(|_| {
                let (mut tx, rx) = spsc::queue(1);
                let ringer = ringer.clone();
                let thread = loom::thread::spawn(move || {
                    tx.push(()).unwrap();
                    ringer.ring();
                });
                (rx, thread)
            })
            .collect();
        let (mut queues, threads): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
        let mut seen = 0;
        while seen < 2 {
            let found: usize = queues.iter_mut().map(|rx| usize::from(rx.pop().is_some())).sum();
            seen += found;
            if found == 0 {
                sleeper.sleep(None, || queues.iter_mut().any(|rx| !rx.is_empty())).unwrap();
            }
        }
        for thread in threads {
            thread.join().unwrap();
        }
    });
}
