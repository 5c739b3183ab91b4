//! Isolation of the stack: its descriptors are hidden from the program and lie where a program does not look
//! for numbers, and its threads take no signals. And the way round the C library's functions, syscall(2).

use crate::boundary::{is_inside, say, set_errno, stay_inside};
use crate::hooks::{self, real};
use crate::table;
use crate::{fork, limit};
pub(crate) use capi::host::undisturbed;
use capi::memory::is_nowhere;
use libc::{c_char, c_int, c_long, c_uint, c_void, pthread_attr_t, pthread_t, sigset_t};
use std::cell::Cell;
use std::ptr::{null, null_mut};
use std::sync::{Arc, Barrier, Once};

/// Entry function of a thread.
pub(crate) type Start = extern "C" fn(*mut c_void) -> *mut c_void;

/// How many of the highest numbers are the stack's, at least; of few numbers, half.
const HIGH: c_int = 256;

/// A descriptor of the stack's own moves to a high number and is hidden. A failure stays one.
pub(crate) fn hidden(fd: c_int) -> c_int {
    if fd < 0 {
        return fd;
    }
    // SAFETY: numbers alone.
    let high = unsafe {
        let end = limit::soft().min(table::NUMBERS as u64) as c_int;
        let flags = real::fcntl(fd, libc::F_GETFD, 0);
        let command = if flags & libc::FD_CLOEXEC != 0 { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
        real::fcntl(fd, command, (end - HIGH).max(end / 2).into())
    };
    let kept = if high >= 0 {
        // SAFETY: no other thread uses it.
        unsafe { real::close(fd) };
        high
    } else {
        fd
    };
    crate::description::note_number(kept);
    table::hide(kept);
    kept
}

fn hidden_if_inside(open: impl Fn() -> c_int) -> c_int {
    if is_inside() { hidden(limit::own(open)) } else { open() }
}

/// # Safety
/// C's contract of eventfd(2).
pub(crate) unsafe fn eventfd(value: c_uint, flags: c_int) -> c_int {
    // SAFETY: numbers alone.
    hidden_if_inside(|| unsafe { real::eventfd(value, flags) })
}

/// # Safety
/// C's contract of open(2).
pub(crate) unsafe fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the caller's arguments.
    hidden_if_inside(|| unsafe { real::open64(path, flags, mode) })
}

/// Sets of capabilities, as capset(2) has them: of each half the effective, permitted and inheritable ones.
pub(crate) type Sets = [[u32; 3]; 2];

/// A thread of the stack's.
struct Ours {
    start: Start,
    arg: *mut c_void,
    sets: Option<Sets>,
    /// Its creator and the thread meet here when the thread has its sets.
    has_sets: Arc<Barrier>,
}

thread_local! {
    /// Capabilities of the threads that this one makes for the stack, if not its own.
    static SETS: Cell<Option<Sets>> = const { Cell::new(None) };
}

/// From now on the threads that the calling one makes for the stack, and those that they make, begin with these sets.
pub(crate) fn make_threads_with(sets: Sets) {
    SETS.set(Some(sets));
}

/// Destructor of an object that a thread has of its own.
pub(crate) type Destructor = unsafe extern "C" fn(*mut c_void);

thread_local! {
    /// Destructors that run at the end of this thread, which is the stack's; NULL in a thread of the program.
    static AT_EXIT: Cell<*mut Vec<(Destructor, *mut c_void)>> = const { Cell::new(null_mut()) };
}

/// Notes a destructor. The C library notes it on its heap, where a thread that has allocated nothing before gets 64 MiB
/// of addresses for that (see [`heap`](crate::heap)).
///
/// # Safety
/// The contract of the C library's function.
pub(crate) unsafe fn at_exit(destructor: Destructor, object: *mut c_void, library: *mut c_void) -> c_int {
    // SAFETY: NULL, or the vector of this thread's `begin`, which no reference outlives a call to.
    match unsafe { AT_EXIT.get().as_mut() } {
        Some(ours) => ours.push((destructor, object)),
        // SAFETY: the caller's arguments.
        None => return unsafe { real::__cxa_thread_atexit_impl(destructor, object, library) },
    }
    0
}

/// Runs a thread of the stack's, and its destructors, the last one first.
fn run(start: Start, arg: *mut c_void) -> *mut c_void {
    let mut destructors = Vec::new();
    let all = &raw mut destructors;
    AT_EXIT.set(all);
    let result = start(arg);
    // SAFETY: the vector above. A destructor may note another one.
    while let Some((destructor, object)) = unsafe { (*all).pop() } {
        // SAFETY: as the thread has noted it.
        unsafe { destructor(object) };
    }
    AT_EXIT.set(null_mut());
    result
}

extern "C" fn begin(ours: *mut c_void) -> *mut c_void {
    // SAFETY: what `pthread_create` below has made, once.
    let Ours { start, arg, sets, has_sets } = *unsafe { Box::from_raw(ours.cast::<Ours>()) };
    stay_inside();
    if let Some(sets) = sets {
        make_threads_with(sets);
        // Where the kernel refuses this, it refuses the program's own call alike, and all threads keep what they have:
        // the C library ends a process whose threads differ in whether they may call setgroups or setuid.
        let _ = sock::set_capabilities(sets);
        has_sets.wait();
    }
    drop(has_sets);
    run(start, arg)
}

/// # Safety
/// C's contract of pthread_create(3).
pub(crate) unsafe fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    arg: *mut c_void,
) -> c_int {
    if !is_inside() {
        // SAFETY: the caller's arguments.
        return unsafe { real::pthread_create(thread, attributes, start, arg) };
    }
    let (sets, has_sets) = (SETS.get(), Arc::new(Barrier::new(2)));
    let ours = Ours { start, arg, sets, has_sets: Arc::clone(&has_sets) };
    let ours = Box::into_raw(Box::new(ours)).cast::<c_void>();
    // SAFETY: the caller's arguments, and what `begin` takes.
    let failed = undisturbed(|| unsafe { real::pthread_create(thread, attributes, begin, ours) });
    if failed != 0 {
        // SAFETY: no thread has taken it.
        drop(unsafe { Box::from_raw(ours.cast::<Ours>()) });
    } else if sets.is_some() {
        // The program's next call may be one that all threads make: the C library ends a process whose threads differ.
        has_sets.wait();
    }
    failed
}

/// Calls that give a descriptor, by which the stack opens what no other function here hides.
const OPENS: [c_long; 3] = [libc::SYS_memfd_create, libc::SYS_inotify_init1, libc::SYS_timerfd_create];

/// Commands of bpf(2) that give a descriptor.
const BPF_OPENS: [c_long; 10] = [0, 5, 7, 13, 14, 17, 18, 19, 28, 30];

/// # Safety
/// C's contract of syscall(2).
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
            libc::SYS_io_uring_setup if crate::stack::settings().is_some() => no_rings(),
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
