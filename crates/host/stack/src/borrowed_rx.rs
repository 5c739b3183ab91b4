//! Runs and super-segments that stay in the port's frames until they are read: their bytes are copied once, by the
//! application's read, and not to the receive buffer before.
//!
//! ```text
//!   batch: frames ── run ──> connection: counts it as received ──> application reads ──> frames go back
//!                                                     └── not by the next turn: copied, frames go back
//! ```
//! A batch that has lent anything is kept whole, so frames are never moved one by one; and none is kept beyond the
//! next turn, nor more than [`FRAMES_MAX`] of them, so the port never starves, whatever does not read. TCP's part is
//! [`tcp::Connection::on_lent_run`].

use base::Instant;
use core::ops::Range;
use offload::{BatchGro, MergedRun};
use pio::{BATCH_MAX, PacketIo, RxBatch, RxPacket};

use crate::conns::{ConnId, Marks};
use crate::core::Core;

/// Frames kept at most: a turn's worth, unless a turn was made longer. The smallest pool of a port has twice as many
/// beside those that are held.
pub(crate) const FRAMES_MAX: usize = crate::rx::BATCHES as usize * BATCH_MAX;
/// Bytes of payload from which on a packet that the link has merged is worth borrowing.
pub(crate) const LONG: usize = 4 << 10;
/// Turns without borrowed runs at most, after some that nothing read in time.
const PAUSE_MAX: u32 = 63;

const _: () =
    assert!(FRAMES_MAX + crate::hold::HELD_MAX < 2 * crate::hold::HELD_MAX, "frames are left to receive in");

/// A run in the frames of a batch.
struct Lent {
    /// The connection.
    index: u32,
    batch: u32,
    /// Its packets' places in the batch: the first of them in [`BorrowedRx::places`], and how many.
    first: u32,
    count: u32,
    /// Where payload starts in each packet, how much of it each but the last has, and all of it.
    text: u32,
    size: u32,
    bytes: u32,
    /// Bytes that were read, all if no reader needs the rest.
    done: u32,
}

