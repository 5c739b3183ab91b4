//! Memory behind the tool's pointers. Every function here trusts C's contract for its pointer: it is NULL, or as
//! much memory lies there as the length beside it says, of the type that the call's manual page names, and nothing
//! else writes to it meanwhile. NULL is checked.

use libc::{c_void, iovec, msghdr, socklen_t};
use sock::cmsg::Control;
use std::slice;

/// An error number.
pub(crate) type Errno = i32;

/// Most vectors of one call (UIO_MAXIOV).
const VECTORS_MAX: usize = 1_024;
/// Most bytes of one call, as on Linux.
pub(crate) const BYTES_MAX: usize = 0x7fff_f000;

/// Bytes to be read; EFAULT if there are none where some should be.
///
/// # Safety
/// C's contract for `from` and `len`, for as long as the result lives.
pub(crate) unsafe fn bytes<'a>(from: *const c_void, len: usize) -> Result<&'a [u8], Errno> {
    if len == 0 {
        return Ok(&[]);
    }
    if from.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: not NULL, and the caller vouches for the rest.
    Ok(unsafe { slice::from_raw_parts(from.cast(), len.min(BYTES_MAX)) })
}

/// Puts bytes there.
///
/// # Safety
/// C's contract for `to`, with a length of no less than `bytes`.
pub(crate) unsafe fn put(bytes: &[u8], to: *mut c_void) -> Result<(), Errno> {
    if bytes.is_empty() {
        return Ok(());
    }
    if to.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: not NULL; bytes of ours do not overlap the tool's memory.
    unsafe { to.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
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

/// One value from there; EFAULT for NULL.
///
/// # Safety
/// C's contract for `from`; whatever bytes lie there must be a `T`.
pub(crate) unsafe fn value<T: Copy>(from: *const T) -> Result<T, Errno> {
    if from.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: not NULL; C need not align what it packs.
    Ok(unsafe { from.read_unaligned() })
}

/// Puts what fits into a buffer whose room `len` holds, and the whole length into `len`. A buffer that is NULL wants
/// nothing.
///
/// # Safety
/// C's contract for `to` with the length in `len`, and for `len`.
pub(crate) unsafe fn put_sized(bytes: &[u8], to: *mut c_void, len: *mut socklen_t) -> Result<(), Errno> {
    if to.is_null() {
        return Ok(());
    }
    // SAFETY: the caller vouches for `len`.
    let room = unsafe { value(len) }? as usize;
    // SAFETY: no more than there is room for, and `len` was readable.
    unsafe {
        put(&bytes[..bytes.len().min(room)], to)?;
        put_value(bytes.len() as socklen_t, len);
    }
    Ok(())
}

/// The vectors; EINVAL for too many or for one that is too long.
///
/// # Safety
/// C's contract for `vectors` and `count`, for as long as the result lives.
unsafe fn vectors<'a>(vectors: *const iovec, count: usize) -> Result<&'a [iovec], Errno> {
    if count > VECTORS_MAX {
        return Err(libc::EINVAL);
    }
    if count == 0 {
        return Ok(&[]);
    }
    if vectors.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: not NULL, and the caller vouches for the rest.
    let all = unsafe { slice::from_raw_parts(vectors, count) };
    let total = all.iter().try_fold(0_usize, |total, vector| total.checked_add(vector.iov_len));
    match total {
        Some(total) if total <= isize::MAX as usize => Ok(all),
        _ => Err(libc::EINVAL),
    }
}

/// Returns the content of the vectors, one after the other.
///
/// # Safety
/// C's contract for the array and for each vector of it.
pub(crate) unsafe fn gather(from: *const iovec, count: usize) -> Result<Vec<u8>, Errno> {
    let mut all = Vec::new();
    // SAFETY: as the caller vouches.
    for vector in unsafe { vectors(from, count) }? {
        // SAFETY: as the caller vouches.
        all.extend(unsafe { bytes(vector.iov_base, vector.iov_len) }?);
    }
    Ok(all)
}

/// Bytes for which the vectors have room.
///
/// # Safety
/// C's contract for the array.
pub(crate) unsafe fn room(of: *const iovec, count: usize) -> Result<usize, Errno> {
    // SAFETY: as the caller vouches.
    let all = unsafe { vectors(of, count) }?;
    Ok(all.iter().map(|vector| vector.iov_len).sum::<usize>().min(BYTES_MAX))
}

/// Spreads bytes over the vectors.
///
/// # Safety
/// C's contract for the array and for each vector of it.
pub(crate) unsafe fn scatter(mut bytes: &[u8], to: *const iovec, count: usize) -> Result<(), Errno> {
    // SAFETY: as the caller vouches.
    for vector in unsafe { vectors(to, count) }? {
        let (here, rest) = bytes.split_at(bytes.len().min(vector.iov_len));
        // SAFETY: no more than the vector has room for.
        unsafe { put(here, vector.iov_base) }?;
        bytes = rest;
    }
    Ok(())
}

/// Fills in what recvmsg tells besides the bytes.
///
/// # Safety
/// C's contract for `message` and for its `msg_control`.
pub(crate) unsafe fn put_message(message: *mut msghdr, control: &Control, flags: i32) -> Result<(), Errno> {
    // SAFETY: as the caller vouches.
    let mut header = unsafe { value(message) }?;
    let room = if header.msg_control.is_null() { 0 } else { header.msg_controllen };
    let (fits, all) = control.fit(room);
    // SAFETY: no more than there is room for.
    unsafe { put(fits, header.msg_control) }?;
    header.msg_controllen = fits.len();
    header.msg_namelen = 0;
    header.msg_flags = if all { flags } else { flags | libc::MSG_CTRUNC };
    // SAFETY: it was readable, and recvmsg may write to it.
    unsafe { put_value(header, message) };
    Ok(())
}
