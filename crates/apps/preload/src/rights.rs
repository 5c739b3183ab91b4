//! Descriptors that a program hands to another one over a UNIX socket (SCM_RIGHTS). A connection becomes a UNIX socket
//! that this process relays ([`relay`](crate::relay)), and a channel for its options goes along behind the program's
//! descriptors. A launched receiver takes the channel out of the message, and knows connection, listener and new socket
//! by what the kernel says of them. A receiver that is not launched has a UNIX socket with the connection's bytes.

use crate::boundary::{Failure, Outcome, Refused, guard, is_inside, say_once};
use crate::data;
use crate::description::{Description, Family, Kind, Lent, NONE};
use crate::real;
use crate::sleep::by_kernel;
use crate::table::{self, Held, Place};
use crate::{epoll, fork, kernel, relay, stack, threads};
use capi::memory::{can_read, is_nowhere};
use libc::{c_int, c_uint, cmsghdr, mmsghdr, msghdr, ssize_t, timespec};
use sock::Sockets;
use std::sync::Once;

/// Most descriptors of a message (SCM_MAX_FD).
const MOST: usize = 253;
/// Bytes before the data of a control message.
const HEAD: usize = size_of::<cmsghdr>();

/// The control messages of a message, each with its data.
///
/// # Safety
/// C's contract of sendmsg(2) for `message`, or NULL; what is given lives as long as that.
unsafe fn controls<'a>(message: *const msghdr) -> impl Iterator<Item = (&'a cmsghdr, &'a [u8])> {
    // SAFETY: as the caller vouches.
    let mut next = unsafe {
        if is_nowhere(message)
            || is_nowhere((*message).msg_control)
            || !can_read((*message).msg_control, (*message).msg_controllen)
        {
            std::ptr::null_mut()
        } else {
            libc::CMSG_FIRSTHDR(message)
        }
    };
    std::iter::from_fn(move || {
        // SAFETY: as above: a head, and as much data as it says, within the control data.
        unsafe {
            let header = next.as_ref()?;
            let data = libc::CMSG_DATA(next);
            let most = (*message).msg_control.addr() + (*message).msg_controllen - data.addr();
            let len = header.cmsg_len.saturating_sub(HEAD).min(most);
            next = libc::CMSG_NXTHDR(message, next);
            Some((header, std::slice::from_raw_parts(data, len)))
        }
    })
}

fn is_rights(header: &cmsghdr) -> bool {
    (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS)
}

/// The descriptors in the data of a control message.
fn descriptors(data: &[u8]) -> impl Iterator<Item = c_int> {
    data.chunks_exact(size_of::<c_int>())
        .map(|bytes| c_int::from_ne_bytes(bytes.try_into().unwrap_or_default()))
}

/// Returns true if a descriptor of ours is among those that the message hands over.
///
/// # Safety
/// As [`controls`].
unsafe fn hands_over_ours(message: *const msghdr) -> bool {
    // SAFETY: as the caller vouches.
    let mut all = unsafe { controls(message) };
    all.any(|(header, data)| is_rights(header) && descriptors(data).any(|fd| !table::is_kernels(fd)))
}

/// Makes what the number stands for something that another process can use. Returns a channel that goes along, if it is
/// a connection.
fn prepare(fd: c_int) -> Outcome<Option<c_int>> {
    static TOLD: Once = Once::new();
    let held = match table::look(fd) {
        Place::Kernel => return Ok(None),
        Place::Hidden => return Err(Refused(libc::EBADF)),
        Place::Ours(held) => held,
    };
    match held.kind() {
        Kind::Fresh | Kind::Epoll => return Ok(None),
        Kind::Listener => {
            held.share();
            note_blocking(&held, fd);
            return Ok(None);
        }
        Kind::Stream => {
            if stack::open()?.runner.peer_addr(held.below()).is_err() {
                say_once(
                    &TOLD,
                    "a socket that still connects, or is connected no more, cannot be handed to another process \
                     (EOPNOTSUPP): run a program that does so on the kernel",
                );
                return Err(Refused(libc::EOPNOTSUPP));
            }
            // Sets of epoll lose it.
            epoll::leave_sets(&held)?;
            relay::relay_to_another(&held)?;
        }
        Kind::Inherited => relay::settle(&held)?,
        Kind::Relayed => {}
    }
    Ok(table::ours(fd).and_then(|held| relay::lend(&held)))
}

