//! getsockname and getpeername.

use crate::boundary::Outcome;
use crate::description::Kind;
use crate::hooks::{answered, real};
use crate::stack;
use crate::table::Held;
use capi::calls::sockets as c;
use libc::{c_int, sockaddr, socklen_t};

/// # Safety
/// C's contract of getsockname(2).
pub(crate) unsafe fn getsockname(
    held: &Held,
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> Outcome<c_int> {
    answered(match held.kind() {
        // SAFETY: the caller's arguments.
        Kind::Stream => unsafe { c::ms_getsockname(stack::open()?.context(), held.below(), addr, len) },
        // SAFETY: the caller's arguments.
        _ => unsafe { real::getsockname(fd, addr, len) },
    })
}

/// # Safety
/// C's contract of getpeername(2).
pub(crate) unsafe fn getpeername(
    held: &Held,
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> Outcome<c_int> {
    answered(match held.kind() {
        // SAFETY: the caller's arguments.
        Kind::Stream => unsafe { c::ms_getpeername(stack::open()?.context(), held.below(), addr, len) },
        // SAFETY: the caller's arguments.
        _ => unsafe { real::getpeername(fd, addr, len) },
    })
}
