//! The short way for what nearly every packet is: TCP over IPv4 without options, not a fragment; on the way
//! out over Ethernet. Fixed offsets, sums taken from the values instead of from memory. Same results as the
//! general way, which takes everything else.

use super::{Below, Checksum, Packet};
use crate::checksum::Sum;
use crate::tcp::{Flags, Header, Options};
use crate::{ethernet, protocol};
use base::Addr;

/// The packet at `at`, if it is a plain one and whole; `None` sends the caller the general way, not away.
#[inline(always)]
pub fn plain_tcp_v4(bytes: &[u8], at: usize, whole: usize) -> Option<Packet> {
    let h: &[u8; 20] = bytes.get(at..)?.first_chunk()?;
    let word = |i: usize| u32::from_be_bytes([h[i], h[i + 1], h[i + 2], h[i + 3]]);
    let (first, fragment) = (word(0), word(4));
    let total = (first & 0xffff) as usize;
    let plain = first >> 24 == 0x45 && fragment & 0x3fff == 0 && h[9] == protocol::TCP;
    let fits = total >= 40 && at + total <= whole;
    let (src, dst) = (word(12), word(16));
    let sum = [first, fragment, word(8), src, dst].iter().fold(0, |sum, &word| sum + u64::from(word));
    // Groups and the limited broadcast lie above class C; the general way says what is wrong with them.
    if !plain || !fits || src >> 29 == 7 || !Sum::of_wide(sum).is_valid() {
        return None;
    }
    Some(Packet {
        src: Addr::v4(src.to_be_bytes()),
        dst: Addr::v4(dst.to_be_bytes()),
        protocol: protocol::TCP,
        tos: h[1],
        ttl: h[8],
        ip: at as u32,
        start: (at + 20) as u32,
        end: (at + total) as u32,
    })
}

/// Bytes of Ethernet, IPv4 and TCP headers before TCP's options.
const FIXED: usize = 54;

/// Writes all headers of a segment over Ethernet and IPv4 and gives the packet's length, or does nothing.
#[inline(always)]
pub(super) fn emit(
    below: &Below,
    header: &Header,
    payload_len: usize,
    checksum: Checksum,
    into: &mut [u8],
) -> Option<usize> {
    let link = below.link.filter(|_| below.src.is_v4())?;
    let options_len = header.options.len(header.flags);
    let upper = 20 + options_len + payload_len;
    assert!(upper <= 65_515, "payload longer than an IP packet");
    let (fixed, rest) = into.split_first_chunk_mut::<FIXED>()?;
    let rest = &mut rest[..options_len + payload_len];
    let (src, dst) = (below.src.words()[3], below.dst.words()[3]);
    let ends = u64::from(src) + u64::from(dst);
    let pseudo = ends + u64::from(protocol::TCP) + upper as u64;
    let ack = if header.flags.has(Flags::ACK) { header.ack.raw() } else { 0 };
    let tcp = [
        u32::from(header.src_port) << 16 | u32::from(header.dst_port),
        header.seq.raw(),
        ack,
        (5 + options_len as u32 / 4) << 28 | u32::from(header.flags.0) << 16 | u32::from(header.window),
    ];
    let mut known = tcp.iter().fold(pseudo, |sum, &word| sum + u64::from(word));
    // What is not summed from its value yet.
    let mut rest = rest;
    if let Some(stamps) = header.options.stamps_alone(header.flags) {
        let (place, payload) = rest.split_at_mut(options_len);
        let words = Options::stamps_words(stamps);
        for (place, word) in place.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_be_bytes();
            known += u64::from(word);
        }
        rest = payload;
    } else {
        header.options.emit(header.flags, rest);
    }
    let check = match checksum {
        Checksum::Offloaded => Sum::of_wide(pseudo).fold(),
        Checksum::Full if rest.is_empty() => Sum::of_wide(known).checksum(),
        Checksum::Full => Sum::of_wide(known).plus(Sum::of(rest)).checksum(),
    };
    let ip = [
        0x4500_0000 | u32::from(below.tos) << 16 | (upper + 20) as u32,
        (below.label & 0xffff) << 16 | 0x4000,
        u32::from(below.ttl) << 24 | u32::from(protocol::TCP) << 16,
    ];
    let ip_check = Sum::of_wide(ip.iter().fold(ends, |sum, &word| sum + u64::from(word))).checksum();
    fixed[..6].copy_from_slice(&link.dst);
    fixed[6..12].copy_from_slice(&link.src);
    fixed[12..14].copy_from_slice(&ethernet::IPV4.to_be_bytes());
    let words = [ip[0], ip[1], ip[2] | u32::from(ip_check), src, dst, tcp[0], tcp[1], tcp[2], tcp[3]];
    for (place, word) in fixed[14..50].as_chunks_mut().0.iter_mut().zip(words) {
        *place = word.to_be_bytes();
    }
    fixed[50..52].copy_from_slice(&check.to_be_bytes());
    fixed[52..].fill(0);
    Some(FIXED + options_len + payload_len)
}

#[cfg(test)]
mod tests;
