//! Memory shared with another process, which may be hostile: it can write anything, anywhere, at any moment.
//!
//! So nothing here hands out a reference to plain octets. Data is copied in and out by accesses that the compiler
//! may not look through, words are atomics, every offset is checked on every access, and the memory is sealed
//! against shrinking, so that a peer cannot take pages away under our feet (SIGBUS).

use crate::sync::atomic::{AtomicU32, AtomicU64};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use core::ptr::NonNull;

/// An access outside the shared memory, or not aligned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outside;

impl core::fmt::Display for Outside {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("offset outside the shared memory")
    }
}

impl core::error::Error for Outside {}

/// Memory that two processes map, passed between them as a descriptor.
#[derive(Debug)]
pub struct SharedMap {
    ptr: NonNull<u8>,
    len: usize,
    fd: OwnedFd,
}

// SAFETY: the memory is reached only by atomics and opaque copies, from any thread of any process.
unsafe impl Send for SharedMap {}
// SAFETY: as above.
unsafe impl Sync for SharedMap {}

impl SharedMap {
    /// New zeroed memory of `len` octets, sealed at this size. `name` is what `/proc/self/maps` shows.
    pub fn create(name: &str, len: usize) -> io::Result<SharedMap> {
        let name = CString::new(name)?;
        // SAFETY: `name` is a C string that lives through the call.
        let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave this descriptor to us alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let size = libc::off_t::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: ftruncate takes no memory.
        if unsafe { libc::ftruncate(fd.as_raw_fd(), size) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: fcntl takes no memory here.
        if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
            return Err(io::Error::last_os_error());
        }
        SharedMap::open(fd)
    }

