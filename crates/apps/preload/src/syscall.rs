//! The way round the C library's functions, syscall(2): calls by their numbers go to the functions of their names.

use crate::boundary::{is_inside, say, set_errno};
use crate::inside::stay_apart;
use crate::threads::hidden;
use crate::{fork, hooks, limit, real, stack};
use capi::memory::is_nowhere;
use libc::{c_int, c_long, sigset_t};
use std::ptr::null;
use std::sync::Once;

/// Calls that give a descriptor, by which the stack opens what no other function here hides.
const OPENS: [c_long; 3] = [libc::SYS_memfd_create, libc::SYS_inotify_init1, libc::SYS_timerfd_create];

/// Commands of bpf(2) that give a descriptor.
const BPF_OPENS: [c_long; 10] = [0, 5, 7, 13, 14, 17, 18, 19, 28, 30];

pub(crate) unsafe fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    if is_inside() {
        // SAFETY: the caller's arguments.
        let call = || unsafe { real::syscall(number, a, b, c, d, e, f) };
        let opens = OPENS.contains(&number) || number == libc::SYS_bpf && BPF_OPENS.contains(&a);
        if number == libc::SYS_close_range && c == c_long::from(libc::CLOSE_RANGE_UNSHARE) {
            let done = call();
            if done == 0 {
                stay_apart();
            }
            return done;
        }
        return if opens { hidden(limit::own(|| call() as c_int)).into() } else { call() };
    }
    let (fd, int) = (a as c_int, |value: c_long| value as c_int);
    // SAFETY: the caller's arguments, in the order and of the types of the functions of the same names.
    unsafe {
        match number {
            libc::SYS_read => hooks::read(fd, b as _, c as _) as c_long,
            libc::SYS_write => hooks::write(fd, b as _, c as _) as c_long,
            libc::SYS_readv => hooks::readv(fd, b as _, int(c)) as c_long,
            libc::SYS_writev => hooks::writev(fd, b as _, int(c)) as c_long,
            libc::SYS_close => hooks::close(fd).into(),
            libc::SYS_close_range => hooks::close_range(a as _, b as _, int(c)).into(),
            libc::SYS_unshare => hooks::unshare(fd).into(),
            libc::SYS_dup => hooks::dup(fd).into(),
            libc::SYS_dup2 => hooks::dup2(fd, int(b)).into(),
            libc::SYS_dup3 => hooks::dup3(fd, int(b), int(c)).into(),
            libc::SYS_fcntl => hooks::fcntl(fd, int(b), c).into(),
            libc::SYS_ioctl => hooks::ioctl(fd, b as _, c as _).into(),
            libc::SYS_socket => hooks::socket(fd, int(b), int(c)).into(),
            libc::SYS_bind => hooks::bind(fd, b as _, c as _).into(),
            libc::SYS_listen => hooks::listen(fd, int(b)).into(),
            libc::SYS_accept => hooks::accept(fd, b as _, c as _).into(),
            libc::SYS_accept4 => hooks::accept4(fd, b as _, c as _, int(d)).into(),
            libc::SYS_connect => hooks::connect(fd, b as _, c as _).into(),
            libc::SYS_shutdown => hooks::shutdown(fd, int(b)).into(),
            libc::SYS_getsockname => hooks::getsockname(fd, b as _, c as _).into(),
            libc::SYS_getpeername => hooks::getpeername(fd, b as _, c as _).into(),
            libc::SYS_getsockopt => hooks::getsockopt(fd, int(b), int(c), d as _, e as _).into(),
            libc::SYS_setsockopt => hooks::setsockopt(fd, int(b), int(c), d as _, e as _).into(),
            libc::SYS_recvfrom => hooks::recvfrom(fd, b as _, c as _, int(d), e as _, f as _) as c_long,
            libc::SYS_sendto => hooks::sendto(fd, b as _, c as _, int(d), e as _, f as _) as c_long,
            libc::SYS_recvmsg => hooks::recvmsg(fd, b as _, int(c)) as c_long,
            libc::SYS_sendmsg => hooks::sendmsg(fd, b as _, int(c)) as c_long,
            libc::SYS_recvmmsg => hooks::recvmmsg(fd, b as _, c as _, int(d), e as _).into(),
            libc::SYS_sendmmsg => hooks::sendmmsg(fd, b as _, c as _, int(d)).into(),
            libc::SYS_sendfile => hooks::sendfile(fd, int(b), c as _, d as _) as c_long,
            libc::SYS_preadv2 => hooks::preadv2(fd, b as _, int(c), d, int(f)) as c_long,
            libc::SYS_pwritev2 => hooks::pwritev2(fd, b as _, int(c), d, int(f)) as c_long,
            libc::SYS_splice => hooks::splice(fd, b as _, int(c), d as _, e as _, f as _) as c_long,
            libc::SYS_epoll_create => hooks::epoll_create(fd).into(),
            libc::SYS_epoll_create1 => hooks::epoll_create1(fd).into(),
            libc::SYS_epoll_pwait2 => hooks::epoll_pwait2(fd, b as _, int(c), d as _, e as _).into(),
            libc::SYS_select if is_told(e) => hooks::select(fd, b as _, c as _, d as _, e as _).into(),
            libc::SYS_pselect6 if is_told(e) && is_told(f) => {
                hooks::pselect(fd, b as _, c as _, d as _, e as _, mask_of(f)).into()
            }
            libc::SYS_ppoll if is_told(c) => hooks::ppoll(a as _, b as _, c as _, d as _).into(),
            libc::SYS_poll => hooks::poll(a as _, b as _, int(c)).into(),
            libc::SYS_epoll_ctl => hooks::epoll_ctl(fd, int(b), int(c), d as _).into(),
            libc::SYS_epoll_wait => hooks::epoll_wait(fd, b as _, int(c), int(d)).into(),
            libc::SYS_epoll_pwait => hooks::epoll_pwait(fd, b as _, int(c), int(d), e as _).into(),
            libc::SYS_capset => hooks::capset(a as _, b as _).into(),
            libc::SYS_exit_group => hooks::_exit(fd),
            libc::SYS_execve => hooks::execve(a as _, b as _, c as _).into(),
            libc::SYS_execveat => hooks::execveat(fd, b as _, c as _, d as _, int(e)).into(),
            // The C library's function knows who wants to hear of a fork.
            libc::SYS_fork | libc::SYS_vfork => libc::fork().into(),
            libc::SYS_clone => fork::clone_raw(a, b, c, d, e),
            libc::SYS_clone3 => fork::clone3(a, b),
            libc::SYS_io_uring_setup if stack::settings().is_some() => no_rings(),
            _ => real::syscall(number, a, b, c, d, e, f),
        }
    }
}

/// A pointer that the C library's functions look at themselves: what leads nowhere is the kernel's to complain of.
fn is_told(pointer: c_long) -> bool {
    pointer == 0 || !is_nowhere(pointer as *const [u64; 2])
}

/// pselect6's last argument: where the mask is, and how long.
///
/// # Safety
/// NULL, or what the kernel takes.
unsafe fn mask_of(pair: c_long) -> *const sigset_t {
    let pair = pair as *const *const sigset_t;
    // SAFETY: as the caller vouches.
    if pair.is_null() { null() } else { unsafe { pair.read_unaligned() } }
}

/// A ring of the kernel's would move bytes past us.
fn no_rings() -> c_long {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| say("io_uring is refused (ENOSYS): what it moves would go past the stack"));
    set_errno(libc::ENOSYS);
    -1
}
