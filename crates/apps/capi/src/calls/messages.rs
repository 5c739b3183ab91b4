//! recvmsg(2), sendmsg(2) and several of them at once.

use super::data::{fast_open, receive_into, recv_flags, send_flags, send_vectors};
use crate::boundary::{Outcome, Refused, refuse, set_errno};
use crate::context::Context;
use crate::memory;
use base::Duration;
use libc::{c_int, c_uint, iovec, mmsghdr, msghdr, ssize_t, timespec};
use sock::cmsg::{Control, Stamp};
use sock::{Errno, Fd, PollFd, Ready, RecvFlags};

/// How the socket wants times of arrival told: each option replaces the one before, so the richest that is on.
fn stamp(ctx: &Context, fd: Fd) -> Outcome<Stamp> {
    let sockets = ctx.sockets()?;
    for (name, stamp) in [(libc::SO_TIMESTAMPING, Stamp::Three), (libc::SO_TIMESTAMPNS, Stamp::Nanos)] {
        let mut value = [0; 4];
        sockets.getsockopt(fd, libc::SOL_SOCKET, name, &mut value)?;
        if value != [0; 4] {
            return Ok(stamp);
        }
    }
    Ok(Stamp::Micros)
}

/// The parts of a message; too many of them are EMSGSIZE, unlike those of readv and writev.
///
/// # Safety
/// C's contract for the message, for as long as the result lives.
unsafe fn parts<'a>(header: &msghdr) -> Outcome<&'a [iovec]> {
    if header.msg_iovlen > PARTS_MAX {
        return Err(Refused(libc::EMSGSIZE));
    }
    // SAFETY: C's contract.
    unsafe { memory::vectors(header.msg_iov, header.msg_iovlen) }
}

/// Looks at the control messages of one to send. Those of other levels, descriptors and credentials mean nothing to TCP
/// on Linux either; EOPNOTSUPP for what Linux would do and we do not, EINVAL for what is none.
fn check_control(bytes: &[u8]) -> Outcome<()> {
    let word = |at: usize| {
        bytes.get(at..at + 4).map(|word| i32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
    };
    let mut at = 0;
    while at + CONTROL_HEADER <= bytes.len() {
        let len = bytes[at..].first_chunk().map_or(0, |len| usize::from_ne_bytes(*len));
        if len < CONTROL_HEADER || len > bytes.len() - at {
            return Err(Refused(libc::EINVAL));
        }
        if word(at + 8) == Some(libc::SOL_SOCKET)
            && !matches!(word(at + 12), Some(libc::SCM_RIGHTS | libc::SCM_CREDENTIALS))
        {
            return Err(refuse(libc::EOPNOTSUPP, "a control message of SOL_SOCKET to be sent"));
        }
        at += len.next_multiple_of(size_of::<usize>());
    }
    Ok(())
}

/// Bytes of `struct cmsghdr`: its length, level and type.
const CONTROL_HEADER: usize = 16;
/// Most parts of a message (UIO_MAXIOV), and most messages of ms_sendmmsg.
const PARTS_MAX: usize = 1_024;
/// MSG_WAITFORONE of recvmmsg.
const WAIT_FOR_ONE: c_int = 0x10000;

/// See [`ms_recvmsg`].
///
/// # Safety
/// C's contract of recvmsg(2).
unsafe fn receive_message(ctx: &Context, fd: Fd, message: *mut msghdr, flags: c_int) -> Outcome<ssize_t> {
    let v6 = ctx.is_v6(fd)?;
    // SAFETY: C's contract.
    let header = unsafe { memory::value(message) }?;
    // SAFETY: C's contract.
    let to = unsafe { parts(&header) }?;
    memory::are_programs(to)?;
    let told = flags & libc::MSG_CMSG_CLOEXEC;
    if flags & libc::MSG_ERRQUEUE != 0 {
        let report = ctx.sockets()?.recv_error(fd)?;
        let truncated = if report.truncated { libc::MSG_TRUNC } else { 0 };
        // SAFETY: C's contract.
        unsafe {
            memory::put_message(
                message,
                &Control::of_report(&report, v6),
                libc::MSG_ERRQUEUE | truncated | told,
            )
        }?;
        return Ok(0);
    }
    let flags = recv_flags(flags)?;
    // As on Linux a read of nothing that has slept does not look at what came.
    let looks = memory::total(to) > 0 || ctx.sockets()?.readable(fd).is_ok_and(|len| len > 0);
    // SAFETY: C's contract.
    let len = unsafe { receive_into(ctx, fd, to, flags) }?;
    let mut received = ctx.sockets()?.received(fd, len);
    received.arrived = received.arrived.filter(|_| looks);
    let stamp = if received.arrived.is_some() { stamp(ctx, fd)? } else { Stamp::Micros };
    // SAFETY: C's contract.
    unsafe { memory::put_message(message, &Control::of_data(&received, stamp), told) }?;
    Ok(received.len as ssize_t)
}

/// Is an error pending?
fn has_error(ctx: &Context, fd: Fd) -> Outcome<bool> {
    let mut row = [PollFd { fd, interest: Ready::IN, ready: Ready::NONE }];
    ctx.sockets()?.poll(&mut row, Some(Duration::ZERO))?;
    Ok(row[0].ready.any(Ready::ERR))
}

/// Tells a pending error, and takes it, whether or not data is there.
fn take_error(ctx: &Context, fd: Fd) -> Outcome<()> {
    let sockets = ctx.sockets()?;
    match sockets.recv(fd, &mut [], RecvFlags { dont_wait: true, ..RecvFlags::default() }) {
        // That nothing is connected is no pending error: the message and the flags come before it.
        Ok(_) | Err(Errno::EAGAIN | Errno::ENOTCONN) => {}
        Err(e) => return Err(e.into()),
    }
    if has_error(ctx, fd)? {
        let mut error = [0; 4];
        sockets.getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, &mut error)?;
        let error = i32::from_ne_bytes(error);
        return if error == 0 { Ok(()) } else { Err(Refused(error)) };
    }
    Ok(())
}

