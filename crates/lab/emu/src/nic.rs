//! Transmit offloads of a network card: completes checksums and cuts super-segments.

use pio::{ChecksumOffload, Medium, TxMeta};
use wire::checksum::{Sum, is_partial, pseudo};
use wire::packet::{Content, Packet, parse_frame, parse_ip};
use wire::tcp::Flags;
use wire::{ethernet, protocol, tcp};

/// Bytes of a UDP header.
const UDP: usize = 8;

/// Does what `meta` asks of `frame` and hands each packet for the wire to `emit`. False if it asks nonsense.
pub fn transmit(medium: Medium, frame: &mut [u8], meta: &TxMeta, emit: impl FnMut(&[u8])) -> bool {
    match (meta.segmentation, meta.checksum) {
        (Some(cut), Some(_)) => segment(medium, frame, usize::from(cut.size), &mut Vec::new(), emit),
        (Some(_), None) => false,
        (None, checksum) => whole(frame, checksum, emit),
    }
}

fn whole(frame: &mut [u8], checksum: Option<ChecksumOffload>, mut emit: impl FnMut(&[u8])) -> bool {
    if let Some(ChecksumOffload { start, offset }) = checksum {
        let Some(summed) = frame.get_mut(usize::from(start)..) else { return false };
        let sum = Sum::of(summed).checksum();
        let Some(field) = summed.get_mut(usize::from(offset)..).and_then(|rest| rest.first_chunk_mut::<2>())
        else {
            return false;
        };
        *field = sum.to_be_bytes();
    }
    emit(frame);
    true
}

/// Cuts a TCP packet into segments of `size` bytes of payload, or a UDP packet into datagrams: the headers are
/// repeated with the sequence number, the lengths and IPv4's identification advanced; FIN and PSH go on the last, CWR
/// on the first alone. Each is put together in `out`. False if it is neither or the size makes no sense.
pub(crate) fn segment(
    medium: Medium,
    frame: &[u8],
    size: usize,
    out: &mut Vec<u8>,
    mut emit: impl FnMut(&[u8]),
) -> bool {
    let content = match medium {
        Medium::Ethernet => parse_frame(frame, frame.len()).map(|frame| frame.content),
        Medium::Ip => parse_ip(frame, frame.len()).map(Content::Ip),
    };
    let Ok(Content::Ip(ip)) = content else { return false };
    let Some(headers) = headers_len(&ip, frame).filter(|_| size > 0) else { return false };
    let (headers, payload) = frame[..ip.end as usize].split_at(headers);
    let pieces = payload.chunks(size);
    let last = pieces.len().saturating_sub(1);
    for (nth, piece) in pieces.enumerate() {
        out.clear();
        out.extend_from_slice(headers);
        out.extend_from_slice(piece);
        let upper = &mut out[ip.start as usize..];
        if ip.protocol == protocol::TCP {
            advance(upper, (nth * size) as u32, nth == 0, nth == last);
        } else {
            let len = upper.len() as u16;
            upper[4..6].copy_from_slice(&len.to_be_bytes());
        }
        finish(out, &ip, nth as u16);
        emit(out);
    }
    true
}

/// Bytes before the payload of a TCP or UDP packet.
fn headers_len(ip: &Packet, frame: &[u8]) -> Option<usize> {
    match ip.protocol {
        protocol::TCP => ip.tcp(frame).ok().map(|(_, _, segment)| ip.end as usize - segment.payload.len()),
        protocol::UDP => Some(ip.start as usize + UDP).filter(|at| *at <= ip.end as usize),
        _ => None,
    }
}

/// Makes a TCP header that of the segment `by` bytes later.
fn advance(tcp: &mut [u8], by: u32, first: bool, last: bool) {
    let seq = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add(by);
    tcp[4..8].copy_from_slice(&seq.to_be_bytes());
    if !last {
        tcp[13] &= !(Flags::FIN | Flags::PSH).0 as u8;
    }
    if !first {
        tcp[13] &= !Flags::CWR.0 as u8;
    }
}

/// Puts lengths and checksums right in a packet cut from one whose headers `ip` describes.
fn finish(out: &mut [u8], ip: &Packet, nth: u16) {
    let total = out.len() - ip.ip as usize;
    let header = &mut out[ip.ip as usize..ip.start as usize];
    if ip.src.is_v4() {
        let id = u16::from_be_bytes([header[4], header[5]]).wrapping_add(nth);
        header[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        header[4..6].copy_from_slice(&id.to_be_bytes());
        header[10..12].fill(0);
        let sum = Sum::of(header).checksum();
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        header[4..6].copy_from_slice(&((total - wire::ipv6::HEADER_LEN) as u16).to_be_bytes());
    }
    seal(&mut out[ip.start as usize..], ip);
}

/// Puts the checksum of a whole TCP segment or UDP datagram in its place.
fn seal(upper: &mut [u8], ip: &Packet) {
    let Some(offset) = checksum_offset(ip.protocol) else { return };
    upper[offset..offset + 2].fill(0);
    let pseudo = pseudo(ip.src, ip.dst, ip.protocol, upper.len() as u32);
    let sum = pseudo.plus(Sum::of(upper)).checksum();
    // RFC 768: no sum at all is written as zero, so a sum of zero is written as its other form.
    let sum = if sum == 0 && ip.protocol == protocol::UDP { 0xffff } else { sum };
    upper[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
}

fn checksum_offset(protocol: u8) -> Option<usize> {
    match protocol {
        protocol::TCP => Some(tcp::CHECKSUM_OFFSET),
        protocol::UDP => Some(6),
        _ => None,
    }
}

/// The TCP or UDP packet in a frame, and the place of its checksum.
fn summed(frame: &[u8]) -> Option<(Packet, usize)> {
    let Ok(Content::Ip(ip)) = parse_frame(frame, frame.len()).map(|parsed| parsed.content) else {
        return None;
    };
    let at = ip.start as usize + checksum_offset(ip.protocol)?;
    (at + 2 <= ip.end as usize).then_some((ip, at))
}

/// Does its checksum hold the sum of the pseudo header alone, left for hardware?
pub(crate) fn is_open(frame: &[u8]) -> bool {
    let Some((ip, at)) = summed(frame) else { return false };
    let field = u16::from_be_bytes([frame[at], frame[at + 1]]);
    is_partial(field, ip.pseudo()) && !ip.pseudo().plus(Sum::of(ip.upper(frame))).is_valid()
}

/// Puts the checksum of a TCP or UDP packet in its place; false if it has none.
pub(crate) fn complete(frame: &mut [u8]) -> bool {
    let Some((ip, _)) = summed(frame) else { return false };
    seal(&mut frame[ip.range()], &ip);
    true
}

/// Bytes of payload that a segment of the TCP packet in `frame` may have on a link of this MTU.
pub(crate) fn tcp_room(frame: &[u8], mtu: usize) -> Option<usize> {
    let (ip, _) = summed(frame).filter(|(ip, _)| ip.protocol == protocol::TCP)?;
    let (_, _, segment) = ip.tcp(frame).ok()?;
    let headers = (ip.end - ip.ip) as usize - segment.payload.len();
    mtu.checked_sub(headers).filter(|room| *room > 0)
}

/// Bytes of the IP packet in a frame.
pub(crate) fn ip_len(frame: &[u8]) -> usize {
    frame.len().saturating_sub(ethernet::HEADER_LEN)
}

#[cfg(test)]
pub(crate) mod tests;
