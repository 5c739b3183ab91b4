//! Memory behind C's pointers. Every function here trusts C's contract for its pointer: it is NULL, or as much
//! memory lies there as the length beside it says, of the type that the call's manual page names, and nothing else
//! writes to it meanwhile. What leads nowhere in any program is EFAULT ([`is_nowhere`]); any other pointer that is
//! wrong is the program's end, as in a function of its own.

use crate::boundary::{Outcome, Refused, refuse};
use libc::{c_char, c_void, iovec, socklen_t};
use std::ffi::CStr;
use std::slice;

/// Most vectors of one call (UIO_MAXIOV).
const VECTORS_MAX: usize = 1_024;
/// Most bytes of one call, as on Linux.
const BYTES_MAX: usize = 0x7fff_f000;

const FAULT: Refused = Refused(libc::EFAULT);
/// Nothing lies in the first page, and nothing from here on: the last page of what a program has is kept empty, behind
/// it are addresses that are none, and then the kernel's.
const LOWEST: usize = 4_096;
const END: usize = (1 << 47) - 4_096;

/// Can nothing lie here: NULL, a field of NULL, what is no address, the kernel's memory? It costs a subtraction and a
/// comparison.
#[inline(always)]
pub fn is_nowhere<T: ?Sized>(at: *const T) -> bool {
    at.cast::<u8>().addr().wrapping_sub(LOWEST) >= END - LOWEST
}

/// Returns true if so many bytes lie nowhere.
#[inline(always)]
fn are_nowhere<T>(at: *const T, bytes: usize) -> bool {
    at.addr().wrapping_sub(LOWEST) > (END - LOWEST).saturating_sub(bytes)
}

/// Bytes to be read; EFAULT if there are none where some should be.
///
/// # Safety
/// C's contract for `from` and `len`, for as long as the result lives.
pub(crate) unsafe fn bytes<'a>(from: *const c_void, len: usize) -> Outcome<&'a [u8]> {
    match (len, are_nowhere(from, len.min(BYTES_MAX))) {
        (0, _) => Ok(&[]),
        (_, true) => Err(FAULT),
        // SAFETY: not NULL, and the caller vouches for the rest.
        _ => Ok(unsafe { slice::from_raw_parts(from.cast(), len.min(BYTES_MAX)) }),
    }
}

/// Room to be filled; EFAULT if there is none where some should be.
///
/// # Safety
/// C's contract for `to` and `len`, for as long as the result lives.
pub(crate) unsafe fn room<'a>(to: *mut c_void, len: usize) -> Outcome<&'a mut [u8]> {
    match (len, are_nowhere(to, len.min(BYTES_MAX))) {
        (0, _) => Ok(&mut []),
        (_, true) => Err(FAULT),
        // SAFETY: not NULL, and the caller vouches for the rest; we only write to it.
        _ => Ok(unsafe { slice::from_raw_parts_mut(to.cast(), len.min(BYTES_MAX)) }),
    }
}

/// An array; EFAULT for NULL, unless it is empty.
///
/// # Safety
/// C's contract for `array` and `count`, for as long as the result lives.
pub(crate) unsafe fn rows<'a, T>(array: *mut T, count: usize) -> Outcome<&'a mut [T]> {
    match (count, are_nowhere(array, count.saturating_mul(size_of::<T>()))) {
        (0, _) => Ok(&mut []),
        (_, true) => Err(FAULT),
        // SAFETY: not NULL, and the caller vouches for the rest.
        _ => Ok(unsafe { slice::from_raw_parts_mut(array, count) }),
    }
}

