//! Between the program and us: errors become -1 and `errno`, and no panic gets out. A call of the kernel's or of the C
//! API's that failed is `Ok(-1)`, with `errno` set.

pub(crate) use crate::inside::{inside, is_inside, outside};
pub(crate) use crate::real::{errno, set_errno};
use crate::{real, report};
use capi::boundary::fault;
pub(crate) use capi::boundary::{Failure, Outcome, Refused};
use libc::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// Runs a hook's body, inside. As after a system call, `errno` is as it was unless the call failed: OpenSSL asks it
/// after a read that returns 0, and takes an EAGAIN of the link's for one of the connection's.
pub(crate) fn guard<R: Failure + PartialEq>(call: impl FnOnce() -> Outcome<R>) -> R {
    let before = errno();
    let outcome = catch_unwind(AssertUnwindSafe(|| inside(call))).unwrap_or_else(|panic| {
        say(&fault(&*panic));
        Err(Refused(libc::EIO))
    });
    match outcome {
        Ok(done) => {
            if done != R::FAILURE {
                set_errno(before);
            }
            done
        }
        Err(Refused(errno)) => {
            set_errno(errno);
            R::FAILURE
        }
    }
}

/// A handler's result where an answer of the kernel's or of the C API's is all.
pub(crate) fn answered<T>(answer: T) -> Outcome<T> {
    Ok(answer)
}

/// Prints the message once.
pub(crate) fn say_once(once: &Once, text: &str) {
    once.call_once(|| say(text));
}

/// Tells the person who started the program one line, once in a launch.
pub(crate) fn say(text: &str) {
    if !inside(|| report::is_new(text)) {
        return;
    }
    let line = format!("millstream: {text}\n");
    // SAFETY: the line is there for as long as the call takes. If it cannot be told, no caller can be told so.
    let _ = unsafe { real::write(2, line.as_ptr().cast::<c_void>(), line.len()) };
}
