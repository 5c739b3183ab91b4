//! Sockets: socket(2), bind(2), listen(2), accept(2), connect(2), shutdown(2) and their names.

use crate::boundary::{Outcome, Refused};
use crate::context::Context;
use crate::memory;
use base::{Addr, Endpoint};
use libc::{c_int, c_void, sockaddr, socklen_t};
use sock::address::{self, Named};
use sock::{Family, Fd, Shutdown};

/// Bytes of an address' family.
const FAMILY: usize = 2;
/// Bytes of `struct sockaddr_storage`, of `struct sockaddr_in`, and of `struct sockaddr_in6` with and without its
/// scope.
const STORAGE: usize = 128;
const LEN_V4: usize = 16;
const LEN_V6: usize = 28;
const LEN_V6_SHORT: usize = 24;
/// Numbers of families and types end here (NPROTO, SOCK_MAX), and those of protocols (IPPROTO_MAX).
const TYPES: c_int = 11;
const PROTOCOLS: c_int = 263;

/// The bytes of an address.
///
/// # Safety
/// C's contract for `addr` and `len`.
pub(super) unsafe fn raw<'a>(addr: *const sockaddr, len: socklen_t) -> Outcome<&'a [u8]> {
    let len = usize::try_from(len).ok().filter(|len| *len <= STORAGE).ok_or(Refused(libc::EINVAL))?;
    // SAFETY: C's contract.
    unsafe { memory::bytes(addr.cast(), len) }
}

/// The address, as a socket of this family may be given it.
fn named(v6: bool, bytes: &[u8]) -> Outcome<Named> {
    let len = bytes.len();
    let family =
        bytes.first_chunk().map(|family| u16::from_ne_bytes(*family)).ok_or(Refused(libc::EINVAL))?;
    if c_int::from(family) == libc::AF_UNSPEC {
        return Ok(Named::Nobody);
    }
    if len < if v6 { LEN_V6_SHORT } else { LEN_V4 } {
        return Err(Refused(libc::EINVAL));
    }
    if c_int::from(family) != if v6 { libc::AF_INET6 } else { libc::AF_INET } {
        return Err(Refused(libc::EAFNOSUPPORT));
    }
    let mut whole = [0; STORAGE];
    whole[..len].copy_from_slice(bytes);
    Ok(address::read(&whole[..len.max(LEN_V6)])?)
}

/// Returns where a call that connects goes to.
///
/// # Safety
/// C's contract for `addr` and `len`.
pub(super) unsafe fn remote(ctx: &Context, fd: Fd, addr: *const sockaddr, len: socklen_t) -> Outcome<Named> {
    ctx.sockets()?.nonblocking(fd)?;
    // Memory first, and only then whether it is a socket, as on Linux.
    // SAFETY: C's contract.
    let bytes = unsafe { raw(addr, len) }?;
    named(ctx.is_v6(fd)?, bytes)
}

/// Accepts, with flags of accept4(2).
///
/// # Safety
/// C's contract for `addr` and `len`.
unsafe fn accept(
    ctx: &Context,
    fd: Fd,
    addr: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> Outcome<Fd> {
    if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
        return Err(Refused(libc::EINVAL));
    }
    let sockets = ctx.sockets()?;
    if !addr.is_null() {
        // Before a connection is taken that could not be told of.
        // SAFETY: C's contract.
        ctx.unless_no_socket(fd, unsafe { memory::length(len) })?;
    }
    let (new, peer) = sockets.accept(fd)?;
    ctx.opened(new);
    if flags & libc::SOCK_NONBLOCK != 0 {
        sockets.set_nonblocking(new, true)?;
    }
    if !addr.is_null() {
        let bytes = address::write(peer, ctx.is_v6(new)?);
        // SAFETY: C's contract.
        unsafe { memory::put_sized(&bytes, addr.cast::<c_void>(), len, bytes.len()) }?;
    }
    Ok(new)
}

