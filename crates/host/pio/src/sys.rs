//! The few system calls that several ports share, with results instead of -1.

use base::{Addr, Duration, Instant};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The result of a call that says -1 and sets errno when it fails.
pub(crate) fn check(rc: libc::c_int) -> io::Result<libc::c_int> {
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc) }
}

/// Checks the result of a call that returns a length.
pub(crate) fn check_len(rc: isize) -> io::Result<usize> {
    usize::try_from(rc).map_err(|_| io::Error::last_os_error())
}

/// The owner of a descriptor that a call has just returned.
///
/// # Safety
/// `rc` is what a call that makes a new descriptor returned: -1 or a descriptor nothing else owns.
pub(crate) unsafe fn owned(rc: libc::c_int) -> io::Result<OwnedFd> {
    let fd = check(rc)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A new timer for poll, closed on exec.
///
/// By its number: the launcher hides what the stack opens by syscall(2), and this call it does not intercept otherwise.
pub(crate) fn timer() -> io::Result<OwnedFd> {
    let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
    // SAFETY: takes two numbers and returns a new descriptor.
    unsafe { owned(libc::syscall(libc::SYS_timerfd_create, libc::CLOCK_MONOTONIC, flags) as libc::c_int) }
}

/// Sets a timer to so much from now, or to never. It is not readable until then, though it may have been.
pub(crate) fn set_timer(timer: &OwnedFd, after: Option<Duration>) -> io::Result<()> {
    let mut spec = libc::itimerspec {
        it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
        it_value: libc::timespec { tv_sec: 0, tv_nsec: 0 },
    };
    if let Some(after) = after {
        spec.it_value.tv_sec = after.as_secs().min(i32::MAX as u64) as libc::time_t;
        // Nothing at all would mean never.
        spec.it_value.tv_nsec = libc::c_long::from(after.subsec_nanos()).max(1);
    }
    // SAFETY: `spec` lives through the call, and what was set before is not asked for.
    let rc = unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const spec, std::ptr::null_mut()) };
    check(rc).map(drop)
}

/// A new inotify descriptor, closed on exec. By its number, as [`timer`].
pub(crate) fn inotify() -> io::Result<OwnedFd> {
    let flags = libc::IN_NONBLOCK | libc::IN_CLOEXEC;
    // SAFETY: takes a number and returns a new descriptor.
    unsafe { owned(libc::syscall(libc::SYS_inotify_init1, flags) as libc::c_int) }
}

/// A new socket, closed on exec.
pub(crate) fn socket(domain: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes three numbers and returns a new descriptor.
    unsafe { owned(libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol)) }
}

/// Set a socket option to the bytes of `value`.
pub(crate) fn set_option<T: Copy>(fd: RawFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: `value` is readable for its size; the kernel copies it.
    let rc = unsafe {
        libc::setsockopt(fd, level, name, std::ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t)
    };
    check(rc).map(drop)
}

/// Reads a socket option into `value`, which is plain numbers. The kernel may fill only its front.
pub(crate) fn get_option<T: Copy>(fd: RawFd, level: i32, name: i32, value: &mut T) -> io::Result<()> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is writable for `len` bytes.
    let rc = unsafe { libc::getsockopt(fd, level, name, std::ptr::from_mut(value).cast(), &raw mut len) };
    check(rc).map(drop)
}

