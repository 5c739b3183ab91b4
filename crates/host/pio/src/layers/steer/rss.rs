//! A card's rule for choosing a receive queue, and predictions by it.

use base::FlowKey;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use wire::rss::Toeplitz;

/// A card's rule: Toeplitz's hash of addresses and ports, whose low bits choose a queue in a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rss {
    /// Key of the hash.
    pub key: Vec<u8>,
    /// Queue of each value of the low bits; a power of two of entries.
    pub table: Vec<u16>,
    /// TCP over IPv4 is spread by both addresses and both ports.
    pub v4: bool,
    /// TCP over IPv6 is.
    pub v6: bool,
}

impl Rss {
    /// Returns the rule for cores, each of which serves every `cores`th queue.
    #[must_use]
    pub fn for_cores(mut self, cores: u16) -> Rss {
        self.table.iter_mut().for_each(|queue| *queue %= cores.max(1));
        self
    }
}

/// The rule at work, as long as packets arrive where it says.
pub(super) struct Prediction {
    hash: Toeplitz,
    cores: Vec<u16>,
    /// Some packets arrive at this core.
    reached: Vec<bool>,
    v4: bool,
    v6: bool,
    holds: AtomicBool,
    wrong: AtomicU64,
}

impl Prediction {
    /// `None` if the rule makes no sense, or says of no flow where it arrives.
    pub(super) fn new(rule: &Rss, cores: usize) -> Option<Prediction> {
        let Rss { key, table, v4, v6 } = rule;
        let sound = table.len().is_power_of_two() && table.iter().all(|&core| usize::from(core) < cores);
        if !sound || !(*v4 || *v6) {
            return None;
        }
        Some(Prediction {
            hash: Toeplitz::new(key)?,
            reached: (0..cores).map(|core| table.iter().any(|&to| usize::from(to) == core)).collect(),
            cores: table.clone(),
            v4: *v4,
            v6: *v6,
            holds: AtomicBool::new(true),
            wrong: AtomicU64::new(0),
        })
    }

    fn core_of(&self, key: &FlowKey) -> Option<u16> {
        let knows = if key.is_v4() { self.v4 } else { self.v6 };
        let holds = knows && self.holds.load(Ordering::Relaxed);
        holds.then(|| self.cores[self.hash.received(key) as usize & (self.cores.len() - 1)])
    }

    /// Does the flow arrive at this core, as far as can be told? Of a core that no packet reaches any flow is as good.
    pub(super) fn answers_at(&self, key: &FlowKey, core: u16) -> bool {
        !self.reached[usize::from(core)] || self.core_of(key).is_none_or(|predicted| predicted == core)
    }

    /// A SYN-ACK to a port of `owner` arrived at another core. If the rule says that it arrives at its owner, the rule
    /// is not the card's.
    #[cold]
    pub(super) fn on_strayed(&self, key: &FlowKey, owner: u16) {
        if self.core_of(key) == Some(owner) {
            self.wrong.fetch_add(1, Ordering::Relaxed);
            self.holds.store(false, Ordering::Relaxed);
        }
    }

    /// Does it hold, and how many packets contradicted it?
    pub(super) fn state(&self) -> (bool, u64) {
        (self.holds.load(Ordering::Relaxed), self.wrong.load(Ordering::Relaxed))
    }
}
