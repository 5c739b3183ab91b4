//! One core's stack: what it owns, and how it begins and ends connections.

use base::{Addr, Endpoint, FlowKey, Instant, Seq};
use pio::{IoError, Medium, PacketIo};
use tcp::{
    Connection, CookieJar, Counters, Cx, FastOpenCache, FastOpenJar, Fresh, IsnSource, Open, Pool, Probe,
    State, Stray, TransmitClass,
};

use crate::auth::SignedWaits;
use crate::loopback::Loopback;
use crate::net::arp_nd::is_reachable;
use crate::net::ip::{Ip, LOOPED, OwnAddr};
use crate::net::neighbours::{Neighbours, Question};
use crate::net::paths::{NoPath, Path, Paths};
use crate::probes::{ProbeId, Watch};
use crate::rx::Offload;
use crate::rx::adopted::Adopted;
use crate::secrets::Secrets;
use crate::stats::{Drops, PacketDrop, Stats};
use crate::tables::conns::{Conns, List, SlotFlags};
use crate::tables::flow_cache::Recent;
use crate::tables::flows::{Flow, FlowTable};
use crate::tables::handshake_cache::HandshakeCache;
use crate::tables::host_cache::Hosts;
use crate::tables::listeners::{ListenerId, Listeners};
use crate::tables::ports::Ports;
use crate::tables::rate_limit::Limit;
use crate::tables::time_waits::TimeWaits;
use crate::tables::timer_wheel::Wheel;
use crate::tracers::Tracer;
use crate::turn::Scratch;
use crate::tx::Port;

/// How to build a core.
#[derive(Clone, Debug)]
pub struct CoreConfig {
    /// TCP's defaults.
    pub tcp: tcp::Config,
    /// Most connections (TIME-WAIT entries not counted).
    pub max_connections: u32,
    /// Most TIME-WAIT entries; the oldest makes room.
    pub max_time_wait: u32,
    /// Most 2 KiB data chunks.
    pub max_chunks: u32,
    /// Seed of everything random on this core, and of its secrets where `secret` is `None`, as in the lab.
    pub seed: u64,
    /// 128 bits of the kernel's entropy for every secret, in place of the seed. All cores of a process have the same: a
    /// cookie of one is good on each.
    pub secret: Option<[u64; 2]>,
    /// Ephemeral ports, inclusive.
    pub ephemeral: (u16, u16),
    /// Which core this is, of how many: a connect chooses ports that no other core chooses.
    pub core: (u16, u16),
    /// Our addresses, for ports with their own.
    pub addresses: Vec<OwnAddr>,
    /// Default gateways, for ports with their own addresses (one per family at most).
    pub gateways: Vec<Addr>,
    /// Addresses between which connections stay inside the stack.
    pub loopback: Loopback,
    /// Default congestion control, a name of the registry.
    pub control: &'static str,
    /// May connections have congestion control that takes more than one flow's share?
    pub allow_unfair: bool,
    /// Receive offload.
    pub offload: Offload,
    /// Batches of [`pio::BATCH_MAX`] packets received in one turn, 1 to [`BATCHES_MAX`]. More of them make less work of
    /// a packet where very many wait, and let those wait longer that are answered at the turn's end.
    pub batches: u8,
}

/// Most batches received in one turn.
pub const BATCHES_MAX: u8 = 4;

impl Default for CoreConfig {
    /// A million connections, no addresses, and a seed that must be replaced where others can reach us.
    fn default() -> Self {
        CoreConfig {
            tcp: tcp::Config::default(),
            max_connections: 1 << 20,
            max_time_wait: 1 << 18,
            max_chunks: 1 << 18,
            seed: 0,
            secret: None,
            ephemeral: (32_768, 60_999),
            core: (0, 1),
            addresses: Vec::new(),
            gateways: Vec::new(),
            loopback: Loopback::Link,
            control: cc::Cubic::NAME,
            allow_unfair: false,
            offload: Offload::Inline,
            batches: crate::rx::BATCHES,
        }
    }
}

