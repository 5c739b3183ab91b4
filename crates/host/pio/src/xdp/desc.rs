//! Descriptors of a receive ring: packets, in one buffer or several. Nothing here trusts the numbers.

use super::rings::{Consumer, Desc};
use crate::port::{BATCH_MAX, RxBatch, RxMeta, RxPacket};
use ring::FramePool;

/// Counters of invalid descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Faults {
    /// Packets whose descriptor names no buffer that the kernel has from us.
    pub(super) bad: u64,
    /// Packets in more buffers than a batch has places.
    pub(super) too_long: u64,
}

/// Result of one look at a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Received {
    /// Frames appended to the batch.
    pub(super) frames: usize,
    /// Buffers taken out of the ring, also for packets that were dropped.
    pub(super) buffers: u32,
}

/// Bytes of an Ethernet header.
const LINK: usize = 14;

/// Appends packets of `ring` to `batch`, whole ones only. `mtu` is the interface's: longer packets are
/// super-segments.
pub(super) fn receive(
    ring: &mut Consumer<Desc>,
    pool: &mut FramePool,
    mtu: usize,
    batch: &mut RxBatch,
    faults: &mut Faults,
) -> Received {
    let before = batch.len();
    let available = ring.available(BATCH_MAX as u32);
    let mut taken = 0;
    while taken < available && batch.len() < BATCH_MAX {
        let Some(count) = packet_len(ring, taken, available) else { break };
        if count as usize > BATCH_MAX {
            faults.too_long += 1;
            drop_packet(ring, pool, taken, count);
        } else if count as usize > BATCH_MAX - batch.len() {
            break;
        } else if !take_packet(ring, pool, taken, count, mtu, batch) {
            faults.bad += 1;
        }
        taken += count;
    }
    if taken > 0 {
        ring.advance(taken);
        ring.release();
    }
    Received { frames: batch.len() - before, buffers: taken }
}

/// Buffers of the packet that starts `ahead`; `None` if its end is not there yet.
fn packet_len(ring: &Consumer<Desc>, ahead: u32, available: u32) -> Option<u32> {
    let more = |at| ring.peek(at).options & libc::XDP_PKT_CONTD != 0;
    (ahead..available).position(|at| !more(at)).map(|n| n as u32 + 1)
}

/// Moves a packet's buffers to the batch; all of them or, if one of them is wrong, none.
fn take_packet(
    ring: &Consumer<Desc>,
    pool: &mut FramePool,
    ahead: u32,
    count: u32,
    mtu: usize,
    batch: &mut RxBatch,
) -> bool {
    let start = batch.len();
    let mut total = 0;
    for at in ahead..ahead + count {
        let desc = ring.peek(at);
        let frame =
            pool.locate(desc.addr).and_then(|(index, start)| pool.reclaim(index, start, desc.len as usize));
        let Some(frame) = frame else {
            for packet in batch.drain(start..) {
                pool.retire(packet.frame);
            }
            drop_packet(ring, pool, at + 1, ahead + count - at - 1);
            return false;
        };
        total += frame.len();
        batch.push(RxPacket { frame, meta: RxMeta { more: at + 1 < ahead + count, ..RxMeta::default() } });
    }
    if total > LINK + VLAN + mtu {
        let first = &mut batch[start];
        first.meta.gso_size = segment_size(first.frame.data(), mtu);
    }
    true
}

/// Bytes of a VLAN tag, which a packet may carry beyond the MTU.
const VLAN: usize = 4;

fn drop_packet(ring: &Consumer<Desc>, pool: &mut FramePool, ahead: u32, count: u32) {
    for at in ahead..ahead + count {
        let place = pool.locate(ring.peek(at).addr);
        if let Some(frame) = place.and_then(|(index, _)| pool.reclaim(index, 0, 0)) {
            pool.retire(frame);
        }
    }
}

/// Payload bytes per wire segment of a super-segment. AF_XDP does not say, but the peer that cut it for this
/// interface would have filled its MTU. 0 if it is not TCP.
fn segment_size(packet: &[u8], mtu: usize) -> u16 {
    let at = |i: usize| packet.get(i).copied().map(usize::from);
    let headers = || {
        let (protocol, ip) = match at(LINK)? >> 4 {
            4 => (at(LINK + 9)?, (at(LINK)? & 0x0f) * 4),
            6 => (at(LINK + 6)?, 40),
            _ => return None,
        };
        let tcp = (at(LINK + ip + 12)? >> 4) * 4;
        (protocol == usize::from(wire::protocol::TCP)).then_some(ip + tcp)
    };
    headers().and_then(|len| mtu.checked_sub(len)).map_or(0, |size| u16::try_from(size).unwrap_or(u16::MAX))
}

#[cfg(test)]
mod tests;
