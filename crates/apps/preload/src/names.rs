//! getsockname and getpeername, and names that the kernel's sockets get for an attempt to connect.

use crate::boundary::{Outcome, Refused, answered, set_errno};
use crate::description::Kind;
use crate::real;
use crate::table::Held;
use crate::{kernel, relay, stack};
use capi::calls::sockets as c;
use capi::memory::put_sized;
use libc::{c_int, c_void, sockaddr, socklen_t};
use sock::address;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

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

/// The machine's connection to the link's address goes over the loopback: there is the kernel's part of a launched
/// listener, and the kernel by itself looks for one that is bound to the link's interface. It leaves from the same
/// address, as it would without the launcher. Returns true if the socket has got that name here.
///
/// # Safety
/// `addr` is a socket address of `len` bytes.
pub(crate) unsafe fn leave_from_itself(fd: c_int, addr: *const sockaddr, len: socklen_t) -> bool {
    if kernel::name(fd).is_none_or(|name| !name.ip().is_unspecified() || name.port() != 0) {
        return false;
    }
    let mut own = [0_u8; 28];
    let len = (len as usize).min(own.len());
    // SAFETY: as the caller vouches.
    unsafe { std::ptr::copy_nonoverlapping(addr.cast::<u8>(), own.as_mut_ptr(), len) };
    // No port: connect finds one.
    own[2..4].fill(0);
    bind_without_port(fd, &own[..len])
}

/// Binds the kernel's socket to an address alone. Returns false if the kernel refuses: then it chooses one itself.
fn bind_without_port(fd: c_int, name: &[u8]) -> bool {
    let set = |on: c_int| {
        let value = (&raw const on).cast::<c_void>();
        // SAFETY: a number.
        unsafe {
            real::setsockopt(
                fd,
                libc::IPPROTO_IP,
                libc::IP_BIND_ADDRESS_NO_PORT,
                value,
                size_of::<c_int>() as socklen_t,
            )
        }
    };
    let was = kernel::number(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT).unwrap_or(0);
    set(1);
    // SAFETY: a socket address of so many bytes.
    let done = unsafe { real::bind(fd, name.as_ptr().cast::<sockaddr>(), name.len() as socklen_t) };
    set(was);
    done == 0
}

/// Takes the name of [`leave_from_itself`] back.
pub(crate) fn take_back(fd: c_int, v6: bool) {
    let any: IpAddr = if v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    bind_without_port(fd, &address::write(SocketAddr::new(any, 0).into(), v6));
}
