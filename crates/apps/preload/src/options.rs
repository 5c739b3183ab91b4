//! setsockopt and getsockopt.

use crate::boundary::{Outcome, Refused, answered, errno};
use crate::description::{Kind, NONE, StoredOption};
use crate::table::Held;
use crate::{device, kernel, real, relay, stack, stored};
use capi::calls::options as c;
use capi::memory::{self, is_nowhere};
use libc::{c_int, c_void, socklen_t};
use sock::Sockets;

/// Most bytes of an option that is kept.
const VALUE_MAX: usize = 4_096;
/// Most options that are kept; a program that sets one again and again replaces it.
const STORED_OPTIONS_MAX: usize = 64;

pub(crate) unsafe fn setsockopt(
    held: &Held,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> Outcome<c_int> {
    if device::is_kept(held, level, name) {
        // SAFETY: the caller's arguments.
        return unsafe { device::set(held, fd, name, value, len) };
    }
    if held.kind() == Kind::Stream {
        // SAFETY: the caller's arguments.
        if let Some(linger) = unsafe { endless_linger(level, name, value, len) } {
            let below = held.below();
            stack::open()?.runner.setsockopt(below, level, name, &kernels_linger(&linger)?)?;
            return answered(0);
        }
        // SAFETY: the caller's arguments.
        return answered(unsafe {
            c::ms_setsockopt(stack::open()?.context(), held.below(), level, name, value, len)
        });
    }
    if held.kind() == Kind::Relayed && is_connections(level, name) {
        if len > i32::MAX as u32 {
            return Err(Refused(libc::EINVAL));
        }
        // SAFETY: the caller's arguments.
        let value = unsafe { c::value_of(level, name, value, (len as usize).min(VALUE_MAX)) }?;
        relay::set_option(held, level, name, value)?;
        return answered(0);
    }
    // SAFETY: the caller's arguments.
    let done = unsafe { real::setsockopt(fd, level, name, value, len) };
    if done != 0 || held.kind() == Kind::Epoll {
        return answered(done);
    }
    // SAFETY: the caller's arguments.
    let read =
        unsafe { (endless_linger(level, name, value, len), c::value_of(level, name, value, len as usize)) };
    let stored = match read {
        (Some(linger), _) => kernels_linger(&linger)?,
        (None, Ok(value)) if value.len() <= VALUE_MAX => value.to_vec(),
        // The stack does not know it, and the kernel did not read all of it.
        (None, _) => return answered(done),
    };
    let mut more = held.more();
    let stored = StoredOption { level, name, value: stored };
    if let Some(stack) = stack::opened()
        && held.below() != NONE
    {
        stored::set_again(stack, held.below(), std::slice::from_ref(&stored))?;
    }
    more.stored_options.retain(|stored| (stored.level, stored.name) != (level, name));
    if more.stored_options.len() < STORED_OPTIONS_MAX {
        more.stored_options.push(stored);
    }
    answered(done)
}

/// Returns the `struct linger` of a call that sets a negative time.
///
/// # Safety
/// C's contract of setsockopt(2).
unsafe fn endless_linger(
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> Option<libc::linger> {
    let is_one = (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) && len <= i32::MAX as u32;
    if !is_one || is_nowhere(value.cast::<libc::linger>()) || (len as usize) < size_of::<libc::linger>() {
        return None;
    }
    // SAFETY: as much as that is there, as the caller vouches.
    let linger = unsafe { value.cast::<libc::linger>().read_unaligned() };
    (linger.l_onoff != 0 && linger.l_linger < 0).then_some(linger)
}

/// Returns a negative time as the kernel tells it: its longest time, whose seconds depend on its tick.
fn kernels_linger(linger: &libc::linger) -> Outcome<Vec<u8>> {
    let asked = kernel::blank()?;
    let mut told = vec![0; size_of::<libc::linger>()];
    let mut len = told.len() as socklen_t;
    // SAFETY: a `struct linger`, as much room, and a descriptor of this frame's.
    unsafe {
        let from = std::ptr::from_ref(linger).cast::<c_void>();
        let done = real::setsockopt(asked, libc::SOL_SOCKET, libc::SO_LINGER, from, len);
        let to = told.as_mut_ptr().cast::<c_void>();
        let done = done | real::getsockopt(asked, libc::SOL_SOCKET, libc::SO_LINGER, to, &raw mut len);
        let why = errno();
        real::close(asked);
        if done != 0 {
            return Err(Refused(why));
        }
    }
    Ok(told)
}

/// Bytes of a congestion control's name (TCP_CA_NAME_MAX).
const POLICY_MAX: usize = 16;

fn is_policy(level: c_int, name: c_int) -> bool {
    (level, name) == (libc::IPPROTO_TCP, libc::TCP_CONGESTION)
}

/// Returns the name of a congestion control as Linux has it: NewReno is its reno.
fn told(mut name: Vec<u8>) -> Vec<u8> {
    if name.split(|byte| *byte == 0).next() == Some(b"newreno") {
        name.fill(0);
        name[..4].copy_from_slice(b"reno");
    }
    name
}

/// Tells a connection's congestion control.
///
/// # Safety
/// C's contract of getsockopt(2).
unsafe fn policy(held: &Held, value: *mut c_void, len: *mut socklen_t) -> Outcome<c_int> {
    // SAFETY: as the caller vouches.
    if unsafe { memory::value(len) }? > i32::MAX as u32 {
        return Err(Refused(libc::EINVAL));
    }
    let mut name = vec![0; POLICY_MAX];
    stack::open()?.runner.getsockopt(held.below(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name)?;
    // SAFETY: as above.
    unsafe { give(&told(name), value, len) }?;
    answered(0)
}

pub(crate) unsafe fn getsockopt(
    held: &Held,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> Outcome<c_int> {
    if held.kind() == Kind::Relayed {
        let known = known_of_relayed(held, level, name);
        if known.is_some() || is_connections(level, name) {
            // SAFETY: as the caller vouches.
            let room = unsafe { memory::value(len) }? as usize;
            let bytes = match known {
                Some(known) => known.to_ne_bytes().to_vec(),
                None if is_policy(level, name) => told(relay::get_option(held, level, name, POLICY_MAX)?),
                None => relay::get_option(held, level, name, room.min(VALUE_MAX))?,
            };
            // SAFETY: as above.
            unsafe { give(&bytes, value, len) }?;
            return answered(0);
        }
    }
    if device::is_kept(held, level, name) {
        // SAFETY: the caller's arguments.
        return unsafe { device::get(held, name, value, len) };
    }
    if held.kind() == Kind::Stream && is_policy(level, name) {
        // SAFETY: the caller's arguments.
        return unsafe { policy(held, value, len) };
    }
    // The error that a listener has left from a connection that was taken apart is the stack's.
    let is_error = (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR) && held.below() != NONE;
    answered(match held.kind() {
        // SAFETY: the caller's arguments.
        kind if kind == Kind::Stream || kind == Kind::Listener && is_error => unsafe {
            c::ms_getsockopt(stack::open()?.context(), held.below(), level, name, value, len)
        },
        // SAFETY: the caller's arguments.
        _ => unsafe { real::getsockopt(fd, level, name, value, len) },
    })
}

/// Returns true if the option of level SOL_SOCKET is the connection's: the others are of the socket that stands for it
/// in this process.
fn is_connections(level: c_int, name: c_int) -> bool {
    level != libc::SOL_SOCKET
        || matches!(
            name,
            libc::SO_KEEPALIVE
                | libc::SO_LINGER
                | libc::SO_PRIORITY
                | libc::SO_MARK
                | libc::SO_REUSEADDR
                | libc::SO_REUSEPORT
                | libc::SO_OOBINLINE
        )
}

/// Answers what a relayed connection is: a TCP socket, although a UNIX socket stands for it. `None` for other options.
fn known_of_relayed(held: &Held, level: c_int, name: c_int) -> Option<c_int> {
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => {
            Some(if held.is_v6() { libc::AF_INET6 } else { libc::AF_INET })
        }
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => Some(libc::IPPROTO_TCP),
        (libc::SOL_SOCKET, libc::SO_TYPE) => Some(libc::SOCK_STREAM),
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => Some(relay::is_listener(held).into()),
        _ => None,
    }
}

/// Writes an option's value as getsockopt(2) does: as much as there is room for, and how much that was.
///
/// # Safety
/// C's contract of getsockopt(2).
unsafe fn give(bytes: &[u8], value: *mut c_void, len: *mut socklen_t) -> Outcome<()> {
    // SAFETY: as the caller vouches.
    unsafe {
        let n = (memory::value(len)? as usize).min(bytes.len());
        memory::put_sized(&bytes[..n], value, len, n)
    }
}
