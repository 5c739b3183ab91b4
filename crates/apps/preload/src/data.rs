//! Octets. On a connection the C door's functions do the work, which answer as Linux does; everything else that is ours
//! is a socket of the kernel's, which knows what to say.

use crate::boundary::{Outcome, errno, outside, set_errno};
use crate::description::Kind;
use crate::hooks::{answered, real};
use crate::stack;
use crate::table::Held;
use capi::calls::data as c;
use capi::calls::messages;
use libc::{c_int, c_uint, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};

/// Calls the C door on a connection, the kernel on everything else.
macro_rules! stream_or_kernel {
    ($held:ident, $stream:expr, $kernel:expr) => {
        answered(match $held.kind() {
            // SAFETY: the caller's arguments.
            Kind::Stream => unsafe { $stream(stack::open()?.context(), $held.below()) },
            // SAFETY: the caller's arguments.
            _ => unsafe { $kernel },
        })
    };
}

/// What a call that sends gave; SIGPIPE, where Linux sends one.
fn sent(outcome: Outcome<ssize_t>, held: &Held, flags: c_int) -> Outcome<ssize_t> {
    let broken = matches!(outcome, Ok(-1)) && held.kind() == Kind::Stream && errno() == libc::EPIPE;
    if broken && flags & libc::MSG_NOSIGNAL == 0 {
        // SAFETY: a number.
        outside(|| unsafe { libc::raise(libc::SIGPIPE) });
        set_errno(libc::EPIPE);
    }
    outcome
}

/// # Safety
/// C's contract of read(2).
pub(crate) unsafe fn read(held: &Held, fd: c_int, to: *mut c_void, len: size_t) -> Outcome<ssize_t> {
    stream_or_kernel!(held, |ctx, below| c::ms_read(ctx, below, to, len), real::read(fd, to, len))
}

/// # Safety
/// C's contract of readv(2).
pub(crate) unsafe fn readv(held: &Held, fd: c_int, to: *const iovec, count: c_int) -> Outcome<ssize_t> {
    stream_or_kernel!(held, |ctx, below| c::ms_readv(ctx, below, to, count), real::readv(fd, to, count))
}

/// # Safety
/// C's contract of recv(2).
pub(crate) unsafe fn recv(
    held: &Held,
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    flags: c_int,
) -> Outcome<ssize_t> {
    stream_or_kernel!(
        held,
        |ctx, below| c::ms_recv(ctx, below, to, len, flags),
        real::recv(fd, to, len, flags)
    )
}

/// # Safety
/// C's contract of recvfrom(2).
pub(crate) unsafe fn recvfrom(
    held: &Held,
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    flags: c_int,
    addr: *mut sockaddr,
    addr_len: *mut socklen_t,
) -> Outcome<ssize_t> {
    stream_or_kernel!(
        held,
        |ctx, below| c::ms_recvfrom(ctx, below, to, len, flags, addr, addr_len),
        real::recvfrom(fd, to, len, flags, addr, addr_len)
    )
}

/// # Safety
/// C's contract of recvmsg(2).
pub(crate) unsafe fn recvmsg(held: &Held, fd: c_int, message: *mut msghdr, flags: c_int) -> Outcome<ssize_t> {
    stream_or_kernel!(
        held,
        |ctx, below| messages::ms_recvmsg(ctx, below, message, flags),
        real::recvmsg(fd, message, flags)
    )
}

/// MSG_WAITFORONE: wait for the first message only.
const WAIT_FOR_ONE: c_int = 0x10000;

/// # Safety
/// C's contract of recvmmsg(2).
pub(crate) unsafe fn recvmmsg(
    held: &Held,
    fd: c_int,
    list: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> Outcome<c_int> {
    if held.kind() != Kind::Stream {
        // SAFETY: the caller's arguments.
        return answered(unsafe { real::recvmmsg(fd, list, count, flags, timeout) });
    }
    // SAFETY: C's contract for `timeout`.
    let limit = unsafe { timeout.as_ref() }
        .map(|time| now() + i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec));
    let mut flags = flags;
    for done in 0..count.min(1_024) {
        // SAFETY: C's contract: so many of them.
        let (got, at) = unsafe {
            let at = list.add(done as usize);
            let header = (&raw mut (*at).msg_hdr).cast::<msghdr>();
            (recvmsg(held, fd, header, flags & !WAIT_FOR_ONE)?, at)
        };
        if got < 0 {
            return if done > 0 { Ok(done as c_int) } else { Ok(-1) };
        }
        // SAFETY: as above.
        unsafe { (*at).msg_len = got as c_uint };
        if flags & WAIT_FOR_ONE != 0 {
            flags |= libc::MSG_DONTWAIT;
        }
        // The end is one message; asking again would only find it again.
        if got == 0 || limit.is_some_and(|limit| now() >= limit) {
            return Ok(done as c_int + 1);
        }
    }
    Ok(count.min(1_024) as c_int)
}

