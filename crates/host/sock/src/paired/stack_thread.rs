//! The thread that owns a core: one fixed sequence per turn, and sleep when there is nothing to do.

use super::link::{Alarm, Link, LinkEnd, link};
use super::message::RingPool;
use super::worker::Worker;
use crate::busy_poll::BusyPoll;
use crate::engine::Engine;
use crate::{Direct, pin_to};
use base::{Duration, Instant};
use ring::{Ringer, SleepFlag};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// Shared state of a stack thread.
pub(super) struct Shared {
    stop: AtomicBool,
    alarm: Arc<Alarm>,
    /// Applications that the thread has not met yet; `None` once it has ended.
    arrivals: Mutex<Option<Vec<LinkEnd>>>,
    arrived: AtomicBool,
    /// The engine, which the thread takes for each turn and others may look at in between.
    pub(super) engine: Direct,
}

impl Shared {
    fn arrivals(&self) -> MutexGuard<'_, Option<Vec<LinkEnd>>> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_news(&self) -> bool {
        self.arrived.load(Ordering::Acquire) || self.stop.load(Ordering::Acquire)
    }
}

/// The thread's end cuts the links of those that it has not met.
struct End<'s>(&'s Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.arrivals().take();
    }
}

/// A thread that turns a core on behalf of any number of [`super::Paired`]. It ends when this is dropped.
pub struct StackThread {
    pub(super) shared: Arc<Shared>,
    pub(super) config: PairedConfig,
    thread: Option<JoinHandle<()>>,
}

impl StackThread {
    /// Starts a thread that owns `engine` (of which it uses only the core).
    pub fn start(mut engine: Engine, config: PairedConfig) -> io::Result<StackThread> {
        let waker = engine.core().io().waker();
        engine.busy_poll = BusyPoll::new(config.spin, engine.now());
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            alarm: Arc::new(Alarm { flag: SleepFlag::new(), waker }),
            arrivals: Mutex::new(Some(Vec::new())),
            arrived: AtomicBool::new(false),
            engine: Direct::without_watchdog(engine),
        });
        let mine = shared.clone();
        let thread = std::thread::Builder::new().name("millstream-stack".into()).spawn(move || {
            // Also after a panic: a thread that comes then must not wait for ever.
            let _end = End(&mine);
            if let Some(cpu) = config.cpu {
                // Without its own CPU it runs where the kernel puts it.
                pin_to(cpu);
            }
            Loop::new(&mine, config).run();
        })?;
        Ok(StackThread { shared, config, thread: Some(thread) })
    }

    /// Asks the thread to end; connections still open fail with ENETDOWN.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.alarm.waker.wake();
    }

    /// A link for a new application that `ringer` wakes.
    pub(super) fn link(&self, ringer: Ringer) -> Link {
        let (mine, theirs) = link(&self.shared.alarm, ringer);
        if let Some(arrivals) = &mut *self.shared.arrivals() {
            arrivals.push(theirs);
        }
        self.shared.arrived.store(true, Ordering::Release);
        self.shared.alarm.ring();
        mine
    }
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

struct Loop<'a> {
    shared: &'a Shared,
    worker: Worker,
    notices: Vec<stack::Notice>,
    /// The last turn was then, and found nothing.
    idle_since: Option<Instant>,
}

/// Work that a turn leaves.
enum After {
    /// Turn again at once.
    Again,
    /// Nothing until then.
    Until(Option<Instant>),
}

impl<'a> Loop<'a> {
    fn new(shared: &'a Shared, config: PairedConfig) -> Self {
        let rings = RingPool::new(config.ring, config.rings_kept);
        let worker = Worker::new(config.connections, rings);
        Loop { shared, worker, notices: Vec::with_capacity(1_024), idle_since: None }
    }

    fn run(&mut self) {
        while !self.shared.stop.load(Ordering::Acquire) {
            self.adopt();
            let mut engine = self.shared.engine.lock();
            match self.turn(&mut engine) {
                After::Again => {}
                After::Until(until) => self.sleep(&mut engine, until),
            }
            drop(engine);
            // A thread wants to look.
            self.shared.engine.yield_to_contenders();
        }
        self.finish();
    }

    fn adopt(&mut self) {
        if self.shared.arrived.swap(false, Ordering::AcqRel) {
            let mut arrivals = self.shared.arrivals();
            arrivals.iter_mut().flat_map(|all| all.drain(..)).for_each(|end| self.worker.adopt(end));
        }
    }

    /// Takes the applications' requests, turns the core once, reports its results, and rings the doorbells.
    fn turn(&mut self, engine: &mut Engine) -> After {
        let now = engine.time();
        let obeyed = self.worker.obey(&mut engine.core, now);
        let turn = engine.turn_for(&mut self.notices);
        let now = engine.now();
        let noticed = self.notices.len();
        for notice in self.notices.drain(..) {
            self.worker.notice(&mut engine.core, now, notice);
        }
        let behind = self.worker.publish(&engine.core);
        // While the interface is down, or for good when it is gone, timers go on and what arrived is still read.
        let turn = turn.unwrap_or_default();
        if obeyed > 0 || noticed > 0 || turn.more || turn.received > 0 || turn.timers > 0 {
            engine.busy_poll.on_work(now, turn.received > 0 || obeyed > 0);
            self.idle_since = None;
            return After::Again;
        }
        if let Some(since) = self.idle_since.replace(now) {
            engine.load.on_spin(now - since);
        }
        if engine.busy_poll.on_nothing(now) > now {
            std::hint::spin_loop();
            return After::Again;
        }
        engine.busy_poll.on_sleep(now);
        self.idle_since = None;
        let nap = behind.then_some(now + NAP);
        After::Until(Instant::earliest(engine.core.rest(now), nap))
    }

    fn sleep(&mut self, engine: &mut Engine, until: Option<Instant>) {
        let timeout = until.map(|at| at.since(engine.now()));
        if timeout == Some(Duration::ZERO) {
            return;
        }
        self.shared.alarm.flag.announce();
        engine.load.on_sleep(engine.now());
        if !self.worker.has_commands() && !self.shared.has_news() {
            match engine.core.io().wait(timeout) {
                Ok(_) => {}
                // Down or gone: commands wait for this nap at most.
                Err(_) => std::thread::sleep(timeout.unwrap_or(NAP).min(NAP)),
            }
        }
        engine.load.on_wake(engine.time());
        self.shared.alarm.flag.awake();
    }

    /// Ends what the applications left open, and gives what they sent a little time to arrive.
    fn finish(&mut self) {
        self.adopt();
        let mut engine = self.shared.engine.lock();
        let until = engine.time() + LAST_WORDS;
        loop {
            let now = engine.time();
            self.worker.leave(&mut engine.core, now);
            match self.turn(&mut engine) {
                After::Again => {}
                After::Until(next) => {
                    let now = engine.now();
                    if now >= until || !has_unsent(&engine.core, now) {
                        break;
                    }
                    let next = next.map_or(until, |at| at.min(until));
                    if engine.core.io().wait(Some(next.since(now))).is_err() {
                        break;
                    }
                }
            }
        }
        self.worker.links = base::Slab::new(0);
    }
}

/// Is there a connection that waits for an acknowledgment?
fn has_unsent(core: &stack::Core, now: Instant) -> bool {
    let mut found = false;
    core.for_each(now, &mut |row| {
        found |= matches!(row, stack::Row::Connection(conn) if conn.unacked() > 0);
    });
    found
}
