//! Hosts: what ended connections learned about a peer, for those to come (RFC 9040, temporal sharing).
//!
//! A table of sets; of a full one what was learned longest ago makes room. Only connections whose handshake was
//! completed teach, so forged SYNs change nothing here; and addresses that one peer has many of, those of an IPv6
//! network of 64 bits, share a set, so that nothing can drive out all the others. Like FreeBSD's host cache it goes by
//! the peer's address alone, because the destination alone decides about the route here. A [`crate::net::paths::Path`]
//! knows where its entry lies, and of all connections that end in the same second the first one teaches: a short
//! connection pays two comparisons. The path MTUs that routers tell lie in [`crate::net::paths::Paths`], because
//! connections that live obey them too.

use base::{Addr, Instant, SipKey};
use tcp::{Config, HostHint, HostLesson, HostMemory};

/// Entries of a set.
const WAYS: usize = 8;
/// No entry is known.
pub(crate) const NONE: u32 = u32::MAX;

/// Entry of one host.
#[derive(Clone, Copy)]
struct Entry {
    remote: Addr,
    memory: HostMemory,
    /// When the last connection taught it, seconds.
    at: u32,
}

/// A line of what is known.
#[derive(Clone, Copy, Debug)]
pub struct HostRow {
    /// The peer's.
    pub remote: Addr,
    /// Measurements by connections.
    pub memory: HostMemory,
    /// How long ago the last of them ended, seconds.
    pub age: u32,
    /// Hint that a new connection would get now.
    pub hint: HostHint,
}

/// The table. It takes its memory when the first connection ends.
pub(crate) struct Hosts {
    key: SipKey,
    entries: Vec<Option<Entry>>,
    len: usize,
}

impl Hosts {
    pub(crate) fn new(key: SipKey) -> Hosts {
        Hosts { key, entries: Vec::new(), len: 0 }
    }

    /// Entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes held.
    pub(crate) fn footprint(&self) -> usize {
        self.entries.capacity() * size_of::<Option<Entry>>()
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        (self.entries, self.len) = (Vec::new(), 0);
    }

    /// Where the set of this one begins.
    fn set(&self, remote: Addr) -> usize {
        let [network, host] = remote.halves();
        let host = if remote.is_v4() { host } else { 0 };
        let sets = self.entries.len() / WAYS;
        self.key.fast(&[network, host]) as usize % sets * WAYS
    }

    /// The place of the host's entry, or [`NONE`].
    pub(crate) fn find(&self, remote: Addr) -> u32 {
        if self.entries.is_empty() {
            return NONE;
        }
        let set = self.set(remote);
        let known = |entry: &Option<Entry>| entry.is_some_and(|entry| entry.remote == remote);
        self.entries[set..set + WAYS].iter().position(known).map_or(NONE, |way| (set + way) as u32)
    }

    #[inline]
    fn at(&self, place: u32, remote: Addr) -> Option<&Entry> {
        self.entries.get(place as usize)?.as_ref().filter(|entry| entry.remote == remote)
    }

    /// Returns the hint for a connection to `remote`, if its entry lies at `place`.
    #[inline]
    pub(crate) fn hint(&self, config: &Config, now: Instant, place: u32, remote: Addr) -> HostHint {
        let entry = self.at(place, remote);
        entry.map_or(HostHint::default(), |entry| {
            entry.memory.hint(config, seconds(now).wrapping_sub(entry.at))
        })
    }

    /// Did the entry at `place`, if it is of `remote`, learn something in this very second?
    #[inline]
    pub(crate) fn is_fresh(&self, now: Instant, place: u32, remote: Addr) -> bool {
        self.at(place, remote).is_some_and(|entry| entry.at == seconds(now))
    }

    /// A connection to `remote` ended. Where its entry lies.
    pub(crate) fn learn(&mut self, config: &Config, now: Instant, remote: Addr, lesson: &HostLesson) -> u32 {
        let (place, at) = (self.place_for(config, remote), seconds(now));
        let taken = &mut self.entries[place as usize];
        match taken.as_mut().filter(|entry| entry.remote == remote) {
            Some(entry) if u64::from(at.wrapping_sub(entry.at)) < config.host_cache_age.as_secs() => {
                entry.memory.learn(config, lesson);
                entry.at = at;
            }
            _ => {
                self.len += usize::from(taken.is_none());
                *taken = Some(Entry { remote, memory: HostMemory::new(config, *lesson), at });
            }
        }
        place
    }

    /// The host's place, or one that may be taken for it.
    fn place_for(&mut self, config: &Config, remote: Addr) -> u32 {
        if self.entries.is_empty() {
            self.entries = vec![None; (config.host_cache as usize).next_multiple_of(WAYS)];
        }
        let set = self.set(remote);
        let entries = &self.entries[set..set + WAYS];
        let known = entries.iter().position(|entry| entry.is_some_and(|entry| entry.remote == remote));
        // A vacant place is older than any.
        let oldest = || (0..WAYS).min_by_key(|&way| entries[way].map(|entry| entry.at));
        (set + known.or_else(oldest).unwrap_or(0)) as u32
    }

    /// Everything known.
    pub(crate) fn rows(&self, config: &Config, now: Instant) -> impl Iterator<Item = HostRow> {
        self.entries.iter().flatten().map(move |entry| {
            let Entry { remote, memory, at } = *entry;
            let age = seconds(now).wrapping_sub(at);
            HostRow { remote, memory, age, hint: memory.hint(config, age) }
        })
    }
}

fn seconds(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000_000) as u32
}

#[cfg(test)]
mod tests;
