//! Goal: each layer's fields of known packets, and each rule that refuses one.

use super::captured::FRAMES;
use super::unhex;
use crate::checksum::Sum;
use crate::packet::{self, Below, Checked, Checksum, Content, Link};
use crate::tcp::{Flags, Header, Segment};
use crate::{ParseError, arp, icmp, ipv4, ipv6, nd, print, protocol, virtio};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use base::{Addr, Seq};

#[test]
fn lines() {
    for (hex, line) in FRAMES {
        assert_eq!(print::frame(&unhex(hex)).to_string(), *line);
    }
}

/// Reads each captured TCP packet and writes it anew from the values alone.
/// RFC 9293, MUST-2.
#[test]
fn tcp_packets_are_remade_byte_for_byte() {
    let mut remade = 0;
    for (hex, line) in FRAMES {
        let bytes = unhex(hex);
        let frame = packet::parse_frame(&bytes, bytes.len()).unwrap();
        let Content::Ip(ip) = frame.content else { continue };
        let Ok((src_port, dst_port, segment)) = ip.tcp(&bytes) else { continue };
        if ip.protocol != protocol::TCP {
            continue;
        }
        assert_eq!(ip.checksum(&bytes), Checked::Good, "{line}");
        let label = if ip.src.is_v4() {
            ipv4::parse(&bytes[14..], bytes.len()).unwrap().0.id.into()
        } else {
            ipv6::parse(&bytes[14..], bytes.len()).unwrap().0.flow_label
        };
        let link = Some(Link { dst: frame.link.dst, src: frame.link.src });
        let below = Below { link, src: ip.src, dst: ip.dst, tos: ip.tos, ttl: ip.ttl, label };
        let Segment { seq, ack, flags, window, options, payload, .. } = segment;
        let header = Header { src_port, dst_port, seq, ack, flags, window, options };
        let mut out = vec![0; bytes.len()];
        out[bytes.len() - payload.len()..].copy_from_slice(payload);
        assert_eq!(below.emit_tcp(&header, payload.len(), Checksum::Full, &mut out), bytes.len());
        assert_eq!(out, bytes, "{line}");
        remade += 1;
    }
    assert!(remade >= 10);
}

#[test]
fn offloaded_checksums_are_partial() {
    let below = Below {
        link: None,
        src: Addr::v4([10, 0, 0, 1]),
        dst: Addr::v4([10, 0, 0, 2]),
        tos: 0,
        ttl: 64,
        label: 0,
    };
    let header = Header {
        src_port: 1,
        dst_port: 2,
        seq: Seq::new(3),
        ack: Seq::new(4),
        flags: Flags::ACK,
        window: 5,
        options: Default::default(),
    };
    let mut out = vec![7; below.len() + header.len() + 100];
    let len = below.emit_tcp(&header, 100, Checksum::Offloaded, &mut out);
    let read = packet::parse_ip(&out, len).unwrap();
    assert_eq!(read.checksum(&out), Checked::Partial);
    out[50] ^= 1;
    assert_eq!(read.checksum(&out), Checked::Partial, "only the pseudo header is summed");
    below.emit_tcp(&header, 100, Checksum::Full, &mut out);
    assert_eq!(read.checksum(&out), Checked::Good);
    out[70] ^= 1;
    assert_eq!(read.checksum(&out), Checked::Bad);
}

fn v4_packet() -> Vec<u8> {
    let header = ipv4::Header {
        src: Addr::v4([10, 0, 0, 1]),
        dst: Addr::v4([10, 0, 0, 2]),
        protocol: 6,
        tos: 2,
        ttl: 9,
        id: 77,
        dont_fragment: true,
        payload_len: 30,
    };
    let mut out = vec![0; 60];
    header.emit(&mut out);
    out
}

