//! The functions of the plug-in, as the tool calls them (`packetdrill.h` of google/packetdrill).

use crate::kernel;
use crate::memory::{self, BYTES_MAX, Errno};
use crate::plug::Plug;
use crate::preload;
use crate::script;
use base::Duration;
use drill::run::{Answer, FastOpen, Got, Request, numbers};
use libc::{
    c_char, c_int, c_long, c_longlong, c_uint, c_ulong, c_void, epoll_event, iovec, loff_t, msghdr, nfds_t,
    pollfd, size_t, sockaddr, socklen_t, ssize_t, timeval,
};
use sock::address::{self, Named};
use sock::cmsg::{Control, Stamp};
use sock::{EpollEvent, EpollOp, Family, Fd, PollFd, Ready, RecvFlags, SendFlags};
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Most rows of one poll, and most events of one epoll_wait.
const ROWS_MAX: usize = 4_096;

type Result<T> = std::result::Result<T, Errno>;

macro_rules! interface {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty = $function:ident;)+) => {
        /// The table of functions that the tool calls; each takes `userdata` first.
        #[repr(C)]
        #[derive(Clone, Copy)]
        #[allow(missing_docs, reason = "each member is the call of its name, see its manual page")]
        pub struct Interface {
            pub userdata: *mut c_void,
            $(pub $name: unsafe extern "C" fn(*mut c_void $(, $argument)*) -> $result,)+
        }

        /// The whole table.
        fn interface(userdata: *mut c_void) -> Interface {
            Interface { userdata, $($name: $function),+ }
        }
    };
}

interface! {
    free: fn() -> () = free;
    socket: fn(c_int, c_int, c_int) -> c_int = socket;
    bind: fn(c_int, *const sockaddr, socklen_t) -> c_int = bind;
    listen: fn(c_int, c_int) -> c_int = listen;
    accept: fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int = accept;
    connect: fn(c_int, *const sockaddr, socklen_t) -> c_int = connect;
    read: fn(c_int, *mut c_void, size_t) -> ssize_t = read;
    readv: fn(c_int, *const iovec, c_int) -> ssize_t = readv;
    recv: fn(c_int, *mut c_void, size_t, c_int) -> ssize_t = recv;
    recvfrom: fn(c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t = recvfrom;
    recvmsg: fn(c_int, *mut msghdr, c_int) -> ssize_t = recvmsg;
    write: fn(c_int, *const c_void, size_t) -> ssize_t = write;
    writev: fn(c_int, *const iovec, c_int) -> ssize_t = writev;
    send: fn(c_int, *const c_void, size_t, c_int) -> ssize_t = send;
    sendto: fn(c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t) -> ssize_t = sendto;
    sendmsg: fn(c_int, *const msghdr, c_int) -> ssize_t = sendmsg;
    fcntl: fn(c_int, c_int, c_long) -> c_int = fcntl;
    ioctl: fn(c_int, c_ulong, *mut c_int) -> c_int = ioctl;
    close: fn(c_int) -> c_int = close;
    shutdown: fn(c_int, c_int) -> c_int = shutdown;
    getsockopt: fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int = getsockopt;
    setsockopt: fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int = setsockopt;
    poll: fn(*mut pollfd, nfds_t, c_int) -> c_int = poll;
    netdev_send: fn(*const c_void, size_t) -> c_int = netdev_send;
    netdev_receive: fn(*mut c_void, *mut size_t, *mut c_longlong) -> c_int = netdev_receive;
    usleep: fn(c_uint) -> c_int = usleep;
    gettimeofday: fn(*mut timeval, *mut c_void) -> c_int = gettimeofday;
    epoll_create: fn(c_int) -> c_int = epoll_create;
    epoll_ctl: fn(c_int, c_int, c_int, *mut epoll_event) -> c_int = epoll_ctl;
    epoll_wait: fn(c_int, *mut epoll_event, c_int, c_int) -> c_int = epoll_wait;
    pipe: fn(*mut c_int) -> c_int = pipe;
    splice: fn(c_int, *mut loff_t, c_int, *mut loff_t, size_t, c_uint) -> c_int = splice;
}

// What the tool allocates for it.
const _: () = assert!(size_of::<Interface>() == 264);

/// Fills in `out` for a new run of the tool, on the thread that runs the script.
///
/// # Safety
/// `flags` is NULL or a string of C; `out` points to the tool's struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(flags: *const c_char, out: *mut Interface) {
    guarded("packetdrill_interface_init", || {
        let flags = match flags.is_null() {
            true => String::new(),
            // SAFETY: not NULL, and the tool's strings end with NUL.
            false => unsafe { CStr::from_ptr(flags) }.to_string_lossy().into_owned(),
        };
        let plug = Arc::new(Plug::new(&format!("{flags},{}", script::flags())));
        preload::announce(&plug);
        let userdata = Arc::into_raw(plug).cast_mut().cast();
        // SAFETY: the tool's struct.
        unsafe { memory::put_value(interface(userdata), out) };
        Ok(0)
    });
}

