//! The calls, whichever way the core below is run: a mode lends the engine and waits, the rest is here once.

use crate::Errno;
use crate::engine::{Begun, Engine};
use crate::object::Stream;
use crate::sockets::{
    Check, EpollEvent, EpollOp, ErrorReport, Family, Fd, PollFd, Ready, Received, RecvFlags, SendFlags,
    Sockets,
};
use crate::transport::Transport;
use base::{Duration, Endpoint, Instant};
use std::ops::{DerefMut, Range};
use std::sync::Arc;
use tcp::{Hints, Shutdown, State};

/// One way to run a core.
pub trait Mode: Send + Sync {
    /// Transport below the descriptors.
    type Below: Transport;

    /// The engine, for as long as the guard lives.
    fn lock(&self) -> impl DerefMut<Target = Engine<Self::Below>>;

    /// Repeats `attempt` while it gives EAGAIN, sleeping in between, until `timeout` is over. `on` is the descriptor
    /// that it waits for, or `None` for several.
    fn wait_for<R>(
        &self,
        on: Option<Fd>,
        timeout: Option<Duration>,
        attempt: impl FnMut(&mut Engine<Self::Below>) -> Result<R, Errno>,
    ) -> Result<R, Errno>;

    /// Waits in a call that asks which of several are ready: such a call is never restarted after a signal's
    /// handler (signal(7)), where signals end calls.
    fn wait_for_ready<R>(
        &self,
        on: Option<Fd>,
        timeout: Option<Duration>,
        attempt: impl FnMut(&mut Engine<Self::Below>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        self.wait_for(on, timeout, attempt)
    }

    /// One attempt; when it would block, the stack gets a chance to change that, but no thread sleeps.
    fn attempt<R>(
        &self,
        attempt: impl FnMut(&mut Engine<Self::Below>) -> Result<R, Errno>,
    ) -> Result<R, Errno>;

    /// Lets what happened below be seen, and what was written leave.
    fn refresh(&self) -> Result<(), Errno>;

    /// See [`Sockets::inspect`].
    fn look(&self, look: Box<dyn FnOnce(&mut Engine) + Send + '_>);
}

fn call<M: Mode, R>(
    mode: &M,
    fd: Fd,
    dont_wait: bool,
    timeout: impl FnOnce(&Engine<M::Below>) -> Option<Duration>,
    attempt: impl FnMut(&mut Engine<M::Below>) -> Result<R, Errno>,
) -> Result<R, Errno> {
    let (nonblocking, timeout) = {
        let engine = mode.lock();
        (engine.nonblocking(fd)? || dont_wait, timeout(&engine))
    };
    if nonblocking { mode.attempt(attempt) } else { mode.wait_for(Some(fd), timeout, attempt) }
}

/// Sends with `some`, which is told how many of `len` bytes went and sends more of them: all, if the socket blocks.
fn send_all<M: Mode>(
    mode: &M,
    fd: Fd,
    len: usize,
    flags: SendFlags,
    mut some: impl FnMut(&mut Engine<M::Below>, usize, Option<&Hints>) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let mut sent = 0;
    if len == 0 {
        // What a send of nothing tells is whether one of something would fail.
        mode.refresh()?;
    }
    let (blocking, hints) = {
        let engine = mode.lock();
        let blocking = !flags.dont_wait && !engine.nonblocking(fd)?;
        (blocking, engine.hints(fd, flags).map(|hints| Hints { waits: blocking, ..hints }))
    };
    let hints = hints.as_ref();
    let mut full = false;
    let result = call(
        mode,
        fd,
        flags.dont_wait,
        |e| e.extras(fd).send,
        |engine| {
            if engine.anew && sent > 0 {
                return Ok(sent);
            }
            // Who found it full goes on when there is as much room as a poll would tell of, and not for every segment.
            if full && !engine.tells_room(fd) {
                return Err(Errno::EAGAIN);
            }
            loop {
                if sent > 0 && engine.has_closed(fd) {
                    return Ok(sent);
                }
                let some = some(engine, sent, hints);
                full = some == Err(Errno::EAGAIN);
                sent += some?;
                if sent == len || !blocking {
                    return Ok(sent);
                }
            }
        },
    );
    if let Some(hints) = hints.filter(|_| blocking && sent > 0 && sent < len) {
        mode.lock().end_call(fd, hints)?;
    }
    // Bytes that were taken are reported; the error, which is still there, comes with the next call.
    if sent > 0 { Ok(sent) } else { result }
}

/// A connect is on its way: waits for its end, or for SO_SNDTIMEO (EINPROGRESS).
fn wait_connected<M: Mode>(mode: &M, fd: Fd) -> Result<(), Errno> {
    let timeout = mode.lock().extras(fd).send;
    let done = mode.wait_for(Some(fd), timeout, |engine| match engine.connect_ends(fd) {
        Err(Errno::EALREADY) => Err(Errno::EAGAIN),
        // Another thread that waits for it was told first.
        Err(Errno::EISCONN) => Ok(()),
        result => result,
    });
    if done == Err(Errno::EAGAIN) { Err(Errno::EINPROGRESS) } else { done }
}

/// A send that connects if need be, with data in the SYN if it takes any.
fn send_and_connect<M: Mode>(
    mode: &M,
    fd: Fd,
    data: &[u8],
    remote: Option<Endpoint>,
    flags: SendFlags,
) -> Result<usize, Errno> {
    let blocking = !flags.dont_wait && !mode.lock().nonblocking(fd)?;
    let begun = mode.lock().begin_send(fd, remote, data, SendFlags { dont_wait: !blocking, ..flags });
    let taken = match begun {
        Ok(Begun::Connected) => 0,
        Ok(Begun::Connecting(0)) if !blocking => return Err(Errno::EINPROGRESS),
        Ok(Begun::Connecting(taken)) if !blocking => return Ok(taken),
        Ok(Begun::Connecting(taken)) => {
            mode.refresh()?;
            match wait_connected(mode, fd) {
                Err(Errno::EINPROGRESS) if taken > 0 => return Ok(taken),
                result => result?,
            }
            taken
        }
        Err(Errno::EALREADY) if blocking => {
            wait_connected(mode, fd)?;
            0
        }
        Err(e) => return Err(e),
    };
    if taken == data.len() {
        return Ok(taken);
    }
    let rest = &data[taken..];
    match send_all(mode, fd, rest.len(), flags, |engine, sent, hints| engine.put(fd, &rest[sent..], hints)) {
        Ok(sent) => Ok(taken + sent),
        Err(_) if taken > 0 => Ok(taken),
        Err(e) => Err(e),
    }
}

/// Returns the result of a send, unless connect has left everything to it (TCP_FASTOPEN_CONNECT).
fn or_connect<M: Mode>(
    mode: &M,
    fd: Fd,
    data: &[u8],
    flags: SendFlags,
    sent: Result<usize, Errno>,
) -> Result<usize, Errno> {
    match sent {
        Err(Errno::EPIPE) if mode.lock().is_deferred(fd) => send_and_connect(mode, fd, data, None, flags),
        result => result,
    }
}

/// SO_LINGER with a time: wait until everything is acknowledged and the FIN with it, the time is over, or the peer is
/// gone.
fn linger<M: Mode>(mode: &M, fd: Fd) -> Result<(), Errno> {
    let (time, blocking) = {
        let engine = mode.lock();
        let Ok(stream) = engine.stream(fd) else { return Ok(()) };
        let last = engine.object(fd)?.refs == 1;
        // Unread data makes close a reset, which nothing acknowledges.
        let is_read = engine.core.readable(stream.conn) == 0;
        let time = engine.core.options(stream.conn).linger.filter(|t| !t.is_zero() && last && is_read);
        (time, !engine.nonblocking(fd)?)
    };
    let Some(time) = time.filter(|_| blocking) else { return Ok(()) };
    let mut engine = mode.lock();
    engine.leave_sets(fd)?;
    match engine.shutdown(fd, Shutdown::Both) {
        Ok(()) | Err(Errno::ENOTCONN) => {}
        Err(e) => return Err(e),
    }
    drop(engine);
    let drained = mode.wait_for(Some(fd), Some(time), |engine| {
        let conn = engine.stream(fd)?.conn;
        let now = engine.now();
        let state = engine.core.info(now, conn).map_or(State::Closed, |info| info.state);
        if matches!(state, State::Closed | State::FinWait2) { Ok(()) } else { Err(Errno::EAGAIN) }
    });
    match drained {
        // The time is over, or a signal came: close goes on in the background, as on Linux.
        Ok(()) | Err(Errno::EAGAIN | Errno::EINTR) => Ok(()),
        Err(e) => Err(e),
    }
}

impl<M: Mode> Sockets for M {
    fn socket(&self, family: Family) -> Result<Fd, Errno> {
        self.lock().socket(family)
    }

    fn bind(&self, fd: Fd, local: Endpoint) -> Result<(), Errno> {
        self.lock().bind(fd, local)
    }

    fn listen(&self, fd: Fd, backlog: u32) -> Result<(), Errno> {
        self.lock().listen(fd, backlog)
    }

    fn park(&self, fd: Fd, parked: bool) -> Result<(), Errno> {
        self.lock().park(fd, parked)
    }

    fn accept(&self, fd: Fd) -> Result<(Fd, Endpoint), Errno> {
        call(self, fd, false, |e| e.extras(fd).recv, |e| e.accept(fd))
    }

    fn connect(&self, fd: Fd, remote: Endpoint) -> Result<(), Errno> {
        let first = self.lock().connect(fd, remote);
        // Whichever call began it, perhaps a send with MSG_FASTOPEN: a socket that blocks waits for its end.
        let under_way = matches!(first, Err(Errno::EINPROGRESS | Errno::EALREADY));
        if !under_way || self.lock().nonblocking(fd)? {
            return first;
        }
        match wait_connected(self, fd) {
            // The time is over: EALREADY if another call began it.
            Err(Errno::EINPROGRESS) => first,
            done => done,
        }
    }

    fn finish_connect(&self, fd: Fd) -> Result<(), Errno> {
        wait_connected(self, fd)
    }

    fn disconnect(&self, fd: Fd) -> Result<(), Errno> {
        self.lock().disconnect(fd)?;
        // The reset leaves, and with it the flow: the same ends may connect again.
        self.refresh()
    }

    fn is_apart(&self, fd: Fd) -> Result<bool, Errno> {
        let engine = self.lock();
        engine.object(fd)?;
        Ok(engine.apart(fd).is_some())
    }

    fn recv(&self, fd: Fd, into: &mut [u8], flags: RecvFlags) -> Result<usize, Errno> {
        receive(self, fd, into, flags, None)
    }

    fn recv_checked(
        &self,
        fd: Fd,
        into: &mut [u8],
        flags: RecvFlags,
        check: Check<'_>,
    ) -> Result<usize, Errno> {
        receive(self, fd, into, flags, Some(check))
    }

    fn received(&self, fd: Fd, len: usize) -> Received {
        self.lock().received(fd, len)
    }

    fn time(&self) -> Instant {
        self.lock().time()
    }

    fn recv_error(&self, fd: Fd) -> Result<ErrorReport, Errno> {
        self.attempt(|engine| engine.recv_error(fd))
    }

    fn borrow(&self, fd: Fd, max: usize, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Errno> {
        self.attempt(|engine| engine.peek(fd, max, &mut *each))
    }

    fn consume(&self, fd: Fd, len: usize) -> Result<(), Errno> {
        self.lock().consume(fd, len)
    }

    fn send(&self, fd: Fd, data: &[u8], flags: SendFlags) -> Result<usize, Errno> {
        let sent =
            send_all(self, fd, data.len(), flags, |engine, sent, hints| engine.put(fd, &data[sent..], hints));
        or_connect(self, fd, data, flags, sent)
    }

    fn send_checked(&self, fd: Fd, data: &[u8], flags: SendFlags, check: Check<'_>) -> Result<usize, Errno> {
        let sent = send_all(self, fd, data.len(), flags, |engine, sent, hints| {
            engine.put_checked(fd, data, sent, hints, check)
        });
        match sent {
            Err(Errno::EPIPE) if self.lock().is_deferred(fd) && !check(0, data.len()) => Err(Errno::EFAULT),
            sent => or_connect(self, fd, data, flags, sent),
        }
    }

    fn send_fast(
        &self,
        fd: Fd,
        data: &[u8],
        remote: Option<Endpoint>,
        flags: SendFlags,
    ) -> Result<usize, Errno> {
        if !self.lock().has_fast_open() {
            return Err(Errno::EOPNOTSUPP);
        }
        send_and_connect(self, fd, data, remote, flags)
    }

    fn lend(&self, fd: Fd, bytes: &Arc<[u8]>, range: Range<usize>, flags: SendFlags) -> Result<usize, Errno> {
        let sent = send_all(self, fd, range.len(), flags, |engine, sent, hints| {
            let hints = hints.copied().unwrap_or_default();
            engine.lend(fd, bytes, range.start + sent..range.end, &hints)
        });
        or_connect(self, fd, &bytes[range], flags, sent)
    }

    fn shutdown(&self, fd: Fd, how: Shutdown) -> Result<(), Errno> {
        self.lock().shutdown(fd, how)
    }

    fn close(&self, fd: Fd) -> Result<(), Errno> {
        let lingered = linger(self, fd);
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

    fn epoll_wait(
        &self,
        epfd: Fd,
        events: &mut [EpollEvent],
        timeout: Option<Duration>,
    ) -> Result<usize, Errno> {
        self.refresh()?;
        let n = self.lock().epoll_collect(epfd, events)?;
        if n > 0 || timeout == Some(Duration::ZERO) {
            return Ok(n);
        }
        let waited =
            self.wait_for_ready(Some(epfd), timeout, |engine| match engine.epoll_collect(epfd, events)? {
                0 => Err(Errno::EAGAIN),
                n => Ok(n),
            });
        if waited == Err(Errno::EAGAIN) { Ok(0) } else { waited }
    }

    fn poll(&self, fds: &mut [PollFd], timeout: Option<Duration>) -> Result<usize, Errno> {
        let mut look = |engine: &mut Engine<M::Below>| match engine.poll(fds) {
            0 => Err(Errno::EAGAIN),
            n => Ok(n),
        };
        let waited = if timeout == Some(Duration::ZERO) {
            self.attempt(&mut look)
        } else {
            self.wait_for_ready(None, timeout, &mut look)
        };
        if waited == Err(Errno::EAGAIN) { Ok(0) } else { waited }
    }

    fn inspect(&self, look: Box<dyn FnOnce(&mut Engine) + Send + '_>) {
        self.look(look);
    }
}

/// Receives nothing, as Linux does: 0 where a read would return at once, and 0 when a sleep ends, whatever ends it.
#[cold]
fn receive_nothing<M: Mode>(mode: &M, fd: Fd, flags: RecvFlags) -> Result<usize, Errno> {
    // What it tells is what one of something would be told.
    mode.refresh()?;
    match mode.attempt(|engine| engine.read(fd, &mut [])) {
        Err(Errno::EAGAIN) if !flags.dont_wait && !mode.lock().nonblocking(fd)? => {}
        done => return done,
    }
    let (timeout, wakes) = {
        let engine = mode.lock();
        (engine.extras(fd).recv, engine.object(fd)?.wakes)
    };
    let ended = mode.wait_for_ready(Some(fd), timeout, |engine| {
        if engine.was_disconnected(fd) {
            return Err(Errno::EPIPE);
        }
        let ready = engine.readiness(engine.index(fd)?);
        let ends = ready.any(Ready::IN | Ready::ERR | Ready::HUP) || engine.object(fd)?.wakes != wakes;
        if ends { Ok(0) } else { Err(Errno::EAGAIN) }
    });
    match ended {
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(0),
        ended => ended,
    }
}

/// See [`Sockets::recv`] and [`Sockets::recv_checked`].
#[inline(always)]
fn receive<M: Mode>(
    mode: &M,
    fd: Fd,
    into: &mut [u8],
    flags: RecvFlags,
    check: Option<Check<'_>>,
) -> Result<usize, Errno> {
    if into.is_empty() {
        return receive_nothing(mode, fd, flags);
    }
    let (mut got, mut has_slept) = (0, false);
    call(
        mode,
        fd,
        flags.dont_wait,
        |e| e.extras(fd).recv,
        |engine| {
            if std::mem::replace(&mut has_slept, true) && engine.was_disconnected(fd) {
                return if got > 0 { Ok(got) } else { Err(Errno::EPIPE) };
            }
            if engine.anew && got > 0 {
                return Ok(got);
            }
            loop {
                // As on Linux, an error behind bytes is the next call's: a read here would take it.
                if got > 0 && engine.at_end(fd) {
                    return Ok(got);
                }
                let least = match flags.wait_all {
                    true => into.len(),
                    false => (engine.too_few(fd) + 1).min(into.len()),
                };
                let from = if flags.peek { 0 } else { got };
                if let Some(check) = check.filter(|_| !flags.discard)
                    && !check(from, engine.may_take(fd, into.len() - from, flags))
                {
                    return if got > 0 { Ok(got) } else { Err(Errno::EFAULT) };
                }
                match recv_once(engine, fd, &mut into[from..], flags) {
                    Ok(0) => return Ok(got),
                    Ok(n) => got = from + n,
                    Err(Errno::EAGAIN) => return Err(Errno::EAGAIN),
                    Err(_) if got > 0 => return Ok(got),
                    Err(e) => return Err(e),
                }
                if got >= least {
                    return Ok(got);
                }
                if flags.peek {
                    return if engine.ends_at(fd, usize::MAX) { Ok(got) } else { Err(Errno::EAGAIN) };
                }
            }
        },
    )
    .or_else(|e| if got > 0 { Ok(got) } else { Err(e) })
    .inspect(|&n| {
        if flags.peek {
            mode.lock().move_peek_offset(fd, n as i32);
        }
    })
}

fn recv_once<T: Transport>(
    engine: &mut Engine<T>,
    fd: Fd,
    into: &mut [u8],
    flags: RecvFlags,
) -> Result<usize, Errno> {
    if flags.peek || flags.discard {
        let skip = if flags.peek { engine.peek_offset(fd) } else { 0 };
        let (mut at, mut before) = (0, skip);
        engine.peek(fd, skip.saturating_add(into.len()), &mut |slice| {
            let left_out = before.min(slice.len());
            before -= left_out;
            let slice = &slice[left_out..];
            if !flags.discard {
                into[at..at + slice.len()].copy_from_slice(slice);
            }
            at += slice.len();
            true
        })?;
        if at == 0 {
            // Nothing in place: the ordinary read knows whether that is "not yet", the end or an error.
            return engine
                .read(fd, &mut [])
                .and_then(|_| if engine.ends_at(fd, skip) { Ok(0) } else { Err(Errno::EAGAIN) });
        }
        if !flags.peek {
            engine.consume(fd, at)?;
        }
        return Ok(at);
    }
    engine.read(fd, into)
}

/// Bytes beyond the room in a send buffer that are offered to it at once: it may grow.
const AHEAD: usize = 64 << 10;

impl<T: Transport> Engine<T> {
    /// Bytes that a call which receives into room for `max` would write now.
    fn may_take(&self, fd: Fd, max: usize, flags: RecvFlags) -> usize {
        let skip = if flags.peek { self.peek_offset(fd) } else { 0 };
        self.readable(fd).map_or(0, |there| there.saturating_sub(skip).min(max))
    }

    /// Sends what fits of `data` from `sent` on, after a look at the memory.
    fn put_checked(
        &mut self,
        fd: Fd,
        data: &[u8],
        sent: usize,
        hints: Option<&Hints>,
        check: Check<'_>,
    ) -> Result<usize, Errno> {
        let mut taken = 0;
        loop {
            let rest = &data[sent + taken..];
            let room = self.stream(fd).map_or(0, |stream| self.core.writable(stream.conn) as usize);
            // Hints are about all that a call sends.
            let len = if hints.is_some() { rest.len() } else { rest.len().min(room + AHEAD) };
            let put = if check(sent + taken, len) {
                self.put(fd, &rest[..len], hints)
            } else {
                // A socket that could not send anyway, or is full, says so before the memory is blamed, as on Linux.
                let why = if room == 0 { Errno::EAGAIN } else { Errno::EFAULT };
                self.put(fd, &[], None).and(Err(why))
            };
            match put {
                Ok(n) => taken += n,
                Err(_) if taken > 0 => return Ok(taken),
                Err(e) => return Err(e),
            }
            if put != Ok(len) || len == rest.len() {
                return Ok(taken);
            }
        }
    }

    /// Returns true if nothing more will arrive, or no call waits for more: the receiving side is shut.
    fn has_ended(&self, fd: Fd) -> bool {
        let over = |stream: &Stream| stream.read_shut || self.core.peer_closed(stream.conn);
        self.has_closed(fd) || self.stream(fd).is_ok_and(over)
    }

    /// Is the connection in CLOSED, where an error may be pending?
    pub(crate) fn has_closed(&self, fd: Fd) -> bool {
        self.stream(fd).is_ok_and(|stream| self.core.state(stream.conn) == State::Closed)
    }

    /// Nothing more will ever be readable, or nothing after the receiving side was shut.
    pub(crate) fn at_end(&self, fd: Fd) -> bool {
        self.ends_at(fd, 0)
    }

    /// Returns true if the stream ends behind the next `ahead` bytes.
    fn ends_at(&self, fd: Fd, ahead: usize) -> bool {
        let Ok(stream) = self.stream(fd) else { return self.apart(fd).is_some() };
        self.has_ended(fd) && self.core.readable(stream.conn) as usize <= ahead
    }

    /// Fills in each row's readiness; how many rows have any.
    pub fn poll(&mut self, fds: &mut [PollFd]) -> usize {
        let mut found = 0;
        for row in fds.iter_mut() {
            row.ready = match (row.fd, self.index(row.fd)) {
                (..0, _) => Ready::NONE,
                (_, Ok(object)) => {
                    self.readiness(object).in_all_names() & (row.interest | Ready::ERR | Ready::HUP)
                }
                (_, Err(_)) => Ready::INVALID,
            };
            found += usize::from(row.ready != Ready::NONE);
        }
        found
    }
}
