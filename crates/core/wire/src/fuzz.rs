//! One function per parser that takes any bytes: it must not panic, and where something was read, writing it
//! and reading it again must give the same. Property tests and fuzz targets call the same functions.

use crate::checksum::{Sum, pseudo};
use crate::packet::{self, Below, Checksum, Link};
use crate::pcap::classic;
use crate::tcp::{self, Header, Segment};
use crate::{arp, ethernet, icmp, ipv4, ipv6, nd, print, protocol, virtio};
use alloc::vec;
use alloc::vec::Vec;
use base::Addr;
use core::fmt::Write;

/// Everything below, on the same bytes.
pub fn any_frame(data: &[u8]) {
    any_link(data);
    any_ip(data);
    any_tcp(data);
    any_icmp(data);
    any_nd(data);
    any_virtio(data);
    any_capture(data);
    any_checksum(data);
    any_line(data);
    any_upper(data);
}

/// Counts characters and keeps none: printing must not fail whatever it prints.
struct Sink(usize);

impl Write for Sink {
    fn write_str(&mut self, s: &str) -> core::fmt::Result {
        self.0 += s.len();
        Ok(())
    }
}

/// Every packet prints as one line that is not empty.
pub fn any_line(data: &[u8]) {
    let mut sink = Sink(0);
    assert!(write!(sink, "{}", print::frame(data)).is_ok() && sink.0 > 0);
}

/// Ethernet and ARP, and the one-pass parser at every cut-off.
pub fn any_link(data: &[u8]) {
    if let Ok((header, _)) = ethernet::parse(data) {
        let mut out = [0; ethernet::HEADER_LEN];
        header.emit(&mut out);
        assert_eq!(out, data[..ethernet::HEADER_LEN]);
    }
    if let Ok(read) = arp::parse(data) {
        let mut out = [0; arp::LEN];
        read.emit(&mut out);
        assert_eq!(out, data[..arp::LEN]);
    }
    for whole in [0, data.len() / 2, data.len(), data.len() + 1_500] {
        if let Ok(frame) = packet::parse_frame(data, whole) {
            check_frame(&frame, data, whole);
        }
        if let Ok(read) = packet::parse_ip(data, whole) {
            assert!(read.range().end <= whole && read.start <= read.end);
        }
    }
}

fn check_frame(frame: &packet::Frame, data: &[u8], whole: usize) {
    let packet::Content::Ip(read) = frame.content else { return };
    assert!(read.range().end <= whole);
    assert_eq!(read.upper(data).len(), read.range().len().min(data.len() - read.start as usize));
    let _ = (read.checksum(data), read.tcp(data).is_ok());
}

/// IPv4 with its checksum repaired, and IPv6 with its extension headers.
pub fn any_ip(data: &[u8]) {
    let mut packet = data.to_vec();
    repair_ipv4(&mut packet);
    if let Ok((header, len)) = ipv4::parse(&packet, packet.len()) {
        assert!(len + usize::from(header.payload_len) <= packet.len());
        let mut out = vec![0; ipv4::HEADER_LEN];
        header.emit(&mut out);
        assert_eq!(ipv4::parse(&out, 65_535), Ok((header, ipv4::HEADER_LEN)));
    }
    if let Ok((header, len)) = ipv6::parse(data, data.len()) {
        assert!(len + usize::from(header.payload_len) <= data.len());
        let mut out = vec![0; ipv6::HEADER_LEN];
        header.emit(&mut out);
        // An upper protocol that is itself an extension never comes out of the walk.
        assert_eq!(ipv6::parse(&out, 65_575), Ok((header, ipv6::HEADER_LEN)));
    }
}

/// Makes the header checksum of what may be an IPv4 packet right.
fn repair_ipv4(packet: &mut [u8]) {
    let Some(first) = packet.first() else { return };
    let len = usize::from(first & 15) * 4;
    if (ipv4::HEADER_LEN..=packet.len()).contains(&len) {
        packet[10..12].fill(0);
        let checksum = Sum::of(&packet[..len]).checksum();
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// A TCP header and its options.
pub fn any_tcp(data: &[u8]) {
    let Ok((src_port, dst_port, segment)) = tcp::parse(data) else { return };
    let header = header_of(src_port, dst_port, &segment);
    let mut out = [0; 60];
    let len = header.emit(&mut out);
    assert!(len == header.len() && len <= 60 && len.is_multiple_of(4));
    let again = tcp::parse(&out[..len]);
    let Ok((src, dst, read)) = again else { panic!("{again:?} from {header:?}") };
    assert_eq!(header_of(src, dst, &read), header);
    assert!(read.payload.is_empty());
}

/// The header that says what a received segment said.
fn header_of(src_port: u16, dst_port: u16, segment: &Segment<'_>) -> Header {
    let ack = if segment.flags.has(tcp::Flags::ACK) { segment.ack } else { base::Seq::new(0) };
    let Segment { seq, flags, window, options, .. } = *segment;
    let header = Header { src_port, dst_port, seq, ack, flags, window, options };
    // We pad more than others do, and sign once: what is left out for want of room was not said.
    let signature = options.signature.filter(|&one| one != tcp::Signature::Several && header.len() <= 60);
    let options = tcp::Options { signature, ..options };
    let accecn = if flags.has(tcp::Flags::SYN) { options.counters_on_syn(flags) } else { options.accecn };
    Header { options: tcp::Options { accecn, ..options }, ..header }
}

const V4: [Addr; 2] = [Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2])];
const V6: [Addr; 2] = [
    Addr::v6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
    Addr::v6([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]),
];

