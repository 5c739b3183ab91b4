//! A hierarchical timing wheel of lazy lower bounds.
//!
//! One date a connection says "look at it no later than then". Moving a date later costs nothing: it stays where it
//! is, and when it comes up its owner asks the connection, which knows the real date. So an acknowledgment, which
//! only ever pushes the retransmission timer back, never touches the wheel. Nor does the end of a connection: its
//! date stays for the next connection in its place, or comes up once for nothing.
//!
//! ```text
//! slot --> [13 indices] <-> [13 indices] <-> ...      lines of the cache; a date taken back leaves a gap
//!             ^  index's node: its date, and its place in a line
//! ```
//! Nodes of a slot lie anywhere in memory. A line names thirteen of them, so they are asked for all at once before the
//! first is looked at: with dates of a hundred thousand connections that would otherwise be a miss each, one after the
//! other.

use base::Instant;
use ring::Table;

/// A tick is 2^16 ns, 65.5 us: dates inside the slot that is due are compared exactly, so nothing fires
/// early.
const TICK_BITS: u32 = 16;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// Eight levels of six bits and the tick's sixteen cover all 64 bits of an [`Instant`].
const LEVELS: usize = 8;
const _: () = assert!(LEVELS as u32 * SLOT_BITS + TICK_BITS == 64);

/// Lines of a slot that is being spread over the lower levels, a bounded number at a time.
const SPREADING: usize = LEVELS * SLOTS;
/// Most lines spread in one call: a million timers of one slot must not stop the core.
const SPREAD_BUDGET: usize = 512;
/// Most lines looked through in search of the exact next date; a fuller slot fires at its end.
const WALK_BUDGET: usize = 20;
/// Most lines whose owners are asked in one call whether their dates hold.
const REVISE_BUDGET: usize = 6;

const PAGE: usize = 256;
const NIL: u32 = u32::MAX;
/// Set in `prev` of a slot's first line; the other bits name the slot.
const HEAD: u32 = 1 << 31;
const NEVER: u64 = u64::MAX;

/// A connection's date and its place: a line and, in the low [`WAY_BITS`], which of its entries.
#[derive(Clone, Copy)]
struct Node {
    /// Nanoseconds; [`NEVER`] when not on the wheel.
    at: u64,
    place: u32,
}

const IDLE: Node = Node { at: NEVER, place: NIL };

const WAYS: usize = 13;
const WAY_BITS: u32 = 4;

/// Indices of one slot. What was taken back is [`NIL`]; a line is never without any index.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line {
    prev: u32,
    next: u32,
    /// Entries that were ever filled, from the first on, and those that still are.
    used: u16,
    live: u16,
    indices: [u32; WAYS],
}

const _: () = assert!(size_of::<Line>() == 64 && WAYS < 1 << WAY_BITS);
const VACANT: Line = Line { prev: NIL, next: NIL, used: 0, live: 0, indices: [NIL; WAYS] };

/// Lines by number; those that no slot has are linked through `next`.
struct Lines {
    lines: Table<Line, PAGE>,
    vacant: u32,
}

impl Lines {
    #[inline]
    fn get(&mut self, line: u32) -> &mut Line {
        self.lines.get_mut(line as usize)
    }

    /// An empty line.
    #[inline]
    fn take(&mut self) -> u32 {
        if self.vacant == NIL {
            self.grow();
        }
        let line = self.vacant;
        self.vacant = self.get(line).next;
        line
    }

    #[cold]
    fn grow(&mut self) {
        let first = self.lines.len() as u32;
        let last = first + PAGE as u32 - 1;
        let next = |line| if line == last { NIL } else { line + 1 };
        self.lines.grow(|i| Line { next: next(i as u32), ..VACANT });
        self.vacant = first;
    }

    #[inline]
    fn put(&mut self, line: u32) {
        *self.get(line) = Line { next: self.vacant, ..VACANT };
        self.vacant = line;
    }
}

/// Dates for small indices (the connection's), at most one each: 16 bytes a connection, and about five for each date.
pub(crate) struct Wheel {
    nodes: Table<Node, PAGE>,
    lines: Lines,
    heads: [u32; LEVELS * SLOTS + 1],
    occupied: [u64; LEVELS],
    /// The tick up to which every slot has been emptied.
    current: u64,
    /// No node is due before this.
    earliest: u64,
}

impl Wheel {
    pub(crate) fn new() -> Self {
        Wheel {
            nodes: Table::new(),
            lines: Lines { lines: Table::new(), vacant: NIL },
            heads: [NIL; LEVELS * SLOTS + 1],
            occupied: [0; LEVELS],
            current: 0,
            earliest: NEVER,
        }
    }

    /// Bytes held.
    pub(crate) fn footprint(&self) -> usize {
        self.nodes.footprint() + self.lines.lines.footprint()
    }