/// Index of the interface called `name` in the caller's network namespace.
pub(crate) fn index_of(name: &str) -> io::Result<u32> {
    let name = std::ffi::CString::new(name)?;
    // SAFETY: a string that ends in NUL.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// An IP socket address in the kernel's shape.
pub(crate) enum SockAddr {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

impl SockAddr {
    /// `addr` and `port`; IPv6 link-local addresses are those on interface `ifindex`.
    pub(crate) fn new(addr: Addr, port: u16, ifindex: u32) -> SockAddr {
        match addr.v4_bytes() {
            Some(bytes) => SockAddr::V4(libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: port.to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(bytes) },
                sin_zero: [0; 8],
            }),
            None => SockAddr::V6(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: port.to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: addr.bytes() },
                sin6_scope_id: if addr.is_link_local_v6() { ifindex } else { 0 },
            }),
        }
    }

    /// AF_INET or AF_INET6.
    pub(crate) fn family(&self) -> i32 {
        match self {
            SockAddr::V4(_) => libc::AF_INET,
            SockAddr::V6(_) => libc::AF_INET6,
        }
    }

    /// Returns the arguments for system calls; valid while `self` is.
    pub(crate) fn raw(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        match self {
            SockAddr::V4(a) => (std::ptr::from_ref(a).cast(), size_of_val(a) as libc::socklen_t),
            SockAddr::V6(a) => (std::ptr::from_ref(a).cast(), size_of_val(a) as libc::socklen_t),
        }
    }
}

/// Make a socket send and receive on one interface only. Open to every program for a socket that is bound to
/// none.
pub(crate) fn bind_to_interface(fd: RawFd, ifindex: u32) -> io::Result<()> {
    const SO_BINDTOIFINDEX: i32 = 62;
    set_option(fd, libc::SOL_SOCKET, SO_BINDTOIFINDEX, &(ifindex as i32))
}

/// Puts the packet socket `fd` on interface `ifindex` of the network namespace that it is of. It gets packets of
/// `protocol`, 0 for none.
pub(crate) fn bind_packet(fd: RawFd, ifindex: u32, protocol: i32) -> io::Result<()> {
    // SAFETY: all zero is a valid sockaddr_ll.
    let mut addr: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    addr.sll_family = libc::AF_PACKET as u16;
    addr.sll_protocol = (protocol as u16).to_be();
    addr.sll_ifindex = ifindex as i32;
    let len = size_of::<libc::sockaddr_ll>() as u32;
    // SAFETY: `addr` is a socket address of `len` bytes.
    check(unsafe { libc::bind(fd, (&raw const addr).cast(), len) }).map(drop)
}

/// Makes an interface hear frames for others too, until the packet socket `fd` is closed.
pub(crate) fn hear_everybody(fd: RawFd, ifindex: u32) -> io::Result<()> {
    // SAFETY: all zero is a valid packet_mreq.
    let mut request: libc::packet_mreq = unsafe { std::mem::zeroed() };
    request.mr_ifindex = ifindex as i32;
    request.mr_type = libc::PACKET_MR_PROMISC as u16;
    set_option(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Returns true if the packet socket `fd` is on no interface any more, because its own was deleted.
pub(crate) fn is_on_no_interface(fd: RawFd) -> bool {
    // SAFETY: all zero is a valid sockaddr_ll.
    let mut addr: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: at most `len` bytes are written to `addr`.
    let asked = check(unsafe { libc::getsockname(fd, (&raw mut addr).cast(), &raw mut len) });
    asked.is_ok() && addr.sll_ifindex < 0
}

/// Takes the error that waits at a socket.
pub(crate) fn take_error(fd: RawFd) -> io::Result<i32> {
    let mut error = 0_i32;
    get_option(fd, libc::SOL_SOCKET, libc::SO_ERROR, &mut error).map(|()| error)
}

/// `count` bytes of the kernel's entropy.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    const { assert!(N <= 256, "the kernel gives up to 256 bytes at once or none") };
    // SAFETY: `bytes` is writable for `N` bytes.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
    if check_len(got)? == N { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// 128 bits of the kernel's entropy.
pub(crate) fn random_words() -> io::Result<[u64; 2]> {
    let bytes: [u8; 16] = random()?;
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
    Ok([word(0), word(8)])
}

/// A link-layer address nothing else has, locally administered (IEEE 802 clause 8.4.2).
pub(crate) fn random_mac() -> io::Result<[u8; 6]> {
    let mut mac: [u8; 6] = random()?;
    mac[0] = mac[0] & 0xfc | 0x02;
    Ok(mac)
}

/// Wait for events on `fds`; how many have some. `None` waits for ever.
pub(crate) fn poll(fds: &mut [libc::pollfd], timeout: Option<Duration>) -> io::Result<usize> {
    let spec = timeout.map(|t| libc::timespec {
        tv_sec: t.as_secs().min(i32::MAX as u64) as libc::time_t,
        tv_nsec: t.subsec_nanos().into(),
    });
    let spec = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `fds` is a writable array of its length, `spec` is null or points to a timespec, no signal
    // mask.
    let rc = unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, spec, std::ptr::null()) };
    check(rc).map(|n| n as usize)
}

/// The calling thread's network namespace, as a number.
pub(crate) fn network() -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/thread-self/ns/net").map(|meta| meta.ino())
}

