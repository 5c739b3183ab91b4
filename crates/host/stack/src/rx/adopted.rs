//! Payloads that stay in the port's frames until they are read: their bytes are copied once, by the application's read,
//! and not to the receive buffer before.
//!
//! ```text
//!   batch: frames ── payload ──> connection: received ──> application reads ──> frames go back
//!                                                ├── not by the next turn: copied, frames go back
//!                                                └── shared ([`FrameBytes`]): frames go back after the last reference
//! ```
//! A batch of which anything was adopted is kept whole, so frames are never moved one by one; and none is kept beyond
//! the next turn, but for those that are shared with another thread. Of all together there are at most [`FRAMES_MAX`],
//! and what comes then is copied, so the port never starves, whatever does not read. TCP's part is [`tcp::Frames`].

mod lend;

use core::ops::Range;
use offload::{BatchGro, MergedRun};
use pio::{BATCH_MAX, PacketIo, RxBatch, RxPacket};
use std::sync::Arc;
use tcp::Frames;

/// Frames kept at most: a turn's worth, unless a turn was made longer. The smallest pool of a port has twice as many
/// beside those that are held.
pub(crate) const FRAMES_MAX: usize = crate::rx::BATCHES as usize * BATCH_MAX;
/// Turns in which nothing is adopted at most, after some in which nothing was read in time.
const PAUSE_MAX: u32 = 63;
/// No payload.
const NONE: u32 = u32::MAX;

const _: () = assert!(FRAMES_MAX + pio::HELD_MAX < 2 * pio::HELD_MAX, "frames are left to receive in");

/// The payload of a run of packets in the frames of a batch.
#[derive(Clone, Copy)]
struct Payload {
    /// The connection.
    index: u32,
    /// The next payload of the same connection.
    next: u32,
    batch: u32,
    /// Its packets' places in the batch: the first of them in [`Kept::places`], and how many.
    first: u32,
    count: u32,
    /// Where payload starts in each packet, how much of it each but the last has, and all of it.
    text: u32,
    size: u32,
    bytes: u32,
    /// Bytes that were read.
    done: u32,
}

impl Payload {
    /// Copies what was not read, as much as there is room for. Returns how many bytes.
    fn copy(&self, places: &[u16], batch: &[RxPacket], into: &mut [u8]) -> usize {
        let (text, size, done) = (self.text as usize, self.size as usize, self.done as usize);
        let len = into.len().min((self.bytes - self.done) as usize);
        let first = self.first as usize;
        if self.count == 1 {
            // A super-segment: no piece to look for.
            fill(&mut into[..len], &batch[usize::from(places[first])], text + done);
            return len;
        }
        let unread = &places[first + done / size..first + self.count as usize];
        let [first, others @ ..] = unread else { return 0 };
        // The first may have been read in part.
        let from = done % size;
        let (head, rest) = into[..len].split_at_mut(len.min(size - from));
        fill(head, &batch[usize::from(*first)], text + from);
        copy_whole(rest, batch, others, (text, size));
        len
    }

    /// Returns the bytes from `done` on that lie together.
    fn piece<'a>(&self, places: &[u16], batch: &'a [RxPacket], done: u32) -> &'a [u8] {
        let (text, size, done) = (self.text as usize, self.size as usize, done as usize);
        let from = done % size;
        let len = (size - from).min(self.bytes as usize - done);
        let at = places[self.first as usize + done / size];
        &batch[usize::from(at)].frame.data()[text + from..][..len]
    }

    /// Calls `each` with what was not read, in order, until it returns false. Returns false if it did.
    fn for_each(&self, places: &[u16], batch: &[RxPacket], each: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let (text, size) = (self.text as usize, self.size as usize);
        let (done, mut left) = (self.done as usize, (self.bytes - self.done) as usize);
        let (first, end) = (self.first as usize, (self.first + self.count) as usize);
        let mut from = text + done % size;
        places[(first + done / size).min(end)..end].iter().all(|at| {
            let len = left.min(text + size - from);
            let piece = &batch[usize::from(*at)].frame.data()[from..from + len];
            left -= len;
            from = text;
            each(piece)
        })
    }

    fn is_read(&self) -> bool {
        self.done == self.bytes
    }
}