// --- the way in and out ------------------------------------------------------------------------------------------

/// Runs a call: an error goes into errno and makes it -1, and so does a panic, which must not reach C.
pub(crate) fn guarded(name: &str, call: impl FnOnce() -> Result<i64>) -> i64 {
    let errno = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(result)) => return result,
        Ok(Err(errno)) => errno,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text =
                text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("for no known reason");
            eprintln!("millstream_drill: the stack panicked in {name}(): {text}");
            libc::EIO
        }
    };
    kernel::set_errno(errno);
    -1
}

/// Calls `call` with the plug-in behind `userdata`.
///
/// # Safety
/// `userdata` is NULL or what [`packetdrill_interface_init`] gave, and `free` has not been called with it.
unsafe fn enter(userdata: *mut c_void, name: &str, call: impl FnOnce(&Plug) -> Result<i64>) -> i64 {
    guarded(name, || {
        // SAFETY: as the caller vouches; `free` alone gives it up.
        let plug = unsafe { userdata.cast::<Plug>().as_ref() }.ok_or(libc::EFAULT)?;
        call(plug)
    })
}

/// A call of the tool: its name, the type of its result, its arguments, and what it does with the plug-in. Every
/// pointer among the arguments follows C's contract, which `memory` builds on.
macro_rules! calls {
    ($(fn $name:ident($plug:ident $(, $argument:ident: $type:ty)*) -> $result:ty $body:block)+) => {
        $(unsafe extern "C" fn $name(userdata: *mut c_void $(, $argument: $type)*) -> $result {
            let call = |$plug: &Plug| -> Result<i64> { $body };
            // SAFETY: the tool passes the userdata that it was given.
            (unsafe { enter(userdata, stringify!($name), call) }) as $result
        })+
    };
}

/// The result alone.
fn result(answer: Answer) -> Result<i64> {
    answer.result
}

/// Of a call that makes a descriptor: the kernel's number for it.
fn descriptor(plug: &Plug, answer: Answer, v6: bool) -> Result<i64> {
    answer.result?;
    match answer.got {
        Got::Descriptor(fd, _) => plug.number(fd, v6).map(i64::from),
        _ => Err(libc::EIO),
    }
}

// --- sockets -----------------------------------------------------------------------------------------------------

