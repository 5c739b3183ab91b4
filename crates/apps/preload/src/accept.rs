//! accept, and the kernel's sockets that stand under accepted connections.

use crate::boundary::{Outcome, Refused, answered, errno, guard, is_inside};
use crate::description::{Description, Kind, NONE};
use crate::real;
use crate::sleep::{beside, input};
use crate::stack::{self, Stack};
use crate::table::{self, Held, Place};
use crate::{epoll, kernel, limit, listener, relay, report, threads};
use base::{Duration, Endpoint};
use capi::memory::put_sized;
use libc::{c_int, c_void, sockaddr, socklen_t};
use sock::runner::Ended;
use sock::{Errno, PollFd, Ready, Sockets, address};
use std::ptr::null;
use std::sync::atomic::{AtomicI32, Ordering};

/// Which all these are copies of: a socket of the kernel's that is nothing yet.
static MODEL: AtomicI32 = AtomicI32::new(NONE);

/// This process is a child: what it has of these is closed.
pub(crate) fn forked() {
    MODEL.store(NONE, Ordering::Release);
}

/// A number of the kernel's for a connection that is about to be accepted. The program has it again if none comes.
struct Number(c_int);

impl Drop for Number {
    fn drop(&mut self) {
        // SAFETY: a descriptor of this process's that nothing else uses.
        unsafe { real::close(self.0) };
    }
}

impl Number {
    /// Takes the lowest one that is free.
    fn take() -> Result<Number, Refused> {
        let known = MODEL.load(Ordering::Acquire);
        let model = if known == NONE { threads::hidden(kernel::blank()?) } else { known };
        // SAFETY: numbers alone.
        let fd = unsafe { real::fcntl(model, libc::F_DUPFD_CLOEXEC, 0) };
        let why = errno();
        if known == NONE && fd < 0 {
            // The last number that was free: nothing is left for copies.
            table::remove_hidden(model);
            if (model as u64) < limit::soft() {
                return Ok(Number(model));
            }
            // SAFETY: a descriptor of ours that nothing else uses.
            unsafe { real::close(model) };
        } else if known == NONE {
            MODEL.store(model, Ordering::Release);
        }
        if fd < 0 { Err(Refused(why)) } else { Ok(Number(fd)) }
    }

    /// A connection has it.
    fn keep(self) -> c_int {
        let fd = self.0;
        std::mem::forget(self);
        fd
    }
}

/// Accepts a connection that waits in the stack, and takes its number; `None` if there is none.
fn waiting(stack: &Stack, below: c_int) -> Outcome<Option<(Number, (c_int, Endpoint))>> {
    let mut row = [PollFd { fd: below, interest: Ready::IN, ready: Ready::NONE }];
    if stack.runner.poll(&mut row, Some(Duration::ZERO))? == 0 {
        return Ok(None);
    }
    let number = Number::take()?;
    match stack.runner.accept(below) {
        // Another thread has accepted it.
        Err(Errno::EAGAIN) => Ok(None),
        accepted => Ok(Some((number, accepted?))),
    }
}

