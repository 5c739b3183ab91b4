//! Connections between hosts that meet again: begun from the archive's bundle ([`crate::repeat`]), and what they leave
//! there. Whatever is unusual begins as the first connection of a pair does, and on the wire nobody can tell.

use base::{FlowKey, Instant};
use tcp::{Connection, FastOpenAnswer, Fresh, HostHint, SocketOptions};
use wire::packet::{Below, Template};
use wire::tcp::{Flags, Segment};

use crate::conns::{ConnId, Marks, Meta, NIL};
use crate::core::Core;
use crate::hosts;
use crate::listeners::ListenerId;
use crate::ops::{Connect, OpError};
use crate::paths::Path;
use crate::repeat::{Bundle, hosts_of, pair_of};
use crate::rx::Sender;
use crate::stats::PacketDrop;

/// What the archive has for a connection that is about to begin.
pub(crate) enum Known {
    /// Nothing, or it was not asked.
    Nothing,
    /// The pair was seen before, but not its bundle, or it has none that fits.
    Seen(FlowKey),
    /// Enough: the connection has begun, or cannot.
    Begun(Result<ConnId, OpError>),
}

impl Core {
    fn archive_age(&self) -> u32 {
        self.shared.config.archive_age.as_secs() as u32
    }

    /// Begins a connection to a peer to whom there was one before, if nothing about it is new.
    pub(crate) fn connect_again(&mut self, now: Instant, connect: &Connect) -> Known {
        let Connect { local, remote, .. } = *connect;
        if local.port != 0 || connect.keys.is_some() || self.conns.is_full() {
            return Known::Nothing;
        }
        let addr = match local.addr.is_unspecified() {
            false => local.addr,
            true => match self.path(now, remote.addr) {
                Ok(path) => path.src,
                Err(_) => return Known::Nothing,
            },
        };
        let pair = pair_of(&FlowKey::new(base::Endpoint::new(addr, 0), remote), true);
        let (age, hash) = (self.archive_age(), self.table.hash(&hosts_of(&pair)));
        let Some(place) = self.repeats.find(now, age, &pair, hash) else {
            self.stats.archive_misses += 1;
            let seen = self.repeats.has_seen(now, age, &pair, hash);
            return if seen { Known::Seen(pair) } else { Known::Nothing };
        };
        let index = self.repeats.bundle_at(place);
        let Some(bundle) = self.repeats.get(index) else { return Known::Nothing };
        let generation = self.ip.generation();
        if bundle.way != generation || !bundle.archived.is_for(&connect.options, bundle.mtu) {
            self.stats.archive_stale += 1;
            return Known::Seen(pair);
        }
        let (hop, ts_offset) = (bundle.hop, bundle.ts_offset);
        let (key, hash) = match self.choose_free(addr, remote) {
            Ok(chosen) => chosen,
            Err(failed) => return Known::Begun(Err(failed)),
        };
        let name = connect.control.unwrap_or(self.registry.default_name());
        let control = match self.registry.create(name) {
            Ok(control) => control,
            Err(failed) => return Known::Begun(Err(failed.into())),
        };
        self.stats.archive_hits += 1;
        self.repeats.touch(now, place);
        let hint = self.hint_again(now, index, &key);
        let fresh = Fresh { key, isn: self.isn.isn(now, &key), ts_offset, hint };
        let mut meta = Meta::new(hash, hop, generation);
        (meta.owner, meta.listener) = (connect.owner, index);
        meta.marks.set(Marks::OWNED | Marks::AGAIN | Marks::OPENING);
        let conn = self.conns.claim(meta);
        let Some(bundle) = self.repeats.get(index) else { return Known::Nothing };
        let place = &mut self.conns.slot_mut(conn).tcp;
        Connection::connect_again(place, &mut self.shared.cx(now), &fresh, control, &bundle.archived);
        Known::Begun(if self.enter(conn) { Ok(ConnId(conn)) } else { Err(OpError::NoBuffers) })
    }

    /// What is remembered of the bundle's host.
    #[inline]
    fn hint_again(&mut self, now: Instant, bundle: u32, key: &FlowKey) -> HostHint {
        let config = &self.shared.config;
        let remote = key.remote().addr;
        let Some(bundle) = self.repeats.get_mut(bundle).filter(|_| config.host_cache > 0) else {
            return HostHint::default();
        };
        if !self.hosts.is_at(bundle.host, remote) {
            bundle.host = self.hosts.find(remote);
        }
        self.hosts.hint(config, now, bundle.host, remote)
    }

