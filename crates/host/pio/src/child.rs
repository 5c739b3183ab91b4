//! A child process that stands for this one: it gets the signals that are sent to this process, and this process stops
//! and ends as it does.

use crate::sys::{check, check_len, owned};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Signals that the kernel sends to each process of a terminal's or session's group.
const OF_GROUP: [i32; 7] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGCONT, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// A child that [`fork`] made.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    signals: OwnedFd,
}

/// Blocked signals, and what SIGCHLD did.
struct Before {
    mask: libc::sigset_t,
    on_child: libc::sigaction,
}

/// Forks a process that has one thread. Returns the child to the parent, which handles no signal from now on but by
/// [`Child::wait`], and has standard error alone of the descriptors that both inherited. Returns `None` to the child.
///
/// # Errors
/// The kernel's.
pub fn fork() -> io::Result<Option<Child>> {
    let before = block_all()?;
    // SAFETY: there is no other thread whose locks the child could miss.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        // SAFETY: both were the kernel's own answers.
        unsafe {
            check(libc::sigaction(libc::SIGCHLD, &raw const before.on_child, std::ptr::null_mut()))?;
            check(libc::sigprocmask(libc::SIG_SETMASK, &raw const before.mask, std::ptr::null_mut()))?;
        }
        return Ok(None);
    }
    leave_descriptors()?;
    let all = set_of(None);
    // SAFETY: a set of signals, and a new descriptor is returned.
    let signals = unsafe { owned(libc::signalfd(-1, &raw const all, libc::SFD_CLOEXEC)) }?;
    Ok(Some(Child { pid, signals }))
}

/// Has the kernel kill this process when its parent, `parent`, ends. Stays over exec, but not where exec or another
/// call changes the user or the group.
///
/// # Errors
/// The parent has ended.
pub fn die_with(parent: u32) -> io::Result<()> {
    // SAFETY: numbers alone.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) })?;
    if std::os::unix::process::parent_id() == parent {
        return Ok(());
    }
    Err(io::Error::other("the process that waits for it has ended"))
}

impl Child {
    /// The child's number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.pid as u32
    }

    /// Waits for the child's end. Signals that are sent to this process alone go to the child, `refused` is told of
    /// those that may not; if job control stops the child, this process stops.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wait(&self, refused: impl Fn(i32, io::Error)) -> io::Result<ExitStatus> {
        loop {
            let about = self.next_signal()?;
            let signal = about.ssi_signo as i32;
            if signal == libc::SIGCHLD {
                if let Some(status) = self.reap()? {
                    return Ok(status);
                }
            } else if !self.has_had(signal, &about)
                // SAFETY: numbers alone; the child has not been waited for, so the number is its.
                && let Err(e) = check(unsafe { libc::kill(self.pid, signal) })
            {
                refused(signal, e);
            }
        }
    }

    fn next_signal(&self) -> io::Result<libc::signalfd_siginfo> {
        let mut about = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let len = size_of::<libc::signalfd_siginfo>();
        // SAFETY: as much room as is said, and zeroes are a signal's description.
        unsafe {
            check_len(libc::read(self.signals.as_raw_fd(), about.as_mut_ptr().cast(), len))?;
            Ok(about.assume_init())
        }
    }

    /// Returns true if the child has sent the signal, or was sent it by the kernel as this process was: the terminal's
    /// keys and job control reach each process of a group. A hang-up reaches the leader of a session alone.
    fn has_had(&self, signal: i32, about: &libc::signalfd_siginfo) -> bool {
        // SAFETY: numbers alone.
        let (group, own, session) = unsafe { (libc::getpgid(self.pid), libc::getpgrp(), libc::getsid(0)) };
        let to_leader =
            matches!(signal, libc::SIGHUP | libc::SIGCONT) && session == std::process::id() as i32;
        match about.ssi_code {
            libc::SI_KERNEL => OF_GROUP.contains(&signal) && group == own && !to_leader,
            _ => about.ssi_pid == self.id(),
        }
    }

    /// Looks at each child that has ended or stopped: a process that is the first of its namespace has others, too.
    fn reap(&self) -> io::Result<Option<ExitStatus>> {
        loop {
            let mut status = 0;
            // SAFETY: room for a number.
            let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::WUNTRACED) };
            if check(pid)? == 0 {
                return Ok(None);
            }
            if pid != self.pid {
                continue;
            }
            let status = ExitStatus::from_raw(status);
            match status.stopped_signal() {
                // Who stops the program alone lets it go on alone, too, and would leave this process stopped.
                Some(libc::SIGSTOP) => {}
                Some(signal) => stop(signal)?,
                None => return Ok(Some(status)),
            }
        }
    }
}

