//! The thread that owns a core: it takes the applications' requests, turns the core, reports its results and rings the
//! doorbells, and sleeps when there is nothing to do.

use super::link::{Link, link};
use super::message::RingPool;
use super::worker::Worker;
use crate::engine::Engine;
use crate::pin_to;
use crate::runner::busy_poll::BusyPoll;
use crate::runner::{Machine, Park, Runner, Threads};
use crate::{Errno, Fd};
use base::{Duration, Instant};
use pio::IoError;
use ring::{Ringer, Sleeper};
use stack::{Core, Notice, Turn};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// How long to sleep at most while an application does not take what it is told.
const NAP: Duration = Duration::from_millis(1);
/// How long a thread that is to end waits for the acknowledgment of what was sent before.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How to run a stack thread and the rings of its connections.
#[derive(Clone, Copy, Debug)]
pub struct PairedConfig {
    /// CPU to pin the thread to.
    pub cpu: Option<usize>,
    /// How long the thread, and an application that waits, look for work before they sleep, where it comes soon enough.
    pub spin: Duration,
    /// Bytes of a byte ring; a connection has one each way while it has data.
    pub ring: usize,
    /// When more rings than this are in use, idle connections give theirs back; at most this many idle ones are kept.
    pub rings_kept: usize,
    /// Most connections of all applications together.
    pub connections: u32,
}

impl Default for PairedConfig {
    fn default() -> Self {
        PairedConfig {
            cpu: None,
            spin: Duration::from_micros(40),
            ring: 65_536,
            rings_kept: 1_024,
            connections: 1 << 20,
        }
    }
}

/// A core and those that it works for.
struct Hub {
    engine: Engine,
    worker: Worker,
    notices: Vec<Notice>,
    /// Rung by the applications.
    bell: Sleeper,
    /// The thread is to end: what the applications have open is closed.
    ends: bool,
    /// It has ended, and takes no one any more.
    ended: bool,
    /// An application does not take what it is told.
    behind: bool,
}

impl Machine for Hub {
    type Below = Core;

    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    fn look_again(&mut self) -> bool {
        false
    }

    /// Takes the applications' requests, turns the core once, reports its results, and rings the doorbells. While the
    /// interface is down, or for good when it is gone, timers go on and what arrived is still read.
    fn turn(&mut self) -> Result<Turn, IoError> {
        let Hub { engine, worker, notices, .. } = self;
        let now = engine.time();
        if self.ends {
            worker.leave(&mut engine.core, now);
        }
        let obeyed = worker.obey(&mut engine.core, now);
        let turn = engine.turn_for(notices).unwrap_or_default();
        let now = engine.now();
        let noticed = notices.len();
        for notice in notices.drain(..) {
            worker.notice(&mut engine.core, now, notice);
        }
        self.behind = worker.publish(&engine.core);
        let (received, timers) = (turn.received + obeyed as u32, turn.timers + noticed as u32);
        Ok(Turn { received, timers, ..turn })
    }

    fn arm(&mut self, fds: &mut Vec<RawFd>) -> Result<bool, IoError> {
        self.bell.flag().announce();
        // A port that is gone has nothing to sleep on.
        if self.worker.has_commands() || !self.engine.arm(fds).unwrap_or(true) {
            self.bell.flag().awake();
            return Ok(false);
        }
        fds.push(self.bell.fd().as_raw_fd());
        Ok(true)
    }

    fn disarm(&mut self) {
        self.bell.flag().awake();
        self.bell.drain();
    }

    fn next_timeout(&self) -> Option<Instant> {
        let nap = self.behind.then(|| self.engine.now() + NAP);
        Instant::earliest(self.engine.core.next_timeout(), nap)
    }

    fn revised_timeout(&mut self, now: Instant) -> Option<Instant> {
        self.engine.core.rest(now);
        self.next_timeout()
    }

    fn look(&mut self, look: Box<dyn FnOnce(&mut Engine) + Send + '_>) {
        look(&mut self.engine);
    }
}

