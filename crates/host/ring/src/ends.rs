//! The two positions of a single-producer, single-consumer queue, whatever it holds.
//!
//! ```text
//!        head              tail
//!   .....[ filled, reader's )[ free, writer's ).....
//! ```
//! Positions count for ever and wrap with the machine word; the place in the queue is the position modulo its
//! capacity, a power of two. Each side keeps its own position and the last one it saw of the other, so that it
//! touches the other's cache line only when what it remembers is not enough.

use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Arc, Line};
use core::fmt;

/// The places of a queue.
pub trait Places {
    /// How many there are, a power of two.
    fn capacity(&self) -> usize;

    /// Both sides are gone, and the places at `positions` are still filled.
    fn abandon(&mut self, positions: impl Iterator<Item = usize>);
}

/// State that both sides share.
struct Shared<P: Places> {
    tail: Line<AtomicUsize>,
    head: Line<AtomicUsize>,
    writer_gone: AtomicBool,
    reader_gone: AtomicBool,
    places: P,
}

impl<P: Places> Drop for Shared<P> {
    fn drop(&mut self) {
        let (head, tail) = (self.head.0.load(Ordering::Relaxed), self.tail.0.load(Ordering::Relaxed));
        self.places.abandon((0..tail.wrapping_sub(head)).map(|ahead| head.wrapping_add(ahead)));
    }
}

/// The two ends of an empty queue whose positions start at `at`.
pub(crate) fn ends<P: Places>(places: P, at: usize) -> (Writer<P>, Reader<P>) {
    let shared = Arc::new(Shared {
        tail: Line(AtomicUsize::new(at)),
        head: Line(AtomicUsize::new(at)),
        writer_gone: AtomicBool::new(false),
        reader_gone: AtomicBool::new(false),
        places,
    });
    (Writer { tail: at, head_seen: at, shared: shared.clone() }, Reader { head: at, tail_seen: at, shared })
}

/// The capacity that a caller's request for `least` places gets. Panics if that is 0 or does not fit.
pub(crate) fn capacity_for(least: usize) -> usize {
    assert!(least > 0, "a queue holds something");
    least.checked_next_power_of_two().expect("capacity fits the machine word")
}

/// The end of a queue that items or bytes go in. It alone fills places from `tail` up to `head + capacity`.
pub struct Writer<P: Places> {
    tail: usize,
    head_seen: usize,
    shared: Arc<Shared<P>>,
}

impl<P: Places> Writer<P> {
    /// The places; those from the tail on, as many as [`Writer::room_for`] said, are the writer's.
    #[inline]
    pub(crate) fn places(&self) -> &P {
        &self.shared.places
    }

    /// Most items or bytes that the queue holds.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.shared.places.capacity()
    }

    /// Position of the next place to fill.
    #[inline]
    pub(crate) fn tail(&self) -> usize {
        self.tail
    }

    /// Free places, looked up afresh.
    #[inline]
    pub fn room(&mut self) -> usize {
        self.room_for(self.capacity())
    }

    /// Free places; exact only if fewer than `want` are.
    #[inline]
    pub(crate) fn room_for(&mut self, want: usize) -> usize {
        let room = self.capacity() - self.tail.wrapping_sub(self.head_seen);
        if room >= want {
            return room;
        }
        // Pairs with `Reader::release`: the reader is done with what it gave free.
        self.head_seen = self.shared.head.0.load(Ordering::Acquire);
        self.capacity() - self.tail.wrapping_sub(self.head_seen)
    }

    /// Free places at this moment, for a caller with a shared reference.
    #[inline]
    pub fn vacant(&self) -> usize {
        self.capacity() - self.tail.wrapping_sub(self.shared.head.0.load(Ordering::Acquire))
    }

    /// Hand over the next `count` places, filled.
    #[inline]
    pub(crate) fn publish(&mut self, count: usize) {
        self.tail = self.tail.wrapping_add(count);
        self.shared.tail.0.store(self.tail, Ordering::Release);
    }

    /// Is the other end gone? What is put in then is dropped with the queue.
    pub fn is_abandoned(&self) -> bool {
        self.shared.reader_gone.load(Ordering::Acquire)
    }
}

impl<P: Places> Drop for Writer<P> {
    fn drop(&mut self) {
        self.shared.writer_gone.store(true, Ordering::Release);
    }
}

impl<P: Places> fmt::Debug for Writer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Writer(of {})", self.capacity())
    }
}

/// The end of a queue that items or bytes come out of, in order. It alone empties places from `head` up to `tail`.
pub struct Reader<P: Places> {
    head: usize,
    tail_seen: usize,
    shared: Arc<Shared<P>>,
}

impl<P: Places> Reader<P> {
    /// The places; those from the head on, as many as [`Reader::filled`] said, are the reader's.
    #[inline]
    pub(crate) fn places(&self) -> &P {
        &self.shared.places
    }

    /// Most items or bytes that the queue holds.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.shared.places.capacity()
    }

    /// Position of the next place to empty.
    #[inline]
    pub(crate) fn head(&self) -> usize {
        self.head
    }

    /// Filled places; exact only if fewer than `want` are.
    #[inline]
    pub(crate) fn filled(&mut self, want: usize) -> usize {
        let filled = self.tail_seen.wrapping_sub(self.head);
        if filled >= want {
            return filled;
        }
        // Pairs with `Writer::publish`: what was filled can be seen.
        self.tail_seen = self.shared.tail.0.load(Ordering::Acquire);
        self.tail_seen.wrapping_sub(self.head)
    }

    /// Filled places, looked up afresh.
    #[inline]
    pub fn len(&mut self) -> usize {
        self.filled(usize::MAX)
    }

    /// Does nothing wait?
    #[inline]
    pub fn is_empty(&mut self) -> bool {
        self.filled(1) == 0
    }

    /// Filled places at this moment, for a caller with a shared reference.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.shared.tail.0.load(Ordering::Acquire).wrapping_sub(self.head)
    }

    /// Give the first `count` places free.
    #[inline]
    pub(crate) fn release(&mut self, count: usize) {
        self.head = self.head.wrapping_add(count);
        self.shared.head.0.store(self.head, Ordering::Release);
    }

    /// Is the other end gone? What it put in may still wait; after `true` all of that can be seen.
    pub fn is_orphaned(&self) -> bool {
        self.shared.writer_gone.load(Ordering::Acquire)
    }

    /// Is the other end gone and everything that it put in taken?
    pub fn is_finished(&mut self) -> bool {
        // In this order: what was published before the writer went is seen after its going.
        self.is_orphaned() && self.is_empty()
    }
}

impl<P: Places> fmt::Debug for Reader<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader(of {}, {} known)", self.capacity(), self.tail_seen.wrapping_sub(self.head))
    }
}

impl<P: Places> Drop for Reader<P> {
    fn drop(&mut self) {
        self.shared.reader_gone.store(true, Ordering::Release);
    }
}
