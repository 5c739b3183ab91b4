//! Goal: what a core's segments say below TCP, and which packets from the wire it believes (RFC 9293, sections 3.1
//! and 3.9): a peer played by hand, frame by frame.

mod common;

use base::{Addr, Duration, Endpoint, Instant, Seq};
use common::*;
use pio::{PacketIo, Pair, PairConfig, RxBatch, TxBatch, TxMeta, TxPacket};
use stack::{ConnId, Core, OpError, OwnAddr};
use tcp::{SocketOptions, State};
use wire::icmp;
use wire::packet::{Below, Checksum, Content, Link, parse_frame};
use wire::tcp::{Flags, Header, Options};

const HTTP: Endpoint = Endpoint::new(SERVER, PORT);
const PEER: Endpoint = Endpoint::new(CLIENT, 4000);
const ROUTER: Addr = Addr::v4([10, 0, 0, 99]);

/// A core that listens, and the other end of its wire.
struct Wired {
    core: Core,
    wire: Pair,
    now: Instant,
    mac: [u8; 6],
}

/// A TCP segment that the core sent, and the IP header around it.
#[derive(Debug)]
struct Seen {
    src: Addr,
    tos: u8,
    ttl: u8,
    seq: Seq,
    ack: Seq,
    flags: Flags,
    /// The packet from its IP header on.
    packet: Vec<u8>,
}

impl Wired {
    fn new() -> Wired {
        let (mut core, wire) = World::alone(&PairConfig::default(), |_| {});
        let mac = core.io().caps().mac;
        let now = Instant::from_secs(1);
        core.listen(now, &listen(HTTP, 32)).unwrap();
        Wired { core, wire, now, mac }
    }

    /// Sends an IP packet of `protocol` into the core.
    fn packet(&mut self, (src, dst): (Addr, Addr), protocol: u8, len: usize, fill: impl FnOnce(&mut [u8])) {
        let below = self.below(src, dst);
        self.frame(below.len() + len, |data| {
            let at = below.emit(protocol, len, data);
            fill(&mut data[at..]);
        });
    }

    fn below(&self, src: Addr, dst: Addr) -> Below {
        let link = Some(Link { dst: self.mac, src: self.wire.caps().mac });
        Below { link, src, dst, tos: 0, ttl: 64, label: 0 }
    }

    fn frame(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) {
        let mut frame = self.wire.take().expect("frames come back");
        frame.set_range(0, len);
        fill(frame.data_mut());
        let mut batch = TxBatch::from([TxPacket { frame, meta: TxMeta::default() }]);
        self.wire.tx(&mut batch).unwrap();
        batch.into_iter().for_each(|packet| self.wire.retire(packet.frame));
    }

    fn segment(&mut self, from: Endpoint, to: Endpoint, (seq, ack): (Seq, Seq), flags: Flags, data: &[u8]) {
        let below = self.below(from.addr, to.addr);
        let options = Options { mss: Some(1460).filter(|_| flags.has(Flags::SYN)), ..Options::default() };
        let header =
            Header { src_port: from.port, dst_port: to.port, seq, ack, flags, window: 60_000, options };
        let at = below.len() + header.len();
        self.frame(at + data.len(), |frame| {
            frame[at..].copy_from_slice(data);
            below.emit_tcp(&header, data.len(), Checksum::Full, frame);
        });
    }

    /// Turns the core; the TCP segments it sent.
    fn turn(&mut self) -> Vec<Seen> {
        self.core.turn(self.now).unwrap();
        let (mut batch, mut seen) = (RxBatch::new(), Vec::new());
        while self.wire.rx(&mut batch).unwrap() > 0 {
            for packet in batch.drain(..) {
                let bytes = packet.frame.data();
                if let Ok(Content::Ip(ip)) = parse_frame(bytes, bytes.len()).map(|frame| frame.content) {
                    let (_, _, segment) = ip.tcp(bytes).expect("it sends nothing but TCP here");
                    let (seq, ack, flags) = (segment.seq, segment.ack, segment.flags);
                    let packet = bytes[wire::ethernet::HEADER_LEN..].to_vec();
                    seen.push(Seen { src: ip.src, tos: ip.tos, ttl: ip.ttl, seq, ack, flags, packet });
                }
                self.wire.retire(packet.frame);
            }
        }
        seen
    }

