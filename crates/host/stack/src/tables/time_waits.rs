//! The TIME-WAIT entries of a core, in order of expiry; the oldest makes room when the table is full.

use base::{Addr, Duration, Endpoint, FlowKey, Instant};
use ring::Table;
use std::collections::HashMap;
use tcp::TimeWait;
use tcp::auth::Auth;

/// How TIME-WAIT entries sign, by their index. Nearly always empty.
pub(crate) type SignedWaits = HashMap<u32, Box<Auth>>;

const PAGE: usize = 256;
const NIL: u32 = u32::MAX;

/// Entries expire in lots: waking up once for each of many thousands would cost more than keeping them a
/// moment.
const LOT: Duration = Duration::from_millis(50);

#[repr(C)]
struct Entry {
    wait: TimeWait,
    hash: u64,
    /// Towards older and newer entries; `next` chains the vacant ones.
    prev: u32,
    next: u32,
}

const _: () = assert!(size_of::<Entry>() <= 64 + 16);

/// A list in order of expiry inside pages that never move.
pub(crate) struct TimeWaits {
    /// Vacant entries hold what is stale, or copies of another, and are chained in `vacant`.
    entries: Table<Entry, PAGE>,
    vacant: u32,
    oldest: u32,
    newest: u32,
    len: u32,
    limit: u32,
    /// Nothing expires before this; kept here because the oldest entry itself is rarely in the cache.
    due: Instant,
}

impl TimeWaits {
    pub(crate) fn new(limit: u32) -> Self {
        let limit = limit.clamp(1, 1 << 30);
        TimeWaits {
            entries: Table::new(),
            vacant: NIL,
            oldest: NIL,
            newest: NIL,
            len: 0,
            limit,
            due: Instant::ZERO,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len >= self.limit
    }

    /// Bytes held for entries.
    pub(crate) fn footprint(&self) -> usize {
        self.entries.footprint()
    }

    /// The entry that expires first.
    pub(crate) fn oldest(&self) -> Option<u32> {
        (self.oldest != NIL).then_some(self.oldest)
    }

    /// When expiry should be looked at.
    pub(crate) fn next(&self) -> Option<Instant> {
        (self.len > 0).then_some(self.due)
    }

    /// Notes that the due entries have been removed.
    pub(crate) fn look_again(&mut self) {
        if let Some(oldest) = self.oldest() {
            self.due = self.entry(oldest).wait.until + LOT;
        }
    }

    /// The entry, which must be live.
    pub(crate) fn get(&self, index: u32) -> &TimeWait {
        &self.entry(index).wait
    }

    /// The entry, to show a segment to.
    pub(crate) fn get_mut(&mut self, index: u32) -> &mut TimeWait {
        &mut self.entry_mut(index).wait
    }

    /// The flow's hash, as given to `insert`.
    pub(crate) fn hash(&self, index: u32) -> u64 {
        self.entry(index).hash
    }

    /// The flow's hash of the entry that expires next, while asking for the one after it: a full table evicts
    /// one entry for each that comes, and by then both it and its place in the flow table should be in the
    /// cache.
    #[inline]
    pub(crate) fn next_victim(&self) -> Option<u64> {
        let oldest = self.oldest()?;
        let entry = self.entry(oldest);
        if entry.next != NIL {
            self.prefetch(entry.next);
        }
        Some(entry.hash)
    }

    /// Brings an entry into the cache.
    pub(crate) fn prefetch(&self, index: u32) {
        if (index as usize) < self.entries.len() {
            ring::prefetch_all(self.entries.get(index as usize));
        }
    }

    /// Appends an entry; the caller has made room.
    pub(crate) fn insert(&mut self, wait: TimeWait, hash: u64) -> u32 {
        if self.len == 0 {
            self.due = wait.until + LOT;
        }
        let entry = Entry { wait, hash, prev: NIL, next: NIL };
        if self.vacant == NIL {
            self.grow(&entry.wait);
        }
        let index = self.vacant;
        self.vacant = self.entry(index).next;
        *self.entry_mut(index) = entry;
        self.len += 1;
        self.append(index);
        index
    }

    /// One more page of vacant entries, which are copies of this one.
    #[cold]
    fn grow(&mut self, wait: &TimeWait) {
        let first = self.entries.len();
        let last = first + PAGE - 1;
        let next = |i| if i == last { NIL } else { i as u32 + 1 };
        self.entries.grow(|i| Entry { wait: wait.clone(), hash: 0, prev: NIL, next: next(i) });
        self.vacant = first as u32;
    }

    /// Removes a live entry.
    pub(crate) fn remove(&mut self, index: u32) {
        self.unlink(index);
        let vacant = self.vacant;
        let entry = self.entry_mut(index);
        entry.next = vacant;
        // What was looked up for the rest of a batch shall not find it again.
        let nobody = Endpoint::new(Addr::UNSPECIFIED_V4, 0);
        entry.wait.key = FlowKey::new(nobody, nobody);
        self.vacant = index;
        self.len -= 1;
    }

    /// The entry's peer was answered: if that began its wait anew, it goes to the end.
    pub(crate) fn restarted(&mut self, index: u32) {
        if index != self.newest && self.get(index).until >= self.get(self.newest).until {
            self.unlink(index);
            self.append(index);
        }
    }

    /// The live entries, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &TimeWait> {
        let mut index = self.oldest;
        std::iter::from_fn(move || {
            let entry = (index != NIL).then(|| self.entry(index))?;
            index = entry.next;
            Some(&entry.wait)
        })
    }

    fn append(&mut self, index: u32) {
        let newest = self.newest;
        let entry = self.entry_mut(index);
        entry.prev = newest;
        entry.next = NIL;
        match newest {
            NIL => self.oldest = index,
            _ => self.entry_mut(newest).next = index,
        }
        self.newest = index;
    }

    fn unlink(&mut self, index: u32) {
        let Entry { prev, next, .. } = *self.entry(index);
        match prev {
            NIL => self.oldest = next,
            _ => self.entry_mut(prev).next = next,
        }
        match next {
            NIL => self.newest = prev,
            _ => self.entry_mut(next).prev = prev,
        }
    }

    fn entry(&self, index: u32) -> &Entry {
        self.entries.get(index as usize)
    }

    fn entry_mut(&mut self, index: u32) -> &mut Entry {
        self.entries.get_mut(index as usize)
    }
}