/// ICMP of both families with the checksum repaired, and the packets they quote.
pub fn any_icmp(data: &[u8]) {
    let _ = icmp::parse_quote(data);
    for [src, dst] in [V4, V6] {
        let parse = |bytes: &[u8]| {
            let read = if src.is_v4() { icmp::parse_v4(bytes) } else { icmp::parse_v6(src, dst, bytes) };
            read.map(|message| {
                let mut out = vec![0; message.len()];
                message.emit(src, dst, &mut out);
                (alloc::format!("{message:?}"), out)
            })
        };
        let mut message = data.to_vec();
        repair_icmp(src, dst, &mut message);
        if let Ok((said, out)) = parse(&message) {
            assert_eq!(parse(&out).map(|(again, _)| again), Ok(said));
        }
    }
}

fn repair_icmp(src: Addr, dst: Addr, message: &mut [u8]) {
    if message.len() < 4 {
        return;
    }
    message[2..4].fill(0);
    let pseudo =
        if src.is_v4() { Sum::ZERO } else { pseudo(src, dst, protocol::ICMPV6, message.len() as u32) };
    let checksum = pseudo.plus(Sum::of(message)).checksum();
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
}

/// Neighbour Discovery with the checksum repaired.
pub fn any_nd(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let [src, dst] = if first & 1 == 0 { V6 } else { [Addr::UNSPECIFIED_V6, nd::solicited_node(V6[0])] };
    let mut message = rest.to_vec();
    repair_icmp(src, dst, &mut message);
    if let Ok(read) = nd::parse(src, dst, nd::HOP_LIMIT, &message) {
        let mut out = vec![0; read.len()];
        read.emit(src, dst, &mut out);
        assert_eq!(nd::parse(src, dst, nd::HOP_LIMIT, &out), Ok(read));
    }
}

/// The virtio-net header.
pub fn any_virtio(data: &[u8]) {
    let frame_len = data.len().saturating_sub(virtio::LEN);
    let Ok(header) = virtio::parse(data, frame_len) else { return };
    for len in [virtio::LEN, virtio::LEN_MERGED] {
        let mut out = [0xff; virtio::LEN_MERGED];
        header.emit(&mut out, len);
        assert_eq!(virtio::parse(&out, frame_len), Ok(header));
    }
}

/// A capture file.
pub fn any_capture(data: &[u8]) {
    let Ok(format) = classic::parse_header(data) else { return };
    let mut rest = data.get(classic::HEADER_LEN..).unwrap_or_default();
    while let Ok(Some((record, len))) = format.record(rest) {
        let mut out = Vec::new();
        classic::write_header(&mut out, format.link);
        classic::write_record(&mut out, &record);
        let again = classic::parse_header(&out).and_then(|f| {
            let read = f.record(&out[classic::HEADER_LEN..])?;
            Ok(read.map(|(again, _)| again.data == record.data && again.original_len == record.original_len))
        });
        assert_eq!(again, Ok(Some(true)));
        rest = &rest[len..];
    }
}

/// All ways to sum agree, at a split the bytes choose.
pub fn any_checksum(data: &[u8]) {
    let at = data.first().map_or(0, |first| usize::from(*first) % data.len());
    let (a, b) = data.split_at(at);
    let glued = Sum::of(a).plus_at(a.len(), Sum::of(b));
    let residue = |sum: Sum| sum.fold() % 0xffff;
    assert_eq!(residue(Sum::of(data)), residue(glued));
}

/// The bytes as the payload of a TCP packet of ours, and as everything above IP, both families.
pub fn any_upper(data: &[u8]) {
    let data = &data[..data.len().min(60_000)];
    for [src, dst] in [V4, V6] {
        let link = Some(Link { dst: [2; 6], src: [4; 6] });
        let below = Below { link, src, dst, tos: 3, ttl: 64, label: 0x1234 };
        whole_segment(&below, data);
        for upper in [protocol::TCP, protocol::ICMP, protocol::ICMPV6, 0, 43, 60] {
            let mut frame = vec![0; below.len() + data.len()];
            let at = below.emit(upper, data.len(), &mut frame);
            frame[at..].copy_from_slice(data);
            any_line(&frame);
            if let Ok(read) = packet::parse_frame(&frame, frame.len()) {
                check_frame(&read, &frame, frame.len());
            }
        }
    }
}

/// A packet of ours reads as what was written and its checksum is right, however it was made.
fn whole_segment(below: &Below, payload: &[u8]) {
    let header = match tcp::parse(payload) {
        Ok((src, dst, segment)) => header_of(src, dst, &segment),
        Err(_) => Header {
            src_port: 80,
            dst_port: 40_000,
            seq: base::Seq::new(1),
            ack: base::Seq::new(2),
            flags: tcp::Flags::ACK,
            window: 100,
            options: tcp::Options::default(),
        },
    };
    let at = below.len() + header.len();
    let mut frame = vec![0; at + payload.len()];
    frame[at..].copy_from_slice(payload);
    let len = below.emit_tcp(&header, payload.len(), Checksum::Full, &mut frame);
    assert_eq!(len, frame.len());
    let read = packet::parse_frame(&frame, len);
    let Ok(packet::Frame { content: packet::Content::Ip(read), .. }) = read else { panic!("{read:?}") };
    assert_eq!(read.checksum(&frame), packet::Checked::Good);
    let parsed = read.tcp(&frame);
    let Ok((src, dst, segment)) = parsed else { panic!("{parsed:?}") };
    assert_eq!((header_of(src, dst, &segment), segment.payload), (header, payload));
    assert_eq!(segment.ecn, crate::Ecn::Marked);
    below.emit_tcp(&header, payload.len(), Checksum::Offloaded, &mut frame);
    if let Ok(packet::Frame { content: packet::Content::Ip(read), .. }) =
        packet::parse_frame(&frame, frame.len())
    {
        assert_ne!(read.checksum(&frame), packet::Checked::Bad);
    }
}
