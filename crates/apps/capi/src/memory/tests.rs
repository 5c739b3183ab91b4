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
fn names_end_at_their_nul() {
    // SAFETY: NULL, and arrays of ours.
    unsafe {
        assert_eq!(name(null(), 0), Ok(&[][..]));
        assert_eq!(name(null(), 15), Err(FAULT));
        assert_eq!(name(c"reno".as_ptr().cast(), 15), Ok(&b"reno\0"[..]));
        assert_eq!(name(b"reno".as_ptr().cast(), 4), Ok(&b"reno"[..]));
    }
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
        put_sized(&[1, 2, 3, 4], small.as_mut_ptr().cast(), &raw mut len, 4).unwrap();
        assert_eq!((small, len), ([1, 2, 3], 4));
        len = u32::MAX;
        assert_eq!(length(&raw const len), Err(Refused(libc::EINVAL)));
    }
}
