//! Descriptors that a program hands to another one over a UNIX socket (SCM_RIGHTS). A connection of the stack is no
//! descriptor of the kernel's that another process could use, so handing it over is refused, and told: what would
//! arrive there is a socket of which nothing ever comes.

use crate::boundary::{Outcome, Refused, guard, is_inside, say_once};
use crate::data;
use crate::description::Kind;
use crate::hooks::real;
use crate::relay;
use crate::table::{self, Held, Place};
use capi::memory::{can_read, is_nowhere};
use libc::{c_int, c_uint, mmsghdr, msghdr, ssize_t};
use std::sync::Once;

/// Is there a descriptor of ours among those that the message hands over?
///
/// # Safety
/// C's contract of sendmsg(2) for `message`.
unsafe fn hands_over_ours(message: *const msghdr) -> bool {
    // SAFETY: C's contract: NULL or a message with as much beside it as it says.
    unsafe {
        if is_nowhere(message) || (*message).msg_control.is_null() {
            return false;
        }
        if !can_read((*message).msg_control, (*message).msg_controllen) {
            return false;
        }
        let mut next = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = next.as_ref() {
            if (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let data = libc::CMSG_DATA(next).cast::<c_int>();
                let bytes = header.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
                let has = |at: usize| !table::is_kernels(data.add(at).read_unaligned());
                if (0..bytes / size_of::<c_int>()).any(has) {
                    return true;
                }
            }
            next = libc::CMSG_NXTHDR(message, next);
        }
    }
    false
}

/// EOPNOTSUPP if the message hands over what means nothing elsewhere: a connection, or a socket that listens on the
/// link. What is still the kernel's alone may go.
///
/// # Safety
/// As [`hands_over_ours`].
unsafe fn check(message: *const msghdr) -> Outcome<()> {
    static TOLD: Once = Once::new();
    // SAFETY: as the caller vouches.
    if !unsafe { hands_over_ours(message) } {
        return Ok(());
    }
    let (mut refused, mut hidden) = (false, false);
    // SAFETY: as above.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = next.as_ref() {
            let data = libc::CMSG_DATA(next).cast::<c_int>();
            let bytes = header.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
            let rights = (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS);
            for at in 0..if rights { bytes / size_of::<c_int>() } else { 0 } {
                match table::look(data.add(at).read_unaligned()) {
                    Place::Kernel => {}
                    Place::Hidden => hidden = true,
                    Place::Ours(held) => refused |= !is_the_kernels_alone(&held),
                }
            }
            next = libc::CMSG_NXTHDR(message, next);
        }
    }
    if refused {
        say_once(&TOLD, "a connection or listener cannot be handed to another process (EOPNOTSUPP)");
        return Err(Refused(libc::EOPNOTSUPP));
    }
    if hidden { Err(Refused(libc::EBADF)) } else { Ok(()) }
}

fn is_the_kernels_alone(held: &Held) -> bool {
    match held.kind() {
        Kind::Fresh => !held.more().fastened,
        Kind::Epoll | Kind::Relayed => true,
        Kind::Stream | Kind::Listener | Kind::Inherited => false,
    }
}

/// # Safety
/// C's contract of sendmsg(2).
pub(crate) unsafe fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's arguments.
    let kernels = || unsafe { real::sendmsg(fd, message, flags) };
    // SAFETY: C's contract for the message.
    if table::is_kernels(fd) && !unsafe { hands_over_ours(message) } {
        return kernels();
    }
    let ours_calls = is_inside();
    guard(|| match table::look(fd) {
        Place::Kernel | Place::Hidden if ours_calls => Ok(kernels()),
        Place::Hidden => Err(Refused(libc::EBADF)),
        Place::Kernel => {
            // SAFETY: C's contract for the message.
            unsafe { check(message) }?;
            Ok(kernels())
        }
        Place::Ours(held) => {
            relay::settle(&held)?;
            // SAFETY: the caller's arguments.
            unsafe { data::sendmsg(&held, fd, message, flags) }
        }
    })
}

/// # Safety
/// C's contract of sendmmsg(2).
pub(crate) unsafe fn sendmmsg(fd: c_int, list: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    // SAFETY: the caller's arguments.
    let kernels = || unsafe { real::sendmmsg(fd, list, count, flags) };
    let rows = || {
        let rows = (0..count as usize).map(|at| list.wrapping_add(at)).take_while(|row| !is_nowhere(*row));
        // SAFETY: it is there.
        rows.map(|row| unsafe { &raw const (*row).msg_hdr })
    };
    // SAFETY: C's contract for each of them.
    if table::is_kernels(fd) && !rows().any(|row| unsafe { hands_over_ours(row) }) {
        return kernels();
    }
    let ours_calls = is_inside();
    guard(|| match table::look(fd) {
        Place::Kernel | Place::Hidden if ours_calls => Ok(kernels()),
        Place::Hidden => Err(Refused(libc::EBADF)),
        Place::Kernel => {
            for row in rows() {
                // SAFETY: C's contract for each of them.
                unsafe { check(row) }?;
            }
            Ok(kernels())
        }
        Place::Ours(held) => {
            relay::settle(&held)?;
            // SAFETY: the caller's arguments.
            unsafe { data::sendmmsg(&held, fd, list, count, flags) }
        }
    })
}
