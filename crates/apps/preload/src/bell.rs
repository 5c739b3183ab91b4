//! A bell for each thread that waits, kept from one call to the next.

use crate::inside::inside;
use sock::runner::Sleeper;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many processes lie between this one and the one that was started: after a fork a bell is the parent's.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The bell of a thread, and in which process it was made.
struct Kept(Cell<Option<(u32, Sleeper)>>);

impl Drop for Kept {
    fn drop(&mut self) {
        // Its descriptor is hidden from the program, which ends the thread.
        inside(|| drop(forget_if_parents(self.0.take())));
    }
}

thread_local! {
    static KEPT: Kept = const { Kept(Cell::new(None)) };
}

/// The number of a parent's bell may be another's in this process.
fn forget_if_parents(kept: Option<(u32, Sleeper)>) -> Option<Sleeper> {
    let (of, bell) = kept?;
    if of == forks() {
        return Some(bell);
    }
    std::mem::forget(bell);
    None
}

/// How many processes lie between this one and the one that was started.
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// This process is a child.
pub(crate) fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The calling thread's bell. A handler of a signal that waits while this thread waits gets another.
pub(crate) fn take() -> Option<Sleeper> {
    let kept = KEPT.try_with(|kept| kept.0.take()).ok().flatten();
    forget_if_parents(kept).or_else(ring_new)
}

fn ring_new() -> Option<Sleeper> {
    inside(|| sock::runner::bell().ok())
}

/// The calling thread needs it again.
pub(crate) fn keep(bell: Sleeper) {
    let mut bell = Some((forks(), bell));
    // A thread that is about to end keeps nothing.
    let before = KEPT.try_with(|kept| kept.0.replace(bell.take()));
    inside(|| drop((bell, before)));
}
