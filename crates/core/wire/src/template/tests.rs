//! Goal: what is cut parses, has right checksums and adds up to the whole, in whatever order it is written; what
//! makes no sense is refused.
use super::*;
use crate::packet::{Below, Checked, Checksum, Content, Link, parse_frame, parse_ip};
use crate::tcp::{Header, Options, Timestamps};
use alloc::vec;
use alloc::vec::Vec;
use base::{Addr, Rng, Seq};

const ENDS: [[Addr; 2]; 2] =
    [[Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2])], [Addr::v6([0xfd; 16]), Addr::v6([0xfc; 16])]];

fn whole(rng: &mut Rng, ends: [Addr; 2], link: bool, payload: usize) -> (Vec<u8>, Below, Header) {
    let link = link.then_some(Link { dst: [2; 6], src: [4; 6] });
    let below = Below { link, src: ends[0], dst: ends[1], tos: 2, ttl: 64, label: rng.next_u32() >> 12 };
    let stamps = rng.chance(0.5).then_some(Timestamps { val: 6, ecr: 7 });
    let header = Header {
        src_port: 1,
        dst_port: 2,
        seq: Seq::new(rng.next_u32()),
        ack: Seq::new(4),
        flags: Flags::ACK | Flags(rng.next_u32() as u16 & (Flags::PSH | Flags::FIN | Flags::CWR).0),
        window: 5,
        options: Options { timestamps: stamps, ..Options::default() },
    };
    let mut frame = vec![0; below.len() + header.len() + payload];
    let at = frame.len() - payload;
    rng.fill(&mut frame[at..]);
    below.emit_tcp(&header, payload, Checksum::Offloaded, &mut frame);
    (frame, below, header)
}

/// One segment as a stack writes it that knows nothing of the whole.
fn alone(below: &Below, header: &Header, payload: &[u8], nth: usize, checksum: Checksum) -> Vec<u8> {
    let below =
        Below { label: below.label.wrapping_add(if below.src.is_v4() { nth as u32 } else { 0 }), ..*below };
    let mut frame = vec![0; below.len() + header.len() + payload.len()];
    let at = frame.len() - payload.len();
    frame[at..].copy_from_slice(payload);
    below.emit_tcp(header, payload.len(), checksum, &mut frame);
    frame
}

#[test]
fn cut_is_as_if_each_was_built_alone() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let ends = ENDS[rng.below(2) as usize];
        let (payload, size) = (rng.below(20_000) as usize, 1 + rng.below(3_000) as usize);
        let linked = rng.chance(0.7);
        let (frame, below, header) = whole(&mut rng, ends, linked, payload);
        let headers = below.len() + header.len();
        let ip = if linked { ethernet::HEADER_LEN } else { 0 };
        let template = Template::read(&frame[..headers], ip, below.len(), payload, size).unwrap();
        let mut order: Vec<usize> = (0..template.count()).collect();
        order.rotate_left(rng.below(template.count() as u64) as usize);
        for nth in order {
            let part = &frame[headers..][template.part(nth)];
            let mut flags = header.flags;
            if nth + 1 < template.count() {
                flags = Flags(flags.0 & !(Flags::FIN | Flags::PSH).0);
            }
            if nth > 0 {
                flags = Flags(flags.0 & !Flags::CWR.0);
            }
            let header = Header { seq: header.seq + (nth * size) as u32, flags, ..header };
            for (summing, checksum) in
                [(Summing::Here, Checksum::Full), (Summing::Later, Checksum::Offloaded)]
            {
                let mut packet = vec![0xee; headers + part.len()];
                packet[headers..].copy_from_slice(part);
                template.write(nth, &mut packet, summing);
                let expected = alone(&below, &header, part, nth, checksum);
                assert_eq!(packet, expected, "seed {seed}, segment {nth}, {summing:?}");
            }
        }
    }
}

#[test]
fn what_is_cut_parses_and_adds_up() {
    let mut rng = Rng::new(1);
    for ends in ENDS {
        for linked in [true, false] {
            let (frame, below, header) = whole(&mut rng, ends, linked, 10_001);
            let headers = below.len() + header.len();
            let ip = if linked { ethernet::HEADER_LEN } else { 0 };
            let template = Template::read(&frame[..headers], ip, below.len(), 10_001, 1_447).unwrap();
            let mut seen: Vec<u8> = Vec::new();
            for nth in 0..template.count() {
                let part = &frame[headers..][template.part(nth)];
                let mut packet = vec![0; headers];
                packet.extend(part);
                template.write(nth, &mut packet, Summing::Here);
                let parsed = match linked {
                    true => parse_frame(&packet, packet.len()).map(|frame| frame.content),
                    false => parse_ip(&packet, packet.len()).map(Content::Ip),
                };
                let Ok(Content::Ip(parsed)) = parsed else { panic!("segment {nth} is no packet") };
                assert_eq!(parsed.checksum(&packet), Checked::Good);
                seen.extend(parsed.tcp(&packet).unwrap().2.payload);
            }
            assert_eq!(seen, frame[headers..]);
        }
    }
}

#[test]
fn nonsense_is_refused() {
    let (frame, below, header) = whole(&mut Rng::new(2), ENDS[0], true, 100);
    let headers = below.len() + header.len();
    let read = |len: usize, ip, tcp, size| Template::read(&frame[..len], ip, tcp, 100, size).is_some();
    assert!(read(headers, 14, 34, 10));
    for (len, ip, tcp, size) in [
        (headers, 14, 34, 0),
        (headers - 1, 14, 34, 10),
        (headers + 1, 14, 34, 10),
        (headers, 13, 34, 10),
        (headers, 14, 30, 10),
        (headers, 14, 3_400, 10),
        (headers, 3_400, 34, 10),
    ] {
        assert!(!read(len, ip, tcp, size), "{len} {ip} {tcp} {size}");
    }
    let huge = Template::read(&frame[..headers], 14, 34, 70_000, 70_000);
    assert!(huge.is_none(), "a segment would be longer than a packet");
}
