//! Memory behind C's pointers. Every function here trusts C's contract for its pointer: it is NULL, or as much
//! memory lies there as the length beside it says, of the type that the call's manual page names, and nothing else
//! writes to it meanwhile. What leads nowhere in any program is EFAULT. Any other pointer that is wrong is the
//! program's end, as in a function of its own; under the launcher it is EFAULT, too ([`look_by`]).

use crate::boundary::{Outcome, Refused, refuse};
use libc::{c_char, c_int, c_void, iovec, msghdr, sockaddr, socklen_t};
use sock::cmsg::Control;
use std::ffi::CStr;
use std::ptr::NonNull;
use std::slice;
use std::sync::OnceLock;

/// Most vectors of one call (UIO_MAXIOV).
const VECTORS_MAX: usize = 1_024;
/// Most bytes of one call, as on Linux.
const BYTES_MAX: usize = 0x7fff_f000;

const FAULT: Refused = Refused(libc::EFAULT);
/// Nothing lies in the first page, and nothing from here on: the last page of what a program has is kept empty, behind
/// it are addresses that are none, and then the kernel's.
const LOWEST: usize = 4_096;
const END: usize = (1 << 47) - 4_096;

/// Looks at every page from one address to another; returns false if it cannot be used.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Can it be read?
    pub read: unsafe extern "C" fn(first: *const u8, last: *const u8) -> bool,
    /// Can it be written? Nothing in it changes.
    pub write: unsafe extern "C" fn(first: *mut u8, last: *mut u8) -> bool,
}

static PROBE: OnceLock<Probe> = OnceLock::new();

/// Memory is looked at before it is used, from now on: what cannot be is EFAULT.
pub fn look_by(probe: Probe) {
    PROBE.get_or_init(|| probe);
}

/// Can nothing lie here: NULL, a field of NULL, what is no address, the kernel's memory, what is not mapped?
#[inline]
pub fn is_nowhere<T>(at: *const T) -> bool {
    !can_read(at, size_of::<T>())
}

/// Returns true if so many bytes lie nowhere in any program.
#[inline(always)]
fn are_nowhere<T>(at: *const T, bytes: usize) -> bool {
    at.addr().wrapping_sub(LOWEST) > (END - LOWEST).saturating_sub(bytes)
}

/// Returns true if an address lies in the kernel's memory, or the bytes reach into it: Linux says EFAULT before it
/// looks at anything else.
#[inline(always)]
pub fn are_kernels<T>(at: *const T, bytes: usize) -> bool {
    at.addr() > END || bytes > END - at.addr()
}

/// Returns true if so many bytes can be read.
#[inline]
pub fn can_read<T>(at: *const T, bytes: usize) -> bool {
    let at = at.cast::<u8>();
    // SAFETY: a probe follows any address.
    let look = |probe: &Probe| unsafe { (probe.read)(at, at.wrapping_add(bytes - 1)) };
    bytes == 0 || !are_nowhere(at, bytes) && PROBE.get().is_none_or(look)
}

/// Returns true if so many bytes can be written.
#[inline]
pub fn can_write<T>(at: *mut T, bytes: usize) -> bool {
    let at = at.cast::<u8>();
    // SAFETY: a probe follows any address.
    let look = |probe: &Probe| unsafe { (probe.write)(at, at.wrapping_add(bytes - 1)) };
    bytes == 0 || !are_nowhere(at, bytes) && PROBE.get().is_none_or(look)
}

/// Bytes to be read; EFAULT if there are none where some should be.
///
/// # Safety
/// C's contract for `from` and `len`, for as long as the result lives.
pub unsafe fn bytes<'a>(from: *const c_void, len: usize) -> Outcome<&'a [u8]> {
    let len = len.min(BYTES_MAX);
    match len {
        0 => Ok(&[]),
        _ if !can_read(from, len) => Err(FAULT),
        // SAFETY: it can be read, and the caller vouches for the rest.
        _ => Ok(unsafe { slice::from_raw_parts(from.cast(), len) }),
    }
}

/// Bytes of a name, up to its NUL if it is shorter than `len`: nothing needs to lie behind that.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn name<'a>(from: *const c_void, len: usize) -> Outcome<&'a [u8]> {
    let first = from.cast::<u8>();
    let ends = |at: usize| {
        let byte = first.wrapping_add(at);
        // SAFETY: it can be read.
        !can_read(byte, 1) || unsafe { *byte } == 0
    };
    let len = (0..len).find(|at| ends(*at)).map_or(len, |at| at + 1);
    // SAFETY: as the caller vouches.
    unsafe { bytes(from, len) }
}

