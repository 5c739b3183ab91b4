//! Direct mode: the application's own threads turn the core from inside their calls. No second thread, no queue.
//!
//! The engine sits behind one lock, which one thread takes uncontended. A thread that finds another asleep in the
//! kernel with the lock held rings it out. A [`backstop`](crate::backstop) turns the core when no call has for a
//! while.

use crate::backstop::{self, Nudge};
use crate::engine::{Engine, Pumped};
use crate::sockets::{EpollEvent, EpollOp, Family, Fd, PollFd, Ready, RecvFlags, SendFlags, Sockets};
use crate::Errno;
use base::{Duration, Endpoint, Instant};
use pio::Waker;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use tcp::Shutdown;

/// Sockets whose calls turn the core themselves.
pub struct Direct {
    engine: Mutex<Engine>,
    /// Threads that want the lock while its holder may be asleep in the kernel.
    contenders: AtomicU32,
    waker: Arc<dyn Waker>,
    backstop: Nudge,
}

impl Direct {
    /// Direct mode over an engine, with a backstop thread that keeps ACKs and timers going while the application
    /// computes.
    pub fn start(engine: Engine) -> std::io::Result<Arc<Self>> {
        let direct = Arc::new(Direct::without_backstop(engine));
        backstop::start(&direct)?;
        Ok(direct)
    }

    /// Direct mode without a backstop: nothing at all happens between calls.
    pub fn without_backstop(mut engine: Engine) -> Self {
        let waker = engine.core().io().waker();
        let backstop = Nudge::default();
        Direct { engine: Mutex::new(engine), contenders: AtomicU32::new(0), waker, backstop }
    }

    /// The engine if nobody has it; does not ring.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Engine>> {
        match self.engine.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn nudge(&self) -> &Nudge {
        &self.backstop
    }

    /// The engine, for as long as the guard lives; rings out whoever sleeps with it.
    pub fn lock(&self) -> MutexGuard<'_, Engine> {
        match self.engine.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.contenders.fetch_add(1, Ordering::SeqCst);
                self.waker.wake();
                let guard = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
                self.contenders.fetch_sub(1, Ordering::SeqCst);
                guard
            }
        }
    }

    /// Lets the threads that rang have the lock first: a plain unlock would often win it right back.
    pub(crate) fn yield_to_contenders(&self) {
        let mut rounds = 0;
        while self.contenders.load(Ordering::SeqCst) > 0 {
            rounds += 1;
            if rounds < 100 {
                std::thread::yield_now();
            } else {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }

    /// Repeats `attempt` while it gives EAGAIN, turning the core and sleeping in between, until `timeout` is over.
    fn wait_for<R>(
        &self,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Engine) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let result = self.wait_loop(timeout, &mut attempt);
        self.backstop.application_is_back();
        result
    }

    fn wait_loop<R>(
        &self,
        timeout: Option<Duration>,
        attempt: &mut impl FnMut(&mut Engine) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let mut deadline: Option<Instant> = None;
        loop {
            let mut engine = self.lock();
            match attempt(&mut engine) {
                Err(Errno::EAGAIN) => {}
                result => return result,
            }
            if deadline.is_none() {
                deadline = timeout.map(|t| engine.now() + t);
            }
            match engine.pump(deadline)? {
                Pumped::Progress => {}
                Pumped::TimedOut => return attempt(&mut engine),
                Pumped::Interrupted => {
                    drop(engine);
                    self.yield_to_contenders();
                }
            }
        }
    }

    /// One attempt; when it would block, the stack gets a turn if it has not had one for a while.
    fn attempt<R>(&self, mut attempt: impl FnMut(&mut Engine) -> Result<R, Errno>) -> Result<R, Errno> {
        let mut engine = self.lock();
        match attempt(&mut engine) {
            Err(Errno::EAGAIN) if engine.turn_if_stale() => attempt(&mut engine),
            result => result,
        }
    }

    fn call<R>(
        &self,
        fd: Fd,
        dont_wait: bool,
        timeout: impl FnOnce(&Engine) -> Option<Duration>,
        attempt: impl FnMut(&mut Engine) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let (nonblocking, timeout) = {
            let engine = self.lock();
            (engine.nonblocking(fd)? || dont_wait, timeout(&engine))
        };
        if nonblocking { self.attempt(attempt) } else { self.wait_for(timeout, attempt) }
    }

    /// SO_LINGER with a time: wait until everything is acknowledged, the time is over, or the peer is gone.
    fn linger(&self, fd: Fd) -> Result<(), Errno> {
        let (time, blocking) = {
            let engine = self.lock();
            let Ok(stream) = engine.stream(fd) else { return Ok(()) };
            let last = engine.object(fd)?.refs == 1;
            let conn = engine.core.connection(stream.conn);
            let time = conn.options().linger.filter(|t| !t.is_zero() && last);
            (time, !engine.nonblocking(fd)?)
        };
        let Some(time) = time.filter(|_| blocking) else { return Ok(()) };
        let mut engine = self.lock();
        match engine.shutdown(fd, Shutdown::Both) {
            Ok(()) | Err(Errno::ENOTCONN) => {}
            Err(e) => return Err(e),
        }
        drop(engine);
        let drained = self.wait_for(Some(time), |engine| {
            let conn = engine.core.connection(engine.stream(fd)?.conn);
            let done = conn.unacked() == 0 || conn.state() == tcp::State::Closed;
            if done { Ok(()) } else { Err(Errno::EAGAIN) }
        });
        match drained {
            // The time is over: close goes on in the background, as on Linux.
            Ok(()) | Err(Errno::EAGAIN) => Ok(()),
            Err(e) => Err(e),
        }
    }
}

