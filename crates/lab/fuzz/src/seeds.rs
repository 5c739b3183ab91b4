//! Bytes that make sense, written by core/wire itself: mutations of them get past the first checks.

use base::{Addr, Seq};
use wire::packet::{Below, Checksum, Link};
use wire::pcap::classic::{Record, write_header, write_record};
use wire::tcp::{FastOpen, Flags, Header, Options, SackBlocks, Timestamps};
use wire::{arp, icmp, nd, protocol, virtio};

/// For targets to which all bytes are alike.
pub(crate) fn none() -> Vec<Vec<u8>> {
    Vec::new()
}

const V4: [Addr; 2] = [Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2])];
const V6: [Addr; 2] = [
    Addr::v6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
    Addr::v6([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]),
];

fn below([src, dst]: [Addr; 2], link: bool) -> Below {
    let link = link.then_some(Link { dst: [2; 6], src: [4; 6] });
    Below { link, src, dst, tos: 0, ttl: 64, label: 0 }
}

/// The headers of a connection's life: SYN with every option, data, selective acknowledgments, FIN, RST.
fn headers() -> Vec<Header> {
    let header = |flags, options| Header {
        src_port: 40_000,
        dst_port: 80,
        seq: Seq::new(0xffff_ff00),
        ack: Seq::new(77),
        flags,
        window: 65_000,
        options,
    };
    let timestamps = Some(Timestamps { val: 1, ecr: 2 });
    let syn = Options {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps,
        ..Options::default()
    };
    let fast_open = |bytes: &[u8], old| syn.with_fast_open(FastOpen::cookie(bytes, old));
    let mut sack = SackBlocks::none();
    for block in 0..3 {
        sack.push(Seq::new(1000 + 3000 * block), Seq::new(2460 + 3000 * block));
    }
    vec![
        header(Flags::SYN, syn),
        header(Flags::SYN | Flags::ACK, syn),
        header(Flags::SYN, syn.with_fast_open(Some(FastOpen::request(false)))),
        header(Flags::SYN, fast_open(&[1; 8], false)),
        header(Flags::SYN | Flags::ACK, fast_open(&[2; 16], true)),
        header(Flags::ACK | Flags::PSH, Options { timestamps, ..Options::default() }),
        header(Flags::ACK, Options { timestamps, sack, ..Options::default() }),
        header(Flags::FIN | Flags::ACK, Options::default()),
        header(Flags::RST, Options::default()),
    ]
}

/// TCP headers alone.
pub(crate) fn segments() -> Vec<Vec<u8>> {
    headers()
        .iter()
        .map(|header| {
            let mut out = vec![0; header.len()];
            header.emit(&mut out);
            out
        })
        .collect()
}

/// Whole frames of both families and every protocol, with and without Ethernet, and capture files of them.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for ends in [V4, V6] {
        for link in [true, false] {
            all.extend(headers().iter().map(|header| tcp_frame(&below(ends, link), header)));
        }
        all.push(icmp_frame(ends));
    }
    all.push(arp_frame());
    all.push(nd_frame());
    let captures = captures();
    all.extend(captures);
    all
}

fn tcp_frame(below: &Below, header: &Header) -> Vec<u8> {
    let payload = b"GET / HTTP/1.1\r\n\r\n";
    let at = below.len() + header.len();
    let mut frame = vec![0; at + payload.len()];
    frame[at..].copy_from_slice(payload);
    below.emit_tcp(header, payload.len(), Checksum::Full, &mut frame);
    frame
}

fn upper_frame(below: &Below, protocol: u8, upper: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; below.len() + upper.len()];
    let at = below.emit(protocol, upper.len(), &mut frame);
    frame[at..].copy_from_slice(upper);
    frame
}

fn icmp_frame(ends: [Addr; 2]) -> Vec<u8> {
    let quoted = tcp_frame(&below(ends, false), &headers()[0]);
    let message = icmp::Message::TooBig { mtu: 1280, quote: &quoted };
    let mut upper = vec![0; message.len()];
    message.emit(ends[0], ends[1], &mut upper);
    let protocol = if ends[0].is_v4() { protocol::ICMP } else { protocol::ICMPV6 };
    upper_frame(&below(ends, true), protocol, &upper)
}

fn nd_frame() -> Vec<u8> {
    let message = nd::Message::Solicitation { target: V6[1], source_mac: Some([4; 6]) };
    let to = nd::solicited_node(V6[1]);
    let mut upper = vec![0; message.len()];
    message.emit(V6[0], to, &mut upper);
    let below = Below { ttl: nd::HOP_LIMIT, ..below([V6[0], to], true) };
    upper_frame(&below, protocol::ICMPV6, &upper)
}