    /// Map what a peer passed. An error if it is not sealed against shrinking or is empty.
    pub fn open(fd: OwnedFd) -> io::Result<SharedMap> {
        // SAFETY: fcntl takes no memory here.
        let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "shared memory is not sealed"));
        }
        // SAFETY: an all-zero stat is a valid value.
        let mut stat: libc::stat = unsafe { core::mem::zeroed() };
        // SAFETY: `stat` lives through the call.
        if unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let len = usize::try_from(stat.st_size).map_err(|_| io::ErrorKind::InvalidData)?;
        if len == 0 || len > isize::MAX as usize {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let ptr = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(core::ptr::null_mut(), len, access, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if ptr == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let ptr = NonNull::new(ptr.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedMap { ptr, len, fd })
    }

    /// Octets shared.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: empty memory cannot be mapped.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The descriptor, to pass to the peer.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Copy `data` to `offset`.
    pub fn copy_in(&self, offset: u64, data: &[u8]) -> Result<(), Outside> {
        let to = self.at(offset, data.len())?;
        // SAFETY: `at` checked that the range lies in the mapping, which no slice of this process can overlap.
        unsafe { opaque_copy(data.as_ptr(), to, data.len()) };
        Ok(())
    }

    /// Copy from `offset` what fills `into`. The peer may change it at the same time: check the copy, not the
    /// original.
    pub fn copy_out(&self, offset: u64, into: &mut [u8]) -> Result<(), Outside> {
        let from = self.at(offset, into.len())?;
        // SAFETY: as in `copy_in`.
        unsafe { opaque_copy(from, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// The 32-bit word at `offset`, a multiple of 4.
    pub fn word(&self, offset: u64) -> Result<&AtomicU32, Outside> {
        let at = self.at(offset, size_of::<AtomicU32>())?;
        if !offset.is_multiple_of(4) {
            return Err(Outside);
        }
        // SAFETY: in the mapping, aligned (the mapping is, to a page), and any bits are a valid atomic. Whoever
        // else writes here, in this process or another, is a concurrent access and not a data race.
        Ok(unsafe { AtomicU32::from_ptr(at.cast()) })
    }

    /// The 64-bit word at `offset`, a multiple of 8.
    pub fn long(&self, offset: u64) -> Result<&AtomicU64, Outside> {
        let at = self.at(offset, size_of::<AtomicU64>())?;
        if !offset.is_multiple_of(8) {
            return Err(Outside);
        }
        // SAFETY: as in `word`.
        Ok(unsafe { AtomicU64::from_ptr(at.cast()) })
    }

    /// The sleep flag at `offset`, a multiple of 4.
    pub fn flag(&self, offset: u64) -> Result<&crate::SleepFlag, Outside> {
        let word = core::ptr::from_ref(self.word(offset)?);
        // SAFETY: a `SleepFlag` is laid out like its word.
        Ok(unsafe { &*word.cast() })
    }

    fn at(&self, offset: u64, len: usize) -> Result<*mut u8, Outside> {
        let start = usize::try_from(offset).map_err(|_| Outside)?;
        if start > self.len || len > self.len - start {
            return Err(Outside);
        }
        // SAFETY: `start <= len` of the mapping.
        Ok(unsafe { self.ptr.add(start).as_ptr() })
    }
}

impl Drop for SharedMap {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and every reference into it borrowed `self`.
        let rc = unsafe { libc::munmap(self.ptr.as_ptr().cast(), self.len) };
        debug_assert_eq!(rc, 0);
    }
}

/// Copies as a device would: the compiler neither sees nor assumes anything about who else writes there.
///
/// # Safety
/// `from..from + len` can be read and `to..to + len` written, and they do not overlap.
#[inline]
unsafe fn opaque_copy(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise; the direction flag is clear by the calling convention.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise; volatile accesses are done as written, octet by octet.
    unsafe {
        for i in 0..len {
            to.add(i).write_volatile(from.add(i).read_volatile());
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: nothing outside is touched, both mappings see one memory, and unsealed memory is refused.
    use super::*;
    use base::Rng;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_maps_one_memory() {
        let mine = SharedMap::create("millstream-test", 10_000).unwrap();
        let theirs = SharedMap::open(mine.fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(theirs.len(), 10_000);
        let mut oracle = vec![0; 10_000];
        let mut rng = Rng::new(7);
        for _ in 0..2000 {
            let mut data = vec![0; rng.below(200) as usize];
            rng.fill(&mut data);
            let offset = rng.below(10_100);
            let fits = offset as usize + data.len() <= oracle.len();
            assert_eq!(mine.copy_in(offset, &data), if fits { Ok(()) } else { Err(Outside) });
            let mut back = vec![0; data.len()];
            assert_eq!(theirs.copy_out(offset, &mut back).is_ok(), fits);
            if fits {
                oracle[offset as usize..][..data.len()].copy_from_slice(&data);
                assert_eq!(back, data);
            }
        }
        let mut all = vec![0; 10_000];
        theirs.copy_out(0, &mut all).unwrap();
        assert_eq!(all, oracle);
    }

    #[test]
    fn words_are_checked() {
        let map = SharedMap::create("millstream-test", 100).unwrap();
        map.word(96).unwrap().store(0x0403_0201, Ordering::Relaxed);
        let mut octets = [0; 4];
        map.copy_out(96, &mut octets).unwrap();
        assert_eq!(u32::from_ne_bytes(octets), 0x0403_0201);
        for offset in [2, 97, 98, 100, 104, u64::MAX, u64::MAX - 3] {
            assert_eq!(map.word(offset).err(), Some(Outside), "{offset}");
        }
        for offset in [4, 96, 1 << 63, u64::MAX - 7] {
            assert_eq!(map.long(offset).err(), Some(Outside), "{offset}");
        }
        assert!(map.long(88).is_ok() && !map.flag(0).unwrap().must_ring());
    }

    #[test]
    fn unsealed_memory_is_refused() {
        let name = c"millstream-test";
        // SAFETY: a C string that lives through the call.
        let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
        assert!(fd >= 0);
        // SAFETY: ours, just made.
        let file = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        file.set_len(4096).unwrap();
        assert!(SharedMap::open(file.into()).is_err());
        assert!(SharedMap::open(std::fs::File::open("/dev/null").unwrap().into()).is_err());
        assert!(SharedMap::create("millstream-test", 0).is_err());
    }
}