/// Room to be filled; EFAULT if there is none where some should be.
///
/// # Safety
/// C's contract for `to` and `len`, for as long as the result lives.
pub unsafe fn room<'a>(to: *mut c_void, len: usize) -> Outcome<&'a mut [u8]> {
    let len = len.min(BYTES_MAX);
    match len {
        0 => Ok(&mut []),
        _ if !can_write(to, len) => Err(FAULT),
        // SAFETY: it can be written, and the caller vouches for the rest; we only write to it.
        _ => Ok(unsafe { slice::from_raw_parts_mut(to.cast(), len) }),
    }
}

/// Bytes that are looked at only when it is known how many of them are used: EFAULT at once if they reach into the
/// kernel's memory. Nothing may follow them before [`can_read`] has said that it can.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn later_bytes<'a>(from: *const c_void, len: usize) -> Outcome<&'a [u8]> {
    let len = len.min(BYTES_MAX);
    if are_kernels(from, len) {
        return Err(FAULT);
    }
    let from = NonNull::new(from.cast_mut().cast::<u8>()).unwrap_or(NonNull::dangling());
    // SAFETY: as the caller vouches, who follows nothing else.
    Ok(unsafe { slice::from_raw_parts(from.as_ptr(), len) })
}

/// Room that is looked at only when it is known how much of it is used; as [`later_bytes`], with [`can_write`].
///
/// # Safety
/// As [`room`].
pub(crate) unsafe fn later_room<'a>(to: *mut c_void, len: usize) -> Outcome<&'a mut [u8]> {
    let len = len.min(BYTES_MAX);
    if are_kernels(to, len) {
        return Err(FAULT);
    }
    let to = NonNull::new(to.cast::<u8>()).unwrap_or(NonNull::dangling());
    // SAFETY: as the caller vouches, who follows nothing else.
    Ok(unsafe { slice::from_raw_parts_mut(to.as_ptr(), len) })
}

/// An array to be filled; EFAULT for NULL, unless it is empty.
///
/// # Safety
/// C's contract for `array` and `count`, for as long as the result lives.
pub(crate) unsafe fn rows<'a, T>(array: *mut T, count: usize) -> Outcome<&'a mut [T]> {
    match count {
        0 => Ok(&mut []),
        _ if !can_write(array, count.saturating_mul(size_of::<T>())) => Err(FAULT),
        // SAFETY: it can be written, and the caller vouches for the rest.
        _ => Ok(unsafe { slice::from_raw_parts_mut(array, count) }),
    }
}

