//! Goal: what the wire crate writes is read back, what others write too, and damage is an error.
use super::*;
use base::Rng;
use wire::pcap::ng;

type Plain = (Option<Instant>, LinkType, usize, Vec<u8>);

/// Hands out a few bytes at a time, as a pipe does.
struct Trickle<'a>(&'a [u8], usize);

impl Read for Trickle<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (now, later) = self.0.split_at(self.0.len().min(self.1).min(into.len()));
        into[..now.len()].copy_from_slice(now);
        self.0 = later;
        Ok(now.len())
    }
}

fn all(file: &[u8], step: usize) -> io::Result<Vec<Plain>> {
    let mut reader = Reader::new(Trickle(file, step))?;
    let mut found = Vec::new();
    while let Some(p) = reader.packet()? {
        found.push((p.at, p.link, p.original_len, p.data.to_vec()));
    }
    Ok(found)
}

fn sample() -> (Vec<u8>, Vec<u8>, Vec<Plain>) {
    let (mut old, mut new) = (Vec::new(), Vec::new());
    classic::write_header(&mut old, LinkType::Ethernet);
    ng::write_section(&mut new, "test");
    ng::write_interface(&mut new, LinkType::Ethernet, "a");
    let mut expected = Vec::new();
    for n in 0..50_u64 {
        let (at, data) = (Instant::from_nanos(n * 1_000_000_007), vec![n as u8; (n * n) as usize]);
        let original_len = data.len() as u32 + n as u32 % 2;
        classic::write_record(&mut old, &classic::Record { at, original_len, data: &data });
        let comment = if n % 3 == 0 { "said" } else { "" };
        let packet = ng::Packet { interface: 0, at, original_len, data: &data, direction: None, comment };
        ng::write_packet(&mut new, &packet);
        expected.push((Some(at), LinkType::Ethernet, original_len as usize, data));
    }
    (old, new, expected)
}

#[test]
fn both_formats_in_pieces_of_any_size() {
    let (old, new, expected) = sample();
    for step in [1, 7, 4096, usize::MAX] {
        assert_eq!(all(&old, step).unwrap(), expected);
        assert_eq!(all(&new, step).unwrap(), expected);
    }
}

#[test]
fn others_write_otherwise() {
    // Big-endian, two interfaces (the second in 2^-10 s), a block of unknown kind, a simple packet.
    let block = |kind: u32, body: &[u8]| {
        let len = (12 + body.len() as u32).to_be_bytes();
        [&kind.to_be_bytes()[..], &len, body, &len].concat()
    };
    let mut file = block(SECTION, &[&BYTE_ORDER.to_be_bytes()[..], &[0, 1, 0, 0], &[0xff; 8]].concat());
    file.extend(block(INTERFACE, &[0, 1, 0, 0, 0, 0, 0, 4]));
    file.extend(block(INTERFACE, &[0, 101, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0x8a, 0, 0, 0, 0, 0, 0, 0]));
    file.extend(block(0x0bad, &[1, 2, 3, 4]));
    file.extend(block(SIMPLE_PACKET, &[0, 0, 0, 9, 1, 2, 3, 4]));
    file.extend(block(PACKET, &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 2, 0, 0, 0, 2, 7, 8, 0, 0]));
    let expected = [
        (None, LinkType::Ethernet, 9, vec![1, 2, 3, 4]),
        (Some(Instant::from_secs(2)), LinkType::Raw, 2, vec![7, 8]),
    ];
    assert_eq!(all(&file, 5).unwrap(), expected);
    // A second section forgets the first one's interfaces.
    file.extend(block(SECTION, &[&BYTE_ORDER.to_be_bytes()[..], &[0, 1, 0, 0], &[0xff; 8]].concat()));
    file.extend(block(SIMPLE_PACKET, &[0, 0, 0, 4, 1, 2, 3, 4]));
    assert!(all(&file, 5).is_err());
}

#[test]
fn damage_ends_in_order() {
    let (old, new, expected) = sample();
    for file in [&old, &new] {
        for cut in (0..file.len()).step_by(97) {
            match all(&file[..cut], usize::MAX) {
                Ok(found) => assert_eq!(found[..], expected[..found.len()]),
                Err(error) => assert!(error.kind() == io::ErrorKind::InvalidData && cut < 24, "{cut}"),
            }
        }
    }
    let mut rng = Rng::new(8);
    for round in 0..3000 {
        let mut bytes = if round % 2 == 0 { old.clone() } else { new.clone() };
        bytes.truncate(400 + rng.below(4000) as usize);
        for _ in 0..1 + rng.below(8) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u32() as u8;
        }
        fuzz(&bytes);
    }
    assert!(Reader::new(&b""[..]).is_err() && Reader::new(&b"no capture at all, just a text"[..]).is_err());
}
