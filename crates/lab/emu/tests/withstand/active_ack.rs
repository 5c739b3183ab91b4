//! Goal: what goes wrong where a card acknowledges by itself, as a published design had it ("active ACK"): data lost
//! that nothing sends again, a window that is not there, headers that break what was agreed. And that a stack in which
//! the connection alone acknowledges has none of this.

use crate::harness::{Family, PORT, core_config, host};
use crate::peer::{Peer, Plan};
use base::{Duration, Endpoint, Seq};
use emu::{CoreHost, HostId, Network, PipeConfig, PortConfig, SimPort};
use pio::{IoError, Layer, PacketIo, RxBatch, RxPacket, TxBatch, TxMeta, TxPacket};
use stack::{Core, CoreConfig, Offload};
use wire::packet::{Below, Checksum, Content, Link, parse_frame};
use wire::tcp::{Flags, Header, Options};

/// Behaviour of the card in front of the server.
#[derive(Clone, Copy, Default)]
struct Habits {
    /// Acknowledges data itself, with the largest window there is and no options.
    acknowledges: bool,
    /// Once, after so many packets with data, loses what it holds.
    fails_after: u64,
}

/// A card that holds what arrives until it is asked again.
struct Card {
    below: SimPort,
    habits: Habits,
    held: RxBatch,
    next: Option<Seq>,
    data: u64,
    acks: TxBatch,
}

impl Card {
    /// Data in order: the published header, word for word. Its window is 65,535 before scaling.
    fn acknowledge(&mut self, bytes: &[u8]) {
        let Ok(parsed) = parse_frame(bytes, bytes.len()) else { return };
        let Content::Ip(packet) = parsed.content else { return };
        let Ok((from, to, segment)) = packet.tcp(bytes) else { return };
        let end = segment.seq + segment.payload.len() as u32;
        if segment.flags.has(Flags::SYN) {
            self.next = Some(segment.seq + 1);
        }
        if segment.payload.is_empty() || self.next != Some(segment.seq) {
            return;
        }
        self.next = Some(end);
        let Some(mut frame) = self.below.take() else { return };
        let link = Link { dst: parsed.link.src, src: parsed.link.dst };
        let below = Below { link: Some(link), src: packet.dst, dst: packet.src, tos: 0, ttl: 64, label: 0 };
        let (seq, ack, window) = (segment.ack, end, 0xffff);
        let (src_port, dst_port, flags) = (to, from, Flags::ACK);
        let header = Header { src_port, dst_port, seq, ack, flags, window, options: Options::NONE };
        frame.set_range(0, below.len() + header.len());
        below.emit_tcp(&header, 0, Checksum::Full, frame.data_mut());
        self.acks.push_back(TxPacket { frame, meta: TxMeta::default() });
    }

    fn carries_data(packet: &RxPacket) -> bool {
        packet.frame.len() > 200
    }
}

impl Layer for Card {
    type Below = SimPort;

    fn below(&self) -> &SimPort {
        &self.below
    }

    fn below_mut(&mut self) -> &mut SimPort {
        &mut self.below
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let before = batch.len();
        batch.append(&mut self.held);
        let mut fresh = RxBatch::new();
        self.below.rx(&mut fresh)?;
        for packet in fresh {
            let data = Card::carries_data(&packet);
            self.data += u64::from(data);
            if self.habits.acknowledges {
                self.acknowledge(packet.frame.data());
            }
            if data && self.data == self.habits.fails_after {
                // Memory, DMA or the host failed; the card goes on.
                self.below.retire(packet.frame);
                continue;
            }
            batch.push(packet);
        }
        self.below.tx(&mut self.acks)?;
        Ok(batch.len() - before)
    }
}

struct World {
    net: Network<CoreHost<Peer>>,
    client: HostId,
    server: HostId,
}

