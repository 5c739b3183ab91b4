//! Giving up root. Servers listen before they do and wait afterwards, or listen afterwards: so what listens does so on
//! the stack while the process may still have any port, and the process keeps what later claims take, and the opening
//! of a stack (`sock::give_up_root`). Not so helpers: a copy of a process that had sockets, which itself listens
//! nowhere, gives up everything.
//!
//! Some of what a stack opens lies outside a changed root directory, which is the second reason to listen at once.

use crate::boundary::inside;
use crate::description::Kind;
use crate::hooks::real;
use crate::{report, sockets, stack, table};
use libc::{c_char, c_int, uid_t};

/// A user that a call leaves as it is.
const SAME: uid_t = uid_t::MAX;

/// Whatever listens does so on the stack. Does anything?
fn listen_now() -> bool {
    inside(|| {
        let (ours, _) = table::all();
        let mut any = false;
        for fd in ours {
            let Some(held) = table::ours(fd).filter(|held| held.kind() == Kind::Listener) else { continue };
            any = true;
            // What goes wrong is said; the call that waits for the listener fails by it.
            let Ok(stack) = stack::open() else { break };
            if sockets::listen_below(stack, &held, fd).is_err() {
                break;
            }
        }
        any
    })
}

/// Changes the effective user to `user`.
fn change(user: uid_t, call: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: takes nothing.
    let leaves = user != 0 && user != SAME && unsafe { libc::geteuid() } == 0;
    let Some(settings) = stack::settings().filter(|_| leaves) else { return call() };
    // Later it may not be opened any more.
    report::open();
    if listen_now() || !stack::is_copy() { sock::give_up_root(&settings.link, call) } else { call() }
}

/// # Safety
/// C's contract of setuid(2).
pub(crate) unsafe fn setuid(user: uid_t) -> c_int {
    // SAFETY: numbers alone.
    change(user, || unsafe { real::setuid(user) })
}

/// # Safety
/// C's contract of seteuid(2).
pub(crate) unsafe fn seteuid(user: uid_t) -> c_int {
    // SAFETY: numbers alone.
    change(user, || unsafe { real::seteuid(user) })
}

/// # Safety
/// C's contract of setreuid(2).
pub(crate) unsafe fn setreuid(own: uid_t, effective: uid_t) -> c_int {
    // SAFETY: numbers alone.
    change(effective, || unsafe { real::setreuid(own, effective) })
}

/// # Safety
/// C's contract of setresuid(2).
pub(crate) unsafe fn setresuid(own: uid_t, effective: uid_t, saved: uid_t) -> c_int {
    // SAFETY: numbers alone.
    change(effective, || unsafe { real::setresuid(own, effective, saved) })
}

/// # Safety
/// C's contract of chroot(2).
pub(crate) unsafe fn chroot(path: *const c_char) -> c_int {
    if stack::settings().is_some() {
        listen_now();
    }
    // SAFETY: the caller's argument.
    unsafe { real::chroot(path) }
}
