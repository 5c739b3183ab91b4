//! The two positions of a single-producer, single-consumer queue, whatever it holds.
//!
//! ```text
//!        head              tail
//!   .....[ filled, reader's )[ free, writer's ).....
//! ```
//! Positions count for ever and wrap with the machine word; the place in the queue is the position modulo its
//! capacity, a power of two. Each side keeps its own position and the last one it saw of the other, so that it
//! touches the other's cache line only when what it remembers is not enough.

use crate::sync::Line;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What both sides share.
#[derive(Debug)]
pub(crate) struct Ends {
    tail: Line<AtomicUsize>,
    head: Line<AtomicUsize>,
    writer_gone: AtomicBool,
    reader_gone: AtomicBool,
}

impl Ends {
    /// An empty queue whose positions start at `at`.
    pub(crate) fn new(at: usize) -> (Ends, Writer, Reader) {
        let ends = Ends {
            tail: Line(AtomicUsize::new(at)),
            head: Line(AtomicUsize::new(at)),
            writer_gone: AtomicBool::new(false),
            reader_gone: AtomicBool::new(false),
        };
        (ends, Writer { tail: at, head_seen: at }, Reader { head: at, tail_seen: at })
    }

    /// Head and tail, for whoever knows that both sides are gone.
    pub(crate) fn last(&self) -> (usize, usize) {
        (self.head.0.load(Ordering::Relaxed), self.tail.0.load(Ordering::Relaxed))
    }

    pub(crate) fn writer_leaves(&self) {
        self.writer_gone.store(true, Ordering::Release);
    }

    pub(crate) fn reader_leaves(&self) {
        self.reader_gone.store(true, Ordering::Release);
    }

    /// After `true`, everything that was ever published can be seen.
    pub(crate) fn writer_gone(&self) -> bool {
        self.writer_gone.load(Ordering::Acquire)
    }

    pub(crate) fn reader_gone(&self) -> bool {
        self.reader_gone.load(Ordering::Acquire)
    }
}

/// The producer's side: it alone fills places from `tail` up to `head + capacity`.
#[derive(Debug)]
pub(crate) struct Writer {
    tail: usize,
    head_seen: usize,
}

impl Writer {
    /// Position of the next place to fill.
    #[inline]
    pub(crate) fn tail(&self) -> usize {
        self.tail
    }

    /// Free places; exact only if fewer than `want` are.
    #[inline]
    pub(crate) fn room(&mut self, ends: &Ends, capacity: usize, want: usize) -> usize {
        let room = capacity - self.tail.wrapping_sub(self.head_seen);
        if room >= want {
            return room;
        }
        // Pairs with `Reader::release`: the reader is done with what it gave free.
        self.head_seen = ends.head.0.load(Ordering::Acquire);
        capacity - self.tail.wrapping_sub(self.head_seen)
    }

    /// Free places, looked up without remembering.
    #[inline]
    pub(crate) fn vacant(&self, ends: &Ends, capacity: usize) -> usize {
        capacity - self.tail.wrapping_sub(ends.head.0.load(Ordering::Acquire))
    }

    /// Hand over the next `count` places, filled.
    #[inline]
    pub(crate) fn publish(&mut self, ends: &Ends, count: usize) {
        self.tail = self.tail.wrapping_add(count);
        ends.tail.0.store(self.tail, Ordering::Release);
    }
}

/// The consumer's side: it alone empties places from `head` up to `tail`.
#[derive(Debug)]
pub(crate) struct Reader {
    head: usize,
    tail_seen: usize,
}

impl Reader {
    /// Position of the next place to empty.
    #[inline]
    pub(crate) fn head(&self) -> usize {
        self.head
    }

    /// Filled places; exact only if fewer than `want` are.
    #[inline]
    pub(crate) fn filled(&mut self, ends: &Ends, want: usize) -> usize {
        let filled = self.tail_seen.wrapping_sub(self.head);
        if filled >= want {
            return filled;
        }
        // Pairs with `Writer::publish`: what was filled can be seen.
        self.tail_seen = ends.tail.0.load(Ordering::Acquire);
        self.tail_seen.wrapping_sub(self.head)
    }

    /// Filled places, looked up without remembering.
    #[inline]
    pub(crate) fn waiting(&self, ends: &Ends) -> usize {
        ends.tail.0.load(Ordering::Acquire).wrapping_sub(self.head)
    }

    /// Filled places that this side knows of, without looking at the other.
    #[inline]
    pub(crate) fn known(&self) -> usize {
        self.tail_seen.wrapping_sub(self.head)
    }

    /// Give the first `count` places free.
    #[inline]
    pub(crate) fn release(&mut self, ends: &Ends, count: usize) {
        self.head = self.head.wrapping_add(count);
        ends.head.0.store(self.head, Ordering::Release);
    }
}
