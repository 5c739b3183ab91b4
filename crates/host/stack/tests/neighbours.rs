//! Goal: hosts on the link that send in many names (RFC 6583) take nothing from the neighbours that are known, and make
//! the stack ask no more than so often.

mod common;

use base::{Addr, Duration, Endpoint, Instant, Rng, Seq};
use common::*;
use pio::{PacketIo, Pair, PairConfig, RxBatch, TxBatch, TxMeta, TxPacket};
use stack::{ConnId, Core, ListenerId};
use wire::arp;
use wire::nd;
use wire::packet::{Below, Checksum, Content, Link, parse_frame};
use wire::tcp::{Flags, Header, Options};
use wire::{ethernet, protocol};

const HTTP: Endpoint = Endpoint::new(SERVER_V6, PORT);
const GATEWAY: Addr = Addr::v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xfe]);
const GATEWAY_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xfe];
/// A host behind the gateway.
const FAR: Endpoint =
    Endpoint::new(Addr::v6([0x20, 1, 0xd, 0xb8, 9, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]), 40_000);
const STRANGER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x66];

/// A server with a gateway on an IPv6 /64, and every other host on its wire.
struct Link64 {
    listener: ListenerId,
    core: Core,
    wire: Pair,
    now: Instant,
    /// Questions for neighbours since the last look: all, and those for the gateway.
    asked: u32,
    asked_gateway: u32,
    /// Link-layer destinations of segments with data.
    data_to: Vec<[u8; 6]>,
    /// Next sequence number of the host behind the gateway.
    far_seq: u32,
}

impl Link64 {
    fn new(backlog: u32) -> Link64 {
        let (mut core, wire) = World::alone(&PairConfig::default(), |c| {
            c.gateways = vec![GATEWAY];
            c.max_connections = 100_000;
        });
        let now = Instant::from_secs(1);
        let listener = core.listen(now, &listen(HTTP, backlog)).unwrap().0;
        Link64 { listener, core, wire, now, asked: 0, asked_gateway: 0, data_to: Vec::new(), far_seq: 1_000 }
    }

    fn put(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) {
        let mut frame = self.wire.take().expect("frames come back");
        frame.set_range(0, len);
        fill(frame.data_mut());
        let mut batch = TxBatch::from([TxPacket { frame, meta: TxMeta::default() }]);
        self.wire.tx(&mut batch).unwrap();
        batch.into_iter().for_each(|packet| self.wire.retire(packet.frame));
    }

    fn segment(&mut self, from: Endpoint, mac: [u8; 6], flags: Flags, seq: u32, ack: u32) {
        let link = Some(Link { dst: self.core.io().caps().mac, src: mac });
        let below = Below { link, src: from.addr, dst: SERVER_V6, tos: 0, ttl: 64, label: 0 };
        let header = Header {
            src_port: from.port,
            dst_port: PORT,
            seq: Seq::new(seq),
            ack: Seq::new(ack),
            flags,
            window: 1000,
            options: Options::default(),
        };
        self.put(below.len() + header.len(), |data| {
            below.emit_tcp(&header, 0, Checksum::Full, data);
        });
    }

    fn advertise(&mut self, target: Addr, mac: [u8; 6], replaces: bool, solicited: bool) {
        let to = self.core.io().caps().mac;
        let message =
            nd::Message::Advertisement { target, target_mac: Some(mac), router: false, solicited, replaces };
        let link = Some(Link { dst: to, src: mac });
        let below = Below { link, src: target, dst: SERVER_V6, tos: 0, ttl: nd::HOP_LIMIT, label: 0 };
        self.put(below.len() + message.len(), |data| {
            let at = below.emit(protocol::ICMPV6, message.len(), data);
            message.emit(target, SERVER_V6, &mut data[at..]);
        });
    }

    /// One turn. The gateway answers questions for itself, and the host behind it acknowledges what it gets.
    fn turn(&mut self) {
        self.core.turn(self.now).unwrap();
        let (mut batch, mut acked, mut gateway_asked) = (RxBatch::new(), None, false);
        while self.wire.rx(&mut batch).unwrap() > 0 {
            for packet in batch.drain(..) {
                let frame = packet.frame.data();
                if let Ok(read) = parse_frame(frame, frame.len())
                    && let Content::Ip(ip) = read.content
                {
                    if ip.protocol == protocol::TCP {
                        let (_, _, segment) = wire::tcp::parse(ip.upper(frame)).unwrap();
                        if !segment.payload.is_empty() {
                            self.data_to.push(read.link.dst);
                        }
                        if ip.dst == FAR.addr && segment.seq_len() > 0 {
                            acked = Some(segment.seq.raw().wrapping_add(segment.seq_len()));
                        }
                    } else if let Ok(nd::Message::Solicitation { target, .. }) =
                        nd::parse(ip.src, ip.dst, ip.ttl, ip.upper(frame))
                    {
                        self.asked += 1;
                        gateway_asked |= target == GATEWAY;
                    }
                }
                self.wire.retire(packet.frame);
            }
        }
        if gateway_asked {
            self.asked_gateway += 1;
            self.advertise(GATEWAY, GATEWAY_MAC, true, true);
        }
        if let Some(ack) = acked {
            self.segment(FAR, GATEWAY_MAC, Flags::ACK, self.far_seq, ack);
        }
        if gateway_asked || acked.is_some() {
            self.core.turn(self.now).unwrap();
        }
    }

    /// A connection of a host behind the gateway; the gateway has been asked for by then.
    fn far_connection(&mut self) -> ConnId {
        self.segment(FAR, GATEWAY_MAC, Flags::SYN, 1_000, 0);
        self.far_seq = 1_001;
        self.turn();
        let id = self.core.accept(self.listener, 1).expect("it is established");
        // What came with the SYN was a hint; the answer to a question confirms it.
        self.now += Duration::from_secs(2);
        self.core.write(self.now, id, b"first").unwrap();
        self.turn();
        assert!(self.asked_gateway > 0, "the gateway is verified");
        self.data_to.clear();
        id
    }
}

