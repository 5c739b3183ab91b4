//! The end of the process. The kernel would go on sending what a program left behind when it ended; our stack ends with
//! the program, so the end waits until the peers have it.

use crate::boundary::inside;
use crate::description::Kind;
use crate::{stack, table};
use base::Duration;
use sock::{Shutdown, Sockets};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long the peers may take. Who is gone for good is not waited for longer.
const PATIENCE: Duration = Duration::from_secs(10);
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
    inside(drain);
}

/// Every connection is shut, and what was written is sent.
pub(crate) fn drain() {
    static ONCE: AtomicBool = AtomicBool::new(false);
    let Some(stack) = stack::opened() else { return };
    if ONCE.swap(true, Ordering::AcqRel) {
        return;
    }
    let (ours, _) = table::all();
    for held in ours.into_iter().filter_map(table::ours).filter(|held| held.kind() == Kind::Stream) {
        // One that is over is shut already.
        let _ = stack.hosted.shutdown(held.below(), Shutdown::Both);
    }
    let until = stack.hosted.time() + PATIENCE;
    while stack.hosted.has_unsent() && stack.hosted.time() < until {
        // Nobody is left to be told of an error of the port.
        let _ = stack.hosted.poll(&mut [], Some(LOOK));
    }
    stack.hide();
}
