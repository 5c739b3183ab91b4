//! Captures as they are read: the classic format and pcapng (draft-ietf-opsawg-pcapng), from a stream of
//! bytes.

use base::Instant;
use std::io::{self, Read};
use wire::pcap::{LinkType, SNAPLEN, classic};

/// Most bytes of a block that is read: a packet and generous options.
const BLOCK_MAX: usize = SNAPLEN as usize + (64 << 10);
/// Bytes asked of the file at once.
const CHUNK: usize = 64 << 10;
/// Most interfaces of a section that are remembered.
const INTERFACES_MAX: usize = 256;

/// A captured packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Captured<'a> {
    /// When, if the file says.
    pub(super) at: Option<Instant>,
    /// Link type of the frames.
    pub(super) link: LinkType,
    /// Bytes it had on the wire.
    pub(super) original_len: usize,
    /// Those that were kept.
    pub(super) data: &'a [u8],
}

/// Reads packets from a stream.
pub(super) struct Reader<R> {
    from: R,
    buffer: Vec<u8>,
    /// How far `buffer` was used.
    at: usize,
    format: Format,
}

enum Format {
    Classic(classic::Format),
    Next(Section),
}

/// Parameters of a pcapng section.
#[derive(Default)]
struct Section {
    big_endian: bool,
    interfaces: Vec<Interface>,
}

#[derive(Clone, Copy)]
struct Interface {
    link: LinkType,
    /// Units of time per second.
    resolution: u64,
    snaplen: usize,
}

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const SIMPLE_PACKET: u32 = 3;
const PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the capture is damaged")
}

impl<R: Read> Reader<R> {
    /// Begins to read. An error of kind `InvalidData` if this is no capture.
    pub(super) fn new(from: R) -> io::Result<Reader<R>> {
        let mut reader = Reader { from, buffer: Vec::new(), at: 0, format: Format::Next(Section::default()) };
        if !reader.fill(4)? {
            return Err(damaged());
        }
        if reader.rest()[..4] != SECTION.to_ne_bytes() {
            if !reader.fill(classic::HEADER_LEN)? {
                return Err(damaged());
            }
            reader.format = Format::Classic(classic::parse_header(reader.rest()).map_err(|_| damaged())?);
            reader.at = classic::HEADER_LEN;
        }
        Ok(reader)
    }

    fn rest(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    /// Have `len` bytes at hand; false if the file ends before.
    fn fill(&mut self, len: usize) -> io::Result<bool> {
        if self.rest().len() < len {
            self.buffer.drain(..self.at);
            self.at = 0;
        }
        while self.buffer.len() - self.at < len {
            let old = self.buffer.len();
            self.buffer.resize(old + CHUNK, 0);
            let got = match self.from.read(&mut self.buffer[old..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                Err(error) => return Err(error),
                Ok(0) => {
                    self.buffer.truncate(old);
                    return Ok(false);
                }
                Ok(got) => got,
            };
            self.buffer.truncate(old + got);
        }
        Ok(true)
    }

    /// The next packet; `None` at the end of the file, also if that comes in the middle of a packet.
    pub(super) fn packet(&mut self) -> io::Result<Option<Captured<'_>>> {
        match self.format {
            Format::Classic(format) => self.classic(format),
            Format::Next(_) => self.next(),
        }
    }

    fn classic(&mut self, format: classic::Format) -> io::Result<Option<Captured<'_>>> {
        let len = loop {
            match format.record(self.rest()).map_err(|_| damaged())? {
                Some((_, len)) => break len,
                None => {
                    let more = self.rest().len() + 1;
                    if !self.fill(more)? {
                        return Ok(None);
                    }
                }
            }
        };
        let start = self.at;
        self.at += len;
        let record = format.record(&self.buffer[start..]).map_err(|_| damaged())?;
        Ok(record.map(|(record, _)| Captured {
            at: Some(record.at),
            link: format.link,
            original_len: record.original_len as usize,
            data: record.data,
        }))
    }

