//! Frames: owned slots of a pool.
//!
//! The mapping starts with a page for [`Header`], then come the slots:
//!
//! ```text
//!   | Header | slot 0 | slot 1 | ... | slot n-1 |
//!            ^ base = what the kernel registers as UMEM
//! ```
//! A slot has one owner: the pool's free list, a [`Frame`], or (lent) the kernel or a peer.
//!
//! **Who unmaps.** Taking and retiring touch no atomic: the pool knows how many frames are out by subtraction. Only
//! a frame dropped without `retire` (a stray) and the end of the pool count in the header; a thread that comes last
//! gives the mapping back. So a frame may outlive its pool, and a stray costs a slot but never soundness.

use crate::map::{Mapping, PAGE, Pages, empty_in_children};
use crate::sync::UnsafeCell;
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use std::io;

/// The pool's own share of [`Header::owners`]: more than there can be frames.
const POOL_SHARE: u64 = 1 << 40;

/// State that frames and pool share, in the page before the slots.
struct Header {
    /// `POOL_SHARE` less the strays while the pool lives, afterwards the frames still out; 0 unmaps.
    owners: AtomicU64,
    mapping: UnsafeCell<ManuallyDrop<Mapping>>,
}

const _: () = assert!(size_of::<Header>() <= PAGE);

/// Give up `shares` of a mapping, and the mapping itself if they were the last.
///
/// # Safety
/// The caller owns the shares and uses neither the header nor a slot afterwards.
unsafe fn give_up(header: NonNull<Header>, shares: u64) {
    // Loom sees neither slots nor pages; a look at the mapping stands for what the owner of the shares did there.
    #[cfg(loom)]
    // SAFETY: as below.
    unsafe { header.as_ref() }.mapping.with(|_| ());
    // SAFETY: the caller's shares keep the header alive up to this subtraction.
    if unsafe { header.as_ref() }.owners.fetch_sub(shares, Ordering::Release) != shares {
        return;
    }
    // Everything that others did with their slots happened before their subtraction.
    fence(Ordering::Acquire);
    // SAFETY: nothing else holds a share, so this reference is alone; the header lies inside the mapping, so the
    // mapping is moved out before it is given back.
    unsafe {
        let mapping = header.as_ref().mapping.with_mut(|mapping| ManuallyDrop::take(&mut *mapping));
        header.drop_in_place();
        drop(mapping);
    }
}

/// An owned slot of a [`FramePool`]: not `Clone`, so one owner at a time reads and writes it.
/// `data()` is `start..start + len` inside the slot; headroom lies before it.
///
/// Give it back with [`FramePool::retire`]. Dropping it instead is a bug that costs the slot for the life of the
/// pool and is counted in [`FramePool::strays`], but it is safe, and quite in order once the pool is gone.
pub struct Frame {
    slot: NonNull<u8>,
    index: u32,
    size: u32,
    /// Where the packet starts, and above that its length: one word, because frames are moved right after it was
    /// written, and a load of two words that were stored one by one waits for both to reach the cache.
    place: u64,
}

const _: () = assert!(size_of::<Frame>() == 24 && size_of::<Option<Frame>>() == 24);

// SAFETY: a `Frame` is the only way to its slot, and slots are plain bytes.
unsafe impl Send for Frame {}
// SAFETY: `&Frame` only reads.
unsafe impl Sync for Frame {}

impl Frame {
    /// The bytes that hold the packet.
    #[inline]
    pub fn data(&self) -> &[u8] {
        // SAFETY: `start + len <= size` always holds, the slot is mapped while this frame has its share, its bytes
        // were zeroed once and so are initialised, and this frame is its only owner.
        unsafe { core::slice::from_raw_parts(self.slot.add(self.headroom()).as_ptr(), self.len()) }
    }