/// Stops this process as `signal` does, unless it was told to go on meanwhile.
fn stop(signal: i32) -> io::Result<()> {
    let mut pending = set_of(None);
    // SAFETY: room for a set.
    check(unsafe { libc::sigpending(&raw mut pending) })?;
    // SAFETY: a set that the kernel has filled in.
    if unsafe { libc::sigismember(&raw const pending, libc::SIGCONT) } == 1 {
        return Ok(());
    }
    let one = set_of(Some(signal));
    // SAFETY: a set, and numbers.
    unsafe {
        // Before it is let through: the terminal's own may wait, too, and both are one then.
        check(libc::raise(signal))?;
        check(libc::sigprocmask(libc::SIG_UNBLOCK, &raw const one, std::ptr::null_mut()))?;
        check(libc::sigprocmask(libc::SIG_BLOCK, &raw const one, std::ptr::null_mut())).map(drop)
    }
}

/// Ends this process as `status` says: with its number, or by its signal, without a core of its own.
pub fn end_as(status: ExitStatus) -> ! {
    if let Some(signal) = status.signal() {
        let one = set_of(Some(signal));
        // SAFETY: a set, and numbers. The first of a namespace does not die of its own signal, and goes on.
        unsafe {
            libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
            libc::sigprocmask(libc::SIG_UNBLOCK, &raw const one, std::ptr::null_mut());
        }
    }
    std::process::exit(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

/// One signal, or all.
fn set_of(signal: Option<i32>) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: room for a set, which is filled in.
    unsafe {
        match signal {
            Some(signal) => {
                libc::sigemptyset(set.as_mut_ptr());
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            None => {
                libc::sigfillset(set.as_mut_ptr());
            }
        }
        set.assume_init()
    }
}

/// No signal interrupts this process, and the ends of its children are told.
fn block_all() -> io::Result<Before> {
    let all = set_of(None);
    let mut mask = all;
    // SAFETY: a `sigaction` of zeroes is the default without flags; there is room for what was before.
    unsafe {
        let plain: libc::sigaction = std::mem::zeroed();
        let mut on_child = plain;
        check(libc::sigprocmask(libc::SIG_SETMASK, &raw const all, &raw mut mask))?;
        check(libc::sigaction(libc::SIGCHLD, &raw const plain, &raw mut on_child))?;
        Ok(Before { mask, on_child })
    }
}

/// Leaves to the program what it inherits: a pipe that it closes has no other writer, and its directory is not in use.
/// Descriptors that exec closes are this process's own.
fn leave_descriptors() -> io::Result<()> {
    let inherited = |fd: i32| {
        // SAFETY: numbers alone.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
        flags >= 0 && flags & libc::FD_CLOEXEC == 0
    };
    let number = |name: &OsStr| name.to_str().and_then(|name| name.parse::<i32>().ok());
    let open: Vec<_> =
        fs::read_dir("/proc/self/fd")?.flatten().filter_map(|row| number(&row.file_name())).collect();
    for fd in open.into_iter().filter(|&fd| fd > 2 && inherited(fd)) {
        // SAFETY: nothing here owns a descriptor that stays over exec.
        unsafe { libc::close(fd) };
    }
    let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    for fd in [0, 1] {
        // SAFETY: a descriptor that is open; the standard ones have no owner here.
        check(unsafe { libc::dup2(null.as_raw_fd(), fd) })?;
    }
    std::env::set_current_dir("/")
}