/// The kernel's part of a listener never blocks. A flag that means nothing to sockets tells a receiver whether the
/// program's does.
fn note_blocking(held: &Held, fd: c_int) {
    let flag = if held.is_nonblocking() { 0 } else { libc::O_APPEND };
    // SAFETY: numbers alone.
    unsafe {
        let flags = real::fcntl(fd, libc::F_GETFL, 0);
        real::fcntl(fd, libc::F_SETFL, (flags & !libc::O_APPEND | flag).into());
    }
}

/// Channels that go along with a message, which are closed here afterwards.
struct Channels(Vec<c_int>);

impl Drop for Channels {
    fn drop(&mut self) {
        // SAFETY: descriptors of ours that nothing else uses.
        self.0.iter().for_each(|fd| unsafe { _ = real::close(*fd) });
    }
}

/// Sends a message that hands over something of ours.
///
/// # Safety
/// As [`controls`].
unsafe fn hand_over(fd: c_int, message: *const msghdr, flags: c_int) -> Outcome<ssize_t> {
    let (mut channels, mut count) = (Channels(Vec::new()), 0);
    // SAFETY: as the caller vouches.
    for (_, data) in unsafe { controls(message) }.filter(|(header, _)| is_rights(header)) {
        for fd in descriptors(data) {
            count += 1;
            channels.0.extend(prepare(fd)?);
        }
    }
    let waits_for = data::waits_for(fd, libc::POLLOUT, flags);
    if channels.0.is_empty() || count + channels.0.len() > MOST {
        // SAFETY: the caller's arguments.
        return by_kernel(waits_for, || unsafe { real::sendmsg(fd, message, flags) });
    }
    // SAFETY: as the caller vouches; a copy of the message with control data that lives in this frame.
    unsafe {
        let mut copy = std::ptr::read(message);
        let mut control = Vec::new();
        let mut along = channels.0.iter().flat_map(|fd| fd.to_ne_bytes()).collect::<Vec<u8>>();
        for (header, data) in controls(message) {
            // The first list of descriptors takes what goes along at its end, if it is the only one.
            let more = if is_rights(header) { std::mem::take(&mut along) } else { Vec::new() };
            add(&mut control, header, &[data, &more].concat());
        }
        (copy.msg_control, copy.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control[..]));
        by_kernel(waits_for, || real::sendmsg(fd, &raw const copy, flags))
    }
}

/// Appends a control message.
fn add(control: &mut Vec<u64>, header: &cmsghdr, data: &[u8]) {
    let mut bytes = Vec::with_capacity(HEAD + data.len());
    bytes.extend((HEAD + data.len()).to_ne_bytes());
    bytes.extend(header.cmsg_level.to_ne_bytes());
    bytes.extend(header.cmsg_type.to_ne_bytes());
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(size_of::<u64>()), 0);
    let words = bytes.chunks_exact(size_of::<u64>());
    control.extend(words.map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default())));
}

pub(crate) unsafe fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's arguments.
    let kernels = || unsafe { real::sendmsg(fd, message, flags) };
    // SAFETY: C's contract for the message.
    if table::is_kernels(fd) && !unsafe { hands_over_ours(message) } {
        return kernels();
    }
    let ours_calls = is_inside();
    guard(|| match table::look(fd) {
        Place::Kernel | Place::Hidden if ours_calls => Ok(kernels()),
        Place::Hidden => Err(Refused(libc::EBADF)),
        // SAFETY: C's contract for the message.
        Place::Kernel => unsafe { hand_over(fd, message, flags) },
        Place::Ours(held) => {
            relay::settle(&held)?;
            // SAFETY: the caller's arguments.
            unsafe { data::sendmsg(&held, fd, message, flags) }
        }
    })
}

