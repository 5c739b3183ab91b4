//! Memory behind the tool's pointers, read and written as the C library does it: each function trusts C's contract for
//! its pointer, and NULL is checked.

use capi::memory;
pub(crate) use capi::memory::{bytes, put_message, scatter, total, value, vectors};
use libc::{c_void, iovec, socklen_t};

/// An error number.
pub(crate) type Errno = i32;

/// Most bytes of one call, as on Linux.
pub(crate) const BYTES_MAX: usize = 0x7fff_f000;

/// Puts bytes there.
///
/// # Safety
/// C's contract for `to`, with a length of no less than `bytes`.
pub(crate) unsafe fn put(bytes: &[u8], to: *mut c_void) -> Result<(), Errno> {
    // SAFETY: as the caller vouches.
    unsafe { memory::room(to, bytes.len()) }?.copy_from_slice(bytes);
    Ok(())
}

/// Puts one value there, unless the pointer is NULL.
///
/// # Safety
/// C's contract for `to`.
pub(crate) unsafe fn put_value<T>(value: T, to: *mut T) {
    if !to.is_null() {
        // SAFETY: not NULL; C need not align what it packs (struct epoll_event).
        unsafe { to.write_unaligned(value) };
    }
}

/// Puts what fits into a buffer whose room `len` holds, and the whole length into `len`. A buffer that is NULL wants
/// nothing.
///
/// # Safety
/// C's contract for `to` with the length in `len`, and for `len`.
pub(crate) unsafe fn put_sized(bytes: &[u8], to: *mut c_void, len: *mut socklen_t) -> Result<(), Errno> {
    if !to.is_null() {
        // SAFETY: as the caller vouches.
        unsafe { memory::put_sized(bytes, to, len, bytes.len()) }?;
    }
    Ok(())
}

/// Returns the content of the vectors, one after the other.
///
/// # Safety
/// C's contract for the array and for each vector of it.
pub(crate) unsafe fn gather(from: *const iovec, count: usize) -> Result<Vec<u8>, Errno> {
    let mut all = Vec::new();
    // SAFETY: as the caller vouches.
    unsafe { memory::gather(vectors(from, count)?, &mut all) }?;
    Ok(all)
}