/// State that a core lends to its connections.
pub(crate) struct Shared {
    pub(crate) config: tcp::Config,
    pub(crate) pool: Pool,
    pub(crate) counters: Counters,
    pub(crate) probes: Watch,
    /// Received data in the port's frames.
    pub(crate) adopted: Adopted,
}

impl Shared {
    #[inline]
    pub(crate) fn cx(&mut self, now: Instant) -> Cx<'_> {
        let probe = self.probes.as_mut().map(|probe| &mut **probe as &mut dyn Probe);
        let Shared { config, pool, counters, .. } = self;
        Cx { now, config, pool, counters, probe, frames: None }
    }

    /// May segments be delivered as one? Not while an observer watches who must see each.
    #[inline]
    pub(crate) fn merges(&self) -> bool {
        self.probes.as_ref().is_none_or(|probe| !probe.wants_each())
    }

    /// Tells who watches of a segment that no connection had a part in.
    pub(crate) fn show_stray(&mut self, now: Instant, outbound: bool, key: &FlowKey, whose: Stray) {
        if let Some(probes) = &mut self.probes {
            probes.stray(now, outbound, key, whose);
        }
    }

    /// Tells who watches that this was all for now.
    #[inline]
    pub(crate) fn pause_probes(&mut self) {
        if let Some(probes) = &mut self.probes {
            probes.pause();
        }
    }
}

/// One core's stack, on cache lines of its own: stacks of several cores are made in a row by one thread. Whatever has
/// it among its fields, such as an engine of sockets, begins and ends on such lines, too.
#[repr(align(128))]
pub struct Core {
    pub(crate) shared: Shared,
    pub(crate) conns: Conns,
    pub(crate) table: FlowTable,
    pub(crate) wheel: Wheel,
    pub(crate) time_waits: TimeWaits,
    pub(crate) signed_waits: SignedWaits,
    pub(crate) listeners: Listeners,
    pub(crate) ports: Ports,
    pub(crate) ip: Ip,
    pub(crate) neighbours: Neighbours,
    pub(crate) paths: Paths,
    pub(crate) hosts: Hosts,
    pub(crate) handshake_cache: HandshakeCache,
    pub(crate) port: Port,
    pub(crate) registry: cc::Registry,
    pub(crate) isn: IsnSource,
    offsets: Recent<u32>,
    pub(crate) cookies: CookieJar,
    /// Fast Open: what connects know, and the keys of listeners that have none.
    pub(crate) fast_open: FastOpenCache,
    pub(crate) cookie_keys: FastOpenJar,
    pub(crate) echoes: Limit,
    pub(crate) stats: Stats,
    pub(crate) drops: Drops,
    /// Connections that may have something to send, and those of them whose owners were told something this
    /// turn and may add to it.
    pub(crate) dirty: List,
    pub(crate) held: List,
    /// Looped connections that wait for room in the loopback's queue.
    pub(crate) loop_waiting: List,
    /// The batch that is being processed came from the loopback, not from the port.
    pub(crate) looping: bool,
    pub(crate) noticed: Vec<u32>,
    pub(crate) noticed_listeners: Vec<ListenerId>,
    pub(crate) questions: Vec<Question>,
    /// Taken out while a turn goes on.
    pub(crate) scratch: Option<Box<Scratch>>,
    /// The first thing that went wrong this turn.
    pub(crate) error: Option<IoError>,
    pub(crate) events_at: Instant,
    /// When dates may be looked through again.
    pub(crate) revise_at: Instant,
    /// The time of the last turn.
    pub(crate) now: Instant,
    /// Probes attached so far.
    pub(crate) probes_begun: u64,
    /// Those that are attached, in order.
    pub(crate) probe_ids: Vec<ProbeId>,
    /// An observer looks at a tracepoint.
    pub(crate) tracer: Option<Box<Tracer>>,
    /// The port had no frame when one was needed.
    pub(crate) starved: bool,
    /// Batches received in one turn at most.
    pub(crate) batches: u8,
    /// The connection that was last asked to give memory back.
    pub(crate) reclaimed: u32,
}

