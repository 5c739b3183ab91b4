//! socket, bind, listen, connect, shutdown: where it is decided whose a socket becomes.

use crate::boundary::{Failure, Outcome, Refused, answered, errno, guard, is_inside, set_errno};
use crate::description::{Description, Kind, NONE};
use crate::descriptors::KEPT;
use crate::fallback::{GOES_ON, Traffic, fasten, leave_by, leave_to_kernel, may_be_kernels};
use crate::listener::{backlog_of, bind_below, claim_below, listen_as, programs_name};
use crate::real;
use crate::stack::{self, Stack};
use crate::table::{self, Held, Place};
use crate::{
    descriptors, device, diag, end, epoll, fork, kernel, limit, names, privileges, relay, report, route,
    stored, threads,
};
use capi::Context;
use capi::calls::sockets as c;
use libc::{c_int, sockaddr, socklen_t};
use sock::address;
use sock::{Errno, Family, Sockets};
use std::net::{IpAddr, SocketAddr};

pub(crate) unsafe fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // A socket of Multipath TCP does without it where the peer does not have it (RFC 8684, section 3.7). The kernel is
    // asked for TCP, too: it may have been built without, and the program's other calls are about TCP.
    let multipath = protocol == libc::IPPROTO_MPTCP && !is_inside() && stack::settings().is_some();
    let protocol = if multipath { libc::IPPROTO_TCP } else { protocol };
    // SAFETY: the caller's arguments.
    let open = || unsafe { real::socket(domain, kind, protocol) };
    if is_inside() {
        return threads::hidden(limit::own(open));
    }
    let fd = open();
    if fd < 0 {
        return fd;
    }
    let tcp = matches!(domain, libc::AF_INET | libc::AF_INET6)
        && kind & 0xf == libc::SOCK_STREAM
        && matches!(protocol, 0 | libc::IPPROTO_TCP);
    let ours = tcp
        && stack::settings().is_some()
        && table::put(fd, Description::make(Kind::Fresh, domain == libc::AF_INET6, NONE));
    if tcp && !ours && report::is_required() {
        // SAFETY: a descriptor that the program has not seen.
        unsafe { real::close(fd) };
        return guard(|| {
            may_be_kernels(Traffic::Any, "the stack has no settings, or no place for its number")
                .map(|()| NONE)
        });
    }
    fd
}

pub(crate) unsafe fn bind(held: &Held, fd: c_int, addr: *const sockaddr, len: socklen_t) -> Outcome<c_int> {
    match held.kind() {
        Kind::Fresh => {}
        Kind::Stream => {
            let (stack, below) = (stack::open()?, held.below());
            return match stack.runner.apart(below) {
                bound if bound == Some(None) || stack.runner.is_over(below) => {
                    // SAFETY: the caller's arguments.
                    answered(unsafe { c::ms_bind(stack.context(), below, addr, len) })
                }
                // SAFETY: the caller's arguments.
                _ => Err(unsafe { why_not_again(held, addr, len) }),
            };
        }
        // SAFETY: the caller's arguments. The kernel's socket under a listener knows what to say.
        _ => return answered(unsafe { real::bind(fd, addr, len) }),
    }
    // SAFETY: C's contract.
    let named = unsafe { route::named_for(held.is_v6(), addr, len) };
    match named {
        Some(named) if !route::is_served(named.ip()) => {
            return leave_by(held, Traffic::At(named.ip()), "the link does not have this address", || {
                device::apply(held, fd);
                // SAFETY: the caller's arguments.
                unsafe { real::bind(fd, addr, len) }
            });
        }
        Some(named) if is_taken(fd, named) => return Err(Refused(libc::EADDRINUSE)),
        Some(_) => {
            // Beside the loopback the port stays free in the kernel, for the link to take.
            fasten(held, fd, true);
            let on_link = named.and_then(|named| device::bind_on_link(held, fd, named));
            // SAFETY: the caller's arguments.
            let done = on_link.unwrap_or_else(|| unsafe { real::bind(fd, addr, len) });
            if done < 0 {
                let why = errno();
                fasten(held, fd, false);
                set_errno(why);
            }
            return answered(done);
        }
        None => {}
    }
    // SAFETY: the caller's arguments.
    answered(unsafe { real::bind(fd, addr, len) })
}

