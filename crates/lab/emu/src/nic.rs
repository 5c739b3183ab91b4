//! What a network card does for its host on transmit: completes checksums and cuts super-segments.

use pio::{ChecksumOffload, Medium, TxMeta};
use wire::checksum::{Sum, is_partial, pseudo};
use wire::packet::{Content, Packet, parse_frame, parse_ip};
use wire::tcp::Flags;
use wire::{ethernet, protocol, tcp};

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

/// Cuts a TCP packet into segments of `size` octets of payload: the headers are repeated with the sequence
/// number, the lengths and IPv4's identification advanced; FIN and PSH go on the last, CWR on the first
/// alone. Each is put together in `out`. False if it is no TCP packet or the size makes no sense.
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
    let Ok((_, _, parsed)) = ip.tcp(frame) else { return false };
    if size == 0 || ip.protocol != protocol::TCP {
        return false;
    }
    let payload = parsed.payload;
    let headers = &frame[..ip.end as usize - payload.len()];
    let pieces = payload.chunks(size);
    let last = pieces.len().saturating_sub(1);
    for (nth, piece) in pieces.enumerate() {
        out.clear();
        out.extend_from_slice(headers);
        out.extend_from_slice(piece);
        let mut flags = parsed.flags.0;
        if nth != last {
            flags &= !(Flags::FIN | Flags::PSH).0;
        }
        if nth != 0 {
            flags &= !Flags::CWR.0;
        }
        let tcp = &mut out[ip.start as usize..];
        tcp[4..8].copy_from_slice(&(parsed.seq + (nth * size) as u32).raw().to_be_bytes());
        tcp[13] = flags as u8;
        finish(out, &ip, nth as u16);
        emit(out);
    }
    true
}

/// Puts lengths and checksums right in a packet cut from one whose headers `ip` describes.
fn finish(out: &mut [u8], ip: &Packet, nth: u16) {
    let total = out.len() - ip.ip as usize;
    let tcp_len = out.len() - ip.start as usize;
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
    let tcp = &mut out[ip.start as usize..];
    tcp::set_checksum(tcp, 0);
    let sum = pseudo(ip.src, ip.dst, protocol::TCP, tcp_len as u32).plus(Sum::of(tcp));
    tcp::set_checksum(tcp, sum.checksum());
}

/// The TCP or UDP packet in a frame, and the place of its checksum.
fn summed(frame: &[u8]) -> Option<(Packet, usize)> {
    let Ok(Content::Ip(ip)) = parse_frame(frame, frame.len()).map(|parsed| parsed.content) else {
        return None;
    };
    let offset = match ip.protocol {
        protocol::TCP => tcp::CHECKSUM_OFFSET,
        protocol::UDP => 6,
        _ => return None,
    };
    let at = ip.start as usize + offset;
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
    let Some((ip, at)) = summed(frame) else { return false };
    frame[at..at + 2].fill(0);
    let sum = ip.pseudo().plus(Sum::of(ip.upper(frame))).checksum();
    // RFC 768: no sum at all is written as zero, so a sum of zero is written as its other form.
    let sum = if sum == 0 && ip.protocol == protocol::UDP { 0xffff } else { sum };
    frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

/// Octets of payload that a segment of the TCP packet in `frame` may have on a link of this MTU.
pub(crate) fn tcp_room(frame: &[u8], mtu: usize) -> Option<usize> {
    let (ip, _) = summed(frame).filter(|(ip, _)| ip.protocol == protocol::TCP)?;
    let (_, _, segment) = ip.tcp(frame).ok()?;
    let headers = (ip.end - ip.ip) as usize - segment.payload.len();
    mtu.checked_sub(headers).filter(|room| *room > 0)
}

/// Octets of the IP packet in a frame.
pub(crate) fn ip_len(frame: &[u8]) -> usize {
    frame.len().saturating_sub(ethernet::HEADER_LEN)
}

#[cfg(test)]
pub(crate) mod tests;