impl Core {
    /// A stack on one queue of a port.
    ///
    /// # Panics
    /// If `config.control` names no built-in policy, or one that is not allowed.
    pub fn new(config: CoreConfig, io: Box<dyn PacketIo>) -> Core {
        let mut secrets = Secrets::new(config.secret, config.seed);
        let (isns, cookies, ports, labels) = (secrets.key(), secrets.key(), secrets.key(), secrets.key());
        let table = secrets.with_generator(FlowTable::new);
        let mut port = Port::new(io, labels);
        let batches = config.batches.clamp(1, BATCHES_MAX);
        let kernel = port.caps.shares_kernel_addresses;
        let claims = kernel || port.io.claims().is_some();
        let mut registry = cc::Registry::new();
        let control =
            registry.allow_unfair(config.allow_unfair).map(|()| registry.set_default(config.control));
        assert_eq!(control, Ok(Ok(())), "congestion control {}", config.control);
        Core {
            shared: Shared {
                config: config.tcp,
                pool: Pool::new(config.max_chunks),
                counters: Counters::default(),
                probes: None,
                adopted: Adopted::default(),
            },
            conns: Conns::new(config.max_connections),
            table,
            wheel: Wheel::new(),
            time_waits: TimeWaits::new(config.max_time_wait),
            signed_waits: SignedWaits::new(),
            listeners: Listeners::new(),
            ports: Ports::new(config.ephemeral, config.core, claims, ports, secrets.word()),
            ip: Ip::new(port.caps.mtu, &config.addresses, &config.gateways, config.loopback),
            neighbours: if port.caps.medium == Medium::Ip {
                Neighbours::flat()
            } else {
                Neighbours::new(kernel)
            },
            paths: Paths::new(),
            hosts: Hosts::new(secrets.key()),
            handshake_cache: HandshakeCache::default(),
            registry,
            isn: IsnSource::new(isns),
            offsets: Recent::new(),
            cookies: CookieJar::new(cookies),
            fast_open: FastOpenCache::new(),
            cookie_keys: FastOpenJar::new(cookies),
            echoes: Limit::new(1000, 50),
            stats: Stats::default(),
            drops: Drops::new(),
            dirty: List::new(),
            held: List::new(),
            loop_waiting: List::new(),
            looping: false,
            noticed: Vec::new(),
            noticed_listeners: Vec::new(),
            questions: Vec::new(),
            scratch: Some(Scratch::new(config.offload, batches)),
            error: None,
            events_at: Instant::ZERO,
            revise_at: Instant::ZERO,
            now: Instant::ZERO,
            probes_begun: 0,
            probe_ids: Vec::new(),
            tracer: None,
            starved: false,
            batches,
            reclaimed: 0,
            port,
        }
    }

    /// A connection was begun in its place: its flow is stored and its first segment made due. False, and it is
    /// gone, if the flow table has no room.
    pub(crate) fn enter(&mut self, index: u32) -> bool {
        let Some((meta, tcp)) = self.conns.get_mut(index) else { return false };
        meta.flags.set(SlotFlags::IN_TABLE);
        let (hash, key) = (meta.hash, *tcp.key());
        let (conns, time_waits) = (&self.conns, &self.time_waits);
        let stored = self.table.insert(hash, Flow::Connection(index), |flow| match flow {
            Flow::Connection(index) => conns.slot(index).meta.hash,
            Flow::TimeWait(index) => time_waits.hash(index),
        });
        if !stored {
            self.free(index);
            return false;
        }
        self.ports.hold(self.port.io.as_mut(), &key);
        self.dirty.push(&mut self.conns, index);
        true
    }

