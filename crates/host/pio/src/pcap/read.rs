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
mod tests;
