//! A queue of descriptors in memory shared with a process that may be hostile.
//!
//! ```text
//!   offset  +0    tail: u32, written by the producer
//!           +64   head: u32, written by the consumer
//!           +128  capacity entries of W longs
//! ```
//! Each side keeps its own position in private memory and only ever writes it to the map; what it reads from the
//! peer is checked against what is possible, so a lying peer can spoil its own traffic and nothing else.

use crate::shared::{Outside, SharedMap};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::fmt;
use std::sync::Arc;

const TAIL: u64 = 0;
const HEAD: u64 = 64;
const ENTRIES: u64 = 128;

/// Octets that a queue of `capacity` entries of `W` longs takes in the map.
pub const fn shared_queue_len<const W: usize>(capacity: u32) -> u64 {
    ENTRIES + capacity as u64 * W as u64 * 8
}

/// The peer's position is impossible: it is broken or hostile, and nothing more is to be had from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrupt;

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("impossible position in a shared queue")
    }
}

impl core::error::Error for Corrupt {}

/// Where a queue lies.
#[derive(Debug)]
struct Place {
    map: Arc<SharedMap>,
    offset: u64,
    capacity: u32,
}

impl Place {
    fn new<const W: usize>(map: Arc<SharedMap>, offset: u64, capacity: u32) -> Result<Place, Outside> {
        let end = offset.checked_add(shared_queue_len::<W>(capacity)).ok_or(Outside)?;
        let fits = offset.is_multiple_of(64) && capacity.is_power_of_two() && capacity <= 1 << 30;
        if !fits || end > map.len() as u64 { Err(Outside) } else { Ok(Place { map, offset, capacity }) }
    }

    fn position(&self, at: u64) -> &AtomicU32 {
        self.map.word(self.offset + at).expect("the whole queue was checked to be inside")
    }

    fn long(&self, at: u64) -> &AtomicU64 {
        self.map.long(at).expect("the whole queue was checked to be inside")
    }

    fn entry<const W: usize>(&self, position: u32) -> u64 {
        self.offset + ENTRIES + u64::from(position & (self.capacity - 1)) * W as u64 * 8
    }
}

/// The end that descriptors go in.
#[derive(Debug)]
pub struct SharedProducer<const W: usize> {
    place: Place,
    tail: u32,
    head_seen: u32,
}

impl<const W: usize> SharedProducer<W> {
    /// The producer of the queue at `offset` (a multiple of 64) of memory that is still zero there. `capacity` is a
    /// power of two.
    pub fn new(map: Arc<SharedMap>, offset: u64, capacity: u32) -> Result<Self, Outside> {
        Ok(SharedProducer { place: Place::new::<W>(map, offset, capacity)?, tail: 0, head_seen: 0 })
    }

    /// Free places.
    pub fn room(&mut self) -> Result<u32, Corrupt> {
        let head = self.place.position(HEAD).load(Ordering::Acquire);
        // The head only moves forward, and never past the tail.
        if self.tail.wrapping_sub(head) > self.tail.wrapping_sub(self.head_seen) {
            return Err(Corrupt);
        }
        self.head_seen = head;
        Ok(self.place.capacity - self.tail.wrapping_sub(head))
    }

    /// Append as many entries as fit, published together; how many.
    pub fn push(&mut self, entries: &[[u64; W]]) -> Result<usize, Corrupt> {
        let mut room = self.place.capacity - self.tail.wrapping_sub(self.head_seen);
        if (room as usize) < entries.len() {
            room = self.room()?;
        }
        let count = entries.len().min(room as usize);
        for entry in &entries[..count] {
            let at = self.place.entry::<W>(self.tail);
            for (i, &long) in entry.iter().enumerate() {
                self.place.long(at + 8 * i as u64).store(long, Ordering::Relaxed);
            }
            self.tail = self.tail.wrapping_add(1);
        }
        if count > 0 {
            self.place.position(TAIL).store(self.tail, Ordering::Release);
        }
        Ok(count)
    }
}

/// The end that descriptors come out of, in order.
#[derive(Debug)]
pub struct SharedConsumer<const W: usize> {
    place: Place,
    head: u32,
    tail_seen: u32,
}

impl<const W: usize> SharedConsumer<W> {
    /// The consumer of the queue at `offset` (a multiple of 64) of memory whose head is still zero. `capacity` is a
    /// power of two.
    pub fn new(map: Arc<SharedMap>, offset: u64, capacity: u32) -> Result<Self, Outside> {
        Ok(SharedConsumer { place: Place::new::<W>(map, offset, capacity)?, head: 0, tail_seen: 0 })
    }

