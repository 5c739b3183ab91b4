//! The thread that owns a core: it takes the applications' requests, turns the core, reports its results and rings the
//! doorbells, and sleeps when there is nothing to do.

use super::link::{Link, link};
use super::message::RingPool;
use super::worker::Worker;
use crate::cpu::{only_cpu, pin_to};
use crate::engine::Engine;
use crate::engine::busy_poll::BusyPoll;
use crate::runner::{Machine, Park, Runner, Threads, watchdog};
use crate::{Errno, Fd};
use base::{Duration, Instant};
use pio::IoError;
use ring::{Ringer, Sleeper};
use stack::{Core, Notice, Turn};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
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
pub(super) struct Hub {
    pub(super) engine: Engine,
    pub(super) worker: Worker,
    notices: Vec<Notice>,
    /// Rung by the applications.
    bell: Sleeper,
    /// The thread is to end: what the applications have open is closed.
    ends: bool,
    /// It has ended, and takes no application any more.
    ended: bool,
    /// An application does not take what it is told.
    pub(super) behind: bool,
}

impl Hub {
    /// Takes the applications' requests, turns the core once, reports its results, and rings the doorbells. While the
    /// interface is down, or for good when it is gone, timers go on and what arrived is still read. Returns the number
    /// of requests, too.
    pub(super) fn round(&mut self) -> (u32, Turn) {
        let Hub { engine, worker, notices, .. } = self;
        let now = engine.time();
        if self.ends {
            worker.leave(&mut engine.core, now);
        }
        let obeyed = worker.obey(&mut engine.core, now);
        let turn = engine.turn_for(notices).unwrap_or_default();
        let now = engine.now();
        let timers = turn.timers + notices.len() as u32;
        for notice in notices.drain(..) {
            worker.notice(&mut engine.core, now, notice);
        }
        let (told, behind) = worker.publish(&engine.core);
        engine.load.events += u64::from(told);
        engine.load.jobs += obeyed as u64;
        self.behind = behind;
        (obeyed as u32, Turn { timers, ..turn })
    }

    fn nap(&self) -> Option<Instant> {
        self.behind.then(|| self.engine.now() + NAP)
    }
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

    fn turn(&mut self) -> Result<Turn, IoError> {
        let (obeyed, turn) = self.round();
        Ok(Turn { received: turn.received + obeyed, ..turn })
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
        Instant::earliest(self.engine.core.next_timeout(), self.nap())
    }

    fn revised_timeout(&mut self, now: Instant) -> Option<Instant> {
        Instant::earliest(self.engine.core.rest(now), self.nap())
    }

    fn look(&mut self, look: Box<dyn FnOnce(&mut Engine) + Send + '_>) {
        look(&mut self.engine);
    }
}

/// The thread's end, or a panic of who turns the core, cuts the links.
pub(super) struct End<'r>(pub(super) &'r Runner<Hub>);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.with(|hub| {
            hub.ended = true;
            hub.worker.links = base::Slab::new(0);
        });
    }
}

/// Orders to the thread, and its CPU.
#[derive(Default)]
struct Orders {
    stop: AtomicBool,
    /// The application turns the core while it waits ([`super::lease`]).
    lent: AtomicBool,
    /// The CPU of the thread, if it may run on that one alone.
    cpu: OnceLock<Option<usize>>,
}

impl Orders {
    fn stops(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn is_lent(&self) -> bool {
        self.lent.load(Ordering::Acquire) && !self.stops()
    }
}

/// A thread that turns a core on behalf of any number of [`super::Paired`]. It ends when this is dropped.
pub struct StackThread {
    pub(super) runner: Arc<Runner<Hub>>,
    orders: Arc<Orders>,
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
        let (runner, orders) = (Arc::new(Runner::new(hub, Box::new(Threads))), Arc::new(Orders::default()));
        let (mine, heard) = (runner.clone(), orders.clone());
        let thread = std::thread::Builder::new().name("millstream-stack".into()).spawn(move || {
            // Also after a panic: a thread that comes then must not wait for ever.
            let _end = End(&mine);
            if let Some(cpu) = config.cpu {
                // Without its own CPU it runs where the kernel puts it.
                pin_to(cpu);
            }
            heard.cpu.get_or_init(only_cpu);
            run(&mine, &heard);
        })?;
        runner.begin_watchdog(thread.thread());
        Ok(StackThread { runner, orders, alarm, config, thread: Some(thread) })
    }

    /// Asks the thread to end; connections still open fail with ENETDOWN.
    pub fn stop(&self) {
        self.orders.stop.store(true, Ordering::Release);
        self.call();
    }

    /// Lets the thread hear its orders.
    fn call(&self) {
        self.alarm.ring_anyway();
        self.runner.wake_watchdog();
    }

    /// The CPU of the thread, if it may run on that one alone.
    pub(super) fn cpu(&self) -> Option<usize> {
        self.orders.cpu.get().copied().flatten()
    }

    pub(super) fn is_lent(&self) -> bool {
        self.orders.is_lent()
    }

    /// Lends the lead to the application, if it is the only one, or takes it back.
    pub(super) fn lend(&self, lent: bool) {
        let lent = lent && self.runner.with(|hub| hub.worker.links.len() == 1);
        if self.orders.lent.swap(lent, Ordering::AcqRel) != lent {
            self.call();
        }
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
            // Each of several has to wait for the others, whichever sleeps.
            self.orders.lent.store(false, Ordering::Release);
        });
        self.call();
        mine
    }
}

/// Turns the core until it is to stop, or looks after it while the lead is lent; then ends what the applications left
/// open, and gives what they sent a little time to arrive.
fn run(runner: &Arc<Runner<Hub>>, orders: &Orders) {
    let lead = |timeout, attempt: &mut dyn FnMut(&mut Engine) -> Result<(), Errno>| {
        let mut sleep = |fds: &[RawFd], left| Threads.sleep(fds, left, true);
        // It ends by what it waits for, or in time. A core that is over has nothing left to do.
        runner.pin(true).wait(None::<Fd>, timeout, &mut sleep, attempt).is_ok()
    };
    let heard = || if orders.stops() || orders.is_lent() { Ok(()) } else { Err(Errno::EAGAIN) };
    while lead(None, &mut |_| heard()) && !orders.stops() {
        runner.with(|hub| hub.worker.ring());
        watchdog::run(&|| orders.is_lent().then(|| runner.clone()));
    }
    runner.with(|hub| hub.ends = true);
    let mut turned = false;
    lead(Some(LAST_WORDS), &mut |engine| match std::mem::replace(&mut turned, true) {
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