    /// The bytes that hold the packet, to change.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `data`, and `&mut self` excludes every other reference.
        unsafe { core::slice::from_raw_parts_mut(self.slot.add(self.headroom()).as_ptr(), self.len()) }
    }

    /// The whole slot, headroom and tailroom included.
    #[inline]
    pub fn slot(&self) -> &[u8] {
        // SAFETY: as in `data`, for the whole slot.
        unsafe { core::slice::from_raw_parts(self.slot.as_ptr(), self.size as usize) }
    }

    /// The whole slot, to change.
    #[inline]
    pub fn slot_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `data_mut`, for the whole slot.
        unsafe { core::slice::from_raw_parts_mut(self.slot.as_ptr(), self.size as usize) }
    }

    /// Places the packet at `start..start + len` of the slot. Panics if that is outside it.
    #[inline]
    pub fn set_range(&mut self, start: usize, len: usize) {
        let size = self.size as usize;
        assert!(start <= size && len <= size - start, "range {start}+{len} outside a slot of {size}");
        self.place = (len as u64) << 32 | start as u64;
    }

    /// Bytes before the packet.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.place as u32 as usize
    }

    /// Slot size.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.size as usize
    }

    /// Packet length.
    #[inline]
    pub fn len(&self) -> usize {
        (self.place >> 32) as usize
    }

    /// Is the packet empty?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Index of the slot in its pool (its UMEM offset is `index * slot_size`).
    #[inline]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Offset of the packet's first byte from the base of the pool: an AF_XDP descriptor's address.
    #[inline]
    pub fn offset(&self) -> u64 {
        u64::from(self.index) * u64::from(self.size) + self.headroom() as u64
    }

    /// Base of the pool, from which every slot pointer is derived.
    fn base(&self) -> NonNull<u8> {
        // SAFETY: slot `index` lies `index * size` bytes after the base, in the same mapping.
        unsafe { self.slot.sub(self.index as usize * self.size as usize) }
    }
}

impl Drop for Frame {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: the header lies one page before the base. This frame was counted as out, which is one share,
        // and it is gone after this.
        unsafe { give_up(self.base().sub(PAGE).cast(), 1) }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame(#{} {}+{} of {})", self.index, self.headroom(), self.len(), self.size)
    }
}

/// A fixed number of equal slots in one mapping (huge pages where the machine has them).
///
/// Belongs to one thread at a time; its frames may travel.
pub struct FramePool {
    base: NonNull<u8>,
    slots: u32,
    size: u32,
    /// Last in, first out: the slot used last is the one still in the cache.
    free: Vec<u32>,
    refused: u64,
    lent: u32,
    /// One bit per slot: only what was lent can be reclaimed.
    lent_bits: Vec<u64>,
}

// SAFETY: the pool owns its free slots alone and shares with frames only the atomic header.
unsafe impl Send for FramePool {}

impl FramePool {
    /// Map `slots` slots of `slot_size` bytes (a power of two, 64 bytes to 1 GiB). Tries reserved huge pages,
    /// then asks the kernel to merge ordinary ones.
    pub fn new(slots: u32, slot_size: usize) -> io::Result<FramePool> {
        FramePool::with_pages(slots, slot_size, Pages::Huge)
    }

    /// [`FramePool::new`] on pages no better than `best`. [`Pages::Normal`] suits a process with thousands of pools
    /// (the laboratory): memory is then used only for slots that were touched.
    pub fn with_pages(slots: u32, slot_size: usize, best: Pages) -> io::Result<FramePool> {
        if !sound(slots, slot_size) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let len = slot_size.checked_mul(slots as usize).and_then(|n| n.checked_add(PAGE));
        FramePool::over(Mapping::anonymous(len.ok_or(io::ErrorKind::InvalidInput)?, best)?, slots, slot_size)
    }

