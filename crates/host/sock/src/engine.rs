//! One core's stack with descriptors on top: what direct mode calls under its lock and paired mode owns on its
//! thread. Nothing here blocks; a call that would have to gives EAGAIN (or EINPROGRESS) and the door waits.

use crate::Errno;
use crate::clock::Clock;
use crate::object::{Kind, Listener, Object, Settings, Stream, Waits};
use crate::pipe::Pipe;
use crate::sockets::{EpollEvent, EpollOp, Family, Fd, Ready};
use crate::table::FdTable;
use crate::transport::Transport;
use crate::waiting::Waiting;
use crate::watch::{NO_WATCH, Watches};
use base::{Addr, Duration, Endpoint, Instant, Slab};
use pio::{IoError, Wake};
use stack::{ConnId, Connect, Core, Listen, Notice, Turn};
use tcp::{Events, Shutdown, State};

/// epoll sets nest at most this deep (Linux says 5).
const NEST_MAX: u32 = 5;
/// How long to wait before looking again at an interface that is down.
const DOWN_RETRY: Duration = Duration::from_millis(100);

/// What one [`Engine::pump`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pumped {
    /// Something happened: look again.
    Progress,
    /// The deadline has passed.
    TimedOut,
    /// Another thread wants the engine.
    Interrupted,
}

/// Limits of an engine's tables.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most open descriptors.
    pub descriptors: u32,
    /// How long to spin for packets before sleeping in the kernel.
    pub spin: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { descriptors: 2_097_152, spin: Duration::from_micros(20) }
    }
}

/// A core (or what stands for it) with descriptors, epoll sets and pipes.
pub struct Engine<T: Transport = Core> {
    pub(crate) core: T,
    clock: Box<dyn Clock>,
    now: Instant,
    spin: Duration,
    /// Time spent looking for packets that were not there.
    pub(crate) spun: Duration,
    table: FdTable,
    objects: Slab<Object>,
    watches: Watches,
    pipes: Slab<Pipe>,
    notices: Vec<Notice>,
    pub(crate) waiting: Waiting,
}

impl Engine {
    /// The core below, for `ss`, `stat` and captures.
    pub fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    // --- turning -------------------------------------------------------------------------------------------

    /// One round of the stack; its notices reach the epoll sets.
    pub fn turn(&mut self) -> Result<Turn, IoError> {
        self.now = self.clock.now();
        let turn = self.core.turn(self.now);
        self.publish(Core::notices);
        turn
    }

    /// One round of the stack for an owner other than this engine's descriptors: it takes the notices.
    pub(crate) fn turn_for(&mut self, notices: &mut Vec<Notice>) -> Result<Turn, IoError> {
        self.now = self.clock.now();
        let turn = self.core.turn(self.now);
        self.core.notices(notices);
        turn
    }

    /// Turns and, when nothing happens, spins and then sleeps until packets, a timer or the deadline.
    pub fn pump(&mut self, deadline: Option<Instant>) -> Result<Pumped, Errno> {
        let mut spin_until = None;
        // The first turn that finds nothing may have sent something: time is idle from the second on.
        let mut idle_since = None;
        loop {
            let turn = match self.turn() {
                Ok(turn) => turn,
                Err(IoError::Down) => return self.sleep_while_down(deadline),
                Err(_) => return Err(Errno::ENETDOWN),
            };
            if spin_until.is_some() {
                self.spun += self.now - *idle_since.get_or_insert(self.now);
                idle_since = Some(self.now);
            }
            if turn.more || turn.received > 0 || turn.timers > 0 {
                return Ok(Pumped::Progress);
            }
            if deadline.is_some_and(|d| d <= self.now) {
                return Ok(Pumped::TimedOut);
            }
            if *spin_until.get_or_insert(self.now + self.spin) > self.now {
                std::hint::spin_loop();
                continue;
            }
            return self.sleep(deadline);
        }
    }

