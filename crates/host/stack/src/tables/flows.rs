//! The flow table: which connection or TIME-WAIT entry a segment belongs to.
//!
//! Extendible hashing over pages of 64 buckets. A bucket is one cache line: ten 16-bit tags, ten entries, and
//! a count of the entries that found it full and went on to the next. A full page splits in two by itself and
//! the directory doubles now and then, so growing from nothing to a million flows never rehashes more than
//! one page.

use base::{FlowKey, Rng};
use ring::Table;

/// Entries of a bucket.
const WAYS: usize = 10;
const BUCKET_BITS: u32 = 6;
const BUCKETS: usize = 1 << BUCKET_BITS;
/// A page splits at three quarters of its entries.
const SPLIT_AT: u32 = (BUCKETS * WAYS) as u32 * 3 / 4;
/// Bits of the hash a directory may use: 2^20 pages hold 300 million flows or more.
const DEPTH_MAX: u32 = 20;
const EMPTY: u16 = 0;

/// Owner of a flow, in 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    /// Index of a connection.
    Connection(u32),
    /// Index of a TIME-WAIT entry.
    TimeWait(u32),
}

const WAITING: u32 = 1 << 31;

impl Flow {
    const fn pack(self) -> u32 {
        match self {
            Flow::Connection(index) => index,
            Flow::TimeWait(index) => index | WAITING,
        }
    }

    const fn unpack(word: u32) -> Flow {
        if word & WAITING == 0 { Flow::Connection(word) } else { Flow::TimeWait(word & !WAITING) }
    }
}

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Bucket {
    tags: [u16; WAYS],
    /// Entries whose home is here or before, and that lie after.
    passed: u32,
    flows: [u32; WAYS],
}

const _: () = assert!(size_of::<Bucket>() == 64);
const VACANT: Bucket = Bucket { tags: [EMPTY; WAYS], passed: 0, flows: [0; WAYS] };

type Buckets = [Bucket; BUCKETS];
/// Pages for which memory is taken at once.
const LOT: usize = 8;
/// A directory of more bits does not stay in the fastest cache.
const NEAR: u32 = 11;

/// State of a page. It lies apart from the buckets: a flow that comes or goes touches one bucket only.
struct Page {
    used: u32,
    /// Leading bits of the hash that all entries of this page have in common.
    depth: u32,
}

/// The secret of the table's hash: multiplications folded to 64 bits, keyed before each. An attacker that chooses
/// addresses and ports cannot choose buckets without knowing it, and nothing that leaves the host tells of
/// it. A tenth of SipHash's work, which would be a twentieth of a short connection's.
struct Secret([u64; 4]);

impl Secret {
    #[inline(always)]
    fn hash(&self, key: &FlowKey) -> u64 {
        let [k0, k1, k2, k3] = self.0;
        let (local, remote) = (key.local().addr.halves(), key.remote().addr.halves());
        let last = local[1] << 32 | remote[1] & 0xffff_ffff;
        let mut hash = fold(last ^ k0, u64::from(key.ports()) ^ k1);
        if !key.is_v4() {
            hash = fold(local[0] ^ hash, remote[0] ^ k1);
            hash = fold(local[1] ^ hash, remote[1] ^ k0);
        }
        fold(hash ^ k2, k3)
    }
}

/// Both halves of the product, on top of each other.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Flows by keyed hash. The table holds no keys: the caller's closures compare and rehash.
pub(crate) struct FlowTable {
    secret: Secret,
    directory: Vec<u32>,
    depth: u32,
    pages: Vec<Page>,
    /// Those of each page.
    buckets: Table<Buckets, LOT>,
    len: u32,
    version: u32,
}

fn tag_of(hash: u64) -> u16 {
    ((hash >> 16) as u16).max(EMPTY + 1)
}

fn home_of(hash: u64) -> usize {
    hash as usize & (BUCKETS - 1)
}

