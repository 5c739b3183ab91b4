//! Epoll sets with descriptors of ours and of the kernel's. The set is the kernel's; from when a connection of ours is
//! added, a set of the stack's stands beside it. Waiting looks into both.
//!
//! What may yet become ours, or is on both sides (a listener), is in the kernel's set and noted here. So a set in which
//! there is nothing of ours is the kernel's alone.

use crate::boundary::{Outcome, Refused, door, errno, is_inside};
use crate::description::{Description, Kind, NONE, note_number};
use crate::hooks::{answered, real};
use crate::relay;
use crate::sleep::{beside, input};
use crate::sockets::listen_below;
use crate::stack::{self, Stack};
use crate::table::{self, Held, Place};
use base::Duration;
use libc::{c_int, epoll_event, sigset_t, timespec};
use sock::hosted::Ended;
use sock::{EpollEvent, EpollOp, Errno, Ready, Sockets};
use std::cell::{Cell, RefCell};
use std::ptr::{null, null_mut};
use std::sync::{Mutex, PoisonError};

/// Other names of IN and OUT.
const RDNORM: u32 = 0x040;
const WRNORM: u32 = 0x100;
/// EPOLLEXCLUSIVE and EPOLLWAKEUP: nobody but this process waits, and it does not suspend.
const EXCLUSIVE: u32 = 1 << 28;
const WAKEUP: u32 = 1 << 29;
/// Most events of one call.
const EVENTS_MAX: usize = 65_536;
/// Of so many waits that find something of ours, one looks at the kernel's too.
const LOOK_EVERY: u32 = 8;

/// A socket that is no connection, in a set.
#[derive(Clone, Copy)]
pub(crate) struct Watch {
    /// Which socket ([`Held::name`]).
    target: usize,
    fd: c_int,
    events: u32,
    data: u64,
}

/// Bits as the stack knows them.
pub(crate) fn interest(bits: u32) -> Ready {
    let mut all = bits & !(RDNORM | WRNORM | WAKEUP | EXCLUSIVE);
    for (other, bit) in [(RDNORM, Ready::IN), (WRNORM, Ready::OUT)] {
        if bits & other != 0 {
            all |= bit.0;
        }
    }
    Ready(all)
}

/// What the stack found, in all its names, as far as it was asked for.
pub(crate) fn told(ready: Ready, asked: u32) -> u32 {
    let mut all = ready.0;
    for (bit, other) in [(Ready::IN, RDNORM), (Ready::OUT, WRNORM)] {
        if ready.any(bit) {
            all |= other;
        }
    }
    all & (asked | Ready::ERR.0 | Ready::HUP.0 | Ready::INVALID.0)
}

/// # Safety
/// C's contract of epoll_ctl(2).
pub(crate) unsafe fn ctl(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    if table::is_kernels(fd) {
        // SAFETY: the caller's arguments.
        return unsafe { real::epoll_ctl(epfd, op, fd, event) };
    }
    let ours_calls = is_inside();
    door(|| match table::look(fd) {
        Place::Hidden if !ours_calls => Err(Refused(libc::EBADF)),
        // SAFETY: the caller's arguments.
        Place::Kernel | Place::Hidden => answered(unsafe { real::epoll_ctl(epfd, op, fd, event) }),
        Place::Ours(target) => {
            relay::settle(&target)?;
            if target.kind() == Kind::Relayed {
                // SAFETY: the caller's arguments.
                return answered(unsafe { real::epoll_ctl(epfd, op, fd, event) });
            }
            let wanted = if op == libc::EPOLL_CTL_DEL {
                None
            } else if event.is_null() {
                return Err(Refused(libc::EFAULT));
            } else {
                // SAFETY: not NULL, and the caller vouches for the rest.
                Some(unsafe { event.read_unaligned() })
            };
            // SAFETY: the caller's arguments.
            unsafe { change(epfd, op, fd, &target, wanted) }
        }
    })
}

