//! Bytes. On a connection the C API's functions do the work, which answer as Linux does; everything else that is ours
//! is a socket of the kernel's, which knows what to say.

use crate::boundary::{Outcome, Refused, answered, errno, outside, set_errno};
use crate::description::{Kind, NONE};
use crate::real;
use crate::sleep::by_kernel;
use crate::table::Held;
use crate::{sockets, stack};
use capi::calls::data as c;
use capi::calls::messages;
use capi::memory::is_nowhere;
use libc::{
    c_int, c_short, c_uint, c_void, iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t,
    timespec,
};
use sock::Sockets;

/// Calls the C API on a connection, the kernel on everything else. `$events` are those that the call waits for.
macro_rules! stream_or_kernel {
    ($held:ident, $events:ident($fd:ident, $flags:expr), $stream:expr, $kernel:expr) => {
        match $held.kind() {
            // SAFETY: the caller's arguments.
            Kind::Stream => answered(unsafe { $stream(stack::open()?.context(), $held.below()) }),
            // SAFETY: the caller's arguments.
            Kind::Relayed => by_kernel(waits_for($fd, libc::$events, $flags), || unsafe { $kernel }),
            Kind::Listener if libc::$events == libc::POLLOUT => {
                left_error($held)?;
                // SAFETY: the caller's arguments.
                answered(outside(|| unsafe { $kernel }))
            }
            // SAFETY: the caller's arguments.
            _ => answered(outside(|| unsafe { $kernel })),
        }
    };
}

/// Fails with the error that a listener has left from a connection that was taken apart, which a send takes.
fn left_error(held: &Held) -> Outcome<()> {
    let mut error = [0; size_of::<c_int>()];
    if held.below() != NONE {
        stack::open()?.runner.getsockopt(held.below(), libc::SOL_SOCKET, libc::SO_ERROR, &mut error)?;
    }
    match c_int::from_ne_bytes(error) {
        0 => Ok(()),
        error => Err(Refused(error)),
    }
}

/// Returns the descriptor and events that a call with these flags waits for.
pub(crate) fn waits_for(fd: c_int, events: c_short, flags: c_int) -> Option<(c_int, c_short)> {
    (flags & libc::MSG_DONTWAIT == 0).then_some((fd, events))
}

/// Returns the result of a call that sends; raises SIGPIPE where Linux does.
fn sent(outcome: Outcome<ssize_t>, held: &Held, flags: c_int) -> Outcome<ssize_t> {
    let failed = matches!(outcome, Ok(-1));
    sent_until(outcome, failed, held, flags)
}

/// As [`sent`], of a call that failed in the end.
fn sent_until<T>(outcome: Outcome<T>, failed: bool, held: &Held, flags: c_int) -> Outcome<T> {
    let broken = failed && held.kind() == Kind::Stream && errno() == libc::EPIPE;
    if broken && flags & libc::MSG_NOSIGNAL == 0 {
        // SAFETY: a number.
        outside(|| unsafe { libc::raise(libc::SIGPIPE) });
        set_errno(libc::EPIPE);
    }
    outcome
}

pub(crate) unsafe fn read(held: &Held, fd: c_int, to: *mut c_void, len: size_t) -> Outcome<ssize_t> {
    stream_or_kernel!(
        held,
        POLLIN(fd, 0),
        |ctx, below| c::ms_read(ctx, below, to, len),
        real::read(fd, to, len)
    )
}

pub(crate) unsafe fn readv(held: &Held, fd: c_int, to: *const iovec, count: c_int) -> Outcome<ssize_t> {
    stream_or_kernel!(
        held,
        POLLIN(fd, 0),
        |ctx, below| c::ms_readv(ctx, below, to, count),
        real::readv(fd, to, count)
    )
}

pub(crate) unsafe fn recv(
    held: &Held,
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    flags: c_int,
) -> Outcome<ssize_t> {
    stream_or_kernel!(
        held,
        POLLIN(fd, flags),
        |ctx, below| c::ms_recv(ctx, below, to, len, flags),
        real::recv(fd, to, len, flags)
    )
}

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
        POLLIN(fd, flags),
        |ctx, below| c::ms_recvfrom(ctx, below, to, len, flags, addr, addr_len),
        real::recvfrom(fd, to, len, flags, addr, addr_len)
    )
}

