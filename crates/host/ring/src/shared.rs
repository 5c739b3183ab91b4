//! Memory shared with another process, which may be hostile: it can write anything, anywhere, at any moment.
//!
//! So it is words that are only ever read and written as atomics, and whatever the other process does at the same time
//! is at worst a wrong number. Nothing here hands out a reference to plain bytes; every place is checked on every
//! access; and the memory is sealed against shrinking, so that a peer cannot take pages away under our feet (SIGBUS).

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const _: () = assert!(align_of::<AtomicU64>() == align_of::<u64>());

/// Bytes of a word.
pub const WORD: usize = 8;

/// Words that another process may have too.
#[derive(Debug)]
pub struct SharedMemory {
    base: NonNull<AtomicU64>,
    words: usize,
    /// The words are this process's own memory, not a mapping.
    private: bool,
}

// SAFETY: nothing but shared references to atomics is ever given out.
unsafe impl Send for SharedMemory {}
// SAFETY: as for `Send`.
unsafe impl Sync for SharedMemory {}

fn check(rc: libc::c_int) -> io::Result<libc::c_int> {
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc) }
}

impl SharedMemory {
    /// New zeroed memory of `len` bytes, a multiple of [`WORD`], and the descriptor to pass to the peer. Its size can
    /// never change again. `name` is what `/proc/self/maps` shows.
    pub fn create(name: &CStr, len: usize) -> io::Result<(SharedMemory, OwnedFd)> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: `name` is a C string that lives through the call.
        let fd = check(unsafe { libc::memfd_create(name.as_ptr(), flags) })?;
        // SAFETY: the kernel just gave this descriptor to us alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let size = libc::off_t::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: takes numbers only.
        check(unsafe { libc::ftruncate(fd.as_raw_fd(), size) })?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: takes numbers only.
        check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
        Ok((SharedMemory::map(fd.as_fd(), 0, len)?, fd))
    }

    /// Memory of `len` bytes that a peer made and passed. [`io::ErrorKind::InvalidData`] if it has another size or is
    /// not sealed against shrinking.
    pub fn adopt(fd: BorrowedFd<'_>, len: usize) -> io::Result<SharedMemory> {
        // SAFETY: takes numbers only.
        let seals = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) })?;
        // SAFETY: all zero is a valid stat.
        let mut stat: libc::stat = unsafe { core::mem::zeroed() };
        // SAFETY: `stat` is writable.
        check(unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) })?;
        if seals & libc::F_SEAL_SHRINK == 0 || usize::try_from(stat.st_size) != Ok(len) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        SharedMemory::map(fd, 0, len)
    }

    /// `len` bytes from byte `at` on (whole pages) of a file that only processes of the same user may open, and that
    /// none of them makes shorter: where other users could, [`SharedMemory::adopt`] is for. Memory behind the file's
    /// end, and a full file system, kill the process that touches it (SIGBUS): allocate what will be used.
    ///
    /// # Errors
    /// There is no room for the mapping.
    pub fn of_file(fd: BorrowedFd<'_>, at: usize, len: usize) -> io::Result<SharedMemory> {
        SharedMemory::map(fd, at, len)
    }

    fn map(fd: BorrowedFd<'_>, at: usize, len: usize) -> io::Result<SharedMemory> {
        if len == 0 || !len.is_multiple_of(WORD) || len > isize::MAX as usize {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let at = at as libc::off_t;
            libc::mmap(core::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd.as_raw_fd(), at)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedMemory { base, words: len / WORD, private: false })
    }

    /// Memory of this process alone, for models that need no kernel.
    pub fn private(len: usize) -> SharedMemory {
        // Zeroed by the kernel where it is touched, so that a model costs no more than what it uses.
        let own = Box::leak(vec![0_u64; len / WORD].into_boxed_slice());
        SharedMemory { words: own.len(), base: NonNull::from(own).cast(), private: true }
    }

    /// The words from byte `at` on, `len` bytes of them. Panics if they are not all inside; both count whole words.
    #[inline]
    pub fn words(&self, at: usize, len: usize) -> &[AtomicU64] {
        // SAFETY: the mapping (or the leaked box) has `words` aligned words and lives as long as `self`; atomics may be
        // changed by others at any time.
        let all = unsafe { core::slice::from_raw_parts(self.base.as_ptr(), self.words) };
        &all[at / WORD..(at + len) / WORD]
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        if self.private {
            let own = core::ptr::slice_from_raw_parts_mut(self.base.as_ptr().cast::<u64>(), self.words);
            // SAFETY: `private` leaked a box of this pointer and length, and no reference outlives `self`.
            drop(unsafe { Box::from_raw(own) });
            return;
        }
        // SAFETY: base and length came from mmap, and no reference outlives `self`.
        let rc = unsafe { libc::munmap(self.base.as_ptr().cast(), self.words * WORD) };
        debug_assert_eq!(rc, 0);
    }
}

/// Copies `bytes` into `ring` from word `at` on, around its end. What is left of the last word becomes zero. Panics if
/// `at` is outside, or `bytes` longer than the ring.
pub fn copy_in(ring: &[AtomicU64], at: usize, bytes: &[u8]) {
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

/// Copies from word `at` of `ring` on, around its end, what fills `bytes`. The peer may change it at the same time:
/// check the copy, not the original. Panics as [`copy_in`] does.
pub fn copy_out(ring: &[AtomicU64], at: usize, bytes: &mut [u8]) {
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

#[cfg(all(test, not(loom)))]
mod tests;
