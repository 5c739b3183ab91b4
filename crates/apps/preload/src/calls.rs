//! The table of calls that come here: one row each gives the function that programs find in place of the C library's,
//! the way to the C library's own, and the line in docs/LAUNCHER.md.
//!
//! Each of the two macros hands its rows to the macro `$of`: [`real`](crate::real) makes the C library's own functions
//! of them, [`hooks`](crate::hooks) those that programs find.

use libc::{c_char, c_int, c_void};

/// Strings, a NULL at the end.
pub(crate) type List = *const *const c_char;

/// Entry function of a child.
pub(crate) type Entry = extern "C" fn(*mut c_void) -> c_int;

/// Entry function of a thread.
pub(crate) type Start = extern "C" fn(*mut c_void) -> *mut c_void;

/// Destructor of an object that a thread has of its own.
pub(crate) type Destructor = unsafe extern "C" fn(*mut c_void);

/// Calls whose first argument is a descriptor: a handler sees those on ours alone.
macro_rules! on_descriptors {
($of:ident) => { $of! {
    "the address decides whose the socket becomes: a loopback address (but for `loopback=all`), or one that is not \
     the link's, leaves it to the kernel. Of what becomes ours the kernel's socket is bound on the loopback, so a \
     port that is taken is EADDRINUSE here; without SO_REUSEADDR it is taken as long as a connection of the stack has \
     it, TIME-WAIT included."
    bind(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int => sockets::bind;
    "a connection of the link or of the loopback, whichever waits."
    accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int => accept::accept;
    "as on Linux."
    shutdown(fd: c_int, how: c_int) -> c_int => sockets::shutdown;
    "as on Linux."
    getsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int => names::getsockname;
    "as on Linux."
    getpeername(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int => names::getpeername;
    "what the stack does not know is ENOPROTOOPT on a connection. Before it is decided whose the socket is, the \
     kernel answers, and what was set is set again on the connection; one line tells of what the stack does not \
     know."
    setsockopt(
        fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t
    ) -> c_int => options::setsockopt;
    "of a connection by the stack, else by the kernel."
    getsockopt(
        fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t
    ) -> c_int => options::getsockopt;
    "as on Linux."
    read(fd: c_int, to: *mut c_void, len: size_t) -> ssize_t => data::read;
    "as on Linux."
    readv(fd: c_int, to: *const iovec, count: c_int) -> ssize_t => data::readv;
    "as on Linux; there is no urgent data (EINVAL)."
    recv(fd: c_int, to: *mut c_void, len: size_t, flags: c_int) -> ssize_t => data::recv;
    "as recv; names no peer."
    recvfrom(
        fd: c_int, to: *mut c_void, len: size_t, flags: c_int, addr: *mut sockaddr, addr_len: *mut socklen_t
    ) -> ssize_t => data::recvfrom;
    "as on Linux, SIGPIPE included."
    write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t => data::write;
    "as on Linux, SIGPIPE included."
    writev(fd: c_int, from: *const iovec, count: c_int) -> ssize_t => data::writev;
    "as on Linux; flags that mean nothing to the stack are EOPNOTSUPP."
    send(fd: c_int, from: *const c_void, len: size_t, flags: c_int) -> ssize_t => data::send;
    "as send; the address counts with MSG_FASTOPEN."
    sendto(
        fd: c_int, from: *const c_void, len: size_t, flags: c_int, addr: *const sockaddr, addr_len: socklen_t
    ) -> ssize_t => data::sendto;
    "where the file is (offset -1) as readv; else ESPIPE."
    preadv2(
        fd: c_int, to: *const iovec, count: c_int, offset: off_t, flags: c_int
    ) -> ssize_t => data::preadv2;
    "as preadv2."
    preadv64v2(
        fd: c_int, to: *const iovec, count: c_int, offset: off_t, flags: c_int
    ) -> ssize_t => data::preadv2;
    "where the file is (offset -1) as writev; else ESPIPE."
    pwritev2(
        fd: c_int, from: *const iovec, count: c_int, offset: off_t, flags: c_int
    ) -> ssize_t => data::pwritev2;
    "as pwritev2."
    pwritev64v2(
        fd: c_int, from: *const iovec, count: c_int, offset: off_t, flags: c_int
    ) -> ssize_t => data::pwritev2;
    "the text goes the way of write."
    vdprintf(fd: c_int, format: *const c_char, list: *mut c_void) -> c_int => streams::vdprintf;
    "vdprintf, checked by the compiler."
    __vdprintf_chk(
        fd: c_int, flag: c_int, format: *const c_char, list: *mut c_void
    ) -> c_int => streams::vdprintf_chk;
    "read, checked by the compiler."
    __read_chk(fd: c_int, to: *mut c_void, len: size_t, room: size_t) -> ssize_t => data::read_chk;
    "recv, checked by the compiler."
    __recv_chk(fd: c_int, to: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t => data::recv_chk;
    "recvfrom, checked by the compiler."
    __recvfrom_chk(
        fd: c_int, to: *mut c_void, len: size_t, room: size_t, flags: c_int, addr: *mut sockaddr, addr_len: *mut
        socklen_t
    ) -> ssize_t => data::recvfrom_chk;
    "the last descriptor closes the connection."
    close(fd: c_int) -> c_int => descriptors::close;
    "another number for the same thing."
    dup(fd: c_int) -> c_int => descriptors::dup;
    "F_DUPFD, F_GETFL and F_SETFL are ours; the rest is the kernel's, whose descriptor it is."
    fcntl(fd: c_int, command: c_int, arg: c_long) -> c_int => descriptors::fcntl;
    "as fcntl."
    fcntl64(fd: c_int, command: c_int, arg: c_long) -> c_int => descriptors::fcntl;
    "FIONREAD, FIONBIO, SIOCOUTQ and SIOCOUTQNSD are ours; the rest is the kernel's."
    ioctl(fd: c_int, request: c_ulong, value: *mut c_void) -> c_int => descriptors::ioctl;
    "as on Linux. A connection keeps its inode when another process gets it."
    fstat(fd: c_int, to: *mut stat) -> c_int => descriptors::fstat;
    "as fstat."
    fstat64(fd: c_int, to: *mut stat) -> c_int => descriptors::fstat;
    "a stream that reads and writes through us."
    fdopen(fd: c_int, mode: *const c_char) -> *mut FILE => streams::fdopen;
} };
}

/// Calls that a handler sees in any case.
macro_rules! others {
($of:ident) => { $of! {
    "a TCP socket of the kernel's, of which is decided later whose it becomes."
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int => sockets::socket;
    "the kernel listens on the loopback; the stack listens on the link from the first accept, poll or epoll_wait on."
    listen(fd: c_int, backlog: c_int) -> c_int => sockets::listen;
    "over the link, if the address can be reached there and is not the machine's own. Inside the stack, if the setting \
     loopback says so of the address and this process alone listens there. Else by the kernel."
    connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int => sockets::connect;
    "as accept, with flags."
    accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int => accept::accept4;
    "the number it takes is let go first."
    dup2(from: c_int, to: c_int) -> c_int => descriptors::dup2;
    "the number it takes is let go first."
    dup3(from: c_int, to: c_int, flags: c_int) -> c_int => descriptors::dup3;
    "ours are closed as by close; those of the stack itself stay; CLOSE_RANGE_UNSHARE is as for unshare."
    close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int => descriptors::close_range;
    "once the stack runs, CLONE_FILES is left out: its threads and the program's use the same descriptors. One line \
     tells so."
    unshare(flags: c_int) -> c_int => descriptors::unshare;
    "a set of the kernel's; from when there is something of ours in it, one of the stack's beside it."
    epoll_create(size: c_int) -> c_int => epoll::create;
    "as epoll_create."
    epoll_create1(flags: c_int) -> c_int => epoll::create1;
    "sets take descriptors of ours and of the kernel's."
    epoll_ctl(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int => epoll::ctl;
    "events of ours and of the kernel's, whichever there are."
    epoll_wait(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int => epoll::wait_ms;
    "as epoll_wait."
    epoll_pwait(
        epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int, mask: *const sigset_t
    ) -> c_int => epoll::pwait;
    "as epoll_wait."
    epoll_pwait2(
        epfd: c_int, events: *mut epoll_event, max: c_int, timeout: *const timespec, mask: *const sigset_t
    ) -> c_int => epoll::pwait2;
    "descriptors of ours and of the kernel's together."
    poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int => poll::poll;
    "descriptors of ours and of the kernel's together."
    ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int => poll::ppoll;
    "poll, checked by the compiler."
    __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int => poll::poll_chk;
    "ppoll, checked by the compiler."
    __ppoll_chk(
        fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, room: size_t
    ) -> c_int => poll::ppoll_chk;
    "descriptors of ours and of the kernel's together."
    select(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval
    ) -> c_int => poll::select;
    "descriptors of ours and of the kernel's together."
    pselect(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask:
        *const sigset_t
    ) -> c_int => poll::pselect;
    "nothing changes; what the stack opens for itself is hidden from the program."
    eventfd(value: c_uint, flags: c_int) -> c_int => threads::eventfd;
    "nothing changes; what the stack opens for itself is hidden from the program."
    open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int => threads::open64;
    "nothing changes; but a handler whose signal comes while its thread is in a call of ours that does not sleep runs \
     at the end of that."
    sigaction(
        signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction
    ) -> c_int => signals::sigaction;
    "as sigaction."
    signal(signal: c_int, action: sighandler_t) -> sighandler_t => signals::signal;
    "nothing changes; threads of the stack take no signals."
    pthread_create(
        thread: *mut pthread_t, attributes: *const pthread_attr_t, start: Start, arg: *mut c_void
    ) -> c_int => threads::pthread_create;
    "nothing changes."
    __cxa_thread_atexit_impl(
        destructor: Destructor, object: *mut c_void, library: *mut c_void
    ) -> c_int => threads::at_exit;
    "connections that the new program will have become sockets that the parent relays, and it has the launch's \
     variables; one line tells of a program that is linked statically, or that gets more privileges."
    execve(path: *const c_char, arguments: List, environment: List) -> c_int => exec::execve;
    "as execve."
    execv(path: *const c_char, arguments: List) -> c_int => exec::execv;
    "as execve."
    execvp(file: *const c_char, arguments: List) -> c_int => exec::execvp;
    "as execve."
    execvpe(file: *const c_char, arguments: List, environment: List) -> c_int => exec::execvpe;
    "as execve."
    fexecve(fd: c_int, arguments: List, environment: List) -> c_int => exec::fexecve;
    "as execve."
    execveat(
        folder: c_int, path: *const c_char, arguments: List, environment: List, flags: c_int
    ) -> c_int => exec::execveat;
    "as execve; connections that the child inherits, or that file actions give it, are relayed to it."
    posix_spawn(
        pid: *mut pid_t, path: *const c_char, actions: *const posix_spawn_file_actions_t, attributes: *const
        posix_spawnattr_t, arguments: List, environment: List
    ) -> c_int => spawn::posix_spawn;
    "as posix_spawn."
    posix_spawnp(
        pid: *mut pid_t, file: *const c_char, actions: *const posix_spawn_file_actions_t, attributes: *const
        posix_spawnattr_t, arguments: List, environment: List
    ) -> c_int => spawn::posix_spawnp;
    "nothing changes."
    posix_spawn_file_actions_init(actions: *mut posix_spawn_file_actions_t) -> c_int => spawn::init;
    "nothing changes."
    posix_spawn_file_actions_destroy(actions: *mut posix_spawn_file_actions_t) -> c_int => spawn::destroy;
    "notes that a child is to have a connection."
    posix_spawn_file_actions_adddup2(
        actions: *mut posix_spawn_file_actions_t, from: c_int, to: c_int
    ) -> c_int => spawn::adddup2;
    "reads the file in pieces and sends them; to a pipe as splice."
    sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t => moves::sendfile;
    "as sendfile."
    sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t => moves::sendfile64;
    "as send; control messages that mean something to Linux's TCP are EOPNOTSUPP. Over a UNIX socket, connections \
     and listeners can be handed over."
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t => rights::sendmsg;
    "with TCP_CM_INQ, times of arrival and the error queue."
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t => rights::recvmsg;
    "message by message; the time-out is looked at in between, as on Linux."
    recvmmsg(
        fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec
    ) -> c_int => rights::recvmmsg;
    "as sendmsg, message by message."
    sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int => rights::sendmmsg;
    "knows the number of a stream over a connection."
    fileno(stream: *mut FILE) -> c_int => streams::fileno;
    "as fileno."
    fileno_unlocked(stream: *mut FILE) -> c_int => streams::fileno_unlocked;
    "between a connection and a pipe, both ways, with two copies."
    splice(
        from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, len: size_t, flags: c_uint
    ) -> ssize_t => moves::splice;
    "what listens does so on the stack before, and of root's rights the process keeps what its link takes."
    setuid(user: uid_t) -> c_int => privileges::setuid;
    "as setuid."
    seteuid(user: uid_t) -> c_int => privileges::seteuid;
    "as setuid."
    setreuid(own: uid_t, effective: uid_t) -> c_int => privileges::setreuid;
    "as setuid."
    setresuid(own: uid_t, effective: uid_t, saved: uid_t) -> c_int => privileges::setresuid;
    "the stack is opened before, where its link takes what is given up, and what listens does so there; then the \
     kernel's. The stack's threads have what is left."
    capset(header: *mut c_void, data: *const c_void) -> c_int => privileges::capset;
    "what listens does so on the stack before."
    chroot(path: *const c_char) -> c_int => privileges::chroot;
    "a limit of address space (RLIMIT_AS) is the program's alone: the kernel's is 1 GiB above it, for the stack."
    setrlimit(resource: c_uint, new: *const rlimit) -> c_int => space::setrlimit;
    "as setrlimit."
    setrlimit64(resource: c_uint, new: *const rlimit) -> c_int => space::setrlimit64;
    "the limit of address space (RLIMIT_AS) is what the program has set."
    getrlimit(resource: c_uint, old: *mut rlimit) -> c_int => space::getrlimit;
    "as getrlimit."
    getrlimit64(resource: c_uint, old: *mut rlimit) -> c_int => space::getrlimit64;
    "as setrlimit and getrlimit, in the process itself."
    prlimit(pid: pid_t, resource: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int => space::prlimit;
    "as prlimit."
    prlimit64(pid: pid_t, resource: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int => space::prlimit64;
    "a child with memory of its own is a fork, and so is one that its parent waits for (CLONE_VFORK); one that shares \
     memory or descriptors alone is EINVAL once the stack runs, with one line of warning."
    clone(
        entry: Option<Entry>, stack: *mut c_void, flags: c_int, arg: *mut c_void, parent: *mut pid_t, tls: *mut
        c_void, child: *mut pid_t
    ) -> c_int => fork::clone;
    "a fork."
    _Fork() -> pid_t => fork::fork_alone;
    "socket calls, capset, execve, execveat, fork, vfork, clone and clone3 go the way of the functions of their names; \
     io_uring_setup is ENOSYS with one line of warning."
    syscall(
        number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long
    ) -> c_long => syscall::syscall;
} };
}

pub(crate) use {on_descriptors, others};
