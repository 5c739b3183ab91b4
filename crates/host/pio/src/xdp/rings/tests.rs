//! Goal: both ends agree with a plain queue whatever the order of operations, also where the counts wrap,
//! and a slot read on another thread is the slot that was written.
use super::*;
use base::Rng;
use std::collections::VecDeque;

#[test]
fn agrees_with_a_queue() {
    for seed in 0..if cfg!(miri) { 4 } else { 200 } {
        let mut rng = Rng::new(seed);
        let size = 1 << rng.below(5);
        let (mut producer, mut consumer) = detached::<u64>(size, u32::MAX - rng.below(40) as u32);
        let (mut pushed, mut published, mut released) = (VecDeque::new(), VecDeque::new(), 0);
        for step in 0..400_u64 {
            let occupied = pushed.len() + published.len() + released;
            match rng.below(5) {
                0 | 1 => {
                    let free = producer.free(rng.below(u64::from(size) + 2) as u32) as usize;
                    assert!(free <= size as usize - occupied, "seed {seed}");
                    if free > 0 {
                        producer.push(step);
                        pushed.push_back(step);
                    } else {
                        assert!(producer.free(1) as usize == size as usize - occupied, "seed {seed}");
                    }
                }
                2 => {
                    producer.publish();
                    published.append(&mut pushed);
                    assert_eq!(producer.unread() as usize, published.len() + released, "seed {seed}");
                }
                3 => {
                    let available = consumer.available(size) as usize;
                    assert_eq!(available, published.len(), "seed {seed}");
                    let count = rng.below(available as u64 + 1) as u32;
                    for ahead in 0..count {
                        assert_eq!(consumer.peek(ahead), published[ahead as usize], "seed {seed}");
                    }
                    consumer.advance(count);
                    published.drain(..count as usize);
                    released += count as usize;
                }
                _ => {
                    consumer.release();
                    released = 0;
                }
            }
        }
    }
}

#[test]
fn counts_that_cannot_be_break_the_ring() {
    for (ahead, breaks) in [(0, false), (1, false), (4, false), (5, true), (9, true), (u32::MAX, true)] {
        let (mut producer, mut consumer) = detached::<u64>(8, u32::MAX - 2);
        for value in 0..4 {
            assert!(producer.free(1) > 0);
            producer.push(value);
        }
        producer.publish();
        let read = producer.ring.consumer().load(Ordering::Relaxed).wrapping_add(ahead);
        consumer.ring.consumer().store(read, Ordering::Relaxed);
        let free = producer.free(u32::MAX);
        assert_eq!((free, producer.broken), if breaks { (0, true) } else { (4 + ahead, false) }, "{ahead}");
        assert_eq!(producer.unread(), if breaks { 0 } else { 4 - ahead }, "{ahead}");

        let written = consumer.next.wrapping_add(ahead.wrapping_mul(2));
        producer.ring.producer().store(written, Ordering::Relaxed);
        let filled = consumer.available(u32::MAX);
        let wanted = if breaks { (0, true) } else { (ahead.wrapping_mul(2), false) };
        assert_eq!((filled, consumer.broken), wanted, "{ahead}");
        // What is broken stays so, whatever is said later.
        producer.ring.producer().store(consumer.next.wrapping_add(1), Ordering::Relaxed);
        assert_eq!(consumer.available(u32::MAX), u32::from(!breaks), "{ahead}");
    }
}

#[test]
fn crosses_threads_in_order() {
    let total: u64 = if cfg!(miri) { 300 } else { 200_000 };
    let (mut producer, mut consumer) = detached::<[u64; 2]>(64, u32::MAX - 10);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut next = 0;
            while next < total {
                let room = u64::from(producer.free(1)).min(total - next);
                for value in next..next + room {
                    producer.push([value, !value]);
                }
                next += room;
                producer.publish();
                std::thread::yield_now();
            }
        });
        let mut next = 0;
        while next < total {
            let count = consumer.available(1);
            for ahead in 0..count {
                assert_eq!(consumer.peek(ahead), [next, !next]);
                next += 1;
            }
            consumer.advance(count);
            consumer.release();
            std::thread::yield_now();
        }
    });
}

#[test]
#[should_panic(expected = "outside its mapping")]
fn nonsense_from_the_kernel_is_refused() {
    let shared = Arc::new(Mapping::anonymous(4096, Pages::Normal).unwrap());
    Ring::<u64>::new(shared, Layout { producer: 0, consumer: 64, flags: 128, slots: 192 }, 512);
}