fn arp_frame() -> Vec<u8> {
    let packet = arp::Packet {
        operation: arp::Operation::Request,
        sender_mac: [4; 6],
        sender: V4[0],
        target_mac: [0; 6],
        target: V4[1],
    };
    let mut frame = [2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 8, 6].to_vec();
    frame.resize(14 + arp::LEN, 0);
    packet.emit(&mut frame[14..]);
    frame
}

/// The virtio-net header in each of its states, before a frame.
pub(crate) fn virtio() -> Vec<Vec<u8>> {
    let frame = tcp_frame(&below(V4, true), &headers()[2]);
    let needed = virtio::Checksum::Needed { start: 34, offset: 16 };
    let segmentation = |cut| {
        let ecn = cut == virtio::Cut::Tcp4;
        Some(virtio::Segmentation { cut, ecn, size: 1448, header_len: 66 })
    };
    let headers = [
        virtio::Header::default(),
        virtio::Header { checksum: virtio::Checksum::Valid, segmentation: None },
        virtio::Header { checksum: needed, segmentation: segmentation(virtio::Cut::Tcp4) },
        virtio::Header { checksum: needed, segmentation: segmentation(virtio::Cut::Tcp6) },
        virtio::Header { checksum: needed, segmentation: segmentation(virtio::Cut::Udp) },
    ];
    let before = |header: &virtio::Header| {
        let mut out = vec![0; virtio::LEN_MERGED];
        header.emit(&mut out, virtio::LEN_MERGED);
        out.extend_from_slice(&frame);
        out
    };
    headers.iter().map(before).collect()
}

/// A capture file of two frames.
pub(crate) fn captures() -> Vec<Vec<u8>> {
    let mut file = Vec::new();
    write_header(&mut file, wire::pcap::LinkType::Ethernet);
    for header in &headers()[..2] {
        let data = tcp_frame(&below(V4, true), header);
        let original_len = data.len() as u32;
        write_record(
            &mut file,
            &Record { at: base::Instant::from_micros(1_500_000), original_len, data: &data },
        );
    }
    vec![file]
}

/// A message of rtnetlink in the machine's byte order: header, fixed part, attributes.
fn netlink_message(kind: u16, fixed: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = fixed.to_vec();
    for (kind, value) in attributes {
        body.extend((4 + value.len() as u16).to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend_from_slice(value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    let mut message = (16 + body.len() as u32).to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.resize(16, 0);
    message.extend(body);
    message
}

/// Netlink messages of a link, addresses, routes and neighbours that come and go (rtnetlink(7)).
pub(crate) fn netlink() -> Vec<Vec<u8>> {
    const INET: u8 = 2;
    const INET6: u8 = 10;
    let index = 3u32.to_ne_bytes();
    let [i0, i1, i2, i3] = index;
    let mtu = 1500u32.to_ne_bytes();
    let v4 = [10, 0, 0, 1];
    let v6 = V6[0].bytes();
    let mac = [2, 0, 0, 0, 0, 1];
    let mut all = Vec::new();
    for gone in [0, 1] {
        let link = [0, 0, 1, 0, i0, i1, i2, i3, 0x43, 0x10, 1, 0, 0xff, 0xff, 0xff, 0xff];
        all.push(netlink_message(16 + gone, &link, &[(1, &mac), (3, b"eth0\0"), (4, &mtu)]));
        for (family, prefix, addr) in [(INET, 24, &v4[..]), (INET6, 64, &v6[..])] {
            let address = [family, prefix, 0x80, 0, i0, i1, i2, i3];
            all.push(netlink_message(20 + gone, &address, &[(1, addr), (2, addr)]));
            let route = [family, prefix, 0, 0, 254, 2, 0, 1, 0, 0, 0, 0];
            all.push(netlink_message(24 + gone, &route, &[(1, addr), (4, &index), (5, addr), (7, addr)]));
            let neighbour = [family, 0, 0, 0, i0, i1, i2, i3, 2, 0, 0, 1];
            all.push(netlink_message(28 + gone, &neighbour, &[(1, addr), (2, &mac)]));
        }
    }
    let whole = all.concat();
    all.push(whole);
    all
}

/// Links as users write them.
pub(crate) fn links() -> Vec<Vec<u8>> {
    let texts = [
        "tap:demo,queues=2,offload=on,mtu=9000,mac=02:00:00:00:00:07,host=10.3.0.1/24,host=fd03::1/64",
        "packet:eth0,share=7,offload=off",
        "shm:/tmp/cable,mtu=9000",
        "pcap:file,speed=0.5,record=out,trust=on",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