    /// Entries waiting.
    pub fn waiting(&mut self) -> Result<u32, Corrupt> {
        let tail = self.place.position(TAIL).load(Ordering::Acquire);
        let waiting = tail.wrapping_sub(self.head);
        // The tail only moves forward, and never more than the capacity before the head.
        if waiting > self.place.capacity || waiting < self.tail_seen.wrapping_sub(self.head) {
            return Err(Corrupt);
        }
        self.tail_seen = tail;
        Ok(waiting)
    }

    /// Take the first entry. Its content is the peer's word, nothing more.
    pub fn pop(&mut self) -> Result<Option<[u64; W]>, Corrupt> {
        if self.tail_seen == self.head && self.waiting()? == 0 {
            return Ok(None);
        }
        let at = self.place.entry::<W>(self.head);
        let mut entry = [0; W];
        for (i, long) in entry.iter_mut().enumerate() {
            *long = self.place.long(at + 8 * i as u64).load(Ordering::Relaxed);
        }
        self.head = self.head.wrapping_add(1);
        Ok(Some(entry))
    }

    /// Give the places of what was popped free to the producer: once per batch, when what the entries point to is
    /// done with.
    pub fn release(&mut self) {
        self.place.position(HEAD).store(self.head, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    //! Goal: an honest peer sees a bounded deque; a hostile one that scribbles anywhere causes errors, not harm.
    use super::*;
    use base::Rng;
    use std::collections::VecDeque;

    fn pair(capacity: u32) -> (Arc<SharedMap>, SharedProducer<2>, SharedConsumer<2>) {
        let len = 64 + shared_queue_len::<2>(capacity) as usize;
        let map = Arc::new(SharedMap::create("millstream-test", len).unwrap());
        let tx = SharedProducer::new(Arc::clone(&map), 64, capacity).unwrap();
        let rx = SharedConsumer::new(Arc::clone(&map), 64, capacity).unwrap();
        (map, tx, rx)
    }

    fn model(rng: &mut Rng, steps: usize, hostile: bool) {
        let capacity = 1 << rng.below(4);
        let (map, mut tx, mut rx) = pair(capacity);
        let mut oracle = VecDeque::new();
        // Popped, but its place is not yet free.
        let mut held = 0;
        for _ in 0..steps {
            match rng.below(4) {
                0 => {
                    let entries: Vec<_> =
                        (0..rng.below(5)).map(|_| [rng.next_u64(), rng.next_u64()]).collect();
                    match tx.push(&entries) {
                        Ok(count) if !hostile => {
                            assert_eq!(count, entries.len().min(capacity as usize - oracle.len() - held));
                            oracle.extend(&entries[..count]);
                        }
                        Ok(count) => assert!(count <= capacity as usize),
                        Err(Corrupt) => assert!(hostile),
                    }
                }
                1 | 2 => match rx.pop() {
                    Ok(entry) if !hostile => {
                        assert_eq!(entry, oracle.pop_front());
                        held += usize::from(entry.is_some());
                    }
                    Ok(_) => {}
                    Err(Corrupt) => assert!(hostile),
                },
                _ => {
                    rx.release();
                    held = 0;
                }
            }
            if hostile && rng.chance(0.2) {
                let words = map.len() as u64 / 4;
                let at = if rng.chance(0.5) { 64 + 64 * rng.below(2) } else { 4 * rng.below(words) };
                map.word(at).unwrap().store(rng.below(20) as u32, Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn honest_peers_see_a_bounded_deque() {
        for seed in 0..200 {
            eprintln!("seed {seed}");
            model(&mut Rng::new(seed), 300, false);
        }
    }

    #[test]
    fn hostile_peers_do_no_harm() {
        for seed in 0..200 {
            eprintln!("seed {seed}");
            model(&mut Rng::new(seed), 300, true);
        }
    }

    #[test]
    fn lies_are_found() {
        let (map, mut tx, mut rx) = pair(4);
        map.word(64).unwrap().store(5, Ordering::Relaxed);
        assert_eq!(rx.pop(), Err(Corrupt), "more than fit");
        map.word(128).unwrap().store(1, Ordering::Relaxed);
        assert_eq!(tx.room(), Err(Corrupt), "taken before it was there");
    }

    #[test]
    fn bad_places_are_refused() {
        let map = Arc::new(SharedMap::create("millstream-test", 1 << 12).unwrap());
        for (offset, capacity) in
            [(0, 3), (0, 0), (32, 4), (0, 1 << 10), (u64::MAX - 63, 4), (1 << 12, 4), (0, 1 << 31)]
        {
            assert!(
                SharedProducer::<2>::new(Arc::clone(&map), offset, capacity).is_err(),
                "{offset} {capacity}"
            );
        }
    }
}
