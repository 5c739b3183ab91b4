//! Numbers: close, dup, fcntl, fstat, ioctl. Whatever happens to the number of a descriptor of ours happens to the
//! kernel's descriptor under it, too.

use crate::boundary::{Outcome, Refused, answered, guard, is_inside, say_once};
use crate::description::{Description, Kind, NONE};
use crate::real;
use crate::table::{self, Held, Place};
use crate::{kernel, relay, stack};
use capi::calls::descriptors as c;
use capi::memory;
use libc::{c_int, c_long, c_uint, c_ulong, c_void, stat};
use sock::Sockets;
use std::sync::Once;

/// SIOCOUTQNSD of include/uapi/linux/sockios.h; SIOCINQ and SIOCOUTQ are FIONREAD and TIOCOUTQ.
const SIOCOUTQNSD: c_ulong = 0x894b;
/// FIOSETOWN and SIOCSPGRP of include/uapi/asm-generic/sockios.h.
const FIOSETOWN: c_ulong = 0x8901;
const SIOCSPGRP: c_ulong = 0x8902;
/// F_SETSIG and F_SETOWN_EX of include/uapi/asm-generic/fcntl.h.
const F_SETSIG: c_int = 10;
const F_SETOWN_EX: c_int = 15;

/// Flags of F_SETFL that are kept and mean nothing to a socket.
pub(crate) const KEPT: c_int = libc::O_APPEND | libc::O_ASYNC | libc::O_NOATIME;

static NO_SIGNALS: Once = Once::new();
static NO_OWN_TABLE: Once = Once::new();

pub(crate) unsafe fn close(held: &Held, fd: c_int) -> Outcome<c_int> {
    // The slot first: the number may be another's as soon as the kernel has it back.
    table::remove(fd);
    let _ = held;
    // SAFETY: numbers alone.
    answered(unsafe { real::close(fd) })
}

/// The new number stands for the same thing. A connection that becomes standard input or output is relayed from then
/// on: the C library reads and writes those without a call that comes here.
fn also(held: &Held, fd: c_int) -> Outcome<c_int> {
    if fd >= 0 {
        table::put(fd, held.clone());
    }
    if (libc::STDIN_FILENO..=libc::STDERR_FILENO).contains(&fd) {
        match held.kind() {
            Kind::Inherited => relay::settle(held)?,
            Kind::Stream => relay::relay_to_itself(held)?,
            _ => {}
        }
    }
    answered(fd)
}

pub(crate) unsafe fn dup(held: &Held, fd: c_int) -> Outcome<c_int> {
    // SAFETY: numbers alone.
    also(held, unsafe { real::dup(fd) })
}

pub(crate) unsafe fn dup2(from: c_int, to: c_int) -> c_int {
    if table::is_kernels(from) && table::is_kernels(to) {
        // SAFETY: numbers alone.
        return unsafe { real::dup2(from, to) };
    }
    let ours_calls = is_inside();
    // SAFETY: numbers alone.
    guard(|| unsafe { replace(from, to, ours_calls, |from, to| real::dup2(from, to)) })
}

pub(crate) unsafe fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    if table::is_kernels(from) && table::is_kernels(to) {
        // SAFETY: numbers alone.
        return unsafe { real::dup3(from, to, flags) };
    }
    let ours_calls = is_inside();
    // SAFETY: numbers alone.
    guard(|| unsafe { replace(from, to, ours_calls, |from, to| real::dup3(from, to, flags)) })
}

unsafe fn replace(
    from: c_int,
    to: c_int,
    ours_calls: bool,
    kernel: impl Fn(c_int, c_int) -> c_int,
) -> Outcome<c_int> {
    let held = match table::look(from) {
        Place::Hidden if !ours_calls => return Err(Refused(libc::EBADF)),
        Place::Ours(held) => Some(held),
        _ => None,
    };
    if matches!(table::look(to), Place::Hidden) {
        // The stack's own descriptors lie where a program does not look for numbers.
        return Err(Refused(libc::EBUSY));
    }
    let done = kernel(from, to);
    if done < 0 || from == to {
        return answered(done);
    }
    match held {
        Some(held) => also(&held, done),
        None => {
            table::remove(done);
            answered(done)
        }
    }
}