/// A kind of socket; whether it shall not block.
fn family(domain: c_int, kind: c_int, protocol: c_int) -> Result<(Family, bool)> {
    let family = match domain {
        libc::AF_INET => Family::V4,
        libc::AF_INET6 => Family::V6,
        _ => return Err(libc::EAFNOSUPPORT),
    };
    match (kind & 0xf, protocol) {
        (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => Ok((family, kind & libc::SOCK_NONBLOCK != 0)),
        (libc::SOCK_STREAM, _) => Err(libc::EPROTONOSUPPORT),
        _ => Err(libc::ESOCKTNOSUPPORT),
    }
}

/// # Safety
/// C's contract for `addr` and `len`.
unsafe fn named(addr: *const sockaddr, len: socklen_t) -> Result<Named> {
    // SAFETY: as the caller vouches.
    let bytes = unsafe { memory::bytes(addr.cast(), len as usize) }?;
    address::read(bytes).map_err(sock::Errno::raw)
}

calls! {
    fn socket(plug, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        let (family, nonblocking) = family(domain, kind, protocol)
            .inspect_err(|_| plug.complain(format!("socket({domain}, {kind}, {protocol}) is no TCP socket")))?;
        let number = descriptor(plug, plug.ask(Request::Socket(family)), family == Family::V6)?;
        if nonblocking {
            plug.ask(Request::SetFlags(plug.fd(number as c_int), libc::O_NONBLOCK.into())).result?;
        }
        Ok(number)
    }

    fn bind(plug, fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
        // SAFETY: C's contract.
        match unsafe { named(addr, len) }? {
            Named::At(local) => result(plug.bind(fd, local)),
            Named::Nobody => Err(libc::EAFNOSUPPORT),
        }
    }

    fn listen(plug, fd: c_int, backlog: c_int) -> c_int {
        result(plug.ask(Request::Listen(plug.fd(fd), numbers::backlog(backlog.into()))))
    }

    fn accept(plug, fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
        let v6 = plug.is_v6(fd);
        let answer = plug.ask(Request::Accept(plug.fd(fd), false));
        let peer = match &answer.got {
            Got::Descriptor(_, peer) => *peer,
            _ => None,
        };
        let number = descriptor(plug, answer, v6)?;
        if let Some(peer) = peer {
            // SAFETY: C's contract.
            unsafe { memory::put_sized(&address::write(peer, v6), addr.cast(), len) }?;
        }
        Ok(number)
    }

    fn connect(plug, fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
        // SAFETY: C's contract.
        match unsafe { named(addr, len) }? {
            Named::At(remote) => result(plug.ask(Request::Connect(plug.fd(fd), remote))),
            Named::Nobody => {
                plug.complain("connect() to AF_UNSPEC is not supported".into());
                Err(libc::EAFNOSUPPORT)
            }
        }
    }

    fn shutdown(plug, fd: c_int, how: c_int) -> c_int {
        let how = numbers::shutdown(how).ok_or(libc::EINVAL)?;
        result(plug.ask(Request::Shutdown(plug.fd(fd), how)))
    }

    fn close(plug, fd: c_int) -> c_int {
        result(plug.close(fd))
    }

    fn pipe(plug, ends: *mut c_int) -> c_int {
        if ends.is_null() {
            return Err(libc::EFAULT);
        }
        let answer = plug.ask(Request::Pipe);
        answer.result?;
        let Got::Pair(read, write) = answer.got else { return Err(libc::EIO) };
        let numbers = [plug.number(read, false)?, plug.number(write, false)?];
        // SAFETY: C's contract: room for two, and not NULL.
        unsafe { memory::put_value(numbers, ends.cast()) };
        Ok(0)
    }

    fn splice(plug, from: c_int, from_at: *mut loff_t, to: c_int, to_at: *mut loff_t, len: size_t,
              flags: c_uint) -> c_int {
        for at in [from_at, to_at] {
            // The tool passes the address of the script's number where C would pass NULL. SAFETY: C's contract.
            if !at.is_null() && unsafe { memory::value(at) }? != 0 {
                return Err(libc::ESPIPE);
            }
        }
        let dont_wait = flags & libc::SPLICE_F_NONBLOCK != 0;
        let len = len.min(BYTES_MAX);
        result(plug.ask(Request::Splice { from: plug.fd(from), to: plug.fd(to), len, dont_wait }))
    }
}

// --- receiving ---------------------------------------------------------------------------------------------------

fn recv_flags(plug: &Plug, flags: c_int) -> Result<RecvFlags> {
    numbers::recv_flags(flags.into()).ok_or_else(|| {
        plug.complain(format!("flags {flags:#x} of a call that receives are not supported"));
        libc::EOPNOTSUPP
    })
}

/// Receives; the bytes, and how many there were. `null` if there is nowhere to put them.
fn receive(plug: &Plug, fd: c_int, len: usize, flags: RecvFlags, null: bool) -> Result<(Vec<u8>, i64)> {
    let request = Request::Recv { fd: plug.fd(fd), len: len.min(BYTES_MAX), flags };
    let answer = plug.ask(if null { Request::Nowhere(Box::new(request)) } else { request });
    let count = answer.result?;
    match answer.got {
        // Bytes that are thrown away (MSG_TRUNC) are not shown.
        Got::Bytes(bytes) if !flags.discard => Ok((bytes, count)),
        _ => Ok((Vec::new(), count)),
    }
}

/// # Safety
/// C's contract for `to` and `len`.
unsafe fn receive_into(plug: &Plug, fd: c_int, to: *mut c_void, len: usize, flags: c_int) -> Result<i64> {
    let flags = recv_flags(plug, flags)?;
    let (bytes, count) = receive(plug, fd, len, flags, to.is_null())?;
    // SAFETY: no more than `len`.
    unsafe { memory::put(&bytes, to) }?;
    Ok(count)
}

/// The error queue.
///
/// # Safety
/// C's contract for `message`.
unsafe fn receive_error(plug: &Plug, fd: c_int, message: *mut msghdr) -> Result<i64> {
    let answer = plug.ask(Request::RecvError(plug.fd(fd)));
    let count = answer.result?;
    let Got::Error(report) = answer.got else { return Err(libc::EIO) };
    let truncated = if report.truncated { libc::MSG_TRUNC } else { 0 };
    let control = Control::of_report(&report, plug.is_v6(fd));
    // SAFETY: as the caller vouches.
    unsafe { memory::put_message(message, &control, libc::MSG_ERRQUEUE | truncated) }?;
    Ok(count)
}

/// How the socket wants times of arrival told: each option replaces the one before, so the richest that is on.
fn stamp(plug: &Plug, fd: c_int) -> Stamp {
    let on = |name: c_int| {
        option(plug, fd, libc::SOL_SOCKET, name, 4).is_ok_and(|bytes| bytes.iter().any(|byte| *byte != 0))
    };
    match () {
        () if on(libc::SO_TIMESTAMPING) => Stamp::Three,
        () if on(libc::SO_TIMESTAMPNS) => Stamp::Nanos,
        () => Stamp::Micros,
    }
}

calls! {
    fn read(plug, fd: c_int, to: *mut c_void, len: size_t) -> ssize_t {
        // SAFETY: C's contract.
        unsafe { receive_into(plug, fd, to, len, 0) }
    }

    fn recv(plug, fd: c_int, to: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
        // SAFETY: C's contract.
        unsafe { receive_into(plug, fd, to, len, flags) }
    }

    fn recvfrom(plug, fd: c_int, to: *mut c_void, len: size_t, flags: c_int, addr: *mut sockaddr,
                addr_len: *mut socklen_t) -> ssize_t {
        // SAFETY: C's contract.
        let count = unsafe { receive_into(plug, fd, to, len, flags) }?;
        // A TCP socket names no peer. SAFETY: C's contract.
        unsafe { memory::put_sized(&[], addr.cast(), addr_len) }?;
        Ok(count)
    }

    fn readv(plug, fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
        let vector_count = usize::try_from(count).map_err(|_| libc::EINVAL)?;
        // SAFETY: C's contract.
        let to = unsafe { memory::vectors(vectors, vector_count) }?;
        let (bytes, received) = receive(plug, fd, memory::total(to), RecvFlags::default(), false)?;
        // SAFETY: C's contract.
        unsafe { memory::scatter(&bytes, to) }?;
        Ok(received)
    }

    fn recvmsg(plug, fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        // SAFETY: C's contract.
        let header = unsafe { memory::value(message) }?;
        if flags & libc::MSG_ERRQUEUE != 0 {
            // SAFETY: C's contract.
            return unsafe { receive_error(plug, fd, message) };
        }
        let flags = recv_flags(plug, flags)?;
        // SAFETY: C's contract.
        let to = unsafe { memory::vectors(header.msg_iov, header.msg_iovlen) }?;
        let answer = plug.ask(Request::RecvMessage { fd: plug.fd(fd), len: memory::total(to), flags });
        let count = answer.result?;
        let Got::Message(bytes, received) = answer.got else { return Err(libc::EIO) };
        let told = if received.arrived.is_some() { stamp(plug, fd) } else { Stamp::Micros };
        // SAFETY: C's contract.
        unsafe {
            memory::scatter(&bytes, to)?;
            memory::put_message(message, &Control::of_data(&received, told), 0)?;
        }
        Ok(count)
    }
}

// --- sending -----------------------------------------------------------------------------------------------------

fn send_flags(plug: &Plug, flags: c_int) -> Result<SendFlags> {
    numbers::send_flags(flags.into()).ok_or_else(|| {
        plug.complain(format!("flags {flags:#x} of a call that sends are not supported"));
        libc::EOPNOTSUPP
    })
}

/// Sends. Data that cannot be read are an error only of a socket that could send them.
fn transmit(
    plug: &Plug,
    fd: Fd,
    data: Result<Vec<u8>>,
    flags: c_int,
    to: impl FnOnce() -> Result<Option<Named>>,
) -> Result<i64> {
    let how = send_flags(plug, flags)?;
    let fast_open = match flags & libc::MSG_FASTOPEN != 0 {
        false => None,
        true => Some(match to()? {
            Some(Named::At(remote)) => FastOpen::To(remote),
            Some(Named::Nobody) => FastOpen::Unspecified,
            None => FastOpen::Unnamed,
        }),
    };
    let send = |data: Vec<u8>| Request::Send { fd, data, flags: how, fast_open };
    result(plug.ask(match data {
        Err(libc::EFAULT) => Request::Nowhere(Box::new(send(vec![0]))),
        data => send(data?),
    }))
}

/// # Safety
/// C's contract for both pointers and their lengths.
unsafe fn transmit_from(
    plug: &Plug,
    fd: c_int,
    from: *const c_void,
    len: usize,
    flags: c_int,
    addr: (*const sockaddr, socklen_t),
) -> Result<i64> {
    // SAFETY: as the caller vouches.
    let data = unsafe { memory::bytes(from, len) }.map(<[u8]>::to_vec).map_err(Errno::from);
    let to = || match addr.0.is_null() {
        true => Ok(None),
        // SAFETY: as the caller vouches.
        false => unsafe { named(addr.0, addr.1) }.map(Some),
    };
    transmit(plug, plug.fd(fd), data, flags, to)
}

const NO_ADDRESS: (*const sockaddr, socklen_t) = (std::ptr::null(), 0);

calls! {
    fn write(plug, fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
        // SAFETY: C's contract.
        unsafe { transmit_from(plug, fd, from, len, 0, NO_ADDRESS) }
    }

    fn send(plug, fd: c_int, from: *const c_void, len: size_t, flags: c_int) -> ssize_t {
        // SAFETY: C's contract.
        unsafe { transmit_from(plug, fd, from, len, flags, NO_ADDRESS) }
    }

    fn sendto(plug, fd: c_int, from: *const c_void, len: size_t, flags: c_int, addr: *const sockaddr,
              addr_len: socklen_t) -> ssize_t {
        // SAFETY: C's contract.
        unsafe { transmit_from(plug, fd, from, len, flags, (addr, addr_len)) }
    }

    fn writev(plug, fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
        let count = usize::try_from(count).map_err(|_| libc::EINVAL)?;
        // SAFETY: C's contract.
        let data = unsafe { memory::gather(vectors, count) };
        transmit(plug, plug.fd(fd), data, 0, || Ok(None))
    }

    fn sendmsg(plug, fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        // SAFETY: C's contract.
        let header = unsafe { memory::value(message) }?;
        if !header.msg_control.is_null() && header.msg_controllen > 0 {
            plug.complain("control messages (msg_control) of sendmsg() are not supported".into());
            return Err(libc::EOPNOTSUPP);
        }
        // SAFETY: C's contract.
        let data = unsafe { memory::gather(header.msg_iov, header.msg_iovlen) };
        let to = || match header.msg_name.is_null() {
            true => Ok(None),
            // SAFETY: C's contract.
            false => unsafe { named(header.msg_name.cast(), header.msg_namelen) }.map(Some),
        };
        transmit(plug, plug.fd(fd), data, flags, to)
    }
}

// --- settings ----------------------------------------------------------------------------------------------------

/// Returns the options that the tool reads besides TCP_INFO before every expression. Linux's controllers tell
/// nothing with TCP_CC_INFO unless they have something to tell, and of the nine numbers of SO_MEMINFO the two that
/// are limits are known here.
fn beside_info(plug: &Plug, fd: c_int, level: c_int, name: c_int) -> Option<Vec<u8>> {
    const CC_INFO: c_int = 26;
    const MEMINFO: c_int = 55;
    let number = |name: c_int| option(plug, fd, libc::SOL_SOCKET, name, 4).unwrap_or_default();
    match (level, name) {
        _ if !plug.has(fd) => None,
        (libc::SOL_TCP, CC_INFO) => Some(Vec::new()),
        (libc::SOL_SOCKET, MEMINFO) => {
            let unknown = [0; 4];
            let mut bytes = unknown.to_vec();
            bytes.extend(number(libc::SO_RCVBUF));
            bytes.extend(unknown);
            bytes.extend(number(libc::SO_SNDBUF));
            bytes.resize(36, 0);
            Some(bytes)
        }
        _ => None,
    }
}

/// The value of a socket option, cut to `len`.
pub(crate) fn option(plug: &Plug, fd: c_int, level: c_int, name: c_int, len: usize) -> Result<Vec<u8>> {
    if i32::try_from(len).is_err() {
        return Err(libc::EINVAL);
    }
    if let Some(mut bytes) = beside_info(plug, fd, level, name) {
        bytes.truncate(len);
        return Ok(bytes);
    }
    let answer = plug.ask(Request::GetOption { fd: plug.fd(fd), level, name, len });
    match answer.result {
        Err(libc::ENOPROTOOPT) => plug.complain(format!("getsockopt({level}, {name}): no such option")),
        other => {
            other?;
        }
    }
    match answer.got {
        Got::Bytes(bytes) => Ok(bytes),
        _ => Err(libc::ENOPROTOOPT),
    }
}

calls! {
    fn getsockopt(plug, fd: c_int, level: c_int, name: c_int, to: *mut c_void, len: *mut socklen_t) -> c_int {
        // SAFETY: C's contract.
        let room = unsafe { memory::value(len) }? as usize;
        let bytes = option(plug, fd, level, name, room)?;
        if to.is_null() && room > 0 {
            return Err(libc::EFAULT);
        }
        // SAFETY: C's contract.
        unsafe { memory::put_sized(&bytes, to, len) }?;
        Ok(0)
    }

    fn setsockopt(plug, fd: c_int, level: c_int, name: c_int, from: *const c_void, len: socklen_t) -> c_int {
        if i32::try_from(len).is_err() {
            return Err(libc::EINVAL);
        }
        // SAFETY: C's contract.
        let value = unsafe { memory::bytes(from, len as usize) }?.to_vec();
        let answer = plug.ask(Request::SetOption { fd: plug.fd(fd), level, name, value });
        if answer.result == Err(libc::ENOPROTOOPT) {
            plug.complain(format!("setsockopt({level}, {name}): no such option"));
        }
        result(answer)
    }

    // C declares the third argument of these two with `...`; on every Linux that Rust knows for this tool it travels
    // as a named one does, and where the tool passes none, none is looked at.
    fn fcntl(plug, fd: c_int, command: c_int, argument: c_long) -> c_int {
        match numbers::fcntl(plug.fd(fd), command, i64::from(argument as c_int)) {
            Some(request) => result(plug.ask(request)),
            None if !plug.has(fd) => Err(libc::EBADF),
            None => {
                plug.complain(format!("fcntl() with {command} is not supported"));
                Err(libc::EINVAL)
            }
        }
    }

    fn ioctl(plug, fd: c_int, number: c_ulong, to: *mut c_int) -> c_int {
        // The tool passes a C int, whose sign fills the upper half.
        let Some(request) = numbers::ioctl(plug.fd(fd), i64::from(number as u32)) else {
            plug.complain(format!("ioctl() with {number:#x} is not supported"));
            return Err(if plug.has(fd) { libc::ENOTTY } else { libc::EBADF });
        };
        let answer = plug.ask(request);
        answer.result?;
        if to.is_null() {
            return Err(libc::EFAULT);
        }
        if let Got::Number(counted) = answer.got {
            // SAFETY: C's contract.
            unsafe { memory::put_value(counted as c_int, to) };
        }
        Ok(0)
    }
}

// --- readiness ---------------------------------------------------------------------------------------------------

calls! {
    fn poll(plug, rows: *mut pollfd, count: nfds_t, millis: c_int) -> c_int {
        let count = count as usize;
        if count > ROWS_MAX {
            return Err(libc::EINVAL);
        }
        if rows.is_null() && count > 0 {
            return Err(libc::EFAULT);
        }
        // SAFETY: C's contract: so many rows lie there, and none has padding or an invalid value.
        let row = |at: usize| unsafe { memory::value(rows.add(at)) };
        let wanted: Result<Vec<PollFd>> = (0..count)
            .map(row)
            .map(|row| {
                let row = row?;
                let fd = if row.fd < 0 { -1 } else { plug.fd(row.fd) };
                Ok(PollFd { fd, interest: Ready(u32::from(row.events as u16)), ready: Ready::NONE })
            })
            .collect();
        let answer = plug.ask(Request::Poll(wanted?, numbers::timeout(millis.into())));
        let ready = answer.result?;
        if let Got::Rows(seen) = answer.got {
            for (at, seen) in seen.iter().enumerate() {
                let filled = pollfd { revents: seen.ready.0 as i16, ..row(at)? };
                // SAFETY: the row that was read.
                unsafe { memory::put_value(filled, rows.add(at)) };
            }
        }
        Ok(ready)
    }

    fn epoll_create(plug, size: c_int) -> c_int {
        if size <= 0 {
            return Err(libc::EINVAL);
        }
        descriptor(plug, plug.ask(Request::EpollCreate), false)
    }

    fn epoll_ctl(plug, epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
        let event = || -> Result<EpollEvent> {
            // SAFETY: C's contract.
            let epoll_event { events, u64: data } = unsafe { memory::value(event) }?;
            Ok(EpollEvent { ready: Ready(events), data })
        };
        let op = match op {
            libc::EPOLL_CTL_ADD => EpollOp::Add(event()?),
            libc::EPOLL_CTL_MOD => EpollOp::Modify(event()?),
            libc::EPOLL_CTL_DEL => EpollOp::Delete,
            _ => return Err(libc::EINVAL),
        };
        result(plug.ask(Request::EpollCtl(plug.fd(epfd), plug.fd(fd), op)))
    }

    fn epoll_wait(plug, epfd: c_int, to: *mut epoll_event, max: c_int, millis: c_int) -> c_int {
        let max = usize::try_from(max).ok().filter(|max| *max > 0).ok_or(libc::EINVAL)?;
        if to.is_null() {
            return Err(libc::EFAULT);
        }
        let request = Request::EpollWait(plug.fd(epfd), max.min(ROWS_MAX), numbers::timeout(millis.into()));
        let answer = plug.ask(request);
        let count = answer.result?;
        if let Got::Events(events) = answer.got {
            for (at, event) in events.iter().enumerate() {
                let event = epoll_event { events: event.ready.0, u64: event.data };
                // SAFETY: C's contract: room for `max`, and the stack gave no more.
                unsafe { memory::put_value(event, to.add(at)) };
            }
        }
        Ok(count)
    }
}

// --- packets and time --------------------------------------------------------------------------------------------

calls! {
    fn netdev_send(plug, from: *const c_void, len: size_t) -> c_int {
        // SAFETY: C's contract.
        let packet = unsafe { memory::bytes(from, len) }?.to_vec();
        plug.send(packet).map_err(sock::Errno::raw)?;
        Ok(0)
    }

    fn netdev_receive(plug, to: *mut c_void, len: *mut size_t, micros: *mut c_longlong) -> c_int {
        // SAFETY: C's contract.
        let room = unsafe { memory::value(len) }?;
        if to.is_null() {
            return Err(libc::EFAULT);
        }
        let (packet, at) = match plug.receive().map_err(sock::Errno::raw)? {
            Some((packet, at)) => (packet, Some(at)),
            // None will ever come; what says so is a length of zero.
            None => (Vec::new(), None),
        };
        if packet.len() > room {
            plug.complain(format!("a packet of {} bytes, and room for {room}", packet.len()));
            return Err(libc::EMSGSIZE);
        }
        // SAFETY: C's contract, and no more than there is room for.
        unsafe {
            memory::put(&packet, to)?;
            memory::put_value(packet.len(), len);
            at.into_iter().for_each(|at| memory::put_value(at, micros));
        }
        Ok(0)
    }

    fn usleep(plug, micros: c_uint) -> c_int {
        plug.sleep(Duration::from_micros(micros.into())).map_err(sock::Errno::raw)?;
        Ok(0)
    }

    fn gettimeofday(plug, to: *mut timeval, _zone: *mut c_void) -> c_int {
        let micros = plug.time().map_err(sock::Errno::raw)?.as_nanos() as i64 / 1_000;
        let now = timeval { tv_sec: micros / 1_000_000, tv_usec: micros % 1_000_000 };
        // SAFETY: C's contract.
        unsafe { memory::put_value(now, to) };
        Ok(0)
    }
}

/// The end of the run. Descriptors that are still open are the tool's to close: it may have done so already, and the
/// kernel may have given their numbers to others.
unsafe extern "C" fn free(userdata: *mut c_void) {
    guarded("free", || {
        if !userdata.is_null() {
            // SAFETY: what `packetdrill_interface_init` gave, which the tool gives back here, once.
            let plug = unsafe { Arc::from_raw(userdata.cast_const().cast::<Plug>()) };
            plug.finish();
        }
        Ok(0)
    });
}

#[cfg(test)]
mod tests;
