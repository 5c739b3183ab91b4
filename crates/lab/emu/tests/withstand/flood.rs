//! Goal: 100,000 SYNs from addresses that do not exist, or as many as `MILLSTREAM_FLOOD_SYNS` says, keep no real client
//! out and make nothing grow.

use crate::harness::{Family, PORT, core_config, from_env, host, seeded, stat};
use crate::peer::{Peer, Plan};
use base::{Addr, Duration, Endpoint, Instant, Rng, Seq};
use emu::{CoreHost, Host, Network, PipeConfig, PortConfig, SimPort};
use pio::{PacketIo, RxBatch, TxBatch, TxPacket};
use wire::ethernet::Mac;
use wire::packet::{Below, Checksum, Content, Link, parse_frame};
use wire::protocol;
use wire::tcp::{Flags, Header, Options};

/// The gateway of the network: answers for its own address, swallows the rest, and sends SYNs in the name of
/// the whole Internet.
struct Flooder {
    port: SimPort,
    gateway: Addr,
    target: Endpoint,
    target_mac: Mac,
    rng: Rng,
    left: u64,
    /// SYNs each millisecond.
    rate: u64,
    next: Instant,
    answers: u64,
}

impl Flooder {
    fn send(&mut self, build: impl FnOnce(&mut [u8]) -> usize, tx: &mut TxBatch) {
        let Some(mut frame) = self.port.take() else { return };
        frame.set_range(0, 128);
        let len = build(frame.data_mut());
        frame.set_range(0, len);
        tx.push_back(TxPacket { frame, meta: Default::default() });
    }

    fn syn(&mut self, tx: &mut TxBatch) {
        let random = self.rng.next_u64();
        let src = if self.target.addr.is_v4() {
            let [a, b, c, ..] = random.to_le_bytes();
            Addr::v4([11 + a % 100, b, c, 1])
        } else {
            let mut bytes = [0x20; 16];
            bytes[8..].copy_from_slice(&random.to_le_bytes());
            Addr::v6(bytes)
        };
        let link = Some(Link { dst: self.target_mac, src: self.port.caps().mac });
        let below = Below { link, src, dst: self.target.addr, tos: 0, ttl: 60, label: 0 };
        let header = Header {
            src_port: 1024 + (random >> 48) as u16 % 60_000,
            dst_port: self.target.port,
            seq: Seq::new(random as u32),
            ack: Seq::new(0),
            flags: Flags::SYN,
            window: 64_240,
            options: Options { mss: Some(1460), sack_permitted: true, ..Options::default() },
        };
        self.send(|into| below.emit_tcp(&header, 0, Checksum::Full, into), tx);
    }

    /// Answers who asks for the gateway.
    fn answer(&mut self, frame: &[u8], tx: &mut TxBatch) {
        let Ok(read) = parse_frame(frame, frame.len()) else { return };
        let ours = self.port.caps().mac;
        if let Some(question) = read.question(frame) {
            if question.target == self.gateway {
                self.send(|into| question.answer(ours, true, into), tx);
            }
        } else if let Content::Ip(ip) = read.content
            && ip.protocol == protocol::TCP
            && read.link.dst == ours
        {
            self.answers += 1;
        }
    }
}

impl Host for Flooder {
    fn step(&mut self, now: Instant) -> Option<Instant> {
        let (mut rx, mut tx) = (RxBatch::new(), TxBatch::new());
        let mut more = true;
        while more {
            more = self.port.rx(&mut rx).expect("a simulated port does not fail") > 0;
            for packet in rx.drain(..) {
                self.answer(packet.frame.data(), &mut tx);
                self.port.retire(packet.frame);
            }
        }
        if now >= self.next && self.left > 0 {
            let burst = self.rate.min(self.left);
            self.left -= burst;
            (0..burst).for_each(|_| self.syn(&mut tx));
            self.next = now + Duration::from_millis(1);
        }
        self.port.tx(&mut tx).expect("a simulated port does not fail");
        tx.drain(..).for_each(|p| self.port.retire(p.frame));
        (self.left > 0).then_some(self.next)
    }
}

enum Node {
    Stack(Box<CoreHost<Peer>>),
    Flooder(Box<Flooder>),
}

impl Host for Node {
    fn step(&mut self, now: Instant) -> Option<Instant> {
        match self {
            Node::Stack(host) => host.step(now),
            Node::Flooder(host) => host.step(now),
        }
    }
}

