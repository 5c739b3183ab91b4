//! Transport below descriptors: a core that the caller turns, or the far end of a queue to a thread that does.

use crate::Errno;
use base::{Duration, Endpoint, Instant};
use cc::TunableError;
use stack::{ConnId, Connect, Core, FastOpenListen, Listen, ListenerId, OpError};
use std::ops::Range;
use std::sync::Arc;
use tcp::auth::{AoReport, KeyChange, KeyError, Keyring};
use tcp::{FastOpenKeys, Hints, Info, ReadError, Report, Shutdown, SocketOptions, State, Times, WriteError};

/// TCP below the descriptors. Direct mode has [`Core`] here; nothing of this trait waits for the network.
///
/// Owners are the descriptors' objects; events come back to them by name.
pub trait Transport: Send {
    /// See [`Core::bind`], and [`Core::bind_free`] if it is to be free.
    fn bind(
        &mut self,
        local: Endpoint,
        addr: bool,
        port: bool,
        v6_only: bool,
        free: bool,
    ) -> Result<Endpoint, OpError>;
    /// See [`Core::is_used`].
    fn is_used(&mut self, local: Endpoint, v6_only: bool) -> bool;
    /// See [`Core::unbind`].
    fn unbind(&mut self, local: Endpoint);
    /// See [`Core::listen`].
    fn listen(&mut self, now: Instant, listen: &Listen) -> Result<(ListenerId, Endpoint), OpError>;
    /// See [`Core::set_backlog`].
    fn set_backlog(&mut self, id: ListenerId, backlog: u32);
    /// See [`Core::park`].
    fn park(&mut self, id: ListenerId, parked: bool);
    /// Replace what sockets accepted from now on inherit.
    fn set_listener_options(&mut self, id: ListenerId, options: SocketOptions);
    /// Replace the congestion control of connections from now on.
    fn set_listener_control(&mut self, id: ListenerId, name: &'static str);
    /// See [`Core::acceptable`].
    fn acceptable(&self, id: ListenerId) -> u32;
    /// See [`Core::accept`].
    fn accept(&mut self, id: ListenerId, owner: u32) -> Option<ConnId>;
    /// See [`Core::close_listener`].
    fn close_listener(&mut self, now: Instant, id: ListenerId);

    /// See [`Core::set_listener_keys`].
    fn set_listener_keys(&mut self, id: ListenerId, keys: Option<Arc<Keyring>>);
    /// See [`Core::change_keys`].
    fn change_keys(&mut self, id: ConnId, change: &KeyChange) -> Result<(), KeyError>;
    /// See [`Core::ao_report`].
    fn ao_report(&mut self, id: ConnId) -> Option<AoReport>;

    /// See [`Core::set_fast_open`].
    fn set_fast_open(&mut self, id: ListenerId, request: FastOpenListen);
    /// The keys of listeners that have none of their own; `None` if the core is gone.
    fn fast_open_keys(&mut self, now: Instant) -> Option<FastOpenKeys>;

    /// May connects use Fast Open?
    fn fast_open_client(&self) -> bool;
    /// See [`Core::may_send_with_syn`].
    fn may_send_with_syn(&mut self, now: Instant, connect: &Connect, no_cookie: bool) -> bool;
    /// See [`Core::connect_fast`].
    fn connect_fast(
        &mut self,
        now: Instant,
        connect: &Connect,
        no_cookie: bool,
        data: &[u8],
    ) -> Result<(ConnId, usize), OpError>;
    /// See [`Core::connect`].
    fn connect(&mut self, now: Instant, connect: &Connect) -> Result<ConnId, OpError>;
    /// Takes bytes to send: EAGAIN without room, EPIPE after shutdown, ENOTCONN before the connection stands, or its
    /// error, which is taken by the telling.
    fn write(&mut self, now: Instant, id: ConnId, data: &[u8]) -> Result<usize, Errno>;
    /// Sends bytes that need not be copied; see [`Core::lend`].
    fn lend(
        &mut self,
        now: Instant,
        id: ConnId,
        bytes: &Arc<[u8]>,
        range: Range<usize>,
        hints: &Hints,
    ) -> Result<usize, Errno> {
        self.write_hinted(now, id, &bytes[range], hints)
    }
    /// Like `write`, for what the call says something about.
    fn write_hinted(&mut self, now: Instant, id: ConnId, data: &[u8], hints: &Hints) -> Result<usize, Errno>;
    /// See [`Core::end_call`].
    fn end_call(&mut self, now: Instant, id: ConnId, hints: &Hints);
    /// See [`Core::push`].
    fn push(&mut self, now: Instant, id: ConnId);
    /// The oldest report, taken.
    fn take_report(&mut self, id: ConnId) -> Option<Report>;
    /// When the last byte read arrived, as far as it is known.
    fn last_read_arrived(&mut self, id: ConnId) -> Option<Instant>;
    /// Gives bytes received; 0 at the end, EAGAIN when there are none, ENOTCONN before the connection stands, or its
    /// error, which is taken by the telling.
    fn read(&mut self, now: Instant, id: ConnId, into: &mut [u8]) -> Result<usize, Errno>;
    /// Shows bytes received, in place, slice by slice until `each` returns false. The end and errors show nothing.
    fn peek(&mut self, id: ConnId, max: usize, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Errno>;
    /// See [`Core::consume`].
    fn consume(&mut self, now: Instant, id: ConnId, len: usize);
    /// See [`Core::shutdown`].
    fn shutdown(&mut self, now: Instant, id: ConnId, how: Shutdown);
    /// See [`Core::close`].
    fn close(&mut self, now: Instant, id: ConnId);
    /// Ends the connection by a reset. Returns the reservation that it held, if the caller has that from now on; it is
    /// given back otherwise.
    fn disconnect(&mut self, now: Instant, id: ConnId) -> Option<Endpoint> {
        let options = SocketOptions { linger: Some(Duration::ZERO), ..self.options(id) };
        self.set_options(now, id, options);
        self.close(now, id);
        None
    }
    /// See [`Core::set_options`].
    fn set_options(&mut self, now: Instant, id: ConnId, options: SocketOptions);
    /// See [`Core::set_control`].
    fn set_control(&mut self, now: Instant, id: ConnId, name: &'static str) -> Result<(), OpError>;
    /// See [`Core::tune`].
    fn tune(&mut self, id: ConnId, name: &str, value: Option<i64>) -> Result<i64, TunableError>;
    /// See [`Core::would_tune`].
    fn would_tune(
        &mut self,
        policy: &'static str,
        name: &str,
        value: Option<i64>,
    ) -> Result<i64, TunableError>;
    /// See [`Core::is_over`].
    fn is_over(&self) -> bool {
        false
    }
    /// The pending error, taken (SO_ERROR).
    fn take_error(&mut self, id: ConnId) -> Option<Errno>;

    /// The congestion control of this name, if new connections may have it.
    fn find_control(&mut self, name: &str) -> Result<&'static str, OpError>;
    /// The congestion control of connections that name none.
    fn default_control(&self) -> &'static str;
    /// Bytes of the receive and send buffers that a connection begins with.
    fn default_buffers(&self) -> (u32, u32);
    /// Options of sockets that set none.
    fn default_options(&self) -> SocketOptions;
    /// Times of sockets that choose none.
    fn default_times(&self) -> Times;
    /// How often a SYN is sent again unless a socket says otherwise.
    fn default_syn_retries(&self) -> u8;

    /// Where the connection stands.
    fn state(&self, id: ConnId) -> State;
    /// Is an error pending?
    fn failed(&self, id: ConnId) -> bool;
    /// Is there a report?
    fn has_reports(&self, id: ConnId) -> bool;
    /// The peer's FIN arrived.
    fn peer_closed(&self, id: ConnId) -> bool;
    /// Our side was shut.
    fn write_closed(&self, id: ConnId) -> bool;
    /// Bytes readable now.
    fn readable(&self, id: ConnId) -> u32;
    /// Bytes writable now.
    fn writable(&self, id: ConnId) -> u32;
    /// Options in force.
    fn options(&self, id: ConnId) -> SocketOptions;
    /// Bytes not acknowledged, and of these not sent.
    fn unsent(&mut self, id: ConnId) -> (u32, u32);
    /// Our end.
    fn local(&mut self, id: ConnId) -> Endpoint;
    /// The peer's end.
    fn remote(&self, id: ConnId) -> Endpoint;
    /// The CPU that handles what arrives for the connection.
    fn incoming_cpu(&mut self, id: ConnId) -> Option<u32>;
    /// Everything TCP_INFO shows; `None` if the core is gone.
    fn info(&mut self, now: Instant, id: ConnId) -> Option<Info>;
    /// Name of the congestion control.
    fn control_name(&mut self, id: ConnId) -> &'static str;
}

fn why_unwritten(error: WriteError) -> Errno {
    match error {
        WriteError::Full | WriteError::NoMemory => Errno::EAGAIN,
        WriteError::Shutdown => Errno::EPIPE,
        WriteError::NotConnected => Errno::ENOTCONN,
        WriteError::Failed(e) => e.into(),
    }
}

/// Forwards a call to the method of the same name.
macro_rules! forward {
    ($($name:ident($($arg:ident: $kind:ty),*) $(-> $out:ty)?;)+) => {
        $(fn $name(&mut self, $($arg: $kind),*) $(-> $out)? {
            Core::$name(self, $($arg),*)
        })+
    };
}

/// Asks the connection.
macro_rules! ask {
    ($($name:ident -> $out:ty;)+) => {
        $(fn $name(&self, id: ConnId) -> $out {
            self.connection(id).$name()
        })+
    };
}

impl Transport for Core {
    fn is_over(&self) -> bool {
        Core::is_over(self)
    }

    forward! {
        is_used(local: Endpoint, v6_only: bool) -> bool;
        unbind(local: Endpoint);
        listen(now: Instant, listen: &Listen) -> Result<(ListenerId, Endpoint), OpError>;
        set_backlog(id: ListenerId, backlog: u32);
        park(id: ListenerId, parked: bool);
        set_listener_options(id: ListenerId, options: SocketOptions);
        set_listener_control(id: ListenerId, name: &'static str);
        accept(id: ListenerId, owner: u32) -> Option<ConnId>;
        close_listener(now: Instant, id: ListenerId);
        set_fast_open(id: ListenerId, request: FastOpenListen);
        set_listener_keys(id: ListenerId, keys: Option<Arc<Keyring>>);
        change_keys(id: ConnId, change: &KeyChange) -> Result<(), KeyError>;
        may_send_with_syn(now: Instant, connect: &Connect, no_cookie: bool) -> bool;
        connect_fast(now: Instant, connect: &Connect, no_cookie: bool, data: &[u8]) -> Result<(ConnId, usize), OpError>;
        connect(now: Instant, connect: &Connect) -> Result<ConnId, OpError>;
        consume(now: Instant, id: ConnId, len: usize);
        shutdown(now: Instant, id: ConnId, how: Shutdown);
        close(now: Instant, id: ConnId);
        disconnect(now: Instant, id: ConnId) -> Option<Endpoint>;
        set_options(now: Instant, id: ConnId, options: SocketOptions);
        set_control(now: Instant, id: ConnId, name: &'static str) -> Result<(), OpError>;
        tune(id: ConnId, name: &str, value: Option<i64>) -> Result<i64, TunableError>;
        end_call(now: Instant, id: ConnId, hints: &Hints);
        push(now: Instant, id: ConnId);
        take_report(id: ConnId) -> Option<Report>;
        last_read_arrived(id: ConnId) -> Option<Instant>;
    }

    ask! {
        has_reports -> bool;
        peer_closed -> bool;
        write_closed -> bool;
        readable -> u32;
        writable -> u32;
        options -> SocketOptions;
    }

    fn bind(
        &mut self,
        local: Endpoint,
        addr: bool,
        port: bool,
        v6_only: bool,
        free: bool,
    ) -> Result<Endpoint, OpError> {
        if free {
            self.bind_free(local, addr, port, v6_only)
        } else {
            Core::bind(self, local, addr, port, v6_only)
        }
    }

    fn state(&self, id: ConnId) -> State {
        self.connection(id).state_for_owner()
    }

    fn would_tune(
        &mut self,
        policy: &'static str,
        name: &str,
        value: Option<i64>,
    ) -> Result<i64, TunableError> {
        Core::would_tune(self, policy, name, value)
    }

    fn ao_report(&mut self, id: ConnId) -> Option<AoReport> {
        Core::ao_report(self, id)
    }

    fn fast_open_keys(&mut self, now: Instant) -> Option<FastOpenKeys> {
        Some(Core::fast_open_keys(self, now))
    }

    fn fast_open_client(&self) -> bool {
        self.config().fastopen_client()
    }

    fn write(&mut self, now: Instant, id: ConnId, data: &[u8]) -> Result<usize, Errno> {
        Core::write(self, now, id, data).map_err(why_unwritten)
    }

    fn lend(
        &mut self,
        now: Instant,
        id: ConnId,
        bytes: &Arc<[u8]>,
        range: Range<usize>,
        hints: &Hints,
    ) -> Result<usize, Errno> {
        Core::lend(self, now, id, bytes, range, hints).map_err(why_unwritten)
    }

    fn write_hinted(&mut self, now: Instant, id: ConnId, data: &[u8], hints: &Hints) -> Result<usize, Errno> {
        Core::write_hinted(self, now, id, data, hints).map_err(why_unwritten)
    }

    fn read(&mut self, now: Instant, id: ConnId, into: &mut [u8]) -> Result<usize, Errno> {
        Core::read(self, now, id, into).or_else(|e| match e {
            ReadError::Finished => Ok(0),
            ReadError::Empty => Err(Errno::EAGAIN),
            ReadError::NotConnected => Err(Errno::ENOTCONN),
            ReadError::Failed(e) => Err(e.into()),
        })
    }

    fn peek(&mut self, id: ConnId, max: usize, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Errno> {
        Core::peek(self, id, max, each).or_else(|e| match e {
            ReadError::Finished | ReadError::Failed(_) => Ok(()),
            ReadError::Empty => Err(Errno::EAGAIN),
            ReadError::NotConnected => Err(Errno::ENOTCONN),
        })
    }

    fn acceptable(&self, id: ListenerId) -> u32 {
        Core::acceptable(self, id)
    }

    fn find_control(&mut self, name: &str) -> Result<&'static str, OpError> {
        Core::find_control(self, name)
    }

    fn default_buffers(&self) -> (u32, u32) {
        let config = self.config();
        (config.rcvbuf.0, config.sndbuf.0)
    }

    fn default_options(&self) -> SocketOptions {
        self.config().socket_options()
    }

    fn default_times(&self) -> Times {
        self.config().times()
    }

    fn default_syn_retries(&self) -> u8 {
        self.config().syn_retries
    }

    fn default_control(&self) -> &'static str {
        Core::default_control(self)
    }

    fn take_error(&mut self, id: ConnId) -> Option<Errno> {
        Core::take_error(self, id).map(Errno::from)
    }

    fn failed(&self, id: ConnId) -> bool {
        self.connection(id).error().is_some()
    }

    fn unsent(&mut self, id: ConnId) -> (u32, u32) {
        let conn = self.connection(id);
        (conn.unacked(), conn.unsent())
    }

    fn local(&mut self, id: ConnId) -> Endpoint {
        self.connection(id).key().local()
    }

    fn remote(&self, id: ConnId) -> Endpoint {
        self.connection(id).key().remote()
    }

    fn incoming_cpu(&mut self, _id: ConnId) -> Option<u32> {
        ring::current_cpu()
    }

    fn info(&mut self, now: Instant, id: ConnId) -> Option<Info> {
        Some(Core::info(self, now, id))
    }

    fn control_name(&mut self, id: ConnId) -> &'static str {
        self.connection(id).control_name()
    }
}
