//! Segments cut from a super-segment: what each has in common with all others is read and summed once, so that a
//! segment costs its payload and the few fields that are its own.
//!
//! ```text
//!   headers of the whole | payload ........................ |
//!        │                 0        1        2        3      = count() pieces of `size` bytes, the last maybe less
//!        └─> headers, with sequence number, lengths, control bits and checksums of the nth ──> in front of the nth
//! ```
//! Segments may be written in any order, each by any caller: [`Template::write`] looks at nothing but its
//! arguments.

use core::ops::Range;

use crate::bytes::{be16, be32, put};
use crate::checksum::Sum;
use crate::tcp::{CHECKSUM_OFFSET, Flags};
use crate::{ethernet, ipv4, ipv6, protocol};

/// Bytes of the longest headers that are cut: Ethernet, IPv6, TCP with all its options.
const HEADERS_MAX: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN + 60;
/// Bits of TCP's header that only the last segment has, and those of the first alone (RFC 3168, section 6.1.2).
const OF_LAST: u16 = Flags::FIN.0 | Flags::PSH.0;
const OF_FIRST: u16 = Flags::CWR.0;

/// Common part of all segments of a super-segment.
#[derive(Clone, Debug)]
pub struct Template {
    headers: [u8; HEADERS_MAX],
    len: usize,
    /// Where IP and TCP start.
    ip: usize,
    tcp: usize,
    payload: usize,
    size: usize,
    /// Sums of what does not change: IPv4's header, the pseudo header, TCP's header.
    ip_sum: Sum,
    pseudo: Sum,
    tcp_sum: Sum,
    v4: bool,
    seq: u32,
    id: u16,
    /// Header length and control bits.
    bits: u16,
}

/// Place where the payload of a segment is summed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Summing {
    /// [`Template::write`]: the checksum is whole.
    Here,
    /// The end that sends it: the field holds the sum of the pseudo header.
    Later,
}

impl Template {
    /// Reads the `headers` of a TCP packet whose IP header starts at `ip`, whose TCP header starts at `tcp` and behind
    /// which `payload` bytes stand, to be cut into segments of `size` bytes; its lengths and checksums do not matter.
    /// `None` if that is no such packet, or one whose headers are too long.
    pub fn read(headers: &[u8], ip: usize, tcp: usize, payload: usize, size: usize) -> Option<Template> {
        let len = headers.len();
        let v4 = match headers.get(ip)? >> 4 {
            4 => true,
            6 => false,
            _ => return None,
        };
        let least = if v4 { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
        let bits = be16(headers, tcp + 12)?;
        let fits = len <= HEADERS_MAX
            && tcp >= ip + least
            && len == tcp + usize::from(bits >> 12) * 4
            && bits >> 12 >= 5
            && size > 0
            && len - ip + size.min(payload) <= usize::from(u16::MAX);
        if !fits {
            return None;
        }
        let mut copy = [0; HEADERS_MAX];
        copy[..len].copy_from_slice(headers);
        let (seq, id) = (be32(headers, tcp + 4)?, if v4 { be16(headers, ip + 4)? } else { 0 });
        // The fields of each segment's own count nothing in the sums of what all have.
        if v4 {
            put(&mut copy, ip + 2, [0; 4]);
            put(&mut copy, ip + 10, [0; 2]);
        } else {
            put(&mut copy, ip + 4, [0; 2]);
        }
        put(&mut copy, tcp + 4, [0; 4]);
        put(&mut copy, tcp + 12, [0; 2]);
        put(&mut copy, tcp + CHECKSUM_OFFSET, [0; 2]);
        let addresses = if v4 { ip + 12..ip + 20 } else { ip + 8..ip + 40 };
        Some(Template {
            ip_sum: if v4 { Sum::of(&copy[ip..tcp]) } else { Sum::ZERO },
            pseudo: Sum::of(&copy[addresses]).plus(Sum::of_u16(protocol::TCP.into())),
            tcp_sum: Sum::of(&copy[tcp..len]),
            headers: copy,
            len,
            ip,
            tcp,
            payload,
            size,
            v4,
            seq,
            id,
            bits,
        })
    }

    /// Segments; one of a packet without payload.
    pub fn count(&self) -> usize {
        self.payload.div_ceil(self.size).max(1)
    }

    /// Bytes of the headers of each.
    pub fn header_len(&self) -> usize {
        self.len
    }

    /// Where the TCP header starts in each.
    pub fn tcp_start(&self) -> usize {
        self.tcp
    }

    /// The `nth` segment's part of the payload.
    pub fn part(&self, nth: usize) -> Range<usize> {
        let at = nth * self.size;
        at.min(self.payload)..(at + self.size).min(self.payload)
    }

    /// Writes the headers of the `nth` segment at the front of `packet`, behind which its part of the payload stands
    /// already.
    ///
    /// # Panics
    /// If `packet` is shorter than the headers, or longer than an IP packet may be.
    pub fn write(&self, nth: usize, packet: &mut [u8], summing: Summing) {
        let Template { len, ip, tcp, v4, .. } = *self;
        let whole = packet.len() - ip;
        assert!(whole <= usize::from(u16::MAX), "longer than an IP packet");
        packet[..len].copy_from_slice(&self.headers[..len]);
        if v4 {
            let own = [whole as u16, self.id.wrapping_add(nth as u16)];
            let sum = self.ip_sum.plus(Sum::of_u16(own[0])).plus(Sum::of_u16(own[1]));
            put(packet, ip + 2, own[0].to_be_bytes());
            put(packet, ip + 4, own[1].to_be_bytes());
            put(packet, ip + 10, sum.checksum().to_be_bytes());
        } else {
            put(packet, ip + 4, ((whole - ipv6::HEADER_LEN) as u16).to_be_bytes());
        }
        let seq = self.seq.wrapping_add((nth * self.size) as u32);
        let mut bits = self.bits;
        if nth + 1 < self.count() {
            bits &= !OF_LAST;
        }
        if nth > 0 {
            bits &= !OF_FIRST;
        }
        put(packet, tcp + 4, seq.to_be_bytes());
        put(packet, tcp + 12, bits.to_be_bytes());
        let pseudo = self.pseudo.plus(Sum::of_u16((packet.len() - tcp) as u16));
        let field = match summing {
            Summing::Later => pseudo.fold(),
            Summing::Here => {
                let header = self.tcp_sum.plus(Sum::of_u32(seq)).plus(Sum::of_u16(bits));
                // A TCP header is a multiple of four bytes: the payload starts at an even place.
                pseudo.plus(header).plus(Sum::of(&packet[len..])).checksum()
            }
        };
        put(packet, tcp + CHECKSUM_OFFSET, field.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
