//! poll, ppoll, select, pselect over descriptors of ours and of the kernel's.

use crate::boundary::{Outcome, Refused, answered, guard, is_inside, outside};
use crate::description::{Kind, NONE};
use crate::epoll;
use crate::listener::{listen_below, was_shut};
use crate::real;
use crate::signals::{self, Ran};
use crate::sleep::{beside, monotonic, ppoll as kernels_ppoll, to_timespec};
use crate::table::{self, Place};
use crate::{relay, stack};
use base::Duration;
use capi::memory::{can_write, is_nowhere, put};
use libc::{c_int, c_short, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval};
use sock::runner::Ended;
use sock::{Errno, PollFd, Ready, Sockets};
use std::ptr::null;

/// A time that a call waits: `None` for ever; EINVAL for one that is none.
pub(crate) fn duration(time: Option<&timespec>) -> Result<Option<Duration>, Refused> {
    match time {
        None => Ok(None),
        Some(time) if time.tv_sec < 0 || !(0..1_000_000_000).contains(&time.tv_nsec) => {
            Err(Refused(libc::EINVAL))
        }
        Some(time) => {
            Ok(Some(Duration::from_secs(time.tv_sec as u64) + Duration::from_nanos(time.tv_nsec as u64)))
        }
    }
}

/// Returns the time for a system call, valid during the calling statement.
pub(crate) fn raw(time: &Option<Duration>) -> *const timespec {
    thread_local! {
        static TIME: std::cell::Cell<timespec> = const { std::cell::Cell::new(timespec { tv_sec: 0, tv_nsec: 0 }) };
    }
    match time {
        None => null(),
        Some(time) => TIME.with(|cell| {
            cell.set(to_timespec(*time));
            cell.as_ptr().cast_const()
        }),
    }
}

fn millis(timeout: c_int) -> Option<Duration> {
    u64::try_from(timeout).ok().map(Duration::from_millis)
}

/// The caller's rows, if one of them is not the kernel's. What the stack itself waits for is, and of rows that cannot
/// be written the kernel says what is wrong.
unsafe fn rows_of_ours<'a>(fds: *mut pollfd, count: nfds_t) -> Option<&'a mut [pollfd]> {
    if count == 0 || count > table::NUMBERS as nfds_t || is_inside() {
        return None;
    }
    if !can_write(fds, count as usize * size_of::<pollfd>()) {
        return None;
    }
    // SAFETY: they can be written, and C's contract says what they are.
    let rows = unsafe { std::slice::from_raw_parts_mut(fds, count as usize) };
    rows.iter().any(|row| !table::is_kernels(row.fd)).then_some(rows)
}

/// NULL, or what can be looked at; of anything else the kernel says what is wrong.
fn are_somewhere<A, B>(one: *const A, other: *const B) -> bool {
    (one.is_null() || !is_nowhere(one)) && (other.is_null() || !is_nowhere(other))
}

pub(crate) unsafe fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: C's contract.
    match unsafe { rows_of_ours(fds, count) } {
        // SAFETY: the caller's arguments.
        None => unsafe { real::poll(fds, count, timeout) },
        Some(rows) => guard(|| wait(rows, millis(timeout), null())),
    }
}

pub(crate) unsafe fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: C's contract.
    match unsafe { rows_of_ours(fds, count) }.filter(|_| are_somewhere(timeout, mask)) {
        // SAFETY: the caller's arguments.
        None => unsafe { real::ppoll(fds, count, timeout, mask) },
        // SAFETY: C's contract.
        Some(rows) => guard(|| wait(rows, duration(unsafe { timeout.as_ref() })?, mask)),
    }
}

/// # Safety
/// C's contract of poll(2).
pub(crate) unsafe fn poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int {
    check(count, room);
    // SAFETY: the caller's arguments.
    unsafe { poll(fds, count, timeout) }
}

/// # Safety
/// C's contract of ppoll(2).
pub(crate) unsafe fn ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    room: size_t,
) -> c_int {
    check(count, room);
    // SAFETY: the caller's arguments.
    unsafe { ppoll(fds, count, timeout, mask) }
}

