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
mod tests {
    //! Goal: what is cut parses, has right checksums and adds up to the whole, in whatever order it is written; what
    //! makes no sense is refused.
    use super::*;
    use crate::packet::{Below, Checked, Checksum, Content, Link, parse_frame, parse_ip};
    use crate::tcp::{Header, Options, Timestamps};
    use alloc::vec;
    use alloc::vec::Vec;
    use base::{Addr, Rng, Seq};

    const ENDS: [[Addr; 2]; 2] =
        [[Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2])], [Addr::v6([0xfd; 16]), Addr::v6([0xfc; 16])]];

    fn whole(rng: &mut Rng, ends: [Addr; 2], link: bool, payload: usize) -> (Vec<u8>, Below, Header) {
        let link = link.then_some(Link { dst: [2; 6], src: [4; 6] });
        let below = Below { link, src: ends[0], dst: ends[1], tos: 2, ttl: 64, label: rng.next_u32() >> 12 };
        let stamps = rng.chance(0.5).then_some(Timestamps { val: 6, ecr: 7 });
        let header = Header {
            src_port: 1,
            dst_port: 2,
            seq: Seq::new(rng.next_u32()),
            ack: Seq::new(4),
            flags: Flags::ACK | Flags(rng.next_u32() as u16 & (Flags::PSH | Flags::FIN | Flags::CWR).0),
            window: 5,
            options: Options { timestamps: stamps, ..Options::default() },
        };
        let mut frame = vec![0; below.len() + header.len() + payload];
        let at = frame.len() - payload;
        rng.fill(&mut frame[at..]);
        below.emit_tcp(&header, payload, Checksum::Offloaded, &mut frame);
        (frame, below, header)
    }

    /// One segment as a stack writes it that knows nothing of the whole.
    fn alone(below: &Below, header: &Header, payload: &[u8], nth: usize, checksum: Checksum) -> Vec<u8> {
        let below = Below {
            label: below.label.wrapping_add(if below.src.is_v4() { nth as u32 } else { 0 }),
            ..*below
        };
        let mut frame = vec![0; below.len() + header.len() + payload.len()];
        let at = frame.len() - payload.len();
        frame[at..].copy_from_slice(payload);
        below.emit_tcp(header, payload.len(), checksum, &mut frame);
        frame
    }

    #[test]
    fn cut_is_as_if_each_was_built_alone() {
        for seed in 0..400 {
            let mut rng = Rng::new(seed);
            let ends = ENDS[rng.below(2) as usize];
            let (payload, size) = (rng.below(20_000) as usize, 1 + rng.below(3_000) as usize);
            let linked = rng.chance(0.7);
            let (frame, below, header) = whole(&mut rng, ends, linked, payload);
            let headers = below.len() + header.len();
            let ip = if linked { ethernet::HEADER_LEN } else { 0 };
            let template = Template::read(&frame[..headers], ip, below.len(), payload, size).unwrap();
            let mut order: Vec<usize> = (0..template.count()).collect();
            order.rotate_left(rng.below(template.count() as u64) as usize);
            for nth in order {
                let part = &frame[headers..][template.part(nth)];
                let mut flags = header.flags;
                if nth + 1 < template.count() {
                    flags = Flags(flags.0 & !(Flags::FIN | Flags::PSH).0);
                }
                if nth > 0 {
                    flags = Flags(flags.0 & !Flags::CWR.0);
                }
                let header = Header { seq: header.seq + (nth * size) as u32, flags, ..header };
                for (summing, checksum) in
                    [(Summing::Here, Checksum::Full), (Summing::Later, Checksum::Offloaded)]
                {
                    let mut packet = vec![0xee; headers + part.len()];
                    packet[headers..].copy_from_slice(part);
                    template.write(nth, &mut packet, summing);
                    let expected = alone(&below, &header, part, nth, checksum);
                    assert_eq!(packet, expected, "seed {seed}, segment {nth}, {summing:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_cut_parses_and_adds_up() {
        let mut rng = Rng::new(1);
        for ends in ENDS {
            for linked in [true, false] {
                let (frame, below, header) = whole(&mut rng, ends, linked, 10_001);
                let headers = below.len() + header.len();
                let ip = if linked { ethernet::HEADER_LEN } else { 0 };
                let template = Template::read(&frame[..headers], ip, below.len(), 10_001, 1_447).unwrap();
                let mut seen: Vec<u8> = Vec::new();
                for nth in 0..template.count() {
                    let part = &frame[headers..][template.part(nth)];
                    let mut packet = vec![0; headers];
                    packet.extend(part);
                    template.write(nth, &mut packet, Summing::Here);
                    let parsed = match linked {
                        true => parse_frame(&packet, packet.len()).map(|frame| frame.content),
                        false => parse_ip(&packet, packet.len()).map(Content::Ip),
                    };
                    let Ok(Content::Ip(parsed)) = parsed else { panic!("segment {nth} is no packet") };
                    assert_eq!(parsed.checksum(&packet), Checked::Good);
                    seen.extend(parsed.tcp(&packet).unwrap().2.payload);
                }
                assert_eq!(seen, frame[headers..]);
            }
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let (frame, below, header) = whole(&mut Rng::new(2), ENDS[0], true, 100);
        let headers = below.len() + header.len();
        let read = |len: usize, ip, tcp, size| Template::read(&frame[..len], ip, tcp, 100, size).is_some();
        assert!(read(headers, 14, 34, 10));
        for (len, ip, tcp, size) in [
            (headers, 14, 34, 0),
            (headers - 1, 14, 34, 10),
            (headers + 1, 14, 34, 10),
            (headers, 13, 34, 10),
            (headers, 14, 30, 10),
            (headers, 14, 3_400, 10),
            (headers, 3_400, 34, 10),
        ] {
            assert!(!read(len, ip, tcp, size), "{len} {ip} {tcp} {size}");
        }
        let huge = Template::read(&frame[..headers], 14, 34, 70_000, 70_000);
        assert!(huge.is_none(), "a segment would be longer than a packet");
    }
}
