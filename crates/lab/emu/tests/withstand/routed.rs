//! Goal: through a router the path's MTU is found by what ICMP says, a forged ICMP changes nothing, and a
//! peer that vanishes behind it is given up by the timer.

use crate::harness::{core_config, seeded, stat};
use crate::peer::{Peer, Plan};
use base::{Addr, Duration, Endpoint, Instant, Rate};
use emu::{CoreHost, Host, HostId, Network, PipeConfig, PipeId, PortConfig, Queue, Router};
use pio::PacketIo;
use stack::{Core, OwnAddr};
use wire::icmp::Message;
use wire::packet::{Below, Link};
use wire::protocol;

enum Node {
    Stack(Box<CoreHost<Peer>>),
    Router(Box<Router>),
}

impl Host for Node {
    fn step(&mut self, now: Instant) -> Option<Instant> {
        match self {
            Node::Stack(host) => host.step(now),
            Node::Router(router) => router.step(now),
        }
    }
}

/// Host `n` of network 1 or 2.
fn addr(v4: bool, net: u8, n: u8) -> Addr {
    if v4 {
        return Addr::v4([10, net, 0, n]);
    }
    Addr::v6([0xfd, 0, 0, 0, 0, 0, 0, net, 0, 0, 0, 0, 0, 0, 0, n])
}

fn prefix(v4: bool) -> u8 {
    if v4 { 24 } else { 64 }
}

/// A client in network 1 and a server in network 2, whose link is narrower.
struct Routed {
    net: Network<Node>,
    client: HostId,
    server: HostId,
    router: HostId,
    /// From the router to the server, and back.
    last_mile: (PipeId, PipeId),
    /// From the router to the client.
    to_client: PipeId,
    v4: bool,
}

impl Routed {
    fn new(seed: u64, v4: bool, mtu: usize, path: &PipeConfig) -> Self {
        let mut net = Network::new(seed);
        let wide = PortConfig::default();
        let narrow = PortConfig { mtu, ..PortConfig::default() };
        let ports = [net.port(&wide), net.port(&wide), net.port(&narrow), net.port(&wide)];
        let ids = ports.each_ref().map(|port| port.id());
        let macs = ports.each_ref().map(|port| port.caps().mac);
        let [client, left, right, server] = ports;
        let mut router = Router::new();
        router.add_leg(left, &[(addr(v4, 1, 254), prefix(v4))]);
        router.add_leg(right, &[(addr(v4, 2, 254), prefix(v4))]);
        router.neighbour(addr(v4, 1, 1), macs[0]);
        router.neighbour(addr(v4, 2, 1), macs[3]);
        let host = |port, n: u8| {
            let mut config = core_config(seed, crate::harness::Family::V4, n);
            config.addresses = vec![OwnAddr { addr: addr(v4, n, 1), prefix: prefix(v4) }];
            config.gateways = vec![addr(v4, n, 254)];
            Node::Stack(Box::new(CoreHost::new(
                Core::new(config, Box::new(port)),
                Peer::new(seed ^ u64::from(n)),
            )))
        };
        let client = net.add_host(host(client, 1), &ids[..1]);
        let server = net.add_host(host(server, 2), &ids[3..]);
        let router = net.add_host(Node::Router(Box::new(router)), &ids[1..3]);
        let (_, to_client) = net.link(ids[0], ids[1], path, path);
        let last_mile = net.link(ids[2], ids[3], path, path);
        Routed { net, client, server, router, last_mile, to_client, v4 }
    }

    fn stack(&mut self, id: HostId) -> &mut CoreHost<Peer> {
        match self.net.host_mut(id) {
            Node::Stack(host) => host,
            Node::Router(_) => panic!("this is the router"),
        }
    }

    fn see(&self, id: HostId) -> &CoreHost<Peer> {
        match self.net.host(id) {
            Node::Stack(host) => host,
            Node::Router(_) => panic!("this is the router"),
        }
    }

    fn router(&mut self) -> &mut Router {
        match self.net.host_mut(self.router) {
            Node::Router(router) => router,
            Node::Stack(_) => panic!("this is a stack"),
        }
    }

    fn start(&mut self, up: u64, down: u64) {
        let (one, other) = Plan::both(up, down);
        let (now, target) = (self.net.now(), Endpoint::new(addr(self.v4, 2, 1), 7000));
        let serving = self.stack(self.server);
        serving.app.listen(&mut serving.core, now, target, other);
        let calling = self.stack(self.client);
        calling.app.connect(&mut calling.core, now, target, one).expect("a port to spare");
    }

    /// The client's only connection: its port, its MSS, and a sequence number in flight.
    fn connection(&self) -> (u16, u16, u32) {
        let (now, mut found) = (self.net.now(), None);
        self.see(self.client).core.for_each(now, &mut |row| {
            if let stack::Row::Connection(connection) = row {
                let info = connection.info(now);
                found = Some((connection.key().local().port, info.snd_mss, (info.snd_nxt - 1).raw()));
            }
        });
        found.expect("one connection")
    }

    fn run(&mut self, time: Duration) -> bool {
        let (client, server) = (self.client, self.server);
        let deadline = self.net.now() + time;
        let idle = |node: &Node| matches!(node, Node::Stack(host) if host.app.is_idle());
        self.net.run(deadline, |net| idle(net.host(client)) && idle(net.host(server)))
    }
}