/// Tells an end of a socket.
///
/// # Safety
/// C's contract for `addr` and `len`.
unsafe fn tell(
    ctx: &Context,
    fd: Fd,
    end: Endpoint,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> Outcome<c_int> {
    let bytes = address::write(end, ctx.is_v6(fd)?);
    // SAFETY: C's contract.
    unsafe { memory::put_sized(&bytes, addr.cast::<c_void>(), len, bytes.len()) }?;
    Ok(0)
}

api! {
    /// socket(2) for TCP: AF_INET or AF_INET6; SOCK_STREAM, with SOCK_NONBLOCK and SOCK_CLOEXEC if you like; protocol
    /// 0, IPPROTO_TCP, or IPPROTO_MPTCP, which is taken as TCP: so it is with any peer without Multipath TCP. The
    /// descriptor is this context's, not the kernel's, and starts at 0.
    fn ms_socket(ctx, domain: c_int, type_: c_int, protocol: c_int) -> c_int {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let kind = type_ & !flags;
        if type_ & !(0xf | flags) != 0 {
            return Err(Refused(libc::EINVAL));
        }
        let family = match domain {
            libc::AF_INET => Family::V4,
            libc::AF_INET6 => Family::V6,
            _ => return Err(Refused(libc::EAFNOSUPPORT)),
        };
        match (kind, protocol) {
            (TYPES.., _) | (_, ..0 | PROTOCOLS..) => return Err(Refused(libc::EINVAL)),
            (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP | libc::IPPROTO_MPTCP) => {}
            (libc::SOCK_STREAM, _) => return Err(Refused(libc::EPROTONOSUPPORT)),
            _ => return Err(Refused(libc::ESOCKTNOSUPPORT)),
        }
        let sockets = ctx.sockets()?;
        let fd = ctx.opened(sockets.socket(family)?);
        if type_ & libc::SOCK_NONBLOCK != 0 {
            sockets.set_nonblocking(fd, true)?;
        }
        Ok(fd)
    }

    /// bind(2).
    fn ms_bind(ctx, fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
        let v6 = ctx.is_v6(fd)?;
        // SAFETY: C's contract.
        let bytes = unsafe { raw(addr, len) }?;
        let local = match named(v6, bytes)? {
            Named::At(local) => local,
            Named::Nobody if bytes.len() < if v6 { LEN_V6_SHORT } else { LEN_V4 } => {
                return Err(Refused(libc::EINVAL));
            }
            // As on Linux AF_UNSPEC means AF_INET here, of 0.0.0.0 alone.
            Named::Nobody if !v6 && bytes[4..8] == [0; 4] => {
                Endpoint::new(Addr::UNSPECIFIED_V4, u16::from_be_bytes([bytes[2], bytes[3]]))
            }
            Named::Nobody => return Err(Refused(libc::EAFNOSUPPORT)),
        };
        ctx.sockets()?.bind(fd, local)?;
        Ok(0)
    }

    /// listen(2).
    fn ms_listen(ctx, fd: c_int, backlog: c_int) -> c_int {
        // As on Linux, what is negative is as much as there may be.
        ctx.sockets()?.listen(fd, u32::try_from(backlog).unwrap_or(u32::MAX))?;
        Ok(0)
    }

    /// accept(2): `addr` may be NULL. Waits unless the listener is non-blocking; the new socket is blocking.
    fn ms_accept(ctx, fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: C's contract.
        unsafe { accept(ctx, fd, addr, len, 0) }
    }

    /// accept4(2): with SOCK_NONBLOCK and SOCK_CLOEXEC.
    fn ms_accept4(ctx, fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
        // SAFETY: C's contract.
        unsafe { accept(ctx, fd, addr, len, flags) }
    }

    /// connect(2). AF_UNSPEC takes a connection apart: the socket may connect or listen again.
    fn ms_connect(ctx, fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
        let sockets = ctx.sockets()?;
        let has_family = (FAMILY..=STORAGE).contains(&(len as usize));
        // SAFETY: C's contract.
        match unsafe { remote(ctx, fd, addr, len) } {
            Ok(Named::At(remote)) => sockets.connect(fd, remote)?,
            Ok(Named::Nobody) => sockets.disconnect(fd)?,
            // As on Linux, a connection tells how it stands, whatever the address is.
            Err(Refused(libc::EINVAL | libc::EAFNOSUPPORT)) if has_family && !sockets.is_apart(fd)? => {
                sockets.connect(fd, Endpoint::new(Addr::UNSPECIFIED_V4, 0))?;
            }
            Err(refused) => return Err(refused),
        }
        Ok(0)
    }

    /// shutdown(2).
    fn ms_shutdown(ctx, fd: c_int, how: c_int) -> c_int {
        ctx.is_v6(fd)?;
        let how = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(Refused(libc::EINVAL)),
        };
        ctx.sockets()?.shutdown(fd, how)?;
        Ok(0)
    }

    /// getsockname(2).
    fn ms_getsockname(ctx, fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
        let end = ctx.sockets()?.local_addr(fd)?;
        // SAFETY: C's contract.
        unsafe { tell(ctx, fd, end, addr, len) }
    }

    /// getpeername(2).
    fn ms_getpeername(ctx, fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
        ctx.is_v6(fd)?;
        let end = ctx.sockets()?.peer_addr(fd)?;
        // SAFETY: C's contract.
        unsafe { tell(ctx, fd, end, addr, len) }
    }
}
