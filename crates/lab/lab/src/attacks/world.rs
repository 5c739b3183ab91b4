//! A server, honest clients and an attacker, each on a link of its own to one switch.

use super::mover::{Mover, Order};
use super::raw::{Raw, Script};
use base::{Addr, Duration, Endpoint, Instant, Rate};
use emu::{CoreHost, Host, HostId, Network, PipeConfig, PipeId, PortConfig, Queue};
use pio::PacketIo;
use stack::{Core, CoreConfig, OwnAddr};
use std::collections::VecDeque;
use tcp::SocketOptions;

/// Ports of the server: what honest clients download and upload, what attackers ask for.
pub(super) const DOWN: u16 = 80;
pub(super) const UP: u16 = 81;
pub(super) const BIG: u16 = 82;
pub(super) const ENDLESS: u16 = 83;
/// Bytes of an honest download, of an upload, of a request, and of what hoarders ask for.
const DOWNLOAD: u64 = 1_000_000;
const UPLOAD: u64 = 500_000;
const REQUEST: u64 = 100;
const ASKED: u64 = 400_000;
/// Honest clients.
const CLIENTS: usize = 8;
/// How long honest clients may take at most, before they count as stopped.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Hosts of the network.
pub(super) const SERVER: u8 = 2;
pub(super) const HONEST: u8 = 1;
pub(super) const ATTACKER: u8 = 3;
/// The gateway, in whose name the attacker may answer.
pub(super) const GATEWAY: u8 = 254;

/// Which family a run speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) fn addr(self, n: u8) -> Addr {
        match self {
            Family::V4 => Addr::v4([10, 0, 0, n]),
            Family::V6 => Addr::v6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n]),
        }
    }

    fn own(self, n: u8) -> OwnAddr {
        OwnAddr { addr: self.addr(n), prefix: if self == Family::V4 { 8 } else { 64 } }
    }
}

/// Peaks of the server's figures.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Peak {
    /// Steps for a packet.
    pub(super) steps: u64,
    /// Connections.
    pub(super) connections: u64,
    /// Bytes of memory.
    pub(super) memory: u64,
}

/// Segments received and sent.
fn packets(core: &Core) -> u64 {
    core.tcp_counters().segments_in + core.tcp_counters().segments_out
}

/// The server, measured each time it does something.
struct Server {
    host: CoreHost<Mover>,
    peak: Peak,
}

impl Host for Server {
    fn step(&mut self, now: Instant) -> Option<Instant> {
        let before = (self.host.core.steps(), packets(&self.host.core));
        let next = self.host.step(now);
        let core = &self.host.core;
        let (steps, handled) = (core.steps() - before.0, packets(core) - before.1);
        self.peak.steps = self.peak.steps.max(steps.div_ceil(handled.max(1)));
        self.peak.connections = self.peak.connections.max(core.connections() as u64);
        self.peak.memory = self.peak.memory.max(core.footprint().iter().map(|(_, bytes)| bytes).sum());
        next
    }
}

enum Node {
    Server(Box<Server>),
    Stack(Box<CoreHost<Mover>>),
    Raw(Box<Raw>),
}

impl Host for Node {
    fn step(&mut self, now: Instant) -> Option<Instant> {
        match self {
            Node::Server(server) => server.step(now),
            Node::Stack(host) => host.step(now),
            Node::Raw(host) => host.step(now),
        }
    }
}

pub(super) struct World {
    net: Network<Node>,
    server: HostId,
    honest: HostId,
    attacker: HostId,
    /// From the attacker to the switch, and back.
    theirs: [PipeId; 2],
    family: Family,
}

fn path(mbit: u64, ms: u64, queue: u64) -> PipeConfig {
    PipeConfig {
        rate: Some(Rate::from_bits_per_sec(mbit * 1_000_000)),
        delay: Duration::from_millis(ms),
        queue: Queue::Strict(queue),
        ..PipeConfig::default()
    }
}

/// Kind of attacker.
pub(super) enum Attacker {
    /// A whole stack; its sockets have these options.
    Stack(SocketOptions),
    /// A script that begins at once.
    Raw(Box<dyn Script>),
}