fn path() -> PipeConfig {
    PipeConfig {
        rate: Some(Rate::from_bits_per_sec(100_000_000)),
        delay: Duration::from_millis(3),
        queue: Queue::Strict(100_000),
        ..PipeConfig::default()
    }
}

/// RFC 1191, 3-1.
#[test]
fn the_path_mtu_is_found() {
    seeded(1..7, |seed| {
        let v4 = seed & 1 == 0;
        let mtu = if seed < 5 { 1280 } else { 1400 };
        let loss = if seed < 3 { 0.0 } else { 0.01 };
        let mut routed = Routed::new(seed, v4, mtu, &PipeConfig { loss, spares_neighbours: true, ..path() });
        routed.start(2_000_000, 500_000);
        assert!(routed.run(Duration::from_secs(120)), "{:?}", routed.see(routed.client).app);
        for host in [routed.client, routed.server] {
            assert_eq!(routed.see(host).app.tally.complete, 1);
        }
        let counters = routed.router().counters().clone();
        assert!((1..50).contains(&counters.too_big), "{counters:?}");
        assert_eq!(stat(&routed.see(routed.client).core, "path_mtus"), 1);
    });
}

/// A packet too big for any link, told of by a host that cannot know our sequence numbers.
/// RFC 5927, 4.1-1.
#[test]
fn who_guesses_changes_no_mtu() {
    seeded(1..3, |seed| {
        let v4 = seed & 1 == 0;
        let mut routed = Routed::new(seed, v4, 1500, &path());
        routed.start(4_000_000, 0);
        routed.net.run_until(Instant::from_millis(100));
        let (port, mss, _) = routed.connection();
        for guess in 0..200u32 {
            let forged = forged_too_big(v4, port, guess.wrapping_mul(0x0101_0101));
            routed.net.inject(routed.to_client, &forged);
        }
        let soon = routed.net.now() + Duration::from_millis(50);
        routed.net.run_until(soon);
        let (_, after, in_flight) = routed.connection();
        assert_eq!(after, mss);
        // Who knows what is in flight is believed: the forgery was sound but for the number.
        routed.net.inject(routed.to_client, &forged_too_big(v4, port, in_flight));
        let soon = routed.net.now() + Duration::from_millis(4);
        routed.net.run_until(soon);
        assert!(routed.connection().1 < mss);
        assert!(routed.run(Duration::from_secs(60)));
        assert_eq!(routed.see(routed.client).app.tally.complete, 1);
    });
}

/// A frame of the router that says a segment of ours with sequence number `seq` was too big for 600 bytes.
fn forged_too_big(v4: bool, port: u16, seq: u32) -> Vec<u8> {
    let (src, dst, gateway) = (addr(v4, 1, 1), addr(v4, 2, 1), addr(v4, 1, 254));
    let below = |link, src, dst| Below { link, src, dst, tos: 0, ttl: 64, label: 0 };
    let mut quote = vec![0; 128];
    let at = below(None, src, dst).emit(protocol::TCP, 1_400, &mut quote);
    quote[at..at + 2].copy_from_slice(&port.to_be_bytes());
    quote[at + 2..at + 4].copy_from_slice(&7000u16.to_be_bytes());
    quote[at + 4..at + 8].copy_from_slice(&seq.to_be_bytes());
    let message = Message::TooBig { mtu: 600, quote: &quote };
    // The network's ports have their addresses by number: the client's is 0, the router's 1.
    let mac = |n| [2, 0x65, 0, 0, 0, n];
    let outer = below(Some(Link { dst: mac(0), src: mac(1) }), gateway, src);
    let mut frame = vec![0; 300];
    let upper = if v4 { protocol::ICMP } else { protocol::ICMPV6 };
    let at = outer.emit(upper, message.len(), &mut frame);
    let len = at + message.emit(gateway, src, &mut frame[at..]);
    frame.truncate(len);
    frame
}

#[test]
fn a_peer_that_vanishes_behind_a_router_is_timed_out() {
    seeded(1..3, |seed| {
        let mut routed = Routed::new(seed, seed & 1 == 0, 1500, &path());
        routed.start(1 << 40, 0);
        routed.net.run_until(Instant::from_millis(300));
        for pipe in [routed.last_mile.0, routed.last_mile.1] {
            routed.net.pipe_mut(pipe).set_config(PipeConfig { down: true, ..path() });
        }
        // Fifteen doublings up to two minutes: about a quarter of an hour.
        routed.net.run_until(Instant::from_secs(600));
        assert_eq!(routed.see(routed.client).app.open(), 1, "given up too soon");
        routed.net.run_until(Instant::from_secs(1800));
        assert_eq!(routed.see(routed.client).app.tally.timed_out, 1, "{:?}", routed.see(routed.client).app);
        crate::harness::assert_clean(&mut routed.stack(routed.client).core);
    });
}

#[test]
fn nobody_is_there() {
    for v4 in [true, false] {
        let mut routed = Routed::new(1, v4, 1500, &path());
        let now = routed.net.now();
        let calling = routed.stack(routed.client);
        let target = Endpoint::new(addr(v4, 2, 99), 7000);
        calling.app.connect(&mut calling.core, now, target, Plan::both(1, 1).0).expect("a port to spare");
        routed.net.run_until(Instant::from_secs(300));
        assert_eq!(routed.see(routed.client).app.tally.unreachable, 1, "{:?}", routed.see(routed.client).app);
        assert!(routed.router().counters().unreachable > 0);
    }
}