/// An upload to a server behind such a card, or with that way to receive.
fn world(habits: Habits, offload: Offload, lazy: f64, change: impl Fn(&mut CoreConfig)) -> World {
    let (seed, family) = (5, Family::V4);
    let path = PipeConfig { delay: Duration::from_millis(1), ..PipeConfig::default() };
    let mut net = Network::new(seed);
    let (a, b) = (net.port(&PortConfig::default()), net.port(&PortConfig::default()));
    let (pa, pb) = (a.id(), b.id());
    let (mut client, mut server) = (core_config(seed, family, 1), core_config(seed, family, 2));
    server.offload = offload;
    change(&mut client);
    change(&mut server);
    let card = Card { below: b, habits, held: RxBatch::new(), next: None, data: 0, acks: TxBatch::new() };
    let client = net.add_host(host(client, a, Peer::new(seed)), &[pa]);
    let server = CoreHost::new(Core::new(server, Box::new(card)), Peer::new(!seed));
    let server = net.add_host(server, &[pb]);
    net.link(pa, pb, &path, &path);
    let mut world = World { net, client, server };
    let (up, down) = Plan::both(BYTES, 0);
    let (now, local) = (world.net.now(), Endpoint::new(family.addr(2), PORT));
    let host = world.net.host_mut(world.server);
    host.app.listen(&mut host.core, now, local, Plan { lazy, ..down });
    let host = world.net.host_mut(world.client);
    host.app.connect(&mut host.core, now, local, up).expect("a connection");
    world
}

const BYTES: u64 = 2_000_000;

/// Returns the bytes that the server's application got, and those that the client believes delivered, after some
/// minutes.
fn outcome(mut world: World) -> (u64, u64, World) {
    world.net.run_until(world.net.now() + Duration::from_secs(200));
    let received = world.net.host(world.server).app.tally.received;
    let mut acked = BYTES;
    world.net.host(world.client).core.for_each(world.net.now(), &mut |row| {
        if let stack::Row::Connection(connection) = row {
            acked = connection.info(world.net.now()).bytes_acked.min(BYTES);
        }
    });
    (received, acked, world)
}

fn plain(config: &mut CoreConfig) {
    config.tcp.timestamps = false;
}

#[test]
fn d01_what_a_card_acknowledged_and_lost_is_lost_for_ever() {
    let fails = Habits { acknowledges: true, fails_after: 300 };
    let (received, acked, _) = outcome(world(fails, Offload::Inline, 0.0, plain));
    println!("a card that acknowledges and loses a packet: {acked} bytes acknowledged, {received} received");
    assert!(received < BYTES && acked > received, "{received} received, {acked} acknowledged");
    for offload in [Offload::Inline, Offload::Hold(Duration::from_micros(50))] {
        let honest = Habits { acknowledges: false, ..fails };
        let (received, acked, _) = outcome(world(honest, offload, 0.0, plain));
        println!("one that leaves that to the connection: {acked} bytes acknowledged, {received} received");
        assert_eq!((received, acked), (BYTES, BYTES), "sent again");
    }
}

#[test]
fn d02_a_window_that_is_not_there_fills_with_what_is_thrown_away() {
    let small = |config: &mut CoreConfig| {
        plain(config);
        config.tcp.rcvbuf = (65_536, 65_536);
    };
    let card = Habits { acknowledges: true, ..Habits::default() };
    let (received, acked, lied) = outcome(world(card, Offload::Inline, 0.5, small));
    let refused = lied.net.host(lied.server).core.tcp_counters().out_of_window;
    println!(
        "a window of the card's: {acked} bytes acknowledged, {received} received, {refused} segments refused"
    );
    assert!(received < BYTES && acked > received);
    let held = Offload::Hold(Duration::from_micros(50));
    let (received, acked, _) = outcome(world(Habits::default(), held, 0.5, small));
    println!("the connection's own: {acked} bytes acknowledged, {received} received");
    assert_eq!((received, acked), (BYTES, BYTES));
}

#[test]
fn d03_an_acknowledgment_without_what_was_agreed_is_none() {
    let card = Habits { acknowledges: true, ..Habits::default() };
    let strict = |config: &mut CoreConfig| config.tcp.tolerate_missing_timestamps = false;
    let (received, _, world) = outcome(world(card, Offload::Inline, 0.0, strict));
    let counters = world.net.host(world.client).core.tcp_counters();
    println!("{} acknowledgments without timestamps dropped", counters.missing_timestamps);
    // RFC 7323, section 3.2: they may be dropped, and then were in vain; the host's own repair it.
    assert!(counters.missing_timestamps > 1_000 && received == BYTES);
}
