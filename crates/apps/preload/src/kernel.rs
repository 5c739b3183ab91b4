//! Kernel's sockets under the program's numbers: blank ones, and what they say of themselves.

use crate::boundary::{Outcome, Refused, errno};
use crate::{limit, real, route};
use libc::{c_int, c_void, sockaddr, socklen_t};
use std::mem::MaybeUninit;
use std::net::SocketAddr;

/// A socket of the kernel's that is nothing yet, and that the program does not see.
pub(crate) fn blank() -> Result<c_int, Refused> {
    blank_of(false)
}

/// As [`blank`], of a family.
pub(crate) fn blank_of(v6: bool) -> Result<c_int, Refused> {
    let family = if v6 { libc::AF_INET6 } else { libc::AF_INET };
    // SAFETY: numbers alone.
    let made = limit::own(|| unsafe { real::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) });
    if made < 0 { Err(Refused(errno())) } else { Ok(made) }
}

/// Returns true if the number is a TCP socket of the kernel's.
pub(crate) fn is_tcp(fd: c_int) -> bool {
    let is = |name, value| number(fd, libc::SOL_SOCKET, name) == Some(value);
    is(libc::SO_TYPE, libc::SOCK_STREAM) && is(libc::SO_PROTOCOL, libc::IPPROTO_TCP)
}

/// IPV6_V6ONLY.
pub(crate) fn is_v6_only(fd: c_int) -> bool {
    number(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY).is_some_and(|only| only != 0)
}

/// Returns an option of the kernel's socket that is a number.
pub(crate) fn number(fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
    let (mut value, mut len) = (0, size_of::<c_int>() as socklen_t);
    let to = (&raw mut value).cast::<c_void>();
    // SAFETY: room for a number.
    let done = unsafe { real::getsockopt(fd, level, name, to, &raw mut len) };
    (done == 0).then_some(value)
}

/// Where the kernel's socket is bound.
pub(crate) fn name(fd: c_int) -> Option<SocketAddr> {
    let mut space = [0_u64; 16];
    let mut len = size_of_val(&space) as socklen_t;
    // SAFETY: room for any address.
    unsafe {
        let addr = space.as_mut_ptr().cast::<sockaddr>();
        if real::getsockname(fd, addr, &raw mut len) != 0 {
            return None;
        }
        route::named(addr, len)
    }
}

/// Returns the kernel's number of the file under `fd`, if that is a socket.
pub(crate) fn inode(fd: c_int) -> Option<u64> {
    let mut about = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: room for what is asked; zeroes are a `stat`.
    let about = unsafe {
        if real::fstat(fd, about.as_mut_ptr()) != 0 {
            return None;
        }
        about.assume_init()
    };
    (about.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(about.st_ino)
}

/// Returns the index of the device that a socket is bound to, or 0.
pub(crate) fn device(fd: c_int) -> Outcome<c_int> {
    let (mut index, mut len) = (0, size_of::<c_int>() as socklen_t);
    let value = (&raw mut index).cast::<c_void>();
    // SAFETY: room for a number.
    let done = unsafe { real::getsockopt(fd, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, value, &raw mut len) };
    if done == 0 { Ok(index) } else { Err(Refused(errno())) }
}

/// Returns true if a socket is bound to the loopback.
pub(crate) fn is_loopback(fd: c_int) -> bool {
    // SAFETY: a name.
    let loopback = unsafe { libc::if_nametoindex(c"lo".as_ptr()) };
    loopback != 0 && device(fd).is_ok_and(|index| index == loopback as c_int)
}

/// Returns true if the socket is neither connected nor about to be.
pub(crate) fn is_closed(fd: c_int) -> bool {
    /// TCP_CLOSE, in the first byte of `struct tcp_info`.
    const CLOSE: u8 = 7;
    number(fd, libc::IPPROTO_TCP, libc::TCP_INFO).is_some_and(|info| info.to_ne_bytes()[0] == CLOSE)
}
