//! A hierarchical timing wheel of lazy lower bounds.
//!
//! One node a connection says "look at it no later than then". Moving a date later costs nothing: the node
//! stays where it is, and when it comes up its owner asks the connection, which knows the real date. So an
//! acknowledgment, which only ever pushes the retransmission timer back, never touches the wheel. Nor does
//! the end of a connection: its date stays for the next connection in its place, or comes up once for nobody.

use base::Instant;

/// A tick is 2^16 ns, 65.5 us: dates inside the slot that is due are compared exactly, so nothing fires
/// early.
const TICK_BITS: u32 = 16;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// Eight levels of six bits and the tick's sixteen cover all 64 bits of an [`Instant`].
const LEVELS: usize = 8;
const _: () = assert!(LEVELS as u32 * SLOT_BITS + TICK_BITS == 64);

/// Nodes of a slot that is being spread over the lower levels, a bounded number at a time.
const SPREADING: usize = LEVELS * SLOTS;
/// Most nodes moved down in one call: a million timers of one slot must not stop the core.
const SPREAD_BUDGET: usize = 4096;
/// Longest walk in search of the exact next date; a fuller slot fires at its end.
const WALK_BUDGET: usize = 256;

const PAGE_BITS: u32 = 8;
const PAGE: usize = 1 << PAGE_BITS;
const NIL: u32 = u32::MAX;
/// Set in `prev` of a slot's first node; the other bits name the slot.
const HEAD: u32 = 1 << 31;
const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy)]
struct Node {
    prev: u32,
    next: u32,
    /// Nanoseconds; [`NEVER`] when not on the wheel.
    at: u64,
}

const IDLE: Node = Node { prev: NIL, next: NIL, at: NEVER };

