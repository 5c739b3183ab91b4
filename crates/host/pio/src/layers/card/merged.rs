//! The packets of a merged run as one, in a frame of its own: their bytes are copied once, and none is looked at.

use ::wire::checksum::Sum;
use ::wire::tcp::Flags;
use offload::MergedRun;
use ring::Frame;

/// Fills `whole` with a super-segment: the first packet's headers, whose IP header starts at `ip`, and all payload.
/// False, and nothing of it counts, if there is no room for it. (The first packet's timestamp is the one that counts
/// for what several segments acknowledge together: RFC 7323, section 4.3.)
pub(super) fn merge<'a>(
    whole: &mut Frame,
    merged_run: &MergedRun,
    ip: usize,
    packets: impl Iterator<Item = &'a [u8]>,
) -> bool {
    let text = merged_run.text(0).start;
    let len = text + merged_run.bytes() as usize;
    if len > whole.capacity() || len - ip > usize::from(u16::MAX) {
        return false;
    }
    whole.set_range(0, len);
    let bytes = whole.data_mut();
    let mut at = text;
    for (nth, packet) in packets.enumerate() {
        if nth == 0 {
            bytes[..text].copy_from_slice(&packet[..text]);
        }
        let payload = &packet[merged_run.text(nth as u16)];
        bytes[at..at + payload.len()].copy_from_slice(payload);
        at += payload.len();
    }
    debug_assert_eq!(at, len, "all payload of the merged run");
    let v4 = bytes[ip] >> 4 == 4;
    let tcp = ip + if v4 { V4 } else { V6 };
    if v4 {
        bytes[ip + 2..ip + 4].copy_from_slice(&((len - ip) as u16).to_be_bytes());
        bytes[ip + 10..ip + 12].fill(0);
        let sum = Sum::of(&bytes[ip..tcp]).checksum();
        bytes[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
    } else {
        bytes[ip + 4..ip + 6].copy_from_slice(&((len - tcp) as u16).to_be_bytes());
    }
    if merged_run.is_pushed() {
        bytes[tcp + 13] |= Flags::PSH.0 as u8;
    }
    true
}

/// Bytes of the IP headers that packets of a merged run have: no options, no extensions.
const V4: usize = 20;
const V6: usize = 40;
