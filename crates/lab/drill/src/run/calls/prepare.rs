//! From a call's expressions to a request.

use super::numbers::{self, recv_flags, send_flags, timeout};
use super::{FastOpen, Request, Stop};
use crate::lang::{Call, Expr, ExprKind};
use crate::run::flow::byte;
use crate::run::known::Known;
use base::{Addr, Endpoint};
use sock::{EpollEvent, EpollOp, Family, Fd, PollFd, Ready};
use std::net::IpAddr;

/// A descriptor that nothing has.
const NO_FD: Fd = Fd::MAX;
/// Longest buffer of one call.
const BUFFER_MAX: i64 = 1 << 26;

type Result<T> = std::result::Result<T, Stop>;

/// Returns the request for the socket API.
pub(in crate::run) fn prepare(known: &Known, call: &Call) -> Result<Request> {
    let a = Arguments { known, call };
    let request = request(&a)?;
    let null = call.arguments.get(1).is_some_and(|buffer| buffer.kind == ExprKind::Int(0));
    match request {
        Request::Recv { flags, .. } if null && !flags.discard => Ok(Request::Nowhere(Box::new(request))),
        Request::Send { .. } if null => Ok(Request::Nowhere(Box::new(request))),
        other => Ok(other),
    }
}

/// Returns the request of a call whose buffer, if it has one, exists.
fn request(a: &Arguments<'_>) -> Result<Request> {
    let Arguments { known, call } = *a;
    match call.name.as_str() {
        "socket" => a.socket(),
        "bind" => Ok(Request::Bind(a.fd(0)?, a.endpoint(1, known.options.local, known.options.bind_port)?)),
        "listen" => Ok(Request::Listen(a.fd(0)?, numbers::backlog(a.int(1)?))),
        "accept" => Ok(Request::Accept(a.fd(0)?, false)),
        "accept4" => Ok(Request::Accept(a.fd(0)?, a.int(3)? & i64::from(libc::SOCK_NONBLOCK) != 0)),
        "connect" => {
            Ok(Request::Connect(a.fd(0)?, a.endpoint(1, known.options.remote, known.options.connect_port)?))
        }
        "read" => a.recv(a.len(2)?, 0),
        "readv" => a.recv(a.vectors(1)?, 0),
        "recv" | "recvfrom" => a.recv(a.len(2)?, a.int(3)?),
        "recvmsg" => a.recvmsg(),
        "write" => a.send(a.len(2)?, 0),
        "writev" => a.send(a.vectors(1)?, 0),
        "send" => a.send(a.len(2)?, a.int(3)?),
        "sendto" => a.sendto(),
        "sendmsg" => a.send_to(a.send(a.message(1)?, a.int(2)?)?, a.int(2)?, None),
        "shutdown" => a.shutdown(),
        "close" => Ok(Request::Close(a.fd(0)?)),
        "setsockopt" => {
            let (level, name) = (a.int(1)? as i32, a.int(2)? as i32);
            let value = match super::keys::concerns(level, name) {
                true => super::keys::value(known, name, a.get(3)?)?,
                false => a.value()?,
            };
            Ok(Request::SetOption { fd: a.fd(0)?, level, name, value })
        }
        "getsockopt" => {
            let (level, name) = (a.int(1)? as i32, a.int(2)? as i32);
            Ok(Request::GetOption { fd: a.fd(0)?, level, name, len: a.value_len()? })
        }
        "fcntl" => a.fcntl(),
        "ioctl" => a.ioctl(),
        "poll" => a.poll(),
        "epoll_create" | "epoll_create1" => Ok(Request::EpollCreate),
        "epoll_ctl" => a.epoll_ctl(),
        "epoll_wait" => {
            Ok(Request::EpollWait(a.fd(0)?, a.int(2)?.clamp(0, 1024) as usize, timeout(a.int(3)?)))
        }
        "pipe" => Ok(Request::Pipe),
        "splice" => {
            let dont_wait = a.int(5)? & i64::from(libc::SPLICE_F_NONBLOCK) != 0;
            Ok(Request::Splice { from: a.fd(0)?, to: a.fd(2)?, len: bounded(a.int(4)?)?, dont_wait })
        }
        name => Stop::unsupported(format!("the call {name}()")),
    }
}