pub(crate) unsafe fn sendmmsg(fd: c_int, list: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    // SAFETY: the caller's arguments.
    let kernels = || unsafe { real::sendmmsg(fd, list, count, flags) };
    let rows = || {
        let rows = (0..count as usize).map(|at| list.wrapping_add(at));
        rows.take_while(|row| !is_nowhere(*row))
    };
    // SAFETY: C's contract for each of them.
    if table::is_kernels(fd) && !rows().any(|row| unsafe { hands_over_ours(&raw const (*row).msg_hdr) }) {
        return kernels();
    }
    let ours_calls = is_inside();
    guard(|| match table::look(fd) {
        Place::Kernel | Place::Hidden if ours_calls => Ok(kernels()),
        Place::Hidden => Err(Refused(libc::EBADF)),
        Place::Kernel => {
            let mut sent = 0;
            for row in rows() {
                // SAFETY: C's contract for each of them.
                match unsafe { hand_over(fd, &raw const (*row).msg_hdr, flags) } {
                    // SAFETY: as above.
                    Ok(len) if len >= 0 => unsafe { (*row).msg_len = len as c_uint },
                    // As on Linux, the error is the next call's.
                    Ok(_) | Err(_) if sent > 0 => break,
                    failed => return failed.map(|len| len as c_int),
                }
                sent += 1;
            }
            Ok(sent)
        }
        Place::Ours(held) => {
            relay::settle(&held)?;
            // SAFETY: the caller's arguments.
            unsafe { data::sendmmsg(&held, fd, list, count, flags) }
        }
    })
}

/// Runs a call that receives: the kernel's, or ours where the number is one of ours.
fn receive<R: Failure + PartialEq>(
    fd: c_int,
    kernels: impl Fn() -> R,
    ours: impl FnOnce(&Held) -> Outcome<R>,
) -> R {
    if table::is_kernels(fd) {
        return kernels();
    }
    let ours_calls = is_inside();
    guard(|| match table::look(fd) {
        Place::Hidden if !ours_calls => Err(Refused(libc::EBADF)),
        Place::Kernel | Place::Hidden => Ok(kernels()),
        Place::Ours(held) => {
            relay::settle(&held)?;
            ours(&held)
        }
    })
}

pub(crate) unsafe fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's arguments.
    let kernels = || unsafe {
        let got = real::recvmsg(fd, message, flags);
        if got >= 0 {
            take_over(message);
        }
        got
    };
    // SAFETY: the caller's arguments.
    receive(fd, kernels, |held| unsafe { data::recvmsg(held, fd, message, flags) })
}

pub(crate) unsafe fn recvmmsg(
    fd: c_int,
    list: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    // SAFETY: the caller's arguments; so many messages as were received are there.
    let kernels = || unsafe {
        let got = real::recvmmsg(fd, list, count, flags, timeout);
        (0..got.max(0) as usize).for_each(|at| take_over(&raw mut (*list.add(at)).msg_hdr));
        got
    };
    // SAFETY: the caller's arguments.
    receive(fd, kernels, |held| unsafe { data::recvmmsg(held, fd, list, count, flags, timeout) })
}

/// Takes over what a received message hands over, if it was the sender's.
///
/// # Safety
/// The kernel has filled the message.
#[inline]
unsafe fn take_over(message: *mut msghdr) {
    // SAFETY: as the caller vouches.
    if unsafe { (*message).msg_controllen } > HEAD && stack::is_launched() && !is_inside() {
        // SAFETY: as above.
        unsafe { take_over_rights(message) };
    }
}