    /// Returns the initial state that is new for a connection over `path`.
    #[inline]
    pub(crate) fn fresh(&mut self, now: Instant, key: &FlowKey, path: &Path) -> Fresh {
        let usual = key.local().addr == path.src;
        let ts_offset = if usual { path.ts_offset } else { self.ts_offset(key) };
        let hint = self.host_hint(now, key.remote().addr, path);
        Fresh { key: *key, isn: self.isn.isn(now, key), ts_offset, hint }
    }

    /// Returns the arguments of a new connection, without its options.
    pub(crate) fn opening(
        &mut self,
        now: Instant,
        key: FlowKey,
        path: &Path,
        options: tcp::SocketOptions,
    ) -> Open {
        let Fresh { key, isn, ts_offset, hint } = self.fresh(now, &key, path);
        Open { key, isn, ts_offset, path_mtu: path.mtu, options, hint }
    }

    /// That of a pair of hosts of which ours is not the address that the path begins with.
    pub(crate) fn ts_offset(&mut self, key: &FlowKey) -> u32 {
        let host = |end: Endpoint| Endpoint::new(end.addr, 0);
        let pair = FlowKey::new(host(key.local()), host(key.remote()));
        self.offsets.of(&pair, || self.isn.ts_offset(&pair))
    }

    /// The path to `dst`.
    #[inline]
    pub(crate) fn path(&mut self, now: Instant, dst: Addr) -> Result<Path, NoPath> {
        match self.paths.known(dst, self.ip.generation()) {
            Some(path) => Ok(path),
            None => self.paths.look_up(now, dst, &mut self.ip, &mut self.neighbours, &self.isn, &self.hosts),
        }
    }

    /// A connection is CLOSED: it leaves the tables, and the core unless its owner still holds it.
    pub(crate) fn finish(&mut self, now: Instant, index: u32) {
        self.leave_listener(index);
        let Some((meta, tcp)) = self.conns.get_mut(index) else { return };
        let (flags, local) = (meta.flags, tcp.key().local());
        meta.flags.clear(SlotFlags::IN_TABLE | SlotFlags::BOUND);
        if flags.has(SlotFlags::IN_TABLE) {
            self.table.remove(meta.hash, Flow::Connection(index));
            self.ports.let_go(self.port.io.as_mut(), now, tcp.key());
        }
        self.learn_host(now, index);
        self.leave_behind(now, index);
        if flags.has(SlotFlags::BOUND) {
            self.unbind_of(now, local);
        }
        if !flags.has(SlotFlags::OWNED) && !flags.has(SlotFlags::QUEUED) {
            self.free(index);
        }
    }

    /// A connection with a reservation of its own is over.
    pub(crate) fn unbind_of(&mut self, now: Instant, local: Endpoint) {
        if let Some(reserved) = self.ports.reservation(local) {
            self.ports.unbind(self.port.io.as_mut(), now, reserved, false);
        }
    }

    /// Removes a connection that is in no table any more.
    pub(crate) fn free(&mut self, index: u32) {
        if let Some(tcp) = &mut self.conns.slot_mut(index).tcp {
            self.registry.retire(tcp.control_name());
            tcp.release(&mut self.shared.pool);
            self.conns.remove(index);
        }
    }

    /// An ISN that lies above those of the incarnation before (RFC 6191).
    pub(crate) fn isn_above(isn: Seq, above: Seq) -> Seq {
        // More than any window the old incarnation can have had open; the keyed clock is ahead nearly always.
        if isn.after(above) { isn } else { above + (1 << 17) + (isn.raw() & 0xffff) }
    }