struct Arguments<'a> {
    known: &'a Known,
    call: &'a Call,
}

impl Arguments<'_> {
    fn get(&self, index: usize) -> Result<&Expr> {
        let missing = || Stop::Fail(format!("{}() needs more than {index} arguments", self.call.name));
        self.call.arguments.get(index).ok_or_else(missing)
    }

    fn int(&self, index: usize) -> Result<i64> {
        self.known.int(self.get(index)?)
    }

    /// The live descriptor; a number that stands for none is one that nothing has.
    fn fd(&self, index: usize) -> Result<Fd> {
        Ok(self.known.fds.get(&self.int(index)?).copied().unwrap_or(NO_FD))
    }

    fn len(&self, index: usize) -> Result<usize> {
        bounded(self.int(index)?)
    }

    fn socket(&self) -> Result<Request> {
        let tcp = [i64::from(libc::IPPROTO_TCP), 0];
        if self.int(1)? & 0xf != i64::from(libc::SOCK_STREAM) || !tcp.contains(&self.int(2)?) {
            return Stop::unsupported("sockets of other kinds than TCP");
        }
        let v4 = match self.get(0)?.kind {
            ExprKind::Any => self.known.options.version == crate::run::options::IpVersion::V4,
            _ => self.int(0)? == i64::from(libc::AF_INET),
        };
        Ok(Request::Socket(if v4 { Family::V4 } else { Family::V6 }))
    }

    /// `...` is the usual one.
    fn endpoint(&self, index: usize, addr: Addr, port: u16) -> Result<Endpoint> {
        endpoint_of(self.known, self.get(index)?, addr, port)
    }

    fn recv(&self, len: usize, flags: i64) -> Result<Request> {
        match recv_flags(flags) {
            Some(flags) => Ok(Request::Recv { fd: self.fd(0)?, len, flags }),
            None => Stop::unsupported(format!("flags {flags:#x} of {}()", self.call.name)),
        }
    }

    fn send(&self, len: usize, flags: i64) -> Result<Request> {
        const NAMED: &[(i32, &str)] = &[(libc::MSG_OOB, "MSG_OOB")];
        if let Some((_, name)) = NAMED.iter().find(|(bit, _)| flags & i64::from(*bit) != 0) {
            return Stop::unsupported(*name);
        }
        let Some(flags) = send_flags(flags) else {
            return Stop::unsupported(format!("flags {flags:#x} of {}()", self.call.name));
        };
        // The bytes that belong at this place of the stream.
        let script_fd = self.int(0)?;
        let first = self.known.flow_of(script_fd).map_or(0, |flow| flow.written) as u32;
        let data = (1..=len as u32).map(|i| byte(first.wrapping_add(i))).collect();
        Ok(Request::Send { fd: self.fd(0)?, data, flags, fast_open: None })
    }

    /// Prepares recvmsg; its control messages are compared with the result.
    fn recvmsg(&self) -> Result<Request> {
        let (fd, flags) = (self.fd(0)?, self.int(2)?);
        if flags & i64::from(libc::MSG_ERRQUEUE) != 0 {
            return Ok(Request::RecvError(fd));
        }
        let fields = self.get(1)?;
        let len = self.known.field(fields, "msg_iov")?.map_or(Ok(0), |list| self.iovecs(list))?;
        match recv_flags(flags) {
            Some(flags) => Ok(Request::RecvMessage { fd, len, flags }),
            None => Stop::unsupported(format!("flags {flags:#x} of recvmsg()")),
        }
    }

    fn sendto(&self) -> Result<Request> {
        let request = self.send(self.len(2)?, self.int(3)?)?;
        self.send_to(request, self.int(3)?, self.get(4).ok())
    }

    /// A TCP socket asks whom to send to only with MSG_FASTOPEN.
    fn send_to(&self, request: Request, flags: i64, to: Option<&Expr>) -> Result<Request> {
        let Request::Send { fd, data, flags: how, .. } = request else { return Ok(request) };
        let unspecified =
            to.is_some_and(|to| matches!(&to.kind, ExprKind::Name(name) if name == "AF_UNSPEC"));
        let fast_open = if flags & i64::from(libc::MSG_FASTOPEN) == 0 {
            None
        } else if unspecified {
            Some(FastOpen::Unspecified)
        } else {
            let (addr, port) = (self.known.options.remote, self.known.options.connect_port);
            let usual = Endpoint::new(addr, port);
            Some(FastOpen::To(to.map_or(Ok(usual), |to| endpoint_of(self.known, to, addr, port))?))
        };
        Ok(Request::Send { fd, data, flags: how, fast_open })
    }

    /// Bytes of `[{..., 10}, {..., 20}]` together.
    fn vectors(&self, index: usize) -> Result<usize> {
        self.iovecs(self.get(index)?)
    }

    fn iovecs(&self, list: &Expr) -> Result<usize> {
        let ExprKind::Array(items) = &list.kind else { return Stop::fail("an array of {..., length}") };
        let mut total = 0;
        for item in items {
            let ExprKind::Struct(fields) = &item.kind else { return Stop::fail("{..., length} is expected") };
            let Some(last) = fields.last() else { return Stop::fail("{..., length} is expected") };
            total += match &last.kind {
                ExprKind::Field(_, _, value) => self.known.int(value)?,
                _ => self.known.int(last)?,
            };
        }
        bounded(total)
    }

    /// Bytes of a message's vectors; control data to be sent is not supported.
    fn message(&self, index: usize) -> Result<usize> {
        let ExprKind::Struct(fields) = &self.get(index)?.kind else {
            return Stop::fail("a message is {...}");
        };
        let mut len = 0;
        for field in fields {
            let ExprKind::Field(name, _, value) = &field.kind else { continue };
            match name.as_str() {
                "msg_iov" => len = self.iovecs(value)?,
                "msg_control" => return Stop::unsupported("control messages (msg_control)"),
                _ => {}
            }
        }
        Ok(len)
    }

    fn shutdown(&self) -> Result<Request> {
        let number = self.int(1)?;
        let Some(how) = numbers::shutdown(number as i32) else {
            return Stop::unsupported(format!("shutdown() with {number}"));
        };
        Ok(Request::Shutdown(self.fd(0)?, how))
    }

    /// The value of a setsockopt, cut to its length.
    fn value(&self) -> Result<Vec<u8>> {
        let len = bounded(self.int(4)?)?;
        let mut bytes = self.bytes(self.get(3)?)?;
        bytes.resize(len, 0);
        Ok(bytes)
    }

    fn bytes(&self, expr: &Expr) -> Result<Vec<u8>> {
        Ok(match &expr.kind {
            ExprKind::Array(items) => {
                let words: Result<Vec<[u8; 4]>> =
                    items.iter().map(|item| Ok((self.known.int(item)? as i32).to_ne_bytes())).collect();
                words?.concat()
            }
            // A character of a text is a byte, as in C.
            ExprKind::Text(text) => text.chars().map(|c| c as u8).collect(),
            ExprKind::Struct(fields) => {
                let mut bytes = Vec::new();
                for field in fields {
                    let ExprKind::Field(name, _, value) = &field.kind else {
                        return Stop::unsupported("an option whose value is such a struct");
                    };
                    let number = self.known.int(value)?;
                    match name.as_str() {
                        "onoff" | "linger" | "l_onoff" | "l_linger" => {
                            bytes.extend((number as i32).to_ne_bytes());
                        }
                        "tv_sec" | "tv_usec" => bytes.extend(number.to_ne_bytes()),
                        _ => return Stop::unsupported(format!("an option whose value has a field {name}")),
                    }
                }
                bytes
            }
            _ => (self.known.int(expr)? as i32).to_ne_bytes().to_vec(),
        })
    }

    fn value_len(&self) -> Result<usize> {
        match &self.get(4)?.kind {
            ExprKind::Array(items) => items.first().map_or(Ok(0), |len| bounded(self.known.int(len)?)),
            ExprKind::Any => Ok(256),
            _ => bounded(self.int(4)?),
        }
    }

    fn fcntl(&self) -> Result<Request> {
        let (command, argument) =
            (self.int(1)?, self.get(2).map_or(Ok(0), |argument| self.known.int(argument)));
        match numbers::fcntl(self.fd(0)?, command as i32, argument?) {
            Some(request) => Ok(request),
            None => Stop::unsupported(format!("fcntl() with {command}")),
        }
    }

    fn ioctl(&self) -> Result<Request> {
        let number = self.int(1)?;
        match numbers::ioctl(self.fd(0)?, number) {
            Some(request) => Ok(request),
            None => Stop::unsupported(format!("ioctl() with {number:#x}")),
        }
    }

    fn poll(&self) -> Result<Request> {
        let ExprKind::Array(items) = &self.get(0)?.kind else { return Stop::fail("poll() wants an array") };
        let mut rows = Vec::new();
        for item in items {
            let script_fd = self.known.field(item, "fd")?.map_or(Ok(-1), |fd| self.known.int(fd))?;
            let interest =
                self.known.field(item, "events")?.map_or(Ok(0), |events| self.known.int(events))?;
            let fd = self.known.fds.get(&script_fd).copied().unwrap_or(NO_FD);
            rows.push(PollFd { fd, interest: Ready(interest as u32), ready: Ready::NONE });
        }
        Ok(Request::Poll(rows, timeout(self.int(2)?)))
    }

    fn epoll_ctl(&self) -> Result<Request> {
        let (epfd, fd) = (self.fd(0)?, self.fd(2)?);
        let event = || -> Result<EpollEvent> {
            let item = self.get(3)?;
            let ready = self.known.field(item, "events")?.map_or(Ok(0), |events| self.known.int(events))?;
            Ok(EpollEvent { ready: Ready(ready as u32), data: self.known.event_data(item)? })
        };
        let op = match self.int(1)? as i32 {
            libc::EPOLL_CTL_ADD => EpollOp::Add(event()?),
            libc::EPOLL_CTL_MOD => EpollOp::Modify(event()?),
            libc::EPOLL_CTL_DEL => EpollOp::Delete,
            other => return Stop::unsupported(format!("epoll_ctl() with {other}")),
        };
        Ok(Request::EpollCtl(epfd, fd, op))
    }
}

