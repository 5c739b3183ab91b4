//! Classification of a packet by its bytes: its flow, whether it carries data, and whether it is sound.

use crate::port::{Medium, RxChecksum};
use ::wire::checksum::{Summer, is_partial};
use ::wire::packet::{Content, Packet, parse_frame, parse_ip, plain_tcp_v4};
use ::wire::protocol;
use ::wire::tcp::CHECKSUM_OFFSET;
use base::{Endpoint, FlowKey};

/// Where a TCP packet's parts lie, and its flow as its receiver sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Classified {
    pub(crate) key: FlowKey,
    pub(crate) packet: Packet,
    /// There is something behind the TCP header.
    pub(crate) data: bool,
}

/// Looks at a packet of `whole` bytes, the first of which are in `bytes`; `None` if it is no TCP, or not whole.
pub(crate) fn classify(bytes: &[u8], whole: usize, medium: Medium) -> Option<Classified> {
    let ip = medium.header_len();
    let plain = if is_ipv4(bytes, medium) { plain_tcp_v4(bytes, ip, whole) } else { None };
    let packet = match (plain, medium) {
        (Some(packet), _) => packet,
        (None, Medium::Ip) => parse_ip(bytes, whole).ok()?,
        (None, Medium::Ethernet) => match parse_frame(bytes, whole).ok()?.content {
            Content::Ip(packet) => packet,
            Content::Arp(_) => return None,
        },
    };
    let upper = packet.upper(bytes);
    if packet.protocol != protocol::TCP {
        return None;
    }
    let &[a, b, c, d, .., offset] = upper.first_chunk::<13>()?;
    let remote = Endpoint::new(packet.src, u16::from_be_bytes([a, b]));
    let local = Endpoint::new(packet.dst, u16::from_be_bytes([c, d]));
    let data = packet.len() > u32::from(offset >> 4) * 4;
    Some(Classified { key: FlowKey::new(local, remote), packet, data })
}

/// Is a TCP packet's checksum right, or as good as right, because its sender is a `local_peer`? If neither, nothing is
/// known of it: the stack looks again, and counts it.
pub(crate) fn judge(packet: &Packet, bytes: &[u8], summer: Summer, local_peer: bool) -> RxChecksum {
    let upper = packet.upper(bytes);
    if packet.pseudo().plus(summer(upper)).is_valid() {
        return RxChecksum::Verified;
    }
    let field = upper.get(CHECKSUM_OFFSET..).and_then(<[u8]>::first_chunk).copied().map(u16::from_be_bytes);
    let partial = local_peer && field.is_some_and(|field| is_partial(field, packet.pseudo()));
    if partial { RxChecksum::Partial } else { RxChecksum::Unverified }
}

fn is_ipv4(bytes: &[u8], medium: Medium) -> bool {
    medium == Medium::Ip || bytes.get(12..14) == Some(&[8, 0])
}
