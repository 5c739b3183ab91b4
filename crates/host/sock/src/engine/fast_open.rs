//! TCP Fast Open (RFC 7413) as Linux lets programs use it: MSG_FASTOPEN, and connects that wait for the first write.

use super::Engine;
use crate::Errno;
use crate::object::{Again, Kind, Stream};
use crate::sockets::{Family, Fd, SendFlags};
use crate::transport::Transport;
use base::Endpoint;

/// Result of a send that connects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Begun {
    /// The handshake is under way, with this many bytes in the SYN.
    Connecting(usize),
    /// There is a connection: send as usual.
    Connected,
}

impl<T: Transport> Engine<T> {
    /// The first half of sendto with MSG_FASTOPEN: connects, if need be, with as much of `data` as the SYN takes. A
    /// socket whose connect waits for its first bytes knows the peer already.
    pub(crate) fn begin_send(
        &mut self,
        fd: Fd,
        remote: Option<Endpoint>,
        data: &[u8],
        flags: SendFlags,
    ) -> Result<Begun, Errno> {
        if self.stream(fd).is_ok() {
            return self.connect_ends(fd).map(|()| Begun::Connected);
        }
        let Kind::Fresh(settings) = &self.object(fd)?.kind else { return Err(Errno::EISCONN) };
        let remote = settings.deferred.or(remote).ok_or(Errno::EINVAL)?;
        let (request, no_cookie) = (self.connect_request(fd, remote)?, settings.fast_open.no_cookie);
        let (conn, taken) = self.core.connect_fast(self.now, &request, no_cookie, data)?;
        self.begin_stream(fd, conn)?;
        let all = taken == data.len() || flags.dont_wait;
        if let Some(hints) = self.hints(fd, flags).filter(|_| all && taken > 0) {
            // A thread that does not wait has said all there is: the call ends in the SYN.
            self.end_call(fd, &hints)?;
        }
        Ok(Begun::Connecting(taken))
    }

    /// May this stack's connects use Fast Open at all?
    pub(crate) fn has_fast_open(&self) -> bool {
        self.core.fast_open_client()
    }

    /// Did connect leave everything to the first write (TCP_FASTOPEN_CONNECT)?
    pub(crate) fn is_deferred(&self, fd: Fd) -> bool {
        matches!(self.object(fd).map(|o| &o.kind), Ok(Kind::Fresh(settings)) if settings.deferred.is_some())
    }

    /// Connect on a socket with TCP_FASTOPEN_CONNECT: nothing happens yet if data may go with the SYN; else the SYN
    /// asks for a cookie.
    pub(super) fn connect_at_first_write(&mut self, fd: Fd, remote: Endpoint) -> Result<(), Errno> {
        let request = self.connect_request(fd, remote)?;
        let Kind::Fresh(settings) = &mut self.object_mut(fd)?.kind else { return Err(Errno::EISCONN) };
        let no_cookie = settings.fast_open.no_cookie;
        if self.core.may_send_with_syn(self.now, &request, no_cookie) {
            if let Kind::Fresh(settings) = &mut self.object_mut(fd)?.kind {
                settings.deferred = Some(remote);
                settings.left.disconnected = false;
            }
            return Ok(());
        }
        let (conn, _) = self.core.connect_fast(self.now, &request, no_cookie, &[])?;
        self.begin_stream(fd, conn)?;
        Err(Errno::EINPROGRESS)
    }

    /// The socket has a connection that is on its way.
    pub(super) fn begin_stream(&mut self, fd: Fd, conn: stack::ConnId) -> Result<(), Errno> {
        self.tune_begun(fd, conn)?;
        let mut extras = self.extras(fd);
        if self.core.remote(conn).addr.is_v4()
            && let Kind::Fresh(settings) = &self.object(fd)?.kind
            && settings.family == Family::V6
        {
            let mut options = settings.options;
            extras.change_family(&mut options);
        }
        let extras = extras.boxed();
        let object = self.object_mut(fd)?;
        let Kind::Fresh(settings) = &object.kind else { return Err(Errno::ENOTSOCK) };
        let (v6, binding, again) = (settings.family == Family::V6, settings.binding(), Again::of(settings));
        let read_shut = settings.left.read_shut;
        object.kind = Kind::Stream(Stream {
            conn,
            v6,
            connecting: true,
            read_shut,
            given_up: false,
            binding,
            extras,
            again,
        });
        Ok(())
    }
}
