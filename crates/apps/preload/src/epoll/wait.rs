//! Waiting for the events of a set.

use super::{has_part_below, told_as, waited_for};
use crate::boundary::{Outcome, Refused, answered, errno, guard, inside, is_inside, set_errno};
use crate::description::{Description, Kind, NONE};
use crate::real;
use crate::signals::Ran;
use crate::sleep::{TICK, beside, input, roughly_now};
use crate::stack::{self, Stack};
use crate::table::{self, Held, Place};
use crate::{poll, threads};
use base::Duration;
use capi::memory::{are_kernels, can_write, is_nowhere};
use libc::{c_int, epoll_event, pollfd, sigset_t, timespec};
use sock::runner::Ended;
use sock::{EpollEvent, Errno, Sockets};
use std::cell::RefCell;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, Ordering};

/// Most events of one call, and what the kernel takes at most.
const EVENTS_MAX: usize = 65_536;
const MAX: usize = i32::MAX as usize / size_of::<epoll_event>();
/// An eventfd that can always be read. In a set of the kernel's it wakes a thread that waits there, because there is
/// now something of ours.
static BELL: AtomicI32 = AtomicI32::new(NONE);

/// Its word, which is no other's.
fn bells_word() -> u64 {
    BELL.as_ptr().addr() as u64
}

/// The bell, made by a thread that needs it first.
fn bell() -> Option<c_int> {
    let known = BELL.load(Ordering::Acquire);
    if known != NONE {
        return Some(known);
    }
    // SAFETY: numbers alone. Made inside, it is hidden.
    let made = inside(|| threads::hidden(unsafe { real::eventfd(1, libc::EFD_CLOEXEC) }));
    match BELL.compare_exchange(NONE, made, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(made).filter(|made| *made >= 0),
        Err(others) => {
            table::remove_hidden(made);
            // SAFETY: no other thread knows it.
            unsafe { real::close(made) };
            Some(others)
        }
    }
}

/// This process is a child: the bell is closed, and threads that slept sleep in the parent.
pub(crate) fn forked() {
    BELL.store(NONE, Ordering::Release);
    table::all().0.into_iter().filter_map(table::ours).for_each(|held| held.forget_sleepers());
}

/// A thread that waits for this set of the kernel's looks again.
pub(super) fn ring(set: &Held, epfd: c_int) {
    if set.sleepers() == 0 {
        return;
    }
    let number = table::named(set.name(), epfd).map(|(_, number)| number);
    if let (Some(number), Some(bell)) = (number, bell()) {
        set.set_rung(true);
        let mut event = epoll_event { events: libc::EPOLLIN as u32, u64: bells_word() };
        // SAFETY: an event of this frame's. It can only be there already.
        unsafe { real::epoll_ctl(number, libc::EPOLL_CTL_ADD, bell, &raw mut event) };
    }
}

/// Takes the bell out of the set when no thread sleeps there.
fn silence(set: &Held, epfd: c_int) {
    if set.is_rung() && set.sleepers() == 0 {
        set.set_rung(false);
        // SAFETY: numbers alone.
        unsafe { real::epoll_ctl(epfd, libc::EPOLL_CTL_DEL, BELL.load(Ordering::Acquire), null_mut()) };
    }
}

/// Filters the kernel's events for the program: without the doorbell, and one-shot events only if they were not
/// reported yet.
unsafe fn as_told(set: &Held, epfd: c_int, events: *mut epoll_event, n: c_int) -> c_int {
    if is_told_as_it_is(set) {
        return n;
    }
    silence(set, epfd);
    let mut kept = 0;
    for at in 0..n.max(0) {
        // SAFETY: the kernel has filled in so many.
        unsafe {
            let event = events.add(at as usize).read_unaligned();
            if event.u64 != bells_word()
                && let Some(word) = told_as(set, epfd, event.u64)
            {
                events.add(kept).write_unaligned(epoll_event { u64: word, ..event });
                kept += 1;
            }
        }
    }
    if n < 0 { n } else { kept as c_int }
}

