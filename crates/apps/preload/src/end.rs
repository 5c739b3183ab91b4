//! The end of the process. The kernel would go on sending what a program left behind when it ended; our stack ends with
//! the program, so the end waits until the peers have it.

use crate::description::Kind;
use crate::inside::inside;
use crate::real;
use crate::{heritage, listener, pump, relay, report, stack, table};
use base::Duration;
use libc::c_int;
use sock::{Shutdown, Sockets};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long the peers may take. A peer that is gone for good is not waited for longer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long connections that were not accepted wait for another process. A master may look for children that have
/// ended once a second (Apache), and the next child begins in a moment of its own.
const HANDOVER: Duration = Duration::from_secs(3);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// The process has begun to end, and the peers have what they can have.
static BEGUN: AtomicBool = AtomicBool::new(false);
static DONE: AtomicBool = AtomicBool::new(false);

/// From now on an orderly end of the process is noticed.
pub(crate) fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: a function that may run while the process ends.
        unsafe { libc::atexit(ends) };
    });
}

/// As the program is loaded. Noted before the program's own functions, [`ends_at_last`] runs after all of them.
pub(crate) fn note_launch() {
    // SAFETY: a function that may run while the process ends.
    unsafe { libc::atexit(ends_at_last) };
}

extern "C" fn ends_at_last() {
    inside(|| {
        if BEGUN.load(Ordering::Acquire) {
            drain();
        }
        report::wait_until_told();
    });
}

extern "C" fn ends() {
    if pump::owes() || pump::lends() {
        // The C library empties its streams after this; one may be over a connection, or a socket that is closed.
        // SAFETY: NULL means all.
        unsafe { libc::fflush(std::ptr::null_mut()) };
    }
    inside(drain);
}

/// The process stays for others, which use connections of it, and for nothing of its own: what asks it to end ends it.
fn leave_numbers() {
    let (ours, _) = table::all();
    // A connection that lies unread in a UNIX socket of the process ends with that socket.
    for fd in ours.into_iter().chain(unix_sockets()) {
        // SAFETY: numbers alone. A connection that was handed over is the receiver's from now on.
        unsafe { real::close(fd) };
    }
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: zeroes are the default action; room for the one before.
        unsafe {
            let mut action = std::mem::zeroed::<libc::sigaction>();
            real::sigaction(signal, std::ptr::null(), &raw mut action);
            if action.sa_sigaction != libc::SIG_IGN {
                action = std::mem::zeroed();
                real::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
    }
}

/// Returns the program's UNIX sockets, but for its standard output and error.
fn unix_sockets() -> impl Iterator<Item = c_int> {
    let is_unix = |fd: &c_int| {
        let (mut domain, mut len) = (0, size_of::<c_int>() as u32);
        // SAFETY: a number of `len` bytes is written to `domain`.
        let asked = unsafe {
            real::getsockopt(*fd, libc::SOL_SOCKET, libc::SO_DOMAIN, (&raw mut domain).cast(), &raw mut len)
        };
        asked == 0 && domain == libc::AF_UNIX
    };
    let program =
        |fd: &c_int| table::is_kernels(*fd) && ![libc::STDOUT_FILENO, libc::STDERR_FILENO].contains(fd);
    heritage::numbers().into_iter().filter(program).filter(is_unix)
}

/// Every connection is shut, and what was written is sent. A handler of a signal that comes meanwhile may end the
/// process anew: then this goes on for that, because the call that was interrupted does not come back.
pub(crate) fn drain() {
    if DONE.load(Ordering::Acquire) {
        return;
    }
    let begins = !BEGUN.swap(true, Ordering::AcqRel);
    if begins {
        listener::tell_unasked();
    }
    let Some(stack) = stack::opened() else { return };
    let (ours, _) = table::all();
    let mut listeners = Vec::new();
    for held in ours.into_iter().filter_map(table::ours) {
        match held.kind() {
            // One that is over is shut already.
            Kind::Stream if begins => _ = stack.runner.shutdown(held.below(), Shutdown::Both),
            Kind::Listener => listeners.push(held),
            _ => {}
        }
    }
    for fd in table::all().0 {
        if table::ours(fd).is_some_and(|held| held.kind() == Kind::Relayed) && pump::owes() {
            // SAFETY: numbers alone. What lies in the socket is passed on, and then its end.
            unsafe { real::shutdown(fd, libc::SHUT_WR) };
        }
    }
    let begun = stack.runner.time();
    let mut until = begun + TIMEOUT;
    if begins && pump::lends() {
        leave_numbers();
    }
    let shares = listeners.iter().any(|held| held.is_shared());
    // Connections that were not accepted go to another process that listens there, which may be about to begin.
    let waits = || shares && stack.runner.hand_over_all() && stack.runner.time() < begun + HANDOVER;
    loop {
        let waits = waits();
        if pump::lends() {
            until = stack.runner.time() + TIMEOUT;
        } else if !(waits || pump::owes() || relay::owes() || stack.runner.has_unsent())
            || stack.runner.time() >= until
        {
            break;
        }
        // Nothing is left to be told of an error of the port.
        let _ = stack.runner.poll(&mut [], Some(LOOK));
    }
    if DONE.swap(true, Ordering::AcqRel) {
        return;
    }
    // What found no process is reset. Of several numbers for a listener the first closes it.
    listeners.iter().for_each(|held| stack::close(held.below()));
    report::ends(&stack.counters());
    stack.hide();
}