    /// Brings the date of `index` into the cache.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        if (index as usize) < self.nodes.len() {
            ring::prefetch_read(self.nodes.get(index as usize));
        }
    }

    /// Look at `index` no later than `at`; does nothing if it will be looked at earlier anyway.
    #[inline]
    pub(crate) fn note(&mut self, index: u32, at: Instant) {
        let at = at.as_nanos();
        if (index as usize) < self.nodes.len() {
            let noted = self.nodes.get(index as usize).at;
            if at >= noted {
                return;
            }
            if noted != NEVER {
                self.unlink(index);
            }
        } else {
            self.grow(index);
        }
        self.link(index, at);
        self.earliest = self.earliest.min(at);
    }

    /// When [`Self::expire`] has something to do at the earliest.
    pub(crate) fn next(&self) -> Option<Instant> {
        (self.earliest != NEVER).then(|| Instant::from_nanos(self.earliest))
    }

    /// Asks owners, from the earliest date on, which date they have now, if any, and moves theirs there: afterwards
    /// [`Self::next`] is the earliest date that holds, unless that took too long to find. For a thread that is about
    /// to wait for that date.
    pub(crate) fn revise(&mut self, mut holds: impl FnMut(u32) -> Option<Instant>) {
        if self.heads[SPREADING] != NIL {
            return;
        }
        let mut budget = REVISE_BUDGET;
        while let Some((level, slot)) = self.first() {
            let (head, start) = (level * SLOTS + slot, self.start_of(level, slot) << TICK_BITS);
            let (mut first, mut line) = (NEVER, self.heads[head]);
            while line != NIL {
                if budget == 0 {
                    self.earliest = self.earliest.min(first);
                    return;
                }
                budget -= 1;
                let (next, indices) = self.look_at(line);
                for index in indices.into_iter().filter(|&index| index != NIL) {
                    first = first.min(self.move_to(index, holds(index)));
                }
                line = next;
            }
            // A thread that has stayed comes before those that went to later slots, or has been overtaken by one that
            // came forward.
            if self.heads[head] != NIL || first < start {
                self.earliest = first;
                return;
            }
        }
        self.earliest = NEVER;
    }

    /// The date of an index that has one is this from now on; as a number.
    fn move_to(&mut self, index: u32, at: Option<Instant>) -> u64 {
        let at = at.map_or(NEVER, Instant::as_nanos);
        if at != self.node(index).at {
            self.unlink(index);
            if at != NEVER {
                self.link(index, at);
            }
        }
        at
    }

    /// Takes what is due at `now` off the wheel and appends it to `due`, until that holds `limit`.
    pub(crate) fn expire(&mut self, now: Instant, limit: usize, due: &mut Vec<u32>) {
        let now = now.as_nanos();
        if now < self.earliest {
            return;
        }
        let target = now >> TICK_BITS;
        let mut budget = SPREAD_BUDGET;
        self.spread(&mut budget);
        while budget > 0 && due.len() < limit {
            let Some((level, slot)) = self.first() else { break };
            let start = self.start_of(level, slot);
            if start > target {
                break;
            }
            self.current = start;
            if level > 0 {
                self.detach(level, slot);
                self.spread(&mut budget);
            } else if !self.take_due(slot, now, limit, due) {
                break;
            }
        }
        self.settle(now, target, due.len() >= limit);
    }

    /// Moves `current` forward and finds the next date.
    fn settle(&mut self, now: u64, target: u64, unfinished: bool) {
        if unfinished || self.heads[SPREADING] != NIL {
            self.earliest = now;
            return;
        }
        let Some((level, slot)) = self.first() else {
            self.current = target;
            self.earliest = NEVER;
            return;
        };
        let start = self.start_of(level, slot);
        self.current = self.current.max(target.min(start));
        self.earliest = if level > 0 { start << TICK_BITS } else { self.exact(slot, start).max(now + 1) };
    }

    /// The earliest date in a slot of level 0.
    fn exact(&mut self, slot: usize, start: u64) -> u64 {
        let mut at = NEVER;
        let mut line = self.heads[slot];
        for _ in 0..WALK_BUDGET {
            if line == NIL {
                return at;
            }
            let (next, indices) = self.look_at(line);
            let dates = indices.iter().filter(|&&index| index != NIL).map(|&index| self.node(index).at);
            at = dates.fold(at, u64::min);
            line = next;
        }
        (start + 1) << TICK_BITS
    }

    /// The line after this one and the indices of this one, whose nodes are asked for, as is that line.
    #[inline]
    fn look_at(&mut self, line: u32) -> (u32, [u32; WAYS]) {
        let Line { next, indices, .. } = *self.lines.get(line);
        if next != NIL {
            ring::prefetch_read(self.lines.get(next));
        }
        indices.iter().filter(|&&index| index != NIL).for_each(|&index| self.prefetch(index));
        (next, indices)
    }

    /// Takes the due nodes of a slot of level 0; true if none is left in it.
    fn take_due(&mut self, slot: usize, now: u64, limit: usize, due: &mut Vec<u32>) -> bool {
        let mut line = self.heads[slot];
        while line != NIL {
            let (next, indices) = self.look_at(line);
            for index in indices {
                if index == NIL || self.node(index).at > now {
                    continue;
                }
                if due.len() >= limit {
                    return false;
                }
                self.unlink(index);
                due.push(index);
            }
            line = next;
        }
        self.heads[slot] == NIL
    }

    /// Moves a slot's lines aside to be spread over the lower levels.
    fn detach(&mut self, level: usize, slot: usize) {
        let from = level * SLOTS + slot;
        let first = self.heads[from];
        self.heads[from] = NIL;
        self.occupied[level] &= !(1 << slot);
        self.heads[SPREADING] = first;
        self.lines.get(first).prev = HEAD | SPREADING as u32;
    }

    fn spread(&mut self, budget: &mut usize) {
        while *budget > 0 && self.heads[SPREADING] != NIL {
            let line = self.heads[SPREADING];
            let (_, indices) = self.look_at(line);
            self.leave(line);
            for index in indices.into_iter().filter(|&index| index != NIL) {
                let at = self.node(index).at;
                self.link(index, at);
            }
            *budget -= 1;
        }
    }

    /// The occupied slot whose time comes first. Levels are in order of time by construction: a node lies on
    /// the level of the highest digit in which its tick differs from `current`.
    fn first(&self) -> Option<(usize, usize)> {
        let level = self.occupied.iter().position(|&bits| bits != 0)?;
        Some((level, self.occupied[level].trailing_zeros() as usize))
    }

    fn start_of(&self, level: usize, slot: usize) -> u64 {
        let below = level as u32 * SLOT_BITS;
        let above = below + SLOT_BITS;
        let kept = self.current >> above << above;
        kept | (slot as u64) << below
    }

    /// Enters an index that stands in no line.
    fn link(&mut self, index: u32, at: u64) {
        let tick = (at >> TICK_BITS).max(self.current);
        let differing = tick ^ self.current;
        let level = (63 - (differing | 1).leading_zeros()) / SLOT_BITS;
        let slot = (tick >> (level * SLOT_BITS)) as usize & (SLOTS - 1);
        let (level, head) = (level as usize, level as usize * SLOTS + slot);
        let first = self.heads[head];
        let open = first != NIL && usize::from(self.lines.get(first).used) < WAYS;
        let number = if open { first } else { self.open(level, slot, first) };
        let line = self.lines.get(number);
        let way = line.used;
        line.indices[usize::from(way)] = index;
        (line.used, line.live) = (way + 1, line.live + 1);
        *self.node(index) = Node { at, place: number << WAY_BITS | u32::from(way) };
    }

    /// Puts an empty line in front of a slot's first.
    #[inline(never)]
    fn open(&mut self, level: usize, slot: usize, first: u32) -> u32 {
        let number = self.lines.take();
        let head = level * SLOTS + slot;
        *self.lines.get(number) = Line { prev: HEAD | head as u32, next: first, ..VACANT };
        if first != NIL {
            self.lines.get(first).prev = number;
        }
        self.heads[head] = number;
        self.occupied[level] |= 1 << slot;
        number
    }

    /// Takes back the date of an index, which has one.
    fn unlink(&mut self, index: u32) {
        let Node { place, .. } = std::mem::replace(self.node(index), IDLE);
        let number = place >> WAY_BITS;
        let line = self.lines.get(number);
        line.indices[place as usize & ((1 << WAY_BITS) - 1)] = NIL;
        line.live -= 1;
        if line.live == 0 {
            self.leave(number);
        }
    }

    /// Takes a line out of its slot, whatever is in it.
    fn leave(&mut self, number: u32) {
        let Line { prev, next, .. } = *self.lines.get(number);
        self.lines.put(number);
        if next != NIL {
            self.lines.get(next).prev = prev;
        }
        if prev & HEAD == 0 {
            self.lines.get(prev).next = next;
            return;
        }
        let head = (prev & !HEAD) as usize;
        self.heads[head] = next;
        if next == NIL && head != SPREADING {
            self.occupied[head / SLOTS] &= !(1 << (head % SLOTS));
        }
    }

    #[inline]
    fn node(&mut self, index: u32) -> &mut Node {
        self.nodes.get_mut(index as usize)
    }

    #[cold]
    fn grow(&mut self, index: u32) {
        while self.nodes.len() <= index as usize {
            self.nodes.grow(|_| IDLE);
        }
    }
}

#[cfg(test)]
mod tests;
