//! Workers on threads of their own: they sleep where there is nothing to do, end when they are told to, and their end
//! for any other reason is told.

use super::worker::Worker;
use crate::port::BATCH_MAX;
use base::{Duration, Instant};
use ring::Ringer;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

/// Tells the time; the same in every place.
pub(super) type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// State shared by all threads of a card.
#[derive(Default)]
pub(super) struct State {
    stop: AtomicBool,
    /// One more than the number of a worker that ended though nothing told it to.
    lost: AtomicU32,
}

impl State {
    /// The number of a worker that is gone, if one is.
    pub(super) fn lost(&self) -> Option<u32> {
        self.lost.load(Ordering::Acquire).checked_sub(1)
    }
}

/// How a worker lives.
#[derive(Clone)]
pub(super) struct Life {
    pub(super) state: Arc<State>,
    pub(super) clock: Clock,
    /// How long it looks for work before it sleeps.
    pub(super) spin: Duration,
    /// Is told when a worker is gone.
    pub(super) host: Ringer,
}

/// The threads of a card.
pub(super) struct Threads {
    state: Arc<State>,
    /// Each with its bell.
    all: Vec<(Ringer, JoinHandle<()>)>,
}

impl Threads {
    pub(super) fn new(state: Arc<State>) -> Threads {
        Threads { state, all: Vec::new() }
    }

    /// Starts a worker, which sleeps on `bell` and begins by calling `begin`.
    pub(super) fn start(
        &mut self,
        name: String,
        mut worker: impl Worker + 'static,
        life: Life,
        bell: Ringer,
        begin: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let number = self.all.len() as u32;
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let guard = Guard { number, life };
            begin();
            serve(&mut worker, &guard.life);
        })?;
        self.all.push((bell, thread));
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Release);
        for (bell, _) in &self.all {
            bell.ring_anyway();
        }
        for (_, thread) in self.all.drain(..) {
            // One that panicked has said why on its way out, and the card since then.
            drop(thread.join());
        }
    }
}

/// However a thread ends, the others hear of it.
struct Guard {
    number: u32,
    life: Life,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Life { state, host, .. } = &self.life;
        if !state.stop.load(Ordering::Acquire) {
            state.lost.store(self.number + 1, Ordering::Release);
        }
        host.ring_anyway();
    }
}

/// Runs a worker's loop. Each turn is bounded, and stopping the card wakes sleeping workers.
fn serve(worker: &mut impl Worker, life: &Life) {
    let mut idle_since = None;
    while !life.state.stop.load(Ordering::Acquire) && !worker.is_over() {
        let now = (life.clock)();
        if worker.turn(now, BATCH_MAX) {
            idle_since = None;
            continue;
        }
        let since = *idle_since.get_or_insert(now);
        if now.since(since) < life.spin {
            std::hint::spin_loop();
            continue;
        }
        let timeout = worker.due().map(|due| due.since((life.clock)()));
        if timeout != Some(Duration::ZERO) {
            worker.sleep(timeout);
        }
        idle_since = None;
    }
}