/// See [`ms_sendmsg`]. Returns the bytes that were taken, and whether these are all.
///
/// # Safety
/// C's contract of sendmsg(2).
unsafe fn send_message(
    ctx: &Context,
    fd: Fd,
    message: *const msghdr,
    flags: c_int,
) -> Outcome<(ssize_t, bool)> {
    ctx.is_v6(fd)?;
    // SAFETY: C's contract.
    let header = unsafe { memory::value(message) }?;
    let how = send_flags(flags)?;
    // SAFETY: C's contract.
    let from = unsafe { parts(&header) }?;
    if !header.msg_control.is_null() {
        // SAFETY: C's contract.
        check_control(unsafe { memory::bytes(header.msg_control, header.msg_controllen) }?)?;
    }
    // SAFETY: C's contract.
    unsafe {
        let to = fast_open(ctx, fd, flags, header.msg_name.cast(), header.msg_namelen)?;
        let sent = send_vectors(ctx, fd, from, how, to)?;
        Ok((sent, sent as usize == memory::total(from)))
    }
}

/// As many of several messages as `one` does before it fails, of which the length is put down; the error if it was the
/// first.
///
/// # Safety
/// C's contract for `list` and `count`; `one` gets a row of it and how many came before.
unsafe fn each(
    list: *mut mmsghdr,
    count: usize,
    mut one: impl FnMut(*mut msghdr, usize) -> Outcome<(ssize_t, bool)>,
) -> Outcome<c_int> {
    for done in 0..count {
        let row = list.wrapping_add(done);
        // SAFETY: C's contract: so many of them.
        let (message, told) = unsafe { (&raw mut (*row).msg_hdr, &raw mut (*row).msg_len) };
        let len = one(message, done).and_then(|(len, goes_on)| {
            // SAFETY: as above.
            unsafe { memory::put(len as c_uint, told) }?;
            Ok(goes_on)
        });
        match len {
            Ok(true) => {}
            Ok(false) => return Ok(done as c_int + 1),
            Err(refused) if done == 0 => return Err(refused),
            Err(Refused(errno)) => {
                set_errno(errno);
                return Ok(done as c_int);
            }
        }
    }
    Ok(count as c_int)
}

/// A time that a call is given; EINVAL for one that is none.
fn duration(time: &timespec) -> Outcome<Duration> {
    match (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec)) {
        (Ok(seconds), Ok(nanos)) if nanos < 1_000_000_000 => {
            Ok(Duration::from_secs(seconds) + Duration::from_nanos(nanos.into()))
        }
        _ => Err(Refused(libc::EINVAL)),
    }
}

api! {
    /// recvmsg(2): TCP_CM_INQ and times of arrival where they were asked for; with MSG_ERRQUEUE, completions of
    /// MSG_ZEROCOPY and times of sending. Times are on the clock of ms_clock().
    fn ms_recvmsg(ctx, fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        // SAFETY: C's contract.
        unsafe { receive_message(ctx, fd, message, flags) }
    }

    /// sendmsg(2). Control messages that mean something to Linux's TCP are EOPNOTSUPP.
    fn ms_sendmsg(ctx, fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        // SAFETY: C's contract.
        unsafe { send_message(ctx, fd, message, flags) }.map(|(sent, _)| sent)
    }

    /// recvmmsg(2): several times ms_recvmsg, with MSG_WAITFORONE if you like. The time-out is looked at between the
    /// messages, as on Linux, and what is left of it is put there. A pending error comes before data. One behind the
    /// first message is the next call's.
    fn ms_recvmmsg(ctx, fd: c_int, list: *mut mmsghdr, count: c_uint, flags: c_int,
                   timeout: *mut timespec) -> c_int {
        let limit = match timeout.is_null() {
            true => None,
            // SAFETY: C's contract.
            false => Some(ctx.sockets()?.time() + duration(&unsafe { memory::value(timeout) }?)?),
        };
        ctx.is_v6(fd)?;
        if flags & libc::MSG_ERRQUEUE == 0 {
            take_error(ctx, fd)?;
        }
        // SAFETY: C's contract.
        let done = unsafe {
            each(list, count as usize, |message, before| {
                let waits = before > 0 && flags & libc::MSG_ERRQUEUE == 0 && has_error(ctx, fd)?;
                if waits && ctx.sockets()?.readable(fd)? == 0 {
                    return Err(Refused(libc::EAGAIN));
                }
                let only_what_is_there = flags & WAIT_FOR_ONE != 0 && before > 0;
                let flags = flags & !WAIT_FOR_ONE | if only_what_is_there { libc::MSG_DONTWAIT } else { 0 };
                let len = receive_message(ctx, fd, message, flags)?;
                let now = ctx.sockets()?.time();
                Ok((len, limit.is_none_or(|limit| now < limit)))
            })
        }?;
        if let Some(limit) = limit.filter(|_| done > 0) {
            let left = limit.since(ctx.sockets()?.time());
            let left = timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            // SAFETY: C's contract; it was readable.
            unsafe { memory::put(left, timeout) }?;
        }
        Ok(done)
    }

    /// sendmmsg(2): several times ms_sendmsg, 1,024 of them at most. Where one fails behind others, errno says why.
    fn ms_sendmmsg(ctx, fd: c_int, list: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        ctx.is_v6(fd)?;
        // SAFETY: C's contract.
        unsafe {
            each(list, (count as usize).min(PARTS_MAX), |message, _| send_message(ctx, fd, message, flags))
        }
    }
}
