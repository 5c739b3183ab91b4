//! IPv6 extension headers before TCP (RFC 8200, section 4), as links walk them to the ports of a packet.
//!
//! One rule for every link that chooses packets by their ports: the XDP program, the filter of packet sockets, and
//! the look that follows it. At most [`EXTENSIONS_MAX`] headers are walked, of at most [`EXTENSION_WORDS_MAX`] units of
//! 8 bytes each, so that a packet costs a bounded number of steps. A packet with more is the kernel's. Of a fragmented
//! packet the first fragment has the ports, and later ones are the kernel's.

pub(crate) use wire::ipv6::FRAGMENT;
use wire::ipv6::{DESTINATION_OPTIONS, HOP_BY_HOP, ROUTING};

/// Headers whose second byte tells their length.
pub(crate) const WITH_LENGTH: [u8; 3] = [HOP_BY_HOP, ROUTING, DESTINATION_OPTIONS];

/// Extension headers of a packet that are walked.
pub(crate) const EXTENSIONS_MAX: usize = 3;
/// Greatest length of one of them, in units of 8 bytes.
pub(crate) const EXTENSION_WORDS_MAX: u8 = 8;

/// Returns the protocol behind the extension headers of an IPv6 packet, and where its header begins. The first header
/// is of `kind` and at `at`. `None` for a later fragment, and where a header is too long or cut off.
#[inline]
pub(crate) fn upper(frame: &[u8], mut kind: u8, mut at: usize) -> Option<(u8, usize)> {
    for _ in 0..EXTENSIONS_MAX {
        let words = match kind {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => usize::from(*frame.get(at + 1)?) + 1,
            FRAGMENT => {
                let offset = u16::from_be_bytes(*frame.get(at + 2..)?.first_chunk()?);
                if offset & 0xfff8 != 0 {
                    return None;
                }
                1
            }
            _ => break,
        };
        if words > usize::from(EXTENSION_WORDS_MAX) {
            return None;
        }
        kind = *frame.get(at)?;
        at += 8 * words;
    }
    Some((kind, at))
}
