//! The receive ring that packet sockets share with their user (TPACKET_V3): blocks of many packets, each
//! handed over when it is full or its time is up.

use crate::sys::{self, check};
use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A block holds a few super-segments, or several hundred small packets.
const BLOCK: usize = 512 << 10;
const BLOCKS: usize = 32;
/// After how many milliseconds the kernel hands over a block that is not full; it knows no less.
const TIMEOUT: u32 = 1;

/// The ring, mapped.
pub(super) struct Ring {
    base: NonNull<u8>,
    /// The block read next, and how far it was read.
    block: usize,
    cursor: Option<Cursor>,
}

/// A place in a block that is ours.
#[derive(Clone, Copy)]
struct Cursor {
    at: usize,
    left: u32,
}

/// A packet in the ring.
pub(super) struct Slot<'a> {
    /// The virtio-net header and the frame behind it; what of it was kept.
    pub(super) bytes: &'a [u8],
    /// The frame was cut off.
    pub(super) truncated: bool,
}

// SAFETY: a `Ring` owns its mapping alone.
unsafe impl Send for Ring {}

impl Ring {
    /// Give `fd` a ring. It must have its version and header options set and be on no interface.
    pub(super) fn new(fd: RawFd) -> io::Result<Ring> {
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: 2048,
            tp_frame_nr: (BLOCK / 2048 * BLOCKS) as u32,
            tp_retire_blk_tov: TIMEOUT,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        sys::set_option(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), BLOCK * BLOCKS, protection, libc::MAP_SHARED, fd, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Ring { base, block: 0, cursor: None })
    }

    /// Is there more to read of a block that was begun? The kernel's poll does not say so.
    pub(super) fn has_rest(&self) -> bool {
        self.cursor.is_some()
    }

    fn status(&self) -> &AtomicU32 {
        // The status follows the version and the offset of the private area, four bytes each.
        const STATUS: usize = std::mem::offset_of!(libc::tpacket_block_desc, hdr);
        // SAFETY: `block < BLOCKS`, the place is aligned, and kernel and user change it as one word.
        unsafe { self.base.add(self.block * BLOCK + STATUS).cast().as_ref() }
    }

    /// The bytes of the block that is ours.
    fn bytes(&self) -> &[u8] {
        // SAFETY: the block lies in the mapping; while its status says so the kernel does not write to it,
        // and the callers have seen it say so.
        unsafe { std::slice::from_raw_parts(self.base.add(self.block * BLOCK).as_ptr(), BLOCK) }
    }

    /// Call `each` with the packets that wait, in order, while it returns true for having taken one.
    pub(super) fn read(&mut self, mut each: impl FnMut(Slot<'_>) -> bool) {
        while let Some(mut cursor) = self.cursor.take().or_else(|| self.open()) {
            // Should the kernel's own offsets lead outside the block, which was never seen, the rest of it is
            // lost.
            while cursor.left > 0
                && let Some((slot, next)) = slot(self.bytes(), cursor.at)
            {
                if !each(slot) {
                    self.cursor = Some(cursor);
                    return;
                }
                cursor = Cursor { at: next, left: cursor.left - 1 };
            }
            self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.block = (self.block + 1) % BLOCKS;
        }
    }

    /// Begin the next block, if the kernel handed it over.
    fn open(&self) -> Option<Cursor> {
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        const HEADER: usize = std::mem::offset_of!(libc::tpacket_block_desc, hdr);
        const COUNT: usize = HEADER + std::mem::offset_of!(libc::tpacket_hdr_v1, num_pkts);
        const FIRST: usize = HEADER + std::mem::offset_of!(libc::tpacket_hdr_v1, offset_to_first_pkt);
        let bytes = self.bytes();
        Some(Cursor { at: word(bytes, FIRST)? as usize, left: word(bytes, COUNT)? })
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: address and length came from mmap, and no reference outlives `self`.
        let rc = unsafe { libc::munmap(self.base.as_ptr().cast(), BLOCK * BLOCKS) };
        debug_assert!(check(rc).is_ok());
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_ne_bytes(*b))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|b| u16::from_ne_bytes(*b))
}

/// The packet at `at` in a block, and where the next one is.
fn slot(block: &[u8], at: usize) -> Option<(Slot<'_>, usize)> {
    use libc::tpacket3_hdr as Header;
    let field = |offset| word(block, at.checked_add(offset)?);
    let kept = field(std::mem::offset_of!(Header, tp_snaplen))? as usize;
    let whole = field(std::mem::offset_of!(Header, tp_len))? as usize;
    let next = field(std::mem::offset_of!(Header, tp_next_offset))? as usize;
    let mac = usize::from(half(block, at + std::mem::offset_of!(Header, tp_mac))?);
    // The virtio-net header stands right before the frame.
    let start = at.checked_add(mac)?.checked_sub(super::HEADER)?;
    let bytes = block.get(start..)?.get(..super::HEADER.checked_add(kept)?)?;
    Some((Slot { bytes, truncated: kept < whole }, at.checked_add(next)?))
}

/// Takes any bytes for a block, for fuzzing: nothing may panic.
pub(crate) fn fuzz(block: &[u8]) {
    let (mut at, mut left) = (word(block, 0).unwrap_or(0) as usize % 64, 1000);
    while left > 0
        && let Some((slot, next)) = slot(block, at)
    {
        assert!(slot.bytes.len() >= super::HEADER);
        (at, left) = (next, left - 1);
    }
}