/// # Safety
/// C's contract of epoll_wait(2).
pub(crate) unsafe fn wait_ms(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int {
    // SAFETY: the caller's arguments.
    let kernels = || unsafe { real::epoll_wait(epfd, events, max, timeout) };
    // SAFETY: the caller's arguments.
    unsafe { wait(epfd, (events, max), millis(timeout), null(), &kernels) }
}

/// # Safety
/// C's contract of epoll_pwait(2).
pub(crate) unsafe fn pwait(
    epfd: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's arguments.
    let kernels = || unsafe { real::epoll_pwait(epfd, events, max, timeout, mask) };
    // SAFETY: the caller's arguments.
    unsafe { wait(epfd, (events, max), millis(timeout), mask, &kernels) }
}

/// # Safety
/// C's contract of epoll_pwait2(2).
pub(crate) unsafe fn pwait2(
    epfd: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's arguments.
    let kernels = || unsafe { real::epoll_pwait2(epfd, events, max, timeout, mask) };
    if table::is_kernels(epfd) || !timeout.is_null() && is_nowhere(timeout) {
        return kernels();
    }
    // SAFETY: C's contract.
    match poll::duration(unsafe { timeout.as_ref() }) {
        // SAFETY: the caller's arguments.
        Ok(timeout) => unsafe { wait(epfd, (events, max), timeout, mask, &kernels) },
        // A time that is none: the kernel says so, unless something else is worse.
        Err(_) => kernels(),
    }
}

fn millis(timeout: c_int) -> Option<Duration> {
    u64::try_from(timeout).ok().map(Duration::from_millis)
}

thread_local! {
    static FOUND: RefCell<Vec<EpollEvent>> = const { RefCell::new(Vec::new()) };
}

/// `kernels` asks the kernel the same.
#[inline(always)]
unsafe fn wait(
    epfd: c_int,
    (events, max): (*mut epoll_event, c_int),
    timeout: Option<Duration>,
    mask: *const sigset_t,
    kernels: &dyn Fn() -> c_int,
) -> c_int {
    if table::is_kernels(epfd) {
        return kernels();
    }
    if !mask.is_null() && is_nowhere(mask) {
        // It says so, before anything else.
        return kernels();
    }
    let (ours_calls, mut left) = (is_inside(), timeout);
    let is_plain = |set: &Description| is_the_kernels_alone(set) && is_told_as_it_is(set);
    if timeout == Some(Duration::ZERO) && !ours_calls && table::glance(epfd).is_some_and(is_plain) {
        // Who does not sleep needs no wake-up.
        return kernels();
    }
    if !ours_calls && let Some(set) = table::ours(epfd).filter(|set| is_the_kernels_alone(set)) {
        let (begun, ran) = (timeout.map(|_| roughly_now()), Ran::so_far());
        // SAFETY: the caller's arguments.
        if let Some(done) = unsafe { wait_kernels(&set, epfd, events, kernels) } {
            return done;
        }
        if ran != Ran::so_far() {
            set_errno(libc::EINTR);
            return -1;
        }
        // Something of ours has come into the set meanwhile.
        left = timeout.map(|whole| match begun {
            Some(at) => whole.saturating_sub(roughly_now().saturating_sub(at).saturating_sub(TICK)),
            None => whole,
        });
    }
    guard(|| match table::look(epfd) {
        Place::Hidden if !ours_calls => Err(Refused(libc::EBADF)),
        // SAFETY: the caller's arguments.
        Place::Ours(set) if set.kind() == Kind::Epoll => unsafe {
            wait_for_both(&set, epfd, (events, max), left, mask, kernels)
        },
        _ => answered(kernels()),
    })
}

/// Is there nothing of ours in the set?
fn is_the_kernels_alone(set: &Description) -> bool {
    set.kind() == Kind::Epoll && !set.is_pending() && set.below() == NONE
}

/// Is all that the kernel says of it the program's to hear, word for word?
fn is_told_as_it_is(set: &Description) -> bool {
    !set.is_rung() && !set.has_shots()
}

/// A thread that waits for the kernel's part of a set. It may be cancelled there.
struct Asleep<'s>(&'s Held);

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.0.wakes_up();
    }
}