fn on_link(rng: &mut Rng) -> Addr {
    let mut bytes = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    rng.fill(&mut bytes[8..]);
    Addr::v6(bytes)
}

/// RFC 6583, section 7: known neighbours stay, and questions are limited.
#[test]
fn a_flood_of_spoofed_neighbours_leaves_the_gateway_known() {
    let mut link = Link64::new(60_000);
    let id = link.far_connection();
    let mut rng = Rng::new(1);
    for second in 0..10 {
        (link.asked, link.asked_gateway) = (0, 0);
        for _ in 0..200 {
            for _ in 0..16 {
                let from = Endpoint::new(on_link(&mut rng), 5_000);
                link.segment(from, STRANGER_MAC, Flags::SYN, 7, 0);
            }
            link.turn();
            link.now += Duration::from_millis(5);
        }
        link.data_to.clear();
        link.core.write(link.now, id, b"again").unwrap();
        link.turn();
        assert_eq!(link.data_to, [GATEWAY_MAC], "second {second}: data leaves at once, to the gateway");
        assert!(link.asked <= 1_100, "second {second}: {} questions", link.asked);
        assert!(link.asked_gateway <= 1, "second {second}: the gateway was asked for again");
    }
    assert!(stat(&link.core, "neighbours") <= 4_096);
}

/// A host that asks for our address is remembered (RFC 826, RFC 4861, section 7.2.3), but takes no place of
/// another's.
#[test]
fn a_flood_of_questions_leaves_the_gateway_known() {
    let mut link = Link64::new(100);
    let id = link.far_connection();
    let mut rng = Rng::new(2);
    for nth in 0..20_000u32 {
        let from = on_link(&mut rng);
        let message = nd::Message::Solicitation { target: SERVER_V6, source_mac: Some(STRANGER_MAC) };
        let mac = link.core.io().caps().mac;
        let below = Below {
            link: Some(Link { dst: mac, src: STRANGER_MAC }),
            src: from,
            dst: SERVER_V6,
            tos: 0,
            ttl: nd::HOP_LIMIT,
            label: 0,
        };
        link.put(below.len() + message.len(), |data| {
            let at = below.emit(protocol::ICMPV6, message.len(), data);
            message.emit(from, SERVER_V6, &mut data[at..]);
        });
        if nth % 16 == 15 {
            link.turn();
            link.now += Duration::from_micros(100);
        }
    }
    link.data_to.clear();
    link.core.write(link.now, id, b"again").unwrap();
    link.turn();
    assert_eq!(link.data_to, [GATEWAY_MAC]);
}

/// RFC 4861, section 7.2.5: an advertisement without the override flag does not replace a known address.
#[test]
fn an_advertisement_without_override_does_not_replace_an_address() {
    let mut link = Link64::new(100);
    let id = link.far_connection();
    let sent_to = |link: &mut Link64| {
        link.data_to.clear();
        link.core.write(link.now, id, b"x").unwrap();
        link.turn();
        link.data_to.clone()
    };
    link.advertise(GATEWAY, STRANGER_MAC, false, false);
    link.turn();
    link.asked_gateway = 0;
    assert_eq!(sent_to(&mut link), [GATEWAY_MAC]);
    assert_eq!(link.asked_gateway, 1, "the doubt makes it verify");
    link.advertise(GATEWAY, STRANGER_MAC, true, false);
    link.turn();
    assert_eq!(sent_to(&mut link), [STRANGER_MAC], "with the flag it replaces");
}

/// RFC 1122, section 3.3.6: what comes in a frame to many with a destination of one host is dropped silently.
#[test]
fn tcp_in_frames_to_a_group_is_dropped() {
    let mut link = Link64::new(100);
    for (group, src, dst) in [
        (ethernet::BROADCAST, CLIENT, SERVER),
        ([0x33, 0x33, 0, 0, 0, 1], CLIENT_V6, SERVER_V6),
        ([1, 0, 0x5e, 0, 0, 1], CLIENT, SERVER),
    ] {
        let link_layer = Some(Link { dst: group, src: STRANGER_MAC });
        let below = Below { link: link_layer, src, dst, tos: 0, ttl: 64, label: 0 };
        let header = Header {
            src_port: 5_000,
            dst_port: PORT,
            seq: Seq::new(7),
            ack: Seq::new(0),
            flags: Flags::SYN,
            window: 1000,
            options: Options::default(),
        };
        let before = stat(&link.core, "drop_not_for_us");
        link.put(below.len() + header.len(), |data| {
            below.emit_tcp(&header, 0, Checksum::Full, data);
        });
        link.turn();
        assert_eq!(stat(&link.core, "drop_not_for_us"), before + 1, "{group:x?}");
        assert_eq!((stat(&link.core, "connections"), stat(&link.core, "resets_out")), (0, 0));
    }
    // ARP asks every host.
    let ask = arp::Packet {
        operation: arp::Operation::Request,
        sender_mac: STRANGER_MAC,
        sender: CLIENT,
        target_mac: [0; 6],
        target: SERVER,
    };
    link.put(ethernet::HEADER_LEN + arp::LEN, |data| {
        let header =
            ethernet::Header { dst: ethernet::BROADCAST, src: STRANGER_MAC, ethertype: ethernet::ARP };
        header.emit(data);
        ask.emit(&mut data[ethernet::HEADER_LEN..]);
    });
    link.turn();
    assert_eq!(stat(&link.core, "arp_in"), 1);
}