/// Dates for small indices (the connection's), at most one each. 16 octets a connection.
pub(crate) struct Wheel {
    pages: Vec<Box<[Node; PAGE]>>,
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
            pages: Vec::new(),
            heads: [NIL; LEVELS * SLOTS + 1],
            occupied: [0; LEVELS],
            current: 0,
            earliest: NEVER,
        }
    }

    /// Octets held for nodes.
    pub(crate) fn footprint(&self) -> usize {
        self.pages.len() * PAGE * size_of::<Node>()
    }

    /// Look at `index` no later than `at`; does nothing if it will be looked at earlier anyway.
    #[inline]
    pub(crate) fn note(&mut self, index: u32, at: Instant) {
        let at = at.as_nanos();
        if let Some(page) = self.pages.get(index as usize >> PAGE_BITS) {
            let noted = page[index as usize & (PAGE - 1)].at;
            if at >= noted {
                return;
            }
            if noted != NEVER {
                self.unlink(index);
            }
        } else {
            self.grow(index);
        }
        self.node(index).at = at;
        self.link(index);
        self.earliest = self.earliest.min(at);
    }

    /// When [`Self::expire`] has something to do at the earliest.
    pub(crate) fn next(&self) -> Option<Instant> {
        (self.earliest != NEVER).then(|| Instant::from_nanos(self.earliest))
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
        let mut index = self.heads[slot];
        for _ in 0..WALK_BUDGET {
            if index == NIL {
                return at;
            }
            let node = *self.node(index);
            at = at.min(node.at);
            index = node.next;
        }
        (start + 1) << TICK_BITS
    }

    /// Takes the due nodes of a slot of level 0; true if none is left in it.
    fn take_due(&mut self, slot: usize, now: u64, limit: usize, due: &mut Vec<u32>) -> bool {
        let mut index = self.heads[slot];
        while index != NIL {
            let Node { next, at, .. } = *self.node(index);
            if at <= now {
                if due.len() >= limit {
                    return false;
                }
                self.unlink(index);
                self.node(index).at = NEVER;
                due.push(index);
            }
            index = next;
        }
        self.heads[slot] == NIL
    }

    /// Moves a slot's nodes aside to be spread over the lower levels.
    fn detach(&mut self, level: usize, slot: usize) {
        let from = level * SLOTS + slot;
        let first = self.heads[from];
        self.heads[from] = NIL;
        self.occupied[level] &= !(1 << slot);
        self.heads[SPREADING] = first;
        self.node(first).prev = HEAD | SPREADING as u32;
    }

    fn spread(&mut self, budget: &mut usize) {
        while *budget > 0 && self.heads[SPREADING] != NIL {
            let index = self.heads[SPREADING];
            self.unlink(index);
            self.link(index);
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

    fn link(&mut self, index: u32) {
        let tick = (self.node(index).at >> TICK_BITS).max(self.current);
        let differing = tick ^ self.current;
        let level = (63 - (differing | 1).leading_zeros()) / SLOT_BITS;
        let slot = (tick >> (level * SLOT_BITS)) as usize & (SLOTS - 1);
        let (level, head) = (level as usize, level as usize * SLOTS + slot);
        let next = self.heads[head];
        let node = self.node(index);
        node.prev = HEAD | head as u32;
        node.next = next;
        if next != NIL {
            self.node(next).prev = index;
        }
        self.heads[head] = index;
        self.occupied[level] |= 1 << slot;
    }

    fn unlink(&mut self, index: u32) {
        let Node { prev, next, .. } = *self.node(index);
        if next != NIL {
            self.node(next).prev = prev;
        }
        if prev & HEAD == 0 {
            self.node(prev).next = next;
            return;
        }
        let head = (prev & !HEAD) as usize;
        self.heads[head] = next;
        if next == NIL && head != SPREADING {
            self.occupied[head / SLOTS] &= !(1 << (head % SLOTS));
        }
    }

    fn node(&mut self, index: u32) -> &mut Node {
        &mut self.pages[index as usize >> PAGE_BITS][index as usize & (PAGE - 1)]
    }

    #[cold]
    fn grow(&mut self, index: u32) {
        while self.pages.len() <= index as usize >> PAGE_BITS {
            self.pages.push(Box::new([IDLE; PAGE]));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: against a plain map of dates, nothing fires early, nothing late by more than a crowded slot's
    //! length, and `next` always moves forward, over every level and across jumps of the clock.
    use super::*;
    use base::Rng;
    use std::collections::BTreeMap;

    /// Runs operations drawn from `seed` against the oracle.
    fn model(seed: u64) {
        let mut rng = Rng::new(seed);
        let (mut wheel, mut oracle) = (Wheel::new(), BTreeMap::<u32, u64>::new());
        let mut now = rng.next_u64() >> (14 + rng.below(50));
        let mut due = Vec::new();
        for step in 0..3000 {
            match rng.below(10) {
                0..=5 => {
                    let index = rng.below(600) as u32;
                    let at = now + (rng.next_u64() >> (19 + rng.below(45)));
                    wheel.note(index, Instant::from_nanos(at));
                    let noted = oracle.entry(index).or_insert(at);
                    *noted = at.min(*noted);
                }
                6 | 7 => now += rng.next_u64() >> (18 + rng.below(46)),
                _ => now = wheel.next().map_or(now, |at| at.as_nanos().max(now)),
            }
            let limit = 1 + rng.below(64) as usize;
            loop {
                due.clear();
                wheel.expire(Instant::from_nanos(now), limit, &mut due);
                for index in &due {
                    let at = oracle.remove(index);
                    assert!(
                        at.is_some_and(|at| at <= now),
                        "seed {seed} step {step}: {index} early, {at:?} {now}"
                    );
                }
                if wheel.next().is_none_or(|at| at.as_nanos() > now) {
                    break;
                }
                assert!(!due.is_empty(), "seed {seed} step {step}: no progress");
            }
            let late = oracle.values().find(|&&at| at <= now);
            assert!(late.is_none(), "seed {seed} step {step}: {late:?} not fired at {now}");
            let first = oracle.values().min();
            assert!(
                wheel.next().map(Instant::as_nanos) <= first.copied().or(Some(u64::MAX)),
                "seed {seed} step {step}"
            );
            assert!(wheel.next().is_some() || oracle.is_empty(), "seed {seed} step {step}");
        }
    }

    #[test]
    fn against_a_map() {
        for seed in 0..40 {
            model(seed);
        }
    }

    #[test]
    fn a_million_timers_of_one_slot_do_not_stop_the_core() {
        let mut wheel = Wheel::new();
        let day = 86_400_000_000_000;
        for index in 0..100_000 {
            wheel.note(index, Instant::from_nanos(day + u64::from(index)));
        }
        let (mut due, mut turns, mut fired) = (Vec::new(), 0, 0);
        while fired < 100_000 {
            due.clear();
            wheel.expire(Instant::from_nanos(day + 100_000), 1024, &mut due);
            assert!(due.len() <= 1024);
            fired += due.len();
            turns += 1;
        }
        assert!(turns >= 100_000 / 1024);
        assert_eq!(wheel.next(), None);
    }

    #[test]
    fn moving_a_date_later_changes_nothing() {
        let mut wheel = Wheel::new();
        wheel.note(3, Instant::from_millis(10));
        wheel.note(3, Instant::from_millis(20));
        assert_eq!(wheel.next(), Some(Instant::from_millis(10)));
        let mut due = Vec::new();
        wheel.expire(Instant::from_nanos(9_999_999), 8, &mut due);
        assert!(due.is_empty());
        wheel.expire(Instant::from_millis(10), 8, &mut due);
        assert_eq!(due, [3]);
    }
}