    fn next(&mut self) -> io::Result<Option<Captured<'_>>> {
        loop {
            // Kind, length; and for a section its byte order, which decides how to read the length.
            if !self.fill(12)? {
                return Ok(None);
            }
            let Format::Next(section) = &mut self.format else { return Ok(None) };
            let head = &self.buffer[self.at..];
            if head[..4] == SECTION.to_ne_bytes() {
                let big_endian = match head[8..12].first_chunk().map(|b| u32::from_le_bytes(*b)) {
                    Some(BYTE_ORDER) => false,
                    Some(order) if order == BYTE_ORDER.swap_bytes() => true,
                    _ => return Err(damaged()),
                };
                *section = Section { big_endian, interfaces: Vec::new() };
            }
            let word = |at| section.word(head, at).ok_or_else(damaged);
            let (kind, len) = (word(0)?, word(4)? as usize);
            if !(12..=BLOCK_MAX).contains(&len) || !len.is_multiple_of(4) {
                return Err(damaged());
            }
            if !self.fill(len)? {
                return Ok(None);
            }
            let start = self.at;
            self.at += len;
            let Format::Next(section) = &mut self.format else { return Ok(None) };
            let body = start + 8..start + len - 4;
            match kind {
                INTERFACE if section.interfaces.len() < INTERFACES_MAX => {
                    let interface = section.interface(&self.buffer[body]).ok_or_else(damaged)?;
                    section.interfaces.push(interface);
                }
                PACKET | SIMPLE_PACKET => {
                    let Format::Next(section) = &self.format else { return Ok(None) };
                    return section.packet(kind, &self.buffer[body]).map(Some).ok_or_else(damaged);
                }
                _ => {}
            }
        }
    }
}

impl Section {
    fn word(&self, bytes: &[u8], at: usize) -> Option<u32> {
        let word = *bytes.get(at..)?.first_chunk()?;
        Some(if self.big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
    }

    fn half(&self, bytes: &[u8], at: usize) -> Option<u16> {
        let half = *bytes.get(at..)?.first_chunk()?;
        Some(if self.big_endian { u16::from_be_bytes(half) } else { u16::from_le_bytes(half) })
    }

    /// An interface description: link type, reserved, snap length, options.
    fn interface(&self, body: &[u8]) -> Option<Interface> {
        const RESOLUTION: u16 = 9;
        let link = LinkType::from_number(self.half(body, 0)?);
        let snaplen = match self.word(body, 4)? as usize {
            0 => usize::MAX,
            snaplen => snaplen,
        };
        let (mut resolution, mut at) = (1_000_000, 8);
        while let (Some(code), Some(len)) = (self.half(body, at), self.half(body, at + 2)) {
            if code == 0 {
                break;
            }
            if code == RESOLUTION {
                let exponent = *body.get(at + 4)?;
                // The high bit chooses powers of two; finer than 2^64 or 10^19 does not count in any clock.
                resolution = match exponent & 0x80 {
                    0 => 10_u64.checked_pow(exponent.into())?,
                    _ => 1_u64.checked_shl(u32::from(exponent & 0x7f))?,
                };
            }
            at += 4 + usize::from(len).next_multiple_of(4);
        }
        Some(Interface { link, resolution, snaplen })
    }

    fn packet<'a>(&self, kind: u32, body: &'a [u8]) -> Option<Captured<'a>> {
        if kind == SIMPLE_PACKET {
            let interface = self.interfaces.first()?;
            let original_len = self.word(body, 0)? as usize;
            let data = body.get(4..)?.get(..original_len.min(interface.snaplen))?;
            return Some(Captured { at: None, link: interface.link, original_len, data });
        }
        let interface = self.interfaces.get(self.word(body, 0)? as usize)?;
        let units = u64::from(self.word(body, 4)?) << 32 | u64::from(self.word(body, 8)?);
        let nanos = u128::from(units) * 1_000_000_000 / u128::from(interface.resolution);
        let (kept, original_len) = (self.word(body, 12)? as usize, self.word(body, 16)? as usize);
        let data = body.get(20..)?.get(..kept)?;
        let at = Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        Some(Captured { at: Some(at), link: interface.link, original_len, data })
    }
}

/// Any bytes as a capture: an end or an error comes, no panic, and no packet is longer than the file.
pub(crate) fn fuzz(file: &[u8]) {
    let Ok(mut reader) = Reader::new(file) else { return };
    let mut total = 0;
    while let Ok(Some(packet)) = reader.packet() {
        total += packet.data.len();
        assert!(total <= file.len());
    }
}

#[cfg(test)]
mod tests {
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
        assert!(
            Reader::new(&b""[..]).is_err() && Reader::new(&b"no capture at all, just a text"[..]).is_err()
        );
    }
}
