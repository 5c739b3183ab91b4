//! Attacks from the network, with honest clients beside: a server, clients that download and upload, and an attacker,
//! in virtual time. The same seed gives the same figures on every machine.
//!
//! Virtual time has no slow processors: that attackers do not take the processor is told by the steps of each packet.

mod mover;
mod raw;
mod scripts;
mod world;

use base::{Addr, Duration, Endpoint, Instant, Rng};
use emu::PipeConfig;
use scripts::{Idle, Liar, Lie, Odd, Silent, Syns, TooBig};
use tcp::SocketOptions;
use world::{ATTACKER, Attacker, BIG, ENDLESS, Family, GATEWAY, HONEST as HONEST_HOST, SERVER, UP, World};

/// Share of their rate that honest clients must keep.
pub const KEPT: f64 = 0.9;
/// Bytes of memory for a connection without data, beside the pool.
const PER_CONNECTION: u64 = 1 << 10;
/// Bytes of memory for everything else.
const ELSE: u64 = 64 << 20;
/// Connections of the honest clients, those in TIME-WAIT among them.
const HONEST: u64 = 256;
/// Connections that a listener's queues hold: those that wait for the handshake's end, and for the application.
const QUEUED: u64 = 2 * 4_096;
/// Downloads that too large packets are reported of.
const TOO_BIG: u64 = 16;

/// How large the attacks are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// 10,000 hoarders, and the pool that a core has by default: 1 GiB.
    Full,
    /// A twentieth of that.
    Small,
}

impl Scale {
    fn of(self, full: u32) -> u32 {
        match self {
            Scale::Full => full,
            Scale::Small => full / 20,
        }
    }

    /// Chunks of 2 KiB.
    fn pool(self) -> u32 {
        self.of(1 << 19)
    }

    /// Downloads and uploads of each honest client.
    fn rounds(self) -> u32 {
        match self {
            Scale::Full => 4,
            Scale::Small => 2,
        }
    }
}

/// An attack.
pub struct Attack {
    /// Its name.
    pub name: &'static str,
    /// The attackers' actions.
    pub threat: &'static str,
    family: Family,
    /// Connections that the attacker may have open at the server.
    connections: fn(Scale) -> u64,
    begin: fn(Scale, u64) -> World,
    /// A counter of the server that shows that the attack was one, and how much it must be.
    sign: (&'static str, fn(Scale) -> u64),
}

/// Effect of an attack.
#[derive(Clone, Copy, Debug)]
pub struct Finding {
    /// Rate of the honest clients alone, Mbit/s.
    pub alone: f64,
    /// Beside the attack, Mbit/s.
    pub beside: f64,
    /// Most memory of the server's core, and the bound: bytes.
    pub memory: [u64; 2],
    /// Most connections at the server, and the bound.
    pub connections: [u64; 2],
    /// Most steps for a packet, and the bound: entries compared, moved or looked at in lists that strangers lengthen.
    pub steps: [u64; 2],
    /// Steps for a packet, on average.
    pub mean_steps: f64,
    /// Segments that the attacker sent.
    pub segments: u64,
    /// The attack did what it is named after.
    pub was_one: bool,
}

impl Finding {
    /// The share of their rate that honest clients kept.
    pub fn kept(&self) -> f64 {
        self.beside / self.alone
    }

