//! System calls: what the script writes to what the API is asked, and the answer to what the script may check.

mod check;
mod keys;
mod message;
pub mod numbers;
mod perform;
mod prepare;

pub(super) use check::check;
pub use perform::perform;
pub(super) use perform::tcp_info;
pub(super) use prepare::prepare;

use base::{Duration, Endpoint};
use sock::{EpollEvent, EpollOp, ErrorReport, Family, Fd, PollFd, Received, RecvFlags, SendFlags};

/// Why a run ends before its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// The stack did not do what the script says.
    Fail(String),
    /// This runner, or the stack below, has no such thing.
    Unsupported(String),
}

impl Stop {
    pub(super) fn fail<T>(what: impl Into<String>) -> Result<T, Stop> {
        Err(Stop::Fail(what.into()))
    }

    pub(super) fn unsupported<T>(what: impl Into<String>) -> Result<T, Stop> {
        Err(Stop::Unsupported(what.into()))
    }
}

/// A sentence that begins with `unsupported: ` means that.
impl From<String> for Stop {
    fn from(text: String) -> Self {
        match text.strip_prefix("unsupported: ") {
            Some(what) => Stop::Unsupported(what.into()),
            None => Stop::Fail(text),
        }
    }
}

/// A call as the API takes it.
#[derive(Clone, Debug)]
#[allow(
    missing_docs,
    reason = "the calls of POSIX and Linux under their own names, with the arguments they have"
)]
pub enum Request {
    Socket(Family),
    Bind(Fd, Endpoint),
    Listen(Fd, u32),
    /// Descriptor, and whether the new one is non-blocking.
    Accept(Fd, bool),
    Connect(Fd, Endpoint),
    Recv {
        fd: Fd,
        len: usize,
        flags: RecvFlags,
    },
    Send {
        fd: Fd,
        data: Vec<u8>,
        flags: SendFlags,
        /// MSG_FASTOPEN, and the peer.
        fast_open: Option<FastOpen>,
    },
    /// recvmsg: the same as Recv, and what is told beside the bytes.
    RecvMessage {
        fd: Fd,
        len: usize,
        flags: RecvFlags,
    },
    /// recvmsg with MSG_ERRQUEUE.
    RecvError(Fd),
    Shutdown(Fd, tcp::Shutdown),
    Close(Fd),
    SetOption {
        fd: Fd,
        level: i32,
        name: i32,
        value: Vec<u8>,
    },
    GetOption {
        fd: Fd,
        level: i32,
        name: i32,
        len: usize,
    },
    SetFlags(Fd, i64),
    GetFlags(Fd),
    Readable(Fd),
    /// Bytes not acknowledged, or of these not sent.
    Unsent {
        fd: Fd,
        not_sent: bool,
    },
    Poll(Vec<PollFd>, Option<Duration>),
    EpollCreate,
    EpollCtl(Fd, Fd, EpollOp),
    EpollWait(Fd, usize, Option<Duration>),
    Pipe,
    /// Recv or Send with NULL for a buffer.
    Nowhere(Box<Request>),
    /// From a socket to a pipe or back.
    Splice {
        from: Fd,
        to: Fd,
        len: usize,
        dont_wait: bool,
    },
}

/// Destination of a send with MSG_FASTOPEN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FastOpen {
    /// This peer.
    To(Endpoint),
    /// Whom the socket is connected to, or was told to connect to.
    Unnamed,
    /// AF_UNSPEC, which Linux refuses.
    Unspecified,
}

/// Output arguments of a call.
#[derive(Clone, Debug)]
pub enum Got {
    /// The result says it all.
    Nothing,
    /// A new descriptor, and the peer of an accepted one.
    Descriptor(Fd, Option<Endpoint>),
    /// Bytes read.
    Bytes(Vec<u8>),
    /// Bytes read, and control messages.
    Message(Vec<u8>, Received),
    /// A report of the error queue.
    Error(ErrorReport),
    /// Number that an ioctl returned.
    Number(i64),
    /// poll's rows.
    Rows(Vec<PollFd>),
    /// epoll_wait's events.
    Events(Vec<EpollEvent>),
    /// A pipe: the end to read, the end to write.
    Pair(Fd, Fd),
}

/// Answer of a call: its result, or an error number.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The result, or the error number. A call that makes a descriptor gives 0 here.
    pub result: Result<i64, i32>,
    /// Output arguments.
    pub got: Got,
}