impl Bucket {
    /// Bit `i` is set where `tags[i]` is `tag`.
    #[inline]
    fn matches(&self, tag: u16) -> u32 {
        let each: [u16; WAYS] = std::array::from_fn(|i| if self.tags[i] == tag { 1 << i } else { 0 });
        each.into_iter().fold(0, |hits, bit| hits | bit).into()
    }
}

impl Page {
    /// Stores an entry; the page has room.
    fn put(&mut self, buckets: &mut Buckets, hash: u64, flow: u32) {
        let mut at = home_of(hash);
        loop {
            let bucket = &mut buckets[at];
            let vacant = bucket.matches(EMPTY);
            if vacant != 0 {
                let way = vacant.trailing_zeros() as usize;
                bucket.tags[way] = tag_of(hash);
                bucket.flows[way] = flow;
                self.used += 1;
                return;
            }
            bucket.passed += 1;
            at = (at + 1) % BUCKETS;
        }
    }

    fn clear(&mut self, buckets: &mut Buckets, hash: u64, at: usize, way: usize) {
        buckets[at].tags[way] = EMPTY;
        let mut passed = home_of(hash);
        while passed != at {
            buckets[passed].passed -= 1;
            passed = (passed + 1) % BUCKETS;
        }
        self.used -= 1;
    }
}

