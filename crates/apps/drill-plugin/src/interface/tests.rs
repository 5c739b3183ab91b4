//! Goal: whatever happens inside, C gets a number and an errno.
use super::*;

#[test]
fn results_errors_and_panics() {
    let errno = || std::io::Error::last_os_error().raw_os_error();
    assert_eq!(guarded("fine", || Ok(7)), 7);
    assert_eq!((guarded("wrong", || Err(libc::EPIPE)), errno()), (-1, Some(libc::EPIPE)));
    assert_eq!((guarded("broken", || panic!("as this test wants")), errno()), (-1, Some(libc::EIO)));
}

#[test]
fn no_userdata() {
    // SAFETY: NULL is allowed.
    let result = unsafe { socket(std::ptr::null_mut(), libc::AF_INET, libc::SOCK_STREAM, 0) };
    assert_eq!(result, -1);
    // SAFETY: NULL is allowed.
    unsafe { free(std::ptr::null_mut()) };
}
