//! Anonymous memory straight from the kernel, on huge pages where the machine has them.

use core::ptr::NonNull;
use std::io;

/// Which pages back a [`Mapping`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pages {
    /// Reserved 2 MiB pages (`vm.nr_hugepages`).
    Huge,
    /// Ordinary pages which the kernel was asked to merge (`MADV_HUGEPAGE`).
    Merged,
    /// Ordinary pages, touched one by one: for many small pools in one process.
    Normal,
}

/// Memory of this process, given back when dropped.
pub struct Mapping {
    ptr: NonNull<u8>,
    len: usize,
    pages: Pages,
    /// How it is given back, if it is another's.
    give_back: Option<Box<dyn FnOnce() + Send>>,
}

// SAFETY: a `Mapping` owns its memory alone and hands out nothing but raw pointers.
unsafe impl Send for Mapping {}
// SAFETY: `&Mapping` gives addresses and numbers only.
unsafe impl Sync for Mapping {}

/// Size of a reserved huge page.
const HUGE: usize = 2 << 20;
/// Alignment that every mapping has at least.
pub(crate) const PAGE: usize = 4096;

impl Mapping {
    /// Map at least `len` zeroed bytes, on the best pages up to `best` that can be had.
    pub fn anonymous(len: usize, best: Pages) -> io::Result<Mapping> {
        if len == 0 || len > isize::MAX as usize - HUGE {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if best == Pages::Huge && len >= HUGE {
            let rounded = len.next_multiple_of(HUGE);
            if let Ok(ptr) = sys::map(rounded, true) {
                return Ok(Mapping { ptr, len: rounded, pages: Pages::Huge, give_back: None });
            }
        }
        let rounded = len.next_multiple_of(PAGE);
        let ptr = sys::map(rounded, false)?;
        let merged = best != Pages::Normal && rounded >= HUGE && sys::ask_huge(ptr, rounded);
        let pages = if merged { Pages::Merged } else { Pages::Normal };
        Ok(Mapping { ptr, len: rounded, pages, give_back: None })
    }

    /// Memory that another library has set apart, which `give_back` returns to it.
    ///
    /// # Safety
    /// `ptr` is aligned to a page, and `len` bytes from there are initialised, readable and writable, and nothing
    /// else's until `give_back` is called.
    pub unsafe fn lent(
        ptr: NonNull<u8>,
        len: usize,
        pages: Pages,
        give_back: Box<dyn FnOnce() + Send>,
    ) -> Mapping {
        Mapping { ptr, len, pages, give_back: Some(give_back) }
    }

    /// First byte; aligned to a page.
    pub fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// Bytes mapped, at least as many as were asked for.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: an empty mapping cannot be made.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the kind of its pages.
    pub fn pages(&self) -> Pages {
        self.pages
    }
}

/// A child of fork(2) finds these bytes of a [`Mapping`] zeroed, unless they lie on reserved huge pages.
pub(crate) fn empty_in_children(ptr: NonNull<u8>, len: usize) {
    sys::empty_in_children(ptr, len);
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Some(give_back) = self.give_back.take() {
            return give_back();
        }
        // SAFETY: `ptr` and `len` came from `sys::map` and nothing unmapped them before.
        unsafe { sys::unmap(self.ptr, self.len) }
    }
}

#[cfg(not(any(miri, loom)))]
mod sys {
    use core::ptr::NonNull;
    use std::io;

    pub(super) fn map(len: usize, huge: bool) -> io::Result<NonNull<u8>> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let flags = if huge { flags | libc::MAP_HUGETLB | libc::MAP_HUGE_2MB } else { flags };
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
        let ptr = unsafe {
            libc::mmap(core::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if ptr == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(ptr.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    pub(super) fn ask_huge(ptr: NonNull<u8>, len: usize) -> bool {
        // SAFETY: advice about a mapping of ours changes no content.
        unsafe { libc::madvise(ptr.as_ptr().cast(), len, libc::MADV_HUGEPAGE) == 0 }
    }

    pub(super) fn empty_in_children(ptr: NonNull<u8>, len: usize) {
        // SAFETY: advice about memory of ours changes nothing in this process. Where the kernel refuses it, a child has
        // a copy, as of all other memory.
        unsafe { libc::madvise(ptr.as_ptr().cast(), len, libc::MADV_WIPEONFORK) };
    }

    /// # Safety
    /// `ptr` and `len` come from `map`, and nothing uses the memory any more.
    pub(super) unsafe fn unmap(ptr: NonNull<u8>, len: usize) {
        // SAFETY: the caller's promise. A failure could only mean that the promise was broken.
        let rc = unsafe { libc::munmap(ptr.as_ptr().cast(), len) };
        debug_assert_eq!(rc, 0);
    }
}

/// Miri and loom know an allocator, not the kernel.
#[cfg(any(miri, loom))]
mod sys {
    use core::ptr::NonNull;
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::io;

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, super::PAGE).expect("length was checked by the caller")
    }

    pub(super) fn map(len: usize, huge: bool) -> io::Result<NonNull<u8>> {
        if huge {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        // SAFETY: `len` is not zero, `Mapping::anonymous` saw to it.
        NonNull::new(unsafe { alloc_zeroed(layout(len)) }).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    pub(super) fn ask_huge(_ptr: NonNull<u8>, _len: usize) -> bool {
        false
    }

    pub(super) fn empty_in_children(_ptr: NonNull<u8>, _len: usize) {}

    /// # Safety
    /// `ptr` and `len` come from `map`, and nothing uses the memory any more.
    pub(super) unsafe fn unmap(ptr: NonNull<u8>, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { dealloc(ptr.as_ptr(), layout(len)) }
    }
}