impl Sockets for Direct {
    fn socket(&self, family: Family) -> Result<Fd, Errno> {
        self.lock().socket(family)
    }

    fn bind(&self, fd: Fd, local: Endpoint) -> Result<(), Errno> {
        self.lock().bind(fd, local)
    }

    fn listen(&self, fd: Fd, backlog: u32) -> Result<(), Errno> {
        self.lock().listen(fd, backlog)
    }

    fn accept(&self, fd: Fd) -> Result<(Fd, Endpoint), Errno> {
        self.call(fd, false, |e| e.waits(fd).recv, |e| e.accept(fd))
    }

    fn connect(&self, fd: Fd, remote: Endpoint) -> Result<(), Errno> {
        let first = self.lock().connect(fd, remote);
        if first != Err(Errno::EINPROGRESS) || self.lock().nonblocking(fd)? {
            return first;
        }
        let timeout = self.lock().waits(fd).send;
        let done = self.wait_for(timeout, |engine| match engine.connect(fd, remote) {
            Err(Errno::EALREADY) => Err(Errno::EAGAIN),
            result => result,
        });
        if done == Err(Errno::EAGAIN) { Err(Errno::EINPROGRESS) } else { done }
    }

    fn recv(&self, fd: Fd, into: &mut [u8], flags: RecvFlags) -> Result<usize, Errno> {
        let mut got = 0;
        self.call(fd, flags.dont_wait, |e| e.waits(fd).recv, |engine| {
            loop {
                match recv_once(engine, fd, &mut into[got..], flags) {
                    Ok(n) => got += n,
                    Err(Errno::EAGAIN) if got > 0 && !flags.wait_all => return Ok(got),
                    Err(Errno::EAGAIN) => return Err(Errno::EAGAIN),
                    Err(_) if got > 0 => return Ok(got),
                    Err(e) => return Err(e),
                }
                if !flags.wait_all || flags.peek || got == into.len() || engine.at_end(fd) {
                    return Ok(got);
                }
            }
        })
        .or_else(|e| if got > 0 { Ok(got) } else { Err(e) })
    }

    fn send(&self, fd: Fd, data: &[u8], flags: SendFlags) -> Result<usize, Errno> {
        let mut sent = 0;
        let blocking = !flags.dont_wait && !self.lock().nonblocking(fd)?;
        let result = self.call(fd, flags.dont_wait, |e| e.waits(fd).send, |engine| {
            loop {
                sent += engine.write(fd, &data[sent..])?;
                if sent == data.len() || !blocking {
                    return Ok(sent);
                }
            }
        });
        // Octets that were taken are reported; the error comes with the next call.
        if sent > 0 { Ok(sent) } else { result }
    }

    fn shutdown(&self, fd: Fd, how: Shutdown) -> Result<(), Errno> {
        self.lock().shutdown(fd, how)
    }

    fn close(&self, fd: Fd) -> Result<(), Errno> {
        let lingered = self.linger(fd);
        self.lock().close(fd)?;
        lingered
    }

    fn dup(&self, fd: Fd) -> Result<Fd, Errno> {
        self.lock().dup(fd)
    }

    fn set_nonblocking(&self, fd: Fd, on: bool) -> Result<(), Errno> {
        self.lock().object_mut(fd)?.nonblocking = on;
        Ok(())
    }

    fn nonblocking(&self, fd: Fd) -> Result<bool, Errno> {
        self.lock().nonblocking(fd)
    }

    fn local_addr(&self, fd: Fd) -> Result<Endpoint, Errno> {
        self.lock().local_addr(fd)
    }

    fn peer_addr(&self, fd: Fd) -> Result<Endpoint, Errno> {
        self.lock().peer_addr(fd)
    }

