//! The handshake cache: what connections that are alike begin with, ready to be copied (the bundle of FALTCON).
//!
//! A *cache entry* holds what settings, options and the peer's SYN come to, and our SYN or SYN-ACK as bytes in which
//! only addresses and numbers change. Nothing in it belongs to one peer: what does is its way ([`crate::net::paths`])
//! and what connections to it learned ([`crate::tables::host_cache`]). So a few cache entries do for all peers, for
//! those that come once too, and stay in the cache; one for each pair of hosts, as it once was, took longer to fetch
//! from memory than it saved as soon as there were thousands of them. And who is answered from a cache entry does not
//! tell whether that host was there before.
//!
//! That of a listener is made of a connection that completed its handshake, and only such connections make it younger:
//! forged SYNs neither fill this nor empty it. In a full cache the one makes room that was used longest ago, but
//! no entry that was used a moment ago: a client that says something else in each SYN drives out nothing but himself.

use base::{Addr, Endpoint, Instant};
use tcp::CachedState;
use wire::packet::Template;

use crate::tables::listeners::ListenerId;

/// Seconds after its last use before which an entry is never evicted.
const BUSY: u32 = 10;

/// Everything that is alike in connections of a kind.
#[derive(Clone, Copy)]
pub(crate) struct CachedHandshake {
    /// Our end where we accept; where we connect, only its family.
    pub(crate) local: Endpoint,
    /// Listener, found when the listeners were at this version; none where this side connects.
    pub(crate) listener: Option<(ListenerId, u32)>,
    /// The generation of addresses and routes under which it was made.
    pub(crate) way: u32,
    pub(crate) state: CachedState,
    /// Our SYN or SYN-ACK.
    pub(crate) template: Template,
}

impl CachedHandshake {
    fn is_like(&self, other: &CachedHandshake) -> bool {
        self.local == other.local
            && self.listener.is_some() == other.listener.is_some()
            && self.state.is_like(&other.state)
    }
}

/// Part of an entry that is compared first.
#[derive(Clone, Copy)]
struct Label {
    /// Of the end: few cache entries have the same.
    tag: u32,
    /// When it was used last, and when it was made, seconds.
    at: u32,
    made: u32,
}

/// The handshake cache of one core.
#[derive(Default)]
pub(crate) struct HandshakeCache {
    labels: Vec<Label>,
    handshake_cache: Vec<CachedHandshake>,
}

/// Under which end cache entries of connections that we open from this address are kept.
#[inline]
pub(crate) fn end_of_connect(addr: Addr) -> Endpoint {
    Endpoint::new(if addr.is_v4() { Addr::UNSPECIFIED_V4 } else { Addr::UNSPECIFIED_V6 }, 0)
}

#[inline]
fn tag_of(local: Endpoint) -> u32 {
    local.addr.words()[3].rotate_left(16) ^ u32::from(local.port)
}

#[inline]
fn seconds(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000_000) as u32
}

impl HandshakeCache {
    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = HandshakeCache::default();
    }

    /// Cache entries in use.
    pub(crate) fn len(&self) -> usize {
        self.handshake_cache.len()
    }

    /// Bytes held.
    pub(crate) fn footprint(&self) -> usize {
        self.labels.capacity() * size_of::<Label>()
            + self.handshake_cache.capacity() * size_of::<CachedHandshake>()
    }

    /// The cache entry at this end for which `is` holds, if it was used less than `age` seconds ago.
    #[inline]
    pub(crate) fn find(
        &self,
        now: Instant,
        age: u32,
        local: Endpoint,
        is: impl Fn(&CachedHandshake) -> bool,
    ) -> Option<u32> {
        let (tag, now) = (tag_of(local), seconds(now));
        for (at, label) in self.labels.iter().enumerate() {
            if label.tag == tag
                && now.wrapping_sub(label.at) < age
                && let Some(cached) = self.handshake_cache.get(at)
                && cached.local == local
                && is(cached)
            {
                return Some(at as u32);
            }
        }
        None
    }

    /// The cache entry that was found at this index just now.
    #[inline]
    pub(crate) fn at(&self, index: u32) -> &CachedHandshake {
        &self.handshake_cache[index as usize]
    }

    /// The cache entry of this index, which may be of another kind by now.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&CachedHandshake> {
        self.handshake_cache.get(index as usize)
    }

    /// It was used, by a host at that address.
    #[inline]
    pub(crate) fn touch(&mut self, now: Instant, index: u32) {
        if let Some(label) = self.labels.get_mut(index as usize) {
            label.at = seconds(now);
        }
    }

    /// May there be one more at this end, and was none made in this very second? (It costs more than it saves where
    /// nothing begins with it.)
    pub(crate) fn has_room(&self, now: Instant, limit: u32, local: Endpoint) -> bool {
        let (tag, second) = (tag_of(local), seconds(now));
        let renewed = self.labels.iter().any(|label| label.tag == tag && label.made == second);
        let room = self.handshake_cache.len() < limit as usize
            || self.labels.iter().any(|label| label.tag == tag || second.wrapping_sub(label.at) >= BUSY);
        room && !renewed
    }

    /// Keeps a cache entry, in the place of one of its kind, or of the one that was used longest ago. Did that have to
    /// go?
    pub(crate) fn keep(&mut self, now: Instant, limit: u32, cached: CachedHandshake) -> bool {
        let now = seconds(now);
        let label = Label { tag: tag_of(cached.local), at: now, made: now };
        if let Some(at) = self.handshake_cache.iter().position(|known| known.is_like(&cached)) {
            (self.labels[at], self.handshake_cache[at]) = (label, cached);
            return false;
        }
        if self.handshake_cache.len() < limit as usize {
            self.labels.push(label);
            self.handshake_cache.push(cached);
            return false;
        }
        let idle = |at: &usize| now.wrapping_sub(self.labels[*at].at);
        let oldest = (0..self.handshake_cache.len()).max_by_key(idle).filter(|at| idle(at) >= BUSY);
        if let Some(at) = oldest {
            (self.labels[at], self.handshake_cache[at]) = (label, cached);
        }
        oldest.is_some()
    }
}

#[cfg(test)]
mod tests;
