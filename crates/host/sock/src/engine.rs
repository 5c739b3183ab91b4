//! One core's stack with descriptors on top: what direct mode calls under its lock and paired mode owns on its
//! thread. Nothing here blocks; a call that would have to gives EAGAIN (or EINPROGRESS) and the API waits.

pub(crate) mod busy_poll;
mod disconnect;
mod epoll;
mod fast_open;
mod load;
mod messages;
pub(crate) mod waiting;

pub(crate) use fast_open::Begun;
pub(crate) use messages::sof;

use crate::Errno;
use crate::clock::Clock;
use crate::descriptors::Descriptors;
use crate::object::{Extras, Kind, Listener, Object, Settings, Stream};
use crate::pipe::Pipe;
use crate::sockets::{Family, Fd, Ready};
use crate::transport::Transport;
use crate::watch::{NO_WATCH, Watches};
use base::{Addr, Duration, Endpoint, Instant, Slab};
use busy_poll::BusyPoll;
use load::Load;
use stack::{ConnId, Connect, Core, FastOpenListen, Listen, ListenerId, Notice};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use tcp::{Events, Hints, Shutdown, State};
use waiting::Waiting;

/// epoll sets nest at most this deep (Linux says 5).
const NEST_MAX: u32 = 5;

/// Limits of an engine's tables.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most open descriptors.
    pub descriptors: u32,
    /// How long to look for packets before sleeping in the kernel, where they come soon enough.
    pub spin: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { descriptors: 2_097_152, spin: Duration::from_micros(40) }
    }
}

/// A core (or what stands for it) with descriptors, epoll sets and pipes.
pub struct Engine<T: Transport = Core> {
    pub(crate) core: T,
    pub(crate) clock: Box<dyn Clock>,
    pub(crate) now: Instant,
    pub(crate) busy_poll: BusyPoll,
    pub(crate) load: Load,
    descriptors: Descriptors,
    watches: Watches,
    pipes: Slab<Pipe>,
    notices: Vec<Notice>,
    pub(crate) waiting: Waiting,
    /// The attempt under way is of a call that goes on behind a signal: as on Linux it ends with what it has.
    pub(crate) anew: bool,
}

impl<T: Transport> Engine<T> {
    /// Descriptors over `core`, with time from `clock`.
    pub fn new(core: T, clock: Box<dyn Clock>, limits: Limits) -> Self {
        let now = clock.now();
        Engine {
            core,
            clock,
            now,
            busy_poll: BusyPoll::new(limits.spin, now),
            load: Load::default(),
            descriptors: Descriptors::new(limits.descriptors),
            watches: Watches::new(limits.descriptors.saturating_mul(2)),
            pipes: Slab::new(65_536),
            // Grown by the thread that turns the core: in memory of that thread's, apart from other cores' lists.
            notices: Vec::new(),
            waiting: Waiting::default(),
            anew: false,
        }
    }

    /// The time of the last turn.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Bytes of descriptors, watches and objects.
    pub fn footprint(&self) -> usize {
        self.descriptors.footprint() + self.watches.footprint()
    }

    /// Open descriptors and epoll watches.
    pub fn open(&self) -> (usize, u32) {
        (self.descriptors.len(), self.watches.len())
    }

    /// The time at this moment, which is later than [`Engine::now`].
    pub(crate) fn time(&self) -> Instant {
        self.clock.now()
    }

    /// Tells the epoll sets what the owners of connections and listeners should look at.
    pub(crate) fn publish(&mut self, fill: impl FnOnce(&mut T, &mut Vec<Notice>)) {
        let mut notices = std::mem::take(&mut self.notices);
        fill(&mut self.core, &mut notices);
        self.load.events += notices.len() as u64;
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
        let mut watch = self.descriptors.at_mut(object).map_or(NO_WATCH, |o| o.woken_by(edges));
        while watch != NO_WATCH {
            if let Some(parent) = self.watches.queue(watch, edges) {
                self.mark(parent, Ready::IN);
            }
            watch = self.watches.after(watch);
        }
    }

