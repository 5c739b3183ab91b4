//! A bounded queue from one thread to another.

use crate::ends::{Ends, Reader, Writer};
use crate::sync::{Arc, UnsafeCell};
use core::fmt;
use core::mem::MaybeUninit;

struct Shared<T> {
    ends: Ends,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: a slot belongs to one side at a time (see `ends`), so sharing the queue only sends items across.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Shared<T> {
    #[inline]
    fn slot(&self, position: usize) -> &UnsafeCell<MaybeUninit<T>> {
        &self.slots[position & (self.slots.len() - 1)]
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let (mut head, tail) = self.ends.last();
        while head != tail {
            // SAFETY: both sides are gone, and `head..tail` is filled.
            self.slot(head).with_mut(|item| unsafe { (*item).assume_init_drop() });
            head = head.wrapping_add(1);
        }
    }
}

/// A queue of at least `capacity` items (rounded up to a power of two). Panics if `capacity` is 0 or does not fit.
pub fn queue<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    queue_at(capacity, 0)
}

/// [`queue`] whose positions start at `at`, for models that walk over the end of the machine word.
fn queue_at<T: Send>(capacity: usize, at: usize) -> (Producer<T>, Consumer<T>) {
    assert!(capacity > 0, "a queue holds something");
    let capacity = capacity.checked_next_power_of_two().expect("capacity fits the machine word");
    let slots = (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let (ends, writer, reader) = Ends::new(at);
    let shared = Arc::new(Shared { ends, slots });
    (Producer { writer, shared: shared.clone() }, Consumer { reader, shared })
}

/// The end that items go in.
pub struct Producer<T> {
    writer: Writer,
    shared: Arc<Shared<T>>,
}

impl<T> Producer<T> {
    /// Most items the queue holds.
    pub fn capacity(&self) -> usize {
        self.shared.slots.len()
    }

    /// Free places, looked up afresh.
    #[inline]
    pub fn room(&mut self) -> usize {
        let capacity = self.capacity();
        self.writer.room(&self.shared.ends, capacity, capacity)
    }

    /// Append one item; a full queue gives it back.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.writer.room(&self.shared.ends, self.shared.slots.len(), 1) == 0 {
            return Err(item);
        }
        self.fill(0, item);
        self.writer.publish(&self.shared.ends, 1);
        Ok(())
    }

    /// Append items, published together, until the queue is full or there are no more; how many. What does not fit
    /// stays in the iterator.
    #[inline]
    pub fn push_batch(&mut self, items: &mut impl Iterator<Item = T>) -> usize {
        let (least, most) = items.size_hint();
        let want = most.unwrap_or(least).max(1);
        let room = self.writer.room(&self.shared.ends, self.shared.slots.len(), want);
        let mut count = 0;
        while count < room {
            let Some(item) = items.next() else { break };
            self.fill(count, item);
            count += 1;
        }
        if count > 0 {
            self.writer.publish(&self.shared.ends, count);
        }
        count
    }

    /// Is the other end gone? What is pushed then is dropped with the queue.
    pub fn is_abandoned(&self) -> bool {
        self.shared.ends.reader_gone()
    }

    /// Fills the place `ahead` places after the tail, which must be free.
    #[inline]
    fn fill(&self, ahead: usize, item: T) {
        let slot = self.shared.slot(self.writer.tail().wrapping_add(ahead));
        // SAFETY: the callers saw more than `ahead` free places, which are the writer's alone until published.
        slot.with_mut(|place| unsafe {
            (*place).write(item);
        });
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.shared.ends.writer_leaves();
    }
}

/// The end that items come out of, in order.
pub struct Consumer<T> {
    reader: Reader,
    shared: Arc<Shared<T>>,
}

impl<T> Consumer<T> {
    /// Most items the queue holds.
    pub fn capacity(&self) -> usize {
        self.shared.slots.len()
    }

    /// Items waiting, looked up afresh.
    #[inline]
    pub fn len(&mut self) -> usize {
        self.reader.filled(&self.shared.ends, usize::MAX)
    }

    /// Does nothing wait?
    #[inline]
    pub fn is_empty(&mut self) -> bool {
        self.reader.filled(&self.shared.ends, 1) == 0
    }

    /// Items waiting at this moment; for who may only look.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.reader.waiting(&self.shared.ends)
    }

    /// The first item, left where it is.
    #[inline]
    pub fn front(&mut self) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: the first place is filled and the reader's until `release`, which needs `&mut self`.
        Some(self.shared.slot(self.reader.head()).with(|item| unsafe { (*item).assume_init_ref() }))
    }

    /// Take the first item.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let item = self.empty(0);
        self.reader.release(&self.shared.ends, 1);
        Some(item)
    }

    /// Take up to `max` items, all places given free together, and append them to `into`; how many.
    #[inline]
    pub fn pop_batch(&mut self, into: &mut Vec<T>, max: usize) -> usize {
        let count = self.reader.filled(&self.shared.ends, max).min(max);
        // Before anything is taken out: growing may panic, and then nothing may be gone.
        into.reserve(count);
        for ahead in 0..count {
            into.push(self.empty(ahead));
        }
        if count > 0 {
            self.reader.release(&self.shared.ends, count);
        }
        count
    }

    /// Is the other end gone? What it pushed may still wait.
    pub fn is_orphaned(&self) -> bool {
        self.shared.ends.writer_gone()
    }

    /// Is the other end gone and everything it pushed taken?
    pub fn is_finished(&mut self) -> bool {
        // In this order: what was pushed before the other end went is seen after its going.
        self.shared.ends.writer_gone() && self.is_empty()
    }

    /// Moves out the item `ahead` places after the head, which must be filled.
    #[inline]
    fn empty(&self, ahead: usize) -> T {
        let slot = self.shared.slot(self.reader.head().wrapping_add(ahead));
        // SAFETY: the callers saw more than `ahead` filled places and release each once, after this.
        slot.with(|item| unsafe { (*item).assume_init_read() })
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.shared.ends.reader_leaves();
    }
}

impl<T> fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Producer(of {})", self.capacity())
    }
}

impl<T> fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Consumer(of {}, {} known)", self.capacity(), self.reader.known())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    //! Goal: a queue is a bounded `VecDeque`, drops each item once, and wraps where the machine word does.
    use super::*;
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