/// The thread's end, or its panic, cuts the links.
struct End<'r>(&'r Runner<Hub>);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.with(|hub| {
            hub.ended = true;
            hub.worker.links = base::Slab::new(0);
        });
    }
}

/// A thread that turns a core on behalf of any number of [`super::Paired`]. It ends when this is dropped.
pub struct StackThread {
    runner: Arc<Runner<Hub>>,
    stop: Arc<AtomicBool>,
    alarm: Ringer,
    pub(super) config: PairedConfig,
    thread: Option<JoinHandle<()>>,
}

impl StackThread {
    /// Starts a thread that owns `engine` (of which it uses only the core).
    ///
    /// # Errors
    /// There is no thread or no descriptor to be had.
    pub fn start(mut engine: Engine, config: PairedConfig) -> io::Result<StackThread> {
        engine.busy_poll = BusyPoll::new(config.spin, engine.now());
        let (alarm, bell) = ring::doorbell()?;
        let worker = Worker::new(config.connections, RingPool::new(config.ring, config.rings_kept));
        let notices = Vec::with_capacity(1_024);
        let hub = Hub { engine, worker, notices, bell, ends: false, ended: false, behind: false };
        let (runner, stop) =
            (Arc::new(Runner::new(hub, Box::new(Threads))), Arc::new(AtomicBool::new(false)));
        let (mine, stops) = (runner.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("millstream-stack".into()).spawn(move || {
            // Also after a panic: a thread that comes then must not wait for ever.
            let _end = End(&mine);
            if let Some(cpu) = config.cpu {
                // Without its own CPU it runs where the kernel puts it.
                pin_to(cpu);
            }
            run(&mine, &stops);
        })?;
        Ok(StackThread { runner, stop, alarm, config, thread: Some(thread) })
    }

    /// Asks the thread to end; connections still open fail with ENETDOWN.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.alarm.ring_anyway();
    }

    /// Looks at the core between two turns.
    pub(super) fn look<R>(&self, look: impl FnOnce(&mut Engine) -> R) -> R {
        self.runner.with(|hub| look(&mut hub.engine))
    }

    /// A link for a new application that `ringer` wakes.
    pub(super) fn link(&self, ringer: Ringer) -> Link {
        let (mine, theirs) = link(&self.alarm, ringer);
        self.runner.with(|hub| {
            if !hub.ended {
                hub.worker.adopt(theirs);
            }
        });
        mine
    }
}

/// Turns the core until it is to stop; then ends what the applications left open, and gives what they sent a little
/// time to arrive.
fn run(runner: &Runner<Hub>, stop: &AtomicBool) {
    let mut leader = runner.pin(true);
    let mut sleep = |fds: &[RawFd], left| Threads.sleep(fds, left, true);
    let mut wait = |timeout, attempt: &mut dyn FnMut(&mut Engine) -> Result<(), Errno>| {
        // It ends by what it waits for, or in time. A core that is over has nothing left to do.
        let _ = leader.wait(None::<Fd>, timeout, &mut sleep, attempt);
    };
    wait(None, &mut |_| if stop.load(Ordering::Acquire) { Ok(()) } else { Err(Errno::EAGAIN) });
    runner.with(|hub| hub.ends = true);
    let mut turned = false;
    wait(Some(LAST_WORDS), &mut |engine| match std::mem::replace(&mut turned, true) {
        true if !has_unsent(&engine.core, engine.time()) => Ok(()),
        _ => Err(Errno::EAGAIN),
    });
}

impl Drop for StackThread {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            // It has said why on the way out.
            eprintln!("millstream: the stack thread ended in a panic");
        }
    }
}

/// Is there a connection that waits for an acknowledgment?
fn has_unsent(core: &Core, now: Instant) -> bool {
    let mut found = false;
    core.for_each(now, &mut |row| {
        found |= matches!(row, stack::Row::Connection(conn) if conn.unacked() > 0);
    });
    found
}