    /// A SYN, and nothing but a SYN, of a flow that is new: begins its connection if there was one before from the same
    /// host to the same listener, and nothing about this one is new. False, and nothing happened, if not.
    pub(crate) fn accept_again(&mut self, now: Instant, sender: &Sender<'_>, syn: &Segment<'_>) -> bool {
        let pair = pair_of(sender.key, false);
        let (age, hash) = (self.archive_age(), self.table.hash(&hosts_of(&pair)));
        let Some(place) = self.repeats.find(now, age, &pair, hash) else {
            self.stats.archive_misses += 1;
            return false;
        };
        let index = self.repeats.bundle_at(place);
        let Some(bundle) = self.repeats.get(index) else { return false };
        let Bundle { hop, ts_offset, .. } = *bundle;
        let Some((id, version)) = bundle.listener else { return false };
        let same = bundle.way == self.ip.generation() && version == self.listeners.version();
        if !same || !bundle.archived.fits(sender.key, syn) {
            self.stats.archive_stale += 1;
            return false;
        }
        let Some(listener) = self.listeners.get_mut(id) else { return false };
        let full = listener.is_full() || listener.half_open >= listener.wish.backlog || self.conns.is_full();
        if full || !self.port.io.is_ours(sender.key, true) {
            return false;
        }
        listener.half_open += 1;
        let control = self.registry.create_or_default(listener.wish.control);
        self.hops.hint(now, hop, sender.mac(self.port.caps.medium));
        self.stats.archive_hits += 1;
        let hint = self.hint_again(now, index, sender.key);
        let fresh = Fresh { key: *sender.key, isn: self.isn.isn(now, sender.key), ts_offset, hint };
        let mut meta = Meta::new(sender.hash, hop, self.ip.generation());
        (meta.owner, meta.listener) = (index, id.0);
        meta.marks.set(Marks::HALF_OPEN | Marks::AGAIN | Marks::OPENING);
        let conn = self.conns.claim(meta);
        let Some(bundle) = self.repeats.get(index) else { return false };
        let place = &mut self.conns.slot_mut(conn).tcp;
        Connection::accept_again(place, &mut self.shared.cx(now), &fresh, control, &bundle.archived, syn);
        if !self.enter(conn) {
            if let Some(listener) = self.listeners.get_mut(id) {
                listener.half_open -= 1;
            }
            self.drops.count(PacketDrop::NoRoom);
        }
        true
    }

    /// Is this segment of no flow worth a look into the archive?
    #[inline]
    pub(crate) fn may_repeat(&self, syn: &Segment<'_>) -> bool {
        self.shared.config.archive
            && syn.flags == Flags::SYN
            && syn.payload.is_empty()
            && syn.options.signature.is_none()
            && self.shared.probes.is_none()
            && !FastOpenAnswer::concerns(&self.shared.config, syn)
    }

    /// The SYN or SYN-ACK of a connection from the archive, if it still looks like those before it. False, and nothing
    /// happened, if not.
    #[inline(never)]
    pub(crate) fn transmit_opening(&mut self, now: Instant, index: u32) -> bool {
        let Some((meta, tcp)) = self.conns.get_mut(index) else { return false };
        meta.marks.clear(Marks::OPENING);
        let active = !meta.marks.has(Marks::HALF_OPEN);
        let bundle = if active { std::mem::replace(&mut meta.listener, NIL) } else { meta.owner };
        let Some(bundle) = self.repeats.get(bundle) else { return false };
        // By now the bundle may be another pair's.
        if bundle.pair != pair_of(tcp.key(), active) || !self.port.stock() {
            return false;
        }
        let cx = &mut self.shared.cx(now);
        let Some(opening) = tcp.poll_opening(cx, &bundle.archived) else { return false };
        let ports = [tcp.key().local().port, tcp.key().remote().port];
        self.port.opening(&bundle.template, self.hops.mac(meta.hop), meta.hash, ports, &opening);
        true
    }

