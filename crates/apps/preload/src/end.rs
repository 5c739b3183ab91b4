//! The end of the process. The kernel would go on sending what a program left behind when it ended; our stack ends with
//! the program, so the end waits until the peers have it.

use crate::boundary::inside;
use crate::description::Kind;
use crate::hooks::real;
use crate::{pump, relay, report, sockets, stack, table};
use base::Duration;
use sock::{Shutdown, Sockets};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long the peers may take. Who is gone for good is not waited for longer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long connections that were not accepted wait for another process.
const HANDOVER: Duration = Duration::from_secs(1);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// From now on an orderly end of the process is noticed.
pub(crate) fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: a function that may run while the process ends.
        unsafe { libc::atexit(ends) };
    });
}

extern "C" fn ends() {
    if pump::owes() {
        // The C library empties its streams after this; one of them may be over a connection.
        // SAFETY: NULL means all.
        unsafe { libc::fflush(std::ptr::null_mut()) };
    }
    inside(drain);
}

/// Every connection is shut, and what was written is sent.
pub(crate) fn drain() {
    static ONCE: AtomicBool = AtomicBool::new(false);
    if ONCE.swap(true, Ordering::AcqRel) {
        return;
    }
    sockets::tell_unasked();
    let Some(stack) = stack::opened() else { return };
    let (ours, _) = table::all();
    let mut listeners = Vec::new();
    for held in ours.into_iter().filter_map(table::ours) {
        match held.kind() {
            // One that is over is shut already.
            Kind::Stream => _ = stack.runner.shutdown(held.below(), Shutdown::Both),
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
    let until = begun + TIMEOUT;
    let shares = listeners.iter().any(|held| held.is_shared());
    // Connections that were not accepted go to another process that listens there, which may be about to begin.
    let waits = || shares && stack.runner.hand_over_all() && stack.runner.time() < begun + HANDOVER;
    while (waits() || pump::owes() || relay::owes() || stack.runner.has_unsent())
        && stack.runner.time() < until
    {
        // Nothing is left to be told of an error of the port.
        let _ = stack.runner.poll(&mut [], Some(LOOK));
    }
    // What found no process is reset. Of several numbers for a listener the first closes it.
    listeners.iter().for_each(|held| stack::close(held.below()));
    report::ends(stack);
    stack.hide();
}
