//! getsockname and getpeername.

use crate::boundary::{Outcome, Refused, set_errno};
use crate::description::Kind;
use crate::hooks::{answered, real};
use crate::stack;
use crate::table::Held;
use capi::calls::sockets as c;
use capi::memory::is_nowhere;
use libc::{c_int, sockaddr, socklen_t};

/// Tells a name that was kept.
///
/// # Safety
/// C's contract for `addr` and `len`.
unsafe fn tell(name: &[u8], addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    if is_nowhere(addr) || is_nowhere(len) {
        set_errno(libc::EFAULT);
        return -1;
    }
    // SAFETY: neither is NULL, and the caller vouches for so much room.
    unsafe {
        let room = (len.read_unaligned() as usize).min(name.len());
        std::ptr::copy_nonoverlapping(name.as_ptr(), addr.cast::<u8>(), room);
        len.write_unaligned(name.len() as socklen_t);
    }
    0
}

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
        _ => match held.more().names.as_ref() {
            // SAFETY: the caller's arguments.
            Some((own, _)) => unsafe { tell(own, addr, len) },
            // SAFETY: the caller's arguments.
            None => unsafe { real::getsockname(fd, addr, len) },
        },
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
        _ => match held.more().names.as_ref().filter(|(_, peer)| !peer.is_empty()) {
            // SAFETY: the caller's arguments.
            Some((_, peer)) => unsafe { tell(peer, addr, len) },
            // SAFETY: the caller's arguments.
            None => unsafe { real::getpeername(fd, addr, len) },
        },
    })
}

/// Can an address be told there?
///
/// # Safety
/// C's contract for `len`.
pub(crate) unsafe fn has_room(addr: *const sockaddr, len: *const socklen_t) -> Outcome<()> {
    if addr.is_null() {
        return Ok(());
    }
    if is_nowhere(len) {
        return Err(Refused(libc::EFAULT));
    }
    // SAFETY: not NULL.
    match unsafe { len.read_unaligned() } {
        0 => Ok(()),
        len if len > i32::MAX as u32 => Err(Refused(libc::EINVAL)),
        _ if is_nowhere(addr) => Err(Refused(libc::EFAULT)),
        _ => Ok(()),
    }
}
