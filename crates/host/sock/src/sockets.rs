//! The calls of every API: BSD sockets, epoll, poll and pipes, with Linux's meaning and errors.

use crate::Errno;
pub use crate::readiness::{EpollEvent, EpollOp, Family, Fd, PollFd, Ready};
use base::{Duration, Endpoint, Instant};
use std::ops::Range;
use std::sync::Arc;

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
    /// take them again. Those it has stay; while nothing takes new ones their SYNs are kept a few seconds.
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