    /// Slots in memory that is there already: a page for the pool itself, then the slots.
    pub fn over(mapping: Mapping, slots: u32, slot_size: usize) -> io::Result<FramePool> {
        let room = mapping.len().saturating_sub(PAGE) / slot_size.max(1);
        if !sound(slots, slot_size) || room < slots as usize {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let header: NonNull<Header> = mapping.ptr().cast();
        // SAFETY: the mapping has a page for the header and is aligned to a page; the slots follow it.
        let base = unsafe {
            let mapping = UnsafeCell::new(ManuallyDrop::new(mapping));
            header.write(Header { owners: AtomicU64::new(POOL_SHARE), mapping });
            header.cast::<u8>().add(PAGE)
        };
        Ok(FramePool {
            base,
            slots,
            size: slot_size as u32,
            free: (0..slots).rev().collect(),
            refused: 0,
            lent: 0,
            lent_bits: vec![0; (slots as usize).div_ceil(64)],
        })
    }

    /// Take a free slot; its data range is empty at offset 0. What a former owner wrote is still in it.
    #[inline]
    pub fn take(&mut self) -> Option<Frame> {
        let Some(index) = self.free.pop() else {
            self.refused += 1;
            return None;
        };
        Some(self.mint(index, 0, 0))
    }

    /// Give a slot back. Panics if the frame is another pool's.
    #[inline]
    pub fn retire(&mut self, frame: Frame) {
        let index = self.unmake(frame);
        self.free.push(index);
    }

    /// Is the frame one of this pool's?
    #[inline]
    pub fn owns(&self, frame: &Frame) -> bool {
        // A live frame keeps its mapping, so two pools never have the same base.
        frame.base() == self.base
    }

    /// Give a slot into the hands of the kernel or a peer, which will name it by the returned index (or by
    /// [`Frame::offset`], to be asked for before). Panics if the frame is another pool's.
    #[inline]
    pub fn lend(&mut self, frame: Frame) -> u32 {
        let index = self.unmake(frame);
        self.lent_bits[index as usize / 64] |= 1 << (index % 64);
        self.lent += 1;
        index
    }

    /// Own a lent slot again, with the packet at `start..start + len`. `None`, and nothing changes, if the slot is
    /// not lent or the range is outside it: wrong numbers from outside never make two owners.
    #[inline]
    pub fn reclaim(&mut self, index: u32, start: usize, len: usize) -> Option<Frame> {
        let size = self.size as usize;
        let bit = 1 << (index % 64);
        let word = self.lent_bits.get_mut(index as usize / 64)?;
        if *word & bit == 0 || start > size || len > size - start {
            return None;
        }
        *word &= !bit;
        self.lent -= 1;
        Some(self.mint(index, start as u32, len as u32))
    }

    /// The slot and the place in it that an offset from the base means; `None` outside the pool.
    #[inline]
    pub fn locate(&self, offset: u64) -> Option<(u32, usize)> {
        let index = offset >> self.size.trailing_zeros();
        (index < u64::from(self.slots)).then(|| (index as u32, (offset & u64::from(self.size - 1)) as usize))
    }

    /// Free slots.
    #[inline]
    pub fn available(&self) -> u32 {
        self.free.len() as u32
    }

    /// Times a slot was asked for and none was free.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Slots lent and not reclaimed.
    pub fn lent(&self) -> u32 {
        self.lent
    }

    /// Slots altogether.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Bytes of a slot.
    pub fn slot_size(&self) -> usize {
        self.size as usize
    }

    /// Slots lost because their frames were dropped instead of retired.
    pub fn strays(&self) -> u64 {
        POOL_SHARE - self.header().owners.load(Ordering::Relaxed)
    }

    /// First slot and length of all slots together, to register with the kernel (UMEM). Valid while the pool lives;
    /// a thread that writes through it writes only to slots that are lent.
    pub fn mapping(&self) -> (NonNull<u8>, usize) {
        (self.base, self.slots as usize * self.size as usize)
    }

    /// A child of fork(2) finds the slots empty. Slots that the kernel has pinned ([`mapping`](Self::mapping)) would be
    /// copied one by one at each fork, for a child that has no use for its parent's packets. Reserved huge pages know
    /// no such advice, and stay as they are.
    pub fn empty_in_children(&self) {
        let (base, len) = self.mapping();
        empty_in_children(base, len);
    }

    /// Returns the kind of pages of the slots.
    pub fn pages(&self) -> Pages {
        // SAFETY: the mapping is written only when the last share is given up, and the pool has its own.
        self.header().mapping.with(|mapping| unsafe { (*mapping).pages() })
    }

    fn header(&self) -> &Header {
        // SAFETY: the header lies one page before the base and lives while the pool has its share.
        unsafe { self.base.sub(PAGE).cast().as_ref() }
    }

    /// Makes the owner of a slot that is neither free nor lent nor in a frame.
    #[inline]
    fn mint(&self, index: u32, start: u32, len: u32) -> Frame {
        // SAFETY: `index < slots`, so the slot lies inside the mapping.
        let slot = unsafe { self.base.add(index as usize * self.size as usize) };
        Frame { slot, index, size: self.size, place: u64::from(len) << 32 | u64::from(start) }
    }

    /// Takes a frame apart without counting it as stray.
    #[inline]
    fn unmake(&self, frame: Frame) -> u32 {
        assert!(self.owns(&frame), "frame of another pool");
        ManuallyDrop::new(frame).index
    }
}

fn sound(slots: u32, slot_size: usize) -> bool {
    slots > 0 && slot_size.is_power_of_two() && (64..=1 << 30).contains(&slot_size)
}

impl Drop for FramePool {
    fn drop(&mut self) {
        // Strays are out too, and have given up their shares already or will.
        let out = u64::from(self.slots) - self.free.len() as u64 - u64::from(self.lent);
        // SAFETY: the pool's share less one for each frame out; the pool touches nothing afterwards.
        unsafe { give_up(self.base.sub(PAGE).cast(), POOL_SHARE - out) }
    }
}

impl fmt::Debug for FramePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "FramePool({} of {} bytes, {} free, {} lent, {:?} pages)",
            self.slots,
            self.size,
            self.available(),
            self.lent,
            self.pages()
        )
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;
