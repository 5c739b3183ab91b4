//! Asking the API. This may wait, on the thread of a blocking call.

use super::{Answer, FastOpen, Got, Request};
use sock::{EpollEvent, Errno, RecvFlags, SendFlags, Sockets};
use std::sync::Arc;

/// Asks, and waits if the call does.
pub fn perform(request: Request, sockets: &dyn Sockets) -> Answer {
    match ask(request, sockets) {
        Ok((result, got)) => Answer { result: Ok(result), got },
        Err(errno) => Answer { result: Err(errno.raw()), got: Got::Nothing },
    }
}

fn ask(request: Request, sockets: &dyn Sockets) -> Result<(i64, Got), Errno> {
    let nothing = |()| (0, Got::Nothing);
    match request {
        Request::Socket(family) => sockets.socket(family).map(|fd| (0, Got::Descriptor(fd, None))),
        Request::Bind(fd, local) => sockets.bind(fd, local).map(nothing),
        Request::Listen(fd, backlog) => sockets.listen(fd, backlog).map(nothing),
        Request::Accept(fd, nonblocking) => {
            let (fd, peer) = sockets.accept(fd)?;
            if nonblocking {
                sockets.set_nonblocking(fd, true)?;
            }
            Ok((0, Got::Descriptor(fd, Some(peer))))
        }
        Request::Connect(fd, remote) => sockets.connect(fd, remote).map(nothing),
        Request::Recv { fd, len, flags } => {
            let mut into = vec![0; len];
            let got = sockets.recv(fd, &mut into, flags)?;
            into.truncate(got);
            Ok((got as i64, Got::Bytes(into)))
        }
        Request::RecvMessage { fd, len, flags } => {
            let mut into = vec![0; len];
            let got = sockets.recv_message(fd, &mut into, flags)?;
            into.truncate(if flags.discard { 0 } else { got.len });
            Ok((got.len as i64, Got::Message(into, got)))
        }
        Request::RecvError(fd) => sockets.recv_error(fd).map(|report| (0, Got::Error(report))),
        Request::Send { fd, data, flags, fast_open: None } if flags.zero_copy => {
            let data: Arc<[u8]> = data.into();
            let range = 0..data.len();
            Ok((sockets.lend(fd, &data, range, flags)? as i64, Got::Nothing))
        }
        Request::Send { fd, data, flags, fast_open } => {
            let sent = match fast_open {
                None => sockets.send(fd, &data, flags)?,
                Some(FastOpen::To(remote)) => sockets.send_fast(fd, &data, Some(remote), flags)?,
                Some(FastOpen::Unnamed) => sockets.send_fast(fd, &data, None, flags)?,
                Some(FastOpen::Unspecified) => return Err(Errno::EOPNOTSUPP),
            };
            Ok((sent as i64, Got::Nothing))
        }
        Request::Shutdown(fd, how) => sockets.shutdown(fd, how).map(nothing),
        Request::Close(fd) => sockets.close(fd).map(nothing),
        Request::SetOption { fd, level, name, value } => {
            sockets.setsockopt(fd, level, name, &value).map(nothing)
        }
        Request::GetOption { fd, level, name, len } => {
            let mut into = vec![0; len];
            let got = sockets.getsockopt(fd, level, name, &mut into)?;
            into.truncate(got);
            Ok((0, Got::Bytes(into)))
        }
        Request::SetFlags(fd, flags) => {
            sockets.set_nonblocking(fd, flags & i64::from(libc::O_NONBLOCK) != 0).map(nothing)
        }
        Request::GetFlags(fd) => {
            let nonblocking = if sockets.nonblocking(fd)? { libc::O_NONBLOCK } else { 0 };
            Ok((i64::from(libc::O_RDWR | nonblocking), Got::Nothing))
        }
        Request::Readable(fd) => Ok((0, Got::Number(sockets.readable(fd)? as i64))),
        Request::Unsent { fd, not_sent } => {
            let (unacknowledged, unsent) = sockets.unsent(fd)?;
            Ok((0, Got::Number(if not_sent { unsent } else { unacknowledged } as i64)))
        }
        Request::Poll(mut rows, timeout) => {
            let n = sockets.poll(&mut rows, timeout)?;
            Ok((n as i64, Got::Rows(rows)))
        }
        Request::EpollCreate => sockets.epoll_create().map(|fd| (0, Got::Descriptor(fd, None))),
        Request::EpollCtl(epfd, fd, op) => sockets.epoll_ctl(epfd, fd, op).map(nothing),
        Request::EpollWait(epfd, max, timeout) => {
            let mut events = vec![EpollEvent::default(); max];
            let n = sockets.epoll_wait(epfd, &mut events, timeout)?;
            events.truncate(n);
            Ok((n as i64, Got::Events(events)))
        }
        Request::Nowhere(call) => nowhere(*call, sockets),
        Request::Splice { from, to, len, dont_wait } => {
            splice(sockets, from, to, len, dont_wait).map(|moved| (moved as i64, Got::Nothing))
        }
        Request::Pipe => sockets.pipe().map(|(read, write)| (0, Got::Pair(read, write))),
    }
}

