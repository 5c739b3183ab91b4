//! A segment as it is received.

use super::{Flags, Options};
use crate::{Ecn, ParseError};
use base::Seq;

/// A TCP segment as the connection sees it: header values, options, and its payload still in the frame.
/// The checksum has been dealt with before one of these exists.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Sequence number of the first byte (of SYN, if that is set).
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
    /// How many segments of the wire this one stands for: 1 unless offload merged several, and 0 where it goes on with
    /// a segment that came in pieces.
    pub merged: u16,
    /// The codepoint of the IP header.
    pub ecn: Ecn,
    /// The data, or the first piece of it.
    pub payload: &'a [u8],
    /// The other pieces of the data, if it lies in several.
    pub rest: Option<&'a dyn Pieces>,
}

/// Data in several pieces.
pub trait Pieces {
    /// Bytes of all of them.
    fn len(&self) -> u32;
    /// Calls `each` with the pieces in order until it returns false.
    fn for_each(&self, each: &mut dyn FnMut(&[u8]) -> bool);
    /// Is there none?
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl core::fmt::Debug for dyn Pieces + '_ {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

impl Segment<'_> {
    /// Bytes of data.
    #[inline]
    pub fn len(&self) -> u32 {
        self.payload.len() as u32 + self.rest.map_or(0, Pieces::len)
    }

    /// Does it carry no data?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `each` with the pieces of its data in order until it returns false.
    pub fn for_each_piece(&self, each: &mut dyn FnMut(&[u8]) -> bool) {
        if each(self.payload)
            && let Some(rest) = self.rest
        {
            rest.for_each(each);
        }
    }

    /// SEG.LEN: bytes of sequence space, SYN and FIN included.
    pub fn seq_len(&self) -> u32 {
        self.len() + u32::from(self.flags.has(Flags::SYN)) + u32::from(self.flags.has(Flags::FIN))
    }
}

/// The bytes of a segment, told apart. What reads very many of them builds the [`Segment`] where it is to live: it is
/// too large to be handed from function to function for each.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    fixed: &'a [u8; 20],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Raw<'a> {
    /// Header, options and data of a segment.
    ///
    /// # Errors
    /// [`ParseError::TcpTruncated`] and [`ParseError::TcpDataOffset`].
    #[inline(always)]
    pub fn of(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (fixed, rest) = bytes.split_first_chunk::<20>().ok_or(ParseError::TcpTruncated)?;
        let offset = usize::from(fixed[12] >> 4) * 4;
        let options = offset.checked_sub(20).ok_or(ParseError::TcpDataOffset)?;
        let (options, payload) = rest.split_at_checked(options).ok_or(ParseError::TcpDataOffset)?;
        Ok(Raw { fixed, options, payload })
    }

    fn half(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.fixed[at], self.fixed[at + 1]])
    }

    fn word(&self, at: usize) -> u32 {
        u32::from(self.half(at)) << 16 | u32::from(self.half(at + 2))
    }

    /// Everything but the options.
    #[inline(always)]
    pub fn segment(&self) -> Segment<'a> {
        Segment {
            seq: Seq::new(self.word(4)),
            ack: Seq::new(self.word(8)),
            flags: Flags(self.half(12) & Flags::ALL.0),
            window: self.half(14),
            urgent: self.half(18),
            options: Options::NONE,
            merged: 1,
            ecn: Ecn::NotCapable,
            payload: self.payload,
            rest: None,
        }
    }

    /// Puts the options into `segment`, made of this.
    #[inline(always)]
    pub fn read_options(&self, segment: &mut Segment<'_>) {
        if !self.options.is_empty() {
            segment.options.parse(self.options, segment.flags);
        }
    }
}

/// Reads a TCP header: source port, destination port, and the segment. The checksum is not looked at.
///
/// # Errors
/// [`ParseError::TcpTruncated`] and [`ParseError::TcpDataOffset`]; bad options are no error ([`Options`]).
#[inline]
pub fn parse(bytes: &[u8]) -> Result<(u16, u16, Segment<'_>), ParseError> {
    let raw = Raw::of(bytes)?;
    let mut segment = raw.segment();
    raw.read_options(&mut segment);
    Ok((raw.half(0), raw.half(2), segment))
}