    /// A connection of `PEER`, and what its next segment is numbered with.
    fn dial(&mut self, listener: stack::ListenerId) -> (ConnId, (Seq, Seq)) {
        let isn = Seq::new(1_000);
        self.segment(PEER, HTTP, (isn, Seq::new(0)), Flags::SYN, &[]);
        let answer = self.turn().remove(0);
        assert_eq!((answer.flags, answer.ack), (Flags::SYN | Flags::ACK, isn + 1));
        let numbers = (isn + 1, answer.seq + 1);
        self.segment(PEER, HTTP, numbers, Flags::ACK, &[]);
        assert!(self.turn().is_empty());
        (self.core.accept(listener, 7).expect("established"), numbers)
    }

    fn stat(&self, name: &str) -> u64 {
        stat(&self.core, name)
    }
}

/// A core with one connection that `PEER` opened.
fn connected() -> (Wired, ConnId, (Seq, Seq)) {
    connected_over(&PairConfig::default())
}

fn connected_over(link: &PairConfig) -> (Wired, ConnId, (Seq, Seq)) {
    let (mut core, wire) = World::alone(link, |_| {});
    let mac = core.io().caps().mac;
    let now = Instant::from_secs(1);
    let (listener, _) = core.listen(now, &listen(HTTP, 32)).unwrap();
    let mut wired = Wired { core, wire, now, mac };
    let (id, numbers) = wired.dial(listener);
    (wired, id, numbers)
}

/// RFC 9293, MUST-3.
#[test]
fn a_wrong_checksum_is_not_believed() {
    let (mut wired, id, numbers) = connected();
    for wrong in [1, 0x8000, 0] {
        spoilt_segment(&mut wired, numbers, Checksum::Full, wrong);
        wired.turn();
        assert_eq!(wired.core.connection(id).readable(), if wrong == 0 { 4 } else { 0 });
    }
    assert_eq!(wired.stat("drop_checksum"), 2);
}

/// Sends a segment with four bytes of payload, whose checksum field has the bits of `spoil` turned over.
fn spoilt_segment(wired: &mut Wired, numbers: (Seq, Seq), checksum: Checksum, spoil: u16) {
    let below = wired.below(CLIENT, SERVER);
    let header = Header {
        src_port: PEER.port,
        dst_port: PORT,
        seq: numbers.0,
        ack: numbers.1,
        flags: Flags::ACK,
        window: 1000,
        options: Options::default(),
    };
    let at = below.len() + header.len();
    wired.frame(at + 4, |frame| {
        frame[at..].copy_from_slice(b"data");
        below.emit_tcp(&header, 4, checksum, frame);
        let field = &mut frame[below.len() + 16..below.len() + 18];
        let written = u16::from_be_bytes([field[0], field[1]]);
        field.copy_from_slice(&(written ^ spoil).to_be_bytes());
    });
}

/// A sender on the same machine leaves checksums to hardware that the packet never meets, and a port such as AF_XDP
/// cannot tell of which packets. Exactly that value is taken, and counted; any other is a wrong checksum.
#[test]
fn a_partial_checksum_is_taken_where_the_port_may_not_tell() {
    let (mut wired, id, numbers) = connected_over(&PairConfig { local_peer: true, ..PairConfig::default() });
    for spoil in [1, 0x8000, 0xffff] {
        spoilt_segment(&mut wired, numbers, Checksum::Offloaded, spoil);
        wired.turn();
        assert_eq!(wired.core.connection(id).readable(), 0, "spoilt by {spoil:#x}");
    }
    assert_eq!((wired.stat("drop_checksum"), wired.stat("partial_checksums")), (3, 0));
    spoilt_segment(&mut wired, numbers, Checksum::Offloaded, 0);
    wired.turn();
    assert_eq!(wired.core.connection(id).readable(), 4);
    assert_eq!((wired.stat("drop_checksum"), wired.stat("partial_checksums")), (3, 1));
    // Where a port marks what is partial, an unmarked one is wrong.
    let (mut wired, id, numbers) = connected();
    spoilt_segment(&mut wired, numbers, Checksum::Offloaded, 0);
    wired.turn();
    assert_eq!(wired.core.connection(id).readable(), 0);
    assert_eq!((wired.stat("drop_checksum"), wired.stat("partial_checksums")), (1, 0));
}