/// Puts one value there; EFAULT for NULL.
///
/// # Safety
/// C's contract for `to`.
pub(crate) unsafe fn put<T>(value: T, to: *mut T) -> Outcome<()> {
    if is_nowhere(to) {
        return Err(FAULT);
    }
    // SAFETY: not NULL; C need not align what it packs (struct epoll_event).
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// One value from there; EFAULT for NULL.
///
/// # Safety
/// C's contract for `from`; whatever bytes lie there must be a `T`.
pub(crate) unsafe fn value<T: Copy>(from: *const T) -> Outcome<T> {
    if is_nowhere(from) {
        return Err(FAULT);
    }
    // SAFETY: not NULL; C need not align what it packs.
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

/// Puts what fits into a buffer whose room `len` holds, and the whole length into `len`.
///
/// # Safety
/// C's contract for `to` with the length in `len`, and for `len`.
pub(crate) unsafe fn put_sized(bytes: &[u8], to: *mut c_void, len: *mut socklen_t) -> Outcome<()> {
    // SAFETY: as the caller vouches.
    unsafe {
        let there = room(to, length(len)?)?;
        let fits = there.len().min(bytes.len());
        there[..fits].copy_from_slice(&bytes[..fits]);
        put(bytes.len() as socklen_t, len)
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
    // SAFETY: not NULL, and the caller vouches for the rest.
    let text = unsafe { CStr::from_ptr(from) };
    text.to_str().map_err(|_| refuse(libc::EINVAL, "a string is not UTF-8"))
}

/// The vectors; EINVAL for too many or for one that is too long.
///
/// # Safety
/// C's contract for `vectors` and `count`, for as long as the result lives.
pub(crate) unsafe fn vectors<'a>(vectors: *const iovec, count: usize) -> Outcome<&'a [iovec]> {
    if count > VECTORS_MAX {
        return Err(Refused(libc::EINVAL));
    }
    // SAFETY: as the caller vouches; nothing writes to it.
    let all: &[iovec] = unsafe { rows(vectors.cast_mut(), count) }?;
    let total = all.iter().try_fold(0_usize, |total, vector| total.checked_add(vector.iov_len));
    match total {
        Some(total) if total <= isize::MAX as usize => Ok(all),
        _ => Err(Refused(libc::EINVAL)),
    }
}

/// Appends the content of the vectors to `all`.
///
/// # Safety
/// C's contract for each vector.
pub(crate) unsafe fn gather(from: &[iovec], all: &mut Vec<u8>) -> Outcome<()> {
    for vector in from {
        let left = BYTES_MAX - all.len();
        // SAFETY: as the caller vouches.
        all.extend_from_slice(unsafe { bytes(vector.iov_base, vector.iov_len.min(left)) }?);
    }
    Ok(())
}

/// Bytes for which the vectors have room.
pub(crate) fn total(vectors: &[iovec]) -> usize {
    vectors.iter().map(|vector| vector.iov_len).sum::<usize>().min(BYTES_MAX)
}

/// Spreads bytes over the vectors.
///
/// # Safety
/// C's contract for each vector.
pub(crate) unsafe fn scatter(mut bytes: &[u8], to: &[iovec]) -> Outcome<()> {
    for vector in to {
        if bytes.is_empty() {
            break;
        }
        // SAFETY: as the caller vouches.
        let there = unsafe { room(vector.iov_base, vector.iov_len) }?;
        let fits = there.len().min(bytes.len());
        there[..fits].copy_from_slice(&bytes[..fits]);
        bytes = &bytes[fits..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Goal: NULL is EFAULT unless nothing is wanted there, and vectors are bounded and walked in order.
    use super::*;
    use std::ptr::{null, null_mut};

    fn vector(of: &mut [u8]) -> iovec {
        iovec { iov_base: of.as_mut_ptr().cast(), iov_len: of.len() }
    }

    #[test]
    fn pointers_to_nothing() {
        // SAFETY: NULL is within every contract.
        unsafe {
            assert_eq!(bytes(null(), 0), Ok(&[][..]));
            assert_eq!(bytes(null(), 1), Err(FAULT));
            assert_eq!(room(null_mut(), 1), Err(FAULT));
            assert_eq!(value::<i32>(null()), Err(FAULT));
            assert_eq!(put(1, null_mut()), Err(FAULT));
            assert_eq!(text(null()), Err(FAULT));
            assert!(vectors(null(), 0).is_ok());
            assert_eq!(vectors(null(), 1).err(), Some(FAULT));
        }
    }

    #[test]
    fn pointers_to_nowhere() {
        let mut here = [1_u8, 2];
        for at in [0, 1, LOWEST - 1, END, 1 << 47, 1 << 63, usize::MAX] {
            let at = std::ptr::without_provenance_mut::<u8>(at);
            assert!(is_nowhere(at), "{at:?}");
            // SAFETY: no thread follows it.
            unsafe {
                assert_eq!(bytes(at.cast(), 1), Err(FAULT));
                assert_eq!(room(at.cast(), 1), Err(FAULT));
                assert_eq!(bytes(at.cast(), 0), Ok(&[][..]));
                assert_eq!(value(at), Err(FAULT));
                assert_eq!(put(1, at), Err(FAULT));
                assert_eq!(rows(at, 1).err(), Some(FAULT));
            }
        }
        // SAFETY: the array, and what begins in it and ends nowhere, which no thread follows.
        unsafe {
            assert_eq!(bytes(here.as_ptr().cast(), 2), Ok(&[1, 2][..]));
            assert_eq!(rows(here.as_mut_ptr(), END).err(), Some(FAULT));
        }
        assert!(!is_nowhere(here.as_ptr()));
        assert!(!are_nowhere(std::ptr::without_provenance::<u8>(END - 8), 8));
        assert!(are_nowhere(std::ptr::without_provenance::<u8>(END - 8), 9));
    }

    #[test]
    fn there_and_back_in_pieces() {
        let (mut a, mut b, mut c) = ([1, 2], [], [3, 4, 5]);
        let list = [vector(&mut a), vector(&mut b), vector(&mut c)];
        let mut all = Vec::new();
        // SAFETY: arrays of ours.
        unsafe {
            gather(&list, &mut all).unwrap();
            scatter(&[9, 8, 7], &list).unwrap();
        }
        assert_eq!((all, total(&list)), (vec![1, 2, 3, 4, 5], 5));
        assert_eq!((a, c), ([9, 8], [7, 4, 5]));
    }

    #[test]
    fn bounds() {
        let huge = iovec { iov_base: null_mut(), iov_len: usize::MAX };
        let list = vec![iovec { iov_base: null_mut(), iov_len: 0 }; VECTORS_MAX + 1];
        // SAFETY: arrays of ours; the vectors are not followed.
        unsafe {
            assert!(vectors(list.as_ptr(), VECTORS_MAX).is_ok());
            assert_eq!(vectors(list.as_ptr(), VECTORS_MAX + 1).err(), Some(Refused(libc::EINVAL)));
            assert_eq!(vectors([huge, huge].as_ptr(), 2).err(), Some(Refused(libc::EINVAL)));
            let (mut small, mut len) = ([0_u8; 3], 3_u32);
            put_sized(&[1, 2, 3, 4], small.as_mut_ptr().cast(), &raw mut len).unwrap();
            assert_eq!((small, len), ([1, 2, 3], 4));
            len = u32::MAX;
            assert_eq!(length(&raw const len), Err(Refused(libc::EINVAL)));
        }
    }
}
