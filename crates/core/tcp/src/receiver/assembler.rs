//! Which bytes beyond RCV.NXT have arrived.

use alloc::boxed::Box;
use alloc::vec::Vec;

use base::Seq;
use wire::tcp::SackBlocks;

/// Runs whose recency is remembered; an option holds four blocks.
const RECENT: usize = 8;

/// Result of [`Assembler::insert`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inserted {
    /// At least one byte was not held before.
    New,
    /// Every byte was held already.
    Duplicate,
    /// One run too many: treat the segment as lost.
    Refused,
}

/// Most steps of a segment where `runs` runs may be held: a search, and what lies behind it.
pub(crate) const fn steps_max(runs: u16) -> u64 {
    runs as u64 + 2 * (u16::BITS - runs.leading_zeros()) as u64 + 2 * RECENT as u64
}

/// A run of bytes held, as positions on the receiver's circle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    start: u32,
    end: u32,
}

impl Run {
    fn bytes(self) -> u32 {
        self.end.wrapping_sub(self.start)
    }
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct Runs {
    /// Position of RCV.NXT: positions only ever grow, so advancing touches no run.
    base: u32,
    /// By distance from `base`, disjoint and not adjacent.
    runs: Vec<Run>,
    /// Of all runs.
    bytes: u32,
    /// Starts of the runs changed last, latest first.
    recent: [u32; RECENT],
    recents: u8,
    /// Runs moved or compared since [`Assembler::take_steps`] was called.
    steps: u64,
}

/// The ranges received out of order, as offsets from RCV.NXT.
///
/// ```text
///  RCV.NXT
///   |<- front ->|      hole      |<- run ->|   hole   |<- run ->|
/// ```
/// In order it allocates nothing: `front` alone carries what can be delivered. Runs are boxed while there are
/// any.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Assembler {
    /// Bytes that can be delivered: held without a hole from RCV.NXT on.
    front: u32,
    rest: Option<Box<Runs>>,
}

const _: () = assert!(size_of::<Assembler>() <= 16);

impl Assembler {
    /// Nothing held.
    pub(crate) const fn new() -> Self {
        Assembler { front: 0, rest: None }
    }

    /// Separate runs held beyond the first hole.
    pub(crate) fn runs(&self) -> u16 {
        self.rest.as_ref().map_or(0, |rest| rest.runs.len() as u16)
    }

    /// Returns the steps taken since this was last called. Those of a segment that fills the last hole are not among
    /// them: each run was counted when it came.
    pub(crate) fn take_steps(&mut self) -> u64 {
        self.rest.as_mut().map_or(0, |rest| core::mem::take(&mut rest.steps))
    }

    /// Bytes held beyond the first hole.
    pub(crate) fn bytes(&self) -> u32 {
        self.rest.as_ref().map_or(0, |rest| rest.bytes)
    }

    /// Bytes of memory that the notes take.
    pub(crate) fn footprint(&self) -> u32 {
        self.rest
            .as_ref()
            .map_or(0, |rest| (size_of::<Runs>() + rest.runs.capacity() * size_of::<Run>()) as u32)
    }

    /// Would [`Assembler::insert`] take these bytes, which are not none?
    pub(crate) fn admits(&self, start: u32, end: u32, max_ranges: usize) -> bool {
        if start <= self.front {
            return true;
        }
        let Some(rest) = &self.rest else { return max_ranges > 0 };
        rest.runs.len() < max_ranges || rest.touched(start, end).0 < rest.touched(start, end).1
    }

    /// Notes the bytes `start..end`, offsets from RCV.NXT below 2^31. At most `max_ranges` separate runs are
    /// kept; what joins a run, or continues from RCV.NXT, is always taken.
    pub(crate) fn insert(&mut self, start: u32, end: u32, max_ranges: usize) -> Inserted {
        debug_assert!(start <= end && end <= i32::MAX as u32);
        if end <= start || end <= self.front {
            return Inserted::Duplicate;
        }
        if start > self.front {
            let max = max_ranges.min(usize::from(u16::MAX));
            let rest = match &mut self.rest {
                Some(rest) => rest,
                None if max == 0 => return Inserted::Refused,
                empty => empty.insert(Box::new(Runs {
                    base: 0,
                    runs: Vec::new(),
                    bytes: 0,
                    recent: [0; RECENT],
                    recents: 0,
                    steps: 0,
                })),
            };
            return rest.insert(start, end, max);
        }
        self.front = end;
        if let Some(rest) = &mut self.rest {
            self.front = rest.swallow(end);
            if rest.runs.is_empty() {
                self.rest = None;
            }
        }
        Inserted::New
    }

    /// Where the furthest byte held ends.
    pub(crate) fn reach(&self) -> u32 {
        self.rest.as_ref().and_then(|rest| Some(rest.offset(rest.runs.last()?.end))).unwrap_or(self.front)
    }

    /// The first stretch of `start..end` that is held already.
    pub(crate) fn overlap(&self, start: u32, end: u32) -> Option<(u32, u32)> {
        if start < self.front.min(end) {
            return Some((start, end.min(self.front)));
        }
        let rest = self.rest.as_ref()?;
        let next = rest.runs.partition_point(|run| rest.offset(run.end) <= start);
        let run = rest.runs.get(next)?;
        let (left, right) = (rest.offset(run.start).max(start), rest.offset(run.end).min(end));
        (left < right).then_some((left, right))
    }