/// Copies the payload of packets, `size` bytes each from `text` on, as much as there is room for. By itself, so that
/// what the loop needs stays in registers.
#[inline(never)]
fn copy_whole(mut into: &mut [u8], batch: &[RxPacket], places: &[u16], (text, size): (usize, usize)) {
    for at in places {
        let (room, rest) = into.split_at_mut(size.min(into.len()));
        fill(room, &batch[usize::from(*at)], text);
        into = rest;
    }
}

/// Fills `room` with what a packet has from a byte on.
#[inline(always)]
fn fill(room: &mut [u8], packet: &RxPacket, from: usize) {
    room.copy_from_slice(&packet.frame.data()[from..from + room.len()]);
}

/// A batch of which something was adopted.
#[derive(Default)]
struct Kept {
    packets: RxBatch,
    /// Places of the packets of adopted payloads.
    places: Vec<u16>,
    /// Its payloads, once it is shared, and the number of the first of them.
    payloads: Vec<Payload>,
    first: u32,
}

/// Received bytes in frames of a link, which any thread may read. The link has fewer frames while this is there.
pub struct FrameBytes {
    kept: Arc<Kept>,
    /// The first payload, of which so many bytes were read.
    number: u32,
    done: u32,
    len: u32,
}

impl FrameBytes {
    /// Returns the number of bytes.
    #[allow(clippy::len_without_is_empty, reason = "there are some")]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    fn payload(&self, number: u32) -> Option<&Payload> {
        self.kept.payloads.get(number.wrapping_sub(self.kept.first) as usize)
    }

    /// Returns the first bytes that lie together.
    #[inline]
    pub fn front(&self) -> &[u8] {
        let Some(payload) = self.payload(self.number).filter(|_| self.len > 0) else { return &[] };
        let piece = payload.piece(&self.kept.places, &self.kept.packets, self.done);
        &piece[..piece.len().min(self.len as usize)]
    }

    /// Drops the first `n` bytes.
    #[inline]
    pub fn consume(&mut self, n: usize) {
        let mut left = (n as u32).min(self.len);
        self.len -= left;
        while let Some(&Payload { bytes, next, .. }) = self.payload(self.number) {
            let here = left.min(bytes - self.done);
            (self.done, left) = (self.done + here, left - here);
            if self.done < bytes {
                break;
            }
            (self.number, self.done) = (next, 0);
        }
    }

    /// Calls `each` with the bytes in order, until it returns false. Returns false if it did.
    pub fn for_each(&self, each: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let mut rest = FrameBytes { kept: self.kept.clone(), ..*self };
        while rest.len > 0 {
            let piece = rest.front();
            let len = piece.len();
            if !each(piece) {
                return false;
            }
            rest.consume(len);
        }
        true
    }
}

/// Adopted payloads, and the frames in which they lie.
#[derive(Default)]
pub(crate) struct Adopted {
    payloads: Vec<Payload>,
    /// Places of the batch that is being processed, and the number of its first payload.
    places: Vec<u16>,
    first: u32,
    /// The payload of the segment that is being processed, if it may be adopted.
    offered: Option<Payload>,
    /// Bytes that were not read.
    unread: u64,
    /// Kept batches, those of earlier turns that are shared, and empty ones for more.
    batches: Vec<Arc<Kept>>,
    shared: Vec<Arc<Kept>>,
    spare: Vec<Arc<Kept>>,
    frames: usize,
    /// Something of the batch that is being processed was adopted.
    keeps: bool,
    /// Turns in which nothing is adopted, and in how many it was the last time.
    pause: u32,
    paused: u32,
}

impl Adopted {
    /// May payloads of a batch of so many frames be adopted?
    #[inline]
    pub(crate) fn takes(&self, frames: usize) -> bool {
        self.pause == 0 && self.frames + frames <= FRAMES_MAX
    }

