//! The calls of every API: BSD sockets, epoll, poll and pipes, with Linux's meaning and errors.

use crate::Errno;
use base::{Duration, Endpoint, Instant};
use std::ops::Range;
use std::sync::Arc;

/// A descriptor of one [`Sockets`]; not a kernel descriptor.
pub type Fd = i32;

/// Address family of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// AF_INET.
    V4,
    /// AF_INET6; speaks IPv4 too unless IPV6_V6ONLY is set.
    V6,
}

/// Readiness bits of epoll and poll, with Linux's values.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Ready(pub u32);

impl Ready {
    /// Nothing.
    pub const NONE: Ready = Ready(0);
    /// EPOLLIN: data, the peer's end, or a connection to accept.
    pub const IN: Ready = Ready(0x001);
    /// EPOLLOUT: room to write.
    pub const OUT: Ready = Ready(0x004);
    /// EPOLLERR: an error is pending; always reported.
    pub const ERR: Ready = Ready(0x008);
    /// EPOLLHUP: both directions are over; always reported.
    pub const HUP: Ready = Ready(0x010);
    /// EPOLLRDHUP: the peer closed its direction.
    pub const RDHUP: Ready = Ready(0x2000);
    /// EPOLLET: report edges, not levels.
    pub const EDGE: Ready = Ready(1 << 31);
    /// EPOLLONESHOT: report once, then stay silent until modified.
    pub const ONESHOT: Ready = Ready(1 << 30);
    /// POLLNVAL: not a descriptor (poll only).
    pub const INVALID: Ready = Ready(0x020);
    /// EPOLLEXCLUSIVE: cannot be modified, and goes with few other bits; here one waits for each socket anyway.
    pub const EXCLUSIVE: Ready = Ready(1 << 28);
    /// Other names of IN and OUT, EPOLLRDNORM and EPOLLWRNORM, stand so many places above them.
    const NAMES: u32 = 6;

    /// Any bit of `other`?
    pub const fn any(self, other: Ready) -> bool {
        self.0 & other.0 != 0
    }

    /// Adds the other names of IN and OUT.
    pub(crate) const fn in_all_names(self) -> Ready {
        Ready(self.0 | (self.0 & (Ready::IN.0 | Ready::OUT.0)) << Ready::NAMES)
    }

    /// Adds EPOLLPRI, EPOLLRDBAND and EPOLLWRBAND to edges: on Linux data and room wake those that watch for these.
    pub(crate) const fn with_urgent(self) -> Ready {
        let data = if self.any(Ready::IN) { 0x082 } else { 0 };
        Ready(self.0 | data | if self.any(Ready::OUT) { 0x200 } else { 0 })
    }

    /// May an epoll set watch for this with EPOLLEXCLUSIVE?
    pub(crate) const fn may_be_exclusive(self) -> bool {
        let known = Ready::IN.0 | Ready::OUT.0 | Ready::ERR.0 | Ready::HUP.0 | Ready::EDGE.0;
        self.0 & !(known | Ready::EXCLUSIVE.0) == 0
    }
}

impl core::ops::BitOr for Ready {
    type Output = Ready;
    fn bitor(self, rhs: Ready) -> Ready {
        Ready(self.0 | rhs.0)
    }
}

impl core::ops::BitAnd for Ready {
    type Output = Ready;
    fn bitand(self, rhs: Ready) -> Ready {
        Ready(self.0 & rhs.0)
    }
}

impl core::ops::BitOrAssign for Ready {
    fn bitor_assign(&mut self, rhs: Ready) {
        self.0 |= rhs.0;
    }
}

/// An event of [`Sockets::epoll_wait`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EpollEvent {
    /// Ready events.
    pub ready: Ready,
    /// The user's word.
    pub data: u64,
}

/// Operation of [`Sockets::epoll_ctl`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EpollOp {
    /// Watch a descriptor for these bits.
    Add(EpollEvent),
    /// Watch it for other bits.
    Modify(EpollEvent),
    /// Watch it no more.
    Delete,
}

/// One row of [`Sockets::poll`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PollFd {
    /// The descriptor; negative ones are skipped.
    pub fd: Fd,
    /// Requested events.
    pub interest: Ready,
    /// Returned events.
    pub ready: Ready,
}

/// Flags of [`Sockets::recv`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RecvFlags {
    /// MSG_PEEK: leave the data there.
    pub peek: bool,
    /// MSG_DONTWAIT: do not block this once.
    pub dont_wait: bool,
    /// MSG_WAITALL: block until the whole buffer is full (or the end, or an error).
    pub wait_all: bool,
    /// MSG_TRUNC: drop the data instead of copying it.
    pub discard: bool,
}

/// Flags of [`Sockets::send`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SendFlags {
    /// MSG_DONTWAIT: do not block this once.
    pub dont_wait: bool,
    /// MSG_MORE: more follows soon; a segment that is not full waits for it, 200 ms or a timeout at most.
    pub more: bool,
    /// MSG_EOR: here ends a record, and nothing sent later shares a segment with it.
    pub end_of_record: bool,
    /// MSG_ZEROCOPY, where SO_ZEROCOPY is set: [`Sockets::recv_error`] tells when nothing refers to the bytes any
    /// more. [`Sockets::send`] copies and says so; [`Sockets::lend`] need not.
    pub zero_copy: bool,
}

