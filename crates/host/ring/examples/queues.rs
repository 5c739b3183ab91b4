//! Cost of the queues in nanoseconds per operation: `cargo run --release -p millstream-ring --example queues`.
//!
//! "warm" is one thread that plays both sides, "cross" two threads on two cores (or taking turns on one).

#![cfg_attr(loom, allow(unused))]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[cfg(loom)]
fn main() {}

#[cfg(not(loom))]
fn main() {
    frames();
    items();
    bytes();
    bell();
    shared();
}

#[cfg(not(loom))]
fn report(what: &str, operations: u64, run: impl FnOnce()) {
    let start = std::time::Instant::now();
    run();
    let nanos = start.elapsed().as_nanos() as f64 / operations as f64;
    println!("{what:<46} {nanos:>9.2} ns");
}

#[cfg(not(loom))]
fn frames() {
    let mut pool = ring::FramePool::new(4096, 2048).expect("8 MiB can be mapped");
    println!("{pool:?}");
    let rounds = 2_000_000u64;
    report("frame: take, write 8 bytes, retire", rounds, || {
        for i in 0..rounds {
            if let Some(mut frame) = pool.take() {
                frame.set_range(64, 8);
                frame.data_mut().copy_from_slice(&i.to_ne_bytes());
                pool.retire(frame);
            }
        }
    });
    report("frame: take, lend, reclaim, retire", rounds, || {
        for _ in 0..rounds {
            let index = pool.take().map(|frame| pool.lend(frame));
            if let Some(frame) = index.and_then(|index| pool.reclaim(index, 0, 60)) {
                pool.retire(frame);
            }
        }
    });
}

#[cfg(not(loom))]
fn items() {
    let rounds = 20_000_000u64;
    let (mut tx, mut rx) = ring::spsc::queue::<u64>(1024);
    report("queue: push and pop, warm", rounds, || {
        let mut sum = 0;
        for i in 0..rounds {
            tx.push(i).expect("it was emptied");
            sum += rx.pop().unwrap_or_default();
        }
        assert_eq!(sum, rounds * (rounds - 1) / 2);
    });
    let mut out = Vec::with_capacity(64);
    report("queue: 32 in a batch, warm, per item", rounds, || {
        for start in (0..rounds).step_by(32) {
            tx.push_batch(&mut (start..start + 32));
            rx.pop_batch(&mut out, 32);
            out.clear();
        }
    });
    for batch in [1, 32] {
        let (mut tx, mut rx) = ring::spsc::queue::<u64>(1024);
        let rounds = rounds / 4;
        report(&format!("queue: cross, batches of {batch}, per item"), rounds, || {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut next = 0;
                    while next < rounds {
                        let sent = tx.push_batch(&mut (next..rounds.min(next + batch))) as u64;
                        next += sent;
                        if sent == 0 {
                            std::thread::yield_now();
                        }
                    }
                });
                let (mut seen, mut out) = (0, Vec::with_capacity(64));
                while seen < rounds {
                    let got = rx.pop_batch(&mut out, batch as usize) as u64;
                    seen += got;
                    out.clear();
                    if got == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        });
    }
}

#[cfg(not(loom))]
fn bytes() {
    for size in [64, 1460, 16_384] {
        let (mut tx, mut rx) = ring::bytes::bytes(65_536);
        let (data, mut into) = (vec![7; size], vec![0; size]);
        let rounds = 200_000_000 / (size as u64 + 200);
        report(&format!("bytes: write and read {size}, warm"), rounds, || {
            for _ in 0..rounds {
                tx.write(&data);
                rx.read(&mut into);
            }
        });
    }
}

#[cfg(not(loom))]
fn bell() {
    let (ringer, mut sleeper) = ring::doorbell().expect("an eventfd can be had");
    let rounds = 5_000_000u64;
    report("doorbell: no thread sleeps", rounds, || {
        for _ in 0..rounds {
            ringer.ring();
        }
    });
    report("doorbell: sleep that finds work", rounds, || {
        for _ in 0..rounds {
            sleeper.sleep(None, || true).expect("no system call to fail");
        }
    });
    let rounds = 20_000u64;
    let (back, mut other) = ring::doorbell().expect("an eventfd can be had");
    report("doorbell: there and back, both asleep", rounds, || {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..rounds {
                    other.sleep(None, || false).expect("poll works");
                    ringer.ring_anyway();
                }
            });
            for _ in 0..rounds {
                back.ring_anyway();
                sleeper.sleep(None, || false).expect("poll works");
            }
        });
    });
}

#[cfg(not(loom))]
fn shared() {
    use ring::shared::{SharedMemory, WORD, copy_in, copy_out};
    let (memory, _) = SharedMemory::create(c"millstream-queues", 1 << 20).expect("a megabyte can be had");
    let words = memory.words(0, 1 << 20);
    for size in [60, 256, 1514, 65_000] {
        let mut data = vec![1; size];
        let rounds = 400_000_000 / (size as u64 + 400);
        report(&format!("shared: copy {size} in and out"), rounds, || {
            for i in 0..rounds {
                let at = (i % 8) as usize * 65_536 / WORD;
                copy_in(words, at, &data);
                copy_out(words, at, &mut data);
            }
        });
    }
}