    /// Offers the payload of a merged run of the batch that is being processed, whose first packet is at place `head`,
    /// to the connection at `index`.
    #[inline]
    pub(crate) fn offer_run(&mut self, index: u32, merged_runs: &BatchGro, run: &MergedRun, head: u16) {
        let first = self.places.len();
        match merged_runs.stretch(head) {
            Some(places) => self.places.extend(places),
            None => {
                let mut next = head;
                self.places.extend((0..run.count()).map(|_| {
                    let after = merged_runs.behind(next);
                    core::mem::replace(&mut next, after)
                }));
            }
        }
        self.offer(index, first, run.text(0), run.bytes());
    }

    /// Offers the payload of one packet, which lies at `text`.
    #[inline]
    pub(crate) fn offer_one(&mut self, index: u32, at: u16, text: Range<usize>) {
        let (first, bytes) = (self.places.len(), text.len() as u32);
        self.places.push(at);
        self.offer(index, first, text, bytes);
    }

    /// Offers a payload whose packets are at the places from `first` on.
    #[inline]
    fn offer(&mut self, index: u32, first: usize, text: Range<usize>, bytes: u32) {
        let (batch, count) = (self.batches.len() as u32, (self.places.len() - first) as u32);
        let (text, size, first) = (text.start as u32, text.len() as u32, first as u32);
        self.offered = Some(Payload { index, next: NONE, batch, first, count, text, size, bytes, done: 0 });
    }

    /// The segment was processed: what was offered and not adopted was copied, or dropped. Returns true if it was
    /// adopted.
    #[inline]
    pub(crate) fn withdraw(&mut self) -> bool {
        let offered = self.offered.take();
        if let Some(offered) = offered {
            self.places.truncate(offered.first as usize);
        }
        offered.is_none()
    }

    /// The batch was processed: its frames go back to the port, or are kept if anything of it was adopted.
    #[inline]
    pub(crate) fn put_away(&mut self, batch: &mut RxBatch, io: &mut dyn PacketIo) {
        if !core::mem::take(&mut self.keeps) {
            return io.retire_all(batch);
        }
        self.frames += batch.len();
        let mut kept = self.spare.pop().unwrap_or_default();
        let fresh = Arc::get_mut(&mut kept).expect("nothing refers to a spare one");
        // It has room for as many from the first time on.
        fresh.packets.reserve(batch.capacity());
        core::mem::swap(&mut fresh.packets, batch);
        fresh.places.clear();
        core::mem::swap(&mut fresh.places, &mut self.places);
        fresh.payloads.clear();
        fresh.first = core::mem::replace(&mut self.first, self.payloads.len() as u32);
        self.batches.push(kept);
    }

    /// Shares at most `max` bytes of a connection's payloads from one on, as far as they lie in one batch.
    fn share(&mut self, first: u32, max: u32) -> Option<FrameBytes> {
        let Payload { batch, done, .. } = *self.payloads.get(first as usize)?;
        let behind = self.batches.get(batch as usize + 1).map_or(self.first, |next| next.first);
        let kept = self.batches.get_mut(batch as usize)?;
        if let Some(kept) = Arc::get_mut(kept).filter(|kept| kept.payloads.is_empty()) {
            kept.payloads.extend_from_slice(&self.payloads[kept.first as usize..behind as usize]);
        }
        let kept = kept.clone();
        let here = self.from(first).take_while(|payload| payload.batch == batch);
        let len = here.map(|payload| payload.bytes - payload.done).sum::<u32>().min(max);
        Some(FrameBytes { kept, number: first, done, len })
    }

    /// The frames that no other thread refers to any more go back.
    fn take_back(&mut self, io: &mut dyn PacketIo) {
        let mut at = 0;
        while let Some(kept) = self.shared.get_mut(at) {
            let Some(free) = Arc::get_mut(kept) else {
                at += 1;
                continue;
            };
            self.frames -= free.packets.len();
            io.retire_all(&mut free.packets);
            self.spare.push(self.shared.swap_remove(at));
        }
    }

