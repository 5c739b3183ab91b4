//! One direction of the shared memory: a ring of records between one producer and one consumer that need not
//! trust each other.
//!
//! ```text
//!   word 0      tail: bytes written since the beginning (producer's)
//!   word 8      head: bytes read since the beginning (consumer's)
//!   word 16     1 while the consumer wants to be woken for a record
//!   word 24     1 while the producer wants to be woken for room
//!   word 512..  the ring: records of [length (4), virtio-net header (12), frame, padding to 8]
//! ```
//! Each side keeps its own count at home and only publishes it. Of what the other side publishes nothing is
//! believed that cannot be: a count that runs ahead of the ring, a record longer than what was written or
//! than any frame.

use ring::shared::{SharedMemory, WORD, copy_in, copy_out};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Bytes of the ring: a power of two, room for thirty super-segments.
const RING: usize = if cfg!(miri) { 4 << 10 } else { 2 << 20 };
/// Bytes before it.
const CONTROL: usize = 4096;
/// Bytes of a lane.
pub(super) const LEN: usize = CONTROL + RING;
/// Bytes of a record before the frame.
const HEAD: usize = 16;
/// Longest frame.
pub(super) const FRAME_MAX: usize = if cfg!(miri) { 900 } else { 65535 + 22 };
/// Bytes of the virtio-net header in a record.
pub(super) const VNET: usize = HEAD - 4;

const _: () = assert!(RING.is_power_of_two() && RING > 4 * (HEAD + FRAME_MAX));

const TAIL: usize = 0;
const HEAD_COUNT: usize = 8;
const WANTS_RECORD: usize = 16;
const WANTS_ROOM: usize = 24;

/// The other side broke the rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Broken;

/// State that both ends have: the memory, and their own count.
struct End {
    region: Arc<SharedMemory>,
    /// Where the lane begins.
    at: usize,
    count: u64,
}

impl End {
    fn control(&self, word: usize) -> &AtomicU64 {
        &self.region.words(self.at, CONTROL)[word]
    }

    fn ring(&self) -> &[AtomicU64] {
        self.region.words(self.at + CONTROL, RING)
    }

    /// Word of the ring where byte `count` stands.
    fn place(count: u64) -> usize {
        (count as usize % RING) / WORD
    }

    /// Say that we want to be woken, unless what we want for has come: `word` is what to wait for and `seen`
    /// what it was. True if it may sleep.
    fn arm(&self, flag: usize, word: usize, seen: u64) -> bool {
        self.control(flag).store(1, Ordering::Relaxed);
        // Either the other side sees the flag after it published, or we see what it published.
        fence(Ordering::SeqCst);
        let may_sleep = self.control(word).load(Ordering::Relaxed) == seen;
        if !may_sleep {
            // The other side is spared a ring that nothing would hear.
            self.control(flag).store(0, Ordering::Relaxed);
        }
        may_sleep
    }

    /// After publishing: must the other side be woken?
    fn must_wake(&self, flag: usize) -> bool {
        fence(Ordering::SeqCst);
        self.control(flag).load(Ordering::Relaxed) != 0 && self.control(flag).swap(0, Ordering::Relaxed) != 0
    }
}

/// The writing end.
pub(super) struct Producer {
    end: End,
    /// The consumer's count as last believed.
    read: u64,
}

impl Producer {
    /// The only producer of the lane at byte `at`, which nothing has written to yet.
    pub(super) fn new(region: Arc<SharedMemory>, at: usize) -> Producer {
        Producer { end: End { region, at, count: 0 }, read: 0 }
    }

    /// Write a record; false if there is no room. It is seen after [`Producer::publish`].
    pub(super) fn push(&mut self, vnet: &[u8; VNET], frame: &[u8]) -> Result<bool, Broken> {
        debug_assert!(frame.len() <= FRAME_MAX);
        let need = (HEAD + frame.len()).next_multiple_of(WORD) as u64;
        if self.end.count - self.read + need > RING as u64 {
            let read = self.end.control(HEAD_COUNT).load(Ordering::Acquire);
            // Counts only grow, and nothing reads what was not written.
            if read.wrapping_sub(self.read) > self.end.count - self.read {
                return Err(Broken);
            }
            self.read = read;
            if self.end.count - read + need > RING as u64 {
                return Ok(false);
            }
        }
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
        head[4..].copy_from_slice(vnet);
        let place = End::place(self.end.count);
        let ring = self.end.ring();
        copy_in(ring, place, &head);
        copy_in(ring, (place + HEAD / WORD) % ring.len(), frame);
        self.end.count += need;
        Ok(true)
    }

    /// Show what was written; true if the consumer must be woken.
    pub(super) fn publish(&mut self) -> bool {
        self.end.control(TAIL).store(self.end.count, Ordering::Release);
        self.end.must_wake(WANTS_RECORD)
    }

    /// Claims to have written what it has not, for tests of the other side.
    #[cfg(test)]
    pub(super) fn lie(&mut self) {
        self.end.control(TAIL).store(u64::MAX, Ordering::Release);
    }

