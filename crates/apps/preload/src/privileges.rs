//! Giving up root. Opening a link takes privileges, and servers listen before they give theirs up and wait
//! afterwards: so a process that listens opens its stack when it stops being root, and not later.

use crate::boundary::inside;
use crate::description::Kind;
use crate::hooks::real;
use crate::{sockets, stack, table};
use libc::{c_int, uid_t};

/// A user that a call leaves as it is.
const SAME: uid_t = uid_t::MAX;

/// The effective user is to be `user`: whatever listens does so on the stack, if it would be too late afterwards.
fn before(user: uid_t) {
    // SAFETY: takes nothing.
    if user == 0 || user == SAME || unsafe { libc::geteuid() } != 0 || stack::settings().is_none() {
        return;
    }
    inside(|| {
        let (ours, _) = table::all();
        for fd in ours {
            let Some(held) = table::ours(fd).filter(|held| held.kind() == Kind::Listener) else { continue };
            // What goes wrong is said; the call that waits for the listener fails by it.
            let Ok(stack) = stack::open() else { return };
            if sockets::listen_below(stack, &held, fd).is_err() {
                return;
            }
        }
    });
}

/// # Safety
/// C's contract of setuid(2).
pub(crate) unsafe fn setuid(user: uid_t) -> c_int {
    before(user);
    // SAFETY: numbers alone.
    unsafe { real::setuid(user) }
}

/// # Safety
/// C's contract of seteuid(2).
pub(crate) unsafe fn seteuid(user: uid_t) -> c_int {
    before(user);
    // SAFETY: numbers alone.
    unsafe { real::seteuid(user) }
}

/// # Safety
/// C's contract of setreuid(2).
pub(crate) unsafe fn setreuid(own: uid_t, effective: uid_t) -> c_int {
    before(effective);
    // SAFETY: numbers alone.
    unsafe { real::setreuid(own, effective) }
}

/// # Safety
/// C's contract of setresuid(2).
pub(crate) unsafe fn setresuid(own: uid_t, effective: uid_t, saved: uid_t) -> c_int {
    before(effective);
    // SAFETY: numbers alone.
    unsafe { real::setresuid(own, effective, saved) }
}
