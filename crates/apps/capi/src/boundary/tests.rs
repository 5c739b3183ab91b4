//! Goal: a failure is -1 or NULL with errno, a panic is EIO with its words, and a call from within is refused.
use super::*;

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

#[test]
fn failures_and_panics_become_errno() {
    assert_eq!(guard(|| Ok(7)), 7);
    assert_eq!(guard::<c_int>(|| Err(Errno::EBADF.into())), -1);
    assert_eq!(errno(), libc::EBADF);
    let none: *mut u8 = guard(|| Err(refuse(libc::EINVAL, "not\0so")));
    assert!(none.is_null() && errno() == libc::EINVAL);
    with_why(|why| assert_eq!(why, c"notso"));
    assert_eq!(guard::<isize>(|| panic!("number {}", 5)), -1);
    assert_eq!(errno(), libc::EIO);
    with_why(|why| assert_eq!(why, c"a fault in the stack: number 5"));
}

#[test]
fn calls_from_within_are_refused() {
    let within = || (guard(|| Ok(1)), guard(|| Ok(1)), errno());
    let mut seen = (0, 0, 0);
    guard(|| {
        seen = within();
        Ok(0)
    });
    assert_eq!(seen, (-1, -1, libc::EDEADLK));
    assert_eq!(guard(|| Ok(1)), 1);
}
