//! Memory that two processes share, as words that are only ever read and written as atomics: whatever the
//! other process does to it at the same time is at worst a wrong number.

use crate::sys::{self, check};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

const _: () = assert!(align_of::<AtomicU64>() == align_of::<u64>());

/// Octets of a word.
pub(super) const WORD: usize = 8;

/// Words that another process may have too.
pub(super) struct Region {
    base: NonNull<AtomicU64>,
    words: usize,
    /// The words are this process's own memory, not a mapping.
    private: bool,
}

// SAFETY: nothing but shared references to atomics is ever given out.
unsafe impl Send for Region {}
// SAFETY: as for `Send`.
unsafe impl Sync for Region {}

impl Region {
    /// New memory of `len` octets, and the descriptor to hand to the other process. Its size can never change
    /// again: a file cut short under our feet would kill us.
    pub(super) fn create(len: usize) -> io::Result<(Region, OwnedFd)> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: a name that ends in NUL; returns a new descriptor.
        let fd = unsafe { sys::owned(libc::memfd_create(c"millstream-shm".as_ptr(), flags)) }?;
        // SAFETY: takes numbers only.
        check(unsafe { libc::ftruncate(fd.as_raw_fd(), len as libc::off_t) })?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: takes numbers only.
        check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
        Ok((Region::map(fd.as_fd(), len)?, fd))
    }

    /// Memory that another process made, if it is what it should be.
    pub(super) fn adopt(fd: BorrowedFd<'_>, len: usize) -> io::Result<Region> {
        // SAFETY: takes numbers only.
        let seals = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) })?;
        // SAFETY: all zero is a valid stat.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `stat` is writable.
        check(unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) })?;
        if seals & libc::F_SEAL_SHRINK == 0 || stat.st_size != len as libc::off_t {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Region::map(fd, len)
    }

    fn map(fd: BorrowedFd<'_>, len: usize) -> io::Result<Region> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Region { base, words: len / WORD, private: false })
    }

    /// Memory of this process alone, for models.
    pub(super) fn private(len: usize) -> Region {
        // Zeroed by the kernel where it is touched, so that a model costs no more than what it uses.
        let own = Box::leak(vec![0_u64; len / WORD].into_boxed_slice());
        Region { words: own.len(), base: NonNull::from(own).cast(), private: true }
    }

    /// The words from octet `at` on, `len` octets of them; both are multiples of a word.
    pub(super) fn words(&self, at: usize, len: usize) -> &[AtomicU64] {
        // SAFETY: the mapping (or the leaked box) has `words` aligned words and lives as long as `self`;
        // atomics may be changed by others at any time.
        let all = unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.words) };
        &all[at / WORD..(at + len) / WORD]
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.private {
            let own = std::ptr::slice_from_raw_parts_mut(self.base.as_ptr().cast::<u64>(), self.words);
            // SAFETY: `private` leaked a box of this pointer and length, and no reference outlives `self`.
            drop(unsafe { Box::from_raw(own) });
            return;
        }
        // SAFETY: base and length came from mmap, and no reference outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.words * WORD) };
    }
}

/// Copy `bytes` into `ring` from word `at` on, around its end.
pub(super) fn copy_in(ring: &[AtomicU64], at: usize, bytes: &[u8]) {
    let (whole, tail) = bytes.as_chunks::<WORD>();
    let (first, rest) = whole.split_at(whole.len().min(ring.len() - at));
    for (cell, word) in ring[at..].iter().zip(first).chain(ring.iter().zip(rest)) {
        cell.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
    }
    if !tail.is_empty() {
        let mut word = [0; WORD];
        word[..tail.len()].copy_from_slice(tail);
        ring[(at + whole.len()) % ring.len()].store(u64::from_ne_bytes(word), Ordering::Relaxed);
    }
}

/// Copy from word `at` of `ring` on, around its end, into `bytes`.
pub(super) fn copy_out(ring: &[AtomicU64], at: usize, bytes: &mut [u8]) {
    let (whole, tail) = bytes.as_chunks_mut::<WORD>();
    let count = whole.len();
    let (first, rest) = whole.split_at_mut(count.min(ring.len() - at));
    for (cell, word) in ring[at..].iter().zip(first).chain(ring.iter().zip(rest)) {
        *word = cell.load(Ordering::Relaxed).to_ne_bytes();
    }
    if !tail.is_empty() {
        let word = ring[(at + count) % ring.len()].load(Ordering::Relaxed).to_ne_bytes();
        tail.copy_from_slice(&word[..tail.len()]);
    }
}
