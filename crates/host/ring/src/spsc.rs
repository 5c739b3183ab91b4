//! A bounded queue from one thread to another.

use crate::ends::{Places, Reader, Writer, capacity_for, ends};
use crate::sync::UnsafeCell;
use core::mem::MaybeUninit;

/// Places for items.
pub struct Slots<T>(Box<[UnsafeCell<MaybeUninit<T>>]>);

// SAFETY: a slot belongs to one side at a time (see `ends`), so sharing the queue only sends items across.
unsafe impl<T: Send> Sync for Slots<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Slots<T> {}

impl<T> Slots<T> {
    #[inline]
    fn slot(&self, position: usize) -> &UnsafeCell<MaybeUninit<T>> {
        &self.0[position & (self.0.len() - 1)]
    }
}

impl<T> Places for Slots<T> {
    #[inline]
    fn capacity(&self) -> usize {
        self.0.len()
    }

    fn abandon(&mut self, positions: impl Iterator<Item = usize>) {
        for position in positions {
            // SAFETY: both sides are gone, and the place is filled.
            self.slot(position).with_mut(|item| unsafe { (*item).assume_init_drop() });
        }
    }
}

/// A queue of at least `capacity` items (rounded up to a power of two). Panics if `capacity` is 0 or does not fit.
pub fn queue<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    queue_at(capacity, 0)
}

/// [`queue`] whose positions start at `at`, for models that walk over the end of the machine word.
fn queue_at<T: Send>(capacity: usize, at: usize) -> (Producer<T>, Consumer<T>) {
    let slots = (0..capacity_for(capacity)).map(|_| UnsafeCell::new(MaybeUninit::uninit()));
    ends(Slots(slots.collect()), at)
}

/// The end that items go in.
pub type Producer<T> = Writer<Slots<T>>;

impl<T> Producer<T> {
    /// Append one item; a full queue gives it back.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.room_for(1) == 0 {
            return Err(item);
        }
        self.fill(0, item);
        self.publish(1);
        Ok(())
    }

    /// Append items, published together, until the queue is full or there are no more; how many. What does not fit
    /// stays in the iterator.
    #[inline]
    pub fn push_batch(&mut self, items: &mut impl Iterator<Item = T>) -> usize {
        let (least, most) = items.size_hint();
        let want = most.unwrap_or(least).max(1);
        let room = self.room_for(want);
        let mut count = 0;
        while count < room {
            let Some(item) = items.next() else { break };
            self.fill(count, item);
            count += 1;
        }
        if count > 0 {
            self.publish(count);
        }
        count
    }

    /// Fills the place `ahead` places after the tail, which must be free.
    #[inline]
    fn fill(&self, ahead: usize, item: T) {
        let slot = self.places().slot(self.tail().wrapping_add(ahead));
        // SAFETY: the callers saw more than `ahead` free places, which are the writer's alone until published.
        slot.with_mut(|place| unsafe {
            (*place).write(item);
        });
    }
}

/// The end that items come out of, in order.
pub type Consumer<T> = Reader<Slots<T>>;

impl<T> Consumer<T> {
    /// The first item, left where it is.
    #[inline]
    pub fn front(&mut self) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: the first place is filled and the reader's until `release`, which needs `&mut self`.
        Some(self.places().slot(self.head()).with(|item| unsafe { (*item).assume_init_ref() }))
    }

    /// Take the first item.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let item = self.empty(0);
        self.release(1);
        Some(item)
    }

    /// Take up to `max` items, all places given free together, and append them to `into`; how many.
    #[inline]
    pub fn pop_batch(&mut self, into: &mut Vec<T>, max: usize) -> usize {
        let count = self.filled(max).min(max);
        // Before anything is taken out: growing may panic, and then nothing may be gone.
        into.reserve(count);
        into.extend((0..count).map(|ahead| self.empty(ahead)));
        if count > 0 {
            self.release(count);
        }
        count
    }

    /// Moves out the item `ahead` places after the head, which must be filled.
    #[inline]
    fn empty(&self, ahead: usize) -> T {
        let slot = self.places().slot(self.head().wrapping_add(ahead));
        // SAFETY: the callers saw more than `ahead` filled places and release each once, after this.
        slot.with(|item| unsafe { (*item).assume_init_read() })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
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
}

#[cfg(all(test, loom))]
mod loom_tests {
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
}