/// Checks, as the compiler's fortified calls do, that no call overruns its buffer.
fn check(count: nfds_t, room: size_t) {
    if room / size_of::<pollfd>() < count as usize {
        // SAFETY: nothing of ours is held; the C library ends the program in the same place.
        unsafe { libc::abort() }
    }
}

/// The rows in two: those that the kernel answers (with -1 where it does not), and those of the stack with their
/// places.
struct Split {
    kernels: Vec<pollfd>,
    ours: Vec<PollFd>,
    places: Vec<usize>,
    invalid: Vec<usize>,
}

fn split(rows: &[pollfd]) -> Outcome<Split> {
    let mut split =
        Split { kernels: rows.to_vec(), ours: Vec::new(), places: Vec::new(), invalid: Vec::new() };
    for (at, row) in rows.iter().enumerate() {
        let held = match table::look(row.fd) {
            Place::Kernel => continue,
            Place::Hidden => {
                split.kernels[at].fd = -1;
                split.invalid.push(at);
                continue;
            }
            Place::Ours(held) => {
                relay::settle_to_wait(&held, row.fd)?;
                held
            }
        };
        let below = match held.kind() {
            Kind::Fresh | Kind::Relayed | Kind::Inherited => continue,
            Kind::Listener if was_shut(&held, row.fd) => continue,
            Kind::Stream => {
                split.kernels[at].fd = -1;
                held.below()
            }
            Kind::Listener => listen_below(stack::open()?, &held, row.fd)?,
            Kind::Epoll => epoll::waited_for(&held)?.unwrap_or(NONE),
        };
        if below != NONE {
            let interest = epoll::interest(u32::from(row.events as u16));
            split.ours.push(PollFd { fd: below, interest, ready: Ready::NONE });
            split.places.push(at);
        }
    }
    Ok(split)
}

impl Split {
    /// Tells the program; how many rows have something.
    fn tell(&self, rows: &mut [pollfd]) -> c_int {
        for (row, kernels) in rows.iter_mut().zip(&self.kernels) {
            row.revents = if kernels.fd < 0 { 0 } else { kernels.revents };
        }
        for (ours, &at) in self.ours.iter().zip(&self.places) {
            let row = &mut rows[at];
            row.revents |= ours.ready.0 as c_short;
        }
        for &at in &self.invalid {
            rows[at].revents = libc::POLLNVAL;
        }
        rows.iter().filter(|row| row.revents != 0).count() as c_int
    }
}

/// Waits until a row has something.
pub(crate) fn wait(rows: &mut [pollfd], timeout: Option<Duration>, mask: *const sigset_t) -> Outcome<c_int> {
    let mut left = timeout;
    let (mut until, ran) = (None, Ran::so_far());
    loop {
        let sets = epoll::Watching::of(rows);
        if sets.is_empty() || left == Some(Duration::ZERO) {
            drop(sets);
            return wait_as_they_are(rows, left, mask);
        }
        until = until.or_else(|| left.map(|left| monotonic() + left));
        let done = wait_as_they_are(rows, left, mask);
        if !sets.end() || !matches!(done, Ok(0..)) {
            return done;
        }
        if ran != Ran::so_far() {
            return Err(Refused(libc::EINTR));
        }
        // There is something of ours in a set by now: the kernel does not know of it.
        left = until.map(|until| until.saturating_sub(monotonic()));
    }
}