impl Lent {
    /// Returns the data that was not read.
    fn unread<'a>(
        &self,
        places: &'a [u16],
        batches: &'a [RxBatch],
        current: &'a [RxPacket],
    ) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (text, size) = (self.text as usize, self.size as usize);
        let (done, mut left) = (self.done as usize, (self.bytes - self.done) as usize);
        let (first, end) = (self.first as usize, (self.first + self.count) as usize);
        let batch = batches.get(self.batch as usize).map_or(current, Vec::as_slice);
        let mut from = text + done % size;
        places[(first + done / size).min(end)..end].iter().map(move |at| {
            let len = left.min(text + size - from);
            let piece = &batch[usize::from(*at)].frame.data()[from..from + len];
            left -= len;
            from = text;
            piece
        })
    }

    /// Copies what was not read, as much as there is room for; how much that was.
    fn copy(&self, places: &[u16], batches: &[RxBatch], into: &mut [u8]) -> usize {
        let (text, size, done) = (self.text as usize, self.size as usize, self.done as usize);
        let len = into.len().min((self.bytes - self.done) as usize);
        let first = self.first as usize;
        let Some(batch) = batches.get(self.batch as usize) else { return 0 };
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

/// Lent data, and the frames in which it lies.
#[derive(Default)]
pub(crate) struct BorrowedRx {
    runs: Vec<Lent>,
    places: Vec<u16>,
    /// Runs at the front of which nothing is left to read.
    read: usize,
    /// Kept batches, and empty ones for more.
    batches: Vec<RxBatch>,
    spare: Vec<RxBatch>,
    frames: usize,
    /// The batch that is being processed has lent something.
    lends: bool,
    /// Turns for which nothing is lent, and for how many it was the last time.
    pause: u32,
    paused: u32,
}

impl BorrowedRx {
    /// May a batch of so many frames lend?
    #[inline]
    pub(crate) fn takes(&self, frames: usize) -> bool {
        self.pause == 0 && self.frames + frames <= FRAMES_MAX
    }

    /// A merged run of the batch that is being processed, whose first packet is at place `head`, is lent to the
    /// connection at `index`.
    #[inline]
    pub(crate) fn lend(&mut self, index: u32, merged_runs: &BatchGro, merged_run: &MergedRun, head: u16) {
        let first = self.places.len();
        match merged_runs.stretch(head) {
            Some(places) => self.places.extend(places),
            None => {
                let mut next = head;
                self.places.extend((0..merged_run.count()).map(|_| {
                    let after = merged_runs.behind(next);
                    core::mem::replace(&mut next, after)
                }));
            }
        }
        self.enter(index, first, merged_run.text(0), merged_run.bytes());
    }

    /// Lends one packet, whose payload lies at `text`.
    #[inline]
    pub(crate) fn lend_one(&mut self, index: u32, at: u16, text: Range<usize>) {
        let (first, bytes) = (self.places.len(), text.len() as u32);
        self.places.push(at);
        self.enter(index, first, text, bytes);
    }

    /// A run whose packets are at the places from `first` on.
    #[inline]
    fn enter(&mut self, index: u32, first: usize, text: Range<usize>, bytes: u32) {
        let (batch, count) = (self.batches.len() as u32, (self.places.len() - first) as u32);
        let (text, size) = (text.start as u32, text.len() as u32);
        self.runs.push(Lent { index, batch, first: first as u32, count, text, size, bytes, done: 0 });
        self.lends = true;
    }

    /// The batch was processed: its frames go back to the port, or are kept if it has lent anything.
    #[inline]
    pub(crate) fn put_away(&mut self, batch: &mut RxBatch, io: &mut dyn PacketIo) {
        if !core::mem::take(&mut self.lends) {
            return io.retire_all(batch);
        }
        let fresh = self.spare.pop().unwrap_or_else(|| RxBatch::with_capacity(batch.capacity()));
        self.frames += batch.len();
        self.batches.push(core::mem::replace(batch, fresh));
    }

    /// Is nothing lent, nor would a turn change anything?
    #[inline]
    fn is_idle(&self) -> bool {
        self.runs.is_empty() && self.pause == 0
    }

    /// Nothing is wanted of what was lent: every frame goes back. `late`: some of it was not read in time.
    fn end(&mut self, io: &mut dyn PacketIo, late: bool) {
        if self.runs.is_empty() {
            self.pause = self.pause.saturating_sub(1);
            return;
        }
        for mut batch in self.batches.drain(..) {
            io.retire_all(&mut batch);
            self.spare.push(batch);
        }
        self.runs.clear();
        self.places.clear();
        (self.frames, self.read) = (0, 0);
        self.paused = if late { (2 * self.paused + 1).min(PAUSE_MAX) } else { 0 };
        self.pause = self.paused;
    }

    fn pass_read(&mut self) {
        while self.runs.get(self.read).is_some_and(Lent::is_read) {
            self.read += 1;
        }
    }

    /// Was everything read?
    fn is_read(&mut self) -> bool {
        self.pass_read();
        self.read == self.runs.len()
    }

    /// The next run that a connection has not read. Mostly they are read in the order in which they came.
    fn next(&mut self, index: u32) -> Option<usize> {
        self.pass_read();
        let wanted = |run: &Lent| run.index == index && !run.is_read();
        self.runs[self.read..].iter().position(wanted).map(|at| self.read + at)
    }

    /// Copies what the connection has not read, as much as there is room for; how much that was.
    fn read(&mut self, index: u32, into: &mut [u8]) -> usize {
        let mut copied = 0;
        while copied < into.len()
            && let Some(at) = self.next(index)
        {
            let run = &mut self.runs[at];
            let n = run.copy(&self.places, &self.batches, &mut into[copied..]);
            run.done += n as u32;
            copied += n;
        }
        copied
    }

    /// The connection does not want its next bytes, that many.
    fn skip(&mut self, index: u32, bytes: u32) {
        let mut left = bytes;
        while left > 0
            && let Some(at) = self.next(index)
        {
            let run = &mut self.runs[at];
            let n = left.min(run.bytes - run.done);
            run.done += n;
            left -= n;
        }
    }

    /// Returns the connection's unread data, in order; `current` is the batch that is being processed, if one is.
    fn unread<'a>(&'a self, index: u32, current: &'a [RxPacket]) -> impl Iterator<Item = &'a [u8]> {
        let runs = self.runs.iter().filter(move |run| run.index == index && !run.is_read());
        runs.flat_map(|run| run.unread(&self.places, &self.batches, current))
    }

    /// The connection wants nothing of it any more.
    pub(crate) fn forget(&mut self, index: u32) {
        for run in self.runs.iter_mut().filter(|run| run.index == index) {
            run.done = run.bytes;
        }
    }
}

impl Core {
    /// A turn begins: what was lent and not read is copied, and the port has all its frames.
    #[inline]
    pub(crate) fn end_borrowed_rx(&mut self) {
        if !self.borrowed_rx.is_idle() {
            self.end_all_borrowed_rx();
        }
    }

    fn end_all_borrowed_rx(&mut self) {
        let mut late = false;
        while let Some(index) = self.borrowed_rx.runs.iter().find(|run| !run.is_read()).map(|run| run.index) {
            self.call_in(index, &[]);
            late = true;
        }
        for run in &self.borrowed_rx.runs {
            self.conns.slot_mut(run.index).meta.marks.clear(Marks::LENT);
        }
        self.borrowed_rx.end(self.port.io.as_mut(), late);
    }

    /// Reclaims lent frames: copies the data to the connection's receive buffer; `current` is the batch that is
    /// being processed, if one is.
    pub(crate) fn call_in(&mut self, index: u32, current: &[RxPacket]) {
        let Core { conns, borrowed_rx, shared, stats, .. } = self;
        if let Some((meta, tcp)) = conns.get_mut(index) {
            meta.marks.clear(Marks::LENT);
            // A connection that was reset has dropped what it had.
            if tcp.is_lent() {
                stats.bytes_settled += u64::from(tcp.readable());
                tcp.settle(&mut shared.pool, borrowed_rx.unread(index, current));
            }
        }
        borrowed_rx.forget(index);
    }

    /// Reclaims lent frames, if there are any.
    #[inline]
    pub(crate) fn call_in_if_lent(&mut self, index: u32, current: &[RxPacket]) {
        if self.conns.slot(index).meta.marks.has(Marks::LENT) {
            self.call_in(index, current);
        }
    }

    /// [`Core::read`] of a connection that was lent what it has not read.
    #[inline(never)]
    pub(crate) fn read_lent(
        &mut self,
        now: Instant,
        id: ConnId,
        into: &mut [u8],
    ) -> Result<usize, tcp::ReadError> {
        let Core { conns, borrowed_rx, shared, .. } = self;
        let Some((_, tcp)) = conns.get_mut(id.0) else { return Err(tcp::ReadError::NotConnected) };
        if into.is_empty() || !tcp.is_lent() {
            return tcp.read(&mut shared.cx(now), into);
        }
        let copied = borrowed_rx.read(id.0, into);
        tcp.consume(&mut shared.cx(now), copied);
        self.touch_open(id.0);
        if self.borrowed_rx.is_read() {
            self.end_all_borrowed_rx();
        }
        Ok(copied)
    }

    /// [`Core::consume`] of such a connection.
    pub(crate) fn skip_lent(&mut self, index: u32, len: usize) {
        let readable = self.conns.get(index).map_or(0, |(_, tcp)| tcp.readable());
        self.borrowed_rx.skip(index, readable.min(u32::try_from(len).unwrap_or(u32::MAX)));
    }

    /// Shows the unread data of such a connection, in place and in order; at most `max` bytes.
    pub(crate) fn peek_lent(&self, index: u32, max: usize, each: &mut dyn FnMut(&[u8]) -> bool) {
        let mut left = max;
        for piece in self.borrowed_rx.unread(index, &[]) {
            let piece = &piece[..piece.len().min(left)];
            left -= piece.len();
            if piece.is_empty() || !each(piece) {
                break;
            }
        }
    }
}