    fn setsockopt(&self, fd: Fd, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
        self.lock().setsockopt(fd, level, name, value)
    }

    fn getsockopt(&self, fd: Fd, level: i32, name: i32, into: &mut [u8]) -> Result<usize, Errno> {
        self.lock().getsockopt(fd, level, name, into)
    }

    fn readable(&self, fd: Fd) -> Result<usize, Errno> {
        self.lock().readable(fd)
    }

    fn unsent(&self, fd: Fd) -> Result<(usize, usize), Errno> {
        self.lock().unsent(fd)
    }

    fn pipe(&self) -> Result<(Fd, Fd), Errno> {
        self.lock().pipe()
    }

    fn epoll_create(&self) -> Result<Fd, Errno> {
        self.lock().epoll_create()
    }

    fn epoll_ctl(&self, epfd: Fd, fd: Fd, op: EpollOp) -> Result<(), Errno> {
        self.lock().epoll_ctl(epfd, fd, op)
    }

    fn epoll_wait(&self, epfd: Fd, events: &mut [EpollEvent], timeout: Option<Duration>) -> Result<usize, Errno> {
        // One turn first, always: what the application wrote since the last call leaves, what arrived is seen.
        {
            let mut engine = self.lock();
            match engine.turn() {
                Ok(_) | Err(pio::IoError::Down) => {}
                Err(_) => return Err(Errno::ENETDOWN),
            }
            let n = engine.epoll_collect(epfd, events)?;
            if n > 0 || timeout == Some(Duration::ZERO) {
                return Ok(n);
            }
        }
        let waited = self.wait_for(timeout, |engine| match engine.epoll_collect(epfd, events)? {
            0 => Err(Errno::EAGAIN),
            n => Ok(n),
        });
        if waited == Err(Errno::EAGAIN) { Ok(0) } else { waited }
    }

    fn poll(&self, fds: &mut [PollFd], timeout: Option<Duration>) -> Result<usize, Errno> {
        let mut look = |engine: &mut Engine| match engine.poll(fds) {
            0 => Err(Errno::EAGAIN),
            n => Ok(n),
        };
        let waited = if timeout == Some(Duration::ZERO) {
            self.attempt(&mut look)
        } else {
            self.wait_for(timeout, &mut look)
        };
        if waited == Err(Errno::EAGAIN) { Ok(0) } else { waited }
    }

    fn inspect(&self, look: Box<dyn FnOnce(&mut Engine) + Send + '_>) {
        look(&mut self.lock());
    }
}

fn recv_once(engine: &mut Engine, fd: Fd, into: &mut [u8], flags: RecvFlags) -> Result<usize, Errno> {
    if flags.peek || flags.discard {
        let mut at = 0;
        engine.peek(fd, into.len(), &mut |slice| {
            if !flags.discard {
                into[at..at + slice.len()].copy_from_slice(slice);
            }
            at += slice.len();
            true
        })?;
        if at == 0 {
            // Nothing in place: the ordinary read knows whether that is "not yet", the end or an error.
            return engine.read(fd, &mut []).and_then(|_| if engine.at_end(fd) { Ok(0) } else { Err(Errno::EAGAIN) });
        }
        if !flags.peek {
            engine.consume(fd, at)?;
        }
        return Ok(at);
    }
    engine.read(fd, into)
}

impl Engine {
    /// Nothing more will ever be readable.
    pub(crate) fn at_end(&self, fd: Fd) -> bool {
        self.stream(fd).is_ok_and(|s| {
            let conn = self.core.connection(s.conn);
            conn.readable() == 0 && (conn.peer_closed() || conn.state() == tcp::State::Closed)
        })
    }

    /// See [`Sockets::readable`].
    pub fn readable(&self, fd: Fd) -> Result<usize, Errno> {
        Ok(self.core.connection(self.stream(fd)?.conn).readable() as usize)
    }

    /// See [`Sockets::unsent`].
    pub fn unsent(&self, fd: Fd) -> Result<(usize, usize), Errno> {
        let conn = self.core.connection(self.stream(fd)?.conn);
        Ok((conn.unacked() as usize, conn.unsent() as usize))
    }

    /// Fills in each row's readiness; how many rows have any.
    pub fn poll(&mut self, fds: &mut [PollFd]) -> usize {
        let mut found = 0;
        for row in fds.iter_mut() {
            row.ready = match (row.fd, self.index(row.fd)) {
                (..0, _) => Ready::NONE,
                (_, Ok(object)) => self.readiness(object) & (row.interest | Ready::ERR | Ready::HUP),
                (_, Err(_)) => Ready::INVALID,
            };
            found += usize::from(row.ready != Ready::NONE);
        }
        found
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        self.backstop.wake();
    }
}