    fn sleep(&mut self, deadline: Option<Instant>) -> Result<Pumped, Errno> {
        let until = Instant::earliest(self.core.next_timeout(), deadline);
        let timeout = until.map(|at| at.since(self.now));
        if timeout == Some(Duration::ZERO) {
            return Ok(Pumped::Progress);
        }
        match self.core.io().wait(timeout) {
            Ok(Wake::Interrupted) => Ok(Pumped::Interrupted),
            Ok(Wake::Ready | Wake::Timeout) | Err(IoError::Down) => Ok(Pumped::Progress),
            Err(_) => Err(Errno::ENETDOWN),
        }
    }

    /// Timers and retransmissions go on while the interface is down; only packets do not.
    fn sleep_while_down(&mut self, deadline: Option<Instant>) -> Result<Pumped, Errno> {
        if deadline.is_some_and(|d| d <= self.now) {
            return Ok(Pumped::TimedOut);
        }
        let until = deadline.map_or(DOWN_RETRY, |d| d.since(self.now).min(DOWN_RETRY));
        std::thread::sleep(until);
        Ok(Pumped::Progress)
    }

    /// A call that waits without sleeping (O_NONBLOCK in a loop) must not starve the stack: turn if the last
    /// turn is long ago. True if the caller should look once more.
    pub(crate) fn turn_if_stale(&mut self) -> bool {
        const STALE: Duration = Duration::from_micros(50);
        let now = self.clock.now();
        now.since(self.now) > STALE && self.turn().is_ok_and(|t| t.received > 0 || t.timers > 0)
    }

    /// Was the last turn longer ago than `bound`?
    pub(crate) fn is_stale(&self, bound: Duration) -> bool {
        self.clock.now().since(self.now) >= bound
    }
}

impl<T: Transport> Engine<T> {
    /// Descriptors over `core`, with time from `clock`.
    pub fn new(core: T, clock: Box<dyn Clock>, limits: Limits) -> Self {
        let now = clock.now();
        Engine {
            core,
            clock,
            now,
            spin: limits.spin,
            spun: Duration::ZERO,
            table: FdTable::new(limits.descriptors as usize),
            objects: Slab::new(limits.descriptors),
            watches: Watches::new(limits.descriptors.saturating_mul(2)),
            pipes: Slab::new(65_536),
            notices: Vec::with_capacity(1_024),
            waiting: Waiting::default(),
        }
    }

    /// The time of the last turn.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Octets of descriptors, watches and objects.
    pub fn footprint(&self) -> usize {
        self.table.footprint() + self.objects.footprint() + self.watches.footprint()
    }

    /// Open descriptors and epoll watches.
    pub fn open(&self) -> (usize, u32) {
        (self.table.len(), self.watches.len())
    }

    /// The time at this moment, which is later than [`Engine::now`].
    pub(crate) fn time(&self) -> Instant {
        self.clock.now()
    }

    /// Tells the epoll sets what the owners of connections and listeners should look at.
    pub(crate) fn publish(&mut self, fill: impl FnOnce(&mut T, &mut Vec<Notice>)) {
        let mut notices = std::mem::take(&mut self.notices);
        fill(&mut self.core, &mut notices);
        for notice in notices.drain(..) {
            self.mark(notice.owner, edges(notice.events));
        }
        self.notices = notices;
    }

    /// Queues the watches of `object` that look for any of `edges`, and those of the sets above them.
    fn mark(&mut self, object: u32, edges: Ready) {
        if !self.waiting.is_empty() {
            self.waiting.wake(object);
        }
        let mut watch = self.objects.get(object).map_or(NO_WATCH, |o| o.watches);
        while watch != NO_WATCH {
            if let Some(parent) = self.watches.queue(watch, edges) {
                self.mark(parent, Ready::IN);
            }
            watch = self.watches.after(watch);
        }
    }

    // --- objects -------------------------------------------------------------------------------------------