/// Flags without `own`, by which a thread gets a table of descriptors of its own, once a stack runs in this process:
/// what one thread opened for the stack would be nothing, or something else, to the next that turns it. A program of
/// one thread cannot tell.
fn shared(flags: c_int, own: c_int) -> c_int {
    if flags & own == 0 || is_inside() || stack::opened().is_none() {
        return flags;
    }
    say_once(&NO_OWN_TABLE, "descriptors stay shared between threads (CLONE_FILES, CLOSE_RANGE_UNSHARE)");
    flags & !own
}

pub(crate) unsafe fn unshare(flags: c_int) -> c_int {
    // SAFETY: numbers alone.
    unsafe { real::unshare(shared(flags, libc::CLONE_FILES)) }
}

pub(crate) unsafe fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let (ours, hidden) = table::all();
    let within = |fd: &c_int| (first..=last).contains(&(*fd as c_uint));
    let known = (libc::CLOSE_RANGE_CLOEXEC | libc::CLOSE_RANGE_UNSHARE) as c_int;
    if first > last || flags & !known != 0 {
        // SAFETY: numbers alone; the kernel says what is wrong with them.
        return unsafe { real::close_range(first, last, flags) };
    }
    let flags = shared(flags, libc::CLOSE_RANGE_UNSHARE as c_int);
    let cloexec = flags & libc::CLOSE_RANGE_CLOEXEC as c_int != 0;
    if !hidden.iter().any(within) {
        if !cloexec {
            ours.iter().filter(|fd| within(fd)).for_each(|fd| {
                table::remove(*fd);
            });
        }
        // SAFETY: numbers alone.
        return unsafe { real::close_range(first, last, flags) };
    }
    // In pieces, around what is hidden.
    let mut begin = first;
    let mut done = 0;
    let mut piece = |from: c_uint, to: c_uint| {
        if from <= to {
            if !cloexec {
                ours.iter().filter(|fd| (from..=to).contains(&(**fd as c_uint))).for_each(|fd| {
                    table::remove(*fd);
                });
            }
            // SAFETY: numbers alone.
            done = unsafe { real::close_range(from, to, flags) }.min(done);
        }
    };
    for fd in hidden.iter().filter(|fd| within(fd)).map(|fd| *fd as c_uint) {
        if fd > begin {
            piece(begin, fd - 1);
        }
        begin = fd + 1;
    }
    piece(begin, last);
    done
}

/// An accepted connection gets a file of the kernel's of its own, where its owner and its signal are kept: until then
/// accepted connections share one.
pub(crate) fn part(held: &Held) -> Outcome<()> {
    if !held.is_borrowed() || !matches!(held.kind(), Kind::Stream | Kind::Inherited) {
        return Ok(());
    }
    let own = kernel::blank_of(held.is_v6())?;
    table::put_under(held, own);
    held.set_borrowed(false);
    // SAFETY: a descriptor of this frame's.
    unsafe { real::close(own) };
    Ok(())
}

