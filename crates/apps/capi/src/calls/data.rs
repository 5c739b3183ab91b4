//! Bytes: read(2), write(2), recv(2), send(2) and their kin.

use super::sockets::{raw, remote};
use crate::boundary::{Outcome, Refused, refuse};
use crate::context::Context;
use crate::memory;
use base::Endpoint;
use libc::{c_int, c_void, iovec, size_t, sockaddr, socklen_t, ssize_t};
use sock::address::Named;
use sock::{Errno, Fd, RecvFlags, SendFlags};
use std::cell::RefCell;

/// Bytes that a call through several vectors moves at a time, and that a thread keeps for it.
const SCRATCH: usize = 256 << 10;

thread_local! {
    /// Where several vectors become one.
    static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Runs `call` with a buffer of this thread's.
pub(super) fn with_scratch<R>(call: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    GATHERED.with(|gathered| {
        let mut scratch = gathered.take();
        scratch.clear();
        let result = call(&mut scratch);
        if scratch.capacity() <= SCRATCH {
            gathered.replace(scratch);
        }
        result
    })
}

/// MSG_* of a call that receives; the others are ignored, as Linux's TCP does.
pub(super) fn recv_flags(flags: c_int) -> Outcome<RecvFlags> {
    if flags & libc::MSG_OOB != 0 {
        return Err(refuse(libc::EINVAL, "there is no urgent data"));
    }
    Ok(RecvFlags {
        peek: flags & libc::MSG_PEEK != 0,
        dont_wait: flags & libc::MSG_DONTWAIT != 0,
        wait_all: flags & libc::MSG_WAITALL != 0,
        discard: flags & libc::MSG_TRUNC != 0,
    })
}

/// MSG_* of a call that sends; the others are ignored, as Linux's TCP does.
pub(super) fn send_flags(flags: c_int) -> Outcome<SendFlags> {
    if flags & libc::MSG_OOB != 0 {
        return Err(refuse(libc::EOPNOTSUPP, "there is no urgent data"));
    }
    Ok(SendFlags {
        dont_wait: flags & libc::MSG_DONTWAIT != 0,
        more: flags & libc::MSG_MORE != 0,
        end_of_record: flags & libc::MSG_EOR != 0,
        zero_copy: flags & libc::MSG_ZEROCOPY != 0,
    })
}

/// Receives into one place or several, one after the other. Each is looked at when there is something for it: what
/// cannot be put there stays.
///
/// # Safety
/// C's contract for each vector.
pub(super) unsafe fn receive_into(ctx: &Context, fd: Fd, to: &[iovec], flags: RecvFlags) -> Outcome<usize> {
    let (sockets, total) = (ctx.sockets()?, memory::total(to));
    match to {
        [one] if !flags.discard => {
            // SAFETY: C's contract.
            let room = unsafe { memory::later_room(one.iov_base, one.iov_len) }?;
            let check = |from, len| memory::can_write(one.iov_base.wrapping_byte_add(from), len);
            Ok(sockets.recv_checked(fd, room, flags, &check)?)
        }
        _ => with_scratch(|scratch| {
            scratch.resize(if flags.wait_all { total } else { total.min(SCRATCH) }, 0);
            let check = |from, len| memory::can_scatter(to, from, len);
            let got = sockets.recv_checked(fd, scratch, flags, &check)?;
            if !flags.discard {
                // SAFETY: C's contract.
                unsafe { memory::scatter(&scratch[..got], to) }?;
            }
            Ok(got)
        }),
    }
}

/// Receives as recv(2) does.
///
/// # Safety
/// C's contract for `to` and `len`.
unsafe fn receive(ctx: &Context, fd: Fd, to: *mut c_void, len: size_t, flags: c_int) -> Outcome<ssize_t> {
    let to = [iovec { iov_base: to, iov_len: len }];
    ctx.socket_only(fd)?;
    ctx.unless_no_socket(fd, memory::are_programs(&to))?;
    if flags & libc::MSG_ERRQUEUE != 0 {
        ctx.sockets()?.recv_error(fd)?;
        return Ok(0);
    }
    let how = ctx.unless_no_socket(fd, recv_flags(flags))?;
    // SAFETY: C's contract.
    let got = unsafe { receive_into(ctx, fd, &to, how) };
    Ok(ctx.unless_no_socket(fd, got)? as ssize_t)
}

/// Receives as readv(2) does.
///
/// # Safety
/// C's contract for each vector.
unsafe fn recv_vectors(ctx: &Context, fd: Fd, to: &[iovec]) -> Outcome<ssize_t> {
    ctx.unless_bad(fd, memory::are_programs(to))?;
    let (sockets, flags) = (ctx.sockets()?, RecvFlags::default());
    if memory::total(to) == 0 {
        if ctx.is_v6(fd).is_ok() {
            // Not even a pending error is taken.
            return Ok(0);
        }
        // As on Linux nothing is read, not even the state of the connection.
        return match sockets.recv(fd, &mut [], RecvFlags { dont_wait: true, ..flags }) {
            Err(e @ (Errno::EBADF | Errno::EINVAL)) => Err(e.into()),
            _ => Ok(0),
        };
    }
    // SAFETY: C's contract.
    unsafe { receive_into(ctx, fd, to, flags) }.map(|got| got as ssize_t)
}

/// Sends from one place or several, of which nothing of another call comes between. `to` is where MSG_FASTOPEN connects
/// to. A socket that could not send anyway says so before the memory is blamed, as on Linux.
///
/// # Safety
/// C's contract for each vector.
pub(super) unsafe fn send_vectors(
    ctx: &Context,
    fd: Fd,
    from: &[iovec],
    flags: SendFlags,
    to: Option<Option<Endpoint>>,
) -> Outcome<ssize_t> {
    memory::are_programs(from)?;
    let sockets = ctx.sockets()?;
    if let ([one], None) = (from, to) {
        // SAFETY: C's contract.
        let bytes = unsafe { memory::later_bytes(one.iov_base, one.iov_len) }?;
        let check = |from, len| memory::can_read(one.iov_base.wrapping_byte_add(from), len);
        return Ok(sockets.send_checked(fd, bytes, flags, &check)? as ssize_t);
    }
    with_scratch(|scratch| {
        // SAFETY: C's contract.
        if let Err(fault) = unsafe { memory::gather(from, scratch) } {
            match to {
                Some(_) => sockets.send(fd, &[], SendFlags { dont_wait: true, ..flags })?,
                // It waits for room first.
                None => sockets.send_checked(fd, &[0], flags, &|_, _| false)?,
            };
            return Err(fault);
        }
        let sent = match to {
            Some(remote) => sockets.send_fast(fd, scratch, remote, flags)?,
            None => sockets.send(fd, scratch, flags)?,
        };
        Ok(sent as ssize_t)
    })
}

/// Where MSG_FASTOPEN connects to: a name, or the one that connect has said.
///
/// # Safety
/// C's contract for `addr` and `len`.
pub(super) unsafe fn fast_open(
    ctx: &Context,
    fd: Fd,
    flags: c_int,
    addr: *const sockaddr,
    len: socklen_t,
) -> Outcome<Option<Option<Endpoint>>> {
    match (flags & libc::MSG_FASTOPEN != 0, addr.is_null()) {
        (false, _) => Ok(None),
        (true, true) => Ok(Some(None)),
        // SAFETY: C's contract.
        (true, false) => match unsafe { remote(ctx, fd, addr, len) }? {
            Named::At(remote) => Ok(Some(Some(remote))),
            Named::Nobody => Err(Refused(libc::EOPNOTSUPP)),
        },
    }
}

api! {
    /// read(2), from a socket or a pipe.
    fn ms_read(ctx, fd: c_int, to: *mut c_void, len: size_t) -> ssize_t {
        // SAFETY: C's contract.
        unsafe { recv_vectors(ctx, fd, &[iovec { iov_base: to, iov_len: len }]) }
    }

    /// write(2), to a socket or a pipe. A blocking socket takes everything. There is no SIGPIPE: EPIPE is all.
    fn ms_write(ctx, fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
        let from = [iovec { iov_base: from.cast_mut(), iov_len: len }];
        ctx.unless_bad(fd, memory::are_programs(&from))?;
        // SAFETY: C's contract.
        unsafe { send_vectors(ctx, fd, &from, SendFlags::default(), None) }
    }

    /// readv(2).
    fn ms_readv(ctx, fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
        let count = usize::try_from(count).map_err(|_| Refused(libc::EINVAL));
        // SAFETY: C's contract.
        let to = count.and_then(|count| unsafe { memory::vectors(vectors, count) });
        let to = ctx.unless_bad(fd, to)?;
        // SAFETY: C's contract.
        unsafe { recv_vectors(ctx, fd, to) }
    }

    /// writev(2): nothing of another call comes between the parts.
    fn ms_writev(ctx, fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
        let count = usize::try_from(count).map_err(|_| Refused(libc::EINVAL));
        // SAFETY: C's contract.
        let from = count.and_then(|count| unsafe { memory::vectors(vectors, count) });
        let from = ctx.unless_bad(fd, from.and_then(|from| memory::are_programs(from).map(|()| from)))?;
        if memory::total(from) == 0 && ctx.is_v6(fd).is_ok() {
            // As on Linux a pending error stays for the next call.
            return Ok(0);
        }
        // SAFETY: C's contract.
        unsafe { send_vectors(ctx, fd, from, SendFlags::default(), None) }
    }

    /// recv(2) with MSG_PEEK, MSG_DONTWAIT, MSG_WAITALL, MSG_TRUNC; MSG_OOB is EINVAL.
    fn ms_recv(ctx, fd: c_int, to: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
        // SAFETY: C's contract.
        unsafe { receive(ctx, fd, to, len, flags) }
    }

    /// send(2) with MSG_DONTWAIT, MSG_MORE, MSG_EOR, MSG_ZEROCOPY, MSG_FASTOPEN; there is no SIGPIPE.
    fn ms_send(ctx, fd: c_int, from: *const c_void, len: size_t, flags: c_int) -> ssize_t {
        ctx.socket_only(fd)?;
        let from = [iovec { iov_base: from.cast_mut(), iov_len: len }];
        ctx.unless_no_socket(fd, memory::are_programs(&from))?;
        let how = ctx.unless_no_socket(fd, send_flags(flags))?;
        let to = (flags & libc::MSG_FASTOPEN != 0).then_some(None);
        // SAFETY: C's contract.
        ctx.unless_no_socket(fd, unsafe { send_vectors(ctx, fd, &from, how, to) })
    }

    /// recvfrom(2): a TCP socket names no peer, so `*addr_len` becomes 0.
    fn ms_recvfrom(ctx, fd: c_int, to: *mut c_void, len: size_t, flags: c_int, addr: *mut sockaddr,
                   addr_len: *mut socklen_t) -> ssize_t {
        // SAFETY: C's contract.
        let got = unsafe { receive(ctx, fd, to, len, flags) }?;
        if !addr.is_null() {
            // SAFETY: C's contract.
            unsafe { memory::put(0, addr_len) }?;
        }
        Ok(got)
    }

    /// sendto(2): the address counts with MSG_FASTOPEN, which connects to it with data in the SYN; else it is ignored,
    /// as on Linux.
    fn ms_sendto(ctx, fd: c_int, from: *const c_void, len: size_t, flags: c_int, addr: *const sockaddr,
                 addr_len: socklen_t) -> ssize_t {
        ctx.socket_only(fd)?;
        let from = [iovec { iov_base: from.cast_mut(), iov_len: len }];
        ctx.unless_no_socket(fd, memory::are_programs(&from))?;
        // SAFETY: C's contract.
        unsafe {
            if !addr.is_null() {
                ctx.unless_no_socket(fd, raw(addr, addr_len))?;
            }
            let how = ctx.unless_no_socket(fd, send_flags(flags))?;
            let to = fast_open(ctx, fd, flags, addr, addr_len)?;
            ctx.unless_no_socket(fd, send_vectors(ctx, fd, &from, how, to))
        }
    }
}