    fn insert(&mut self, object: Object) -> Result<(Fd, u32), Errno> {
        let index = self.objects.insert(object).map_err(|_| Errno::EMFILE)?;
        match self.table.open(index) {
            Some(fd) => Ok((fd, index)),
            None => {
                self.objects.remove(index);
                Err(Errno::EMFILE)
            }
        }
    }

    /// The object of a descriptor.
    pub(crate) fn index(&self, fd: Fd) -> Result<u32, Errno> {
        self.table.get(fd).ok_or(Errno::EBADF)
    }

    pub(crate) fn object(&self, fd: Fd) -> Result<&Object, Errno> {
        self.objects.get(self.index(fd)?).ok_or(Errno::EBADF)
    }

    pub(crate) fn object_mut(&mut self, fd: Fd) -> Result<&mut Object, Errno> {
        let index = self.index(fd)?;
        self.objects.get_mut(index).ok_or(Errno::EBADF)
    }

    pub(crate) fn stream(&self, fd: Fd) -> Result<&Stream, Errno> {
        match &self.object(fd)?.kind {
            Kind::Stream(stream) => Ok(stream),
            Kind::Fresh(_) | Kind::Listener(_) => Err(Errno::ENOTCONN),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    fn stream_mut(&mut self, fd: Fd) -> Result<&mut Stream, Errno> {
        match &mut self.object_mut(fd)?.kind {
            Kind::Stream(stream) => Ok(stream),
            Kind::Fresh(_) | Kind::Listener(_) => Err(Errno::ENOTCONN),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    fn fresh_mut(&mut self, fd: Fd) -> Result<&mut Settings, Errno> {
        match &mut self.object_mut(fd)?.kind {
            Kind::Fresh(settings) => Ok(settings),
            Kind::Stream(_) | Kind::Listener(_) => Err(Errno::EINVAL),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    /// A new socket.
    pub fn socket(&mut self, family: Family) -> Result<Fd, Errno> {
        self.insert(Object::new(Kind::Fresh(Box::new(Settings::new(family))))).map(|(fd, _)| fd)
    }

    /// See [`crate::Sockets::bind`].
    pub fn bind(&mut self, fd: Fd, local: Endpoint) -> Result<(), Errno> {
        let settings = self.fresh_mut(fd)?;
        if settings.bound.is_some() {
            return Err(Errno::EINVAL);
        }
        let any = (settings.reuse_addr, settings.reuse_port, settings.v6_only);
        let local = in_family(settings, local)?;
        let bound = self.core.bind(local, any.0, any.1, any.2)?;
        self.fresh_mut(fd)?.bound = Some(bound);
        Ok(())
    }

    /// See [`crate::Sockets::listen`].
    pub fn listen(&mut self, fd: Fd, backlog: u32) -> Result<(), Errno> {
        let owner = self.index(fd)?;
        if let Kind::Listener(listener) = &self.object(fd)?.kind {
            let id = listener.id;
            self.core.set_backlog(id, backlog.max(1));
            return Ok(());
        }
        let settings = self.fresh_mut(fd)?.clone();
        let any = if settings.family == Family::V4 { Addr::UNSPECIFIED_V4 } else { Addr::UNSPECIFIED_V6 };
        let wish = Listen {
            local: settings.bound.unwrap_or(Endpoint::new(any, 0)),
            backlog: backlog.max(1),
            reuse_port: settings.reuse_port,
            v6_only: settings.v6_only,
            options: settings.options,
            control: settings.control,
            owner,
        };
        let (id, local) = self.core.listen(self.now, &wish)?;
        self.object_mut(fd)?.kind = Kind::Listener(Box::new(Listener { id, local, settings }));
        Ok(())
    }

    /// See [`crate::Sockets::accept`]; EAGAIN when nobody waits.
    pub fn accept(&mut self, fd: Fd) -> Result<(Fd, Endpoint), Errno> {
        let (id, waits) = match &self.object(fd)?.kind {
            Kind::Listener(l) => (l.id, l.settings.waits),
            Kind::Fresh(_) | Kind::Stream(_) => return Err(Errno::EINVAL),
            _ => return Err(Errno::ENOTSOCK),
        };
        if self.core.acceptable(id) == 0 {
            return Err(Errno::EAGAIN);
        }
        // The descriptor first: a connection that could not get one stays in the queue.
        let waits = (waits.recv.is_some() || waits.send.is_some()).then(|| Box::new(waits));
        let stream = Stream { conn: ConnId(u32::MAX), connecting: false, read_shut: false, waits };
        let (new, index) = self.insert(Object::new(Kind::Stream(stream)))?;
        let Some(conn) = self.core.accept(id, index) else {
            self.table.close(new);
            self.objects.remove(index);
            return Err(Errno::EAGAIN);
        };
        self.stream_mut(new)?.conn = conn;
        Ok((new, self.core.remote(conn)))
    }

    /// See [`crate::Sockets::connect`]; EINPROGRESS once the SYN is on its way.
    pub fn connect(&mut self, fd: Fd, remote: Endpoint) -> Result<(), Errno> {
        if let Ok(stream) = self.stream(fd) {
            let conn = stream.conn;
            let connecting = stream.connecting;
            return self.connect_again(fd, conn, connecting);
        }
        let owner = self.index(fd)?;
        let settings = match &self.object(fd)?.kind {
            Kind::Fresh(settings) => settings,
            Kind::Listener(_) => return Err(Errno::EISCONN),
            _ => return Err(Errno::ENOTSOCK),
        };
        let remote = in_family(settings, remote)?;
        let any = if remote.addr.is_v4() { Addr::UNSPECIFIED_V4 } else { Addr::UNSPECIFIED_V6 };
        let wish = Connect {
            local: match settings.bound {
                Some(bound) if bound.addr.is_unspecified() => Endpoint::new(any, bound.port),
                Some(bound) => bound,
                None => Endpoint::new(any, 0),
            },
            remote: if remote.addr.is_unspecified() { return Err(Errno::ECONNREFUSED) } else { remote },
            reuse_addr: settings.reuse_addr,
            options: settings.options,
            control: settings.control,
            owner,
        };
        let waits = settings.waits;
        let waits = (waits.recv.is_some() || waits.send.is_some()).then(|| Box::new(waits));
        let conn = self.core.connect(self.now, &wish)?;
        self.object_mut(fd)?.kind = Kind::Stream(Stream { conn, connecting: true, read_shut: false, waits });
        Err(Errno::EINPROGRESS)
    }

    fn connect_again(&mut self, fd: Fd, conn: ConnId, connecting: bool) -> Result<(), Errno> {
        if !connecting {
            return Err(Errno::EISCONN);
        }
        match self.connected(conn) {
            None => Err(Errno::EALREADY),
            Some(result) => {
                self.stream_mut(fd)?.connecting = false;
                result
            }
        }
    }

    /// How a connect ended, if it has.
    fn connected(&mut self, conn: ConnId) -> Option<Result<(), Errno>> {
        match self.core.state(conn) {
            State::SynSent | State::SynReceived => None,
            State::Closed => Some(Err(self.core.take_error(conn).unwrap_or(Errno::ECONNABORTED))),
            _ => Some(Ok(())),
        }
    }

    /// See [`crate::Sockets::recv`].
    pub fn read(&mut self, fd: Fd, into: &mut [u8]) -> Result<usize, Errno> {
        match &self.object(fd)?.kind {
            Kind::Stream(stream) => {
                let (conn, shut, connecting) = (stream.conn, stream.read_shut, stream.connecting);
                if shut {
                    return Ok(0);
                }
                match self.core.read(self.now, conn, into) {
                    Err(Errno::ENOTCONN) if connecting => Err(Errno::EAGAIN),
                    result => result,
                }
            }
            Kind::PipeRead(pipe) => {
                let pipe = *pipe;
                let end = self.pipes.get_mut(pipe).ok_or(Errno::EBADF)?;
                let was_full = !end.writable();
                let n = end.read(into)?;
                if was_full {
                    self.mark_pipe(pipe, Ready::OUT);
                }
                Ok(n)
            }
            Kind::Fresh(_) | Kind::Listener(_) => Err(Errno::ENOTCONN),
            Kind::Epoll(_) => Err(Errno::EINVAL),
            Kind::PipeWrite(_) => Err(Errno::EBADF),
        }
    }

    /// Shows the readable octets in place, slice by slice, until `each` returns false.
    pub fn peek(&mut self, fd: Fd, max: usize, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Errno> {
        let conn = self.stream(fd)?.conn;
        self.core.peek(conn, max, each)
    }

    /// Drops readable octets.
    pub fn consume(&mut self, fd: Fd, len: usize) -> Result<(), Errno> {
        let conn = self.stream(fd)?.conn;
        self.core.consume(self.now, conn, len);
        Ok(())
    }

    /// See [`crate::Sockets::send`]: what fits now.
    pub fn write(&mut self, fd: Fd, data: &[u8]) -> Result<usize, Errno> {
        match &self.object(fd)?.kind {
            Kind::Stream(stream) => {
                let conn = stream.conn;
                match self.core.write(self.now, conn, data) {
                    Err(Errno::ENOTCONN) if self.stream(fd)?.connecting => Err(Errno::EAGAIN),
                    result => result,
                }
            }
            Kind::PipeWrite(pipe) => {
                let pipe = *pipe;
                let n = self.pipes.get_mut(pipe).ok_or(Errno::EBADF)?.write(data)?;
                self.mark_pipe(pipe, Ready::IN);
                Ok(n)
            }
            Kind::Fresh(_) | Kind::Listener(_) => Err(Errno::EPIPE),
            Kind::Epoll(_) => Err(Errno::EINVAL),
            Kind::PipeRead(_) => Err(Errno::EBADF),
        }
    }

    /// See [`crate::Sockets::shutdown`].
    pub fn shutdown(&mut self, fd: Fd, how: Shutdown) -> Result<(), Errno> {
        let index = self.index(fd)?;
        let stream = self.stream_mut(fd)?;
        let conn = stream.conn;
        if how != Shutdown::Write {
            stream.read_shut = true;
        }
        if self.core.state(conn) == State::Closed {
            return Err(Errno::ENOTCONN);
        }
        self.core.shutdown(self.now, conn, how);
        let edge = self.readiness(index);
        self.mark(index, edge);
        Ok(())
    }

    /// See [`crate::Sockets::dup`].
    pub fn dup(&mut self, fd: Fd) -> Result<Fd, Errno> {
        let index = self.index(fd)?;
        let new = self.table.open(index).ok_or(Errno::EMFILE)?;
        self.object_mut(fd)?.refs += 1;
        Ok(new)
    }

    /// See [`crate::Sockets::close`]; never waits, even with SO_LINGER (the door does that first).
    pub fn close(&mut self, fd: Fd) -> Result<(), Errno> {
        let index = self.table.close(fd).ok_or(Errno::EBADF)?;
        let object = self.objects.get_mut(index).ok_or(Errno::EBADF)?;
        object.refs -= 1;
        if object.refs > 0 {
            return Ok(());
        }
        let mut head = object.watches;
        while head != NO_WATCH {
            head = self.watches.remove(head, head);
        }
        let Some(object) = self.objects.remove(index) else { return Ok(()) };
        match object.kind {
            Kind::Fresh(settings) => {
                if let Some(bound) = settings.bound {
                    self.core.unbind(bound);
                }
            }
            Kind::Listener(listener) => self.core.close_listener(self.now, listener.id),
            Kind::Stream(stream) => self.core.close(self.now, stream.conn),
            Kind::Epoll(set) => self.close_set(set),
            Kind::PipeRead(pipe) => self.close_pipe(pipe, true),
            Kind::PipeWrite(pipe) => self.close_pipe(pipe, false),
        }
        Ok(())
    }

    fn close_set(&mut self, set: u32) {
        let objects = &mut self.objects;
        self.watches.destroy(set, |watches, object, watch| {
            if let Some(object) = objects.get_mut(object) {
                object.watches = watches.remove(object.watches, watch);
            }
        });
    }

    /// The end of the connection or socket: local address.
    pub fn local_addr(&mut self, fd: Fd) -> Result<Endpoint, Errno> {
        if let Ok(stream) = self.stream(fd) {
            let conn = stream.conn;
            return Ok(self.core.local(conn));
        }
        match &self.object(fd)?.kind {
            Kind::Fresh(s) => Ok(s.bound.unwrap_or(Endpoint::new(
                if s.family == Family::V4 { Addr::UNSPECIFIED_V4 } else { Addr::UNSPECIFIED_V6 },
                0,
            ))),
            Kind::Listener(l) => Ok(l.local),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    /// The peer's address.
    pub fn peer_addr(&self, fd: Fd) -> Result<Endpoint, Errno> {
        let conn = self.stream(fd)?.conn;
        match self.core.state(conn) {
            State::SynSent | State::SynReceived | State::Closed => Err(Errno::ENOTCONN),
            _ => Ok(self.core.remote(conn)),
        }
    }

    // --- pipes -----------------------------------------------------------------------------------------------

    /// See [`crate::Sockets::pipe`].
    pub fn pipe(&mut self) -> Result<(Fd, Fd), Errno> {
        let pipe = self.pipes.insert(Pipe::default()).map_err(|_| Errno::EMFILE)?;
        let Ok((read_end, reader)) = self.insert(Object::new(Kind::PipeRead(pipe))) else {
            self.pipes.remove(pipe);
            return Err(Errno::EMFILE);
        };
        match self.insert(Object::new(Kind::PipeWrite(pipe))) {
            Ok((write_end, writer)) => {
                if let Some(pipe) = self.pipes.get_mut(pipe) {
                    pipe.ends = [reader, writer];
                }
                Ok((read_end, write_end))
            }
            Err(e) => {
                self.close(read_end)?;
                self.pipes.remove(pipe);
                Err(e)
            }
        }
    }

    fn close_pipe(&mut self, pipe: u32, reader: bool) {
        let Some(ends) = self.pipes.get_mut(pipe) else { return };
        if reader {
            ends.reader_gone = true;
        } else {
            ends.writer_gone = true;
        }
        if ends.reader_gone && ends.writer_gone {
            self.pipes.remove(pipe);
        } else {
            self.mark_pipe(pipe, Ready::IN | Ready::OUT | Ready::HUP | Ready::ERR);
        }
    }

    /// Tells both ends' watches; those for whom it means nothing find no level when they look.
    fn mark_pipe(&mut self, pipe: u32, edges: Ready) {
        let ends = self.pipes.get(pipe).map_or([NO_WATCH; 2], |p| p.ends);
        for end in ends {
            self.mark(end, edges);
        }
    }

    // --- readiness -------------------------------------------------------------------------------------------

    /// What is ready on an object at this moment.
    pub(crate) fn readiness(&self, object: u32) -> Ready {
        self.readiness_within(object, 0)
    }

    fn readiness_within(&self, object: u32, depth: u32) -> Ready {
        let Some(object) = self.objects.get(object) else { return Ready::INVALID };
        match &object.kind {
            Kind::Fresh(_) => Ready::OUT | Ready::HUP,
            Kind::Listener(l) if self.core.acceptable(l.id) > 0 => Ready::IN,
            Kind::Listener(_) => Ready::NONE,
            Kind::Stream(stream) => self.stream_readiness(stream),
            Kind::Epoll(_) if depth > NEST_MAX => Ready::NONE,
            Kind::Epoll(set) => {
                let any = self.watches.pending(*set).any(|w| {
                    self.readiness_within(w.object, depth + 1).any(w.interest | Ready::ERR | Ready::HUP)
                });
                if any { Ready::IN } else { Ready::NONE }
            }
            Kind::PipeRead(pipe) => self.pipes.get(*pipe).map_or(Ready::HUP, |p| {
                let mut ready = Ready::NONE;
                if p.len() > 0 {
                    ready |= Ready::IN;
                }
                if p.writer_gone {
                    ready |= Ready::HUP;
                }
                ready
            }),
            Kind::PipeWrite(pipe) => self.pipes.get(*pipe).map_or(Ready::ERR, |p| {
                let mut ready = if p.writable() { Ready::OUT } else { Ready::NONE };
                if p.reader_gone {
                    ready |= Ready::ERR;
                }
                ready
            }),
        }
    }

    fn stream_readiness(&self, stream: &Stream) -> Ready {
        let (core, conn) = (&self.core, stream.conn);
        let mut ready = Ready::NONE;
        if core.failed(conn) {
            ready |= Ready::ERR;
        }
        let state = core.state(conn);
        if matches!(state, State::SynSent | State::SynReceived) {
            return ready;
        }
        let over = state == State::Closed;
        let no_more_reads = stream.read_shut || core.peer_closed(conn) || over;
        if over || (no_more_reads && core.write_closed(conn)) {
            ready |= Ready::HUP;
        }
        if no_more_reads {
            ready |= Ready::IN | Ready::RDHUP;
        } else if core.readable(conn) >= core.options(conn).rcv_lowat.max(1) {
            ready |= Ready::IN;
        }
        if over || core.write_closed(conn) || core.writable(conn) > 0 {
            ready |= Ready::OUT;
        }
        ready
    }

    // --- epoll -----------------------------------------------------------------------------------------------

    /// See [`crate::Sockets::epoll_create`].
    pub fn epoll_create(&mut self) -> Result<Fd, Errno> {
        let (fd, index) = self.insert(Object::new(Kind::Epoll(0)))?;
        let Some(set) = self.watches.create(index) else {
            self.close(fd)?;
            return Err(Errno::EMFILE);
        };
        self.object_mut(fd)?.kind = Kind::Epoll(set);
        Ok(fd)
    }

    fn set_of(&self, epfd: Fd) -> Result<u32, Errno> {
        match self.object(epfd)?.kind {
            Kind::Epoll(set) => Ok(set),
            _ => Err(Errno::EINVAL),
        }
    }

    /// See [`crate::Sockets::epoll_ctl`].
    pub fn epoll_ctl(&mut self, epfd: Fd, fd: Fd, op: EpollOp) -> Result<(), Errno> {
        let set = self.set_of(epfd)?;
        let object = self.index(fd)?;
        if object == self.index(epfd)? {
            return Err(Errno::EINVAL);
        }
        let head = self.objects.get(object).ok_or(Errno::EBADF)?.watches;
        let found = self.watches.find(head, set, fd);
        let watch = match op {
            EpollOp::Add(_) if found.is_some() => return Err(Errno::EEXIST),
            EpollOp::Add(event) => {
                if let Kind::Epoll(inner) = self.object(fd)?.kind {
                    self.check_circle(inner, set, 0)?;
                }
                let watch =
                    self.watches.add(head, set, object, fd, event.ready, event.data).ok_or(Errno::ENOBUFS)?;
                self.object_mut(fd)?.watches = watch;
                watch
            }
            EpollOp::Modify(event) => {
                let watch = found.ok_or(Errno::ENOENT)?;
                self.watches.set_interest(watch, event.ready, event.data);
                watch
            }
            EpollOp::Delete => {
                let watch = found.ok_or(Errno::ENOENT)?;
                let head = self.watches.remove(head, watch);
                self.object_mut(fd)?.watches = head;
                return Ok(());
            }
        };
        // What is ready already counts as an edge for a new or modified watch (epoll(7)).
        let ready = self.readiness(object);
        if let Some(parent) = self.watches.queue(watch, ready) {
            self.mark(parent, Ready::IN);
        }
        Ok(())
    }

    /// `inner` must not watch `outer`, directly or through others, nor nest too deep.
    fn check_circle(&self, inner: u32, outer: u32, depth: u32) -> Result<(), Errno> {
        if inner == outer || depth >= NEST_MAX {
            return Err(Errno::ELOOP);
        }
        for object in self.watches.watched(inner) {
            if let Some(Kind::Epoll(next)) = self.objects.get(object).map(|o| &o.kind) {
                self.check_circle(*next, outer, depth + 1)?;
            }
        }
        Ok(())
    }

    /// What is ready in the set now; never waits and never turns.
    pub fn epoll_collect(&mut self, epfd: Fd, events: &mut [EpollEvent]) -> Result<usize, Errno> {
        let set = self.set_of(epfd)?;
        if events.is_empty() {
            return Err(Errno::EINVAL);
        }
        let mut filled = 0;
        // Each queued watch is looked at once, so level-triggered ones that go back cannot loop.
        for _ in 0..self.watches.queued(set) {
            let Some(index) = (filled < events.len()).then(|| self.watches.pop(set)).flatten() else { break };
            let Some((object, interest, data)) =
                self.watches.get(index).map(|w| (w.object, w.interest, w.data))
            else {
                continue;
            };
            let ready = self.readiness(object) & (interest | Ready::ERR | Ready::HUP);
            if ready == Ready::NONE {
                continue;
            }
            events[filled] = EpollEvent { ready, data };
            filled += 1;
            if interest.any(Ready::ONESHOT) {
                self.watches.disarm(index);
            } else if !interest.any(Ready::EDGE) {
                self.watches.requeue(index);
            }
        }
        Ok(filled)
    }
}

/// What a notice of the stack means to those who watch.
fn edges(events: Events) -> Ready {
    const TABLE: [(Events, Ready); 6] = [
        (Events::CONNECTED, Ready::OUT),
        (Events::READABLE, Ready::IN),
        (Events::WRITABLE, Ready::OUT),
        (Events::PEER_CLOSED, Ready(Ready::IN.0 | Ready::RDHUP.0)),
        (Events::ERROR, Ready(Ready::IN.0 | Ready::OUT.0 | Ready::ERR.0 | Ready::HUP.0)),
        (Events::CLOSED, Ready(Ready::IN.0 | Ready::OUT.0 | Ready::HUP.0 | Ready::RDHUP.0)),
    ];
    TABLE.iter().filter(|(event, _)| events.any(*event)).fold(Ready::NONE, |all, (_, edge)| all | *edge)
}

/// The endpoint as this socket may use it: an IPv4 socket takes no IPv6 address, an IPv6-only one no IPv4.
fn in_family(settings: &Settings, endpoint: Endpoint) -> Result<Endpoint, Errno> {
    match (settings.family, endpoint.addr.is_v4()) {
        (Family::V4, false) => Err(Errno::EAFNOSUPPORT),
        (Family::V6, true) if settings.v6_only => Err(Errno::ENETUNREACH),
        _ => Ok(endpoint),
    }
}

impl<T: Transport> Engine<T> {
    /// Timeouts of a descriptor, for the doors that block.
    pub(crate) fn waits(&self, fd: Fd) -> Waits {
        match self.object(fd).map(|o| &o.kind) {
            Ok(Kind::Fresh(s)) => s.waits,
            Ok(Kind::Listener(l)) => l.settings.waits,
            Ok(Kind::Stream(s)) => s.waits.as_deref().copied().unwrap_or_default(),
            _ => Waits::default(),
        }
    }

    pub(crate) fn nonblocking(&self, fd: Fd) -> Result<bool, Errno> {
        Ok(self.object(fd)?.nonblocking)
    }
}