unsafe fn change(
    epfd: c_int,
    op: c_int,
    fd: c_int,
    target: &Held,
    wanted: Option<epoll_event>,
) -> Outcome<c_int> {
    if epfd == fd {
        return Err(Refused(libc::EINVAL));
    }
    let set = set_of(epfd, fd)?;
    if target.kind() == Kind::Stream {
        let stack = stack::open()?;
        let (below, op) = (below(stack, &set)?, operation(op, wanted)?);
        if target.is_pending() || target.is_shared() {
            return change_one_of_several(stack, (&set, below), op, fd, target);
        }
        stack.hosted.epoll_ctl(below, target.below(), op)?;
        return answered(0);
    }
    let mut event = wanted;
    let event = event.as_mut().map_or(null_mut(), std::ptr::from_mut);
    // SAFETY: an event of this frame's, or NULL.
    let done = unsafe { real::epoll_ctl(epfd, op, fd, event) };
    if done != 0 {
        return answered(done);
    }
    if target.kind() == Kind::Epoll {
        if target.below() != NONE {
            let stack = stack::open()?;
            stack.hosted.epoll_ctl(below(stack, &set)?, target.below(), operation(op, wanted)?)?;
        }
        return answered(done);
    }
    note(&set, epfd, fd, target, wanted);
    if target.kind() == Kind::Listener {
        match stack::opened() {
            Some(stack) if target.below() != NONE && set.below() != NONE && !set.is_pending() => {
                let op = operation(op, wanted)?;
                stack.hosted.epoll_ctl(set.below(), target.below(), op)?;
            }
            _ => set.set_pending(true),
        }
    }
    answered(done)
}

/// A connection that a set has under a second number: there it has a descriptor of the stack's for each.
pub(crate) struct Twin {
    set: usize,
    fd: c_int,
    pub(crate) below: c_int,
}

fn change_one_of_several(
    stack: &Stack,
    (set, below): (&Held, c_int),
    op: EpollOp,
    fd: c_int,
    target: &Held,
) -> Outcome<c_int> {
    let mut more = target.more();
    let known = more.twins.iter().position(|twin| (twin.set, twin.fd) == (set.name(), fd));
    let Some(at) = known else {
        match stack.hosted.epoll_ctl(below, target.below(), op) {
            // Under another number, perhaps; the same one twice looks like two, which is the worse for nobody.
            Err(Errno::EEXIST) if target.is_shared() => {
                let twin = stack.hosted.dup(target.below())?;
                more.twins.push(Twin { set: set.name(), fd, below: twin });
                target.set_pending(true);
                stack.hosted.epoll_ctl(below, twin, op)?;
            }
            done => done?,
        }
        return answered(0);
    };
    stack.hosted.epoll_ctl(below, more.twins[at].below, op)?;
    if op == EpollOp::Delete {
        stack::close(more.twins.swap_remove(at).below);
    }
    answered(0)
}

/// Keeps what was asked for.
fn note(set: &Held, epfd: c_int, fd: c_int, target: &Held, wanted: Option<epoll_event>) {
    let name = target.name();
    let is_it = |watch: &Watch| watch.fd == fd && watch.target == name;
    let mut more = set.more();
    more.watches.retain(|watch| !is_it(watch));
    if let Some(event) = wanted {
        more.watches.push(Watch { target: name, fd, events: event.events, data: event.u64 });
        drop(more);
        let mut more = target.more();
        if !more.watched_by.contains(&(epfd, fd)) {
            more.watched_by.push((epfd, fd));
        }
    }
}

/// What the stack is to do; EINVAL for an operation that there is not.
fn operation(op: c_int, event: Option<epoll_event>) -> Result<EpollOp, Refused> {
    let event = event.map(|event| EpollEvent { ready: interest(event.events), data: event.u64 });
    match (op, event) {
        (libc::EPOLL_CTL_DEL, _) => Ok(EpollOp::Delete),
        (libc::EPOLL_CTL_ADD, Some(event)) => Ok(EpollOp::Add(event)),
        (libc::EPOLL_CTL_MOD, Some(event)) => Ok(EpollOp::Modify(event)),
        _ => Err(Refused(libc::EINVAL)),
    }
}

