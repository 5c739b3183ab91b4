//! Connections that are taken apart: by connect to AF_UNSPEC, by shutdown while they connect, and those that came to
//! nothing. The socket keeps its options, its epoll sets and the address that it was bound to; it may connect again, or
//! listen.

use super::{Engine, edges};
use crate::Errno;
use crate::object::{Kind, Left, Settings};
use crate::sockets::Fd;
use crate::transport::Transport;
use base::{Addr, Endpoint};
use tcp::{Events, State};

impl<T: Transport> Engine<T> {
    /// Returns true for a connection over IPv4 of an IPv6 socket.
    pub(crate) fn is_mapped(&self, fd: Fd) -> bool {
        self.stream(fd).is_ok_and(|stream| stream.v6 && self.core.remote(stream.conn).addr.is_v4())
    }

    /// See [`crate::Sockets::disconnect`].
    pub fn disconnect(&mut self, fd: Fd) -> Result<(), Errno> {
        self.take_apart_now(fd)?;
        self.descriptors.fresh_mut(fd)?.left.disconnected = true;
        Ok(())
    }

    /// Returns true if the connection that a call waited for was disconnected meanwhile: as on Linux the call fails
    /// with EPIPE, and the socket's error stays for the next one.
    pub(crate) fn was_disconnected(&self, fd: Fd) -> bool {
        matches!(self.object(fd).map(|o| &o.kind), Ok(Kind::Fresh(settings)) if settings.left.disconnected)
    }

    /// The socket has no connection and does not listen from now on, whatever state it was in.
    pub(super) fn take_apart_now(&mut self, fd: Fd) -> Result<(), Errno> {
        match &mut self.object_mut(fd)?.kind {
            Kind::Listener(_) => self.unlisten(fd),
            Kind::Fresh(settings) => {
                if settings.deferred.take().is_some() {
                    settings.left.error = Some(Errno::ECONNRESET);
                }
                settings.left.read_shut = false;
                Ok(())
            }
            Kind::Stream(stream) => {
                let conn = stream.conn;
                let error = match self.core.state(conn) {
                    State::Closed => self.core.take_error(conn),
                    State::Closing | State::LastAck if self.core.unsent(conn).1 == 0 => None,
                    _ => Some(Errno::ECONNRESET),
                };
                self.take_apart(fd, error)
            }
            _ => Err(Errno::ENOTSOCK),
        }
    }

    /// See [`crate::runner::Runner::apart`].
    pub(crate) fn apart(&self, fd: Fd) -> Option<Option<Endpoint>> {
        match &self.object(fd).ok()?.kind {
            Kind::Fresh(settings) => Some(settings.bound),
            _ => None,
        }
    }

    /// Returns true of a socket that was never bound, whose connection was refused, reset or closed: as on Linux it may
    /// be bound.
    pub(crate) fn is_over(&self, fd: Fd) -> bool {
        self.stream(fd).is_ok_and(|stream| {
            let bound = stream.again.as_ref().is_some_and(|again| again.bound.is_some());
            !bound && self.core.state(stream.conn) == State::Closed
        })
    }

    /// See [`crate::runner::Runner::is_used`].
    pub(crate) fn is_used(&mut self, local: Endpoint, v6_only: bool) -> bool {
        if self.core.is_used(local, v6_only) {
            return true;
        }
        let any = Endpoint::new(Addr::UNSPECIFIED_V6, local.port);
        if local.addr != Addr::UNSPECIFIED_V4 || !self.core.is_used(any, true) {
            return false;
        }
        let core = &mut self.core;
        self.descriptors.streams().any(|stream| {
            stream.v6
                && stream.binding & Settings::V6_ONLY == 0
                && core.state(stream.conn) != State::Closed
                && core.local(stream.conn).port == local.port
        })
    }

    /// The socket has no connection from now on, and this pending error.
    pub(super) fn take_apart(&mut self, fd: Fd, error: Option<Errno>) -> Result<(), Errno> {
        let index = self.index(fd)?;
        let conn = self.stream(fd)?.conn;
        let (mut options, control) = (self.core.options(conn), self.core.control_name(conn));
        // As on Linux, the next connection is told anew.
        options.max_seg = 0;
        let (port, is_mapped) = (self.core.local(conn).port, self.is_mapped(fd));
        let held = self.stream(fd)?.held();
        let told = self.extras(fd).told_mss.filter(|_| self.core.state(conn) == State::SynSent);
        let mss = told.unwrap_or_else(|| self.core.info(self.now, conn).map_or(0, |info| info.snd_mss));
        let mut settings = Settings::again(self.descriptors.stream_mut(fd)?, options, control);
        (settings.extras.max_seg, settings.extras.told_mss) = (None, None);
        if is_mapped {
            settings.extras.change_family(&mut settings.options);
        }
        let kept = self.core.disconnect(self.now, conn).or(held);
        let (bound, any) = (settings.bound, (settings.reuse_port, settings.v6_only));
        let left = Left { error, port, mss, ..Left::default() };
        self.object_mut(fd)?.kind = Kind::Fresh(Box::new(Settings { bound: kept, left, ..settings }));
        self.mark(index, edges(Events::ERROR));
        if let Some(bound) = bound.filter(|_| kept.is_none()) {
            // Its own port, whatever is left of the connection.
            let bound = self.core.bind(bound, true, any.0, any.1, true)?;
            self.descriptors.fresh_mut(fd)?.bound = Some(bound);
        }
        Ok(())
    }

    /// The pending error, taken (SO_ERROR).
    pub(crate) fn take_error(&mut self, fd: Fd) -> Result<Option<Errno>, Errno> {
        Ok(match &mut self.object_mut(fd)?.kind {
            Kind::Fresh(settings) => settings.left.error.take(),
            Kind::Listener(listener) => listener.settings.left.error.take(),
            Kind::Stream(stream) => {
                let conn = stream.conn;
                self.core.take_error(conn)
            }
            _ => None,
        })
    }

    /// Takes the error of a socket that is known to have one.
    pub(super) fn take_left_error(&mut self, fd: Fd) -> Errno {
        self.take_error(fd).map_or_else(|e| e, |e| e.unwrap_or(Errno::ENOTCONN))
    }
}
