//! What a descriptor stands for. A connected socket costs little: everything rare is boxed.

use crate::sockets::Family;
use crate::watch::NO_WATCH;
use base::{Duration, Endpoint};
use stack::{ConnId, ListenerId};
use tcp::SocketOptions;

/// An open file description: what `dup` shares.
pub(crate) struct Object {
    pub(crate) kind: Kind,
    /// First of the epoll watches on this object.
    pub(crate) watches: u32,
    /// Descriptors that stand for it.
    pub(crate) refs: u32,
    pub(crate) nonblocking: bool,
}

impl Object {
    pub(crate) fn new(kind: Kind) -> Self {
        Object { kind, watches: NO_WATCH, refs: 1, nonblocking: false }
    }
}

/// The kinds of object.
pub(crate) enum Kind {
    /// A socket that neither listens nor connects yet.
    Fresh(Box<Settings>),
    Listener(Box<Listener>),
    Stream(Stream),
    /// Index of the epoll set.
    Epoll(u32),
    /// Index of the pipe.
    PipeRead(u32),
    /// Index of the pipe.
    PipeWrite(u32),
}

/// A connected, connecting or once connected socket.
pub(crate) struct Stream {
    pub(crate) conn: ConnId,
    /// A connect has not been reported yet.
    pub(crate) connecting: bool,
    /// shutdown(SHUT_RD) was called.
    pub(crate) read_shut: bool,
    /// Timeouts and the like, if any were ever set.
    pub(crate) waits: Option<Box<Waits>>,
}

/// SO_RCVTIMEO and SO_SNDTIMEO; `None` waits for ever.
#[derive(Clone, Copy, Default)]
pub(crate) struct Waits {
    pub(crate) recv: Option<Duration>,
    pub(crate) send: Option<Duration>,
}

/// A listening socket.
pub(crate) struct Listener {
    pub(crate) id: ListenerId,
    pub(crate) local: Endpoint,
    pub(crate) settings: Settings,
}

/// What can be set on a socket before it has a connection.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) family: Family,
    pub(crate) options: SocketOptions,
    pub(crate) control: Option<&'static str>,
    pub(crate) reuse_addr: bool,
    pub(crate) reuse_port: bool,
    pub(crate) v6_only: bool,
    pub(crate) bound: Option<Endpoint>,
    pub(crate) waits: Waits,
}

impl Settings {
    pub(crate) fn new(family: Family) -> Self {
        Settings {
            family,
            options: SocketOptions::default(),
            control: None,
            reuse_addr: false,
            reuse_port: false,
            v6_only: false,
            bound: None,
            waits: Waits::default(),
        }
    }
}
