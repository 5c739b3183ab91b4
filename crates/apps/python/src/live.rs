//! A stack that lives, and the way to it for everything that was made of it.

use crate::failure::{because, os_error, timed_out};
use crate::host::Threads;
use base::{Duration, Instant};
use pyo3::prelude::*;
use sock::control::{self, Control};
use sock::metrics::Serving;
use sock::runner::Runner;
use sock::syscalls::Mode;
use sock::tree::Tree;
use sock::{Engine, Errno, Fd, OpenError, PollFd, Ready, Settings, Sockets};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

/// How often this process has been forked from another.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A thread that waits shows itself to Python this often: a signal that comes between two sleeps wakes no thread.
const SLICE: Duration = Duration::from_secs(1);

/// Time between two looks whether everything is sent.
const LOOK: Duration = Duration::from_millis(1);
/// Looks whether the stack's own thread has let go of the link.
const RELEASE_LOOKS: u32 = 100;

/// Bytes of one attempt to send or receive.
pub(crate) const AT_ONCE: usize = 256 << 10;

/// This process was forked from the one that opened the stacks there are; Python says so.
#[pyfunction(name = "_forked")]
pub(crate) fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// How many processes lie between this one and the one that loaded the module.
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// One core's stack and what belongs to it.
pub(crate) struct Live {
    pub(crate) runner: Arc<Runner>,
    pub(crate) tree: Arc<Tree>,
    metrics: Option<Serving>,
    /// Answers `millstream ss` as long as one stack of the process lives.
    control: Option<Arc<Control>>,
    /// The highest descriptor there ever was.
    highest: AtomicI32,
}

impl Live {
    /// Opens what the settings name.
    pub(crate) fn open(settings: &Settings) -> Result<Live, OpenError> {
        let (opened, runner) = sock::open_beside(settings, Box::new(Threads))?;
        // Without it the program runs as well; `millstream ss` only does not see it.
        let control = serve(&opened).ok();
        let (tree, metrics) = (opened.tree, opened.metrics);
        Ok(Live { runner, tree, metrics, control, highest: AtomicI32::new(-1) })
    }

    /// A descriptor is given to the program.
    pub(crate) fn opened(&self, fd: Fd) {
        self.highest.fetch_max(fd, Ordering::Relaxed);
    }

    /// Closes every descriptor, as the end of a process does, gives the stack `linger` to send what they left behind,
    /// and closes the link unless another call is under way, which then does. Is everything sent?
    pub(crate) fn end(self: Arc<Live>, linger: Duration) -> Result<bool, Errno> {
        for fd in 0..=self.highest.load(Ordering::Relaxed) {
            match self.runner.set_nonblocking(fd, true).and_then(|()| self.runner.close(fd)) {
                // The program has closed it already.
                Ok(()) | Err(Errno::EBADF) => {}
                Err(errno) => return Err(errno),
            }
        }
        let deadline = self.runner.time() + linger;
        let mut sent = true;
        while sent && self.runner.has_unsent() {
            sent = self.runner.time() < deadline;
            self.runner.wait_for(None, Some(LOOK), |_| Err::<(), _>(Errno::EAGAIN)).or_else(only_waited)?;
        }
        if let Ok(live) = Arc::try_unwrap(self) {
            live.release();
        }
        Ok(sent)
    }

    /// Closes the link. A thread of the stack's own may sleep with it: the program that waits takes it from that
    /// thread.
    fn release(self) {
        let Live { runner, tree, metrics, control, .. } = self;
        drop((tree, metrics));
        for _ in 0..RELEASE_LOOKS {
            if Arc::strong_count(&runner) == 1 {
                break;
            }
            let _ = runner.wait_for(None, Some(LOOK), |_| Err::<(), _>(Errno::EAGAIN));
            std::thread::sleep(LOOK);
        }
        drop(runner);
        drop(control);
    }

    /// Looks at the engine.
    pub(crate) fn ask<R: Send>(&self, look: impl FnOnce(&mut Engine) -> R + Send) -> Option<R> {
        let mut found = None;
        self.runner.inspect(Box::new(|engine| found = Some(look(engine))));
        found
    }
}

fn only_waited(errno: Errno) -> Result<(), Errno> {
    if matches!(errno, Errno::EAGAIN | Errno::EINTR) { Ok(()) } else { Err(errno) }
}

/// The process has one control socket, which shows what was opened first.
fn serve(opened: &sock::Opened) -> std::io::Result<Arc<Control>> {
    static SERVED: Mutex<Weak<Control>> = Mutex::new(Weak::new());
    let mut served = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(control) = served.upgrade() {
        return Ok(control);
    }
    let control = Arc::new(control::serve(opened)?);
    *served = Arc::downgrade(&control);
    Ok(control)
}