    /// A connection began the long way although its pair was seen before: the next one will not have to.
    #[cold]
    pub(crate) fn keep_connect(
        &mut self,
        now: Instant,
        pair: &FlowKey,
        index: u32,
        wish: &SocketOptions,
        path: &Path,
    ) {
        let (age, hash) = (self.archive_age(), self.table.hash(&hosts_of(pair)));
        let old = self.repeats.find(now, age, pair, hash);
        if old.is_none_or(|place| !self.repeats.is_fresh(now, place)) {
            self.keep(now, (pair, hash), index, wish, path, None);
        }
    }

    /// A connection is over, one way or another: the next one of its pair may be easier.
    #[inline]
    pub(crate) fn leave_behind(&mut self, now: Instant, index: u32) {
        if let Some((meta, tcp)) = self.conns.get(index)
            && self.shared.config.archive
            && !meta.marks.has(Marks::AGAIN)
            && tcp.has_met_peer()
        {
            self.leave_first(now, index);
        }
    }

    /// A client from the archive has shown that it is where its address says.
    #[inline]
    pub(crate) fn note_proven(&mut self, index: u32) {
        let meta = &self.conns.slot(index).meta;
        if meta.marks.has(Marks::AGAIN) {
            // Nobody owns it yet.
            self.repeats.touch_bundle(self.now, meta.owner);
        }
    }

    #[inline(never)]
    fn leave_first(&mut self, now: Instant, index: u32) {
        let Some((_, tcp)) = self.conns.get(index) else { return };
        let pair = pair_of(tcp.key(), tcp.is_active());
        let (age, hash) = (self.archive_age(), self.table.hash(&hosts_of(&pair)));
        let bounds = (age, self.shared.config.archive_pairs);
        // Who connects keeps its bundle when the next connection begins: then its options are known.
        if self.repeats.mark(now, bounds, &pair, hash) && !tcp.is_active() {
            self.keep_accepted(now, &pair, hash, index);
        }
    }

    #[cold]
    fn keep_accepted(&mut self, now: Instant, pair: &FlowKey, hash: u64, index: u32) {
        let Some((_, tcp)) = self.conns.get(index) else { return };
        let key = *tcp.key();
        let old = self.repeats.find(now, self.archive_age(), pair, hash);
        let renewed = old.is_some_and(|place| self.repeats.is_fresh(now, place));
        if renewed || key.local().addr == key.remote().addr {
            return;
        }
        let Some(id) = self.listeners.only(key.local()) else { return };
        let Ok(path) = self.path(now, key.remote().addr) else { return };
        let Some(listener) = self.listeners.get(id) else { return };
        if listener.wish.keys.is_none() {
            let wish = listener.wish.options;
            self.keep(now, (pair, hash), index, &wish, &path, Some(id));
        }
    }

    /// Makes the bundle of a pair, of a connection of it.
    fn keep(
        &mut self,
        now: Instant,
        (pair, hash): (&FlowKey, u64),
        index: u32,
        wish: &SocketOptions,
        path: &Path,
        listener: Option<ListenerId>,
    ) {
        if !self.repeats.has_room(now, pair, hash) {
            return;
        }
        let Some((_, tcp)) = self.conns.get(index) else { return };
        let (key, way) = (*tcp.key(), self.ip.generation());
        let Some((archived, shown)) = tcp.archive(&mut self.shared.cx(now), wish, path.mtu) else { return };
        let link = self.port.link();
        let (src, dst) = (key.local().addr, key.remote().addr);
        let below = Below { link, src, dst, tos: shown.tos, ttl: shown.ttl, label: 0 };
        let Some(template) = Template::new(&below, &shown.header) else { return };
        let ts_offset = if src == path.src { path.ts_offset } else { self.ts_offset(&key) };
        let listener = listener.map(|id| (id, self.listeners.version()));
        let (hop, mtu, host) = (path.hop, path.mtu, hosts::NONE);
        let (pair, place, pairs) = (*pair, 0, self.shared.config.archive_pairs);
        let bundle = Bundle { pair, place, archived, template, hop, way, mtu, ts_offset, host, listener };
        self.stats.archive_kept += 1;
        self.stats.archive_evicted += u64::from(self.repeats.keep(now, pairs, hash, bundle));
    }
}