pub(crate) unsafe fn fcntl(held: &Held, fd: c_int, command: c_int, arg: c_long) -> Outcome<c_int> {
    let decided = matches!(held.kind(), Kind::Stream | Kind::Listener | Kind::Inherited);
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            // SAFETY: numbers alone.
            let new = unsafe { real::fcntl(fd, command, arg) };
            also(held, new)
        }
        libc::F_GETFL if decided => {
            let waits = if held.is_nonblocking() { libc::O_NONBLOCK } else { 0 };
            answered(libc::O_RDWR | waits | held.flags())
        }
        libc::F_SETFL if decided => {
            let flags = arg as c_int;
            if flags & libc::O_DIRECT != 0 {
                return Err(Refused(libc::EINVAL));
            }
            if (flags ^ held.flags()) & libc::O_ASYNC != 0 {
                let on = c_int::from(flags & libc::O_ASYNC != 0);
                // SAFETY: a number of this frame's.
                unsafe { set_async(held, fd, (&raw const on).cast_mut().cast())? };
            }
            set_nonblocking(held, flags & libc::O_NONBLOCK != 0)?;
            held.set_flags(flags & KEPT);
            answered(0)
        }
        libc::F_SETOWN | F_SETOWN_EX | F_SETSIG => {
            part(held)?;
            // SAFETY: the caller's arguments.
            answered(unsafe { real::fcntl(fd, command, arg) })
        }
        // SAFETY: the caller's arguments.
        _ => answered(unsafe { real::fcntl(fd, command, arg) }),
    }
}

/// O_ASYNC is the kernel's file's, too, which signals what a listener gets over the loopback.
///
/// # Safety
/// C's contract of FIOASYNC.
unsafe fn set_async(held: &Held, fd: c_int, value: *mut c_void) -> Outcome<c_int> {
    part(held)?;
    // SAFETY: the caller's arguments.
    let done = unsafe { real::ioctl(fd, libc::FIOASYNC, value) };
    if done == 0 {
        // SAFETY: the kernel has read it.
        let on = unsafe { value.cast::<c_int>().read_unaligned() } != 0;
        if on {
            say_once(&NO_SIGNALS, "connections of the stack send no SIGIO (O_ASYNC)");
        }
        held.set_flags(if on { held.flags() | libc::O_ASYNC } else { held.flags() & !libc::O_ASYNC });
    }
    answered(done)
}

/// Of a listener the kernel's socket never blocks; of a connection it does not matter.
fn set_nonblocking(held: &Held, on: bool) -> Outcome<()> {
    held.set_nonblocking(on);
    if held.kind() == Kind::Stream {
        stack::open()?.runner.set_nonblocking(held.below(), on)?;
    }
    Ok(())
}

pub(crate) unsafe fn fstat(held: &Held, fd: c_int, to: *mut stat) -> Outcome<c_int> {
    let stand_in = (held.kind() == Kind::Stream).then(|| relay::stand_in(held)).flatten();
    // SAFETY: the caller's arguments.
    answered(unsafe { real::fstat(stand_in.unwrap_or(fd), to) })
}

pub(crate) unsafe fn ioctl(held: &Held, fd: c_int, request: c_ulong, value: *mut c_void) -> Outcome<c_int> {
    let kind = held.kind();
    if matches!(kind, Kind::Stream | Kind::Listener) && request == libc::FIONBIO {
        // SAFETY: the caller vouches for an int.
        set_nonblocking(held, unsafe { memory::value(value.cast::<c_int>()) }? != 0)?;
        return answered(0);
    }
    if kind == Kind::Stream && matches!(request, libc::FIONREAD | libc::TIOCOUTQ | SIOCOUTQNSD) {
        // SAFETY: the caller's arguments.
        return answered(unsafe {
            c::ms_ioctl(stack::open()?.context(), held.below(), request, value.cast::<c_int>())
        });
    }
    if matches!(kind, Kind::Stream | Kind::Listener) && request == libc::FIOASYNC {
        // SAFETY: the caller's arguments.
        return unsafe { set_async(held, fd, value) };
    }
    if matches!(request, FIOSETOWN | SIOCSPGRP) {
        part(held)?;
    }
    // SAFETY: the caller's arguments.
    answered(unsafe { real::ioctl(fd, request, value) })
}

/// Nothing uses the description any more: what is below it is closed.
pub(crate) fn unused(held: &Description) {
    if held.kind() == Kind::Inherited {
        relay::release(held);
    }
    let below = held.take_below();
    if below != NONE {
        relay::spare_wait(below);
        stack::close(below);
    }
}