fn repaired(mut packet: Vec<u8>) -> Vec<u8> {
    let len = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let sum = Sum::of(&packet[..len.min(60)]).checksum();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// RFC 9293, MUST-50 and MUST-63.
#[test]
fn ipv4_rules() {
    let good = v4_packet();
    let read = packet::parse_ip(&good, good.len()).unwrap();
    assert_eq!((read.range(), read.tos, read.ttl), (20..50, 2, 9));
    let refused = |edit: fn(&mut Vec<u8>)| {
        let mut packet = v4_packet();
        edit(&mut packet);
        let packet = repaired(packet);
        packet::parse_ip(&packet, packet.len()).map(|_| ()).unwrap_err()
    };
    assert_eq!(refused(|p| p[0] = 0x44), ParseError::IpHeaderLength);
    assert_eq!(refused(|p| p[3] = 61), ParseError::IpTotalLength);
    assert_eq!(refused(|p| p[3] = 19), ParseError::IpTotalLength);
    assert_eq!(refused(|p| p[6] = 0x20), ParseError::IpFragment);
    assert_eq!(refused(|p| p[7] = 1), ParseError::IpFragment);
    assert_eq!(refused(|p| p[12] = 224), ParseError::IpAddress);
    assert_eq!(refused(|p| p[0] = 0x55), ParseError::IpVersion);
    let mut wrong = good.clone();
    wrong[10] ^= 1;
    assert_eq!(packet::parse_ip(&wrong, 60), Err(ParseError::IpChecksum));
    assert_eq!(packet::parse_ip(&good[..19], 60), Err(ParseError::IpTruncated));
    // Options are skipped, and the rest of a packet may lie in other buffers.
    let mut options = good.clone();
    options[0] = 0x47;
    let options = repaired(options);
    assert_eq!(packet::parse_ip(&options, 60).unwrap().range(), 28..50);
    assert_eq!(packet::parse_ip(&options[..30], 60).unwrap().range(), 28..50);
    assert_eq!(packet::parse_ip(&options[..30], 60).unwrap().upper(&options[..30]).len(), 2);
    assert_eq!(packet::parse_ip(&options[..27], 60), Err(ParseError::IpHeaderLength));
}

/// An IPv6 packet whose first header after the fixed one is `next`, and whose payload is `body`.
fn v6_packet(next: u8, body: &[u8]) -> Vec<u8> {
    let header = ipv6::Header {
        src: "fd00::1".parse::<core::net::Ipv6Addr>().unwrap().into(),
        dst: "fd00::2".parse::<core::net::Ipv6Addr>().unwrap().into(),
        protocol: next,
        tos: 0xb9,
        ttl: 64,
        flow_label: 0xabcde,
        payload_len: body.len() as u16,
    };
    let mut out = vec![0; 40];
    header.emit(&mut out);
    out.extend(body);
    out
}

fn v6(next: u8, body: &[u8]) -> Result<(u8, core::ops::Range<usize>), ParseError> {
    let packet = v6_packet(next, body);
    packet::parse_ip(&packet, packet.len()).map(|p| (p.protocol, p.range()))
}

#[test]
fn ipv6_extension_headers() {
    // PadN, then TCP; hop-by-hop, destination options, a spent routing header, in that order.
    let pad = |next| [next, 0, 1, 4, 0, 0, 0, 0];
    let route = |next, left| [next, 0, 0, left, 0, 0, 0, 0];
    assert_eq!(v6(6, &[9; 3]), Ok((6, 40..43)));
    assert_eq!(v6(0, &pad(6)), Ok((6, 48..48)));
    assert_eq!(v6(0, &[pad(60), pad(43), route(6, 0), [1; 8]].concat()), Ok((6, 64..72)));
    assert_eq!(v6(43, &route(6, 1)), Err(ParseError::RoutingHeader));
    assert_eq!(v6(44, &[6, 0, 0, 0, 0, 0, 0, 0]), Err(ParseError::IpFragment));
    assert_eq!(v6(0, &[pad(44), [6, 0, 0, 0, 0, 0, 0, 0]].concat()), Err(ParseError::IpFragment));
    assert_eq!(v6(60, &[pad(0), pad(6)].concat()), Err(ParseError::ExtensionMalformed));
    assert_eq!(v6(60, &pad(6)[..7]), Err(ParseError::ExtensionMalformed));
    assert_eq!(v6(60, &[6, 1, 1, 4, 0, 0, 0, 0]), Err(ParseError::ExtensionMalformed));
    assert_eq!(v6(60, &[6, 0, 1, 5, 0, 0, 0, 0]), Err(ParseError::ExtensionMalformed));
    // Router alert may be ignored, a jumbo payload may not.
    assert_eq!(v6(0, &[6, 0, 5, 2, 0, 0, 0, 0]), Ok((6, 48..48)));
    assert_eq!(v6(0, &[6, 0, 0xc2, 4, 0, 1, 0, 0]), Err(ParseError::ExtensionOption));
    // Eight are walked, nine are not.
    let chain = |n: usize| [vec![pad(60); n - 1].concat(), pad(6).to_vec()].concat();
    assert_eq!(v6(60, &chain(8)), Ok((6, 104..104)));
    assert_eq!(v6(60, &chain(9)), Err(ParseError::ExtensionCount));
}

#[test]
fn ipv6_rules() {
    let good = v6_packet(6, &[0; 20]);
    let (header, _) = ipv6::parse(&good, 60).unwrap();
    assert_eq!((header.tos, header.ttl, header.flow_label), (0xb9, 64, 0xabcde));
    assert_eq!(packet::parse_ip(&good, 59), Err(ParseError::IpTotalLength));
    assert_eq!(packet::parse_ip(&good[..39], 60), Err(ParseError::IpTruncated));
    let with_src = |bytes: [u8; 16]| {
        let mut packet = good.clone();
        packet[8..24].copy_from_slice(&bytes);
        packet::parse_ip(&packet, 60).map(|_| ())
    };
    assert_eq!(with_src(Addr::v4([1, 2, 3, 4]).bytes()), Err(ParseError::IpAddress));
    assert_eq!(with_src([0xff; 16]), Err(ParseError::IpAddress));
}

#[test]
fn arp_refuses_other_hardware() {
    let packet = arp::Packet {
        operation: arp::Operation::Reply,
        sender_mac: [1; 6],
        sender: Addr::v4([10, 0, 0, 1]),
        target_mac: [2; 6],
        target: Addr::v4([10, 0, 0, 2]),
    };
    let mut out = [0; 46];
    packet.emit(&mut out);
    assert_eq!(arp::parse(&out), Ok(packet));
    for at in [0, 1, 2, 3, 4, 5, 7] {
        let mut other = out;
        other[at] ^= 0x40;
        assert_eq!(arp::parse(&other), Err(ParseError::ArpMalformed), "byte {at}");
    }
    assert_eq!(arp::parse(&out[..27]), Err(ParseError::ArpMalformed));
}

#[test]
fn icmp_errors_name_the_connection_they_are_about() {
    let (src, dst) = (Addr::v4([10, 0, 0, 9]), Addr::v4([10, 0, 0, 1]));
    let mut quoted = v4_packet();
    quoted[20..28].copy_from_slice(&[0x12, 0x34, 0, 80, 0xde, 0xad, 0xbe, 0xef]);
    let too_big = icmp::Message::TooBig { mtu: 1400, quote: &quoted[..28] };
    let mut out = vec![0; too_big.len()];
    too_big.emit(src, dst, &mut out);
    assert_eq!((out[0], out[1], &out[4..8]), (3, 4, &[0, 0, 0x05, 0x78][..]));
    assert_eq!(icmp::parse_v4(&out), Ok(too_big));
    let quote = icmp::parse_quote(&quoted[..28]).unwrap();
    assert_eq!((quote.src, quote.dst), (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2])));
    assert_eq!((quote.src_port, quote.dst_port, quote.seq), (0x1234, 80, Some(Seq::new(0xdead_beef))));
    assert_eq!(icmp::parse_quote(&quoted[..27]), Err(ParseError::IcmpQuote));
    quoted[7] = 1;
    assert_eq!(icmp::parse_quote(&quoted), Err(ParseError::IcmpQuote), "not the first fragment");
    out[9] ^= 1;
    assert_eq!(icmp::parse_v4(&out), Err(ParseError::IcmpChecksum));
    assert_eq!(icmp::parse_v4(&out[..7]), Err(ParseError::IcmpTruncated));
}

