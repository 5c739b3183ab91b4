//! A slab that grows by pages, so that a million entries never move and growth costs one page.

use alloc::boxed::Box;
use alloc::vec::Vec;

const PAGE_BITS: u32 = 8;
const PAGE: usize = 1 << PAGE_BITS;

enum Entry<T> {
    Full(T),
    /// Index of the next vacant entry, `u32::MAX` at the end.
    Vacant(u32),
}

/// Values addressed by a small index that stays valid until removed. Entries never move; freed ones are
/// reused last-in first-out (the warmest first). At most `limit` entries live at once.
pub struct Slab<T> {
    pages: Vec<Box<[Entry<T>]>>,
    vacant: u32,
    len: u32,
    limit: u32,
}

impl<T> Slab<T> {
    /// An empty slab that will hold at most `limit` values.
    pub fn new(limit: u32) -> Self {
        Slab { pages: Vec::new(), vacant: u32::MAX, len: 0, limit }
    }

    /// How many values live here.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Does nothing live here?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The most values this slab will hold.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Bytes reserved for entries, vacant ones included.
    pub fn footprint(&self) -> usize {
        self.pages.len() * PAGE * size_of::<Entry<T>>()
    }

    /// Store `value`; a full slab gives it back.
    pub fn insert(&mut self, value: T) -> Result<u32, T> {
        if self.len >= self.limit {
            return Err(value);
        }
        if self.vacant == u32::MAX {
            self.grow();
        }
        let index = self.vacant;
        let entry = &mut self.pages[index as usize >> PAGE_BITS][index as usize & (PAGE - 1)];
        if let Entry::Vacant(next) = *entry {
            self.vacant = next;
        }
        *entry = Entry::Full(value);
        self.len += 1;
        Ok(index)
    }

    fn grow(&mut self) {
        let first = (self.pages.len() * PAGE) as u32;
        let last = first + PAGE as u32 - 1;
        let page = (first..=last).map(|i| Entry::Vacant(if i == last { u32::MAX } else { i + 1 })).collect();
        self.pages.push(page);
        self.vacant = first;
    }

    /// Take the value at `index` out, if one lives there.
    pub fn remove(&mut self, index: u32) -> Option<T> {
        let entry = self.pages.get_mut(index as usize >> PAGE_BITS)?.get_mut(index as usize & (PAGE - 1))?;
        if let Entry::Vacant(_) = entry {
            return None;
        }
        let Entry::Full(value) = core::mem::replace(entry, Entry::Vacant(self.vacant)) else { return None };
        self.vacant = index;
        self.len -= 1;
        Some(value)
    }

    /// The value at `index`.
    pub fn get(&self, index: u32) -> Option<&T> {
        match self.pages.get(index as usize >> PAGE_BITS)?.get(index as usize & (PAGE - 1))? {
            Entry::Full(value) => Some(value),
            Entry::Vacant(_) => None,
        }
    }

    /// The value at `index`, to change.
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        match self.pages.get_mut(index as usize >> PAGE_BITS)?.get_mut(index as usize & (PAGE - 1))? {
            Entry::Full(value) => Some(value),
            Entry::Vacant(_) => None,
        }
    }

    /// All values with their indices, in index order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.pages.iter().flat_map(|page| page.iter()).enumerate().filter_map(|(i, entry)| match entry {
            Entry::Full(value) => Some((i as u32, value)),
            Entry::Vacant(_) => None,
        })
    }
}

#[cfg(test)]
mod tests;
