//! Sleeping in the kernel: on what the stack waits for and on the program's own descriptors, with Linux's rules for
//! signals.

use crate::bell::forks;
use crate::inside::outside;
use crate::real::{self, errno, set_errno};
use crate::signals::{self, Ran};
use base::Duration;
use capi::boundary::{Outcome, Refused};
use libc::{c_int, c_long, c_short, pollfd, sigset_t, timespec};
use sock::runner::Woken;
use std::os::fd::RawFd;
use std::ptr::{null, null_mut};

/// Bytes of the kernel's signal set.
const SIGNALS: c_long = 8;

/// How long the machine has been awake.
pub(crate) fn monotonic() -> Duration {
    clock(libc::CLOCK_MONOTONIC)
}

fn clock(id: libc::clockid_t) -> Duration {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable.
    unsafe { libc::clock_gettime(id, &raw mut now) };
    Duration::from_secs(now.tv_sec as u64) + Duration::from_nanos(now.tv_nsec as u64)
}

/// The longest tick of the kernel's coarse clock.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// How long the machine has been awake, to a tick: a third of the price.
pub(crate) fn roughly_now() -> Duration {
    clock(libc::CLOCK_MONOTONIC_COARSE)
}

/// A time as the kernel takes it.
pub(crate) fn to_timespec(time: Duration) -> timespec {
    timespec { tv_sec: time.as_secs() as libc::time_t, tv_nsec: time.subsec_nanos().into() }
}

/// ppoll(2) that no cancellation ends: there are frames of ours above it. The first `own` rows are the program's, and
/// behind them is the thread's bell, if it is to sleep. A handler that runs ends it, whenever that is, unless a row of
/// the program's is ready.
pub(crate) fn ppoll(
    rows: &mut [pollfd],
    own: usize,
    timeout: Option<Duration>,
    mask: *const sigset_t,
) -> c_int {
    let mut time = timeout.map(to_timespec);
    let time = time.as_mut().map_or(null_mut(), std::ptr::from_mut);
    let (at, count) = (rows.as_mut_ptr() as c_long, rows.len() as c_long);
    let (ran, bell) = (Ran::so_far(), rows.get(own).map_or(-1, |row| row.fd));
    let ready = signals::sleep(bell, ran, || {
        // SAFETY: as many rows as are there, a time or NULL, and the caller's mask or NULL.
        unsafe {
            real::syscall(libc::SYS_ppoll, at, count, time as c_long, mask as c_long, SIGNALS, 0) as c_int
        }
    });
    if ran == Ran::so_far() || ready > Some(0) && rows[..own].iter().any(|row| row.revents != 0) {
        return ready.unwrap_or(-1);
    }
    set_errno(libc::EINTR);
    -1
}

/// A row that waits for input.
pub(crate) fn input(fd: RawFd) -> pollfd {
    pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Runs a call of the kernel's that waits for events of these descriptors. A signal that came since the thread is
/// inside, as while it took a connection from its parent, ends a call that would sleep: it came while the program
/// waited.
///
/// # Errors
/// EINTR.
pub(crate) fn by_kernel<R>(
    waits_for: impl IntoIterator<Item = (c_int, c_short)>,
    call: impl FnOnce() -> R,
) -> Outcome<R> {
    let sleeps = |(fd, events)| {
        let mut row = pollfd { fd, events, revents: 0 };
        // SAFETY: numbers alone, and a row of this frame's.
        unsafe {
            real::fcntl(fd, libc::F_GETFL, 0) & libc::O_NONBLOCK == 0 && real::poll(&raw mut row, 1, 0) == 0
        }
    };
    if signals::late_ends_calls() && waits_for.into_iter().any(sleeps) {
        return Err(Refused(libc::EINTR));
    }
    Ok(outside(call))
}

/// The sleep of a call that waits for the stack alone: a signal ends it, unless it `restarts` and no handler that ran
/// wants calls to end (no SA_RESTART).
pub(crate) fn on_stack(fds: &[RawFd], timeout: Option<Duration>, restarts: bool) -> Woken {
    let mut rows: Vec<pollfd> = fds.iter().map(|&fd| input(fd)).collect();
    let (process, ran) = (forks(), Ran::so_far());
    let ended = ppoll(&mut rows, 0, timeout, null()) < 0 && errno() == libc::EINTR;
    // In a child, which a handler has made, the call has nothing to go on with: the stack is the parent's.
    match ended {
        _ if forks() != process => Woken::Signal,
        true if !restarts || ran.ends_calls() => Woken::Signal,
        true => Woken::Restart,
        false => Woken::Stack,
    }
}

/// The sleep of a call that waits for descriptors of the kernel's too: `rows` begins with those, and ends with room for
/// the stack's. Any signal ends it, unless the call `restarts`.
pub(crate) fn beside(
    rows: &mut Vec<pollfd>,
    own: usize,
    fds: &[RawFd],
    timeout: Option<Duration>,
    mask: *const sigset_t,
    restarts: bool,
) -> Woken {
    rows.truncate(own);
    rows.extend(fds.iter().map(|&fd| input(fd)));
    let (process, ran) = (forks(), Ran::so_far());
    let ready = ppoll(rows, own, timeout, mask);
    let ended = ready < 0 && errno() == libc::EINTR;
    if ended && (!restarts || ran.ends_calls()) || forks() != process {
        return Woken::Signal;
    }
    if ready > 0 && rows[..own].iter().any(|row| row.revents != 0) { Woken::Beside } else { Woken::Stack }
}