/// The set with this number, which is ours from now on.
fn set_of(epfd: c_int, fd: c_int) -> Result<Held, Refused> {
    static MAKING: Mutex<()> = Mutex::new(());
    let known = || match table::look(epfd) {
        Place::Ours(held) if held.kind() == Kind::Epoll => Ok(Some(held)),
        Place::Ours(_) => Err(Refused(libc::EINVAL)),
        Place::Hidden => Err(Refused(libc::EBADF)),
        Place::Kernel => Ok(None),
    };
    if let Some(held) = known()? {
        return Ok(held);
    }
    let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(held) = known()? {
        return Ok(held);
    }
    // A set of the kernel's says that it does not have the descriptor; what is none says so.
    // SAFETY: numbers alone; there is nothing to delete.
    if unsafe { real::epoll_ctl(epfd, libc::EPOLL_CTL_DEL, fd, null_mut()) } != 0 && errno() != libc::ENOENT {
        return Err(Refused(errno()));
    }
    let held = Description::make(Kind::Epoll, false, NONE);
    note_number(epfd);
    if !table::put(epfd, held.clone()) {
        return Err(Refused(libc::EMFILE));
    }
    Ok(held)
}

/// The stack's set beside the kernel's.
fn below(stack: &Stack, set: &Held) -> Result<c_int, Refused> {
    let _one = set.more();
    if set.below() == NONE {
        set.set_below(stack.hosted.epoll_create()?);
    }
    Ok(set.below())
}

/// Listeners that were only noted so far listen, and are in the stack's set.
fn catch_up(set: &Held) -> Outcome<()> {
    let stack = stack::open()?;
    let below = below(stack, set)?;
    set.set_pending(false);
    let watches = set.more().watches.clone();
    for watch in watches {
        let Some(target) = table::ours(watch.fd).filter(|target| target.name() == watch.target) else {
            continue;
        };
        if target.kind() != Kind::Listener {
            continue;
        }
        let listener = listen_below(stack, &target, watch.fd).inspect_err(|_| set.set_pending(true))?;
        let event = EpollEvent { ready: interest(watch.events), data: watch.data };
        match stack.hosted.epoll_ctl(below, listener, EpollOp::Add(event)) {
            Err(Errno::EEXIST) => stack.hosted.epoll_ctl(below, listener, EpollOp::Modify(event))?,
            done => done?,
        }
    }
    Ok(())
}

/// The stack's descriptor of a set, for poll; `None` if there is nothing of ours in it.
pub(crate) fn waited_for(set: &Held) -> Outcome<Option<c_int>> {
    if set.is_pending() {
        catch_up(set)?;
    }
    Ok(Some(set.below()).filter(|below| *below != NONE))
}

/// Sets that watch this socket.
fn watchers(target: &Description) -> Vec<(Held, c_int, c_int)> {
    let by = target.more().watched_by.clone();
    let sets = by.into_iter().filter_map(|(epfd, fd)| Some((table::ours(epfd)?, epfd, fd)));
    sets.filter(|(set, ..)| set.kind() == Kind::Epoll).collect()
}

/// The socket listens from now on.
pub(crate) fn listens(target: &Held) {
    for (set, ..) in watchers(target) {
        set.set_pending(true);
    }
}

/// The socket is a connection from now on: out of the kernel's sets, into the stack's.
pub(crate) fn becomes_stream(target: &Held) {
    for (set, epfd, fd) in watchers(target) {
        let mut more = set.more();
        let place = more.watches.iter().position(|watch| watch.fd == fd && watch.target == target.name());
        let Some(watch) = place.map(|place| more.watches.swap_remove(place)) else { continue };
        drop(more);
        // SAFETY: numbers alone.
        unsafe { real::epoll_ctl(epfd, libc::EPOLL_CTL_DEL, fd, null_mut()) };
        let event = EpollEvent { ready: interest(watch.events), data: watch.data };
        if let Some(stack) = stack::opened()
            && let Ok(below) = below(stack, &set)
        {
            // It can only be there already, which is what we want.
            let _ = stack.hosted.epoll_ctl(below, target.below(), EpollOp::Add(event));
        }
    }
    target.more().watched_by.clear();
}

/// The socket is the kernel's, whose sets have it.
pub(crate) fn forget_watches(target: &Held) {
    forget(target);
}

/// No set of ours has to do with it any more.
pub(crate) fn forget(target: &Description) {
    let name = target.name();
    for (set, _, fd) in watchers(target) {
        set.more().watches.retain(|watch| watch.fd != fd || watch.target != name);
    }
    target.more().watched_by.clear();
}

