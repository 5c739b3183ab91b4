//! Connections that begin from entries of the handshake cache ([`crate::tables::handshake_cache`]), and what they leave
//! there. Whatever is unusual begins the long way, and on the wire nothing can tell.

use base::{Addr, Instant};
use pio::Answerer;
use tcp::{Connection, FastOpenAnswer, SocketOptions};
use wire::packet::{Below, Template};
use wire::tcp::{Flags, Segment};

use crate::core::Core;
use crate::error::OpError;
use crate::net::paths::Path;
use crate::ops::{Connect, Free};
use crate::rx::Sender;
use crate::stats::PacketDrop;
use crate::tables::conns::{ConnId, Meta, NIL, SlotFlags};
use crate::tables::handshake_cache::{CachedHandshake, end_of_connect};
use crate::tables::listeners::{Listener, ListenerId};

impl Core {
    fn handshake_cache_age(&self) -> u32 {
        self.shared.config.handshake_cache_age.as_secs() as u32
    }

    /// Begins a connection from `addr` if there was one of its kind before. `None`, and nothing happened, if
    /// not.
    pub(crate) fn connect_cached(
        &mut self,
        now: Instant,
        connect: &Connect,
        addr: Addr,
        path: &Path,
    ) -> Option<Result<ConnId, OpError>> {
        let end = end_of_connect(addr);
        let found = self.handshake_cache.find(now, self.handshake_cache_age(), end, |cached| {
            cached.state.is_for(&connect.options, path.mtu)
        });
        let Some(index) = found else {
            self.stats.handshake_cache_misses += 1;
            return None;
        };
        let Free { key, hash, above } = match self.choose_free(now, addr, connect.remote, false) {
            Ok(chosen) => chosen,
            Err(failed) => return Some(Err(failed)),
        };
        let name = connect.control.unwrap_or(self.registry.default_name());
        let control = match self.registry.create(name) {
            Ok(control) => control,
            Err(failed) => return Some(Err(failed.into())),
        };
        self.stats.handshake_cache_hits += 1;
        self.handshake_cache.touch(now, index);
        let mut fresh = self.fresh(now, &key, path);
        if let Some(above) = above {
            fresh.isn = Core::isn_above(fresh.isn, above);
        }
        let mut meta = Meta::new(hash, path.hop, self.ip.generation());
        (meta.owner, meta.listener) = (connect.owner, index);
        meta.flags.set(SlotFlags::OWNED | SlotFlags::CACHED | SlotFlags::OPENING);
        let conn = self.conns.claim(meta);
        let (place, state) = (&mut self.conns.slot_mut(conn).tcp, &self.handshake_cache.at(index).state);
        Connection::connect_again(place, &mut self.shared.cx(now), &fresh, control, state);
        Some(if self.enter(conn) { Ok(ConnId(conn)) } else { Err(OpError::NoBuffers) })
    }

    /// A SYN, and nothing but a SYN, of a flow that is new: begins its connection if there was one before of its kind,
    /// to the same listener. False, and nothing happened, if not. What is known of its sender, whose address may be
    /// forged, is the way to there and how long a round trip took, as for any other SYN.
    pub(crate) fn accept_cached(&mut self, now: Instant, sender: &Sender<'_>, syn: &Segment<'_>) -> bool {
        let (local, remote) = (sender.key.local(), sender.key.remote());
        let found = self
            .handshake_cache
            .find(now, self.handshake_cache_age(), local, |cached| cached.state.fits(sender.key, syn));
        let Some(index) = found else {
            self.stats.handshake_cache_misses += 1;
            return false;
        };
        let &CachedHandshake { listener: Some((id, version)), way, .. } = self.handshake_cache.at(index)
        else {
            return false;
        };
        let strange = remote.addr.is_unspecified() || self.ip.is_of_many(remote.addr) || local == remote;
        let same = way == self.ip.generation() && version == self.listeners.version();
        if strange || !same {
            self.stats.handshake_cache_stale += 1;
            return false;
        }
        let Some(Listener { half_open, request, .. }) =
            self.listeners.get(id).filter(|known| !known.is_full())
        else {
            return false;
        };
        let (full, control) = (*half_open >= request.backlog.max(1) || self.conns.is_full(), request.control);
        if full || self.answerer(sender.key, true) != Answerer::Ours {
            return false;
        }
        let Ok(path) = self.path(now, remote.addr) else { return false };
        // A packet of the link in our own name.
        if path.is_looped() {
            return false;
        }
        if !self.handshake_cache.at(index).state.is_over(path.mtu) {
            self.stats.handshake_cache_stale += 1;
            return false;
        }
        let control = self.registry.create_or_default(control);
        self.neighbours.hint(now, path.hop, sender.mac(self.port.caps.medium));
        self.stats.handshake_cache_hits += 1;
        let fresh = self.fresh(now, sender.key, &path);
        let mut meta = Meta::new(sender.hash, path.hop, self.ip.generation());
        (meta.owner, meta.listener) = (index, id.0);
        meta.flags.set(SlotFlags::HALF_OPEN | SlotFlags::CACHED | SlotFlags::OPENING);
        let conn = self.conns.claim(meta);
        let (place, state) = (&mut self.conns.slot_mut(conn).tcp, &self.handshake_cache.at(index).state);
        Connection::accept_again(place, &mut self.shared.cx(now), &fresh, control, state, syn);
        if !self.enter(conn) {
            self.drops.count(PacketDrop::NoRoom);
        } else if let Some(listener) = self.listeners.get_mut(id) {
            listener.half_open += 1;
        }
        true
    }

