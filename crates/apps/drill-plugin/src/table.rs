//! Descriptors: the kernel's number that the tool knows, and the stack's.

use sock::Fd;
use std::collections::HashMap;

/// Object behind a kernel descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) fd: Fd,
    /// Its addresses are written as IPv6.
    pub(crate) v6: bool,
}

/// Every descriptor of this plug-in.
#[derive(Default)]
pub(crate) struct Table {
    entries: HashMap<i32, Entry>,
}

impl Table {
    /// A number from the kernel. Where it stood for something, the tool has closed that behind our back: what it was.
    pub(crate) fn insert(&mut self, number: i32, entry: Entry) -> Option<Entry> {
        self.entries.insert(number, entry)
    }

    pub(crate) fn get(&self, number: i32) -> Option<Entry> {
        self.entries.get(&number).copied()
    }

    pub(crate) fn remove(&mut self, number: i32) -> Option<Entry> {
        self.entries.remove(&number)
    }
}
