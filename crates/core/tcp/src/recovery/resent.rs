//! Retransmitted data, and which of it is lost again.

use alloc::collections::VecDeque;

use base::Seq;

use crate::recovery::reordering::Left;

/// Most retransmissions remembered. What is forgotten is left to the timer.
const MOST: usize = 1024;
/// Most steps of an acknowledgment with four blocks: per range a search in each list, and half of the list moved by a
/// split; and no more can be removed than is there.
pub(crate) const STEPS_MAX: u64 = 2 * 5 * (SEARCH + MOST as u64 / 2 + 2) + 2 * MOST as u64;
/// Most steps of finding that all are lost again: each leaves one list at its front and joins the other at its end.
pub(crate) const LOST_STEPS_MAX: u64 = MOST as u64 * 3 * (SEARCH + 4);
/// Entries that a search compares.
const SEARCH: u64 = (usize::BITS - MOST.leading_zeros()) as u64;

/// Bytes sent again at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    start: Seq,
    end: Seq,
    /// When it left, microseconds, modulo 2^32.
    at: u32,
}

impl Piece {
    fn len(&self) -> u32 {
        self.end.offset_from(self.start)
    }

    /// Does `other` continue it, sent at the same time?
    fn adjoins(&self, other: &Piece) -> bool {
        self.end == other.start && self.at == other.at
    }
}

/// Pieces in sequence order, disjoint. Each call costs a search and the pieces that it changes.
#[derive(Debug, Default)]
struct Pieces {
    list: VecDeque<Piece>,
    /// Of all pieces.
    bytes: u32,
    /// Pieces compared or moved since [`Resent::take_steps`] was called.
    steps: u64,
}

impl Pieces {
    /// The place of the first piece that ends behind `seq`.
    fn seek(&self, seq: Seq) -> usize {
        self.list.partition_point(|piece| piece.end.at_or_before(seq))
    }

    /// The piece that the byte at `seq` lies in.
    fn of(&self, seq: Seq) -> Option<&Piece> {
        self.list.get(self.seek(seq)).filter(|piece| piece.start.at_or_before(seq))
    }

    /// Adds a piece, which takes the place of what lies there.
    fn insert(&mut self, piece: Piece) {
        self.carve(piece.start, piece.end, |_| {});
        let place = self.seek(piece.start);
        self.bytes += piece.len();
        self.count_steps(place, 0);
        if let Some(before) = place.checked_sub(1).and_then(|i| self.list.get_mut(i))
            && before.adjoins(&piece)
        {
            before.end = piece.end;
            return;
        }
        self.list.insert(place, piece);
    }

    /// Removes what lies in `start..end`, and hands each removed part to `gone`. Of a piece that is split beyond the
    /// bound the upper part is forgotten.
    fn carve(&mut self, start: Seq, end: Seq, mut gone: impl FnMut(Piece)) {
        if !start.before(end) {
            return;
        }
        let mut place = self.seek(start);
        let Some(piece) = self.list.get(place).copied().filter(|piece| piece.start.before(end)) else {
            return self.count_steps(place, 0);
        };
        let mut take = |bytes: &mut u32, part: Piece| {
            *bytes -= part.len();
            gone(part);
        };
        if piece.start.before(start) {
            self.list[place].end = start;
            place += 1;
            take(&mut self.bytes, Piece { start, end: piece.end.earlier(end), ..piece });
            if end.before(piece.end) {
                let rest = Piece { start: end, ..piece };
                self.count_steps(place, 1);
                if self.list.len() >= MOST {
                    self.bytes -= rest.len();
                    return;
                }
                return self.list.insert(place, rest);
            }
        }
        let whole = self.list.range(place..).take_while(|piece| piece.end.at_or_before(end)).count();
        self.count_steps(place, whole);
        for piece in self.list.drain(place..place + whole) {
            take(&mut self.bytes, piece);
        }
        if let Some(piece) = self.list.get_mut(place).filter(|piece| piece.start.before(end)) {
            take(&mut self.bytes, Piece { end, ..*piece });
            piece.start = end;
        }
    }

    fn clear(&mut self) {
        self.list.clear();
        self.bytes = 0;
    }

    /// A search compares a few pieces, and a change at `place` moves those on its shorter side; `whole` are removed.
    fn count_steps(&mut self, place: usize, whole: usize) {
        let search = u64::from(usize::BITS - self.list.len().leading_zeros());
        self.steps += search + place.min(self.list.len() - place) as u64 + whole as u64 + 1;
    }
}

/// The retransmissions of a repair by SACK. RACK judges them by the time they left, like first transmissions (RFC
/// 8985); one that is lost is sent once more. Retransmissions of one time that adjoin are one entry until a part of
/// them arrives.
#[derive(Debug, Default)]
pub(crate) struct Resent {
    /// In the order of sending; bytes that arrived or were found lost since stay in it until their time comes.
    log: VecDeque<Piece>,
    /// Parts of them in flight, as far as is known.
    open: Pieces,
    /// Lost again and not sent since.
    lost: Pieces,
}