    /// Bytes that continue from RCV.NXT without a hole: RCV.NXT is now that much further.
    pub(crate) fn advance(&mut self) -> u32 {
        let n = core::mem::take(&mut self.front);
        if let Some(rest) = &mut self.rest {
            rest.base = rest.base.wrapping_add(n);
        }
        n
    }

    /// The SACK option: `dsack` first (RFC 2883), then the runs changed last first (RFC 2018, section 4); at
    /// most `max` blocks.
    /// RFC 2018, 4-3 and 4-5; RFC 2883, 4-1 and 4-3.
    pub(crate) fn sack_blocks(&self, rcv_nxt: Seq, dsack: Option<(Seq, Seq)>, max: usize) -> SackBlocks {
        let mut blocks = SackBlocks::none();
        if let Some((left, right)) = dsack {
            blocks.push(left, right);
        }
        if let Some(rest) = &self.rest {
            rest.sack_blocks(rcv_nxt, max, &mut blocks);
        }
        blocks.truncate(max);
        blocks
    }
}

#[cfg(test)]
impl Assembler {
    /// Returns the state that decides all later answers: the runs, the front one first, and those changed last, as
    /// offsets.
    pub(crate) fn state(&self) -> (Vec<(u32, u32)>, Vec<u32>) {
        let mut runs = alloc::vec![(0, self.front)];
        let Some(rest) = &self.rest else { return (runs, Vec::new()) };
        runs.extend(rest.runs.iter().map(|run| (rest.offset(run.start), rest.offset(run.end))));
        let recent = &rest.recent[..usize::from(rest.recents)];
        (runs, recent.iter().map(|&start| rest.offset(start)).collect())
    }
}

impl Runs {
    fn offset(&self, position: u32) -> u32 {
        position.wrapping_sub(self.base)
    }

    fn insert(&mut self, start: u32, end: u32, max: usize) -> Inserted {
        let (first, last) = self.touched(start, end);
        self.count_steps(first);
        let mut new = Run { start: self.base.wrapping_add(start), end: self.base.wrapping_add(end) };
        if first == last {
            if self.runs.len() >= max {
                return Inserted::Refused;
            }
            self.runs.insert(first, new);
            self.bytes += end - start;
            self.touch(new.start);
            return Inserted::New;
        }
        let (low, high) = (self.runs[first], self.runs[last - 1]);
        if self.offset(low.start) <= start && end <= self.offset(low.end) {
            self.touch(low.start);
            return Inserted::Duplicate;
        }
        if self.offset(low.start) < start {
            new.start = low.start;
        }
        if self.offset(high.end) > end {
            new.end = high.end;
        }
        for i in first..last {
            self.bytes -= self.runs[i].bytes();
            self.forget(self.runs[i].start);
        }
        self.bytes += new.bytes();
        self.runs[first] = new;
        self.runs.drain(first + 1..last);
        self.touch(new.start);
        Inserted::New
    }

    /// The runs that overlap or touch `start..end`: the first, and the first behind them.
    fn touched(&self, start: u32, end: u32) -> (usize, usize) {
        let first = self.runs.partition_point(|run| self.offset(run.end) < start);
        (first, first + self.runs[first..].partition_point(|run| self.offset(run.start) <= end))
    }

    /// A change at this place moves the runs behind it; each search compares a few.
    fn count_steps(&mut self, first: usize) {
        let search = usize::BITS - self.runs.len().leading_zeros();
        self.steps += (self.runs.len() - first) as u64 + 2 * u64::from(search) + 2 * RECENT as u64;
    }

    /// Removes the runs that `0..front` reaches; how far the bytes held now go.
    fn swallow(&mut self, mut front: u32) -> u32 {
        let mut gone = 0;
        while let Some(run) = self.runs.get(gone).copied().filter(|run| self.offset(run.start) <= front) {
            front = front.max(self.offset(run.end));
            self.bytes -= run.bytes();
            self.forget(run.start);
            gone += 1;
        }
        self.count_steps(0);
        self.runs.drain(..gone);
        front
    }

    /// Marks the run that starts at `start` as the one changed last.
    fn touch(&mut self, start: u32) {
        self.forget(start);
        let n = usize::from(self.recents).min(RECENT - 1);
        self.recent.copy_within(..n, 1);
        self.recent[0] = start;
        self.recents = n as u8 + 1;
    }

    fn forget(&mut self, start: u32) {
        let n = usize::from(self.recents);
        if let Some(i) = self.recent[..n].iter().position(|&s| s == start) {
            self.recent.copy_within(i + 1..n, i);
            self.recents -= 1;
        }
    }

    fn sack_blocks(&self, rcv_nxt: Seq, max: usize, blocks: &mut SackBlocks) {
        let recent = &self.recent[..usize::from(self.recents)];
        let changed = recent.iter().filter_map(|&start| {
            let offset = self.offset(start);
            self.runs.binary_search_by_key(&offset, |run| self.offset(run.start)).ok().map(|i| self.runs[i])
        });
        // Once every run remembered is reported there is no order to keep; the furthest ones tell most.
        let others = self.runs.iter().rev().copied().filter(|run| !recent.contains(&run.start));
        for run in changed.chain(others) {
            if blocks.as_slice().len() >= max {
                break;
            }
            if !blocks.push(rcv_nxt + self.offset(run.start), rcv_nxt + self.offset(run.end)) {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests;