/// A buffer that is NULL is an error only where bytes would be put there or taken from there.
fn nowhere(call: Request, sockets: &dyn Sockets) -> Result<(i64, Got), Errno> {
    let here = match call {
        Request::Recv { fd, len, flags } if len > 0 && !flags.discard => {
            Request::Recv { fd, len: 1, flags: RecvFlags { peek: true, ..flags } }
        }
        Request::Send { fast_open: Some(_), .. } => return Err(Errno::EFAULT),
        Request::Send { fd, data, flags, fast_open } if !data.is_empty() => {
            ask(Request::Send { fd, data: Vec::new(), flags, fast_open }, sockets)?;
            return Err(Errno::EFAULT);
        }
        harmless => return ask(harmless, sockets),
    };
    match ask(here, sockets)? {
        (0, got) => Ok((0, got)),
        _ => Err(Errno::EFAULT),
    }
}

/// Moves what can be moved at once, from a socket to a pipe or back (splice(2)). Waits for the first byte.
fn splice(
    sockets: &dyn Sockets,
    from: sock::Fd,
    to: sock::Fd,
    len: usize,
    dont_wait: bool,
) -> Result<usize, Errno> {
    /// Capacity of a pipe on Linux, bytes.
    const PIPE: usize = 65_536;
    let mut bytes = vec![0; len.min(PIPE)];
    let flags = RecvFlags { dont_wait, ..RecvFlags::default() };
    // A pipe cannot be looked into, a socket can: what does not fit into the pipe stays in the socket.
    match sockets.recv(from, &mut bytes, RecvFlags { peek: true, ..flags }) {
        Ok(seen) => {
            let moved = match seen {
                0 => 0,
                _ => sockets.send(to, &bytes[..seen], SendFlags { dont_wait, ..SendFlags::default() })?,
            };
            sockets.recv(from, &mut bytes[..moved], flags)
        }
        Err(Errno::ENOTSOCK) => {
            let taken = sockets.recv(from, &mut bytes, flags)?;
            sockets.send(to, &bytes[..taken], SendFlags::default())
        }
        Err(e) => Err(e),
    }
}

/// The bytes of `struct tcp_info`, empty where there is none to have.
pub(in crate::run) fn tcp_info(sockets: &dyn Sockets, fd: sock::Fd) -> Vec<u8> {
    let request =
        Request::GetOption { fd, level: libc::IPPROTO_TCP, name: libc::TCP_INFO, len: sock::tcp_info::LEN };
    match perform(request, sockets).got {
        Got::Bytes(bytes) => bytes,
        _ => Vec::new(),
    }
}
