//! Tables that grow and never move, on huge pages once they are large.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::NonNull;
use std::alloc::{alloc, dealloc, handle_alloc_error};

use crate::map::{Mapping, Pages};

/// A table that is smaller takes its pages one by one from the allocator: a process may have thousands.
const SMALL: usize = 2 << 20;
/// Bytes that a larger table maps at once: a quarter of itself, within these bounds.
const BLOCK_MIN: usize = 2 << 20;
const BLOCK_MAX: usize = 64 << 20;

/// Items by number, in pages of `PAGE` (a power of two), which stay where they are: growing copies nothing.
///
/// A table of millions of items is read all over. With ordinary pages of the machine nearly each of those reads misses
/// the cache of addresses (TLB), which costs more than the read; so a table that has become large asks for huge ones.
pub struct Table<T, const PAGE: usize> {
    pages: Vec<NonNull<[T; PAGE]>>,
    /// How many of the first pages came from the allocator.
    singles: usize,
    blocks: Vec<Mapping>,
    /// Bytes of the last block that have no page yet.
    left: usize,
    owns: PhantomData<T>,
}

// SAFETY: a table owns its items as a vector does.
unsafe impl<T: Send, const PAGE: usize> Send for Table<T, PAGE> {}
// SAFETY: `&Table` gives `&T` only.
unsafe impl<T: Sync, const PAGE: usize> Sync for Table<T, PAGE> {}

impl<T, const PAGE: usize> Default for Table<T, PAGE> {
    fn default() -> Self {
        Table::new()
    }
}

impl<T, const PAGE: usize> Table<T, PAGE> {
    const LAYOUT: Layout = Layout::new::<[T; PAGE]>();
    const OK: () = assert!(PAGE.is_power_of_two() && size_of::<T>() > 0 && align_of::<T>() <= 4096);

    /// An empty table, which holds no memory.
    pub const fn new() -> Self {
        let () = Self::OK;
        Table { pages: Vec::new(), singles: 0, blocks: Vec::new(), left: 0, owns: PhantomData }
    }

    /// Items it has: those of whole pages.
    #[inline]
    pub fn len(&self) -> usize {
        self.pages.len() * PAGE
    }

    /// Has it no page?
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Bytes that its items take. (What is mapped for more of them takes memory when it is first written.)
    pub fn footprint(&self) -> usize {
        self.pages.len() * size_of::<[T; PAGE]>()
    }

    /// Adds a page, whose items `make` gives by their number in the table.
    ///
    /// Without memory the process ends, as with a vector.
    pub fn grow(&mut self, mut make: impl FnMut(usize) -> T) {
        let page = self.page();
        let first = self.len();
        for nth in 0..PAGE {
            // SAFETY: `page` is memory for `PAGE` items, aligned for them, and no other's.
            unsafe { page.cast::<T>().add(nth).write(make(first + nth)) };
        }
        self.pages.push(page);
    }

    /// Memory for one more page.
    #[cold]
    fn page(&mut self) -> NonNull<[T; PAGE]> {
        let bytes = size_of::<[T; PAGE]>();
        if self.blocks.is_empty() && (self.singles + 1) * bytes <= SMALL {
            return self.single();
        }
        if self.left < bytes {
            let len = (self.footprint() / 4).clamp(BLOCK_MIN, BLOCK_MAX).max(bytes);
            match Mapping::anonymous(len.next_multiple_of(BLOCK_MIN), Pages::Merged) {
                Ok(block) => {
                    self.left = block.len();
                    self.blocks.push(block);
                }
                Err(_) => handle_alloc_error(Self::LAYOUT),
            }
        }
        let Some(block) = self.blocks.last() else { handle_alloc_error(Self::LAYOUT) };
        let at = block.len() - self.left;
        self.left -= bytes;
        // SAFETY: `left` bytes at the block's end were not in use, and `bytes` are no more. A block begins at a page
        // of the machine, and the size of a type is a multiple of its alignment, so `at` is one, too.
        unsafe { block.ptr().add(at).cast() }
    }

    fn single(&mut self) -> NonNull<[T; PAGE]> {
        // SAFETY: items have a size, and there is at least one.
        let page = unsafe { alloc(Self::LAYOUT) };
        let Some(page) = NonNull::new(page) else { handle_alloc_error(Self::LAYOUT) };
        self.singles += 1;
        page.cast()
    }

    /// The item of a number.
    ///
    /// # Panics
    /// If the table has not so many.
    #[inline(always)]
    pub fn get(&self, index: usize) -> &T {
        // SAFETY: a page in the list holds `PAGE` items as long as the table lives, lent no longer than it is.
        let page = unsafe { self.pages[index / PAGE].as_ref() };
        &page[index % PAGE]
    }

    /// The item of a number, to change.
    ///
    /// # Panics
    /// If the table has not so many.
    #[inline(always)]
    pub fn get_mut(&mut self, index: usize) -> &mut T {
        // SAFETY: as above; the table is borrowed alone.
        let page = unsafe { self.pages[index / PAGE].as_mut() };
        &mut page[index % PAGE]
    }

    /// Every item, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        // SAFETY: as in `get`.
        self.pages.iter().flat_map(|page| unsafe { page.as_ref() })
    }

    /// Every item, in order, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        // SAFETY: as in `get_mut`; no page is in the list twice.
        self.pages.iter_mut().flat_map(|page| unsafe { page.as_mut() })
    }
}

impl<T, const PAGE: usize> Drop for Table<T, PAGE> {
    fn drop(&mut self) {
        for (nth, page) in self.pages.iter().enumerate() {
            // SAFETY: all items of a page in the list are there, and nothing looks at them after this.
            unsafe { page.drop_in_place() };
            if nth < self.singles {
                // SAFETY: the first pages came from the allocator, with this layout.
                unsafe { dealloc(page.as_ptr().cast(), Self::LAYOUT) };
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
