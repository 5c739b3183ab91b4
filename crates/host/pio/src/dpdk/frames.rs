//! Frames that are DPDK's packet buffers.
//!
//! ```text
//!   memory zone:  ... | pool's page | slot 0 | slot 1 | ...        a slot is where a buffer's bytes lie, for good
//!   mbufs:                            mbuf 0   mbuf 1              what DPDK says of them, in memory of its own
//! ```
//! A slot is *lent* ([`FramePool::lend`]) while its mbuf is in DPDK's hands or in stock here, and a [`Frame`] else. So
//! nothing is copied either way, and a buffer has one owner whatever a driver says.

use super::ffi::{self, Mbuf, Mempool};
use crate::open_error::OpenError;
use ring::{Frame, FramePool, Mapping, Pages};
use std::ffi::{CString, c_void};
use std::io;
use std::ptr::NonNull;

/// Bytes from one place where a buffer may start to the next, and how many there are.
const STEP: u32 = 128;
const STEPS: u32 = 16;
/// Where a packet of ours starts in its slot: in every buffer, wherever that starts.
pub(super) const START: usize = (STEP * STEPS) as usize - STEP as usize;
/// Bytes that DPDK keeps free before received data.
const BEFORE: usize = 128;
/// Bytes of a page of the mapping, in which the pool keeps its own.
const PAGE: usize = 4096;
/// Buffers in stock here, at most; and how many come and go at once.
const STOCK: usize = 64;
const LOT: usize = 32;

/// Bytes of a received packet that a slot holds, wherever its buffer starts.
pub(super) const fn room(slot: usize) -> usize {
    slot - START - BEFORE
}

/// Buffers of one queue.
pub(super) struct Frames {
    /// `None` only while it is dropped.
    pool: Option<FramePool>,
    mempool: NonNull<Mempool>,
    /// The mbuf of each slot.
    mbufs: Box<[*mut Mbuf]>,
    /// Slots whose mbufs are in stock: out of the mempool, and not in use yet.
    stock: Vec<u32>,
}

// SAFETY: the mempool may be used from any thread, and its mbufs are this value's or DPDK's.
unsafe impl Send for Frames {}

/// A piece of DPDK's memory; freed by whom has the last frame of it.
struct Zone(*const c_void);

// SAFETY: a handle, which is used once.
unsafe impl Send for Zone {}

impl Drop for Zone {
    fn drop(&mut self) {
        // SAFETY: the handle came from `ms_dpdk_memory`, and nothing uses the memory any more.
        unsafe { ffi::ms_dpdk_memory_free(self.0) };
    }
}

impl Frames {
    /// `count` frames of `slot` bytes near the device, under a name that nothing else in the process has.
    pub(super) fn new(name: &str, count: u32, slot: usize, socket: i32) -> Result<Frames, OpenError> {
        let lacking = || no_memory(count as usize * slot);
        let name = CString::new(name).map_err(|_| lacking())?;
        let align = slot.max(PAGE);
        let len = count as usize * slot;
        let mut at = std::ptr::null_mut();
        // SAFETY: a name that ends in NUL, and a place for the address.
        let zone =
            unsafe { ffi::ms_dpdk_memory(name.as_ptr(), align + len, align as u32, socket, &raw mut at) };
        let base = NonNull::new(at.cast::<u8>()).ok_or_else(lacking)?;
        let owner = Zone(zone);
        // SAFETY: the zone begins with `align` bytes, of which the last page is the pool's own; the slots follow.
        let (page, slots) = unsafe { (base.add(align - PAGE), base.add(align)) };
        // SAFETY: the zone is aligned to a page, this process's alone, and stays until its owner is dropped.
        let mapping =
            unsafe { Mapping::lent(page, PAGE + len, Pages::Merged, Box::new(move || drop(owner))) };
        let mut pool = FramePool::over(mapping, count, slot).map_err(|e| OpenError::os("make frames", e))?;
        let mut mbufs = vec![std::ptr::null_mut(); count as usize].into_boxed_slice();
        // SAFETY: `count` slots of `slot` bytes lie at `slots` in the zone, and `mbufs` has a place for each.
        let mempool = unsafe {
            ffi::ms_dpdk_pool(
                name.as_ptr(),
                zone,
                slots.as_ptr(),
                count,
                slot as u32,
                STEP,
                STEPS,
                (slot - START) as u32,
                socket,
                mbufs.as_mut_ptr(),
            )
        };
        let mempool = NonNull::new(mempool).ok_or_else(lacking)?;
        while let Some(frame) = pool.take() {
            pool.lend(frame);
        }
        debug_assert!(mbufs.iter().all(|mbuf| !mbuf.is_null()));
        Ok(Frames { pool: Some(pool), mempool, mbufs, stock: Vec::with_capacity(STOCK) })
    }