/// RFC 9293, MUST-57: not a word to a SYN that was sent to a group or to the whole subnet.
#[test]
fn a_syn_to_many_is_ignored() {
    let mut wired = Wired::new();
    for to in [[255, 255, 255, 255], [10, 0, 0, 255], [10, 0, 0, 0], [224, 0, 0, 1], [239, 1, 2, 3]] {
        wired.segment(PEER, Endpoint::new(Addr::v4(to), PORT), (Seq::new(1), Seq::new(0)), Flags::SYN, &[]);
        assert!(wired.turn().is_empty(), "{to:?}");
    }
    assert_eq!(wired.stat("connections"), 0);
}

/// RFC 9293, MUST-63.
#[test]
fn a_syn_from_nobody_is_ignored() {
    let mut wired = Wired::new();
    for from in [[0, 0, 0, 0], [255, 255, 255, 255], [10, 0, 0, 255], [224, 0, 0, 1]] {
        let from = Endpoint::new(Addr::v4(from), 4000);
        wired.segment(from, HTTP, (Seq::new(1), Seq::new(0)), Flags::SYN, &[]);
        assert!(wired.turn().is_empty(), "{from:?}");
    }
    // Nor from ourselves.
    wired.segment(HTTP, HTTP, (Seq::new(1), Seq::new(0)), Flags::SYN, &[]);
    assert!(wired.turn().is_empty());
    assert_eq!(wired.stat("connections"), 0);
}

/// RFC 9293, MUST-46.
#[test]
fn nobody_connects_to_many() {
    let mut wired = Wired::new();
    for to in [[255, 255, 255, 255], [10, 0, 0, 255], [224, 0, 0, 1], [0, 0, 0, 0]] {
        let to = Endpoint::new(Addr::v4(to), 80);
        assert_eq!(wired.core.connect(wired.now, &connect(to, 1)).unwrap_err(), OpError::NetUnreachable);
    }
}

/// RFC 9293, MUST-48, MUST-49, SHLD-21 and SHLD-22.
#[test]
fn the_application_chooses_diffserv_and_hops_at_any_time() {
    let (mut wired, id, mut numbers) = connected();
    for (tos, ttl, wanted) in [(0, None, 64), (0xb8, Some(9), 9), (0x48, Some(255), 255), (0, Some(0), 0)] {
        wired.core.set_options(wired.now, id, SocketOptions { tos, ttl, ..SocketOptions::default() });
        wired.core.write(wired.now, id, b"data").unwrap();
        let sent = wired.turn();
        assert_eq!((sent[0].tos, sent[0].ttl), (tos, wanted));
        numbers.1 += 4;
        wired.segment(PEER, HTTP, numbers, Flags::ACK, &[]);
        wired.turn();
    }
}

/// RFC 9293, MUST-58 and MUST-59: all that arrived together gets one acknowledgment, of all of it.
/// RFC 5681, 4.2-3.
#[test]
fn a_batch_is_acknowledged_once() {
    let (mut wired, id, numbers) = connected();
    for n in 0..8 {
        wired.segment(PEER, HTTP, (numbers.0 + 1000 * n, numbers.1), Flags::ACK, &[n as u8; 1000]);
    }
    // The application may answer within the turn; the acknowledgment waits for that.
    let (first, sent) = (wired.turn(), wired.turn());
    assert_eq!((first.len(), sent.len()), (0, 1), "{first:?} {sent:?}");
    assert_eq!(sent[0].ack, numbers.0 + 8000);
    assert_eq!(wired.core.connection(id).readable(), 8000);
}

