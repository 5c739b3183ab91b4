//! Devices that a program binds its sockets to (SO_BINDTODEVICE, SO_BINDTOIFINDEX). The kernel's socket under one of
//! the stack's is bound to the loopback, so the program's device is kept beside it. A socket that is bound to another
//! device than the link's is the kernel's.

use crate::boundary::{Outcome, Refused, answered, errno, say_once};
use crate::description::{Kind, StoredOption};
use crate::fallback::Traffic;
use crate::real;
use crate::table::Held;
use crate::{fallback, kernel, route, stored};
use libc::{c_int, c_void, sockaddr, socklen_t};
use sock::address;
use std::net::SocketAddr;
use std::sync::Once;

static STAYS: Once = Once::new();

/// Returns true if the option names the device of a socket for which this file keeps it.
pub(crate) fn is_kept(held: &Held, level: c_int, name: c_int) -> bool {
    stored::is_device(level, name) && matches!(held.kind(), Kind::Fresh | Kind::Listener | Kind::Stream)
}

/// Binds a socket to the device `index`.
fn bind(fd: c_int, index: c_int) -> c_int {
    let value = (&raw const index).cast::<c_void>();
    // SAFETY: a number of this frame's.
    unsafe {
        real::setsockopt(fd, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, value, size_of::<c_int>() as socklen_t)
    }
}

/// Binds the kernel's part of a socket that is bound to the link's device, at all addresses: over the loopback the
/// link's address alone reaches it, 127.0.0.1 and ::1 do not. The kernel's answer, or `None` if it is no such socket.
pub(crate) fn bind_on_link(held: &Held, fd: c_int, named: SocketAddr) -> Option<c_int> {
    let everywhere = named.ip();
    if held.device() == 0 || !everywhere.is_unspecified() || everywhere.is_ipv6() != held.is_v6() {
        return None;
    }
    let own = route::link_address(held.is_v6())?;
    let name = address::write(SocketAddr::new(own, named.port()).into(), held.is_v6());
    // SAFETY: a socket address of this frame's.
    let done = unsafe { real::bind(fd, name.as_ptr().cast::<sockaddr>(), name.len() as socklen_t) };
    if done == 0
        && let Some(bound) = kernel::name(fd)
    {
        let told = address::write(SocketAddr::new(everywhere, bound.port()).into(), held.is_v6());
        held.more().names = Some((told, Vec::new()));
    }
    Some(done)
}

/// A socket that becomes the kernel's is bound to the program's device there.
pub(crate) fn apply(held: &Held, fd: c_int) {
    if held.device() != 0 {
        // The kernel has allowed it before.
        bind(fd, held.device());
    }
}

/// Sets the device: the kernel says of a socket of its own what it thinks of the arguments.
///
/// # Safety
/// C's contract of setsockopt(2).
pub(crate) unsafe fn set(
    held: &Held,
    fd: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> Outcome<c_int> {
    let asked = kernel::blank()?;
    // SAFETY: the caller's arguments, and a descriptor of this frame's.
    let said = unsafe {
        if held.device() != 0 {
            bind(asked, held.device());
        }
        let done = real::setsockopt(asked, libc::SOL_SOCKET, name, value, len);
        let said = if done == 0 { kernel::device(asked) } else { Err(Refused(errno())) };
        real::close(asked);
        said
    };
    let index = said?;
    let elsewhere = index != 0 && !route::is_link(index);
    held.set_device(index);
    if held.kind() == Kind::Stream {
        return answered(0);
    }
    let mut more = held.more();
    more.stored_options.retain(|stored| !stored::is_device(stored.level, stored.name));
    more.stored_options.push(StoredOption {
        level: libc::SOL_SOCKET,
        name: libc::SO_BINDTOIFINDEX,
        value: index.to_ne_bytes().to_vec(),
    });
    drop(more);
    if elsewhere && held.kind() == Kind::Listener {
        say_once(&STAYS, "a listener that is bound to another device goes on listening on the link");
    }
    if elsewhere && held.kind() == Kind::Fresh {
        let traffic = Traffic::Device { loopback: route::is_loopback(index) };
        fallback::leave_to_kernel(held, traffic, "the link is not there")?;
        fallback::fasten(held, fd, false);
        bind(fd, index);
    }
    answered(0)
}

/// Tells the device, as getsockopt(2) does.
///
/// # Safety
/// C's contract of getsockopt(2).
pub(crate) unsafe fn get(
    held: &Held,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> Outcome<c_int> {
    let asked = kernel::blank()?;
    if held.device() != 0 {
        bind(asked, held.device());
    }
    // SAFETY: the caller's arguments, and a descriptor of this frame's.
    unsafe {
        let done = real::getsockopt(asked, libc::SOL_SOCKET, name, value, len);
        let why = errno();
        real::close(asked);
        if done == 0 { answered(0) } else { Err(Refused(why)) }
    }
}