impl Resent {
    /// Returns the steps taken since this was last called.
    pub(crate) fn take_steps(&mut self) -> u64 {
        core::mem::take(&mut self.open.steps) + core::mem::take(&mut self.lost.steps)
    }

    /// `start..end` leaves at `at`.
    /// RFC 8985, 5.1-1.
    pub(crate) fn push(&mut self, start: Seq, end: Seq, at: u32) {
        let piece = Piece { start, end, at };
        self.lost.carve(start, end, |_| {});
        self.open.insert(piece);
        if let Some(last) = self.log.back_mut().filter(|last| last.adjoins(&piece)) {
            last.end = end;
            return;
        }
        if self.log.len() >= MOST {
            self.forget_oldest();
        }
        self.log.push_back(piece);
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.log.pop_front() else { return };
        let mut from = oldest.start;
        while let Some(piece) = self.open.list.get(self.open.seek(from)).copied() {
            if piece.start.at_or_after(oldest.end) {
                break;
            }
            let (start, end) = (piece.start.later(from), piece.end.earlier(oldest.end));
            if piece.at == oldest.at {
                self.open.carve(start, end, |_| {});
            }
            from = end;
        }
    }

    /// Is the byte at `seq` on its way a second time?
    pub(crate) fn covers(&self, seq: Seq) -> bool {
        self.open.of(seq).is_some()
    }

    /// Returns where the retransmission under way begins that the byte at `seq` belongs to.
    pub(crate) fn start_of(&self, seq: Seq) -> Option<Seq> {
        self.open.of(seq).map(|piece| piece.start)
    }

    /// Forgets what has arrived: what lies below `una`, and in `blocks`. Returns which of the bytes left last.
    /// RFC 8985, 6.2-1.
    pub(crate) fn take_delivered(
        &mut self,
        una: Seq,
        blocks: impl Iterator<Item = (Seq, Seq)>,
    ) -> Option<Left> {
        let mut latest: Option<Left> = None;
        let mut arrived = |part: Piece| {
            let left = Left { at: part.at, end: part.end, again: true };
            if latest.is_none_or(|latest| left.after(latest)) {
                latest = Some(left);
            }
        };
        if let Some(first) = self.open.list.front().map(|piece| piece.start) {
            self.open.carve(first, una, &mut arrived);
        }
        if let Some(first) = self.lost.list.front().map(|piece| piece.start) {
            self.lost.carve(first, una, |_| {});
        }
        for (left, right) in blocks {
            self.open.carve(left, right, &mut arrived);
            self.lost.carve(left, right, |_| {});
        }
        latest
    }

    /// Finds what is lost again. `remaining` tells for how many microseconds more a retransmission may be under
    /// way; `None` where nothing that left later has arrived. When the latest of those lost left, and how long the
    /// first of the others still has.
    pub(crate) fn find_lost(
        &mut self,
        una: Seq,
        remaining: impl Fn(Left) -> Option<u32>,
    ) -> (Option<u32>, Option<u32>) {
        let mut latest = None;
        while let Some(burst) = self.log.front_mut() {
            let place = self.open.seek(burst.start);
            let found = self.open.list.get(place).copied().filter(|piece| piece.start.before(burst.end));
            let Some(piece) = found else {
                self.log.pop_front();
                continue;
            };
            if piece.at == burst.at {
                match remaining(Left { at: piece.at, end: piece.end, again: true }) {
                    None => return (latest, None),
                    Some(0) => {}
                    wait => return (latest, wait),
                }
                self.open.carve(piece.start, piece.end, |_| {});
                if piece.end.after(una) {
                    self.lost.insert(Piece { start: piece.start.later(una), ..piece });
                    latest = Some(piece.at);
                }
            }
            // What was sent once more since has an entry of its own.
            burst.start = piece.end;
        }
        (latest, None)
    }

    /// The first bytes that are lost again, above `una`.
    pub(crate) fn lost(&self, una: Seq) -> Option<(Seq, Seq)> {
        let piece = self.lost.list.get(self.lost.seek(una))?;
        Some((piece.start.later(una), piece.end))
    }

    /// Bytes that are lost again.
    pub(crate) fn lost_bytes(&self) -> u32 {
        self.lost.bytes
    }

    /// `start..end` is not lost again, or not known to be.
    pub(crate) fn settle(&mut self, start: Seq, end: Seq) {
        self.lost.carve(start, end, |_| {});
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.log.clear();
        self.open.clear();
        self.lost.clear();
    }
}

#[cfg(test)]
mod tests;
