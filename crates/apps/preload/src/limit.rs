//! The program's limit of descriptors (RLIMIT_NOFILE). A program that has reached it may still connect on Linux, so
//! what the stack opens for itself goes beyond the soft limit: the kernel gives the lowest free number, so that the
//! program's own calls get EMFILE as before.

use crate::boundary::errno;
use libc::{c_int, rlim_t, rlimit};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Numbers that must be free for a stack to open: fewer are why it does not.
const OPENING: usize = 32;

/// Number of attempts to get the lock: a handler of a signal may have interrupted the thread that has it.
const ATTEMPTS: u32 = 1_000;

/// The program's soft limit, and how many calls have raised it.
struct Raised {
    calls: u32,
    soft: rlim_t,
}

static RAISED: Mutex<Raised> = Mutex::new(Raised { calls: 0, soft: 0 });

fn raised() -> Option<MutexGuard<'static, Raised>> {
    for _ in 0..ATTEMPTS {
        match RAISED.try_lock() {
            Ok(raised) => return Some(raised),
            Err(TryLockError::Poisoned(poisoned)) => return Some(PoisonError::into_inner(poisoned)),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    None
}

fn limits() -> Option<rlimit> {
    let mut limit = rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    (unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0).then_some(limit)
}

fn set_soft(soft: rlim_t) {
    if let Some(limit) = limits() {
        let limit = rlimit { rlim_cur: soft.min(limit.rlim_max), ..limit };
        // SAFETY: limits of this frame's. Should the kernel refuse, calls beyond the limit are EMFILE as before.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
}

/// Returns the program's soft limit, whether it is raised at present or not.
pub(crate) fn soft() -> rlim_t {
    let now = limits().map_or(0, |limit| limit.rlim_cur);
    raised().filter(|raised| raised.calls > 0).map_or(now, |raised| raised.soft)
}

/// Runs what opens descriptors of the stack's own, beyond the program's soft limit if need be.
pub(crate) fn beyond<R>(call: impl FnOnce() -> R) -> R {
    struct Back;
    impl Drop for Back {
        fn drop(&mut self) {
            let Some(mut raised) = raised() else { return };
            raised.calls -= 1;
            if raised.calls == 0 {
                set_soft(raised.soft);
            }
        }
    }
    let Some(mut all) = raised() else { return call() };
    if all.calls == 0 {
        let Some(limit) = limits() else { return call() };
        all.soft = limit.rlim_cur;
        set_soft(limit.rlim_max);
    }
    all.calls += 1;
    drop(all);
    let _back = Back;
    call()
}

/// In a child: no thread of this process has raised it.
pub(crate) fn forked() {
    if let Some(mut raised) = raised().filter(|raised| raised.calls > 0) {
        raised.calls = 0;
        set_soft(raised.soft);
    }
}

/// Opens a descriptor of the stack's own; one that the program's soft limit forbids lies beyond it.
pub(crate) fn own(open: impl Fn() -> c_int) -> c_int {
    let fd = open();
    if fd < 0 && errno() == libc::EMFILE { beyond(open) } else { fd }
}

/// Returns true if no stack can open because the process has no numbers left.
pub(crate) fn is_reached() -> bool {
    beyond(|| {
        let mut all = Vec::new();
        let failed = (0..OPENING).any(|_| {
            // SAFETY: numbers alone.
            let fd = unsafe { libc::syscall(libc::SYS_eventfd2, 0, libc::O_CLOEXEC) } as c_int;
            all.extend((fd >= 0).then_some(fd));
            fd < 0 && matches!(errno(), libc::EMFILE | libc::ENFILE)
        });
        for fd in all {
            // SAFETY: descriptors of this frame's.
            unsafe { libc::syscall(libc::SYS_close, fd) };
        }
        failed
    })
}