/// # Safety
/// C's contract of epoll_wait(2).
pub(crate) unsafe fn wait_ms(
    set: &Held,
    epfd: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: c_int,
) -> Outcome<c_int> {
    let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
    // SAFETY: the caller's arguments.
    unsafe { wait(set, epfd, events, max, timeout, null()) }
}

/// # Safety
/// C's contract of epoll_pwait(2).
pub(crate) unsafe fn pwait(
    set: &Held,
    epfd: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> Outcome<c_int> {
    let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
    // SAFETY: the caller's arguments.
    unsafe { wait(set, epfd, events, max, timeout, mask) }
}

/// # Safety
/// C's contract of epoll_pwait2(2).
pub(crate) unsafe fn pwait2(
    set: &Held,
    epfd: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> Outcome<c_int> {
    // SAFETY: C's contract.
    let timeout = crate::poll::duration(unsafe { timeout.as_ref() })?;
    // SAFETY: the caller's arguments.
    unsafe { wait(set, epfd, events, max, timeout, mask) }
}

thread_local! {
    static FOUND: RefCell<Vec<EpollEvent>> = const { RefCell::new(Vec::new()) };
    /// Waits since the kernel's set was looked at.
    static UNSEEN: Cell<u32> = const { Cell::new(0) };
}

unsafe fn wait(
    set: &Held,
    epfd: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: Option<Duration>,
    mask: *const sigset_t,
) -> Outcome<c_int> {
    let count = usize::try_from(max).ok().filter(|max| *max > 0).ok_or(Refused(libc::EINVAL))?;
    let Some(below) = (if set.kind() == Kind::Epoll { waited_for(set)? } else { None }) else {
        // SAFETY: the caller's arguments.
        return answered(unsafe { real::epoll_pwait2(epfd, events, max, crate::poll::raw(&timeout), mask) });
    };
    if events.is_null() {
        return Err(Refused(libc::EFAULT));
    }
    let stack = stack::open()?;
    let mut found = FOUND.take();
    found.resize(count.min(EVENTS_MAX), EpollEvent::default());
    // SAFETY: C's contract for `events` and `max`.
    let result = unsafe { wait_on(stack, below, epfd, (events, max), &mut found, timeout, mask) };
    FOUND.set(found);
    result
}

unsafe fn wait_on(
    stack: &Stack,
    below: c_int,
    epfd: c_int,
    (events, max): (*mut epoll_event, c_int),
    found: &mut [EpollEvent],
    timeout: Option<Duration>,
    mask: *const sigset_t,
) -> Outcome<c_int> {
    // What the kernel has, behind `n` events of ours.
    let kernels = |n: usize| {
        UNSEEN.set(0);
        // SAFETY: the caller's room behind what is filled.
        let more = unsafe { real::epoll_wait(epfd, events.add(n), max - n as c_int, 0) };
        if n > 0 { n as c_int + more.max(0) } else { more }
    };
    let fill = |found: &[EpollEvent]| {
        for (at, event) in found.iter().enumerate() {
            let event = epoll_event { events: event.ready.0, u64: event.data };
            // SAFETY: the caller has room for `max`.
            unsafe { events.add(at).write_unaligned(event) };
        }
        UNSEEN.set(UNSEEN.get() + 1);
        let n = found.len();
        if UNSEEN.get() >= LOOK_EVERY && n < max as usize { kernels(n) } else { n as c_int }
    };
    let n = stack.hosted.after_turn(|engine| engine.epoll_collect(below, found))??;
    if n > 0 {
        return answered(fill(&found[..n]));
    }
    if timeout == Some(Duration::ZERO) {
        return answered(kernels(0));
    }
    let until = timeout.map(|left| stack.hosted.time() + left);
    let mut rows = Vec::new();
    loop {
        let left = until.map(|until| until.since(stack.hosted.time()));
        let wait = stack.hosted.wait_beside(
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
            Ok(n) => return answered(fill(&found[..n])),
            Err(Ended::Beside) => match kernels(0) {
                0 => {}
                n => return answered(n),
            },
            Err(Ended::Time) => return answered(kernels(0)),
            Err(Ended::Signal) => return Err(Refused(libc::EINTR)),
            Err(Ended::Failed(errno)) => return Err(errno.into()),
        }
    }
}