    /// Builds segments of a connection while it has some, at most a quota; says whether there may be more.
    pub(crate) fn transmit(&mut self, now: Instant, index: u32) -> Sent {
        let Core { conns, ip, neighbours, port, shared, stats, starved, error, .. } = self;
        let Some((meta, tcp)) = conns.get_mut(index) else { return Sent::All };
        if !tcp.wants_to_transmit() {
            return Sent::All;
        }
        if meta.flags.has(SlotFlags::OPENING)
            || meta.way != ip.generation()
            || !is_reachable(port, neighbours, now, meta.hop)
        {
            return self.transmit_first(now, index);
        }
        port.address(tcp.key(), neighbours.mac(meta.hop), meta.hash ^ u64::from(tcp.path()) << 48);
        let mut sending = Sending { segments: 1, ..Sending::of(now, index) };
        // Mostly there is one segment: no loop, and none of what a compiler does to make loops fast.
        match (Out { port, shared, stats, starved, error }).one(tcp, &mut sending) {
            Sent::Some => self.transmit_more(&mut sending),
            sent => sent,
        }
    }

    /// Transmits for a connection whose route or neighbour must be looked up, or whose first segment leaves.
    #[inline(never)]
    fn transmit_first(&mut self, now: Instant, index: u32) -> Sent {
        let Some((meta, _)) = self.conns.get(index) else { return Sent::All };
        if meta.way == LOOPED {
            return self.transmit_looped(now, index);
        }
        if meta.way != self.ip.generation() || !is_reachable(&self.port, &self.neighbours, now, meta.hop) {
            match self.find_way(now, index) {
                Ok(()) => {}
                Err(Blocked::Waits) => return Sent::Parked,
                Err(Blocked::Unreachable(why)) => return self.discard(now, index, why),
            }
        }
        if self.conns.slot(index).meta.flags.has(SlotFlags::OPENING) && self.transmit_opening(now, index) {
            return Sent::All;
        }
        let Some((meta, tcp)) = self.conns.get(index) else { return Sent::All };
        let label = meta.hash ^ u64::from(tcp.path()) << 48;
        self.port.address(tcp.key(), self.neighbours.mac(meta.hop), label);
        self.transmit_more(&mut Sending::of(now, index))
    }

    #[inline(never)]
    fn transmit_more(&mut self, sending: &mut Sending) -> Sent {
        let Core { conns, port, shared, stats, starved, error, .. } = self;
        let Some((_, tcp)) = conns.get_mut(sending.index) else { return Sent::All };
        let mut out = Out { port, shared, stats, starved, error };
        let mut sent = Sent::Some;
        while sent == Sent::Some && sending.segments < QUOTA_SEGMENTS && sending.bytes < QUOTA_BYTES {
            sending.segments += 1;
            sent = out.one(tcp, sending);
        }
        if port.has_gathered() {
            port.send_gathered(tcp, &shared.pool);
        }
        sent
    }

    /// Looks into a connection's route and its neighbour: may its segments go there?
    #[cold]
    fn find_way(&mut self, now: Instant, index: u32) -> Result<(), Blocked> {
        if self.conns.slot(index).meta.way != self.ip.generation() {
            self.reroute(now, index)?;
        }
        let hop = self.conns.slot(index).meta.hop;
        let reached = self.reach(now, hop);
        if reached == Err(Blocked::Waits) {
            self.neighbours.waiting(hop).push(&mut self.conns, index);
        }
        reached
    }

    /// RFC 8899, 3-11.
    #[cold]
    fn reroute(&mut self, now: Instant, index: u32) -> Result<(), Blocked> {
        let Some((_, tcp)) = self.conns.get(index) else { return Ok(()) };
        let remote = tcp.key().remote().addr;
        match self.path(now, remote) {
            Ok(path) => {
                let way = self.ip.generation();
                let Some((meta, tcp)) = self.conns.get_mut(index) else { return Ok(()) };
                (meta.hop, meta.way) = (path.hop, way);
                if tcp.route_mtu() != path.mtu {
                    tcp.on_route_mtu(&self.shared.cx(now), path.mtu);
                }
                Ok(())
            }
            Err(_) => Err(Blocked::Unreachable(tcp::IcmpError::NetUnreachable)),
        }
    }

