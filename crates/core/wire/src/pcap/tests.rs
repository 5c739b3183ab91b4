//! Goal: the classic format comes back as it was written and as others write it; pcapng blocks have the shape
//! the draft gives, down to the byte.
use super::*;
use crate::ParseError;
use alloc::vec;
use alloc::vec::Vec;
use base::Instant;
use classic::Record;

#[test]
fn classic_round_trip_in_pieces() {
    let mut file = Vec::new();
    classic::write_header(&mut file, LinkType::Raw);
    let records = [
        Record { at: Instant::from_nanos(1_234_567_890_987), original_len: 3, data: &[1, 2, 3] },
        Record {
            at: Instant::from_nanos(u64::from(u32::MAX) * 1_000_000_000),
            original_len: 9_000,
            data: &[7; 60],
        },
        Record { at: Instant::ZERO, original_len: 0, data: &[] },
    ];
    for record in &records {
        classic::write_record(&mut file, record);
    }
    let format = classic::parse_header(&file).unwrap();
    assert_eq!(format.link, LinkType::Raw);
    let mut at = classic::HEADER_LEN;
    for record in &records {
        for short in at..at + classic::RECORD_LEN + record.data.len() {
            assert_eq!(format.record(&file[at..short]), Ok(None));
        }
        let (read, len) = format.record(&file[at..]).unwrap().unwrap();
        assert_eq!(&read, record);
        at += len;
    }
    assert_eq!(at, file.len());
}

#[test]
fn classic_big_endian_microseconds() {
    let mut file = vec![0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4];
    file.extend([0; 8]);
    file.extend([0, 0, 0xff, 0xff, 0, 0, 0, 1]);
    file.extend([0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 64, 0xab]);
    let format = classic::parse_header(&file).unwrap();
    assert_eq!(format.link, LinkType::Ethernet);
    let (record, len) = format.record(&file[24..]).unwrap().unwrap();
    assert_eq!(len, 17);
    assert_eq!(record, Record { at: Instant::from_nanos(2_000_005_000), original_len: 64, data: &[0xab] });
}

#[test]
fn classic_damage_is_named() {
    assert_eq!(classic::parse_header(&[0; 24]), Err(ParseError::CaptureMalformed));
    let mut file = Vec::new();
    classic::write_header(&mut file, LinkType::Ethernet);
    assert_eq!(classic::parse_header(&file[..23]), Err(ParseError::CaptureMalformed));
    let format = classic::parse_header(&file).unwrap();
    let mut record = [0; 16];
    record[8..12].copy_from_slice(&(SNAPLEN + 1).to_le_bytes());
    assert_eq!(format.record(&record), Err(ParseError::CaptureMalformed));
}

/// Splits a file into `(kind, body)` and checks both lengths of each block.
fn blocks(mut file: &[u8]) -> Vec<(u32, &[u8])> {
    let word = |bytes: &[u8]| u32::from_le_bytes(*bytes.first_chunk().unwrap());
    let mut found = Vec::new();
    while !file.is_empty() {
        let len = word(&file[4..]) as usize;
        assert_eq!(len % 4, 0);
        assert_eq!(word(&file[len - 4..]) as usize, len);
        found.push((word(file), &file[8..len - 4]));
        file = &file[len..];
    }
    found
}

#[test]
fn ng_blocks() {
    let mut file = Vec::new();
    ng::write_section(&mut file, "ms");
    ng::write_interface(&mut file, LinkType::Ethernet, "sim0");
    let at = Instant::from_nanos(0x1_2345_6789_abcd);
    let packet =
        ng::Packet { interface: 0, at, original_len: 1_500, data: &[9; 5], direction: None, comment: "" };
    ng::write_packet(&mut file, &packet);
    let direction = Some(ng::Direction::Outbound);
    ng::write_packet(&mut file, &ng::Packet { direction, comment: "hello", ..packet });
    ng::write_statistics(&mut file, 0, at, 7, 5);
    let blocks = blocks(&file);
    assert_eq!(blocks.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [0x0a0d_0d0a, 1, 6, 6, 5]);
    assert_eq!(blocks[0].1[..8], [0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0]);
    assert_eq!(blocks[1].1[..4], [1, 0, 0, 0]);
    assert_eq!(blocks[1].1[8..], *b"\x02\x00\x04\x00sim0\x09\x00\x01\x00\x09\0\0\0\0\0\0\0");
    let body = blocks[2].1;
    assert_eq!(body[4..12], [0x45, 0x23, 1, 0, 0xcd, 0xab, 0x89, 0x67]);
    assert_eq!(body[12..20], [5, 0, 0, 0, 0xdc, 5, 0, 0]);
    assert_eq!(body[20..], [9, 9, 9, 9, 9, 0, 0, 0]);
    assert_eq!(blocks[3].1[28..], *b"\x02\0\x04\0\x02\0\0\0\x01\0\x05\0hello\0\0\0\0\0\0\0");
    assert_eq!(blocks[4].1[..12], *b"\0\0\0\0\x45\x23\x01\0\xcd\xab\x89\x67");
    assert_eq!(blocks[4].1[12..], *b"\x04\0\x08\0\x07\0\0\0\0\0\0\0\x05\0\x08\0\x05\0\0\0\0\0\0\0\0\0\0\0");
}