/// RFC 9293, MUST-54, MUST-55 and MUST-56: errors find the connection they quote, and none of these ends it.
/// RFC 5927, 6-1.
#[test]
fn icmp_is_heard_and_nothing_ends() {
    let (mut wired, id, mut numbers) = connected();
    wired.core.write(wired.now, id, b"data").unwrap();
    let quote = wired.turn().remove(0).packet;
    // Unreachable by network, host and source route; out of hops and of time; a bad parameter; source quench.
    let heard = [(3, 0), (3, 1), (3, 5), (11, 0)];
    let ignored = [(11, 1), (12, 0), (4, 0)];
    for (nth, (kind, code)) in heard.into_iter().chain(ignored).enumerate() {
        let data = &quote[..28];
        let message = icmp::Message::Other { kind, code, data };
        wired.packet((ROUTER, SERVER), wire::protocol::ICMP, message.len(), |into| {
            message.emit(ROUTER, SERVER, into);
        });
        assert!(wired.turn().is_empty(), "{kind}/{code}");
        assert_eq!(wired.stat("icmp_errors_in"), (nth as u64 + 1).min(4), "{kind}/{code}");
        assert_eq!(wired.core.connection(id).state(), State::Established, "{kind}/{code}");
    }
    assert_eq!(wired.core.tcp_counters().icmp_soft, 4);
    numbers.1 += 4;
    wired.segment(PEER, HTTP, numbers, Flags::ACK, &[]);
    wired.turn();
    assert_eq!(wired.core.connection(id).unacked(), 0);
}

/// RFC 9293, MUST-43, MUST-44 and MUST-45: the address that was asked for, or IP's choice, and always that one.
#[test]
fn every_segment_leaves_from_the_same_address() {
    let second = Addr::v4([10, 0, 0, 3]);
    let change = |c: &mut stack::CoreConfig| c.addresses.push(OwnAddr { addr: second, prefix: 24 });
    for request in [Addr::UNSPECIFIED_V4, SERVER, second] {
        let mut world = World::with(&PairConfig::default(), |client, _| change(client));
        let listener = world.listen(HTTP, 4);
        let local = if request == SERVER { CLIENT } else { request };
        let wanted = stack::Connect { local: Endpoint::new(local, 0), ..connect(HTTP, 7) };
        let client = world.client.connect(world.now, &wanted).unwrap();
        world.settle();
        let server = world.server.accept(listener, 7).unwrap();
        let from = world.client.connection(client).key().local().addr;
        assert!(local.is_unspecified() || from == local);
        world.client.write(world.now, client, &[1; 100_000]).unwrap();
        world.pass(Duration::from_secs(1));
        assert_eq!(world.server.connection(server).key().remote().addr, from);
        assert!(world.server.connection(server).readable() > 0);
    }
}

/// RFC 9293, MUST-41 and MUST-42: connections of a port, half-open or established, and its listener leave each other
/// alone, in whatever order they come.
#[test]
fn a_port_listens_whatever_its_connections_do() {
    let (mut wired, id, numbers) = connected();
    let other = Endpoint::new(CLIENT, 4001);
    wired.segment(other, HTTP, (Seq::new(5), Seq::new(0)), Flags::SYN, &[]);
    let half_open = wired.turn().remove(0);
    assert!(half_open.flags.has(Flags::SYN) && half_open.src == SERVER);
    // Another passive open, of another port, and a third connection of the first.
    let now = wired.now;
    wired.core.listen(now, &listen(Endpoint::new(SERVER, 81), 4)).unwrap();
    wired.segment(Endpoint::new(CLIENT, 4002), HTTP, (Seq::new(9), Seq::new(0)), Flags::SYN, &[]);
    assert_eq!(wired.turn().len(), 1);
    wired.segment(other, HTTP, (Seq::new(6), half_open.seq + 1), Flags::ACK, b"late");
    wired.turn();
    wired.segment(PEER, HTTP, numbers, Flags::ACK, b"data");
    wired.turn();
    assert_eq!(wired.core.connection(id).readable(), 4);
    assert_eq!(wired.stat("connections"), 3);
}

/// RFC 1191, 3-4.
#[test]
fn no_packet_may_be_fragmented() {
    let (mut wired, id, _) = connected();
    wired.core.write(wired.now, id, &[1; 5_000]).unwrap();
    let sent = wired.turn();
    assert!(sent.len() >= 4 && sent.iter().all(|s| s.packet[6] & 0x40 != 0), "{sent:?}");
}
