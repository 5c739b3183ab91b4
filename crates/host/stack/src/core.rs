//! One core's stack: what it owns, and how it begins and ends connections.

use base::{Addr, Endpoint, FlowKey, Instant, Seq};
use pio::{IoError, Medium, PacketIo};
use tcp::{CookieJar, Counters, Cx, FastOpenCache, FastOpenJar, Fresh, IsnSource, Open, Pool, Probe, Stray};

use crate::handover::KeptSyn;
use crate::net::ip::{Ip, Loopback, OwnAddr};
use crate::net::neighbours::{Neighbours, Question};
use crate::net::paths::{NoPath, Path, Paths};
use crate::probes::watch::{ProbeId, Watch};
use crate::rx::Offload;
use crate::rx::adopted::Adopted;
use crate::secrets::Secrets;
use crate::stats::{Drops, Stats};
use crate::tables::conns::{Conns, List, SlotFlags};
use crate::tables::flow_cache::FlowCache;
use crate::tables::flows::{Flow, FlowTable};
use crate::tables::handshake_cache::HandshakeCache;
use crate::tables::host_cache::Hosts;
use crate::tables::listeners::{ListenerId, Listeners};
use crate::tables::ports::Ports;
use crate::tables::rate_limit::RateLimit;
use crate::tables::time_waits::{SignedWaits, TimeWaits};
use crate::tables::timer_wheel::Wheel;
use crate::tracers::tracer::Tracer;
use crate::turn::scratch::Scratch;
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

    /// May segments be delivered as one? Not while an observer must see each.
    #[inline]
    pub(crate) fn merges(&self) -> bool {
        self.probes.as_ref().is_none_or(|probe| !probe.wants_each())
    }

    /// Tells the observer of a segment that belongs to no connection.
    pub(crate) fn show_stray(&mut self, now: Instant, outbound: bool, key: &FlowKey, whose: Stray) {
        if let Some(probes) = &mut self.probes {
            probes.stray(now, outbound, key, whose);
        }
    }

    /// Tells the observer that this was all for now.
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
    offsets: FlowCache<u32>,
    pub(crate) cookies: CookieJar,
    /// Fast Open: what connects know, and the keys of listeners that have none.
    pub(crate) fast_open: FastOpenCache,
    pub(crate) cookie_keys: FastOpenJar,
    pub(crate) echoes: RateLimit,
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
    /// A listener leaves what waits for accept to others.
    pub(crate) gives: bool,
    /// SYNs that came before the buckets of a shared port that they belong to.
    pub(crate) kept_syns: Vec<KeptSyn>,
    /// The process ends, and leaves what it can to others.
    pub(crate) ends: bool,
    /// A segment that belongs to nothing is answered by a reset. Not while it may be a late copy.
    pub(crate) refuses: bool,
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
            offsets: FlowCache::new(),
            cookies: CookieJar::new(cookies),
            fast_open: FastOpenCache::new(),
            cookie_keys: FastOpenJar::new(cookies),
            echoes: RateLimit::new(1000, 50),
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
            gives: false,
            kept_syns: Vec::new(),
            ends: false,
            refuses: true,
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
        self.leave(now, index, flags, local);
    }

    /// A connection that had these flags has left the tables: it leaves the core unless its owner still holds it.
    #[inline]
    pub(crate) fn leave(&mut self, now: Instant, index: u32, flags: SlotFlags, local: Endpoint) {
        self.learn_host(now, index);
        self.cache_ended(now, index);
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
}

impl Drop for Core {
    /// The kernel gets its ports back, the port its frames.
    fn drop(&mut self) {
        self.ports.release_all(self.port.io.as_mut());
        self.port.drain();
    }
}
