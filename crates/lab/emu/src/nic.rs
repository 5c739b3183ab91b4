//! What a network card does for its host on transmit: completes checksums and cuts super-segments.

use pio::{ChecksumOffload, Medium, TxMeta};
use wire::checksum::{Sum, pseudo};
use wire::packet::{Content, Packet, parse_frame, parse_ip};
use wire::tcp::Flags;
use wire::{ethernet, protocol, tcp};

/// Does what `meta` asks of `frame` and hands each packet for the wire to `emit`. False if it asks nonsense.
pub fn transmit(medium: Medium, frame: &mut [u8], meta: &TxMeta, emit: impl FnMut(&[u8])) -> bool {
    match (meta.segmentation, meta.checksum) {
        (Some(cut), Some(_)) => segment(medium, frame, usize::from(cut.size), emit),
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
/// alone.
fn segment(medium: Medium, frame: &[u8], size: usize, mut emit: impl FnMut(&[u8])) -> bool {
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
    let mut out = Vec::with_capacity(headers.len() + size);
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
        finish(&mut out, &ip, nth as u16);
        emit(&out);
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

/// Octets of the IP packet in a frame.
pub(crate) fn ip_len(frame: &[u8]) -> usize {
    frame.len().saturating_sub(ethernet::HEADER_LEN)
}

#[cfg(test)]
pub(crate) mod tests;
