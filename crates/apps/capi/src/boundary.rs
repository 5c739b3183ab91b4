//! Between C and Rust: errors become -1 and `errno`, panics become EIO, and both leave a sentence behind.

use sock::Errno;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A call failed with this `errno`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused(pub c_int);

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Refused {
        Refused(errno.raw())
    }
}

impl From<Refused> for c_int {
    fn from(Refused(errno): Refused) -> c_int {
        errno
    }
}

/// Result of a call's body.
pub type Outcome<T> = Result<T, Refused>;

/// Failure as C sees it.
pub trait Failure {
    /// -1, NULL or SIG_ERR.
    const FAILURE: Self;
}

impl Failure for c_int {
    const FAILURE: c_int = -1;
}

impl Failure for isize {
    const FAILURE: isize = -1;
}

impl Failure for i64 {
    const FAILURE: i64 = -1;
}

impl Failure for libc::sighandler_t {
    const FAILURE: libc::sighandler_t = libc::SIG_ERR;
}

impl<T> Failure for *const T {
    const FAILURE: *const T = std::ptr::null();
}

impl<T> Failure for *mut T {
    const FAILURE: *mut T = std::ptr::null_mut();
}

thread_local! {
    /// The sentence on this thread's last failure that had one.
    static WHY: RefCell<CString> = RefCell::default();
    /// This thread is inside a call: what comes now comes from a function that the program gave us.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs a call: no panic leaves it, and a failure sets `errno`. The stack waits for the function that it calls, so what
/// these call of ours fails with EDEADLK.
pub(crate) fn guard<R: Failure>(call: impl FnOnce() -> Outcome<R>) -> R {
    let outcome = if INSIDE.replace(true) {
        Err(refuse(libc::EDEADLK, "a function that the stack calls and waits for calls the stack"))
    } else {
        let ended = catch_unwind(AssertUnwindSafe(call));
        INSIDE.set(false);
        ended.unwrap_or_else(|panic| Err(refuse(libc::EIO, &fault(&*panic))))
    };
    outcome.unwrap_or_else(|Refused(errno)| {
        set_errno(errno);
        R::FAILURE
    })
}

/// Returns the message of a panic.
pub fn fault(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
    format!("a fault in the stack: {text}")
}

/// An error with a sentence, which `ms_error` shows.
pub(crate) fn refuse(errno: c_int, why: &str) -> Refused {
    let text: Vec<u8> = why.bytes().filter(|byte| *byte != 0).collect();
    WHY.with(|last| *last.borrow_mut() = CString::new(text).unwrap_or_default());
    Refused(errno)
}

/// Shows the sentence; it stays until this thread's next failure.
pub(crate) fn with_why<R>(show: impl FnOnce(&CStr) -> R) -> R {
    WHY.with(|last| show(&last.borrow()))
}

pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: glibc gives every thread an errno of its own.
    unsafe { *libc::__errno_location() = errno };
}

#[cfg(test)]
mod tests;
