//! Sockets that are left to the kernel: which traffic may be, and what is told of it.

use crate::boundary::{Failure, Outcome, Refused, answered, errno, say, set_errno};
use crate::table::{self, Held};
use crate::{epoll, real, report, route, stack};
use libc::{c_int, c_void, socklen_t};
use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// Traffic of a socket that may be left to the kernel.
#[derive(Clone, Copy)]
pub(crate) enum Traffic {
    /// Arrivals at this address.
    At(IpAddr),
    /// Connections to this address.
    To(IpAddr),
    /// Traffic of another device than the link's; the loopback, if that is it.
    Device { loopback: bool },
    /// Whatever the program says over it.
    Any,
}

impl Traffic {
    /// Returns true for what the machine says to itself, which is the kernel's in any case.
    fn stays_here(self) -> bool {
        match self {
            Traffic::At(own) => own.to_canonical().is_loopback(),
            Traffic::To(peer) => route::is_the_kernels(peer),
            Traffic::Device { loopback } => loopback,
            Traffic::Any => false,
        }
    }
}

impl Display for Traffic {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Traffic::At(own) => write!(f, "a socket at {}", own.to_canonical()),
            Traffic::To(peer) => write!(f, "connections to {}", peer.to_canonical()),
            Traffic::Device { .. } => f.write_str("a socket on another device"),
            Traffic::Any => f.write_str("a socket"),
        }
    }
}

/// The socket is the kernel's, under all its numbers.
///
/// # Errors
/// As [`may_be_kernels`].
pub(crate) fn leave_to_kernel(held: &Held, traffic: Traffic, why: &str) -> Outcome<()> {
    may_be_kernels(traffic, why)?;
    becomes_kernels(held);
    Ok(())
}

/// As [`leave_to_kernel`], once the kernel's `call` has given the socket a name or begun to connect it. A call that
/// fails decides nothing: the socket may yet become the stack's.
pub(crate) fn leave_by<R: Failure + PartialEq>(
    held: &Held,
    traffic: Traffic,
    why: &str,
    call: impl FnOnce() -> R,
) -> Outcome<R> {
    may_be_kernels(traffic, why)?;
    let done = call();
    let error = errno();
    if done != R::FAILURE || GOES_ON.contains(&error) && held.more().refused.is_none() {
        becomes_kernels(held);
    }
    set_errno(error);
    answered(done)
}

/// Errors of connect(2) behind which the attempt goes on, unless the kernel has given it up by then.
pub(crate) const GOES_ON: [c_int; 2] = [libc::EINPROGRESS, libc::EINTR];

fn becomes_kernels(held: &Held) {
    epoll::becomes_kernels(held);
    let (ours, _) = table::all();
    for fd in ours {
        if table::ours(fd).is_some_and(|other| other.is(held)) {
            table::remove(fd);
        }
    }
}

/// Most fallbacks of one process that are told at the end.
const TOLD_MAX: usize = 32;

/// Allows the kernel this traffic. What is not the machine's with itself is told, or refused where the launch wants it.
///
/// # Errors
/// ENETUNREACH with `--require`, and a line that says why.
pub(crate) fn may_be_kernels(traffic: Traffic, why: &str) -> Outcome<()> {
    if traffic.stays_here() {
        return Ok(());
    }
    let what = traffic.to_string();
    if report::is_required() {
        say(&format!("{what}: {why}, and --require forbids the kernel"));
        return Err(Refused(libc::ENETUNREACH));
    }
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    if told.len() < TOLD_MAX && !told.contains(&what) {
        report::fell_back(&what, why);
        told.push(what);
    }
    Ok(())
}

/// Fastens the kernel's socket to the loopback, or loosens it: there it keeps the port from others, and serves what the
/// machine says to itself. The address may be one that the kernel does not have.
pub(crate) fn fasten(held: &Held, fd: c_int, on: bool) {
    let mut more = held.more();
    if more.fastened == on {
        return;
    }
    more.fastened = on;
    let device: &[u8] = if on { b"lo\0" } else { b"\0" };
    // SAFETY: a name that ends in NUL. Should the kernel refuse, bind or the stack's claim of the port says so.
    unsafe {
        real::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            device.as_ptr().cast::<c_void>(),
            device.len() as socklen_t,
        );
        if stack::settings().is_some_and(|settings| !settings.address.is_empty()) {
            let flag = c_int::from(on);
            real::setsockopt(
                fd,
                libc::IPPROTO_IP,
                libc::IP_FREEBIND,
                (&raw const flag).cast::<c_void>(),
                size_of::<c_int>() as socklen_t,
            );
        }
    }
}
