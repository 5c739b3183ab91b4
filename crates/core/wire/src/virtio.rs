//! The virtio-net header (Virtual I/O Device specification 1.2, section 5.1.6), as tap devices and packet
//! sockets put it before each frame: checksum and segmentation offload both ways. Fields are in the machine's
//! byte order, which is what the kernel uses unless told otherwise.

use crate::ParseError;
use crate::bytes::put;

/// Bytes of the legacy header.
pub const LEN: usize = 10;
/// Bytes with the count of merged buffers behind.
pub const LEN_MERGED: usize = 12;

const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// State of the checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Checksum {
    /// Nothing.
    #[default]
    None,
    /// The sum from `start` to the end belongs at `start + offset`, where the pseudo-header sum stands.
    Needed {
        /// First byte summed, from the start of the frame.
        start: u16,
        /// Where the sum goes, from `start`.
        offset: u16,
    },
    /// It has been verified.
    Valid,
}

/// Segmentation of a packet that stands for several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// TCP segments over IPv4.
    Tcp4,
    /// TCP segments over IPv6.
    Tcp6,
    /// UDP datagrams. Nothing that we offer, but packet sockets see those of others.
    Udp,
}

/// A packet that stands for several segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segmentation {
    /// Kind of segmentation.
    pub cut: Cut,
    /// CWR is set on the first segment only (RFC 3168).
    pub ecn: bool,
    /// Payload bytes per segment, never 0.
    pub size: u16,
    /// Bytes of all headers together; a hint.
    pub header_len: u16,
}

/// The header, as plain values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// State of the checksum.
    pub checksum: Checksum,
    /// Segmentation, if any.
    pub segmentation: Option<Segmentation>,
}

/// Reads the header before a frame of `frame_len` bytes. `bytes` may be longer than the header.
///
/// # Errors
/// [`ParseError::VirtioMalformed`] if it is short, wants a sum outside the frame, or a segmentation of another
/// kind (fragments of UDP) or that makes no sense (size 0).
pub fn parse(bytes: &[u8], frame_len: usize) -> Result<Header, ParseError> {
    let b: &[u8; LEN] = bytes.first_chunk().ok_or(ParseError::VirtioMalformed)?;
    let half = |at: usize| u16::from_ne_bytes([b[at], b[at + 1]]);
    let checksum = if b[0] & NEEDS_CSUM != 0 {
        let (start, offset) = (half(6), half(8));
        if usize::from(start) + usize::from(offset) + 2 > frame_len {
            return Err(ParseError::VirtioMalformed);
        }
        Checksum::Needed { start, offset }
    } else if b[0] & DATA_VALID != 0 {
        Checksum::Valid
    } else {
        Checksum::None
    };
    let cut = match b[1] & !GSO_ECN {
        0 => return Ok(Header { checksum, segmentation: None }),
        GSO_TCPV4 => Cut::Tcp4,
        GSO_TCPV6 => Cut::Tcp6,
        GSO_UDP => Cut::Udp,
        _ => return Err(ParseError::VirtioMalformed),
    };
    let size = half(4);
    if size == 0 {
        return Err(ParseError::VirtioMalformed);
    }
    let ecn = b[1] & GSO_ECN != 0;
    Ok(Header { checksum, segmentation: Some(Segmentation { cut, ecn, size, header_len: half(2) }) })
}

impl Header {
    /// Writes `len` bytes at the front of `into`: the header, and for [`LEN_MERGED`] the count of buffers
    /// (one) behind it.
    ///
    /// # Panics
    /// If `into` is shorter than `len`, or `len` is neither [`LEN`] nor [`LEN_MERGED`].
    pub fn emit(&self, into: &mut [u8], len: usize) -> usize {
        assert!(len == LEN || len == LEN_MERGED);
        let into = &mut into[..len];
        into.fill(0);
        match self.checksum {
            Checksum::None => {}
            Checksum::Valid => into[0] = DATA_VALID,
            Checksum::Needed { start, offset } => {
                into[0] = NEEDS_CSUM;
                put(into, 6, start.to_ne_bytes());
                put(into, 8, offset.to_ne_bytes());
            }
        }
        if let Some(gso) = self.segmentation {
            let kind = match gso.cut {
                Cut::Tcp4 => GSO_TCPV4,
                Cut::Tcp6 => GSO_TCPV6,
                Cut::Udp => GSO_UDP,
            };
            into[1] = kind | if gso.ecn { GSO_ECN } else { 0 };
            put(into, 2, gso.header_len.to_ne_bytes());
            put(into, 4, gso.size.to_ne_bytes());
        }
        if len == LEN_MERGED {
            put(into, LEN, 1u16.to_ne_bytes());
        }
        len
    }
}