/// Puts one value there; EFAULT for NULL.
///
/// # Safety
/// C's contract for `to`.
pub unsafe fn put<T>(value: T, to: *mut T) -> Outcome<()> {
    if !can_write(to, size_of::<T>()) {
        return Err(FAULT);
    }
    // SAFETY: it can be written; C need not align what it packs (struct epoll_event).
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// One value from there; EFAULT for NULL.
///
/// # Safety
/// C's contract for `from`; whatever bytes lie there must be a `T`.
pub unsafe fn value<T: Copy>(from: *const T) -> Outcome<T> {
    if is_nowhere(from) {
        return Err(FAULT);
    }
    // SAFETY: it can be read; C need not align what it packs.
    Ok(unsafe { from.read_unaligned() })
}

/// The length that a `socklen_t *` holds; EFAULT for NULL, EINVAL if it is negative as an `int`, as on Linux.
///
/// # Safety
/// C's contract for `len`.
pub(crate) unsafe fn length(len: *const socklen_t) -> Outcome<usize> {
    // SAFETY: as the caller vouches.
    let len = unsafe { value(len) }?;
    if len > i32::MAX as u32 { Err(Refused(libc::EINVAL)) } else { Ok(len as usize) }
}

/// Can an address of so many bytes be told there?
///
/// # Safety
/// C's contract for `len`.
pub unsafe fn has_room(addr: *mut sockaddr, len: *mut socklen_t, bytes: usize) -> Outcome<()> {
    if addr.is_null() {
        return Ok(());
    }
    // SAFETY: as the caller vouches.
    match unsafe { value(len) }? {
        room if room > i32::MAX as u32 => Err(Refused(libc::EINVAL)),
        room if can_write(addr, bytes.min(room as usize)) && can_write(len, size_of::<socklen_t>()) => Ok(()),
        _ => Err(Refused(libc::EFAULT)),
    }
}

/// Puts what fits into a buffer whose room `len` holds, and `told` into `len`.
///
/// # Safety
/// C's contract for `to` with the length in `len`, and for `len`.
pub unsafe fn put_sized(bytes: &[u8], to: *mut c_void, len: *mut socklen_t, told: usize) -> Outcome<()> {
    // SAFETY: as the caller vouches.
    unsafe {
        let there = room(to, length(len)?.min(bytes.len()))?;
        there.copy_from_slice(&bytes[..there.len()]);
        put(told as socklen_t, len)
    }
}

/// A string; EFAULT for NULL, EINVAL if it is not UTF-8.
///
/// # Safety
/// C's contract for `from`: it ends in NUL.
pub(crate) unsafe fn text<'a>(from: *const c_char) -> Outcome<&'a str> {
    if is_nowhere(from) {
        return Err(FAULT);
    }
    // SAFETY: it can be read, and the caller vouches for the rest.
    let text = unsafe { CStr::from_ptr(from) };
    text.to_str().map_err(|_| refuse(libc::EINVAL, "a string is not UTF-8"))
}

/// The vectors; EINVAL for too many or for one that is too long.
///
/// # Safety
/// C's contract for `vectors` and `count`, for as long as the result lives.
pub unsafe fn vectors<'a>(vectors: *const iovec, count: usize) -> Outcome<&'a [iovec]> {
    if count > VECTORS_MAX {
        return Err(Refused(libc::EINVAL));
    }
    if !can_read(vectors, count * size_of::<iovec>()) {
        return Err(FAULT);
    }
    // SAFETY: it can be read, and the caller vouches for the rest.
    let all: &[iovec] = if count == 0 { &[] } else { unsafe { slice::from_raw_parts(vectors, count) } };
    let total = all.iter().try_fold(0_usize, |total, vector| total.checked_add(vector.iov_len));
    match total {
        Some(total) if total <= isize::MAX as usize => Ok(all),
        _ => Err(Refused(libc::EINVAL)),
    }
}

/// EFAULT if a vector reaches into the kernel's memory: Linux says so before it looks at anything else.
pub(crate) fn are_programs(vectors: &[iovec]) -> Outcome<()> {
    if vectors.iter().any(|one| are_kernels(one.iov_base, one.iov_len.min(BYTES_MAX))) {
        return Err(FAULT);
    }
    Ok(())
}

/// Appends the content of the vectors to `all`.
///
/// # Safety
/// C's contract for each vector.
pub unsafe fn gather(from: &[iovec], all: &mut Vec<u8>) -> Outcome<()> {
    for vector in from {
        let left = BYTES_MAX - all.len();
        // SAFETY: as the caller vouches.
        all.extend_from_slice(unsafe { bytes(vector.iov_base, vector.iov_len.min(left)) }?);
    }
    Ok(())
}

/// Returns true if the vectors have `len` bytes from `from` on that can be written.
pub(crate) fn can_scatter(to: &[iovec], mut from: usize, mut len: usize) -> bool {
    to.iter().all(|vector| {
        let skipped = from.min(vector.iov_len);
        let here = (vector.iov_len - skipped).min(len);
        (from, len) = (from - skipped, len - here);
        can_write(vector.iov_base.wrapping_byte_add(skipped), here)
    })
}

/// Bytes for which the vectors have room.
pub fn total(vectors: &[iovec]) -> usize {
    vectors.iter().map(|vector| vector.iov_len).sum::<usize>().min(BYTES_MAX)
}

/// Spreads bytes over the vectors.
///
/// # Safety
/// C's contract for each vector.
pub unsafe fn scatter(mut bytes: &[u8], to: &[iovec]) -> Outcome<()> {
    for vector in to {
        if bytes.is_empty() {
            break;
        }
        // SAFETY: as the caller vouches.
        let there = unsafe { room(vector.iov_base, vector.iov_len.min(bytes.len())) }?;
        there.copy_from_slice(&bytes[..there.len()]);
        bytes = &bytes[there.len()..];
    }
    Ok(())
}

/// Fills in what recvmsg tells besides the bytes.
///
/// # Safety
/// C's contract for `message` and for its `msg_control`.
pub unsafe fn put_message(message: *mut msghdr, control: &Control, flags: c_int) -> Outcome<()> {
    // SAFETY: as the caller vouches.
    let mut header = unsafe { value(message) }?;
    let most = if header.msg_control.is_null() { 0 } else { header.msg_controllen };
    let (fits, all) = control.fit(most);
    // As on Linux, what cannot be put there is left out.
    // SAFETY: no more than there is room for.
    let told = match unsafe { room(header.msg_control, fits.len()) } {
        Ok(there) => {
            there.copy_from_slice(fits);
            fits.len()
        }
        Err(_) => 0,
    };
    header.msg_controllen = told;
    if !header.msg_name.is_null() {
        header.msg_namelen = 0;
    }
    header.msg_flags = if all { flags } else { flags | libc::MSG_CTRUNC };
    // SAFETY: it was readable, and recvmsg may write to it.
    unsafe { put(header, message) }
}

#[cfg(test)]
mod tests;