    /// Is this segment of no flow worth a look into the handshake cache?
    #[inline]
    pub(crate) fn may_be_cached(&self, syn: &Segment<'_>) -> bool {
        self.shared.config.handshake_cache
            && syn.flags == Flags::SYN
            && syn.payload.is_empty()
            && syn.options.signature.is_none()
            && self.shared.probes.is_none()
            && !self.looping
            && !FastOpenAnswer::concerns(&self.shared.config, syn)
    }

    /// The SYN or SYN-ACK of a connection from the handshake cache, if it still looks like those before it. False, and
    /// nothing happened, if not.
    #[inline(never)]
    pub(crate) fn transmit_opening(&mut self, now: Instant, index: u32) -> bool {
        let Some((meta, tcp)) = self.conns.get_mut(index) else { return false };
        meta.flags.clear(SlotFlags::OPENING);
        let active = !meta.flags.has(SlotFlags::HALF_OPEN);
        let cached = if active { std::mem::replace(&mut meta.listener, NIL) } else { meta.owner };
        let Some(cached) = self.handshake_cache.get(cached) else { return false };
        // By now the cache entry may be of another kind.
        let key = tcp.key();
        let fits = cached.listener.is_none() == active && cached.template.is_v4() == key.is_v4();
        if !fits || !self.port.stock() {
            return false;
        }
        let ends = [key.local(), key.remote()];
        let cx = &mut self.shared.cx(now);
        let Some(opening) = tcp.poll_opening(cx, &cached.state) else { return false };
        self.port.opening(&cached.template, self.neighbours.mac(meta.hop), meta.hash, ends, &opening);
        true
    }

    /// A connection is over, one way or another: the next one of its kind may be easier.
    #[inline]
    pub(crate) fn cache_ended(&mut self, now: Instant, index: u32) {
        if let Some((meta, tcp)) = self.conns.get(index)
            && self.shared.config.handshake_cache
            && !meta.flags.has(SlotFlags::CACHED)
            && !tcp.is_active()
            && tcp.has_met_peer()
        {
            self.cache_accepted(now, index);
        }
    }

    /// A client from the handshake cache has shown that it is where its address says.
    #[inline]
    pub(crate) fn touch_cached(&mut self, index: u32) {
        let meta = &self.conns.slot(index).meta;
        if meta.flags.has(SlotFlags::CACHED) {
            // Nothing owns it yet.
            self.handshake_cache.touch(self.now, meta.owner);
        }
    }

    #[cold]
    fn cache_accepted(&mut self, now: Instant, index: u32) {
        let Some((_, tcp)) = self.conns.get(index) else { return };
        let key = *tcp.key();
        let Some(id) = self.listeners.only(key.local()) else { return };
        let Ok(path) = self.path(now, key.remote().addr) else { return };
        if path.is_looped() {
            return;
        }
        let Some(listener) = self.listeners.get(id) else { return };
        if listener.request.keys.is_none() {
            let request = listener.request.options;
            self.cache(now, index, &request, &path, Some(id));
        }
    }

    /// Makes a cache entry of a connection that has begun the long way: the next one of its kind will not have to.
    #[cold]
    pub(crate) fn cache(
        &mut self,
        now: Instant,
        index: u32,
        request: &SocketOptions,
        path: &Path,
        listener: Option<ListenerId>,
    ) {
        let Some((_, tcp)) = self.conns.get(index) else { return };
        let (key, way, limit) =
            (*tcp.key(), self.ip.generation(), self.shared.config.handshake_cache_entries);
        let local = if listener.is_some() { key.local() } else { end_of_connect(key.local().addr) };
        if !self.handshake_cache.has_room(now, limit, local) {
            return;
        }
        let Some((state, shown)) = tcp.cached_state(&mut self.shared.cx(now), request, path.mtu) else {
            return;
        };
        let (link, src, dst) = (self.port.link(), key.local().addr, key.remote().addr);
        let below = Below { link, src, dst, tos: shown.tos, ttl: shown.ttl, label: 0 };
        let Some(template) = Template::new(&below, &shown.header) else { return };
        let listener = listener.map(|id| (id, self.listeners.version()));
        self.stats.handshake_cache_kept += 1;
        let cached = CachedHandshake { local, listener, way, state, template };
        self.stats.handshake_cache_evicted += u64::from(self.handshake_cache.keep(now, limit, cached));
    }
}