    pub(super) fn mempool(&self) -> *mut Mempool {
        self.mempool.as_ptr()
    }

    fn pool(&mut self) -> &mut FramePool {
        self.pool.as_mut().expect("there until it is dropped")
    }

    /// A frame to build a packet in, empty at [`START`].
    #[inline]
    pub(super) fn take(&mut self) -> Option<Frame> {
        if self.stock.is_empty() {
            self.fetch();
        }
        let index = self.stock.pop()?;
        self.pool().reclaim(index, START, 0)
    }

    #[inline]
    pub(super) fn retire(&mut self, frame: Frame) {
        let index = self.pool().lend(frame);
        self.stock.push(index);
        if self.stock.len() >= STOCK {
            self.put(LOT);
        }
    }

    /// Takes buffers out of the mempool; stays as it is if that has too few.
    fn fetch(&mut self) {
        let mut got = [std::ptr::null_mut(); LOT];
        // SAFETY: room for as many as are asked for.
        if unsafe { ffi::ms_dpdk_get(self.mempool(), got.as_mut_ptr(), LOT as u32) } != 0 {
            return;
        }
        let base = self.pool().mapping().0.as_ptr() as u64;
        for mbuf in got {
            // SAFETY: a live mbuf of our mempool.
            let buffer = unsafe { ffi::ms_dpdk_buffer(mbuf) } as u64;
            if let Some((index, _)) = self.pool().locate(buffer.wrapping_sub(base)) {
                self.stock.push(index);
            }
        }
    }

    /// Puts the last `count` of the stock back into the mempool.
    fn put(&mut self, count: usize) {
        let mut back = [std::ptr::null_mut(); STOCK];
        let from = self.stock.len() - count;
        for (place, index) in back.iter_mut().zip(self.stock.drain(from..)) {
            *place = self.mbufs[index as usize];
        }
        // SAFETY: mbufs of this mempool that are not in use.
        unsafe { ffi::ms_dpdk_put(self.mempool(), back.as_ptr(), count as u32) };
    }

    /// The frame of a received packet: `len` bytes at `data`, which lie whole in one buffer of ours. `None`, and
    /// nothing happened, if that is not so.
    #[inline]
    pub(super) fn received(&mut self, data: *const u8, len: u32) -> Option<Frame> {
        let pool = self.pool();
        let (index, start) = pool.locate((data as u64).wrapping_sub(pool.mapping().0.as_ptr() as u64))?;
        pool.reclaim(index, start, len as usize)
    }

    /// The frame is DPDK's: the mbuf to hand over, which says nothing of the packet yet.
    #[inline]
    pub(super) fn give(&mut self, frame: Frame) -> *mut Mbuf {
        let index = self.pool().lend(frame);
        self.mbufs[index as usize]
    }

    /// Is the frame one of these?
    #[inline]
    pub(super) fn owns(&self, frame: &Frame) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.owns(frame))
    }

    pub(super) fn strays(&self) -> u64 {
        self.pool.as_ref().map_or(0, FramePool::strays)
    }
}

impl Drop for Frames {
    /// The device is closed, so all buffers are back that it had. What another device still holds (packets go from one
    /// to the other in memory) must not go away under it: then mempool and slots stay for the life of the process.
    fn drop(&mut self) {
        while !self.stock.is_empty() {
            self.put(self.stock.len().min(LOT));
        }
        let Some(pool) = self.pool.take() else { return };
        // SAFETY: a live mempool.
        let back = unsafe { ffi::ms_dpdk_pool_holds(self.mempool()) };
        if back == pool.lent() {
            // SAFETY: nothing has an mbuf of it.
            unsafe { ffi::ms_dpdk_pool_free(self.mempool()) };
        } else {
            std::mem::forget(pool);
        }
    }
}

fn no_memory(bytes: usize) -> OpenError {
    let mib = bytes.div_ceil(1 << 20);
    OpenError::Os {
        doing: format!(
            "get {mib} MiB of DPDK's memory: reserve more huge pages (`sysctl vm.nr_hugepages=512`), or without them \
             say eal=-m,eal=2048 with the first link"
        ),
        error: io::Error::from_raw_os_error(libc::ENOMEM),
    }
}