/// Returns true if a connection of the stack keeps the address from a new socket, as one of the kernel's would.
fn is_taken(fd: c_int, named: SocketAddr) -> bool {
    let is_unset = |name| kernel::number(fd, libc::SOL_SOCKET, name) == Some(0);
    let is_bound = || kernel::name(fd).is_none_or(|name| name.port() != 0);
    stack::opened().is_some_and(|stack| {
        stack.runner.is_used(named.into(), kernel::is_v6_only(fd))
            && is_unset(libc::SO_REUSEADDR)
            && is_unset(libc::SO_REUSEPORT)
            && !is_bound()
    })
}

/// Returns the error of bind on a socket that has a name: EINVAL, unless the kernel refuses the address to any. An
/// IPv6 socket looks at its own state before it looks whether the address is local.
///
/// # Safety
/// C's contract of bind(2).
unsafe fn why_not_again(held: &Held, addr: *const sockaddr, len: socklen_t) -> Refused {
    let asked = match kernel::blank_of(held.is_v6()) {
        Ok(asked) => asked,
        Err(refused) => return refused,
    };
    // SAFETY: the caller's arguments, and a descriptor of this frame's.
    let why = unsafe {
        let done = real::bind(asked, addr, len);
        let why = if done == 0 { libc::EADDRINUSE } else { errno() };
        real::close(asked);
        why
    };
    // SAFETY: the kernel has read it.
    let is_served = || unsafe { route::named(addr, len) }.is_some_and(|named| route::is_served(named.ip()));
    Refused(match why {
        libc::EADDRINUSE => libc::EINVAL,
        libc::EADDRNOTAVAIL if held.is_v6() || is_served() => libc::EINVAL,
        why => why,
    })
}

pub(crate) unsafe fn listen(fd: c_int, backlog: c_int) -> c_int {
    let traffic = || kernel::name(fd).map(|named| Traffic::At(named.ip()));
    // SAFETY: numbers alone.
    let kernels = || unsafe { real::listen(fd, backlog) };
    // SAFETY: numbers alone.
    decide(fd, traffic, kernels, |held| unsafe { listen_on(held, fd, backlog) })
}

/// Runs a call that decides whose a socket becomes: `ours` on one that the launcher has made, `kernels` on another,
/// unless the launch refuses its traffic.
fn decide(
    fd: c_int,
    traffic: impl FnOnce() -> Option<Traffic>,
    kernels: impl Fn() -> c_int,
    ours: impl FnOnce(&Held) -> Outcome<c_int>,
) -> c_int {
    let ours_calls = is_inside();
    if table::is_kernels(fd) && (ours_calls || !report::is_required()) {
        return kernels();
    }
    guard(|| match table::look(fd) {
        Place::Hidden if !ours_calls => Err(Refused(libc::EBADF)),
        Place::Hidden => answered(kernels()),
        Place::Kernel => {
            if let (Some(traffic), true) = (traffic(), kernel::is_tcp(fd)) {
                may_be_kernels(traffic, STRANGE)?;
            }
            answered(kernels())
        }
        Place::Ours(held) => {
            relay::settle(&held)?;
            listens_no_more(&held, fd)?;
            ours(&held)
        }
    })
}

/// A listener that was shut, or taken apart, is a socket of which nothing is decided.
fn listens_no_more(held: &Held, fd: c_int) -> Outcome<()> {
    if held.kind() != Kind::Listener || kernel::number(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) != Some(0) {
        return Ok(());
    }
    let below = held.below();
    held.set_below(NONE);
    if below != NONE {
        stack::close(below);
    }
    give_flags_back(held, fd);
    held.set_kind(Kind::Fresh);
    Ok(())
}

/// The kernel's socket under the number waits, or does not, as the program has said.
fn give_flags_back(held: &Held, fd: c_int) {
    let waits = if held.is_nonblocking() { libc::O_NONBLOCK } else { 0 };
    // SAFETY: numbers alone.
    unsafe { real::fcntl(fd, libc::F_SETFL, (held.flags() | waits).into()) };
}

/// Prepares the kernel's socket under a connection that was taken apart for what the program does next with it: it
/// has the name and the flags of the stack's, and is in the kernel's sets, too.
fn back_to_kernel(stack: &Stack, held: &Held, fd: c_int, bound: Option<base::Endpoint>) -> Outcome<()> {
    descriptors::part(held)?;
    give_flags_back(held, fd);
    if let Some(bound) = bound
        && kernel::name(fd).is_some_and(|name| name.port() == 0)
    {
        fasten(held, fd, true);
        let name = address::write(bound, held.is_v6());
        // SAFETY: a socket address of so many bytes.
        if unsafe { real::bind(fd, name.as_ptr().cast(), name.len() as socklen_t) } != 0 {
            return Err(Refused(errno()));
        }
    }
    epoll::is_apart(stack, held)
}

