//! A context: one core's stack, as C programs hold it.

use crate::boundary::{Outcome, Refused, refuse};
use crate::host::{self, Threads};
use base::{Duration, Instant};
use sock::control::{self, Control};
use sock::tree::Tree;
use sock::{Errno, Fd, Opened, Settings, Sockets, Stack};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};

/// How often this process has been forked from another since the library was loaded.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// One core's stack. Opaque in C: `struct ms_ctx`.
pub struct Context {
    stack: Stack,
    /// Names and values of what was opened together.
    tree: Arc<Tree>,
    /// The highest descriptor given out; [`Context::end`] closes up to it.
    highest: AtomicI32,
    /// Has it ever made a pipe? Else no descriptor with bytes is anything but a socket.
    pipes: AtomicBool,
    /// [`FORKS`] when it was opened: its threads live in that process only.
    born: u32,
    /// Answers `millstream ss` as long as one context of the process lives.
    _control: Option<Arc<Control>>,
}

/// Opens the stacks that the settings name, one per core.
pub(crate) fn open(settings: &Settings) -> Outcome<Vec<Context>> {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: the handler does nothing but count, which may be done after a fork.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
    // Its threads take no signals: those are for the program's.
    let opened = host::undisturbed(|| sock::open_interruptible(settings, || Box::new(Threads)));
    let opened = opened.map_err(|e| refuse(e.errno().raw(), &e.0))?;
    let control = serve(&opened);
    let born = forks();
    let tree = opened.tree;
    let context = |stack| Context {
        stack,
        tree: tree.clone(),
        highest: AtomicI32::new(-1),
        pipes: AtomicBool::new(false),
        born,
        _control: control.clone(),
    };
    Ok(opened.stacks.into_iter().map(context).collect())
}

impl Context {
    /// The C API's calls over a stack that another thread has opened and watches over.
    pub fn of(stack: Stack, tree: Arc<Tree>) -> Context {
        Context {
            stack,
            tree,
            highest: AtomicI32::new(-1),
            pipes: AtomicBool::new(false),
            born: forks(),
            _control: None,
        }
    }
}

/// How many processes lie between this one and the one that loaded the library, as far as contexts were open.
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The process has one control socket, which shows what was opened first.
fn serve(opened: &Opened) -> Option<Arc<Control>> {
    static SERVED: Mutex<Weak<Control>> = Mutex::new(Weak::new());
    let mut served = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(control) = served.upgrade() {
        return Some(control);
    }
    match control::serve(opened) {
        Ok(control) => {
            let control = Arc::new(control);
            *served = Arc::downgrade(&control);
            Some(control)
        }
        Err(e) => {
            // The program runs without; a user who asks why `millstream ss` shows nothing finds the reason.
            refuse(0, &format!("the control socket: {e}"));
            None
        }
    }
}

impl Context {
    /// The calls; ECHILD in a process that was forked after the context was opened.
    pub(crate) fn sockets(&self) -> Outcome<&dyn Sockets> {
        if self.born != forks() {
            return Err(refuse(
                libc::ECHILD,
                "a context stays with the process that opened it: open one after fork",
            ));
        }
        Ok(&*self.stack)
    }

    /// The tree of names.
    pub(crate) fn tree(&self) -> Outcome<&Tree> {
        self.sockets().map(|_| &*self.tree)
    }

    /// A descriptor is given to the program.
    pub(crate) fn opened(&self, fd: Fd) -> Fd {
        if fd > self.highest.load(Ordering::Relaxed) {
            self.highest.fetch_max(fd, Ordering::Relaxed);
        }
        fd
    }

    /// Does the socket speak IPv6? EBADF and ENOTSOCK for what is no socket.
    pub(crate) fn is_v6(&self, fd: Fd) -> Outcome<bool> {
        let mut family = [0; 4];
        self.sockets()?.getsockopt(fd, libc::SOL_SOCKET, libc::SO_DOMAIN, &mut family)?;
        Ok(i32::from_ne_bytes(family) == libc::AF_INET6)
    }

    /// On Linux a bad descriptor is told before a bad pointer: `given`, unless the descriptor is worse.
    pub(crate) fn unless_bad<T>(&self, fd: Fd, given: Outcome<T>) -> Outcome<T> {
        if given.is_err() {
            self.sockets()?.nonblocking(fd)?;
        }
        given
    }

    /// Returns `given` where the descriptor is a socket.
    pub(crate) fn unless_no_socket<T>(&self, fd: Fd, given: Outcome<T>) -> Outcome<T> {
        if given.is_err() {
            self.is_v6(fd)?;
        }
        given
    }

    /// A pipe: its read end and its write end.
    pub(crate) fn pipe(&self) -> Outcome<(Fd, Fd)> {
        self.pipes.store(true, Ordering::Relaxed);
        let (read, write) = self.sockets()?.pipe()?;
        Ok((self.opened(read), self.opened(write)))
    }

    /// ENOTSOCK for a pipe, whose bytes are not recv's and send's. Costs nothing where there never was one: other
    /// descriptors refuse by themselves.
    pub(crate) fn socket_only(&self, fd: Fd) -> Outcome<()> {
        if self.pipes.load(Ordering::Relaxed) {
            self.is_v6(fd)?;
        }
        Ok(())
    }

    /// Closes every descriptor, as the end of a process does, and gives the stack `timeout` to send what they left
    /// behind. EAGAIN if there is something left even then.
    pub(crate) fn end(&self, timeout: Duration) -> Outcome<()> {
        let sockets = self.sockets()?;
        for fd in 0..=self.highest.load(Ordering::Relaxed) {
            match sockets.set_nonblocking(fd, true).and_then(|()| sockets.close(fd)) {
                // The program has closed it already.
                Ok(()) | Err(Errno::EBADF) => {}
                Err(e) => return Err(e.into()),
            }
        }
        let deadline: Instant = sockets.time() + timeout;
        while connections(sockets) > 0 {
            if sockets.time() >= deadline {
                return Err(Refused(libc::EAGAIN));
            }
            sockets.poll(&mut [], Some(Duration::from_millis(1)))?;
        }
        Ok(())
    }
}

/// Connections that are not over, TIME-WAIT not counted.
fn connections(sockets: &dyn Sockets) -> u64 {
    let mut open = 0;
    sockets.inspect(Box::new(|engine| {
        let stats = engine.core().stats();
        open = stats.iter().find(|(name, _)| *name == "connections").map_or(0, |(_, count)| *count);
    }));
    open
}
