//! Goal: peers that take memory and do nothing with it stop no other peer. Honest downloads keep their rate beside
//! thousands of them, memory stays within its bound, and all of it comes back when they leave.

use crate::harness::{Family, core_config, from_env, host, stat};
use crate::peer::{Peer, Plan};
use base::{Duration, Endpoint, Rate};
use emu::{CoreHost, HostId, Network, PipeConfig, PipeId, PortConfig, Queue};
use stack::{ConnId, Connect};
use tcp::SocketOptions;

/// Ports of what hoarders ask for, and of honest downloads.
const BIG: u16 = 80;
const HONEST: u16 = 81;
/// Ports of downloads and uploads that would last for long.
const ENDLESS: u16 = 82;
const UPLOAD: u16 = 83;
/// Bytes of each upload.
const SENT: u64 = 300_000;
/// Bytes that each hoarder asks for.
const ASKED: u64 = 400_000;
/// Honest clients, and what each downloads.
const CLIENTS: usize = 8;
const DOWNLOAD: u64 = 2_000_000;
/// Owner of connections that no application looks after.
const NOBODY: u32 = 1 << 30;

/// A server, a host of honest clients and one of hoarders, each on a link of its own.
struct World {
    net: Network<CoreHost<Peer>>,
    server: HostId,
    honest: HostId,
    hoarder: HostId,
    /// From the hoarders to the server, and back.
    theirs: [PipeId; 2],
    held: Vec<ConnId>,
    /// The server's chunks.
    chunks: u32,
}

fn path(mbits: u64, ms: u64, queue: u32) -> PipeConfig {
    PipeConfig {
        rate: Some(Rate::from_bits_per_sec(mbits * 1_000_000)),
        delay: Duration::from_millis(ms),
        queue: Queue::Strict(queue.into()),
        ..PipeConfig::default()
    }
}

impl World {
    /// The server has `chunks` chunks; the hoarders are `ms` milliseconds away from it.
    fn new(chunks: u32, ms: u64) -> World {
        let (seed, family) = (1, Family::V4);
        let mut net = Network::new(seed);
        let switch = net.add_switch();
        let mut add = |n: u8, path: &PipeConfig, chunks: Option<u32>| {
            let port = net.port(&PortConfig::default());
            let id = port.id();
            let mut config = core_config(seed, family, n);
            config.max_chunks = chunks.unwrap_or(config.max_chunks);
            let id_of_host = net.add_host(host(config, port, Peer::new(u64::from(n))), &[id]);
            let (up, down) = net.plug(id, switch, path, path);
            (id_of_host, [up, down])
        };
        let (server, _) = add(2, &path(40_000, 0, 64 << 20), Some(chunks));
        let (honest, _) = add(1, &path(100, 5, 1 << 20), None);
        let (hoarder, theirs) = add(3, &path(10_000, ms, 64 << 20), None);
        let mut world = World { net, server, honest, hoarder, theirs, held: Vec::new(), chunks };
        let now = world.net.now();
        for (port, up, down) in
            [(BIG, 0, ASKED), (HONEST, 0, DOWNLOAD), (ENDLESS, 0, 1 << 40), (UPLOAD, SENT, 0)]
        {
            let (_, plan) = Plan::both(up, down);
            let local = Endpoint::new(family.addr(2), port);
            let host = world.net.host_mut(server);
            host.app.listen(&mut host.core, now, local, plan);
        }
        world
    }

    fn pass(&mut self, span: Duration) {
        let end = self.net.now() + span;
        self.net.run_until(end);
        let used = self.stat("chunks_used");
        assert!(used <= u64::from(self.chunks), "{used} of {} chunks", self.chunks);
    }

    fn stat(&self, name: &str) -> u64 {
        stat(&self.net.host(self.server).core, name)
    }

    fn counter(&self, name: &str) -> u64 {
        let counters = self.net.host(self.server).core.tcp_counters();
        let row = tcp::Counters::ROWS.iter().position(|row| row.0 == name).expect("a counter of that name");
        counters.values()[row]
    }

    /// So many more connections of hoarders, to `port`, with a receive buffer of `rcvbuf` that nothing reads.
    fn hoard(&mut self, count: u32, port: u16, rcvbuf: u32) {
        let options = SocketOptions { rcvbuf, ..SocketOptions::default() };
        for nth in 0..count {
            let now = self.net.now();
            let connect = Connect {
                local: Endpoint::new(base::Addr::UNSPECIFIED_V4, 0),
                remote: Endpoint::new(Family::V4.addr(2), port),
                reuse_addr: false,
                options,
                control: None,
                owner: NOBODY,
                keys: None,
            };
            let host = self.net.host_mut(self.hoarder);
            self.held.push(host.core.connect(now, &connect).expect("a port to spare"));
            if nth % 100 == 99 {
                self.pass(Duration::from_millis(20));
            }
        }
        self.pass(Duration::from_secs(3));
    }

    /// The honest clients download; how long that took, or `None` if it was not over in `timeout`.
    fn download(&mut self, timeout: Duration) -> Option<Duration> {
        let (now, remote) = (self.net.now(), Endpoint::new(Family::V4.addr(2), HONEST));
        let (plan, _) = Plan::both(0, DOWNLOAD);
        let host = self.net.host_mut(self.honest);
        for _ in 0..CLIENTS {
            host.app.connect(&mut host.core, now, remote, plan).expect("a port to spare");
        }
        let honest = self.honest;
        let done = self.net.run(now + timeout, |net| net.host(honest).app.is_idle());
        done.then(|| self.net.now().since(now))
    }

