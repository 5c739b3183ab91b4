//! Socket options.

use crate::boundary::{Outcome, Refused};
use crate::memory;
use libc::{c_int, c_void, socklen_t};
use sock::boundary;
use sock::options::{self, Shape};

/// No option takes more (`struct tcp_ao_add`, with room for what a program hands over too much).
const VALUE_MAX: usize = 65_536;
/// Linux reads so much of a congestion control's name (TCP_CA_NAME_MAX, without the NUL).
const NAME_MAX: usize = 15;

/// No option tells more (`struct tcp_info`), but for those that are asked for by what is there.
const TOLD_MAX: usize = 512;

/// Levels that a TCP socket has options at.
const LEVELS: [c_int; 4] = [libc::SOL_SOCKET, libc::IPPROTO_TCP, libc::IPPROTO_IP, libc::IPPROTO_IPV6];

/// Linux looks at a length before it knows what it is the length of: what is no `int` fails with EINVAL even where
/// there is no such option.
fn acceptable(level: c_int, name: c_int, len: usize) -> Outcome<()> {
    let named = options::find(level, name)
        .is_some_and(|row| matches!(row.shape, Shape::Name | Shape::Keys | Shape::Auth));
    match level {
        _ if !LEVELS.contains(&level) => Err(Refused(libc::ENOPROTOOPT)),
        libc::SOL_SOCKET | libc::IPPROTO_TCP if len < size_of::<c_int>() && !named => {
            Err(Refused(libc::EINVAL))
        }
        _ => Ok(()),
    }
}

/// Returns as much of an option's value as Linux reads: programs say that there is more than there is. EFAULT if that
/// cannot be read.
///
/// # Safety
/// C's contract of setsockopt(2), for as long as the result lives.
pub unsafe fn value_of<'a>(level: c_int, name: c_int, value: *const c_void, len: usize) -> Outcome<&'a [u8]> {
    if level == libc::IPPROTO_IP && !boundary::is_set_of_ip(name) {
        // It is refused unread.
        return Ok(&[]);
    }
    let shape = options::find(level, name).map(|row| row.shape);
    let most = match shape {
        Some(Shape::Bool | Shape::Word | Shape::Int(..)) => size_of::<c_int>(),
        Some(Shape::Linger | Shape::Rate) => 8,
        Some(Shape::Time) => size_of::<libc::timeval>(),
        Some(Shape::Name) => NAME_MAX,
        _ => VALUE_MAX,
    };
    let len = len.min(most);
    // NULL is 0 for an option of IPv6 that is a number or unknown, and less than a number is not looked at.
    let is_number = shape.is_none() || most == size_of::<c_int>();
    let is_unread = value.is_null() && is_number || len < size_of::<c_int>();
    if is_unread && level == libc::IPPROTO_IPV6 {
        return Ok(&[0; size_of::<c_int>()][..len.min(size_of::<c_int>())]);
    }
    // SAFETY: as the caller vouches.
    unsafe {
        if let Some(Shape::Name) = shape { memory::name(value, len) } else { memory::bytes(value, len) }
    }
}

api! {
    /// setsockopt(2), with Linux's numbers and structures; docs/C.md lists them. ENOPROTOOPT for what this stack does
    /// not know: nothing succeeds without an effect.
    fn ms_setsockopt(ctx, fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int {
        if len > i32::MAX as u32 {
            return ctx.unless_no_socket(fd, Err(Refused(libc::EINVAL)));
        }
        ctx.unless_no_socket(fd, acceptable(level, name, len as usize))?;
        // SAFETY: C's contract.
        let bytes = unsafe { value_of(level, name, value, len as usize) };
        let bytes = match ctx.unless_no_socket(fd, bytes) {
            Err(_) if level == libc::IPPROTO_IPV6 && !ctx.is_v6(fd)? => return Err(Refused(libc::ENOPROTOOPT)),
            bytes => bytes?,
        };
        ctx.sockets()?.setsockopt(fd, level, name, bytes)?;
        Ok(0)
    }

    /// getsockopt(2), with Linux's numbers and structures.
    fn ms_getsockopt(ctx, fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
        let v6 = ctx.is_v6(fd)?;
        if !LEVELS.contains(&level) || level == libc::IPPROTO_IPV6 && !v6 {
            return Err(Refused(libc::EOPNOTSUPP));
        }
        // As on Linux the length comes before the option, and at the level of IPv6 a negative one is large.
        let room = match level {
            // SAFETY: C's contract.
            libc::IPPROTO_IPV6 => unsafe { memory::value(len) }? as usize,
            // SAFETY: C's contract.
            _ => unsafe { memory::length(len) }?,
        };
        let row = options::find(level, name).ok_or(Refused(libc::ENOPROTOOPT))?;
        if matches!(row.shape, Shape::Tunable | Shape::Auth) {
            // What is there says what is asked for.
            // SAFETY: C's contract.
            let into = unsafe { memory::room(value, room) }?;
            let told = ctx.sockets()?.getsockopt(fd, level, name, into)?;
            // SAFETY: C's contract.
            unsafe { memory::put(told as socklen_t, len) }?;
            return Ok(0);
        }
        // Programs say that there is more room than there is.
        let mut told = [0; TOLD_MAX];
        let n = ctx.sockets()?.getsockopt(fd, level, name, &mut told[..room.min(TOLD_MAX)])?;
        // SAFETY: C's contract.
        unsafe { memory::room(value, n) }?.copy_from_slice(&told[..n]);
        // SAFETY: C's contract.
        unsafe { memory::put(n as socklen_t, len) }?;
        Ok(0)
    }
}
