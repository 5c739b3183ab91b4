//! Linux's numbers to what the API is asked, for the one that reads them: a script, or the plug-in of the original
//! tool.

use super::Request;
use base::Duration;
use sock::{Fd, RecvFlags, SendFlags};
use tcp::Shutdown;

/// Flags of a call that sends, MSG_FASTOPEN aside; `None` if the API has not all of them.
pub fn send_flags(bits: i64) -> Option<SendFlags> {
    const KNOWN: i32 = libc::MSG_DONTWAIT
        | libc::MSG_NOSIGNAL
        | libc::MSG_MORE
        | libc::MSG_EOR
        | libc::MSG_ZEROCOPY
        | libc::MSG_FASTOPEN;
    let has = |flag: i32| bits & i64::from(flag) != 0;
    (bits & !i64::from(KNOWN) == 0).then(|| SendFlags {
        dont_wait: has(libc::MSG_DONTWAIT),
        more: has(libc::MSG_MORE),
        end_of_record: has(libc::MSG_EOR),
        zero_copy: has(libc::MSG_ZEROCOPY),
    })
}

/// Flags of a call that receives; `None` if the API has not all of them.
pub fn recv_flags(bits: i64) -> Option<RecvFlags> {
    const KNOWN: i32 =
        libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_TRUNC | libc::MSG_NOSIGNAL;
    let has = |flag: i32| bits & i64::from(flag) != 0;
    (bits & !i64::from(KNOWN) == 0).then(|| RecvFlags {
        peek: has(libc::MSG_PEEK),
        dont_wait: has(libc::MSG_DONTWAIT),
        wait_all: has(libc::MSG_WAITALL),
        discard: has(libc::MSG_TRUNC),
    })
}

/// Returns the request of an ioctl: SIOCINQ, SIOCOUTQ, SIOCOUTQNSD.
pub fn ioctl(fd: Fd, number: i64) -> Option<Request> {
    match number {
        0x541b => Some(Request::Readable(fd)),
        0x5411 => Some(Request::Unsent { fd, not_sent: false }),
        0x894b => Some(Request::Unsent { fd, not_sent: true }),
        _ => None,
    }
}

/// Returns the request of an fcntl: F_GETFL, F_SETFL.
pub fn fcntl(fd: Fd, command: i32, argument: i64) -> Option<Request> {
    match command {
        libc::F_GETFL => Some(Request::GetFlags(fd)),
        libc::F_SETFL => Some(Request::SetFlags(fd, argument)),
        _ => None,
    }
}

/// Which directions a shutdown ends.
pub fn shutdown(how: i32) -> Option<Shutdown> {
    match how {
        libc::SHUT_RD => Some(Shutdown::Read),
        libc::SHUT_WR => Some(Shutdown::Write),
        libc::SHUT_RDWR => Some(Shutdown::Both),
        _ => None,
    }
}

/// Milliseconds; negative is for ever.
pub fn timeout(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

/// A backlog that a listener takes.
pub fn backlog(number: i64) -> u32 {
    number.clamp(0, 4_096) as u32
}