/// Accepts from the kernel's listener, which does not wait; `None` where it would.
///
/// # Safety
/// C's contract of accept4(2).
unsafe fn kernels(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> Option<c_int> {
    // SAFETY: the caller's arguments.
    let other = unsafe { real::accept4(fd, addr, len, flags) };
    if other < 0 && errno() == libc::EAGAIN {
        return None;
    }
    if other >= 0 {
        report::count_kernels();
    }
    Some(other)
}

pub(crate) unsafe fn accept(
    held: &Held,
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> Outcome<c_int> {
    // SAFETY: the caller's arguments.
    unsafe { accept_on(held, fd, addr, len, 0) }
}

pub(crate) unsafe fn accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
    if table::is_kernels(fd) {
        // SAFETY: the caller's arguments.
        return unsafe { real::accept4(fd, addr, len, flags) };
    }
    let ours_calls = is_inside();
    guard(|| match table::look(fd) {
        // SAFETY: the caller's arguments.
        Place::Hidden if ours_calls => Ok(threads::hidden(unsafe { real::accept4(fd, addr, len, flags) })),
        Place::Hidden => Err(Refused(libc::EBADF)),
        // SAFETY: the caller's arguments.
        Place::Kernel => Ok(unsafe { real::accept4(fd, addr, len, flags) }),
        // SAFETY: the caller's arguments.
        Place::Ours(held) => unsafe { accept_on(&held, fd, addr, len, flags) },
    })
}

unsafe fn accept_on(
    held: &Held,
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> Outcome<c_int> {
    let known = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    relay::settle_to_wait(held, fd)?;
    if flags & !known == 0 && relay::is_listener(held) {
        // SAFETY: the caller's arguments.
        return unsafe { relay::accept(held, fd, addr, len, flags) };
    }
    if held.kind() != Kind::Listener || flags & !known != 0 {
        // SAFETY: the caller's arguments; the kernel's socket does not listen, or the flags are not known.
        return answered(unsafe { real::accept4(fd, addr, len, flags) });
    }
    let stack = stack::open()?;
    let below = listener::listen_below(stack, held, fd)?;
    let listener = below;
    listener::accepts(stack, held, below)?;
    let (number, (below, peer)) = match waiting(stack, below)? {
        Some(found) => found,
        None => {
            // SAFETY: the caller's arguments.
            if let Some(other) = unsafe { kernels(fd, addr, len, flags) } {
                return answered(other);
            }
            if held.is_nonblocking() {
                return Err(Refused(libc::EAGAIN));
            }
            let timeout = timeout(stack, below);
            let mut rows = Vec::new();
            loop {
                // As on Linux, a call that waits has its number.
                let number = Number::take()?;
                let wait = stack.runner.wait_beside(
                    Some(below),
                    timeout,
                    &mut |fds, left| {
                        rows.truncate(0);
                        rows.push(input(fd));
                        beside(&mut rows, 1, fds, left, null(), timeout.is_none())
                    },
                    &mut |engine| engine.accept(below),
                );
                match wait {
                    Ok(done) => break (number, done),
                    Err(Ended::Beside) => {
                        // One of the kernel's gets the number.
                        drop(number);
                        // SAFETY: the caller's arguments.
                        if let Some(other) = unsafe { kernels(fd, addr, len, flags) } {
                            return answered(other);
                        }
                    }
                    Err(ended) => {
                        return Err(Refused(match ended {
                            Ended::Signal => libc::EINTR,
                            Ended::Failed(errno) => errno.raw(),
                            _ => libc::EAGAIN,
                        }));
                    }
                }
            }
        }
    };
    if listener::has_accepted(stack, held, listener) {
        epoll::ask_again(held);
    }
    let bytes = address::write(peer, held.is_v6());
    // SAFETY: C's contract for `len`.
    if let Err(refused) = unsafe { capi::memory::has_room(addr, len, bytes.len()) } {
        // As on Linux, a connection whose address cannot be told is closed.
        stack::close(below);
        return Err(refused);
    }
    // SAFETY: C's contract for `addr` and `len`, which were looked at.
    unsafe { finish_accept(stack, held, number.keep(), below, flags, (&bytes, addr, len)) }
}

/// An accepted connection gets its number and its flags, and the program the peer's name.
unsafe fn finish_accept(
    stack: &Stack,
    held: &Held,
    fd: c_int,
    below: c_int,
    flags: c_int,
    (peer, addr, len): (&[u8], *mut sockaddr, *mut socklen_t),
) -> Outcome<c_int> {
    let connection = Description::make(Kind::Stream, held.is_v6(), below);
    connection.set_borrowed(true);
    connection.set_device(held.device());
    if flags & libc::SOCK_NONBLOCK != 0 {
        stack.runner.set_nonblocking(below, true)?;
        connection.set_nonblocking(true);
    }
    if flags & libc::SOCK_CLOEXEC == 0 {
        // SAFETY: numbers alone.
        unsafe { real::fcntl(fd, libc::F_SETFD, 0) };
    }
    if !table::put(fd, connection) {
        // SAFETY: a descriptor that nothing else uses.
        unsafe { real::close(fd) };
        return Err(Refused(libc::EMFILE));
    }
    if !addr.is_null() {
        // SAFETY: the caller vouches for so much room.
        unsafe { put_sized(peer, addr.cast::<c_void>(), len, peer.len()) }?;
    }
    answered(fd)
}

/// SO_RCVTIMEO.
fn timeout(stack: &Stack, below: c_int) -> Option<Duration> {
    let mut time = [0; 16];
    stack.runner.getsockopt(below, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &mut time).ok()?;
    let half = |at: usize| u64::from_ne_bytes(time[at..at + 8].try_into().unwrap_or_default());
    let (seconds, micros) = (half(0), half(8));
    (seconds | micros != 0).then(|| Duration::from_secs(seconds) + Duration::from_micros(micros))
}