    /// The hoarders' applications begin so many transfers.
    fn transfer(&mut self, count: u32, port: u16, (up, down): (u64, u64), options: SocketOptions) {
        let (now, remote) = (self.net.now(), Endpoint::new(Family::V4.addr(2), port));
        let plan = Plan { options, ..Plan::both(up, down).0 };
        let host = self.net.host_mut(self.hoarder);
        for _ in 0..count {
            host.app.connect(&mut host.core, now, remote, plan).expect("a port to spare");
        }
    }

    /// Changes the path of the hoarders.
    fn change(&mut self, change: impl Fn(&mut PipeConfig)) {
        for pipe in self.theirs {
            let mut config = self.net.pipe(pipe).config().clone();
            change(&mut config);
            self.net.pipe_mut(pipe).set_config(config);
        }
    }

    /// The hoarders leave, and nothing is left of them.
    fn leave(&mut self) {
        let now = self.net.now();
        let host = self.net.host_mut(self.hoarder);
        for id in std::mem::take(&mut self.held) {
            host.core.abort(now, id);
        }
        host.app.abort_all(&mut host.core, now);
        self.pass(Duration::from_secs(120));
        for name in ["connections", "chunks_used", "out_of_order", "orphans"] {
            assert_eq!(self.stat(name), 0, "{name} left over");
        }
    }
}

/// The pool of a core by default, 1 GiB, less in proportion where there are fewer than 8,000 hoarders.
fn chunks(hoarders: u32) -> u32 {
    (u64::from(hoarders) * (1 << 19) / 8_000) as u32
}

/// `MILLSTREAM_HOARDERS=8000` is the full size.
fn hoarders() -> u32 {
    from_env("MILLSTREAM_HOARDERS", 1_000) as u32
}

/// Returns the time of the honest clients without hoarders.
fn alone(chunks: u32) -> Duration {
    World::new(chunks, 5).download(Duration::from_secs(60)).expect("they are alone")
}

/// The honest clients come while hoarders hold memory: they keep nine tenths of their rate.
fn download_beside(world: &mut World, what: &str) {
    let alone = alone(world.chunks);
    let used = world.stat("chunks_used");
    let beside = world.download(Duration::from_secs(60));
    println!("{what}: alone {alone:?}, beside {beside:?}; {used} of {} chunks", world.chunks);
    assert!(beside.is_some_and(|beside| alone >= beside * 9 / 10), "{beside:?} instead of {alone:?}");
}

/// Each asks for 400 KB and does not read: all together ask for three times the pool.
#[test]
fn thousands_that_do_not_read() {
    let hoarders = hoarders();
    let mut world = World::new(chunks(hoarders), 5);
    world.hoard(hoarders, BIG, 16 << 10);
    let used = world.stat("chunks_used");
    assert!(used >= u64::from(world.chunks / 2), "{used} chunks: the test tests nothing");
    download_beside(&mut world, "peers that do not read");
    assert!(world.counter("send_buffers_bounded") > 0);
    world.leave();
    download_beside(&mut world, "after they left");
}

/// Two dozen clients on a fast and long path earn large windows, and are gone: what was sent to them stays until the
/// timeouts give up.
#[test]
fn fast_clients_that_vanish() {
    let mut world = World::new(1 << 16, 50);
    let options = SocketOptions { rcvbuf: 16 << 20, ..SocketOptions::default() };
    world.transfer(24, ENDLESS, (0, 1 << 40), options);
    let end = world.net.now() + Duration::from_millis(1_500);
    while world.net.now() < end {
        world.pass(Duration::from_millis(50));
    }
    world.change(|path| path.down = true);
    world.pass(Duration::from_millis(500));
    let used = world.stat("chunks_used");
    assert!(used >= u64::from(world.chunks / 2), "{used} chunks: the test tests nothing");
    download_beside(&mut world, "clients that vanished");
    world.change(|path| path.down = false);
    world.leave();
}

/// Uploads of which nearly everything is lost leave far-flung pieces behind holes, and then go silent: what they pin is
/// taken back when others need it.
#[test]
fn pieces_behind_holes() {
    let mut world = World::new(4_096, 5);
    world.transfer(300, UPLOAD, (SENT, 0), SocketOptions::default());
    world.pass(Duration::from_millis(60));
    world.change(|path| path.loss = 0.9);
    world.pass(Duration::from_millis(100));
    world.change(|path| path.down = true);
    world.pass(Duration::from_millis(100));
    println!("out of order: {} bytes, {} chunks", world.stat("out_of_order"), world.stat("chunks_used"));
    download_beside(&mut world, "pieces behind holes");
    println!("pruned {}, refused {}", world.counter("out_of_order_pruned"), world.counter("reassembly_full"));
    assert!(world.counter("out_of_order_pruned") > 0);
    // What was given up was never acknowledged: it comes again, and nothing is missing.
    world.change(|path| (path.down, path.loss) = (false, 0.0));
    world.pass(Duration::from_secs(60));
    let tally = &world.net.host(world.server).app.tally;
    assert_eq!(tally.received, 300 * SENT);
    world.leave();
}