unsafe fn listen_on(held: &Held, fd: c_int, backlog: c_int) -> Outcome<c_int> {
    if held.kind() == Kind::Stream {
        let stack = stack::open()?;
        let bound = stack.runner.apart(held.below()).ok_or(Refused(libc::EINVAL))?;
        back_to_kernel(stack, held, fd, bound)?;
    }
    fasten(held, fd, true);
    if held.device() != 0
        && let Some(name) = kernel::name(fd).filter(|name| name.port() == 0)
        && device::bind_on_link(held, fd, name).is_some_and(|done| done < 0)
    {
        return Err(Refused(errno()));
    }
    // SAFETY: numbers alone.
    let done = unsafe { real::listen(fd, backlog) };
    if done < 0 {
        return answered(done);
    }
    if held.kind() == Kind::Fresh && held.device() == 0 && privileges::is_cut_off() {
        relay::listen(held, fd, backlog)?;
        return answered(done);
    }
    held.more().backlog = backlog;
    // Which processes have it decides how this one reaches it.
    fork::watch();
    end::watch();
    if held.kind() == Kind::Stream {
        let (stack, below) = (stack::open()?, held.below());
        let name = programs_name(fd, &held.more()).ok_or(Refused(libc::EINVAL))?;
        listen_as(stack, below, name, backlog)?;
    }
    if held.kind() == Kind::Listener {
        if let Some(stack) = stack::opened().filter(|_| held.below() != NONE) {
            stack.runner.listen(held.below(), backlog_of(backlog))?;
        }
        return answered(done);
    }
    // SAFETY: numbers alone.
    let flags = unsafe { real::fcntl(fd, libc::F_GETFL, 0) };
    held.set_nonblocking(flags & libc::O_NONBLOCK != 0);
    held.set_flags(flags & KEPT);
    // A thread that waits here waits for the link, too; the kernel's socket must not hold other threads up.
    // SAFETY: numbers alone.
    unsafe { real::fcntl(fd, libc::F_SETFL, (flags | libc::O_NONBLOCK).into()) };
    held.set_kind(Kind::Listener);
    // The peer of a parent's connection hears of the port (FTP) and does not wait for accept, which tells of failures.
    let stack = if relay::channel() == NONE { stack::opened() } else { stack::open().ok() };
    if let Some(stack) = stack {
        claim_below(stack, held, fd)?;
    }
    epoll::listens(held)?;
    answered(done)
}

pub(crate) unsafe fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the caller's arguments.
    let traffic = || unsafe { route::named(addr, len) }.map(|named| Traffic::To(named.ip()));
    // SAFETY: the caller's arguments.
    let kernels = || unsafe { real::connect(fd, addr, len) };
    // SAFETY: the caller's arguments.
    let on_stack = |ctx, below| unsafe { c::ms_connect(ctx, below, addr, len) };
    let wait = |stack: &Stack, below| stack.runner.finish_connect(below).map(|()| 0);
    // SAFETY: the caller's arguments.
    decide(fd, traffic, kernels, |held| match unsafe { route::named_for(held.is_v6(), addr, len) } {
        Some(named) if is_for_parent(held, named.ip()) => match relay::connect(held, fd, named) {
            Err(Refused(libc::ENETUNREACH)) => {
                leave_to_kernel(held, Traffic::To(named.ip()), NOWHERE)?;
                report::count_kernels();
                fasten(held, fd, false);
                answered(kernels())
            }
            done => done.map(|()| 0),
        },
        // SAFETY: the caller's arguments.
        _ => unsafe { connect_by(held, fd, (addr, len), on_stack, Some(&wait), kernels) },
    })
}

/// Whether another process connects for this one.
fn is_for_parent(held: &Held, to: IpAddr) -> bool {
    held.kind() == Kind::Fresh && held.device() == 0 && !route::is_the_kernels(to) && privileges::is_cut_off()
}

/// Why a connection is the kernel's.
const NOWHERE: &str = "the link leads nowhere near";

/// Why a socket that is not in the table is the kernel's.
const STRANGE: &str = "the launcher has not made this socket, or has left it to the kernel";