/// Returns an error if the calling thread is not in that network namespace: sockets that it makes are of the namespace
/// that it is in.
pub(crate) fn is_in_network(network: u64) -> Result<(), String> {
    match self::network() {
        Ok(here) if here == network => Ok(()),
        Ok(_) => Err("this program is in another network namespace now".into()),
        Err(error) => Err(format!("/proc/thread-self/ns/net: {error}")),
    }
}

/// The user whose files are ours.
pub(crate) fn user() -> u32 {
    // SAFETY: asks for a number.
    unsafe { libc::geteuid() }
}

/// Operation on the lock of one byte of an open file. The lock belongs to the open file: other processes, and other
/// opens of this one, are excluded, and it ends with the last descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Take it, or fail.
    Take,
    /// Give it back.
    Free,
}

impl Lock {
    /// Does it to the byte `at`.
    pub(crate) fn of(self, fd: BorrowedFd<'_>, at: i64) -> io::Result<()> {
        let (how, kind) = match self {
            Lock::Take => (libc::F_OFD_SETLK, libc::F_WRLCK),
            Lock::Free => (libc::F_OFD_SETLK, libc::F_UNLCK),
        };
        lock(fd, how, kind, at).map(drop)
    }

    /// Returns true if another open file has it. Locks of readers do not count: every user who may read the file can
    /// take one.
    pub(crate) fn is_others(fd: BorrowedFd<'_>, at: i64) -> io::Result<bool> {
        lock(fd, libc::F_OFD_GETLK, libc::F_RDLCK, at).map(|kind| kind != libc::F_UNLCK)
    }
}

fn lock(fd: BorrowedFd<'_>, how: i32, kind: i32, at: i64) -> io::Result<i32> {
    // SAFETY: all zero is a valid flock.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_whence) = (kind as i16, libc::SEEK_SET as i16);
    (lock.l_start, lock.l_len) = (at, 1);
    loop {
        // SAFETY: `lock` is a flock to read and write.
        match check(unsafe { libc::fcntl(fd.as_raw_fd(), how, &raw mut lock) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done.map(|_| lock.l_type.into()),
        }
    }
}

/// A `pollfd` that asks for `events`.
pub(crate) fn interest(fd: RawFd, events: i16) -> libc::pollfd {
    libc::pollfd { fd, events, revents: 0 }
}

/// Time since the machine started.
pub(crate) fn monotonic() -> Instant {
    clock(libc::CLOCK_MONOTONIC)
}

/// Time since 1970, for the eyes of people.
pub(crate) fn realtime() -> Instant {
    clock(libc::CLOCK_REALTIME)
}

/// Returns the CPU time of a process so far, that of its threads that have ended included.
///
/// # Errors
/// There is no such process.
pub fn process_cpu(pid: u32) -> io::Result<Duration> {
    let mut id = 0;
    // SAFETY: `id` is writable.
    match unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &raw mut id) } {
        0 => Ok(clock(id) - Instant::from_secs(0)),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

fn clock(id: libc::clockid_t) -> Instant {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable.
    unsafe { libc::clock_gettime(id, &raw mut now) };
    Instant::from_secs(now.tv_sec as u64) + Duration::from_nanos(now.tv_nsec as u64)
}

#[cfg(test)]
mod tests;