    /// Does the promise hold? The words say what does not.
    ///
    /// # Errors
    /// The finding that broke the expectation.
    pub fn judge(&self) -> Result<(), String> {
        let within = |[found, bound]: [u64; 2]| found <= bound;
        let rows = [
            (self.was_one, "the attack did not do what it is named after".to_owned()),
            (self.alone > 0.0, "honest clients alone were not served".to_owned()),
            (self.kept() >= KEPT, format!("honest clients kept {:.2} of their rate", self.kept())),
            (
                within(self.memory),
                format!("{} bytes of memory; the bound is {}", self.memory[0], self.memory[1]),
            ),
            (
                within(self.connections),
                format!("{} connections; the bound is {}", self.connections[0], self.connections[1]),
            ),
            (
                within(self.steps),
                format!("{} steps for a packet; the bound is {}", self.steps[0], self.steps[1]),
            ),
        ];
        let wrong: Vec<String> = rows.into_iter().filter(|(holds, _)| !holds).map(|(_, what)| what).collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }
}

impl Attack {
    /// Runs it: the honest clients alone first, then beside the attacker.
    pub fn run(&self, scale: Scale, seed: u64) -> Finding {
        let idle = Attacker::Stack(SocketOptions::default());
        let mut quiet = World::new(seed, self.family, scale.pool(), 5, idle);
        let alone = quiet.goodput(scale.rounds());
        let mut world = (self.begin)(scale, seed);
        let beside = world.goodput(scale.rounds());
        let peak = world.peak();
        let connections = (self.connections)(scale) + HONEST;
        let (counter, least) = self.sign;
        Finding {
            alone,
            beside,
            memory: [peak.memory, u64::from(scale.pool()) * 2_048 + connections * PER_CONNECTION + ELSE],
            connections: [peak.connections, connections],
            steps: [peak.steps, world.steps_max()],
            mean_steps: world.mean_steps(),
            segments: world.sent(),
            was_one: world.stat(counter) >= least(scale),
        }
    }
}

fn server(family: Family, port: u16) -> Endpoint {
    Endpoint::new(family.addr(SERVER), port)
}

/// The attacker's own address, another port each.
fn port_of(nth: usize) -> Endpoint {
    Endpoint::new(Family::V4.addr(ATTACKER), 1_024 + nth as u16)
}

/// Another host of the link each.
fn host_of(nth: usize) -> Endpoint {
    Endpoint::new(Addr::v4([10, 7, (nth >> 8) as u8, nth as u8]), 4_000)
}

/// Likewise.
fn host6_of(nth: usize) -> Endpoint {
    let mut bytes = [0; 16];
    (bytes[0], bytes[8], bytes[15]) = (0xfd, 7, nth as u8);
    Endpoint::new(Addr::v6(bytes), 4_000)
}

fn anywhere(rng: &mut Rng) -> Addr {
    let [a, b, c, ..] = rng.next_u64().to_le_bytes();
    Addr::v4([11 + a % 100, b, c, 1])
}

fn link4(rng: &mut Rng) -> Addr {
    let [a, b, ..] = rng.next_u64().to_le_bytes();
    Addr::v4([10, 9, a, b])
}

fn link6(rng: &mut Rng) -> Addr {
    let mut bytes = [0; 16];
    bytes[0] = 0xfd;
    bytes[8..].copy_from_slice(&rng.next_u64().to_be_bytes());
    Addr::v6(bytes)
}

/// A script has half a second before the honest clients come.
fn scripted(scale: Scale, seed: u64, family: Family, script: Box<dyn raw::Script>, ms: u64) -> World {
    let mut world = World::new(seed, family, scale.pool(), 5, Attacker::Raw(script));
    world.pass(Duration::from_millis(ms));
    world
}

fn hoarders(scale: Scale, seed: u64) -> World {
    let options = SocketOptions { rcvbuf: 16 << 10, ..SocketOptions::default() };
    let mut world = World::new(seed, Family::V4, scale.pool(), 5, Attacker::Stack(options));
    world.ask(scale.of(10_000), BIG, false);
    world.pass(Duration::from_secs(2));
    world
}

fn vanishing(scale: Scale, seed: u64) -> World {
    let options = SocketOptions { rcvbuf: 16 << 20, ..SocketOptions::default() };
    let mut world = World::new(seed, Family::V4, scale.pool(), 50, Attacker::Stack(options));
    world.ask(scale.of(480), ENDLESS, true);
    world.pass(Duration::from_millis(1_500));
    world.change(|path: &mut PipeConfig| path.down = true);
    world.pass(Duration::from_millis(500));
    world
}

fn syns(scale: Scale, seed: u64, family: Family, host: fn(&mut Rng) -> Addr, gateway: bool) -> World {
    let gateway = gateway.then(|| family.addr(GATEWAY));
    let script = Syns { target: server(family, UP), rate: 100, host, gateway };
    scripted(scale, seed, family, Box::new(script), 500)
}

fn liar(scale: Scale, seed: u64, rate: usize, lie: Lie) -> World {
    let script = Liar::new(server(Family::V4, ENDLESS), 4, 1, rate, lie);
    scripted(scale, seed, Family::V4, Box::new(script), 500)
}

fn too_big(scale: Scale, seed: u64, family: Family, host: fn(usize) -> Endpoint) -> World {
    let script = TooBig::new(server(family, ENDLESS), TOO_BIG as usize, 40, host);
    scripted(scale, seed, family, Box::new(script), 500)
}

fn odd(scale: Scale, seed: u64, family: Family) -> World {
    let script = Odd { target: server(family, UP), name: family.addr(HONEST_HOST), rate: 100 };
    scripted(scale, seed, family, Box::new(script), 500)
}

/// All of them.
pub const ATTACKS: &[Attack] = &[
    Attack {
        name: "hoarders",
        threat: "10,000 clients ask for 400 KB each and never read",
        family: Family::V4,
        connections: |scale| scale.of(10_000).into(),
        begin: hoarders,
        sign: ("chunks_used", |scale| u64::from(scale.pool()) / 2),
    },
    Attack {
        name: "vanishing",
        threat: "480 fast clients on a long path earn large windows and vanish",
        family: Family::V4,
        connections: |scale| scale.of(480).into(),
        begin: vanishing,
        sign: ("chunks_used", |scale| u64::from(scale.pool()) / 4),
    },
    Attack {
        name: "sacks",
        threat: "40,000 acknowledgments a second with crafted SACKs, on 4 downloads",
        family: Family::V4,
        connections: |_| 4,
        begin: |scale, seed| liar(scale, seed, 40, Lie::Sacks),
        sign: ("list_steps", |_| 1_000_000),
    },
    Attack {
        name: "far-edge",
        threat: "20,000 uploads of single bytes at the far edge of the window and anywhere in it",
        family: Family::V4,
        connections: |scale| scale.of(20_000).into(),
        begin: |scale, seed| {
            let uploads = scale.of(20_000) as usize;
            let script = Liar::new(server(Family::V4, UP), uploads, 50, 50, Lie::FarEdge);
            scripted(scale, seed, Family::V4, Box::new(script), 2_000)
        },
        sign: ("out_of_order", |_| 1_000),
    },
    Attack {
        name: "syn-flood",
        threat: "100,000 SYNs a second from addresses that do not exist, behind the gateway",
        family: Family::V4,
        connections: |_| QUEUED,
        begin: |scale, seed| syns(scale, seed, Family::V4, anywhere, true),
        sign: ("cookies_sent", |_| 10_000),
    },
    Attack {
        name: "spoofed-64",
        threat: "100,000 SYNs a second, each from another address of the link's IPv6 /64",
        family: Family::V6,
        connections: |_| QUEUED,
        begin: |scale, seed| syns(scale, seed, Family::V6, link6, false),
        sign: ("neighbour_steps", |_| 10_000),
    },
    Attack {
        name: "spoofed-8",
        threat: "100,000 SYNs a second, each from another IPv4 address of the link",
        family: Family::V4,
        connections: |_| QUEUED,
        begin: |scale, seed| syns(scale, seed, Family::V4, link4, false),
        sign: ("neighbour_steps", |_| 10_000),
    },
    Attack {
        name: "silent",
        threat: "1,000 hosts of the link ask for endless downloads, and then answer nothing, ARP neither",
        family: Family::V4,
        connections: |_| 1_000,
        begin: |scale, seed| {
            let until = Instant::from_millis(400);
            let script = Silent::new(server(Family::V4, ENDLESS), 1_000, host_of, until);
            // Until their addresses are asked for again.
            scripted(scale, seed, Family::V4, Box::new(script), 33_000)
        },
        sign: ("neighbours", |_| 1_000),
    },
    Attack {
        name: "idle",
        threat: "50,000 connections that are opened and never used",
        family: Family::V4,
        connections: |scale| scale.of(50_000).into(),
        begin: |scale, seed| {
            let script = Idle::new(server(Family::V4, UP), scale.of(50_000) as usize, port_of);
            scripted(scale, seed, Family::V4, Box::new(script), 1_000)
        },
        sign: ("connections", |scale| u64::from(scale.of(50_000)) * 9 / 10),
    },
    Attack {
        name: "early-acks",
        threat: "20,000 acknowledgments a second of data that has not come or was not sent, on 4 downloads",
        family: Family::V4,
        connections: |_| 4,
        begin: |scale, seed| liar(scale, seed, 20, Lie::Early),
        sign: ("bad_acks", |_| 1_000),
    },
    Attack {
        name: "divided",
        threat: "40,000 acknowledgments a second, twenty for each segment, on 4 downloads",
        family: Family::V4,
        connections: |_| 4,
        begin: |scale, seed| liar(scale, seed, 40, Lie::Divided),
        sign: ("acks_in", |_| 10_000),
    },
    Attack {
        name: "too-big-4",
        threat: "40,000 ICMP errors a second on 16 downloads: each packet is too big, by one byte more each time",
        family: Family::V4,
        connections: |_| TOO_BIG,
        begin: |scale, seed| too_big(scale, seed, Family::V4, host_of),
        sign: ("mtu_reductions", |_| 10_000),
    },
    Attack {
        name: "too-big-6",
        threat: "the same by ICMPv6",
        family: Family::V6,
        connections: |_| TOO_BIG,
        begin: |scale, seed| too_big(scale, seed, Family::V6, host6_of),
        sign: ("mtu_reductions", |_| 2_000),
    },
    Attack {
        name: "fragments",
        threat: "100,000 IPv4 fragments of segments a second, in an honest client's name",
        family: Family::V4,
        connections: |_| 0,
        begin: |scale, seed| odd(scale, seed, Family::V4),
        sign: ("drop_fragment", |_| 10_000),
    },
    Attack {
        name: "chains",
        threat: "100,000 chains of up to 17 IPv6 extension headers a second, in an honest client's name",
        family: Family::V6,
        connections: |_| QUEUED,
        begin: |scale, seed| odd(scale, seed, Family::V6),
        sign: ("drop_extension", |_| 10_000),
    },
];
