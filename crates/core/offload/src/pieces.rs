//! The packets in the engine: places that are allocated once, in chains.

use alloc::vec::Vec;
use base::{Instant, Seq};

/// No place.
pub(crate) const NONE: u32 = u32::MAX;

/// A packet that the engine has.
pub(crate) struct Piece<T> {
    pub(crate) seq: Seq,
    pub(crate) len: u32,
    /// Where its IP header starts.
    pub(crate) ip: usize,
    /// When it came.
    pub(crate) came: Instant,
    pub(crate) packet: T,
}

impl<T> Piece<T> {
    /// One past its last byte.
    pub(crate) fn end(&self) -> Seq {
        self.seq + self.len
    }
}

struct Place<T> {
    piece: Option<Piece<T>>,
    /// The next of its chain, or of the free ones.
    next: u32,
    /// Counts up with each arrival.
    order: u64,
}

pub(crate) struct Pieces<T> {
    places: Vec<Place<T>>,
    free: u32,
    used: u32,
    arrived: u64,
}

impl<T> Pieces<T> {
    pub(crate) fn new(count: u16) -> Self {
        let count = u32::from(count);
        let next = |at: u32| if at + 1 == count { NONE } else { at + 1 };
        let places = (0..count).map(|at| Place { piece: None, next: next(at), order: 0 }).collect();
        Pieces { places, free: 0, used: 0, arrived: 0 }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free == NONE
    }

    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    pub(crate) fn footprint(&self) -> usize {
        self.places.capacity() * size_of::<Place<T>>()
    }

    /// A place for a packet, at the end of no chain.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn put(&mut self, piece: Piece<T>) -> u32 {
        let at = self.free;
        let place = &mut self.places[at as usize];
        self.free = place.next;
        *place = Place { piece: Some(piece), next: NONE, order: self.arrived };
        self.arrived += 1;
        self.used += 1;
        at
    }

    /// Gives the place at `at` back: what was there, and the next of its chain.
    pub(crate) fn take(&mut self, at: u32) -> Option<(Piece<T>, u32)> {
        let place = self.places.get_mut(at as usize)?;
        let piece = place.piece.take()?;
        let next = core::mem::replace(&mut place.next, self.free);
        self.free = at;
        self.used -= 1;
        Some((piece, next))
    }

    /// # Panics
    /// If the place is free.
    pub(crate) fn get(&self, at: u32) -> &Piece<T> {
        self.places[at as usize].piece.as_ref().expect("a place in a chain is taken")
    }

    /// Takes what came first out of the chain that begins at `chain`: its place, of which nothing follows now.
    pub(crate) fn unchain_oldest(&mut self, chain: &mut u32) -> Option<u32> {
        let (mut oldest, mut before_oldest) = (*chain, NONE);
        let (mut at, mut before) = (*chain, NONE);
        while at != NONE {
            if self.places[at as usize].order < self.places[oldest as usize].order {
                (oldest, before_oldest) = (at, before);
            }
            (before, at) = (at, self.next(at));
        }
        let next = self.places.get(oldest as usize)?.next;
        match before_oldest {
            NONE => *chain = next,
            before => self.link(before, next),
        }
        self.link(oldest, NONE);
        Some(oldest)
    }

    /// When the first of a chain came, in time.
    pub(crate) fn oldest(&self, mut chain: u32) -> Option<Instant> {
        let mut first = None;
        while chain != NONE {
            first = Instant::earliest(first, Some(self.get(chain).came));
            chain = self.next(chain);
        }
        first
    }

    pub(crate) fn next(&self, at: u32) -> u32 {
        self.places[at as usize].next
    }

    pub(crate) fn link(&mut self, at: u32, next: u32) {
        self.places[at as usize].next = next;
    }
}