/// The endpoint that a struct of the script names; `...` is the usual one, and so is what it leaves out.
pub(super) fn endpoint_of(known: &Known, expr: &Expr, addr: Addr, port: u16) -> Result<Endpoint> {
    let mut endpoint = Endpoint::new(addr, port);
    let fields = match &expr.kind {
        ExprKind::Any => return Ok(endpoint),
        ExprKind::Struct(fields) => fields,
        _ => return Stop::unsupported("an address that is neither `...` nor {sa_family=..., ...}"),
    };
    for field in fields {
        let ExprKind::Field(name, _, value) = &field.kind else { continue };
        match (name.as_str(), &value.kind) {
            ("sin_port" | "sin6_port", ExprKind::Apply(_, ports)) => {
                endpoint.port = ports.first().map_or(Ok(0), |port| known.int(port))? as u16;
            }
            ("sin_addr" | "sin6_addr", ExprKind::Apply(_, texts)) => {
                let Some(ExprKind::Text(text)) = texts.first().map(|text| &text.kind) else { continue };
                let Ok(addr) = text.parse::<IpAddr>() else {
                    return Stop::fail(format!("\"{text}\" is no address"));
                };
                endpoint.addr = addr.into();
            }
            _ => {}
        }
    }
    Ok(endpoint)
}

fn bounded(len: i64) -> Result<usize> {
    match (0..=BUFFER_MAX).contains(&len) {
        true => Ok(len as usize),
        false => Stop::unsupported(format!("a buffer of {len} bytes")),
    }
}
