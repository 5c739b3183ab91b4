//! getsockname and getpeername.

use crate::boundary::{Outcome, Refused, set_errno};
use crate::description::Kind;
use crate::hooks::{answered, real};
use crate::table::Held;
use crate::{relay, stack};
use capi::calls::sockets as c;
use capi::memory::{can_write, put_sized, value};
use libc::{c_int, c_void, sockaddr, socklen_t};

/// Tells a name that was kept.
///
/// # Safety
/// C's contract for `addr` and `len`.
unsafe fn tell(name: &[u8], addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: as the caller vouches.
    match unsafe { put_sized(name, addr.cast::<c_void>(), len, name.len()) } {
        Ok(()) => 0,
        Err(Refused(errno)) => {
            set_errno(errno);
            -1
        }
    }
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
        Kind::Relayed if relay::is_listener(held) => return Err(Refused(libc::ENOTCONN)),
        _ => match held.more().names.as_ref().filter(|(_, peer)| !peer.is_empty()) {
            // SAFETY: the caller's arguments.
            Some((_, peer)) => unsafe { tell(peer, addr, len) },
            // SAFETY: the caller's arguments.
            None => unsafe { real::getpeername(fd, addr, len) },
        },
    })
}

/// Can an address of so many bytes be told there?
///
/// # Safety
/// C's contract for `len`.
pub(crate) unsafe fn has_room(addr: *mut sockaddr, len: *mut socklen_t, bytes: usize) -> Outcome<()> {
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
