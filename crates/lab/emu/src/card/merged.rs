//! A merged run as one packet.

use offload::MergedRun;
use pio::{ChecksumOffload, SegmentationOffload, TxMeta};
use wire::checksum::Sum;
use wire::ethernet;
use wire::tcp::{CHECKSUM_OFFSET, Flags};

/// Where the fields lie: plain IP without options or extensions, or it would be no merged run.
const IP: usize = ethernet::HEADER_LEN;
const V4: usize = IP + 20;
const V6: usize = IP + 40;

/// The packets of a merged run as a super-segment, with the first one's headers, and how the port is to hand it on.
pub(super) fn merged(packets: &[Vec<u8>], merged_run: &MergedRun) -> (Vec<u8>, TxMeta) {
    let mut texts = packets.iter().enumerate().map(|(nth, packet)| &packet[merged_run.text(nth as u16)]);
    let first = &packets[0];
    let size = merged_run.text(0).len();
    let mut whole = first[..merged_run.text(0).end].to_vec();
    texts.next();
    texts.for_each(|text| whole.extend_from_slice(text));
    let len = (whole.len() - IP) as u16;
    let v4 = whole[IP] >> 4 == 4;
    let tcp = if v4 {
        whole[IP + 2..IP + 4].copy_from_slice(&len.to_be_bytes());
        whole[IP + 10..IP + 12].fill(0);
        let sum = Sum::of(&whole[IP..V4]).checksum();
        whole[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
        V4
    } else {
        whole[IP + 4..IP + 6].copy_from_slice(&(len - 40).to_be_bytes());
        V6
    };
    if merged_run.is_pushed() {
        whole[tcp + 13] |= Flags::PSH.0 as u8;
    }
    let meta = TxMeta {
        // Each packet's was checked; the host is told so.
        checksum: Some(ChecksumOffload { start: tcp as u16, offset: CHECKSUM_OFFSET as u16 }),
        segmentation: Some(SegmentationOffload {
            size: size as u16,
            header_len: merged_run.text(0).start as u16,
            v6: !v4,
        }),
    };
    (whole, meta)
}
