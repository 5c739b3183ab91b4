//! Paths: for each destination lately spoken to, its neighbour, our address, and how large a packet may be.

use base::{Addr, Duration, Endpoint, FlowKey, Instant};
use std::collections::BTreeMap;
use tcp::IsnSource;

use crate::net::ip::{Ip, Way};
use crate::net::neighbours::Neighbours;
use crate::tables::host_cache::{Hosts, NONE};

/// Destinations whose way is kept, at first and when they turn out to be too many for that.
const CACHE: usize = 256;
const CACHE_MAX: usize = 4096;
/// Most destinations with a smaller MTU than their route's.
const PMTU_MAX: usize = 1024;
/// How long a smaller MTU is believed (RFC 1191, section 6.3; RFC 8201, section 4).
const PMTU_AGE: Duration = Duration::from_secs(600);

/// The way to one destination, resolved to a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Path {
    /// Index of the neighbour; [`LOOP`] where packets stay inside the stack.
    pub(crate) hop: u32,
    /// Source address, unless the connection has one.
    pub(crate) src: Addr,
    /// Largest IP packet, bytes.
    pub(crate) mtu: u16,
    /// Offset of the timestamp clock between `src` and the destination.
    pub(crate) ts_offset: u32,
    /// Where what connections to it learned lies in [`Hosts`], as far as known.
    pub(crate) host: u32,
}

/// The neighbour of a destination that is an address of the stack: there is none.
pub(crate) const LOOP: u32 = u32::MAX;

impl Path {
    /// Returns true if packets stay inside the stack.
    #[inline]
    pub(crate) fn is_looped(&self) -> bool {
        self.hop == LOOP
    }
}

#[derive(Clone, Copy)]
struct Cached {
    dst: Addr,
    generation: u32,
    /// The end of the destination that had to go for this one.
    before: u32,
    path: Path,
}

/// Generation 0 is never an Ip's first.
const NOWHERE: Cached = {
    let path = Path { hop: 0, src: Addr::UNSPECIFIED_V6, mtu: 0, ts_offset: 0, host: NONE };
    Cached { dst: Addr::UNSPECIFIED_V6, generation: 0, before: 0, path }
};

/// A direct-mapped cache of looked-up ways, and the path MTUs that ICMP taught us.
pub(crate) struct Paths {
    cache: Vec<Cached>,
    /// How often a destination came again whose way had to go for another's, since the cache grew.
    crowded: usize,
    mtus: BTreeMap<Addr, (u16, Instant)>,
    /// When the first of them has grown too old.
    next: Option<Instant>,
}

/// Why there is no path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoPath {
    /// No route, or no address of ours fits.
    Route,
    /// No room for another neighbour.
    Neighbours,
}

impl Paths {
    pub(crate) fn new() -> Self {
        Paths { cache: vec![NOWHERE; CACHE], crowded: 0, mtus: BTreeMap::new(), next: None }
    }

    /// The path to `dst`, if it was looked up under this generation of the routes.
    #[inline]
    pub(crate) fn known(&self, dst: Addr, generation: u32) -> Option<Path> {
        let cached = &self.cache[self.slot(dst)];
        (cached.dst == dst && cached.generation == generation).then_some(cached.path)
    }

    /// Returns the known path, mutably.
    #[inline]
    pub(crate) fn known_mut(&mut self, dst: Addr, generation: u32) -> Option<&mut Path> {
        let slot = self.slot(dst);
        let cached = &mut self.cache[slot];
        (cached.dst == dst && cached.generation == generation).then_some(&mut cached.path)
    }

    /// Finds the path to `dst`.
    pub(crate) fn look_up(
        &mut self,
        now: Instant,
        dst: Addr,
        ip: &mut Ip,
        neighbours: &mut Neighbours,
        isn: &IsnSource,
        hosts: &Hosts,
    ) -> Result<Path, NoPath> {
        let Way { next_hop, src, mtu, looped } = ip.way(dst).ok_or(NoPath::Route)?;
        let pair = FlowKey::new(Endpoint::new(src, 0), Endpoint::new(dst, 0));
        if looped {
            // What ICMP says on the link is not about these.
            let path = Path { hop: LOOP, src, mtu, ts_offset: isn.ts_offset(&pair), host: hosts.find(dst) };
            self.remember(dst, ip.generation(), path);
            return Ok(path);
        }
        let found = neighbours.find(now, next_hop, next_hop != dst);
        if neighbours.take_voided() {
            ip.touch();
        }
        let hop = found.map_err(|_| NoPath::Neighbours)?;
        let learned = self.mtus.get(&dst).filter(|(_, until)| now < *until).map_or(mtu, |&(mtu, _)| mtu);
        let path =
            Path { hop, src, mtu: mtu.min(learned), ts_offset: isn.ts_offset(&pair), host: hosts.find(dst) };
        self.remember(dst, ip.generation(), path);
        Ok(path)
    }

    /// Where more destinations come again and again than there is room for, there will be more: but not for those that
    /// come once, which would only take it from the caches of the processor.
    fn remember(&mut self, dst: Addr, generation: u32, path: Path) {
        let slot = self.slot(dst);
        let cached = &mut self.cache[slot];
        self.crowded += usize::from(cached.before == dst.words()[3] && cached.generation == generation);
        *cached = Cached { dst, generation, before: cached.dst.words()[3], path };
        if self.crowded >= self.cache.len() && self.cache.len() < CACHE_MAX {
            self.crowded = 0;
            self.cache = vec![NOWHERE; self.cache.len() * 4];
        }
    }

    #[inline]
    fn slot(&self, dst: Addr) -> usize {
        let [a, b, c, d] = dst.words();
        let mixed = (a ^ b.rotate_left(7) ^ c.rotate_left(13) ^ d).wrapping_mul(0x9e37_79b9);
        (mixed >> 16) as usize & (self.cache.len() - 1)
    }

    /// A router on the way to `dst` takes packets of `mtu` bytes at most.
    /// RFC 1191, 6.3-1; RFC 8201, 4-4.
    pub(crate) fn too_big(&mut self, now: Instant, dst: Addr, mtu: u16, ip: &mut Ip) {
        if self.mtus.len() >= PMTU_MAX && !self.mtus.contains_key(&dst) {
            self.mtus.retain(|_, (_, until)| now < *until);
            if self.mtus.len() >= PMTU_MAX {
                return;
            }
        }
        self.mtus.insert(dst, (mtu, now + PMTU_AGE));
        self.next = Instant::earliest(self.next, Some(now + PMTU_AGE));
        ip.touch();
    }

    /// When [`Self::expire`] has something to do.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Forgets old ICMP messages, and looks every route up again: also destinations in use, and connections
    /// that live, get the route's MTU back.
    /// RFC 1191, 6.3-2.
    pub(crate) fn expire(&mut self, now: Instant, ip: &mut Ip) {
        self.mtus.retain(|_, (_, until)| now < *until);
        self.next = self.mtus.values().map(|&(_, until)| until).min();
        ip.touch();
    }

    /// Destinations whose MTU ICMP told us.
    pub(crate) fn learned(&self) -> usize {
        self.mtus.len()
    }

    /// Bytes held.
    pub(crate) fn footprint(&self) -> usize {
        self.cache.capacity() * size_of::<Cached>()
    }
}

#[cfg(test)]
mod tests;
