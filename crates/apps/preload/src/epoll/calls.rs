//! epoll_create, epoll_create1, epoll_ctl.

use super::change;
use crate::boundary::{Refused, answered, guard, is_inside};
use crate::description::{Description, Kind, NONE};
use crate::table::{self, Place};
use crate::{real, relay, stack};
use capi::memory::is_nowhere;
use libc::{c_int, epoll_event};

/// A new set of the kernel's, which is one of ours from the beginning: it may be in others before it has anything.
fn created(fd: c_int) -> c_int {
    if fd >= 0 && !is_inside() && stack::settings().is_some() {
        table::put(fd, Description::make(Kind::Epoll, false, NONE));
    }
    fd
}

/// # Safety
/// C's contract of epoll_create(2).
pub(crate) unsafe fn create(size: c_int) -> c_int {
    // SAFETY: a number.
    created(unsafe { real::epoll_create(size) })
}

/// # Safety
/// C's contract of epoll_create1(2).
pub(crate) unsafe fn create1(flags: c_int) -> c_int {
    // SAFETY: a number.
    created(unsafe { real::epoll_create1(flags) })
}

/// # Safety
/// C's contract of epoll_ctl(2).
pub(crate) unsafe fn ctl(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    if table::is_kernels(fd) {
        if let Some(set) = table::glance(epfd).filter(|set| set.kind() == Kind::Epoll) {
            set.turns().expect();
        }
        // SAFETY: the caller's arguments.
        return unsafe { real::epoll_ctl(epfd, op, fd, event) };
    }
    let ours_calls = is_inside();
    guard(|| match table::look(fd) {
        Place::Hidden if !ours_calls => Err(Refused(libc::EBADF)),
        // SAFETY: the caller's arguments.
        Place::Kernel | Place::Hidden => answered(unsafe { real::epoll_ctl(epfd, op, fd, event) }),
        Place::Ours(target) => {
            relay::settle_to_wait(&target, fd)?;
            if target.kind() == Kind::Relayed {
                // SAFETY: the caller's arguments.
                return answered(unsafe { real::epoll_ctl(epfd, op, fd, event) });
            }
            let wanted = if op == libc::EPOLL_CTL_DEL {
                None
            } else if is_nowhere(event) {
                return Err(Refused(libc::EFAULT));
            } else {
                // SAFETY: not NULL, and the caller vouches for the rest.
                Some(unsafe { event.read_unaligned() })
            };
            // SAFETY: the caller's arguments.
            unsafe { change(epfd, op, fd, &target, wanted) }
        }
    })
}