    /// Is nothing adopted, nor would a turn change anything?
    #[inline]
    fn is_idle(&self) -> bool {
        self.frames == 0 && self.pause == 0
    }

    /// Is everything read that was adopted?
    #[inline]
    pub(crate) fn is_read(&self) -> bool {
        self.unread == 0 && !self.payloads.is_empty()
    }

    /// Nothing is wanted of what was adopted: every frame goes back that is not shared. `late`: some of it was not read
    /// in time.
    fn end(&mut self, io: &mut dyn PacketIo, late: bool) {
        self.shared.append(&mut self.batches);
        self.take_back(io);
        if self.payloads.is_empty() {
            self.pause = self.pause.saturating_sub(1);
            return;
        }
        self.payloads.clear();
        (self.first, self.unread) = (0, 0);
        self.paused = if late { (2 * self.paused + 1).min(PAUSE_MAX) } else { 0 };
        self.pause = self.paused;
    }

    /// Returns the payloads from one on of a connection.
    fn from(&self, first: u32) -> impl Iterator<Item = &Payload> {
        let at = |number: u32| self.payloads.get(number as usize);
        core::iter::successors(at(first), move |payload| at(payload.next))
    }

    /// The places and the batch of a payload: `current` if that is the one that is being processed.
    fn batch_of<'a>(&'a self, payload: &Payload, current: &'a [RxPacket]) -> (&'a [u16], &'a [RxPacket]) {
        match self.batches.get(payload.batch as usize) {
            Some(kept) => (&kept.places, &kept.packets),
            None => (&self.places, current),
        }
    }

    fn each_in(&self, first: u32, current: &[RxPacket], each: &mut dyn FnMut(&[u8]) -> bool) {
        let _all = self.from(first).all(|payload| {
            let (places, batch) = self.batch_of(payload, current);
            payload.for_each(places, batch, each)
        });
    }
}

impl Frames for Adopted {
    fn adopt(&mut self, bytes: u32, last: Option<u32>) -> Option<u32> {
        let offered = self.offered.take_if(|offered| offered.bytes == bytes)?;
        let number = self.payloads.len() as u32;
        if let Some(last) = last {
            self.payloads[last as usize].next = number;
        }
        self.payloads.push(offered);
        self.unread += u64::from(offered.bytes);
        self.keeps = true;
        Some(number)
    }

    fn copy_out(&self, first: u32, into: &mut [u8]) -> usize {
        let (mut number, mut copied) = (first, 0);
        while copied < into.len()
            && let Some(payload) = self.payloads.get(number as usize)
        {
            let (places, batch) = self.batch_of(payload, &[]);
            copied += payload.copy(places, batch, &mut into[copied..]);
            number = payload.next;
        }
        copied
    }

    fn for_each(&self, first: u32, each: &mut dyn FnMut(&[u8]) -> bool) {
        self.each_in(first, &[], each);
    }

    fn consume(&mut self, first: u32, n: u32) -> u32 {
        let (mut number, mut left) = (first, n);
        self.unread -= u64::from(n);
        while let Some(payload) = self.payloads.get_mut(number as usize) {
            let here = left.min(payload.bytes - payload.done);
            payload.done += here;
            left -= here;
            if !payload.is_read() {
                break;
            }
            number = payload.next;
        }
        number
    }
}

/// Adopted payloads while a batch is processed.
pub(crate) struct Arriving<'a> {
    pub(crate) adopted: &'a mut Adopted,
    pub(crate) batch: &'a [RxPacket],
}

impl Frames for Arriving<'_> {
    fn adopt(&mut self, bytes: u32, last: Option<u32>) -> Option<u32> {
        self.adopted.adopt(bytes, last)
    }

    fn copy_out(&self, first: u32, into: &mut [u8]) -> usize {
        self.adopted.copy_out(first, into)
    }

    fn for_each(&self, first: u32, each: &mut dyn FnMut(&[u8]) -> bool) {
        self.adopted.each_in(first, self.batch, each);
    }

    fn consume(&mut self, first: u32, n: u32) -> u32 {
        self.adopted.consume(first, n)
    }
}