impl World {
    /// The server's core has `chunks` chunks for data; the attacker is `ms` milliseconds away.
    pub(super) fn new(seed: u64, family: Family, chunks: u32, ms: u64, attacker: Attacker) -> World {
        let mut net = Network::new(seed);
        let switch = net.add_switch();
        let large = PortConfig { frames: 16_384, rx_ring: 16_384, tx_ring: 16_384, ..PortConfig::default() };
        let config = |n: u8, chunks: Option<u32>| {
            let default = CoreConfig::default();
            let max_chunks = chunks.unwrap_or(default.max_chunks);
            let (addresses, gateways) = (vec![family.own(n)], vec![family.addr(GATEWAY)]);
            CoreConfig { seed: seed << 8 | u64::from(n), addresses, gateways, max_chunks, ..default }
        };
        let stack = |n: u8, chunks, port, options| {
            CoreHost::new(Core::new(config(n, chunks), Box::new(port)), Mover::new(options))
        };
        let ports: [emu::SimPort; 3] = std::array::from_fn(|_| net.port(&large));
        let [a, b, c] = [&ports[0], &ports[1], &ports[2]].map(|port| port.id());
        let [first, second, third] = ports;
        let mac = first.caps().mac;
        let mut host = stack(SERVER, Some(chunks), first, SocketOptions::default());
        for (port, send) in [(DOWN, DOWNLOAD), (UP, REQUEST), (BIG, ASKED), (ENDLESS, 1 << 40)] {
            let local = Endpoint::new(family.addr(SERVER), port);
            host.app.listen(&mut host.core, Instant::ZERO, local, send);
        }
        let server = net.add_host(Node::Server(Box::new(Server { host, peak: Peak::default() })), &[a]);
        let honest = stack(HONEST, None, second, SocketOptions::default());
        let honest = net.add_host(Node::Stack(Box::new(honest)), &[b]);
        let attacker = match attacker {
            Attacker::Stack(options) => Node::Stack(Box::new(stack(ATTACKER, None, third, options))),
            Attacker::Raw(script) => Node::Raw(Box::new(Raw::new(third, mac, seed, script, Instant::ZERO))),
        };
        let attacker = net.add_host(attacker, &[c]);
        let mut plug = |port, path: &PipeConfig| net.plug(port, switch, path, path);
        plug(a, &path(40_000, 0, 64 << 20));
        plug(b, &path(100, 5, 1 << 20));
        let (up, down) = plug(c, &path(10_000, ms, 64 << 20));
        World { net, server, honest, attacker, theirs: [up, down], family }
    }

    pub(super) fn pass(&mut self, span: Duration) {
        let end = self.net.now() + span;
        self.net.run_until(end);
    }

    fn server(&self) -> &Server {
        match self.net.host(self.server) {
            Node::Server(server) => server,
            _ => unreachable!("the first host is the server"),
        }
    }

    pub(super) fn peak(&self) -> Peak {
        self.server().peak
    }

    /// One of the server's counters.
    pub(super) fn stat(&self, name: &str) -> u64 {
        let core = &self.server().host.core;
        let tcp = tcp::Counters::ROWS.iter().map(|(row, _)| *row).zip(core.tcp_counters().values());
        tcp.chain(core.stats()).find(|(row, _)| *row == name).map_or(0, |(_, value)| value)
    }

    pub(super) fn steps_max(&self) -> u64 {
        self.server().host.core.steps_max()
    }

    /// Steps of the server for each segment received or sent.
    pub(super) fn mean_steps(&self) -> f64 {
        let core = &self.server().host.core;
        core.steps() as f64 / packets(core).max(1) as f64
    }

    /// Segments that the attacker's script sent.
    pub(super) fn sent(&self) -> u64 {
        match self.net.host(self.attacker) {
            Node::Raw(raw) => raw.sent(),
            Node::Stack(host) => host.core.tcp_counters().segments_out,
            Node::Server(_) => 0,
        }
    }

    fn with<T>(&mut self, id: HostId, give: impl FnOnce(&mut CoreHost<Mover>, Instant) -> T) -> Option<T> {
        let now = self.net.now();
        match self.net.host_mut(id) {
            Node::Stack(host) => Some(give(host, now)),
            _ => None,
        }
    }

    /// The attacker's stack makes so many connections to `port`, 5,000 a second, and reads what comes if it `reads`.
    pub(super) fn ask(&mut self, count: u32, port: u16, reads: bool) {
        let remote = Endpoint::new(self.family.addr(SERVER), port);
        for nth in 0..count {
            self.with(self.attacker, |host, now| {
                let orders = VecDeque::from([Order { remote, send: 0 }]);
                host.app.order(&mut host.core, now, orders, reads);
            });
            if nth % 100 == 99 {
                self.pass(Duration::from_millis(20));
            }
        }
    }

    /// The attacker is gone, or loses packets.
    pub(super) fn change(&mut self, change: impl Fn(&mut PipeConfig)) {
        for pipe in self.theirs {
            let mut config = self.net.pipe(pipe).config().clone();
            change(&mut config);
            self.net.pipe_mut(pipe).set_config(config);
        }
    }

    /// The honest clients move bytes, a new connection for each download and upload: the rate, Mbit/s; or 0 if one of
    /// them failed or was not served in time.
    pub(super) fn goodput(&mut self, rounds: u32) -> f64 {
        let (begun, server) = (self.net.now(), self.family.addr(SERVER));
        let (down, up) = (Endpoint::new(server, DOWN), Endpoint::new(server, UP));
        self.with(self.honest, |host, now| {
            for client in 0..CLIENTS {
                let both = [Order { remote: down, send: REQUEST }, Order { remote: up, send: UPLOAD }];
                let orders = (0..2 * rounds as usize).map(|nth| both[(nth + client) % 2]).collect();
                host.app.order(&mut host.core, now, orders, true);
            }
        });
        let honest = self.honest;
        let idle = |net: &Network<Node>| matches!(net.host(honest), Node::Stack(host) if host.app.is_idle());
        let done = self.net.run(begun + TIMEOUT, idle);
        let whole = CLIENTS as u64 * u64::from(rounds) * (DOWNLOAD + REQUEST);
        let (took, app) =
            (self.net.now().since(begun), self.with(honest, |host, _| (host.app.received, host.app.failed)));
        if !done || app != Some((whole, 0)) {
            return 0.0;
        }
        let bytes = CLIENTS as u64 * u64::from(rounds) * (DOWNLOAD + UPLOAD);
        bytes as f64 * 8.0 / 1e6 / took.as_secs_f64()
    }
}