#[cold]
unsafe fn take_over_rights(message: *mut msghdr) {
    // SAFETY: the kernel has filled the message.
    let Some((header, data)) = unsafe { controls(message) }.find(|(header, _)| is_rights(header)) else {
        return;
    };
    let mut all: Vec<c_int> = descriptors(data).collect();
    let connections = all.iter().filter_map(|fd| relay::Mark::of(*fd).map(|mark| (*fd, mark)));
    let connections: Vec<(c_int, relay::Mark)> = connections.collect();
    // As many channels as there was room for are the last ones.
    let wanted = all.len() - all.len().min(connections.len());
    let first = wanted + all[wanted..].iter().take_while(|fd| !relay::is_channel(**fd)).count();
    let channels = all.split_off(first);
    for (at, (fd, mark)) in connections.iter().enumerate() {
        let channel = channels.get(at).map_or(NONE, |fd| hide(*fd));
        adopt_connection(*fd, mark, channel);
    }
    all.iter().for_each(|fd| adopt_socket(*fd));
    if !connections.is_empty() {
        // Channels for which there is no room are not the program's.
        // SAFETY: as above.
        unsafe { (*message).msg_flags &= !libc::MSG_CTRUNC };
    }
    if header.cmsg_len == HEAD + size_of_val(&all[..]) {
        return;
    }
    // SAFETY: as above; less than there was.
    unsafe {
        let (before, after) = (header.cmsg_len, HEAD + size_of_val(&all[..]));
        let align = |len: usize| len.next_multiple_of(size_of::<usize>());
        let begin = std::ptr::from_ref(header).cast_mut();
        let used = begin.addr() - (*message).msg_control.addr();
        let rest = (*message).msg_controllen.saturating_sub(used + align(before));
        let from = begin.cast::<u8>();
        std::ptr::copy(from.add(align(before)), from.add(align(after)), rest);
        (*message).msg_controllen -= align(before).min((*message).msg_controllen - used) - align(after);
        (*begin).cmsg_len = after;
    }
}

/// A channel that has arrived, where the program does not see it. It stays here across exec.
fn hide(fd: c_int) -> c_int {
    // SAFETY: numbers alone.
    unsafe { real::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC.into()) };
    threads::hidden(fd)
}

fn adopt_connection(fd: c_int, mark: &relay::Mark, channel: c_int) {
    let held = Description::make(Kind::Relayed, mark.v6, NONE);
    let mut more = held.more();
    (more.names, more.relayed) = (Some(mark.names.clone()), Some(mark.relayed(channel)));
    more.lent = Some(Lent(channel));
    drop(more);
    table::put(fd, held);
}

/// Where TCP_INFO has a listener's backlog, and its first byte in a socket that is nothing yet.
const BACKLOG: usize = 28;
const CLOSED: u8 = 7;

/// A TCP socket that is nothing yet, or that listens on the loopback as the kernel's part of a launched listener does.
fn adopt_socket(fd: c_int) {
    let mut info = [0_u8; BACKLOG + size_of::<c_int>()];
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: as much room as is said.
    let done = unsafe {
        real::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut len)
    };
    if done != 0 || !kernel::is_tcp(fd) || stack::settings().is_none() {
        return;
    }
    let number = |name| kernel::number(fd, libc::SOL_SOCKET, name);
    let fastened = kernel::is_loopback(fd);
    let kind = match number(libc::SO_ACCEPTCONN) {
        Some(1) if fastened => Kind::Listener,
        Some(0) if info[0] == CLOSED => Kind::Fresh,
        _ => return,
    };
    let held = Description::make(kind, number(libc::SO_DOMAIN) == Some(libc::AF_INET6), NONE);
    held.share();
    held.set_family(Family::Heir);
    let mut more = held.more();
    more.fastened = fastened;
    if kind == Kind::Listener {
        fork::watch();
        // SAFETY: numbers alone.
        held.set_nonblocking(unsafe { real::fcntl(fd, libc::F_GETFL, 0) } & libc::O_APPEND == 0);
        more.backlog = c_int::from_ne_bytes(info[BACKLOG..].try_into().unwrap_or_default());
    }
    drop(more);
    table::put(fd, held);
}
