//! One core's way into a queue: whole records in a ring of bytes.
//!
//! ```text
//!   | len | record | len | record | pad | hole      |  end of the memory
//!   | len | record | ...
//! ```
//! A record lies in one piece. One that does not fit before the end of the memory begins at its start, and what is left
//! out is marked as a hole, which the reader skips. Records and their lengths start at multiples of four bytes, so
//! that there is always room for the mark.

use super::batch::{Batch, HEAD};
use super::config::{Config, Policy, Refused};
use base::Duration;
use ring::Ringer;
use ring::bytes::{ByteConsumer, ByteProducer, bytes};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// In place of a length: nothing more before the end of the memory.
const HOLE: u32 = u32::MAX;
/// How long a producer that blocks sleeps before it looks again.
const NAP: Duration = Duration::from_micros(200);

/// Counters of the two ends of a ring.
#[derive(Default, Debug)]
pub(super) struct Tally {
    /// Records the ring took, and records it refused.
    pub(super) taken: AtomicU64,
    pub(super) refused: AtomicU64,
    /// Records that are in the file.
    pub(super) written: AtomicU64,
}

/// State that all ends of a queue share.
#[derive(Default, Debug)]
pub(super) struct Shared {
    /// A thread drains the rings.
    pub(super) active: AtomicBool,
    /// The file takes nothing.
    pub(super) failed: AtomicBool,
    /// The queue takes nothing any more.
    pub(super) closed: AtomicBool,
}

/// Adds to a counter that only one thread writes.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

fn padded(len: usize) -> usize {
    len.next_multiple_of(HEAD)
}

/// The end of a queue that one thread puts records into.
pub struct Producer {
    ring: ByteProducer,
    policy: Policy,
    tally: Arc<Tally>,
    shared: Arc<Shared>,
    bell: Option<Ringer>,
    /// Longest record.
    most: usize,
    /// Bytes put in since the bell was last rung.
    unrung: usize,
}

/// The ring of one producer.
pub(super) fn ring_pair(config: &Config, shared: &Arc<Shared>, bell: Option<Ringer>) -> (Producer, Consumer) {
    let Config { longest: most, policy, room, .. } = *config;
    assert!(most < HOLE as usize, "a record of {most} bytes");
    // Wherever in an empty ring the longest record is to begin, it finds a place: there, or behind a hole.
    let (producer, consumer) = bytes(room.max(2 * (HEAD + padded(most))));
    let tally = Arc::<Tally>::default();
    let (shared, heard) = (shared.clone(), tally.clone());
    (
        Producer { ring: producer, policy, tally, shared, bell, most, unrung: 0 },
        Consumer { ring: consumer, tally: heard },
    )
}

impl Producer {
    /// Puts one record in, in whole or not at all.
    ///
    /// # Errors
    /// Why not; it was counted as dropped.
    pub fn write(&mut self, record: &[u8]) -> Result<(), Refused> {
        let hole = self.seek(record.len())?;
        let need = HEAD + padded(record.len());
        let (first, second) = self.ring.spare(hole + need);
        let place = if hole == 0 { first } else { second };
        place[..HEAD].copy_from_slice(&(record.len() as u32).to_le_bytes());
        place[HEAD..HEAD + record.len()].copy_from_slice(record);
        if hole > 0 {
            let (first, _) = self.ring.spare(hole);
            first[..HEAD].copy_from_slice(&HOLE.to_le_bytes());
        }
        self.publish(hole + need, 1);
        Ok(())
    }

    /// Puts in all records of a batch, which is empty then. False, and nothing happened, if that is not done with one
    /// copy: then each is to be written for itself, and the batch cleared.
    pub fn write_batch<const PLACE: usize>(&mut self, batch: &mut Batch<PLACE>) -> bool {
        let bytes = batch.bytes();
        let (place, _) = self.ring.spare(bytes.len());
        if place.len() < bytes.len() || PLACE - HEAD > self.most || self.shared.closed.load(Ordering::Relaxed)
        {
            return false;
        }
        place.copy_from_slice(bytes);
        self.publish(bytes.len(), batch.len() as u64);
        batch.clear();
        true
    }

    /// Hands over what was put in.
    fn publish(&mut self, bytes: usize, records: u64) {
        self.ring.commit(bytes);
        add(&self.tally.taken, records);
        self.unrung += bytes;
        if self.unrung >= self.ring.capacity() / 2 {
            self.unrung = 0;
            if let Some(bell) = &self.bell {
                bell.ring();
            }
        }
    }

    /// [`Producer::place`], after waiting if need be. Counts what is refused.
    fn seek(&mut self, len: usize) -> Result<usize, Refused> {
        let place = self.place(len).or_else(|refused| self.wait(len, refused));
        if place.is_err() {
            add(&self.tally.refused, 1);
        }
        place
    }

    /// Finds a place for a record: how many bytes before it become a hole.
    fn place(&mut self, len: usize) -> Result<usize, Refused> {
        if len > self.most {
            return Err(Refused::TooLong);
        }
        if self.shared.closed.load(Ordering::Relaxed) {
            return Err(Refused::Closed);
        }
        let need = HEAD + padded(len);
        let (first, second) = self.ring.spare(need);
        if first.len() == need {
            return Ok(0);
        }
        if first.len() + second.len() < need {
            return Err(Refused::Full);
        }
        let hole = first.len();
        if self.ring.spare(hole + need).1.len() == need { Ok(hole) } else { Err(Refused::Full) }
    }

    /// Waits for room, if that is the policy and room may come.
    fn wait(&mut self, len: usize, mut refused: Refused) -> Result<usize, Refused> {
        while refused == Refused::Full && self.policy == Policy::Block {
            if !self.shared.active.load(Ordering::Acquire) {
                // Nothing drains it but, perhaps, this very thread.
                return Err(Refused::Full);
            }
            if self.shared.failed.load(Ordering::Acquire) {
                return Err(Refused::Failed);
            }
            if let Some(bell) = &self.bell {
                bell.ring();
            }
            std::thread::sleep(NAP);
            match self.place(len) {
                Ok(hole) => return Ok(hole),
                Err(why) => refused = why,
            }
        }
        Err(refused)
    }
}

/// The end that the writer takes records out of.
pub(super) struct Consumer {
    ring: ByteConsumer,
    pub(super) tally: Arc<Tally>,
}

impl Consumer {
    /// Gives `each` the records that wait, in order, while it says that it takes more.
    pub(super) fn drain(&mut self, mut each: impl FnMut(&[u8]) -> bool) {
        let (first, second) = self.ring.peek(usize::MAX);
        let (mut taken, mut more) = (0, true);
        for part in [first, second] {
            let mut at = 0;
            while more && let Some(&head) = part[at..].first_chunk::<HEAD>() {
                let len = u32::from_le_bytes(head);
                if len == HOLE {
                    at = part.len();
                    break;
                }
                let record = at + HEAD..at + HEAD + len as usize;
                at += HEAD + padded(len as usize);
                more = each(&part[record]);
            }
            taken += at;
        }
        self.ring.consume(taken);
    }

    /// Is it half full?
    pub(super) fn is_pressing(&self) -> bool {
        self.ring.waiting() >= self.ring.capacity() / 2
    }

    /// Bytes it holds at most.
    pub(super) fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// Counts a record as written.
    pub(super) fn count_written(&self) {
        add(&self.tally.written, 1);
    }
}