/// Waits for the end of an attempt to connect by the stack's socket.
type Wait<'a, R> = &'a dyn Fn(&Stack, c_int) -> Result<R, Errno>;

/// Runs a call that connects, which may be a send with MSG_FASTOPEN: on the stack, where it gets the context and the
/// socket's descriptor there, or by the kernel. A call that can `wait` for an attempt that it began does so apart: by
/// then the socket is the stack's for other threads.
///
/// # Safety
/// C's contract for the address and its length.
pub(crate) unsafe fn connect_by<R: Failure + PartialEq>(
    held: &Held,
    fd: c_int,
    (addr, len): (*const sockaddr, socklen_t),
    on_stack: impl Fn(*mut Context, c_int) -> R,
    wait: Option<Wait<'_, R>>,
    by_kernel: impl Fn() -> R,
) -> Outcome<R> {
    let refused = held.more().refused.take();
    if let Some(is_named) = refused {
        let done = by_kernel();
        let error = errno();
        if done == R::FAILURE && matches!(error, libc::EFAULT | libc::EINVAL) {
            // It has told of its arguments.
            held.more().refused = refused;
        } else if is_named {
            names::take_back(fd, held.is_v6());
        }
        set_errno(error);
        return answered(done);
    }
    // SAFETY: C's contract.
    let named = unsafe { route::named_for(held.is_v6(), addr, len) };
    // The stack's socket, where there is one: of a connection that was taken apart.
    let (known, bound) = match held.kind() {
        Kind::Fresh => (NONE, None),
        Kind::Stream => {
            let (stack, below) = (stack::open()?, held.below());
            match stack.runner.apart(below).filter(|_| named.is_some()) {
                Some(bound) => (below, bound),
                None => return answered(on_stack(stack.context(), below)),
            }
        }
        kind => {
            let done = by_kernel();
            if kind == Kind::Listener && kernel::number(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Some(0)
            {
                // It was taken apart: threads that wait in accept hear of it.
                if let Some(stack) = stack::opened().filter(|_| held.below() != NONE) {
                    epoll::is_shut(held);
                    stack.runner.disconnect(held.below())?;
                }
            }
            return answered(done);
        }
    };
    // What no socket of this family can connect to the kernel refuses, and nothing is decided by that.
    let Some(named) = named.filter(|named| !(held.is_v6() && named.is_ipv4() && kernel::is_v6_only(fd)))
    else {
        return answered(by_kernel());
    };
    let own = route::is_looped(named.ip()) && listens_on_stack(named)?;
    let mut why = "the machine itself has this address";
    if own || !route::is_the_kernels(named.ip()) {
        let stack = stack::open()?;
        let is_new = known == NONE;
        let below = if is_new { begin(stack, held, fd)? } else { known };
        if own {
            // A thread that accepts is another thread of this process. It may look at this end before connect has
            // returned.
            if is_new {
                becomes_stream(held, fd, below)?;
            }
            return answered(on_stack(stack.context(), below));
        }
        let wait = wait.filter(|_| is_new && stack.runner.nonblocking(below) == Ok(false));
        if wait.is_some() {
            stack.runner.set_nonblocking(below, true)?;
        }
        let done = on_stack(stack.context(), below);
        let failed = if done == R::FAILURE { errno() } else { 0 };
        if let Some(wait) = wait {
            stack.runner.set_nonblocking(below, false)?;
            if failed == libc::EINPROGRESS {
                becomes_stream(held, fd, below)?;
                return Ok(wait(stack, below)?);
            }
        }
        // A send with MSG_FASTOPEN, which the stack may do without (EOPNOTSUPP), leaves the socket as it was.
        if !matches!(failed, libc::EOPNOTSUPP | libc::ENETUNREACH) {
            if is_new {
                becomes_stream(held, fd, below)?;
            }
            set_errno(failed);
            return answered(done);
        }
        if is_new {
            stack::close(below);
        }
        if failed == libc::EOPNOTSUPP {
            return Err(Refused(failed));
        }
        // The link leads nowhere near; another interface may.
        why = NOWHERE;
    }
    if known != NONE {
        back_to_kernel(stack::open()?, held, fd, bound)?;
        // The kernel has its name and its sets by now, whatever becomes of the attempt.
        leave_to_kernel(held, Traffic::To(named.ip()), why)?;
    }
    leave_by(held, Traffic::To(named.ip()), why, || {
        // What is fastened finds those alone that are; the others find what is not, or that nothing listens there.
        let to_itself = route::is_own(named.ip()) && diag::is_fastened(named).unwrap_or(true);
        let was_fastened = held.more().fastened;
        fasten(held, fd, to_itself);
        // SAFETY: the address that was read above.
        let is_named = to_itself && unsafe { names::leave_from_itself(fd, addr, len) };
        if !to_itself {
            device::apply(held, fd);
        }
        let done = by_kernel();
        let error = errno();
        let goes_on = GOES_ON.contains(&error);
        if done != R::FAILURE || goes_on && !kernel::is_closed(fd) {
            report::count_kernels();
        } else {
            if goes_on {
                held.more().refused = Some(is_named);
            } else if is_named {
                names::take_back(fd, held.is_v6());
            }
            fasten(held, fd, was_fastened);
        }
        set_errno(error);
        done
    })
}

/// Does something of this process listen at `name`, and no other process with it? Then it does on the stack, too, from
/// now on. What else listens there is found by the kernel's loopback.
fn listens_on_stack(name: SocketAddr) -> Outcome<bool> {
    let mut found = false;
    for fd in table::all().0 {
        let Some(held) = table::ours(fd).filter(|held| held.kind() == Kind::Listener) else { continue };
        if held.device() != 0 && !route::is_own(name.ip()) {
            // On the link's device the loopback's addresses do not arrive.
            continue;
        }
        let at = programs_name(fd, &held.more());
        if !held.is_shared() && at.is_some_and(|at| covers(fd, at, name)) {
            // One that cannot listen there says so when it is asked for connections.
            found |= claim_below(stack::open()?, &held, fd).is_ok();
        }
    }
    Ok(found)
}

/// Does the listener `fd` at `at` hear what is sent to `name`?
fn covers(fd: c_int, at: SocketAddr, name: SocketAddr) -> bool {
    let (own, to) = (at.ip(), name.ip().to_canonical());
    if at.port() != name.port() {
        return false;
    }
    if !own.is_unspecified() {
        return own.to_canonical() == to || to.is_unspecified() && own.to_canonical().is_loopback();
    }
    own.is_ipv4() == to.is_ipv4() || own.is_ipv6() && !kernel::is_v6_only(fd)
}

/// A socket of the stack with what was set and bound so far.
fn begin(stack: &Stack, held: &Held, fd: c_int) -> Result<c_int, Refused> {
    let below = stack.runner.socket(if held.is_v6() { Family::V6 } else { Family::V4 })?;
    let begun = (|| {
        let more = held.more();
        stored::set_again(stack, below, &more.stored_options)?;
        if more.fastened
            && let Some(name) = programs_name(fd, &more)
        {
            bind_below(stack, below, name)?;
        }
        // SAFETY: numbers alone.
        let flags = unsafe { real::fcntl(fd, libc::F_GETFL, 0) };
        stack.runner.set_nonblocking(below, flags & libc::O_NONBLOCK != 0)
    })();
    match begun {
        Ok(()) => Ok(below),
        Err(errno) => {
            stack::close(below);
            Err(errno.into())
        }
    }
}

fn becomes_stream(held: &Held, fd: c_int, below: c_int) -> Outcome<()> {
    // SAFETY: numbers alone.
    let flags = unsafe { real::fcntl(fd, libc::F_GETFL, 0) };
    held.set_nonblocking(flags & libc::O_NONBLOCK != 0);
    held.set_flags(flags & KEPT);
    held.set_below(below);
    held.set_kind(Kind::Stream);
    held.more().stored_options.clear();
    epoll::becomes_stream(held)
}

pub(crate) unsafe fn shutdown(held: &Held, fd: c_int, how: c_int) -> Outcome<c_int> {
    let below = held.below();
    if held.kind() == Kind::Stream {
        // SAFETY: numbers alone.
        return answered(unsafe { c::ms_shutdown(stack::open()?.context(), below, how) });
    }
    if held.kind() == Kind::Relayed && how != libc::SHUT_RD {
        relay::tell_end(held);
    }
    // SAFETY: numbers alone.
    let done = answered(unsafe { real::shutdown(fd, how) })?;
    if done == 0 && held.kind() == Kind::Listener && below != NONE {
        // The other half of a listener is nothing, and an edge nevertheless.
        if how != libc::SHUT_WR {
            epoll::is_shut(held);
        }
        // SAFETY: numbers alone.
        unsafe { c::ms_shutdown(stack::open()?.context(), below, how) };
    }
    answered(done)
}
