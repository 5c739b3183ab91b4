//! Output of a connection to its owner: events, errors, and the disposition of a segment.

use crate::DropReason;

/// Readiness that changed since the last look, as bits: edges for EPOLLET; the level is in the getters.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Events(pub u16);

impl Events {
    /// The connection is established (connect finished, or ready for accept).
    pub const CONNECTED: Events = Events(1);
    /// New data (or the peer's FIN) can be read.
    pub const READABLE: Events = Events(2);
    /// Send space was freed after a write found none (or notsent_lowat was crossed).
    pub const WRITABLE: Events = Events(4);
    /// The peer closed its half.
    pub const PEER_CLOSED: Events = Events(8);
    /// An error is pending (see [`crate::Connection::take_error`]): reset, timeout, ICMP.
    pub const ERROR: Events = Events(16);
    /// The connection is over; it may be removed once the application has let go.
    pub const CLOSED: Events = Events(32);
    /// All data and the FIN were acknowledged (for linger).
    pub const DRAINED: Events = Events(64);
    /// There is something to report (see [`crate::Connection::poll_report`]).
    pub const REPORT: Events = Events(128);
    /// There is an outcome for the cache of Fast Open (see [`crate::Connection::take_fast_open`]).
    pub const FAST_OPEN: Events = Events(256);

    /// Any of `other`'s bits?
    pub const fn any(self, other: Events) -> bool {
        self.0 & other.0 != 0
    }

    /// No bit at all?
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl core::ops::BitOr for Events {
    type Output = Events;
    fn bitor(self, rhs: Events) -> Events {
        Events(self.0 | rhs.0)
    }
}

impl core::ops::BitOrAssign for Events {
    fn bitor_assign(&mut self, rhs: Events) {
        self.0 |= rhs.0;
    }
}

/// Why a connection failed; the APIs turn it into errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// RST in answer to our SYN (ECONNREFUSED).
    Refused,
    /// RST later (ECONNRESET).
    Reset,
    /// Retransmissions, user timeout or keepalive ran out (ETIMEDOUT).
    TimedOut,
    /// ICMP said so and retransmissions ran out or the handshake was under way (EHOSTUNREACH).
    HostUnreachable,
    /// Likewise (ENETUNREACH).
    NetUnreachable,
    /// The application aborted it (ECONNABORTED).
    Aborted,
    /// The peer reset it after its FIN (EPIPE).
    BrokenPipe,
    /// The stack below is gone (ENETDOWN).
    NetDown,
}

/// Why `write` took nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteError {
    /// No room now (EAGAIN); `Events::WRITABLE` will say when.
    Full,
    /// The chunk pool is exhausted (ENOBUFS for a nonblocking caller is EAGAIN: WRITABLE will follow).
    NoMemory,
    /// Our half is closed (EPIPE).
    Shutdown,
    /// Not yet connected (ENOTCONN).
    NotConnected,
    /// The connection failed; the pending error is hereby taken, the next write says `Shutdown`.
    Failed(Error),
}

/// Why `read` gave nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadError {
    /// Nothing there now (EAGAIN).
    Empty,
    /// The peer closed and everything was read (read returns 0).
    Finished,
    /// Not yet connected (ENOTCONN).
    NotConnected,
    /// The connection failed; the pending error is hereby taken, the next read says `Finished`.
    Failed(Error),
}

/// Which half to shut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shutdown {
    /// No more reads: the peer is not told, and what still arrives is kept while there is room, or thrown away
    /// ([`Quirks::discard_after_shutdown`](crate::Quirks::discard_after_shutdown)).
    Read,
    /// No more writes: FIN.
    Write,
    /// Both.
    Both,
}

/// Action that the stack must take after `on_segment`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disposition {
    /// Nothing special: poll events and transmissions as usual.
    Done,
    /// The segment was dropped, for this reason (already counted).
    Dropped(DropReason),
    /// The connection entered TIME-WAIT: replace it by its compact entry (after the last poll_transmit).
    /// It may still hold data the application has not read: then keep it for the application until it closes,
    /// but the flow table entry becomes the TimeWait.
    TimeWait,
    /// The connection is CLOSED. If the segment itself asks for a RST, poll_transmit gives it.
    Closed,
}