pub(crate) unsafe fn recvmsg(held: &Held, fd: c_int, message: *mut msghdr, flags: c_int) -> Outcome<ssize_t> {
    stream_or_kernel!(
        held,
        POLLIN(fd, flags),
        |ctx, below| messages::ms_recvmsg(ctx, below, message, flags),
        real::recvmsg(fd, message, flags)
    )
}

pub(crate) unsafe fn recvmmsg(
    held: &Held,
    fd: c_int,
    list: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> Outcome<c_int> {
    stream_or_kernel!(
        held,
        POLLIN(fd, flags),
        |ctx, below| messages::ms_recvmmsg(ctx, below, list, count, flags, timeout),
        real::recvmmsg(fd, list, count, flags, timeout)
    )
}

/// Flags of preadv2 and pwritev2 that mean nothing to a socket (RWF_HIPRI, RWF_DSYNC, RWF_SYNC, RWF_APPEND), and
/// RWF_NOWAIT.
const NOTHING: c_int = 0x17;
const NOW: c_int = 0x08;

/// Do bytes go where the file is, as readv and writev do it? Everything else is wrong of a socket, as the kernel says.
fn where_it_is(held: &Held, offset: off_t, flags: c_int) -> bool {
    held.kind() == Kind::Stream && offset == -1 && flags & !(NOTHING | NOW) == 0
}

pub(crate) unsafe fn preadv2(
    held: &Held,
    fd: c_int,
    to: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> Outcome<ssize_t> {
    if !where_it_is(held, offset, flags) {
        let waits_for = (flags & NOW == 0).then_some((fd, libc::POLLIN));
        // SAFETY: the caller's arguments.
        return by_kernel(waits_for, || unsafe { real::preadv2(fd, to, count, offset, flags) });
    }
    if flags & NOW == 0 {
        // SAFETY: the caller's arguments.
        return unsafe { readv(held, fd, to, count) };
    }
    let mut message = message(to, count)?;
    // SAFETY: a message of this frame's around the caller's parts.
    unsafe { recvmsg(held, fd, &raw mut message, libc::MSG_DONTWAIT) }
}

pub(crate) unsafe fn pwritev2(
    held: &Held,
    fd: c_int,
    from: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> Outcome<ssize_t> {
    if !where_it_is(held, offset, flags) {
        let waits_for = (flags & NOW == 0).then_some((fd, libc::POLLOUT));
        // SAFETY: the caller's arguments.
        return by_kernel(waits_for, || unsafe { real::pwritev2(fd, from, count, offset, flags) });
    }
    if flags & NOW == 0 {
        // SAFETY: the caller's arguments.
        return unsafe { writev(held, fd, from, count) };
    }
    let message = message(from, count)?;
    // SAFETY: a message of this frame's around the caller's parts.
    unsafe { sendmsg(held, fd, &raw const message, libc::MSG_DONTWAIT) }
}

/// A message of these parts; EINVAL for too many, as of vectors.
fn message(parts: *const iovec, count: c_int) -> Outcome<msghdr> {
    let count = usize::try_from(count).ok().filter(|count| *count <= 1_024).ok_or(Refused(libc::EINVAL))?;
    // SAFETY: zeroes are a msghdr.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (parts.cast_mut(), count);
    Ok(message)
}

pub(crate) unsafe fn write(held: &Held, fd: c_int, from: *const c_void, len: size_t) -> Outcome<ssize_t> {
    let done = stream_or_kernel!(
        held,
        POLLOUT(fd, 0),
        |ctx, below| c::ms_write(ctx, below, from, len),
        real::write(fd, from, len)
    );
    sent(done, held, 0)
}

pub(crate) unsafe fn writev(held: &Held, fd: c_int, from: *const iovec, count: c_int) -> Outcome<ssize_t> {
    let done = stream_or_kernel!(
        held,
        POLLOUT(fd, 0),
        |ctx, below| c::ms_writev(ctx, below, from, count),
        real::writev(fd, from, count)
    );
    sent(done, held, 0)
}

pub(crate) unsafe fn send(
    held: &Held,
    fd: c_int,
    from: *const c_void,
    len: size_t,
    flags: c_int,
) -> Outcome<ssize_t> {
    let done = stream_or_kernel!(
        held,
        POLLOUT(fd, flags),
        |ctx, below| c::ms_send(ctx, below, from, len, flags),
        real::send(fd, from, len, flags)
    );
    sent(done, held, flags)
}

pub(crate) unsafe fn sendto(
    held: &Held,
    fd: c_int,
    from: *const c_void,
    len: size_t,
    flags: c_int,
    addr: *const sockaddr,
    addr_len: socklen_t,
) -> Outcome<ssize_t> {
    let done = if flags & libc::MSG_FASTOPEN != 0 {
        // SAFETY: the caller's arguments.
        let on_stack = |ctx, below| unsafe { c::ms_sendto(ctx, below, from, len, flags, addr, addr_len) };
        // SAFETY: the caller's arguments.
        let by_kernel = || outside(|| unsafe { real::sendto(fd, from, len, flags, addr, addr_len) });
        // SAFETY: the caller's arguments.
        unsafe { sockets::connect_by(held, fd, (addr, addr_len), on_stack, None, by_kernel) }
    } else {
        stream_or_kernel!(
            held,
            POLLOUT(fd, flags),
            |ctx, below| c::ms_sendto(ctx, below, from, len, flags, addr, addr_len),
            real::sendto(fd, from, len, flags, addr, addr_len)
        )
    };
    sent(done, held, flags)
}

pub(crate) unsafe fn sendmsg(
    held: &Held,
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> Outcome<ssize_t> {
    let done = if flags & libc::MSG_FASTOPEN != 0 && !is_nowhere(message) {
        // SAFETY: not NULL, and the caller vouches for the rest.
        let to = unsafe { ((*message).msg_name.cast_const().cast(), (*message).msg_namelen) };
        // SAFETY: the caller's arguments.
        let on_stack = |ctx, below| unsafe { messages::ms_sendmsg(ctx, below, message, flags) };
        // SAFETY: the caller's arguments.
        let by_kernel = || outside(|| unsafe { real::sendmsg(fd, message, flags) });
        // SAFETY: the caller's arguments.
        unsafe { sockets::connect_by(held, fd, to, on_stack, None, by_kernel) }
    } else {
        stream_or_kernel!(
            held,
            POLLOUT(fd, flags),
            |ctx, below| messages::ms_sendmsg(ctx, below, message, flags),
            real::sendmsg(fd, message, flags)
        )
    };
    sent(done, held, flags)
}

pub(crate) unsafe fn sendmmsg(
    held: &Held,
    fd: c_int,
    list: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> Outcome<c_int> {
    set_errno(0);
    let done = if flags & libc::MSG_FASTOPEN != 0 && count > 0 && !is_nowhere(list.cast_const()) {
        // SAFETY: not NULL, and the caller vouches for the rest.
        let to = unsafe { ((*list).msg_hdr.msg_name.cast_const().cast(), (*list).msg_hdr.msg_namelen) };
        // SAFETY: the caller's arguments.
        let on_stack = |ctx, below| unsafe { messages::ms_sendmmsg(ctx, below, list, count, flags) };
        // SAFETY: the caller's arguments.
        let by_kernel = || outside(|| unsafe { real::sendmmsg(fd, list, count, flags) });
        // SAFETY: the caller's arguments.
        unsafe { sockets::connect_by(held, fd, to, on_stack, None, by_kernel) }
    } else {
        stream_or_kernel!(
            held,
            POLLOUT(fd, flags),
            |ctx, below| messages::ms_sendmmsg(ctx, below, list, count, flags),
            real::sendmmsg(fd, list, count, flags)
        )
    };
    // Behind others a message may have failed that is told by its signal alone.
    let failed = done.as_ref().is_ok_and(|done| u32::try_from(*done).map_or(true, |done| done < count));
    sent_until(done, failed, held, flags)
}

/// Checks, as the compiler's fortified calls do, that no call overruns its buffer.
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
