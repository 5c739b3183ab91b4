//! Between the port's words and the virtio-net header, which taps, packet sockets and shared memory speak.

use crate::port::{RxChecksum, RxMeta, TxMeta};
use wire::virtio::{Checksum, Cut, Header, Segmentation};

/// Bytes of the header as all ports here use it.
pub(crate) const LEN: usize = wire::virtio::LEN_MERGED;

/// Returns the metadata in a received header of the frame of `frame_len` bytes after it; `None` if it makes no
/// sense.
pub(crate) fn received(header: &[u8], frame_len: usize) -> Option<RxMeta> {
    let header = wire::virtio::parse(header, frame_len).ok()?;
    let checksum = match header.checksum {
        Checksum::None => RxChecksum::Unverified,
        Checksum::Valid => RxChecksum::Verified,
        Checksum::Needed { .. } => RxChecksum::Partial,
    };
    Some(RxMeta { checksum, gso_size: header.segmentation.map_or(0, |cut| cut.size), more: false })
}

/// The header that asks for `meta` to be done to a frame of `len` bytes that begins with `frame` (all of its headers
/// are there); `None` if that makes no sense or the port (which takes super-segments of `longest` bytes with their
/// link header, and checksums if that is not 0) does not offer it.
pub(crate) fn request(
    meta: &TxMeta,
    frame: &[u8],
    len: usize,
    plain: usize,
    longest: usize,
) -> Option<Header> {
    let Some(sum) = meta.checksum else {
        let allowed = meta.segmentation.is_none() && len <= plain;
        return allowed.then(Header::default);
    };
    let (start, offset) = (sum.start, sum.offset);
    let field_end = usize::from(start) + usize::from(offset) + 2;
    if longest == 0 || field_end > frame.len() {
        return None;
    }
    let checksum = Checksum::Needed { start, offset };
    let Some(cut) = meta.segmentation else {
        return (len <= plain).then_some(Header { checksum, segmentation: None });
    };
    let header_len = usize::from(cut.header_len);
    if cut.size == 0 || header_len < field_end || header_len >= len || len > longest {
        return None;
    }
    // RFC 3168, section 6.1.2: CWR belongs to the first segment alone, and the port that cuts must know.
    const FLAGS: usize = 13;
    let ecn = frame.get(usize::from(start) + FLAGS).is_some_and(|flags| flags & 0x80 != 0);
    let kind = if cut.v6 { Cut::Tcp6 } else { Cut::Tcp4 };
    let cut = Segmentation { cut: kind, ecn, size: cut.size, header_len: cut.header_len };
    Some(Header { checksum, segmentation: Some(cut) })
}

/// Where the header in front of a packet starts in slot `index`. Slots lie a power of two apart, so if all
/// packets began alike their first lines would compete for the same few places in the caches. At most 52 KiB
/// into the slot.
pub(crate) const fn start_of(index: u32) -> usize {
    (index as usize % 32) * 128 + (index as usize / 32 % 12) * 4096
}

/// An empty header, as wide as all ports here use it.
pub(crate) fn emit(header: &Header, into: &mut [u8]) {
    header.emit(into, LEN);
}
