//! A segment as it is received.

use super::{Flags, Options};
use crate::ParseError;
use base::Seq;

/// A TCP segment as the connection sees it: header values, options, and its payload still in the frame.
/// The checksum has been dealt with before one of these exists.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Sequence number of the first octet (of SYN, if that is set).
    pub seq: Seq,
    /// Acknowledgment number; meaningful if `flags` has ACK.
    pub ack: Seq,
    /// Control bits.
    pub flags: Flags,
    /// The window field as sent, unscaled.
    pub window: u16,
    /// The urgent pointer (RFC 6093 lets us ignore it).
    pub urgent: u16,
    /// Decoded options.
    pub options: Options,
    /// How many segments of the wire this one stands for; 1 unless offload merged several.
    pub merged: u16,
    /// The IP header carried the CE codepoint (RFC 3168).
    pub congestion_experienced: bool,
    /// The data.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// A segment of zeros, for [`Segment::read`] to fill.
    #[inline(always)]
    pub fn blank() -> Self {
        Segment {
            seq: Seq::new(0),
            ack: Seq::new(0),
            flags: Flags(0),
            window: 0,
            urgent: 0,
            options: Options::default(),
            merged: 1,
            congestion_experienced: false,
            payload: &[],
        }
    }

    /// [`parse`] in place, because a segment is too large to be moved about for every packet: fills what is still
    /// [`Segment::blank`] and gives the source and the destination port.
    ///
    /// # Errors
    /// Those of [`parse`]; then nothing was filled in.
    #[inline(always)]
    pub fn read(&mut self, bytes: &'a [u8]) -> Result<(u16, u16), ParseError> {
        let fixed: &[u8; 20] = bytes.first_chunk().ok_or(ParseError::TcpTruncated)?;
        let offset = usize::from(fixed[12] >> 4) * 4;
        if offset < 20 || offset > bytes.len() {
            return Err(ParseError::TcpDataOffset);
        }
        let (header, payload) = bytes.split_at(offset);
        let half = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        let word = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        self.seq = Seq::new(word(4));
        self.ack = Seq::new(word(8));
        self.flags = Flags(fixed[13]);
        self.window = half(14);
        self.urgent = half(18);
        self.payload = payload;
        if offset > 20 {
            self.options.parse(&header[20..], self.flags);
        }
        Ok((half(0), half(2)))
    }

    /// SEG.LEN: octets of sequence space, SYN and FIN included.
    pub fn seq_len(&self) -> u32 {
        self.payload.len() as u32
            + u32::from(self.flags.has(Flags::SYN))
            + u32::from(self.flags.has(Flags::FIN))
    }
}

/// Reads a TCP header: source port, destination port, and the segment. The checksum is not looked at.
///
/// # Errors
/// [`ParseError::TcpTruncated`] and [`ParseError::TcpDataOffset`]; bad options are no error ([`Options`]).
#[inline]
pub fn parse(bytes: &[u8]) -> Result<(u16, u16, Segment<'_>), ParseError> {
    let mut segment = Segment::blank();
    let (source, destination) = segment.read(bytes)?;
    Ok((source, destination, segment))
}