/// Returns true if so many bytes of the caller's memory, from a place in it on, can be used. A call asks once it
/// knows how many bytes it moves.
pub type Check<'c> = &'c dyn Fn(usize, usize) -> bool;

/// Result of [`Sockets::recv_message`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Received {
    /// Bytes.
    pub len: usize,
    /// With TCP_INQ (TCP_CM_INQ): bytes left to read, at least; 1 if only the peer's end is.
    pub left: Option<u32>,
    /// With SO_TIMESTAMP, SO_TIMESTAMPNS or SO_TIMESTAMPING: when the last of the bytes arrived, on the clock of
    /// [`Sockets::time`].
    pub arrived: Option<Instant>,
}

impl Received {
    /// Bytes, and nothing to tell beside them.
    pub const fn bytes(len: usize) -> Received {
        Received { len, left: None, arrived: None }
    }
}

/// An entry of the error queue, by Linux's numbers (`struct sock_extended_err`; `ee_type` is 0).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorReport {
    /// `ee_errno`: ENOMSG with a timestamp, none with a completion.
    pub errno: Option<Errno>,
    /// `ee_origin`: SO_EE_ORIGIN_ZEROCOPY or SO_EE_ORIGIN_TIMESTAMPING.
    pub origin: u8,
    /// `ee_code`: SO_EE_CODE_ZEROCOPY_COPIED if bytes were copied.
    pub code: u8,
    /// `ee_info`: number of the first send that is complete; or SCM_TSTAMP_SND, SCM_TSTAMP_SCHED, SCM_TSTAMP_ACK.
    pub info: u32,
    /// `ee_data`: number of the last send that is complete; or, with SOF_TIMESTAMPING_OPT_ID, the byte.
    pub data: u32,
    /// SCM_TIMESTAMPING's first time, on the clock of [`Sockets::time`].
    pub at: Option<Instant>,
    /// MSG_TRUNC: Linux would show the packet too, which this queue does not keep.
    pub truncated: bool,
}