/// Waits on sets in which nothing changes.
fn wait_as_they_are(rows: &mut [pollfd], timeout: Option<Duration>, mask: *const sigset_t) -> Outcome<c_int> {
    let mut split = split(rows)?;
    if split.ours.is_empty() && split.invalid.is_empty() {
        // A signal came while a connection was taken from the parent.
        if signals::are_late(mask) && timeout != Some(Duration::ZERO) {
            // SAFETY: rows of the caller's.
            return match unsafe { real::poll(rows.as_mut_ptr(), rows.len() as nfds_t, 0) } {
                0 => Err(Refused(libc::EINTR)),
                done => answered(done),
            };
        }
        // SAFETY: rows of the caller's.
        return answered(outside(|| unsafe {
            real::ppoll(rows.as_mut_ptr(), rows.len() as nfds_t, raw(&timeout), mask)
        }));
    }
    let stack = stack::open()?;
    let own = split.kernels.len();
    let kernels = split.kernels.iter().any(|row| row.fd >= 0);
    stack.runner.after_turn(|engine| engine.poll(&mut split.ours))?;
    if kernels && kernels_ppoll(&mut split.kernels, own, Some(Duration::ZERO), null()) < 0 {
        return answered(-1);
    }
    let n = split.tell(rows);
    if n > 0 || timeout == Some(Duration::ZERO) {
        return answered(n);
    }
    let until = timeout.map(|left| stack.runner.time() + left);
    let on = match &split.ours[..] {
        [one] => Some(one.fd),
        _ => None,
    };
    loop {
        let left = until.map(|until| until.since(stack.runner.time()));
        let Split { kernels: beside_rows, ours, .. } = &mut split;
        let wait = stack.runner.wait_beside(
            on,
            left,
            &mut |fds, left| beside(beside_rows, own, fds, left, mask, false),
            &mut |engine| match engine.poll(ours) {
                0 => Err(Errno::EAGAIN),
                n => Ok(n),
            },
        );
        split.kernels.truncate(own);
        match wait {
            Ok(_) | Err(Ended::Beside) => match split.tell(rows) {
                0 => {}
                n => return answered(n),
            },
            Err(Ended::Time) => return answered(split.tell(rows)),
            Err(Ended::Signal) => return Err(Refused(libc::EINTR)),
            Err(Ended::Failed(errno)) => return Err(errno.into()),
        }
    }
}

/// Events of select, and the events of poll that stand for them.
const SETS: [(c_short, c_short); 3] = [
    (libc::POLLIN | libc::POLLRDHUP, libc::POLLIN | libc::POLLHUP | libc::POLLERR | libc::POLLRDHUP),
    (libc::POLLOUT, libc::POLLOUT | libc::POLLERR),
    (libc::POLLPRI, libc::POLLPRI),
];

/// A set of select's, whatever its size.
struct Bits(*mut fd_set);

impl Bits {
    /// Is the descriptor in the set?
    unsafe fn has(&self, fd: usize) -> bool {
        // SAFETY: the caller vouches for a set of so many descriptors, or NULL.
        !self.0.is_null() && unsafe { *self.0.cast::<u64>().add(fd / 64) & 1 << (fd % 64) != 0 }
    }

    unsafe fn clear(&self, fds: usize) {
        for word in 0..fds.div_ceil(64) {
            if !self.0.is_null() {
                // SAFETY: as in `has`.
                unsafe { *self.0.cast::<u64>().add(word) = 0 };
            }
        }
    }

    unsafe fn set(&self, fd: usize) {
        // SAFETY: as in `has`; only descriptors that were in the set are set again.
        unsafe { *self.0.cast::<u64>().add(fd / 64) |= 1 << (fd % 64) };
    }
}

/// Rows for what the sets name, if one of it is not the kernel's.
unsafe fn rows_of_sets(count: usize, sets: &[Bits; 3]) -> Option<Vec<pollfd>> {
    let bytes = count.div_ceil(64) * 8;
    if is_inside() || sets.iter().any(|set| !set.0.is_null() && !can_write(set.0, bytes)) {
        return None;
    }
    let (mut rows, mut any) = (Vec::new(), false);
    for fd in 0..count {
        let mut events = 0;
        for (set, (wanted, _)) in sets.iter().zip(SETS) {
            // SAFETY: C's contract: the sets hold `count` descriptors.
            if unsafe { set.has(fd) } {
                events |= wanted;
            }
        }
        if events != 0 {
            any |= !table::is_kernels(fd as c_int);
            // What select waits for is not told of a TCP socket without urgent data; poll would tell errors and ends.
            if events == libc::POLLPRI && table::ours(fd as c_int).is_some() {
                continue;
            }
            rows.push(pollfd { fd: fd as c_int, events, revents: 0 });
        }
    }
    any.then_some(rows)
}