    /// Segments that have nowhere to go are lost like any others, and the connection is told why.
    #[cold]
    fn discard(&mut self, now: Instant, index: u32, why: tcp::IcmpError) -> Sent {
        let limits = self.port.limits();
        let Some((_, tcp)) = self.conns.get_mut(index) else { return Sent::All };
        let reason = if why == tcp::IcmpError::HostUnreachable {
            PacketDrop::NoNeighbour
        } else {
            PacketDrop::NoRoute
        };
        for _ in 0..QUOTA_SEGMENTS {
            let Some(tx) = tcp.poll_transmit(&mut self.shared.cx(now), &limits) else { break };
            self.drops.count(reason);
            tcp.on_icmp(&mut self.shared.cx(now), why, tx.header.seq);
        }
        self.take_events(index);
        Sent::All
    }

    /// After segments went out: the next date, or the end.
    #[inline]
    pub(crate) fn settle(&mut self, now: Instant, index: u32) {
        let Some((meta, tcp)) = self.conns.get_mut(index) else { return };
        let tells = tcp.has_events();
        if tcp.state() == State::Closed {
            self.finish(now, index);
        } else if meta.flags.has(SlotFlags::IN_TABLE)
            && let Some(at) = tcp.poll_timeout()
        {
            self.wheel.note(index, at);
        }
        if tells {
            self.take_events(index);
        }
    }
}

/// Segments and bytes one connection may send before others have their turn.
pub(crate) const QUOTA_SEGMENTS: u32 = 16;
const QUOTA_BYTES: u32 = 1 << 17;

/// A connection's turn to send.
struct Sending {
    now: Instant,
    index: u32,
    class: TransmitClass,
    /// Segments that it has sent, or was about to send.
    segments: u32,
    bytes: u32,
}

impl Sending {
    fn of(now: Instant, index: u32) -> Sending {
        Sending { now, index, class: TransmitClass::Control, segments: 0, bytes: 0 }
    }
}

/// Arguments of building a segment, beside its connection.
struct Out<'a> {
    port: &'a mut Port,
    shared: &'a mut Shared,
    stats: &'a mut Stats,
    starved: &'a mut bool,
    error: &'a mut Option<IoError>,
}

impl Out<'_> {
    /// Builds a segment, if there is one.
    #[inline(always)]
    fn one(&mut self, tcp: &mut Connection, sending: &mut Sending) -> Sent {
        let Out { port, shared, stats, starved, error } = self;
        if !port.stock() {
            stats.no_frame += 1;
            **starved = true;
            return Sent::NoFrame;
        }
        let limits = port.limits();
        let next = tcp.poll_transmit(&mut shared.cx(sending.now), &limits);
        let Some(tx) = &next else { return Sent::All };
        // Never an earlier list than the segment before, so that a connection's segments stay in order.
        sending.class = sending.class.max(tx.class);
        sending.bytes += tx.len;
        if port.goes_direct(tx.len, tx.mss) && port.pending() > 0 {
            // What was built before goes first, and what was gathered before that.
            port.send_gathered(tcp, &shared.pool);
            let kicked = port.kick(stats);
            **error = error.take().or(kicked.err());
        }
        let in_place = port.segment(tcp, &shared.pool, tx, sending.class);
        if in_place {
            if tcp.wants_to_transmit() {
                return Sent::Some;
            }
            port.send_gathered(tcp, &shared.pool);
            return Sent::All;
        }
        if tcp.counts_copies() {
            tcp.on_copied(tx);
        }
        if tcp.wants_to_transmit() { Sent::Some } else { Sent::All }
    }
}

/// Result of a connection's transmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    /// It has nothing more to send.
    All,
    /// It may have more.
    Some,
    /// It waits for its neighbour's address.
    Parked,
    /// There was no frame.
    NoFrame,
}

/// Why a segment cannot go now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Blocked {
    /// The neighbour's address is being asked for.
    Waits,
    /// There is no way.
    Unreachable(tcp::IcmpError),
}

impl Drop for Core {
    /// The kernel gets its ports back, the port its frames.
    fn drop(&mut self) {
        self.ports.release_all(self.port.io.as_mut());
        self.port.drain();
    }
}