/// Where the entry lies whose tag matches and for which `is` holds: bucket and way.
#[inline]
fn find(buckets: &Buckets, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<(usize, usize)> {
    let tag = tag_of(hash);
    let mut at = home_of(hash);
    for _ in 0..BUCKETS {
        let bucket = &buckets[at];
        let mut hits = bucket.matches(tag);
        while hits != 0 {
            let way = hits.trailing_zeros() as usize;
            if is(bucket.flows[way]) {
                return Some((at, way));
            }
            hits &= hits - 1;
        }
        if bucket.passed == 0 {
            return None;
        }
        at = (at + 1) % BUCKETS;
    }
    None
}

impl FlowTable {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let secret = Secret(std::array::from_fn(|_| rng.next_u64() | 1));
        let mut buckets = Table::new();
        buckets.grow(|_| [VACANT; BUCKETS]);
        let pages = vec![Page { used: 0, depth: 0 }];
        FlowTable { secret, directory: vec![0], depth: 0, pages, buckets, len: 0, version: 0 }
    }

    /// Flows in the table.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Bytes of buckets and directory.
    pub(crate) fn footprint(&self) -> usize {
        let lists = self.pages.capacity() * size_of::<Page>() + self.directory.capacity() * size_of::<u32>();
        self.buckets.footprint() + lists
    }

    /// Changes whenever an entry appears, moves or goes: what was looked up before may be stale.
    #[inline]
    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// The hash under which `key` is stored.
    #[inline]
    pub(crate) fn hash(&self, key: &FlowKey) -> u64 {
        self.secret.hash(key)
    }

    /// The hash under which the `key` of a looped connection is stored. It lies elsewhere than that of the same key on
    /// the link, so no packet of the link finds a looped connection, whatever addresses and ports it has.
    pub(crate) fn hash_looped(&self, key: &FlowKey) -> u64 {
        // Another bucket, and another tag.
        !self.secret.hash(key)
    }

    #[inline]
    fn slot_of(&self, hash: u64) -> usize {
        // A shift by 64 is not one, so depth 0 shifts twice.
        ((hash >> 1) >> (63 - self.depth)) as usize
    }

    #[inline]
    fn page_of(&self, hash: u64) -> usize {
        self.directory[self.slot_of(hash)] as usize
    }

    /// Brings the bucket of `hash` into the cache; of a large table only what leads to it: then
    /// [`FlowTable::prefetch_far`] does the rest, a while later.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if self.depth <= NEAR {
            self.prefetch_bucket(hash);
        } else if let Some(slot) = self.directory.get(self.slot_of(hash)) {
            ring::prefetch_read(slot);
        }
    }

    /// Brings the buckets of a large table into the cache.
    #[inline]
    pub(crate) fn prefetch_far(&self, hashes: impl Iterator<Item = u64>) {
        if self.depth > NEAR {
            hashes.for_each(|hash| self.prefetch_bucket(hash));
        }
    }

    #[inline]
    fn prefetch_bucket(&self, hash: u64) {
        ring::prefetch_read(&self.buckets.get(self.page_of(hash))[home_of(hash)]);
    }

    /// The first entry whose tag matches: probably the one, and the caller compares the key when it gets
    /// there.
    #[inline]
    pub(crate) fn candidate(&self, hash: u64) -> Option<Flow> {
        let buckets = self.buckets.get(self.page_of(hash));
        let (at, way) = find(buckets, hash, |_| true)?;
        Some(Flow::unpack(buckets[at].flows[way]))
    }

    /// The entry stored under `hash` for which `is` holds.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is: impl FnMut(Flow) -> bool) -> Option<Flow> {
        let buckets = self.buckets.get(self.page_of(hash));
        let (at, way) = find(buckets, hash, |word| is(Flow::unpack(word)))?;
        Some(Flow::unpack(buckets[at].flows[way]))
    }

    /// Stores `flow`, which is not there yet. `rehash` gives the hash of any stored entry. False if the table
    /// cannot grow any more.
    pub(crate) fn insert(&mut self, hash: u64, flow: Flow, mut rehash: impl FnMut(Flow) -> u64) -> bool {
        while self.pages[self.page_of(hash)].used >= SPLIT_AT {
            if !self.split(hash, &mut rehash) {
                return false;
            }
        }
        let page = self.page_of(hash);
        self.pages[page].put(self.buckets.get_mut(page), hash, flow.pack());
        self.len += 1;
        self.version = self.version.wrapping_add(1);
        true
    }

    /// Removes `flow`; was it there?
    pub(crate) fn remove(&mut self, hash: u64, flow: Flow) -> bool {
        let page = self.page_of(hash);
        let buckets = self.buckets.get_mut(page);
        let Some((at, way)) = find(buckets, hash, |word| word == flow.pack()) else { return false };
        self.pages[page].clear(buckets, hash, at, way);
        self.len -= 1;
        self.version = self.version.wrapping_add(1);
        true
    }

    /// Puts `new` in the place of `old`; was `old` there?
    pub(crate) fn replace(&mut self, hash: u64, old: Flow, new: Flow) -> bool {
        let page = self.page_of(hash);
        let buckets = self.buckets.get_mut(page);
        let Some((at, way)) = find(buckets, hash, |word| word == old.pack()) else { return false };
        buckets[at].flows[way] = new.pack();
        self.version = self.version.wrapping_add(1);
        true
    }

    #[cold]
    fn split(&mut self, hash: u64, rehash: &mut impl FnMut(Flow) -> u64) -> bool {
        let old = self.page_of(hash);
        let depth = self.pages[old].depth;
        if depth >= DEPTH_MAX {
            return false;
        }
        if depth == self.depth {
            self.directory = self.directory.iter().flat_map(|&page| [page, page]).collect();
            self.depth += 1;
        }
        let new = self.pages.len() as u32;
        let from = std::mem::replace(self.buckets.get_mut(old), [VACANT; BUCKETS]);
        self.pages[old] = Page { used: 0, depth: depth + 1 };
        self.pages.push(Page { used: 0, depth: depth + 1 });
        if self.buckets.len() < self.pages.len() {
            self.buckets.grow(|_| [VACANT; BUCKETS]);
        }
        let span = 1usize << (self.depth - depth - 1);
        let first = ((hash >> 1) >> (63 - depth)) as usize * 2 * span;
        self.directory[first + span..first + 2 * span].fill(new);
        for bucket in &from {
            for way in (0..WAYS).filter(|&way| bucket.tags[way] != EMPTY) {
                let hash = rehash(Flow::unpack(bucket.flows[way]));
                let page = self.page_of(hash);
                self.pages[page].put(self.buckets.get_mut(page), hash, bucket.flows[way]);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