unsafe fn select_rows(
    count: c_int,
    sets: &[Bits; 3],
    mut rows: Vec<pollfd>,
    timeout: Option<Duration>,
    mask: *const sigset_t,
) -> Outcome<c_int> {
    let (mut found, mut left) = (0, timeout);
    let until = timeout.map(|timeout| monotonic() + timeout);
    let was = |set: &Bits, row: &pollfd| {
        // SAFETY: C's contract.
        unsafe { set.has(row.fd as usize) }
    };
    let hits = loop {
        let n = wait(&mut rows, left, mask)?;
        if n < 0 {
            return answered(-1);
        }
        if rows.iter().any(|row| row.revents & libc::POLLNVAL != 0) {
            return Err(Refused(libc::EBADF));
        }
        let hits = sets.iter().zip(SETS).map(|(set, (_, means))| {
            let hit = rows.iter().filter(|row| row.revents & means != 0 && was(set, row));
            hit.map(|row| row.fd as usize).collect()
        });
        let hits: Vec<Vec<usize>> = hits.collect();
        if n == 0 || hits.iter().any(|hits| !hits.is_empty()) {
            break hits;
        }
        // An error or a hang-up that poll tells and this set does not ask for: nothing else comes of it.
        rows.iter_mut().filter(|row| row.revents != 0).for_each(|row| row.fd = NONE);
        left = until.map(|until| until.saturating_sub(monotonic()));
    };
    for (set, hits) in sets.iter().zip(hits) {
        // SAFETY: C's contract.
        unsafe { set.clear(count as usize) };
        for fd in hits {
            // SAFETY: it was in the set.
            unsafe { set.set(fd) };
            found += 1;
        }
    }
    answered(found)
}

pub(crate) unsafe fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    let sets = [Bits(read), Bits(write), Bits(except)];
    let wanted = usize::try_from(count).unwrap_or(0).min(table::NUMBERS);
    // SAFETY: C's contract.
    let rows = unsafe { rows_of_sets(wanted, &sets) }.filter(|_| are_somewhere(timeout, timeout));
    let Some(rows) = rows else {
        // SAFETY: the caller's arguments.
        return unsafe { real::select(count, read, write, except, timeout) };
    };
    guard(|| {
        // SAFETY: C's contract.
        let given = unsafe { timeout.as_ref() };
        let whole = given.map(|time| timespec {
            tv_sec: time.tv_sec + time.tv_usec / 1_000_000,
            tv_nsec: time.tv_usec % 1_000_000 * 1_000,
        });
        let left = duration(whole.as_ref())?;
        let begun = monotonic();
        // SAFETY: C's contract.
        let done = unsafe { select_rows(count, &sets, rows, left, null()) };
        if let (Some(left), false) = (left, timeout.is_null()) {
            // As on Linux, what is left of the time is told.
            let left = left.saturating_sub(monotonic().saturating_sub(begun));
            let left =
                timeval { tv_sec: left.as_secs() as libc::time_t, tv_usec: left.subsec_micros().into() };
            // As on Linux, nothing is wrong with a time that cannot be told.
            // SAFETY: C's contract.
            let _ = unsafe { put(left, timeout) };
        }
        done
    })
}

pub(crate) unsafe fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let sets = [Bits(read), Bits(write), Bits(except)];
    let wanted = usize::try_from(count).unwrap_or(0).min(table::NUMBERS);
    // SAFETY: C's contract.
    let rows = unsafe { rows_of_sets(wanted, &sets) }.filter(|_| are_somewhere(timeout, mask));
    let Some(rows) = rows else {
        // SAFETY: the caller's arguments.
        return unsafe { real::pselect(count, read, write, except, timeout, mask) };
    };
    // SAFETY: C's contract.
    guard(|| unsafe { select_rows(count, &sets, rows, duration(timeout.as_ref())?, mask) })
}
