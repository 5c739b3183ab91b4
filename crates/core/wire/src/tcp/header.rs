//! A header as it is sent.

use super::{Flags, Options};
use crate::bytes::put;
use base::Seq;

/// A TCP header to be emitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: Seq,
    /// Acknowledgment number; emitted as 0 without ACK.
    pub ack: Seq,
    /// Control bits.
    pub flags: Flags,
    /// Window field, already scaled.
    pub window: u16,
    /// Options. MSS, window scale and SACK-permitted go out only with SYN, SACK blocks only without it, and
    /// only as many as fit in 40 bytes.
    pub options: Options,
}

impl Header {
    /// Bytes of the header, options included: 20 to 60.
    pub fn len(&self) -> usize {
        20 + self.options.len(self.flags)
    }

    /// Never: a header has twenty bytes at least.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes the header at the front of `into` with a checksum of 0 and gives its length.
    ///
    /// # Panics
    /// If `into` is shorter than [`Header::len`].
    pub fn emit(&self, into: &mut [u8]) -> usize {
        let len = self.len();
        let into = &mut into[..len];
        let ack = if self.flags.has(Flags::ACK) { self.ack.raw() } else { 0 };
        put(into, 0, self.src_port.to_be_bytes());
        put(into, 2, self.dst_port.to_be_bytes());
        put(into, 4, self.seq.raw().to_be_bytes());
        put(into, 8, ack.to_be_bytes());
        put(into, 12, ((len as u16 / 4) << 12 | self.flags.0).to_be_bytes());
        put(into, 14, self.window.to_be_bytes());
        put(into, 16, [0; 4]);
        self.options.emit(self.flags, &mut into[20..]);
        len
    }
}

/// Where the checksum stands in the header.
pub const CHECKSUM_OFFSET: usize = 16;

/// Puts `checksum` into an emitted header.
///
/// # Panics
/// If `header` is shorter than a TCP header.
pub fn set_checksum(header: &mut [u8], checksum: u16) {
    put(header, CHECKSUM_OFFSET, checksum.to_be_bytes());
}