impl Node {
    fn see(&self) -> &CoreHost<Peer> {
        match self {
            Node::Stack(host) => host,
            Node::Flooder(_) => panic!("this is the flooder"),
        }
    }

    fn stack(&mut self) -> &mut CoreHost<Peer> {
        match self {
            Node::Stack(host) => host,
            Node::Flooder(_) => panic!("this is the flooder"),
        }
    }
}

fn flood(seed: u64, family: Family, syns: u64, usec_timestamps: bool) {
    let mut net = Network::new(seed);
    let switch = net.add_switch();
    let path = PipeConfig { delay: Duration::from_millis(1), ..PipeConfig::default() };
    let gateway = family.addr(254);
    let big = PortConfig { frames: 8192, rx_ring: 8192, tx_ring: 8192, ..PortConfig::default() };
    let (client, server, attack) = (net.port(&big), net.port(&big), net.port(&big));
    let ports = [client.id(), server.id(), attack.id()];
    let target = Endpoint::new(family.addr(2), PORT);
    let flooder = Flooder {
        gateway,
        target,
        target_mac: server.caps().mac,
        port: attack,
        rng: Rng::new(seed),
        left: syns,
        rate: 400,
        next: Instant::from_millis(100),
        answers: 0,
    };
    let (mut calls, mut config) = (core_config(seed, family, 1), core_config(seed, family, 2));
    config.gateways = vec![gateway];
    // Cookies carry what the peer offers in the low bits of the timestamp, whatever its clock.
    (calls.tcp.usec_timestamps, config.tcp.usec_timestamps) = (usec_timestamps, usec_timestamps);
    let client = net.add_host(Node::Stack(Box::new(host(calls, client, Peer::new(seed)))), &ports[..1]);
    let server = net.add_host(Node::Stack(Box::new(host(config, server, Peer::new(seed + 1)))), &ports[1..2]);
    let flooder = net.add_host(Node::Flooder(Box::new(flooder)), &ports[2..]);
    for port in ports {
        net.plug(port, switch, &path, &path);
    }
    let (up, down) = Plan::both(300, 3_000);
    let serving = net.host_mut(server).stack();
    serving.app.listen(&mut serving.core, Instant::ZERO, target, down);
    serving.app.set_backlog(&mut serving.core, 256);
    // A real client every five milliseconds for as long as the flood lasts, and a little before and after.
    let millis = 200 + syns / 400;
    let clients = millis / 5;
    let mut footprint = 0;
    for nth in 0..clients {
        net.run_until(Instant::from_millis(5 * nth));
        let now = net.now();
        let calling = net.host_mut(client).stack();
        calling.app.connect(&mut calling.core, now, target, up).expect("a port to spare");
        let serving = net.host_mut(server).stack();
        let held: u64 = serving.core.footprint().iter().map(|(_, bytes)| bytes).sum();
        assert!(stat(&serving.core, "connections") <= 256 + 2 * 256, "half-open connections pile up");
        if nth == clients / 4 {
            footprint = held;
        }
        if nth > clients / 4 {
            assert!(held <= footprint + footprint / 4 + (1 << 20), "grew from {footprint} to {held} bytes");
        }
    }
    let done = |net: &Network<Node>| net.host(client).see().app.is_idle();
    // The last client is served as fast as the first: a retransmitted SYN is the worst that may happen to it.
    let soon = net.now() + Duration::from_secs(4);
    assert!(net.run(soon, done), "clients are kept waiting: {:?}", net.host(client).see().app);
    let tally = &net.host(client).see().app.tally;
    assert_eq!(tally.complete, clients, "{tally:?}");
    let cookies = stat(&net.host(server).see().core, "cookies_sent");
    assert!(cookies > syns / 2, "the flood was answered by {cookies} cookies only");
    let Node::Flooder(flooder) = net.host(flooder) else { panic!("not the flooder") };
    assert_eq!(flooder.left, 0);
    assert!(flooder.answers > syns / 2, "{} SYN-ACKs only", flooder.answers);
    net.run_until(soon + Duration::from_secs(900));
    crate::harness::assert_clean(&mut net.host_mut(server).stack().core);
}

#[test]
fn spoofed_syns_keep_no_client_out() {
    let syns = from_env("MILLSTREAM_FLOOD_SYNS", 100_000);
    seeded(1..2, |seed| flood(seed, Family::V4, syns, false));
    seeded(2..3, |seed| flood(seed, Family::V6, syns / 4, false));
    seeded(3..4, |seed| flood(seed, Family::V4, syns / 4, true));
}