    // --- sockets -------------------------------------------------------------------------------------------

    /// The object of a descriptor.
    pub(crate) fn index(&self, fd: Fd) -> Result<u32, Errno> {
        self.descriptors.index(fd)
    }

    pub(crate) fn object(&self, fd: Fd) -> Result<&Object, Errno> {
        self.descriptors.object(fd)
    }

    pub(crate) fn object_mut(&mut self, fd: Fd) -> Result<&mut Object, Errno> {
        self.descriptors.object_mut(fd)
    }

    pub(crate) fn stream(&self, fd: Fd) -> Result<&Stream, Errno> {
        self.descriptors.stream(fd)
    }

    /// A new socket.
    pub fn socket(&mut self, family: Family) -> Result<Fd, Errno> {
        let settings = Settings::new(family, self.core.default_options());
        self.descriptors.insert(Kind::Fresh(Box::new(settings))).map(|(fd, _)| fd)
    }

    /// See [`crate::Sockets::bind`].
    pub fn bind(&mut self, fd: Fd, local: Endpoint) -> Result<(), Errno> {
        let (family, binding) = match &self.object(fd)?.kind {
            // As on Linux it stays what it is, with what can be read and its error.
            Kind::Stream(stream) if self.is_over(fd) => (stream.family(), stream.binding),
            _ => {
                let settings = self.descriptors.fresh_mut(fd)?;
                if settings.bound.is_some() {
                    return Err(Errno::EINVAL);
                }
                (settings.family, settings.binding())
            }
        };
        let [reuse_addr, reuse_port, free, v6_only] = Settings::of_binding(binding);
        if v6_only && local.addr.is_v4() {
            return Err(Errno::EINVAL);
        }
        let local = in_family(family, v6_only, local)?;
        let bound = self.core.bind(local, reuse_addr, reuse_port, v6_only, free)?;
        // As on Linux, a socket at one IPv6 address takes no IPv4.
        let v6_only = family == Family::V6 && !bound.addr.is_v4() && !bound.addr.is_unspecified();
        match &mut self.object_mut(fd)?.kind {
            Kind::Stream(stream) => {
                stream.binding |= if v6_only { Settings::V6_ONLY } else { 0 };
                stream.again.get_or_insert_default().bind(bound);
            }
            Kind::Fresh(settings) => {
                settings.v6_only |= v6_only;
                settings.bound = Some(bound);
            }
            _ => {}
        }
        Ok(())
    }

    /// See [`crate::Sockets::listen`].
    pub fn listen(&mut self, fd: Fd, backlog: u32) -> Result<(), Errno> {
        let owner = self.index(fd)?;
        if let Kind::Listener(listener) = &self.object(fd)?.kind {
            let id = listener.id;
            self.core.set_backlog(id, backlog);
            return Ok(());
        }
        let settings = self.descriptors.fresh_mut(fd)?.clone();
        if settings.deferred.is_some() {
            return Err(Errno::EINVAL);
        }
        let any = if settings.family == Family::V4 { Addr::UNSPECIFIED_V4 } else { Addr::UNSPECIFIED_V6 };
        let request = Listen {
            local: settings.bound.unwrap_or(Endpoint::new(any, 0)),
            backlog,
            reuse_port: settings.reuse_port,
            v6_only: settings.v6_only,
            options: settings.options,
            control: settings.control,
            owner,
            keys: settings.keys.clone(),
        };
        let (id, local) = self.core.listen(self.now, &request)?;
        if settings.fast_open.listen != FastOpenListen::default() {
            self.core.set_fast_open(id, settings.fast_open.listen);
        }
        let shares_port = settings.reuse_port;
        let listener = Listener { id, local, settings, shares_port, accepted: 0, earlier: VecDeque::new() };
        self.object_mut(fd)?.kind = Kind::Listener(Box::new(listener));
        Ok(())
    }