/// BSD sockets, epoll, poll and pipes over a Millstream stack.
///
/// One implementation per way to run a core: [`crate::Runner`] turns the core from inside these calls,
/// [`crate::paired::Paired`] meets a stack thread through queues. Every call gives Linux's errors.
pub trait Sockets: Send + Sync {
    /// A new TCP socket, blocking.
    fn socket(&self, family: Family) -> Result<Fd, Errno>;
    /// Name the local end; port 0 chooses one.
    fn bind(&self, fd: Fd, local: Endpoint) -> Result<(), Errno>;
    /// Accept connections; a second call changes the backlog.
    fn listen(&self, fd: Fd, backlog: u32) -> Result<(), Errno>;
    /// Leave new connections of a listener to other processes that share its port ([`crate::Settings::share`]), or
    /// take them again. Those it has stay; while nothing takes new ones they are left unanswered, and their clients
    /// try again.
    fn park(&self, fd: Fd, parked: bool) -> Result<(), Errno>;
    /// The next connection and its peer; blocks unless non-blocking. The new socket is blocking.
    fn accept(&self, fd: Fd) -> Result<(Fd, Endpoint), Errno>;
    /// Connect; non-blocking gives EINPROGRESS and EPOLLOUT follows.
    fn connect(&self, fd: Fd, remote: Endpoint) -> Result<(), Errno>;
    /// Wait for the end of a connect that was begun, which SO_SNDTIMEO may end before (EINPROGRESS).
    fn finish_connect(&self, fd: Fd) -> Result<(), Errno>;
    /// Take a connection, an attempt to connect or a listener apart (connect to AF_UNSPEC): the socket keeps its
    /// options and the address that it was bound to, and may connect or listen again.
    fn disconnect(&self, fd: Fd) -> Result<(), Errno>;
    /// Is it a socket that neither listens nor has a connection, nor tries to have one?
    fn is_apart(&self, fd: Fd) -> Result<bool, Errno>;
    /// Receive; 0 is the peer's end.
    fn recv(&self, fd: Fd, into: &mut [u8], flags: RecvFlags) -> Result<usize, Errno>;
    /// Receives into memory that may not be there: EFAULT where `check` says so of what would be written, and all of
    /// that can still be received.
    fn recv_checked(
        &self,
        fd: Fd,
        into: &mut [u8],
        flags: RecvFlags,
        check: Check<'_>,
    ) -> Result<usize, Errno>;
    /// Receives bytes with their metadata (recvmsg).
    fn recv_message(&self, fd: Fd, into: &mut [u8], flags: RecvFlags) -> Result<Received, Errno> {
        self.recv(fd, into, flags).map(|len| self.received(fd, len))
    }
    /// Returns the metadata of bytes that were just received.
    fn received(&self, fd: Fd, len: usize) -> Received;
    /// The time now, on the clock of the stamps that [`Received`] and [`ErrorReport`] carry.
    fn time(&self) -> Instant;
    /// The oldest entry of the error queue, taken (recvmsg with MSG_ERRQUEUE): never blocks, EAGAIN when it is empty.
    /// While it is not, EPOLLERR is up.
    fn recv_error(&self, fd: Fd) -> Result<ErrorReport, Errno>;
    /// Look at received bytes where they lie (what TCP_ZEROCOPY_RECEIVE is for): `each` is shown at most `max` of
    /// them, slice by slice in order, until it returns false, and must not call this handle. Never blocks: EAGAIN
    /// without any; at the end it shows nothing. Drop them with [`Sockets::consume`].
    fn borrow(&self, fd: Fd, max: usize, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Errno>;
    /// Drop `len` bytes that were looked at.
    fn consume(&self, fd: Fd, len: usize) -> Result<(), Errno>;
    /// Send; a blocking socket takes everything before it returns.
    fn send(&self, fd: Fd, data: &[u8], flags: SendFlags) -> Result<usize, Errno>;
    /// Sends from memory that may not be there: EFAULT where `check` says so of what would be sent first.
    fn send_checked(&self, fd: Fd, data: &[u8], flags: SendFlags, check: Check<'_>) -> Result<usize, Errno>;
    /// Send with MSG_FASTOPEN: connects to `remote` if need be, with data in the SYN where the peer's cookie is known
    /// (RFC 7413). A blocking socket waits for the connection and takes everything; of a non-blocking one the SYN
    /// takes what it can carry, and EINPROGRESS says that it carries nothing. `remote` may be `None` where connect has
    /// named it already (TCP_FASTOPEN_CONNECT). EOPNOTSUPP where the settings say no.
    fn send_fast(
        &self,
        fd: Fd,
        data: &[u8],
        remote: Option<Endpoint>,
        flags: SendFlags,
    ) -> Result<usize, Errno>;
    /// Send `bytes[range]` without a copy where the mode can: a reference is kept until the peer has acknowledged it
    /// all, so that its end (`Arc::strong_count`) is the completion; `flags.zero_copy` asks for a report too.
    ///
    /// # Panics
    /// If the range does not lie in `bytes`.
    fn lend(&self, fd: Fd, bytes: &Arc<[u8]>, range: Range<usize>, flags: SendFlags) -> Result<usize, Errno>;
    /// Close one half or both.
    fn shutdown(&self, fd: Fd, how: tcp::Shutdown) -> Result<(), Errno>;
    /// Let the descriptor go; the last one of a socket closes it.
    fn close(&self, fd: Fd) -> Result<(), Errno>;
    /// Another descriptor for the same thing.
    fn dup(&self, fd: Fd) -> Result<Fd, Errno>;
    /// O_NONBLOCK.
    fn set_nonblocking(&self, fd: Fd, on: bool) -> Result<(), Errno>;
    /// Is O_NONBLOCK set?
    fn nonblocking(&self, fd: Fd) -> Result<bool, Errno>;
    /// Local end.
    fn local_addr(&self, fd: Fd) -> Result<Endpoint, Errno>;
    /// Remote end.
    fn peer_addr(&self, fd: Fd) -> Result<Endpoint, Errno>;
    /// Set an option, by Linux's numbers and layouts. Unknown ones fail with ENOPROTOOPT.
    fn setsockopt(&self, fd: Fd, level: i32, name: i32, value: &[u8]) -> Result<(), Errno>;
    /// Get an option, by Linux's numbers and layouts; the bytes written.
    fn getsockopt(&self, fd: Fd, level: i32, name: i32, into: &mut [u8]) -> Result<usize, Errno>;
    /// FIONREAD: bytes readable now.
    fn readable(&self, fd: Fd) -> Result<usize, Errno>;
    /// SIOCOUTQ and SIOCOUTQNSD: bytes not acknowledged, and of these not sent.
    fn unsent(&self, fd: Fd) -> Result<(usize, usize), Errno>;
    /// A pipe: read end, write end, both blocking.
    fn pipe(&self) -> Result<(Fd, Fd), Errno>;
    /// A new epoll set.
    fn epoll_create(&self) -> Result<Fd, Errno>;
    /// Change an epoll set.
    fn epoll_ctl(&self, epfd: Fd, fd: Fd, op: EpollOp) -> Result<(), Errno>;
    /// Wait for events; `None` waits for ever, zero only looks.
    fn epoll_wait(
        &self,
        epfd: Fd,
        events: &mut [EpollEvent],
        timeout: Option<Duration>,
    ) -> Result<usize, Errno>;
    /// Wait for any row to be ready; how many are.
    fn poll(&self, fds: &mut [PollFd], timeout: Option<Duration>) -> Result<usize, Errno>;
    /// Run `look` on the thread and at a moment where the engine may be looked at (`ss`, `stat`, captures).
    fn inspect(&self, look: Box<dyn FnOnce(&mut crate::Engine) + Send + '_>);
}
