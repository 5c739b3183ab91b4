//! The classic format: a file header of 24 bytes, then records. Written in little-endian with nanoseconds,
//! read in either byte order and either resolution.

use super::{LinkType, SNAPLEN};
use crate::ParseError;
use crate::bytes::array;
use alloc::vec::Vec;
use base::Instant;

/// Bytes of the file header.
pub const HEADER_LEN: usize = 24;
/// Bytes of the header of a record.
pub const RECORD_LEN: usize = 16;

const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOS: u32 = 0xa1b2_3c4d;

/// How a file is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    /// Link type of its packets.
    pub link: LinkType,
    big_endian: bool,
    nanos: bool,
}

/// A captured packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// When, since the epoch of the file.
    pub at: Instant,
    /// Bytes it had on the wire.
    pub original_len: u32,
    /// Those that were kept.
    pub data: &'a [u8],
}

/// Reads the file header, the first [`HEADER_LEN`] bytes.
///
/// # Errors
/// [`ParseError::CaptureMalformed`] if this is no such file.
pub fn parse_header(bytes: &[u8]) -> Result<Format, ParseError> {
    let word = |at| array(bytes, at).ok_or(ParseError::CaptureMalformed);
    let (big_endian, nanos) = match (u32::from_le_bytes(word(0)?), u32::from_be_bytes(word(0)?)) {
        (MAGIC_MICROS, _) => (false, false),
        (MAGIC_NANOS, _) => (false, true),
        (_, MAGIC_MICROS) => (true, false),
        (_, MAGIC_NANOS) => (true, true),
        _ => return Err(ParseError::CaptureMalformed),
    };
    let link = word(20)?;
    let link = if big_endian { u32::from_be_bytes(link) } else { u32::from_le_bytes(link) };
    // The upper half may tell of a frame check sequence.
    Ok(Format { link: LinkType::from_number(link as u16), big_endian, nanos })
}

impl Format {
    /// Reads the record at the front of `bytes`: the packet, and how many bytes it took. `None` when more
    /// bytes are needed.
    ///
    /// # Errors
    /// [`ParseError::CaptureMalformed`] if it claims more than [`SNAPLEN`] bytes.
    pub fn record<'a>(&self, bytes: &'a [u8]) -> Result<Option<(Record<'a>, usize)>, ParseError> {
        let Some((header, rest)) = bytes.split_first_chunk::<RECORD_LEN>() else { return Ok(None) };
        let word = |at: usize| {
            let word = [header[at], header[at + 1], header[at + 2], header[at + 3]];
            if self.big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
        };
        let (kept, original_len) = (word(8), word(12));
        if kept > SNAPLEN {
            return Err(ParseError::CaptureMalformed);
        }
        let Some(data) = rest.get(..kept as usize) else { return Ok(None) };
        let unit = if self.nanos { 1 } else { 1_000 };
        let at = Instant::from_nanos(u64::from(word(0)) * 1_000_000_000 + u64::from(word(4)) * unit);
        Ok(Some((Record { at, original_len, data }, RECORD_LEN + data.len())))
    }
}

/// Appends a file header.
pub fn write_header(into: &mut Vec<u8>, link: LinkType) {
    into.extend(MAGIC_NANOS.to_le_bytes());
    into.extend([2, 0, 4, 0]);
    into.extend([0; 8]);
    into.extend(SNAPLEN.to_le_bytes());
    into.extend(u32::from(link.number()).to_le_bytes());
}

/// Appends a record; no more than [`SNAPLEN`] bytes of it are kept. Seconds count modulo 2^32.
pub fn write_record(into: &mut Vec<u8>, record: &Record<'_>) {
    let data = &record.data[..record.data.len().min(SNAPLEN as usize)];
    let nanos = record.at.as_nanos();
    into.extend(((nanos / 1_000_000_000) as u32).to_le_bytes());
    into.extend(((nanos % 1_000_000_000) as u32).to_le_bytes());
    into.extend((data.len() as u32).to_le_bytes());
    into.extend(record.original_len.to_le_bytes());
    into.extend(data);
}
