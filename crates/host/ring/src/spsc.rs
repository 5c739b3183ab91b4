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
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;