#[test]
fn icmp_of_ipv6_too_big() {
    let (src, dst) = (Addr::v6([0xfd; 16]), Addr::v6([0xfc; 16]));
    let quoted = v6_packet(60, &[6, 0, 1, 4, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 3]);
    let too_big = icmp::Message::TooBig { mtu: 1_280, quote: &quoted };
    let mut out = vec![0; too_big.len()];
    too_big.emit(src, dst, &mut out);
    assert_eq!(icmp::parse_v6(src, dst, &out), Ok(too_big));
    assert_eq!(icmp::parse_v6(src, src, &out), Err(ParseError::IcmpChecksum), "the pseudo header counts");
    let quote = icmp::parse_quote(&quoted).unwrap();
    assert_eq!((quote.src_port, quote.dst_port, quote.seq), (1, 2, Some(Seq::new(3))));
}

#[test]
fn neighbour_discovery_is_refused_where_the_rfc_says_so() {
    let host = |last| Addr::v6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, last]);
    let group = nd::solicited_node(host(7));
    assert_eq!(group.to_string(), "ff02::1:ff01:207");
    assert_eq!(nd::multicast_mac(group), [0x33, 0x33, 0xff, 1, 2, 7]);
    let emit = |message: nd::Message, src, dst| {
        let mut out = vec![0; message.len()];
        message.emit(src, dst, &mut out);
        out
    };
    let ask = nd::Message::Solicitation { target: host(7), source_mac: Some([5; 6]) };
    let bytes = emit(ask, host(1), group);
    assert_eq!(nd::parse(host(1), group, 255, &bytes), Ok(ask));
    assert_eq!(nd::parse(host(1), group, 254, &bytes), Err(ParseError::NdMalformed));
    // Duplicate address detection: nameless, and only to the target's group.
    let nobody = Addr::UNSPECIFIED_V6;
    let probe = nd::Message::Solicitation { target: host(7), source_mac: None };
    assert_eq!(nd::parse(nobody, group, 255, &emit(probe, nobody, group)), Ok(probe));
    assert!(nd::parse(nobody, host(7), 255, &emit(probe, nobody, host(7))).is_err());
    assert!(nd::parse(nobody, group, 255, &emit(ask, nobody, group)).is_err());
    let tell = nd::Message::Advertisement {
        target: host(7),
        target_mac: Some([6; 6]),
        router: false,
        solicited: true,
        replaces: true,
    };
    assert_eq!(nd::parse(host(7), host(1), 255, &emit(tell, host(7), host(1))), Ok(tell));
    assert!(nd::parse(host(7), group, 255, &emit(tell, host(7), group)).is_err(), "solicited, to a group");
    let mut zero_length_option = emit(probe, host(1), group);
    zero_length_option.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    zero_length_option[2..4].fill(0);
    let pseudo = crate::checksum::pseudo(host(1), group, 58, 32);
    let sum = pseudo.plus(Sum::of(&zero_length_option)).checksum();
    zero_length_option[2..4].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(nd::parse(host(1), group, 255, &zero_length_option), Err(ParseError::NdMalformed));
}