    /// Ask to be woken for room; false if some came meanwhile.
    pub(super) fn arm(&self) -> bool {
        self.end.arm(WANTS_ROOM, HEAD_COUNT, self.read)
    }
}

/// The reading end.
pub(super) struct Consumer {
    end: End,
    /// The producer's count as last believed.
    written: u64,
}

/// A record not yet taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) vnet: [u8; VNET],
    pub(super) len: usize,
}

impl Consumer {
    /// The only consumer of the lane at byte `at`, which nothing has read from yet.
    pub(super) fn new(region: Arc<SharedMemory>, at: usize) -> Consumer {
        Consumer { end: End { region, at, count: 0 }, written: 0 }
    }

    /// The next record, if there is one; believed only as far as it fits.
    pub(super) fn peek(&mut self) -> Result<Option<Record>, Broken> {
        if self.written == self.end.count {
            let written = self.end.control(TAIL).load(Ordering::Acquire);
            if written.wrapping_sub(self.end.count) > RING as u64 || !written.is_multiple_of(WORD as u64) {
                return Err(Broken);
            }
            self.written = written;
            if written == self.end.count {
                return Ok(None);
            }
        }
        let mut head = [0; HEAD];
        copy_out(self.end.ring(), End::place(self.end.count), &mut head);
        let (len, vnet) = head.split_first_chunk::<4>().ok_or(Broken)?;
        let (len, vnet) = (u32::from_ne_bytes(*len) as usize, vnet.first_chunk().ok_or(Broken)?);
        if len > FRAME_MAX || size(len) > self.written - self.end.count {
            return Err(Broken);
        }
        Ok(Some(Record { vnet: *vnet, len }))
    }

    /// Take the record that `peek` gave: its frame goes to `into`, which is as long as it.
    pub(super) fn take(&mut self, record: &Record, into: &mut [u8]) {
        debug_assert_eq!(into.len(), record.len);
        let ring = self.end.ring();
        let place = (End::place(self.end.count) + HEAD / WORD) % ring.len();
        copy_out(ring, place, into);
        self.end.count += size(record.len);
    }

    /// Drop the record that `peek` gave.
    pub(super) fn skip(&mut self, record: &Record) {
        self.end.count += size(record.len);
    }

    /// Give the room back of what was taken; true if the producer must be woken.
    pub(super) fn publish(&mut self) -> bool {
        self.end.control(HEAD_COUNT).store(self.end.count, Ordering::Release);
        self.end.must_wake(WANTS_ROOM)
    }

    /// Ask to be woken for a record; false if one came meanwhile.
    pub(super) fn arm(&self) -> bool {
        self.end.arm(WANTS_RECORD, TAIL, self.end.count)
    }

    /// Was the request of `arm` taken up?
    pub(super) fn was_woken(&self) -> bool {
        self.end.control(WANTS_RECORD).load(Ordering::Relaxed) == 0
    }
}

/// Bytes a record with a frame of `len` takes.
fn size(len: usize) -> u64 {
    (HEAD + len).next_multiple_of(WORD) as u64
}

/// A consumer and a producer whose other side is the one that made `data`: nothing may panic, no record may be
/// longer than a frame, and a producer never believes in more room than there is.
pub(crate) fn fuzz(data: &[u8]) {
    let region = Arc::new(SharedMemory::private(2 * LEN));
    let (mut consumer, mut producer) = (Consumer::new(region.clone(), 0), Producer::new(region.clone(), LEN));
    let mut buffer = vec![0; FRAME_MAX];
    // Sixteen bytes a step: where to write, and what.
    for step in data.chunks_exact(16) {
        let value = u64::from_le_bytes([
            step[8], step[9], step[10], step[11], step[12], step[13], step[14], step[15],
        ]);
        let near = u64::from(step[4]) * 8;
        match step[0] % 6 {
            0 => {
                region.words(0, CONTROL)[TAIL].store(consumer.end.count.wrapping_add(near), Ordering::Relaxed)
            }
            1 => region.words(0, CONTROL)[usize::from(step[1])].store(value, Ordering::Relaxed),
            2 => region.words(CONTROL, RING)[value as usize % (RING / WORD)].store(near, Ordering::Relaxed),
            3 => region.words(LEN, CONTROL)[usize::from(step[1])].store(value, Ordering::Relaxed),
            4 => {
                let place = End::place(consumer.end.count);
                region.words(CONTROL, RING)[place]
                    .store(value % (FRAME_MAX as u64 + 5000), Ordering::Relaxed);
            }
            _ => region.words(LEN, CONTROL)[HEAD_COUNT].store(producer.end.count, Ordering::Relaxed),
        }
        while let Ok(Some(record)) = consumer.peek() {
            consumer.take(&record, &mut buffer[..record.len]);
        }
        consumer.publish();
        let _ = producer.push(&[0; VNET], &buffer[..(usize::from(step[5]) * 256).min(FRAME_MAX)]);
        assert!(producer.end.count - producer.read <= RING as u64);
        producer.publish();
    }
}

#[cfg(test)]
mod tests;
