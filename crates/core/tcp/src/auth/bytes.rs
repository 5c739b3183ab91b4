//! The bytes that a signature covers.

use base::Addr;
use wire::protocol::TCP;
use wire::tcp::{CHECKSUM_OFFSET, Signed};

const FIXED: usize = 20;
const HEADER_MAX: usize = 60;
const SEQ: usize = 4;

/// A segment's header in two copies: as it is, with zeros for checksum and MAC; and what is cut out of it.
pub(super) struct Covered<'a> {
    pseudo: [u8; 40],
    pseudo_len: usize,
    header: [u8; HEADER_MAX],
    header_len: usize,
    option: core::ops::Range<usize>,
    payload: &'a [u8],
}

impl<'a> Covered<'a> {
    /// Of a segment from `src` to `dst` that is signed where `signed` says. `None` if the header is no header.
    pub(super) fn new(src: Addr, dst: Addr, tcp: &'a [u8], signed: &Signed) -> Option<Covered<'a>> {
        let header_len = usize::from(tcp.get(12)? >> 4) * 4;
        if header_len < FIXED || signed.option.start < FIXED || signed.option.end > header_len {
            return None;
        }
        let (head, payload) = tcp.split_at_checked(header_len)?;
        let mut header = [0; HEADER_MAX];
        header[..header_len].copy_from_slice(head);
        header[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].fill(0);
        header[signed.mac.clone()].fill(0);
        let (pseudo, pseudo_len) = pseudo(src, dst, tcp.len() as u32);
        Some(Covered { pseudo, pseudo_len, header, header_len, option: signed.option.clone(), payload })
    }

    /// RFC 2385, section 2.0: the pseudo header, the header without options and with a checksum of zero, the data. The
    /// key follows, which is the algorithm's affair.
    /// RFC 2385, 2.0-1.
    pub(super) fn md5(&self) -> [&[u8]; 3] {
        [&self.pseudo[..self.pseudo_len], &self.header[..FIXED], self.payload]
    }

    /// RFC 5925, section 5.1: the extension of the sequence number, the pseudo header, the header with all its options
    /// or only with the signing one, the data.
    /// RFC 5925, 5.1-1 and 5.1-2.
    pub(super) fn ao<'s>(&'s self, extension: &'s [u8; 4], covers_options: bool) -> [&'s [u8]; 5] {
        let pseudo = &self.pseudo[..self.pseudo_len];
        let (head, option): (_, &[u8]) = match covers_options {
            true => (&self.header[..self.header_len], &[]),
            false => (&self.header[..FIXED], &self.header[self.option.clone()]),
        };
        [extension, pseudo, head, option, self.payload]
    }

    /// SEG.SEQ.
    pub(super) fn seq(&self) -> base::Seq {
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| self.header[SEQ + i]);
        base::Seq::new(u32::from_be_bytes([a, b, c, d]))
    }

    /// The control bits.
    pub(super) fn flags(&self) -> wire::tcp::Flags {
        wire::tcp::Flags(u16::from(self.header[12] & 1) << 8 | u16::from(self.header[13]))
    }
}

/// The pseudo header of RFC 9293, section 3.1, or RFC 8200, section 8.1, and its length.
fn pseudo(src: Addr, dst: Addr, tcp_len: u32) -> ([u8; 40], usize) {
    let mut bytes = [0; 40];
    let (addrs, rest) = addresses(src, dst);
    bytes[..rest].copy_from_slice(&addrs[..rest]);
    if src.is_v4() {
        bytes[rest + 1] = TCP;
        bytes[rest + 2..rest + 4].copy_from_slice(&(tcp_len as u16).to_be_bytes());
        (bytes, rest + 4)
    } else {
        bytes[rest..rest + 4].copy_from_slice(&tcp_len.to_be_bytes());
        bytes[rest + 7] = TCP;
        (bytes, rest + 8)
    }
}

/// Both addresses as they stand in headers, and their bytes together.
pub(super) fn addresses(src: Addr, dst: Addr) -> ([u8; 32], usize) {
    let mut bytes = [0; 32];
    let (first, each) = if src.is_v4() { (12, 4) } else { (0, 16) };
    bytes[..each].copy_from_slice(&src.bytes()[first..]);
    bytes[each..2 * each].copy_from_slice(&dst.bytes()[first..]);
    (bytes, 2 * each)
}