    /// See [`crate::Sockets::park`].
    pub fn park(&mut self, fd: Fd, parked: bool) -> Result<(), Errno> {
        let id = self.listener(fd)?;
        self.core.park(id, parked);
        Ok(())
    }

    /// The listener under a descriptor.
    pub(crate) fn listener(&self, fd: Fd) -> Result<ListenerId, Errno> {
        match &self.object(fd)?.kind {
            Kind::Listener(listener) => Ok(listener.id),
            Kind::Fresh(_) | Kind::Stream(_) => Err(Errno::EINVAL),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    /// See [`crate::Sockets::accept`]; EAGAIN when no thread waits.
    pub fn accept(&mut self, fd: Fd) -> Result<(Fd, Endpoint), Errno> {
        let (id, v6, extras, binding) = match &self.object(fd)?.kind {
            Kind::Listener(l) => {
                let (extras, binding) = l.inherited();
                (l.id, l.settings.family == Family::V6, extras, binding)
            }
            Kind::Fresh(_) | Kind::Stream(_) => return Err(Errno::EINVAL),
            _ => return Err(Errno::ENOTSOCK),
        };
        if self.core.acceptable(id) == 0 {
            return Err(if self.core.is_over() { Errno::ENETDOWN } else { Errno::EAGAIN });
        }
        // The descriptor first: a connection that could not get one stays in the queue.
        let stream = Stream {
            conn: ConnId(u32::MAX),
            v6,
            connecting: false,
            read_shut: false,
            given_up: false,
            binding,
            extras: extras.boxed(),
            again: None,
        };
        let (new, index) = self.descriptors.insert(Kind::Stream(stream))?;
        let Some(conn) = self.core.accept(id, index) else {
            self.descriptors.close(new)?;
            return Err(Errno::EAGAIN);
        };
        self.descriptors.stream_mut(new)?.conn = conn;
        if let Kind::Listener(listener) = &mut self.object_mut(fd)?.kind {
            listener.has_accepted();
        }
        if self.is_mapped(new) {
            let (mut options, mut extras) = (self.core.options(conn), extras);
            extras.change_family(&mut options);
            self.descriptors.stream_mut(new)?.extras = extras.boxed();
            if options != self.core.options(conn) {
                self.core.set_options(self.now, conn, options);
            }
        }
        self.tune_begun(fd, conn)?;
        Ok((new, self.core.remote(conn)))
    }

    /// See [`crate::Sockets::connect`]; EINPROGRESS once the SYN is on its way.
    pub fn connect(&mut self, fd: Fd, remote: Endpoint) -> Result<(), Errno> {
        if self.stream(fd).is_ok() {
            return self.connect_ends(fd);
        }
        match &self.object(fd)?.kind {
            Kind::Fresh(settings) if settings.deferred.is_some() => return Err(Errno::EISCONN),
            Kind::Fresh(settings) if settings.fast_open.connect => {
                return self.connect_at_first_write(fd, remote);
            }
            _ => {}
        }
        let request = self.connect_request(fd, remote)?;
        let conn = self.core.connect(self.now, &request)?;
        self.begin_stream(fd, conn)?;
        Err(Errno::EINPROGRESS)
    }

    /// Returns the arguments of this socket's connect.
    fn connect_request(&self, fd: Fd, remote: Endpoint) -> Result<Connect, Errno> {
        let owner = self.index(fd)?;
        let settings = match &self.object(fd)?.kind {
            Kind::Fresh(settings) => settings,
            Kind::Listener(_) => return Err(Errno::EISCONN),
            _ => return Err(Errno::ENOTSOCK),
        };
        let remote = in_family(settings.family, settings.v6_only, remote)?;
        let mut options = settings.options;
        if settings.family == Family::V6 && remote.addr.is_v4() {
            let mut extras = settings.extras;
            extras.change_family(&mut options);
        }
        let any = if remote.addr.is_v4() { Addr::UNSPECIFIED_V4 } else { Addr::UNSPECIFIED_V6 };
        Ok(Connect {
            local: match settings.bound {
                Some(bound) if bound.addr.is_unspecified() => Endpoint::new(any, bound.port),
                Some(bound) => bound,
                None => Endpoint::new(any, 0),
            },
            remote,
            reuse_addr: settings.reuse_addr,
            options,
            control: settings.control,
            owner,
            keys: settings.keys.clone(),
        })
    }

    /// The end of a connect that was begun; EALREADY before.
    pub(crate) fn connect_ends(&mut self, fd: Fd) -> Result<(), Errno> {
        match self.stream(fd) {
            Ok(stream) => self.connect_again(fd, stream.conn, stream.connecting),
            Err(_) if self.was_disconnected(fd) => Err(Errno::EPIPE),
            // Another thread has taken it apart.
            Err(_) => Err(self.take_error(fd)?.unwrap_or(Errno::ECONNABORTED)),
        }
    }

    fn connect_again(&mut self, fd: Fd, conn: ConnId, connecting: bool) -> Result<(), Errno> {
        if self.stream(fd)?.given_up {
            return Err(Errno::EINVAL);
        }
        if !connecting {
            return Err(Errno::EISCONN);
        }
        match self.connected(conn) {
            None => Err(Errno::EALREADY),
            Some(Ok(())) => {
                self.descriptors.stream_mut(fd)?.connecting = false;
                Ok(())
            }
            Some(Err(why)) => {
                self.take_apart(fd, None)?;
                Err(why)
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
                let special = stream.extras.is_some();
                match self.core.read(self.now, conn, into) {
                    // What came before the receiving side was shut can still be read.
                    Err(Errno::EAGAIN | Errno::ENOTCONN) if shut => Ok(0),
                    Err(Errno::ENOTCONN) if connecting => Err(Errno::EAGAIN),
                    Ok(n) if special => {
                        self.move_peek_offset(fd, -(n as i32));
                        Ok(n)
                    }
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
            Kind::Fresh(settings) if settings.deferred.is_some() => Err(Errno::EAGAIN),
            Kind::Fresh(settings) if settings.left.error.is_some() => Err(self.take_left_error(fd)),
            Kind::Fresh(settings) if settings.left.read_shut => Ok(0),
            Kind::Fresh(_) | Kind::Listener(_) => Err(Errno::ENOTCONN),
            Kind::Epoll(_) => Err(Errno::EINVAL),
            Kind::PipeWrite(_) => Err(Errno::EBADF),
        }
    }

    /// Shows the readable bytes in place, slice by slice, until `each` returns false.
    pub fn peek(&mut self, fd: Fd, max: usize, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Errno> {
        if matches!(self.object(fd)?.kind, Kind::Fresh(_)) {
            return self.read(fd, &mut []).map(|_| ());
        }
        let stream = self.stream(fd)?;
        let (conn, shut, connecting) = (stream.conn, stream.read_shut, stream.connecting);
        match self.core.peek(conn, max, each) {
            Err(Errno::EAGAIN | Errno::ENOTCONN) if shut => Ok(()),
            Err(Errno::ENOTCONN) if connecting => Err(Errno::EAGAIN),
            shown => shown,
        }
    }

    /// Returns how many bytes a peek leaves out (SO_PEEK_OFF).
    pub(crate) fn peek_offset(&self, fd: Fd) -> usize {
        self.extras(fd).peek_offset.unwrap_or(0) as usize
    }

    /// Returns SO_RCVLOWAT less 1.
    pub(crate) fn too_few(&self, fd: Fd) -> usize {
        match self.stream(fd) {
            Ok(stream) => stream.extras.as_ref().map_or(0, |extras| extras.too_few as usize),
            Err(_) => 0,
        }
    }

    /// Moves SO_PEEK_OFF, where that is set: on by what was peeked at, back by what was read.
    pub(crate) fn move_peek_offset(&mut self, fd: Fd, by: i32) {
        if let Ok(stream) = self.descriptors.stream_mut(fd)
            && let Some(offset) = stream.extras.as_mut().and_then(|extras| extras.peek_offset.as_mut())
        {
            *offset = offset.saturating_add_signed(by);
        }
    }

    /// Drops readable bytes.
    pub fn consume(&mut self, fd: Fd, len: usize) -> Result<(), Errno> {
        let conn = self.stream(fd)?.conn;
        self.core.consume(self.now, conn, len);
        self.move_peek_offset(fd, -i32::try_from(len).unwrap_or(i32::MAX));
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
            Kind::Fresh(settings) if settings.left.error.is_some() => Err(self.take_left_error(fd)),
            Kind::Fresh(_) | Kind::Listener(_) => Err(Errno::EPIPE),
            Kind::Epoll(_) => Err(Errno::EINVAL),
            Kind::PipeRead(_) => Err(Errno::EBADF),
        }
    }

    /// See [`crate::Sockets::lend`]: what fits now.
    pub fn lend(
        &mut self,
        fd: Fd,
        bytes: &Arc<[u8]>,
        range: Range<usize>,
        hints: &Hints,
    ) -> Result<usize, Errno> {
        let Kind::Stream(stream) = &self.object(fd)?.kind else { return self.write(fd, &bytes[range]) };
        let conn = stream.conn;
        match self.core.lend(self.now, conn, bytes, range, hints) {
            Err(Errno::ENOTCONN) if self.stream(fd)?.connecting => Err(Errno::EAGAIN),
            result => result,
        }
    }

    /// See [`crate::Sockets::shutdown`].
    pub fn shutdown(&mut self, fd: Fd, how: Shutdown) -> Result<(), Errno> {
        let done = self.shut(fd, how);
        if done != Err(Errno::ENOTSOCK) {
            // As on Linux it is an edge for whatever is ready, also where there is nothing to shut.
            self.wake(fd, Ready::HUP)?;
        }
        done
    }

    fn shut(&mut self, fd: Fd, how: Shutdown) -> Result<(), Errno> {
        let index = self.index(fd)?;
        match &mut self.object_mut(fd)?.kind {
            Kind::Listener(_) => return if how == Shutdown::Write { Ok(()) } else { self.unlisten(fd) },
            Kind::Fresh(settings) => {
                settings.left.read_shut |= how != Shutdown::Write;
                self.mark(index, Ready::IN | Ready::OUT | Ready::HUP | Ready::RDHUP);
                return Err(Errno::ENOTCONN);
            }
            _ => {}
        }
        let conn = self.stream(fd)?.conn;
        let state = self.core.state(conn);
        match state {
            State::Closed => {
                // As on Linux, an attempt that has failed and was not told cannot be repeated from now on.
                let stream = self.descriptors.stream_mut(fd)?;
                stream.given_up |= std::mem::take(&mut stream.connecting);
                return Err(Errno::ENOTCONN);
            }
            // An attempt to connect ends with either half.
            State::SynSent => return self.take_apart_now(fd),
            _ => {}
        }
        let stream = self.descriptors.stream_mut(fd)?;
        // Whoever shuts a connection has seen it, as on Linux: connect has no end of it to tell any more.
        stream.connecting &= state == State::SynReceived;
        stream.read_shut |= how != Shutdown::Write;
        self.core.shutdown(self.now, conn, how);
        let edge = self.readiness(index);
        self.mark(index, edge);
        Ok(())
    }

    /// A listener whose receiving side is shut listens no more and keeps its address; a thread that waits in accept
    /// gets EINVAL.
    fn unlisten(&mut self, fd: Fd) -> Result<(), Errno> {
        let index = self.index(fd)?;
        let Kind::Listener(listener) = &self.object(fd)?.kind else { return Err(Errno::EINVAL) };
        let (id, local, mut settings) = (listener.id, listener.local, listener.settings.clone());
        let any = (listener.shares_port, settings.v6_only);
        self.core.close_listener(self.now, id);
        // Its own port, whatever connections it has accepted there.
        settings.bound = Some(self.core.bind(local, true, any.0, any.1, true)?);
        self.object_mut(fd)?.kind = Kind::Fresh(Box::new(settings));
        let edge = self.readiness(index);
        self.mark(index, edge | Ready::IN);
        Ok(())
    }

    /// See [`crate::Sockets::dup`].
    pub fn dup(&mut self, fd: Fd) -> Result<Fd, Errno> {
        self.descriptors.dup(fd)
    }

    /// See [`crate::Sockets::close`]; never waits, even with SO_LINGER (the API does that first).
    pub fn close(&mut self, fd: Fd) -> Result<(), Errno> {
        let Some(object) = self.descriptors.close(fd)? else { return Ok(()) };
        self.unwatch(object.watches);
        match object.kind {
            Kind::Fresh(settings) => {
                if let Some(bound) = settings.bound {
                    self.core.unbind(bound);
                }
            }
            Kind::Listener(listener) => self.core.close_listener(self.now, listener.id),
            Kind::Stream(stream) => {
                self.core.close(self.now, stream.conn);
                if let Some(held) = stream.held() {
                    self.core.unbind(held);
                }
            }
            Kind::Epoll(set) => self.close_set(set),
            Kind::PipeRead(pipe) => self.close_pipe(pipe, true),
            Kind::PipeWrite(pipe) => self.close_pipe(pipe, false),
        }
        Ok(())
    }

    /// The end of the connection or socket: local address.
    pub fn local_addr(&mut self, fd: Fd) -> Result<Endpoint, Errno> {
        if let Ok(stream) = self.stream(fd) {
            let (conn, held) = (stream.conn, stream.held());
            return Ok(held.unwrap_or_else(|| self.core.local(conn)));
        }
        match &self.object(fd)?.kind {
            Kind::Fresh(s) => Ok(s.bound.unwrap_or(Endpoint::new(
                if s.family == Family::V4 { Addr::UNSPECIFIED_V4 } else { Addr::UNSPECIFIED_V6 },
                s.left.port,
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
        let Ok((read_end, reader)) = self.descriptors.insert(Kind::PipeRead(pipe)) else {
            self.pipes.remove(pipe);
            return Err(Errno::EMFILE);
        };
        match self.descriptors.insert(Kind::PipeWrite(pipe)) {
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

    /// See [`crate::Sockets::readable`]: of a pipe, what lies in it.
    pub fn readable(&self, fd: Fd) -> Result<usize, Errno> {
        match &self.object(fd)?.kind {
            Kind::Stream(stream) => Ok(self.core.readable(stream.conn) as usize),
            Kind::PipeRead(pipe) | Kind::PipeWrite(pipe) => Ok(self.pipes.get(*pipe).map_or(0, Pipe::len)),
            Kind::Fresh(_) => Ok(0),
            Kind::Listener(_) | Kind::Epoll(_) => Err(Errno::EINVAL),
        }
    }

    /// See [`crate::Sockets::unsent`].
    pub fn unsent(&mut self, fd: Fd) -> Result<(usize, usize), Errno> {
        match &self.object(fd)?.kind {
            Kind::Stream(stream) => {
                let conn = stream.conn;
                let (unacked, unsent) = self.core.unsent(conn);
                // Linux counts the FIN as well: it has a sequence number.
                let fin = matches!(self.core.state(conn), State::FinWait1 | State::Closing | State::LastAck);
                let fin = u32::from(fin);
                Ok(((unacked + fin) as usize, (unsent + if unsent > 0 { fin } else { 0 }) as usize))
            }
            Kind::Fresh(_) => Ok((0, 0)),
            _ => Err(Errno::EINVAL),
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

    /// Returns the present readiness of an object.
    pub(crate) fn readiness(&self, object: u32) -> Ready {
        self.readiness_within(object, 0)
    }

    /// Would a poll for room to send return now?
    pub(crate) fn tells_room(&self, fd: Fd) -> bool {
        let gone = Ready::ERR | Ready::HUP | Ready::INVALID;
        self.index(fd).map_or(true, |object| self.readiness(object).any(Ready::OUT | gone))
    }

    fn readiness_within(&self, object: u32, depth: u32) -> Ready {
        let Some(object) = self.descriptors.at(object) else { return Ready::INVALID };
        match &object.kind {
            Kind::Fresh(settings) if settings.deferred.is_some() => Ready::OUT,
            Kind::Fresh(settings) => settings.left.readiness(),
            Kind::Listener(l) if self.core.acceptable(l.id) > 0 => Ready::IN,
            Kind::Listener(_) if self.core.is_over() => Ready::IN | Ready::ERR | Ready::HUP,
            Kind::Listener(_) => Ready::NONE,
            Kind::Stream(stream) => self.stream_readiness(stream),
            Kind::Epoll(_) if depth > NEST_MAX => Ready::NONE,
            Kind::Epoll(set) => {
                let any = self.watches.pending(*set).any(|w| {
                    let ready = self.readiness_within(w.object, depth + 1).in_all_names();
                    ready.any(w.interest | Ready::ERR | Ready::HUP)
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
        if core.failed(conn) || core.has_reports(conn) {
            ready |= Ready::ERR;
        }
        let state = core.state(conn);
        if matches!(state, State::SynSent | State::SynReceived) {
            return if stream.read_shut { ready | Ready::IN | Ready::RDHUP } else { ready };
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
}

/// Returns the readiness that a notice of the stack signals. As on Linux, a change of the connection's state is an edge
/// for whatever is ready by then: the handshake's end, a FIN, the acknowledgment of the own FIN. Data, and room for
/// it, are edges for urgent data and bands, too.
fn edges(events: Events) -> Ready {
    const CHANGE: Ready = Ready(Ready::IN.0 | Ready::OUT.0 | Ready::HUP.0 | Ready::RDHUP.0);
    const TABLE: [(Events, Ready); 8] = [
        (Events::CONNECTED, CHANGE),
        (Events::READABLE, Ready(Ready::IN.0 | (libc::EPOLLPRI | libc::EPOLLRDBAND) as u32)),
        (Events::WRITABLE, Ready(Ready::OUT.0 | libc::EPOLLWRBAND as u32)),
        (Events::REPORT, Ready::ERR),
        (Events::PEER_CLOSED, CHANGE),
        (Events::DRAINED, CHANGE),
        (Events::ERROR, Ready(CHANGE.0 | Ready::ERR.0)),
        (Events::CLOSED, CHANGE),
    ];
    TABLE.iter().filter(|(event, _)| events.any(*event)).fold(Ready::NONE, |all, (_, edge)| all | *edge)
}

/// The endpoint as this socket may use it: an IPv4 socket takes no IPv6 address, an IPv6-only one no IPv4.
fn in_family(family: Family, v6_only: bool, endpoint: Endpoint) -> Result<Endpoint, Errno> {
    match (family, endpoint.addr.is_v4()) {
        (Family::V4, false) => Err(Errno::EAFNOSUPPORT),
        (Family::V6, true) if v6_only => Err(Errno::ENETUNREACH),
        _ => Ok(endpoint),
    }
}

impl<T: Transport> Engine<T> {
    /// Timeouts of a descriptor, for the APIs that block.
    pub(crate) fn extras(&self, fd: Fd) -> Extras {
        match self.object(fd).map(|o| &o.kind) {
            Ok(Kind::Fresh(s)) => s.extras,
            Ok(Kind::Listener(l)) => l.settings.extras,
            Ok(Kind::Stream(s)) => s.extras.as_deref().copied().unwrap_or_default(),
            _ => Extras::default(),
        }
    }

    pub(crate) fn nonblocking(&self, fd: Fd) -> Result<bool, Errno> {
        Ok(self.object(fd)?.nonblocking)
    }
}