#[test]
fn virtio_headers_must_fit_their_packet() {
    let segmentation =
        Some(virtio::Segmentation { cut: virtio::Cut::Tcp6, ecn: true, size: 1428, header_len: 86 });
    let header =
        virtio::Header { checksum: virtio::Checksum::Needed { start: 54, offset: 16 }, segmentation };
    let mut out = [0xee; 12];
    assert_eq!(header.emit(&mut out, virtio::LEN_MERGED), 12);
    assert_eq!(out[..2], [1, 0x84]);
    assert_eq!(out[10..], 1u16.to_ne_bytes());
    assert_eq!(virtio::parse(&out, 72), Ok(header));
    assert_eq!(virtio::parse(&out, 71), Err(ParseError::VirtioMalformed), "the sum would lie outside");
    assert_eq!(virtio::parse(&out[..9], 100), Err(ParseError::VirtioMalformed));
    out[1] = 5;
    let cut = virtio::parse(&out, 100).unwrap().segmentation.unwrap();
    assert_eq!((cut.cut, cut.size), (virtio::Cut::Udp, 1428));
    out[1] = 3;
    assert_eq!(
        virtio::parse(&out, 100),
        Err(ParseError::VirtioMalformed),
        "fragments of UDP were never offered"
    );
    out[1] = 1;
    out[4..6].fill(0);
    assert_eq!(virtio::parse(&out, 100), Err(ParseError::VirtioMalformed), "segments of no bytes");
    let valid = virtio::Header { checksum: virtio::Checksum::Valid, segmentation: None };
    valid.emit(&mut out, virtio::LEN);
    assert_eq!(virtio::parse(&out, 0), Ok(valid));
}
