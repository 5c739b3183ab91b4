//! Messages of a channel: bytes, and a descriptor with them.

use crate::boundary::errno;
use crate::description::NONE;
use crate::real;
use libc::{c_int, iovec, msghdr, ssize_t};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// A pair of UNIX sockets; `None` if there are no descriptors.
pub(super) fn pair(kind: c_int) -> Option<[c_int; 2]> {
    let mut ends = [NONE; 2];
    // SAFETY: room for two.
    let done = unsafe { libc::socketpair(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) };
    (done == 0).then_some(ends)
}

pub(super) fn close(fd: c_int) {
    if fd != NONE {
        // SAFETY: a descriptor of ours.
        unsafe { real::close(fd) };
    }
}

/// Receives a message: how long it was, or -1, and the descriptor that came with it. The kernel drops all others.
pub(super) fn receive(channel: c_int, into: &mut [u8], flags: c_int) -> (ssize_t, Option<c_int>) {
    loop {
        match receive_once(channel, into, flags) {
            (-1, _) if errno() == libc::EINTR => {}
            received => return received,
        }
    }
}

/// As [`receive`], which a signal ends.
pub(super) fn receive_once(channel: c_int, into: &mut [u8], flags: c_int) -> (ssize_t, Option<c_int>) {
    let mut control = [0_u64; 4];
    let mut part = iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: zeroes are a msghdr, and everything that it points to lives in this frame.
    unsafe {
        let mut message: msghdr = MaybeUninit::zeroed().assume_init();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_LEN(size_of::<c_int>() as u32) as usize;
        let got = real::recvmsg(channel, &raw mut message, flags | libc::MSG_CMSG_CLOEXEC);
        let header = if got < 0 { None } else { libc::CMSG_FIRSTHDR(&raw const message).as_ref() };
        let fd = header
            .filter(|header| header.cmsg_type == libc::SCM_RIGHTS)
            .map(|header| libc::CMSG_DATA(header).cast::<c_int>().read_unaligned());
        (got, fd)
    }
}

/// Sends bytes and a descriptor with them, unless that is [`NONE`]; returns true if they went.
pub(super) fn send(channel: c_int, bytes: &mut [u8], fd: c_int, flags: c_int) -> bool {
    let mut control = [0_u64; 4];
    let mut part = iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: zeroes are a msghdr; everything that it points to lives in this frame, with room for one descriptor.
    unsafe {
        let mut message: msghdr = MaybeUninit::zeroed().assume_init();
        (message.msg_name, message.msg_iov, message.msg_iovlen) = (null_mut(), &raw mut part, 1);
        if fd == NONE {
            return real::sendmsg(channel, &raw const message, libc::MSG_NOSIGNAL | flags)
                == bytes.len() as ssize_t;
        }
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as usize;
        let Some(header) = libc::CMSG_FIRSTHDR(&raw const message).as_mut() else { return false };
        header.cmsg_level = libc::SOL_SOCKET;
        header.cmsg_type = libc::SCM_RIGHTS;
        header.cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as usize;
        libc::CMSG_DATA(header).cast::<c_int>().write_unaligned(fd);
        real::sendmsg(channel, &raw const message, libc::MSG_NOSIGNAL | flags) == bytes.len() as ssize_t
    }
}

/// Bytes as text of an environment or a name.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads [`hex`].
pub(crate) fn bytes(text: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    text.len().is_multiple_of(2).then(|| (0..text.len()).step_by(2).map(pair).collect()).flatten()
}
