//! Flows that were heard of lately: rows of four, chosen by the hash; the one used longest ago gives way.

use alloc::vec;
use alloc::vec::Vec;
use base::{Duration, FlowKey, Instant, Seq};

use crate::islands::Islands;
use crate::pieces::NONE;
use crate::run::Open;

/// Flows in a row.
const WAYS: usize = 4;
/// After so many batches of a flow that came within the budget of each other another one is expected.
pub(crate) const BUSY: u8 = 2;

/// For so long a gap is waited for at the most: what never fills it was a segment from nowhere.
pub(crate) const GAP_LASTS: Duration = Duration::from_secs(1);

/// State of a flow in the engine.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) key: FlowKey,
    pub(crate) hash: u64,
    /// The byte after all that came without a gap.
    pub(crate) next: Seq,
    /// Data delivered beyond a gap: until the gap is filled nothing is held, because each segment changes the
    /// acknowledgment.
    pub(crate) islands: Islands,
    /// Since when there is a gap, if there is one.
    pub(crate) gap_since: Instant,
    /// The run that grows.
    pub(crate) run: Option<Open>,
    /// Packets that came too early, by sequence number, and since when one of them waits.
    pub(crate) early: u32,
    pub(crate) early_since: Instant,
    /// When it was last heard of.
    pub(crate) heard: Instant,
    /// Times in a row that the flow was heard of again within the budget.
    pub(crate) busy: u8,
    /// How long its runs may be held.
    pub(crate) flush_timeout: Duration,
    /// It is in the list of those that hold something.
    pub(crate) active: bool,
    used: u64,
}

impl Flow {
    pub(crate) fn has_early(&self) -> bool {
        self.early != NONE
    }

    /// Holds it anything?
    pub(crate) fn holds(&self) -> bool {
        self.run.is_some() || self.has_early()
    }

    /// Is it worth waiting for more of it? It is where more came in time so far and no gap is known: a flow of a
    /// packet a second never waits.
    pub(crate) fn expects_more(&self) -> bool {
        self.busy >= BUSY && self.islands.is_empty()
    }

    /// Something of it came; how long it had been silent.
    pub(crate) fn on_heard(&mut self, now: Instant) -> Duration {
        let silence = now.since(core::mem::replace(&mut self.heard, now));
        if silence > self.flush_timeout {
            self.busy = 0;
        } else if !silence.is_zero() {
            self.busy = BUSY.min(self.busy + 1);
        }
        silence
    }
}

pub(crate) struct Flows {
    rows: Vec<[Option<Flow>; WAYS]>,
    /// The hash of each flow, apart from all else: a flow that is not here is not looked for in its row.
    hashes: Vec<[u64; WAYS]>,
    used: u64,
}

/// Where a flow is.
pub(crate) type At = (usize, usize);

impl Flows {
    pub(crate) fn new(flows: u16) -> Self {
        let count = usize::from(flows) / WAYS;
        let row = || [const { None }; WAYS];
        Flows { rows: (0..count).map(|_| row()).collect(), hashes: vec![[0; WAYS]; count], used: 0 }
    }

    pub(crate) fn footprint(&self) -> usize {
        self.rows.capacity() * size_of::<[Option<Flow>; WAYS]>()
            + self.hashes.capacity() * size_of::<[u64; WAYS]>()
    }

    fn row(&self, hash: u64) -> usize {
        hash as usize & (self.rows.len() - 1)
    }

    #[inline]
    pub(crate) fn find(&mut self, key: &FlowKey, hash: u64) -> Option<At> {
        let row = self.row(hash);
        if !self.hashes[row].contains(&hash) {
            return None;
        }
        // A free place has a hash, too: that of no flow, or that of a flow that is gone.
        let is_its = |way: &usize| self.hashes[row][*way] == hash && self.holds_flow((row, *way), key);
        let way = (0..WAYS).find(is_its)?;
        self.touch((row, way));
        Some((row, way))
    }

    fn holds_flow(&self, at: At, key: &FlowKey) -> bool {
        self.get(at).is_some_and(|flow| flow.key == *key)
    }

    /// The flow at a place is the one used last.
    pub(crate) fn touch(&mut self, (row, way): At) {
        self.used += 1;
        if let Some(flow) = &mut self.rows[row][way] {
            flow.used = self.used;
        }
    }

    /// Where another flow with this hash would go: a free place, or that of the one used longest ago.
    pub(crate) fn place(&self, hash: u64) -> At {
        let row = self.row(hash);
        let age = |flow: &Option<Flow>| flow.as_ref().map_or(0, |flow| flow.used);
        let way = (0..WAYS).min_by_key(|way| age(&self.rows[row][*way])).unwrap_or(0);
        (row, way)
    }

    /// Puts a flow that was heard of first at `now`, expecting `next`, into a place.
    pub(crate) fn put(
        &mut self,
        at: At,
        (key, hash): (FlowKey, u64),
        next: Seq,
        now: Instant,
        flush_timeout: Duration,
    ) {
        self.used += 1;
        self.hashes[at.0][at.1] = hash;
        self.rows[at.0][at.1] = Some(Flow {
            key,
            hash,
            next,
            islands: Islands::default(),
            gap_since: now,
            run: None,
            early: NONE,
            early_since: now,
            heard: now,
            busy: 0,
            flush_timeout,
            active: false,
            used: self.used,
        });
    }

    pub(crate) fn get(&self, at: At) -> Option<&Flow> {
        self.rows[at.0][at.1].as_ref()
    }

    pub(crate) fn get_mut(&mut self, at: At) -> Option<&mut Flow> {
        self.rows[at.0][at.1].as_mut()
    }

    pub(crate) fn remove(&mut self, at: At) {
        self.rows[at.0][at.1] = None;
    }
}
