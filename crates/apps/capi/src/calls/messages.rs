//! recvmsg(2) and sendmsg(2).

use super::data::{fast_open, recv_flags, send_flags, send_vectors, with_scratch};
use crate::boundary::{Outcome, refuse};
use crate::context::Context;
use crate::memory;
use libc::{c_int, iovec, msghdr, ssize_t};
use sock::cmsg::{Control, Stamp};
use sock::{Fd, Received, RecvFlags};

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

/// Fills in what recvmsg tells besides the octets.
///
/// # Safety
/// C's contract for `message` and for its `msg_control`.
unsafe fn tell(message: *mut msghdr, control: &Control, flags: c_int) -> Outcome<()> {
    // SAFETY: as the caller vouches.
    let mut header = unsafe { memory::value(message) }?;
    let room = if header.msg_control.is_null() { 0 } else { header.msg_controllen };
    let (fits, all) = control.fit(room);
    // SAFETY: no more than there is room for.
    unsafe { memory::room(header.msg_control, fits.len()) }?.copy_from_slice(fits);
    header.msg_controllen = fits.len();
    header.msg_namelen = 0;
    header.msg_flags = if all { flags } else { flags | libc::MSG_CTRUNC };
    // SAFETY: it was readable, and recvmsg may write to it.
    unsafe { memory::put(header, message) }
}

/// Octets into the vectors, and what came beside them.
///
/// # Safety
/// C's contract for each vector.
unsafe fn receive(ctx: &Context, fd: Fd, to: &[iovec], flags: RecvFlags) -> Outcome<Received> {
    let sockets = ctx.sockets()?;
    if let [one] = to {
        // SAFETY: C's contract.
        let room = unsafe { memory::room(one.iov_base, one.iov_len) }?;
        return Ok(sockets.recv_message(fd, room, flags)?);
    }
    with_scratch(|scratch| {
        scratch.resize(memory::total(to), 0);
        let received = sockets.recv_message(fd, scratch, flags)?;
        // SAFETY: C's contract.
        unsafe { memory::scatter(&scratch[..received.len], to) }?;
        Ok(received)
    })
}

doors! {
    /// recvmsg(2): TCP_CM_INQ and times of arrival where they were asked for; with MSG_ERRQUEUE, completions of
    /// MSG_ZEROCOPY and times of sending. Times are on the clock of ms_clock().
    fn ms_recvmsg(ctx, fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        let v6 = ctx.is_v6(fd)?;
        // SAFETY: C's contract.
        let header = unsafe { memory::value(message) }?;
        if flags & libc::MSG_ERRQUEUE != 0 {
            let report = ctx.sockets()?.recv_error(fd)?;
            let truncated = if report.truncated { libc::MSG_TRUNC } else { 0 };
            // SAFETY: C's contract.
            unsafe { tell(message, &Control::of_report(&report, v6), libc::MSG_ERRQUEUE | truncated) }?;
            return Ok(0);
        }
        let flags = recv_flags(flags)?;
        // SAFETY: C's contract.
        let to = unsafe { memory::vectors(header.msg_iov, header.msg_iovlen) }?;
        // SAFETY: C's contract.
        let received = unsafe { receive(ctx, fd, to, flags) }?;
        let told = if received.arrived.is_some() { stamp(ctx, fd)? } else { Stamp::Micros };
        // SAFETY: C's contract.
        unsafe { tell(message, &Control::of_data(&received, told), 0) }?;
        Ok(received.len as ssize_t)
    }

    /// sendmsg(2), without control messages (EOPNOTSUPP).
    fn ms_sendmsg(ctx, fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        ctx.is_v6(fd)?;
        // SAFETY: C's contract.
        let header = unsafe { memory::value(message) }?;
        let how = send_flags(flags)?;
        if header.msg_controllen != 0 {
            return Err(refuse(libc::EOPNOTSUPP, "ms_sendmsg takes no control messages"));
        }
        // SAFETY: C's contract.
        let from = unsafe { memory::vectors(header.msg_iov, header.msg_iovlen) }?;
        // SAFETY: C's contract.
        unsafe {
            let to = fast_open(ctx, fd, flags, header.msg_name.cast(), header.msg_namelen)?;
            send_vectors(ctx, fd, from, how, to)
        }
    }
}