fn now() -> i128 {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

/// # Safety
/// C's contract of write(2).
pub(crate) unsafe fn write(held: &Held, fd: c_int, from: *const c_void, len: size_t) -> Outcome<ssize_t> {
    let done =
        stream_or_kernel!(held, |ctx, below| c::ms_write(ctx, below, from, len), real::write(fd, from, len));
    sent(done, held, 0)
}

/// # Safety
/// C's contract of writev(2).
pub(crate) unsafe fn writev(held: &Held, fd: c_int, from: *const iovec, count: c_int) -> Outcome<ssize_t> {
    let done = stream_or_kernel!(
        held,
        |ctx, below| c::ms_writev(ctx, below, from, count),
        real::writev(fd, from, count)
    );
    sent(done, held, 0)
}

/// # Safety
/// C's contract of send(2).
pub(crate) unsafe fn send(
    held: &Held,
    fd: c_int,
    from: *const c_void,
    len: size_t,
    flags: c_int,
) -> Outcome<ssize_t> {
    let done = stream_or_kernel!(
        held,
        |ctx, below| c::ms_send(ctx, below, from, len, flags),
        real::send(fd, from, len, flags)
    );
    sent(done, held, flags)
}

/// # Safety
/// C's contract of sendto(2).
pub(crate) unsafe fn sendto(
    held: &Held,
    fd: c_int,
    from: *const c_void,
    len: size_t,
    flags: c_int,
    addr: *const sockaddr,
    addr_len: socklen_t,
) -> Outcome<ssize_t> {
    let done = stream_or_kernel!(
        held,
        |ctx, below| c::ms_sendto(ctx, below, from, len, flags, addr, addr_len),
        real::sendto(fd, from, len, flags, addr, addr_len)
    );
    sent(done, held, flags)
}

/// # Safety
/// C's contract of sendmsg(2).
pub(crate) unsafe fn sendmsg(
    held: &Held,
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> Outcome<ssize_t> {
    let done = stream_or_kernel!(
        held,
        |ctx, below| messages::ms_sendmsg(ctx, below, message, flags),
        real::sendmsg(fd, message, flags)
    );
    sent(done, held, flags)
}

/// # Safety
/// C's contract of sendmmsg(2).
pub(crate) unsafe fn sendmmsg(
    held: &Held,
    fd: c_int,
    list: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> Outcome<c_int> {
    if held.kind() != Kind::Stream {
        // SAFETY: the caller's arguments.
        return answered(unsafe { real::sendmmsg(fd, list, count, flags) });
    }
    for done in 0..count.min(1_024) {
        // SAFETY: C's contract: so many of them.
        unsafe {
            let at = list.add(done as usize);
            let octets = sendmsg(held, fd, &raw const (*at).msg_hdr, flags)?;
            if octets < 0 {
                return if done > 0 { Ok(done as c_int) } else { Ok(-1) };
            }
            (*at).msg_len = octets as c_uint;
        }
    }
    Ok(count.min(1_024) as c_int)
}

/// What the compiler's check is for: no call may overrun its buffer.
fn check(len: size_t, room: size_t) {
    if len > room {
        // SAFETY: nothing of ours is held; the C library ends the program in the same place.
        unsafe { libc::abort() }
    }
}

/// # Safety
/// C's contract of read(2).
pub(crate) unsafe fn read_chk(
    held: &Held,
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    room: size_t,
) -> Outcome<ssize_t> {
    check(len, room);
    // SAFETY: the caller's arguments.
    unsafe { read(held, fd, to, len) }
}

/// # Safety
/// C's contract of recv(2).
pub(crate) unsafe fn recv_chk(
    held: &Held,
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
) -> Outcome<ssize_t> {
    check(len, room);
    // SAFETY: the caller's arguments.
    unsafe { recv(held, fd, to, len, flags) }
}

/// # Safety
/// C's contract of recvfrom(2).
#[allow(clippy::too_many_arguments, reason = "the C library's function has so many")]
pub(crate) unsafe fn recvfrom_chk(
    held: &Held,
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    addr: *mut sockaddr,
    addr_len: *mut socklen_t,
) -> Outcome<ssize_t> {
    check(len, room);
    // SAFETY: the caller's arguments.
    unsafe { recvfrom(held, fd, to, len, flags, addr, addr_len) }
}
