//! Goal: what leaves the card is whole: every piece parses, its checksum is right, and the pieces add up.
use super::*;
use base::{Addr, Seq};
use pio::SegmentationOffload;
use wire::packet::{Below, Checked, Checksum, Link};
use wire::tcp::{Header, Options, Timestamps};

const V4: [Addr; 2] = [Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2])];
const V6: [Addr; 2] = [Addr::v6([0xfd; 16]), Addr::v6([0xfc; 16])];

pub(crate) fn super_segment([src, dst]: [Addr; 2], payload: &[u8]) -> (Vec<u8>, TxMeta) {
    let below =
        Below { link: Some(Link { dst: [2; 6], src: [4; 6] }), src, dst, tos: 2, ttl: 64, label: 0xfffe };
    let header = Header {
        src_port: 1,
        dst_port: 2,
        seq: Seq::new(u32::MAX - 2_000),
        ack: Seq::new(4),
        flags: Flags::ACK | Flags::PSH | Flags::FIN | Flags::CWR,
        window: 5,
        options: Options { timestamps: Some(Timestamps { val: 6, ecr: 7 }), ..Options::default() },
    };
    let at = below.len() + header.len();
    let mut frame = vec![0; at];
    frame.extend(payload);
    below.emit_tcp(&header, payload.len(), Checksum::Offloaded, &mut frame);
    let start = below.len() as u16;
    let meta = TxMeta {
        checksum: Some(ChecksumOffload { start, offset: tcp::CHECKSUM_OFFSET as u16 }),
        segmentation: Some(SegmentationOffload { size: 1_448, header_len: at as u16, v6: !src.is_v4() }),
    };
    (frame, meta)
}

#[test]
fn pieces_are_whole_and_add_up() {
    for ends in [V4, V6] {
        for len in [1, 1_448, 1_449, 10_001] {
            let payload: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
            let (mut frame, meta) = super_segment(ends, &payload);
            let mut pieces: Vec<Vec<u8>> = Vec::new();
            assert!(transmit(Medium::Ethernet, &mut frame, &meta, |bytes| pieces.push(bytes.to_vec())));
            assert_eq!(pieces.len(), usize::div_ceil(len, 1_448));
            let mut seen: Vec<u8> = Vec::new();
            for (nth, piece) in pieces.iter().enumerate() {
                let Ok(wire::packet::Frame { content: Content::Ip(ip), .. }) =
                    parse_frame(piece, piece.len())
                else {
                    panic!("piece {nth} is no IP packet")
                };
                assert_eq!(ip.checksum(piece), Checked::Good);
                let (_, _, segment) = ip.tcp(piece).unwrap();
                assert_eq!(segment.seq, Seq::new(u32::MAX - 2_000) + seen.len() as u32);
                let last = nth + 1 == pieces.len();
                assert_eq!(segment.flags.has(Flags::FIN | Flags::PSH), last);
                assert_eq!(segment.flags.any(Flags::FIN | Flags::PSH), last);
                assert_eq!(segment.flags.has(Flags::CWR), nth == 0);
                seen.extend(segment.payload);
            }
            assert_eq!(seen, payload);
        }
    }
}

#[test]
fn checksums_are_completed_and_nonsense_is_refused() {
    let (mut frame, meta) = super_segment(V4, &[3; 100]);
    let checksum_only = TxMeta { segmentation: None, ..meta };
    let mut out = Vec::new();
    assert!(transmit(Medium::Ethernet, &mut frame, &checksum_only, |bytes| out = bytes.to_vec()));
    let Ok(wire::packet::Frame { content: Content::Ip(ip), .. }) = parse_frame(&out, out.len()) else {
        panic!()
    };
    assert_eq!(ip.checksum(&out), Checked::Good);
    let refused = |frame: &[u8], meta: TxMeta| {
        !transmit(Medium::Ethernet, &mut frame.to_vec(), &meta, |_| panic!("sent nonsense"))
    };
    assert!(refused(&frame, TxMeta { checksum: None, ..meta }));
    assert!(refused(
        &frame,
        TxMeta { checksum: Some(ChecksumOffload { start: 1_000, offset: 0 }), segmentation: None }
    ));
    assert!(refused(
        &frame,
        TxMeta { checksum: Some(ChecksumOffload { start: 34, offset: 999 }), segmentation: None }
    ));
    frame[13] = 6;
    assert!(refused(&frame, meta));
}