/// The way to a stack: it may be closed, or belong to the process that this one was forked from.
pub(crate) struct Way {
    live: RwLock<Option<Arc<Live>>>,
    born: u32,
}

impl Way {
    pub(crate) fn to(live: Live) -> Arc<Way> {
        Arc::new(Way { live: RwLock::new(Some(Arc::new(live))), born: forks() })
    }

    /// Is this the process that opened it?
    pub(crate) fn is_ours(&self) -> bool {
        self.born == forks()
    }

    /// The stack. ECHILD in a process that was forked after it was opened, EBADF once it is closed.
    pub(crate) fn live(&self) -> PyResult<Arc<Live>> {
        if !self.is_ours() {
            let why = "a stack stays with the process that opened it: open one after fork";
            return Err(because(libc::ECHILD, why));
        }
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.clone().ok_or_else(|| because(libc::EBADF, "the stack is closed"))
    }

    /// The stack, if calls may still be made.
    pub(crate) fn if_live(&self) -> Option<Arc<Live>> {
        self.live().ok()
    }

    /// No more calls; the stack, which ends when the last of those under way has returned.
    pub(crate) fn take(&self) -> PyResult<Option<Arc<Live>>> {
        let live = self.if_ours_take();
        if self.is_ours() { Ok(live) } else { self.live().map(Some) }
    }

    fn if_ours_take(&self) -> Option<Arc<Live>> {
        if !self.is_ours() {
            return None;
        }
        self.live.write().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        if !self.is_ours() {
            // The stack is the parent's: to end it here would give the parent's ports back.
            let live = self.live.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(live.take());
        }
    }
}

/// How long a call waits.
#[derive(Clone, Copy)]
pub(crate) struct TimeLeft {
    limit: Option<Duration>,
    deadline: Option<Instant>,
}

impl TimeLeft {
    /// `None` for ever; zero not at all.
    pub(crate) fn new(limit: Option<Duration>) -> TimeLeft {
        TimeLeft { limit, deadline: None }
    }

    /// Not at all?
    pub(crate) fn is_none(&self) -> bool {
        self.limit == Some(Duration::ZERO)
    }

    /// How long to sleep before the thread shows itself to Python; `None` if the time is up. Counts from its first
    /// call.
    pub(crate) fn slice(&mut self, now: Instant) -> Option<Duration> {
        let Some(limit) = self.limit else { return Some(SLICE) };
        let left = self.deadline.get_or_insert(now + limit).since(now);
        (left > Duration::ZERO).then(|| left.min(SLICE))
    }
}

/// Result of an attempt before Python checked its signals.
enum Step<R> {
    Done(Result<R, Errno>),
    TimedOut,
    Again,
}

/// Repeats `attempt`, without Python's lock, while it gives EAGAIN, waiting for `fd` to have any of `interest` in
/// between. Signals are Python's to handle: an exception of theirs ends the call.
pub(crate) fn repeat<R: Send>(
    py: Python<'_>,
    runner: &Runner,
    (fd, interest): (Fd, Ready),
    time_left: &mut TimeLeft,
    mut attempt: impl FnMut(&Runner) -> Result<R, Errno> + Send,
) -> PyResult<R> {
    loop {
        let step = py.detach(|| {
            loop {
                match attempt(runner) {
                    Err(Errno::EAGAIN) if !time_left.is_none() => {}
                    Err(Errno::EINTR) => return Step::Again,
                    done => return Step::Done(done),
                }
                let Some(slice) = time_left.slice(runner.time()) else { return Step::TimedOut };
                match until_ready(runner, fd, interest, slice) {
                    Ok(()) => {}
                    Err(Errno::EAGAIN | Errno::EINTR) => return Step::Again,
                    Err(errno) => return Step::Done(Err(errno)),
                }
            }
        });
        match step {
            Step::Done(done) => return done.map_err(os_error),
            Step::TimedOut => return Err(timed_out()),
            Step::Again => py.check_signals()?,
        }
    }
}

fn until_ready(runner: &Runner, fd: Fd, interest: Ready, slice: Duration) -> Result<(), Errno> {
    runner.wait_for(Some(fd), Some(slice), |engine| {
        let mut row = [PollFd { fd, interest, ready: Ready::NONE }];
        if engine.poll(&mut row) > 0 { Ok(()) } else { Err(Errno::EAGAIN) }
    })
}
