//! System calls: what the script writes to what the door is asked, and the answer to what the script may check.

mod check;
mod message;
mod perform;
mod prepare;

pub(super) use check::check;
pub(super) use perform::{perform, tcp_info};
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

/// A call as the door takes it.
#[derive(Clone, Debug)]
pub(super) enum Request {
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
    /// recvmsg: the same as Recv, and what is told beside the octets.
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
    /// Octets not acknowledged, or of these not sent.
    Unsent {
        fd: Fd,
        not_sent: bool,
    },
    Poll(Vec<PollFd>, Option<Duration>),
    EpollCreate,
    EpollCtl(Fd, Fd, EpollOp),
    EpollWait(Fd, usize, Option<Duration>),
    Pipe,
}

/// What a send with MSG_FASTOPEN connects to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FastOpen {
    To(Endpoint),
    /// AF_UNSPEC, which Linux refuses.
    Unspecified,
}

/// What came with the result.
#[derive(Clone, Debug)]
pub(super) enum Got {
    Nothing,
    Descriptor(Fd, Option<Endpoint>),
    Octets(Vec<u8>),
    Message(Vec<u8>, Received),
    Error(ErrorReport),
    Number(i64),
    Rows(Vec<PollFd>),
    Events(Vec<EpollEvent>),
    Pair(Fd, Fd),
}

/// What a call gave: its result, or an error number.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) result: Result<i64, i32>,
    pub(super) got: Got,
}
