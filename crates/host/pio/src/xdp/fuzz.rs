//! For fuzz targets and models: what the kernel says, replaced by arbitrary bytes.

use super::desc::{self, Faults};
use super::rings::{Desc, detached};
use crate::port::BATCH_MAX;
use ring::{FramePool, Pages};

/// Receive descriptors made of `data`: no panic, no slot with two owners, no packet that ends open, no frame
/// outside its slot. Panics if one of these is broken.
pub fn descriptors(data: &[u8]) {
    const SLOTS: u32 = 96;
    const SLOT_SIZE: usize = 256;
    let mut pool = FramePool::with_pages(SLOTS, SLOT_SIZE, Pages::Normal).expect("24 KiB of memory");
    let (mut kernel, mut ours) = detached::<Desc>(128, u32::MAX - 7);
    let (mut batch, mut faults) = (Vec::new(), Faults::default());
    let (&lend, mut data) = data.split_first().unwrap_or((&0, &[]));
    for _ in 0..u32::from(lend).min(SLOTS) {
        let frame = pool.take().expect("a free slot");
        pool.lend(frame);
    }
    // A descriptor in six bytes: slot, start, length of 16 bits, options, and whether the kernel stops here.
    while let Some((&[slot, start, low, high, options, stop], rest)) = data.split_first_chunk() {
        data = rest;
        if kernel.free(1) > 0 {
            let addr = u64::from(slot) * SLOT_SIZE as u64 + u64::from(start);
            let far = if options & 0x80 != 0 { u64::MAX << 40 } else { 0 };
            let len = u32::from(u16::from_le_bytes([low, high]));
            kernel.push(Desc { addr: addr | far, len, options: u32::from(options & 3) });
        }
        if stop & 7 != 0 && !data.is_empty() {
            continue;
        }
        kernel.publish();
        let lent = pool.lent();
        let received = desc::receive(&mut ours, &mut pool, usize::from(start), &mut batch, &mut faults);
        let count = received.frames;
        assert_eq!(count, batch.len());
        assert!(received.buffers as usize >= count);
        assert!(count <= BATCH_MAX && pool.lent() + count as u32 <= lent);
        assert!(batch.last().is_none_or(|last| !last.meta.more), "a packet without an end");
        for packet in batch.drain(..) {
            assert!(packet.frame.headroom() + packet.frame.data().len() <= SLOT_SIZE);
            pool.retire(packet.frame);
        }
        assert_eq!(pool.available() + pool.lent(), SLOTS);
    }
    assert_eq!(pool.strays(), 0);
}