/// Waits for the kernel's set, as long as there is nothing of ours in it; `None` when there is.
unsafe fn wait_kernels(
    set: &Held,
    epfd: c_int,
    events: *mut epoll_event,
    kernels: &dyn Fn() -> c_int,
) -> Option<c_int> {
    // Whatever brings something of ours either sees that this thread sleeps, or is seen by it.
    set.falls_asleep();
    let asleep = Asleep(set);
    let n = is_the_kernels_alone(set).then(kernels);
    // The bell finds no memory either. An event of the program's stays in the kernel's set.
    let is_nowhere = n == Some(-1) && errno() == libc::EFAULT;
    drop(asleep);
    // SAFETY: what the kernel has filled in.
    let n = n.map(|n| unsafe { as_told(set, epfd, events, n) });
    n.filter(|n| *n != 0 && !is_nowhere || is_the_kernels_alone(set))
}

/// Sets of the kernel's alone that a poll waits for. What brings something of ours into one of them wakes it.
pub(crate) struct Watching(Vec<(Held, c_int)>);

impl Watching {
    /// Those among the rows.
    pub(crate) fn of(rows: &[pollfd]) -> Watching {
        // A set is readable or has nothing: a row that does not ask for that is not woken by the bell either.
        let asks = |row: &&pollfd| row.events & (libc::POLLIN | libc::POLLRDNORM) != 0;
        let set = |row: &pollfd| table::ours(row.fd).map(|held| (held, row.fd));
        let sets: Vec<_> =
            rows.iter().filter(asks).filter_map(set).filter(|(set, _)| is_the_kernels_alone(set)).collect();
        sets.iter().for_each(|(set, _)| set.falls_asleep());
        Watching(sets)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The poll is over. Did something of ours come into a set meanwhile?
    pub(crate) fn end(self) -> bool {
        self.0.iter().any(|(set, _)| !is_the_kernels_alone(set))
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // First of all sets: a set may be here twice, and another thread may wait for the same sets in another order.
        self.0.iter().for_each(|(set, _)| set.wakes_up());
        for (set, epfd) in &self.0 {
            // Others were woken, too, and must not find the bell gone: the last takes it out.
            while set.is_rung() && set.sleepers() > 0 {
                std::thread::yield_now();
            }
            silence(set, *epfd);
        }
    }
}

unsafe fn wait_for_both(
    set: &Held,
    epfd: c_int,
    (events, max): (*mut epoll_event, c_int),
    timeout: Option<Duration>,
    mask: *const sigset_t,
    kernels: &dyn Fn() -> c_int,
) -> Outcome<c_int> {
    let Some(below) = waited_for(set)? else { return answered(kernels()) };
    let count =
        usize::try_from(max).ok().filter(|max| (1..=MAX).contains(max)).ok_or(Refused(libc::EINVAL))?;
    if are_kernels(events, count * size_of::<epoll_event>()) {
        return Err(Refused(libc::EFAULT));
    }
    if !can_write(events, size_of::<epoll_event>()) {
        // As on Linux, nothing is wrong until there is something to tell.
        let mut row = [pollfd { fd: epfd, events: libc::POLLIN, revents: 0 }];
        return match poll::wait(&mut row, timeout, mask)? {
            0 => answered(0),
            _ => Err(Refused(libc::EFAULT)),
        };
    }
    let stack = stack::open()?;
    let mut found = FOUND.take();
    found.resize(count.min(EVENTS_MAX), EpollEvent::default());
    // SAFETY: C's contract for `events` and `max`.
    let result = unsafe { wait_on(stack, (set, below), epfd, (events, max), &mut found, timeout, mask) };
    FOUND.set(found);
    result
}

/// Waits for both; `below` is the stack's part of the set.
unsafe fn wait_on(
    stack: &Stack,
    (set, below): (&Held, c_int),
    epfd: c_int,
    (events, max): (*mut epoll_event, c_int),
    found: &mut [EpollEvent],
    timeout: Option<Duration>,
    mask: *const sigset_t,
) -> Outcome<c_int> {
    // What the kernel has, behind `n` events.
    let kernels = |n: usize, queued: usize| {
        // SAFETY: the caller's room behind what is filled.
        unsafe {
            let room = events.add(n);
            let more = real::epoll_wait(epfd, room, max - n as c_int, 0);
            let words = (0..more.max(0) as usize).map(|at| room.add(at).read_unaligned().u64);
            set.turns().told_kernels(words, max as usize - n, queued);
            let more = as_told(set, epfd, room, more);
            if n > 0 { merged(set, events, n, more.max(0) as usize) } else { more }
        }
    };
    // Events of ours, behind `n` others.
    let fill = |n: usize, found: &[EpollEvent]| {
        let is_there = can_write(events.wrapping_add(n), found.len() * size_of::<epoll_event>());
        let mut more = 0;
        for event in found {
            let word = if set.has_shots() { told_as(set, epfd, event.data) } else { Some(event.data) };
            let Some(word) = word else { continue };
            let room = events.wrapping_add(n + more);
            if !is_there && !can_write(room, size_of::<epoll_event>()) {
                break;
            }
            // SAFETY: the caller has room for `max`.
            unsafe { room.write_unaligned(epoll_event { events: event.ready.0, u64: word }) };
            more += 1;
        }
        set.turns().told_ours(more);
        // SAFETY: so many were filled in.
        if n > 0 { unsafe { merged(set, events, n, more) } } else { more as c_int }
    };
    let room = found.len();
    let (n, turn, queued, mut unseen) = stack.runner.after_turn(|engine| {
        let queued = engine.epoll_queued(below)?;
        let turn = set.turns().before_kernels(queued, room);
        let (before, mut unseen) = (&mut found[..turn.unwrap_or(room)], queued);
        let n = if before.is_empty() { 0 } else { engine.epoll_collect_among(below, before, &mut unseen)? };
        Ok::<_, Errno>((n, turn, queued, unseen))
    })??;
    let mut told = fill(0, &found[..n]);
    if turn.is_some() {
        match kernels(told as usize, queued) {
            ..0 if told == 0 => return answered(-1),
            more => told = more,
        }
        // What the kernel's part has left is ours again.
        let left = found.get_mut(told.max(0) as usize..).unwrap_or_default();
        if !left.is_empty() && unseen > 0 {
            let n =
                stack.runner.after_turn(|engine| engine.epoll_collect_among(below, left, &mut unseen))??;
            told = fill(told as usize, &left[..n]);
        }
    }
    if told > 0 {
        return answered(told);
    }
    if timeout == Some(Duration::ZERO) {
        return answered(kernels(0, 0));
    }
    let until = timeout.map(|left| stack.runner.time() + left);
    let mut rows = Vec::new();
    loop {
        let left = until.map(|until| until.since(stack.runner.time()));
        let wait = stack.runner.wait_beside(
            Some(below),
            left,
            &mut |fds, left| {
                rows.truncate(0);
                rows.push(input(epfd));
                beside(&mut rows, 1, fds, left, mask, false)
            },
            &mut |engine| match engine.epoll_collect(below, found)? {
                0 => Err(Errno::EAGAIN),
                n => Ok(n),
            },
        );
        match wait {
            Ok(n) => match fill(0, &found[..n]) {
                0 => {}
                n => return answered(n),
            },
            Err(Ended::Beside) => match kernels(0, 0) {
                0 => {}
                n => return answered(n),
            },
            Err(Ended::Time) => return answered(kernels(0, 0)),
            Err(Ended::Signal) => return Err(Refused(libc::EINTR)),
            Err(Ended::Failed(errno)) => return Err(errno.into()),
        }
    }
}

/// Returns true if something with this word has a part on both sides of the set.
fn is_on_both(set: &Held, word: u64) -> bool {
    let mut known = set.more().watches.clone();
    known.retain(|watch| watch.data == word);
    known
        .iter()
        .any(|watch| table::named(watch.target, watch.fd).is_some_and(|(target, _)| has_part_below(&target)))
}

/// `n` events, and behind them `more` of the other side. A listener or a set that is ready on both sides is one event.
unsafe fn merged(set: &Held, events: *mut epoll_event, n: usize, more: usize) -> c_int {
    let mut kept = n;
    for at in n..n + more {
        // SAFETY: so many were filled in.
        unsafe {
            let event = events.add(at).read_unaligned();
            let other = (0..n).find(|other| events.add(*other).read_unaligned().u64 == event.u64);
            let other = other.filter(|_| is_on_both(set, event.u64));
            match other.map(|other| events.add(other)) {
                Some(other) => {
                    let both = other.read_unaligned().events | event.events;
                    other.write_unaligned(epoll_event { events: both, ..event });
                }
                None => {
                    events.add(kept).write_unaligned(event);
                    kept += 1;
                }
            }
        }
    }
    kept as c_int
}
