//! Epoll sets with descriptors of ours and of the kernel's. The set is the kernel's; from when a connection of ours is
//! added, a set of the stack's stands beside it. Waiting looks into both.
//!
//! A connection is in the stack's set alone, there under the program's number: as on Linux, each number of it is a
//! registration of its own, which stays until the last number is closed. What may yet become ours, or is on both sides
//! (a listener, another set), is in the kernel's set and noted here. So a set in which there is nothing of ours is the
//! kernel's alone.

mod calls;
mod turns;
mod wait;
mod watch;

use crate::boundary::{Outcome, Refused, answered, errno};
use crate::description::{Description, Kind, NONE};
use crate::listener::{listen_below, was_shut};
use crate::real;
use crate::stack::{self, Stack};
use crate::table::{self, Held, Place};
pub(crate) use calls::{create, create1, ctl};
use libc::{c_int, epoll_event};
use sock::{EpollEvent, EpollOp, Errno, Ready, Sockets};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};
pub(crate) use turns::Turns;
pub(crate) use wait::{Watching, forked, pwait, pwait2, wait_ms};
use watch::{GONE, ONCE};
pub(crate) use watch::{Watch, Watcher, interest};

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
        let op = operation(op, wanted)?;
        stack.runner.epoll_ctl_as(below(stack, &set, epfd)?, target.below(), fd, op)?;
        return answered(0);
    }
    let once = wanted.filter(|event| target.kind() == Kind::Listener && event.events & ONCE != 0);
    let shot = once.map(|_| shot_of(&set, fd, target));
    let mut event = wanted.map(|event| epoll_event { u64: shot.unwrap_or(event.u64), ..event });
    let event = event.as_mut().map_or(null_mut(), std::ptr::from_mut);
    let is_out = has_fired(&set, fd, target) && is_back(epfd, fd, epoll_event { events: 0, u64: 0 });
    // SAFETY: an event of this frame's, or NULL. The kernel says what is wrong, if anything is.
    let done = unsafe { real::epoll_ctl(epfd, op, fd, event) };
    if done != 0 {
        let why = errno();
        if is_out {
            // SAFETY: numbers alone.
            unsafe { real::epoll_ctl(epfd, libc::EPOLL_CTL_DEL, fd, null_mut()) };
        }
        return Err(Refused(why));
    }
    let fired = note(&set, epfd, fd, target, wanted.map(|event| (event, shot)));
    if let Some(event) = wanted.filter(|_| fired) {
        // Another thread may have been told of it meanwhile.
        is_back(epfd, fd, epoll_event { u64: shot.unwrap_or(event.u64), ..event });
    }
    set.turns().expect();
    match stack::opened() {
        _ if wanted.is_none() => leave_below(&set, target, fd),
        _ if !has_part_below(target) => {}
        // Who waits in this process for something of ours hears of this, too.
        Some(_) if set.below() != NONE => catch_up(&set)?,
        _ => pend(&set, epfd),
    }
    answered(done)
}

/// Is there, or will there be, something of the stack's that belongs into the stack's part of a set?
fn has_part_below(target: &Held) -> bool {
    match target.kind() {
        Kind::Listener => true,
        Kind::Epoll => target.below() != NONE || target.is_pending(),
        _ => false,
    }
}

/// Returns true for a listener whose one event was told.
fn has_fired(set: &Held, fd: c_int, target: &Held) -> bool {
    set.has_shots()
        && set
            .more()
            .watches
            .iter()
            .any(|watch| watch.fired && (watch.fd, watch.target) == (fd, target.name()))
}

/// The kernel's set watches a listener again. Returns true unless it did already.
fn is_back(epfd: c_int, fd: c_int, mut event: epoll_event) -> bool {
    // SAFETY: an event of this frame's.
    unsafe { real::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, fd, &raw mut event) == 0 }
}

/// Keeps what was asked for. Returns true if what was asked for before was told.
fn note(
    set: &Held,
    epfd: c_int,
    fd: c_int,
    target: &Held,
    wanted: Option<(epoll_event, Option<u64>)>,
) -> bool {
    let (target_name, set_name) = (target.name(), set.name());
    let mut more = set.more();
    let is_it = |watch: &mut Watch| (watch.fd, watch.target) == (fd, target_name);
    let fired = more.watches.extract_if(.., is_it).fold(false, |fired, watch| fired | watch.fired);
    if let Some((event, shot)) = wanted {
        let (events, data) = (event.events, event.u64);
        let watch = Watch { target: target_name, fd, events, data, shot, fired: false, entered: false };
        more.watches.push(watch);
        if shot.is_some() {
            set.set_shots(true);
        }
    }
    drop(more);
    let mut more = target.more();
    more.watched_by.retain(|watcher| (watcher.set, watcher.fd) != (set_name, fd));
    if wanted.is_some() {
        more.watched_by.push(Watcher { set: set_name, epfd, fd });
    }
    fired
}

/// The word for a listener in a set that is told of once: an address in it, another for each number that it has there.
fn shot_of(set: &Held, fd: c_int, target: &Held) -> u64 {
    let more = set.more();
    let mine = |watch: &&Watch| (watch.fd, watch.target) == (fd, target.name());
    let known = more.watches.iter().find(mine).and_then(|watch| watch.shot);
    let free = |word: &u64| !more.watches.iter().any(|watch| watch.shot == Some(*word));
    known.or_else(|| (target.name() as u64..).find(free)).unwrap_or_default()
}

/// The word that the program knows, of an event; `None` if the other side's was told before it.
fn told_as(set: &Held, epfd: c_int, word: u64) -> Option<u64> {
    let told = {
        let mut more = set.more();
        let Some(at) = more.watches.iter().position(|watch| watch.shot == Some(word)) else {
            return Some(word);
        };
        if more.watches[at].target == GONE {
            more.watches.remove(at);
            return None;
        }
        let watch = &mut more.watches[at];
        if std::mem::replace(&mut watch.fired, true) {
            return None;
        }
        // SAFETY: numbers alone.
        unsafe { real::epoll_ctl(epfd, libc::EPOLL_CTL_DEL, watch.fd, null_mut()) };
        *watch
    };
    if let Some((target, _)) = table::named(told.target, told.fd) {
        leave_below(set, &target, told.fd);
    }
    Some(told.data)
}

/// The stack's part of a set watches this no more. It may not have done so yet.
fn leave_below(set: &Held, target: &Held, fd: c_int) {
    if let Some(stack) = stack::opened().filter(|_| set.below() != NONE && target.below() != NONE) {
        let _ = stack.runner.epoll_ctl_as(set.below(), target.below(), fd, EpollOp::Delete);
    }
}

/// Returns the stack's operation; EINVAL for an operation that there is not.
fn operation(op: c_int, event: Option<epoll_event>) -> Result<EpollOp, Refused> {
    let event = event.map(|event| EpollEvent { ready: interest(event.events), data: event.u64 });
    match (op, event) {
        (libc::EPOLL_CTL_DEL, _) => Ok(EpollOp::Delete),
        (libc::EPOLL_CTL_ADD, Some(event)) => Ok(EpollOp::Add(event)),
        (libc::EPOLL_CTL_MOD, Some(event)) => Ok(EpollOp::Modify(event)),
        _ => Err(Refused(libc::EINVAL)),
    }
}

/// The set with this number. One that another program has made becomes ours here.
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
    if !table::put(epfd, held.clone()) {
        return Err(Refused(libc::EMFILE));
    }
    Ok(held)
}

/// The stack's set beside the kernel's. When it is made, a thread that waits for the kernel's alone is rung, and the
/// sets that this one is in have it.
fn below(stack: &Stack, set: &Held, epfd: c_int) -> Result<c_int, Refused> {
    let made = {
        let _one = set.more();
        if set.below() != NONE {
            return Ok(set.below());
        }
        let made = stack.runner.epoll_create()?;
        set.set_below(made);
        made
    };
    wait::ring(set, epfd);
    for (outer, number, watch) in watchers(set) {
        put_in(stack, (&outer, below(stack, &outer, number)?), made, &watch)?;
    }
    Ok(made)
}

/// The stack's part of a set watches this, as was asked for last. What it watches so already is left alone: a change
/// would tell once more what was told.
fn put_in(stack: &Stack, (set, below): (&Held, c_int), target: c_int, watch: &Watch) -> Result<(), Errno> {
    let event = EpollEvent { ready: interest(watch.events), data: watch.shot.unwrap_or(watch.data) };
    match stack.runner.epoll_ctl_as(below, target, watch.fd, EpollOp::Add(event)) {
        // With EPOLLEXCLUSIVE it was never changed.
        Err(Errno::EEXIST) if watch.entered || event.ready.any(Ready::EXCLUSIVE) => return Ok(()),
        Err(Errno::EEXIST) => stack.runner.epoll_ctl_as(below, target, watch.fd, EpollOp::Modify(event))?,
        done => done?,
    }
    // Unless another thread has changed it meanwhile.
    if let Some(known) = set.more().watches.iter_mut().find(|known| *known == watch) {
        known.entered = true;
    }
    Ok(())
}

/// The next wait catches up: here and in the sets that this one is in.
fn pend(set: &Held, epfd: c_int) {
    if !set.is_pending() {
        set.set_pending(true);
        wait::ring(set, epfd);
        watchers(set).into_iter().for_each(|(outer, number, _)| pend(&outer, number));
    }
}

/// Enters what was only noted so far into the stack's set: listeners, which listen there from now on, and other
/// sets.
fn catch_up(set: &Held) -> Outcome<()> {
    let stack = stack::open()?;
    let outer = below(stack, set, NONE)?;
    set.set_pending(false);
    let watches = set.more().watches.clone();
    for watch in watches.into_iter().filter(|watch| !watch.fired) {
        let Some((target, number)) = table::named(watch.target, watch.fd) else { continue };
        let inner = match target.kind() {
            Kind::Listener if was_shut(&target, number) => None,
            Kind::Listener => Some(listen_below(stack, &target, number)?),
            Kind::Epoll => waited_for(&target)?,
            _ => None,
        };
        if let Some(inner) = inner {
            put_in(stack, (set, outer), inner, &watch)?;
        }
    }
    Ok(())
}

/// The stack's descriptor of a set, for a thread that waits for it; `None` if there is nothing of ours in it.
pub(crate) fn waited_for(set: &Held) -> Outcome<Option<c_int>> {
    if set.is_pending() {
        catch_up(set).inspect_err(|_| set.set_pending(true))?;
    }
    Ok(Some(set.below()).filter(|below| *below != NONE))
}

/// The sets that watch this, each with a number of its own and with what was asked for.
fn watchers(target: &Description) -> Vec<(Held, c_int, Watch)> {
    let by = target.more().watched_by.clone();
    let found = by.into_iter().filter_map(|watcher| {
        let (set, number) = table::named(watcher.set, watcher.epfd)?;
        let is_it = |watch: &&Watch| (watch.fd, watch.target) == (watcher.fd, target.name());
        let watch = set.more().watches.iter().find(is_it).copied()?;
        Some((set, number, watch))
    });
    found.collect()
}

/// The next wait for the listener asks for connections again.
pub(crate) fn ask_again(target: &Held) {
    watchers(target).into_iter().for_each(|(set, number, _)| pend(&set, number));
}

/// The listener is shut, of which the kernel tells: the stack's parts of sets watch it no more.
pub(crate) fn is_shut(target: &Held) {
    target.set_asked(false);
    watchers(target).into_iter().for_each(|(set, _, watch)| leave_below(&set, target, watch.fd));
}

/// The socket listens from now on.
pub(crate) fn listens(target: &Held) -> Outcome<()> {
    for (set, number, watch) in watchers(target) {
        if watch.events & ONCE != 0 && watch.shot.is_none() {
            tell_once(&set, number, target, watch);
        }
        if set.below() != NONE && stack::opened().is_some() {
            catch_up(&set)?;
        } else {
            pend(&set, number);
        }
    }
    Ok(())
}

/// A listener that a set has watched before it was one is told of once in all: never if it was told of already.
fn tell_once(set: &Held, epfd: c_int, target: &Held, watch: Watch) {
    let (fired, fd, word) = (watch.has_fired(epfd), watch.fd, shot_of(set, watch.fd, target));
    let op = if fired { libc::EPOLL_CTL_DEL } else { libc::EPOLL_CTL_MOD };
    let mut event = epoll_event { events: watch.events, u64: word };
    // SAFETY: an event of this frame's.
    unsafe { real::epoll_ctl(epfd, op, fd, &raw mut event) };
    let is_it = |watch: &&mut Watch| (watch.fd, watch.target) == (fd, target.name());
    if let Some(watch) = set.more().watches.iter_mut().find(is_it) {
        (watch.shot, watch.fired) = (Some(word), fired);
    }
    set.set_shots(true);
}

/// The socket is a connection from now on: out of the kernel's sets, into the stack's.
pub(crate) fn becomes_stream(target: &Held) -> Outcome<()> {
    let stack = stack::open()?;
    for (set, number, watch) in watchers(target) {
        let fired = watch.has_fired(number);
        // SAFETY: numbers alone.
        unsafe { real::epoll_ctl(number, libc::EPOLL_CTL_DEL, watch.fd, null_mut()) };
        let below = below(stack, &set, number)?;
        if fired {
            let event = EpollEvent { ready: interest(watch.events), data: watch.data };
            stack.runner.epoll_add_fired(below, target.below(), watch.fd, event)?;
        } else {
            put_in(stack, (&set, below), target.below(), &Watch { shot: None, ..watch })?;
        }
    }
    forget(target);
    Ok(())
}

/// The connection was taken apart and something else becomes of the socket: out of the stack's sets, into the
/// kernel's.
pub(crate) fn is_apart(stack: &Stack, target: &Held) -> Outcome<()> {
    let mut seen = Vec::new();
    for epfd in table::all().0 {
        let Some(set) = table::ours(epfd).filter(|set| set.kind() == Kind::Epoll && set.below() != NONE)
        else {
            continue;
        };
        if seen.contains(&set.name()) {
            continue;
        }
        seen.push(set.name());
        for (fd, event, fired) in stack.runner.epoll_watches(set.below(), target.below())? {
            stack.runner.epoll_ctl_as(set.below(), target.below(), fd, EpollOp::Delete)?;
            let EpollEvent { ready, data } = event;
            let mut event = epoll_event { events: ready.0, u64: data };
            // SAFETY: numbers, and an event of this frame's.
            if !fired && unsafe { real::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, fd, &raw mut event) } != 0 {
                return Err(Refused(errno()));
            }
            let shot = fired.then(|| shot_of(&set, fd, target));
            note(&set, epfd, fd, target, Some((event, shot)));
            let is_it = |watch: &&mut Watch| (watch.fd, watch.target) == (fd, target.name());
            if let Some(watch) = set.more().watches.iter_mut().find(is_it) {
                watch.fired = fired;
            }
        }
    }
    Ok(())
}

/// The socket is the kernel's from now on, whose sets know it by the program's word. One whose one event was told here
/// is told of when it is modified: until then its registration asks for a hang-up alone, and that is dropped.
pub(crate) fn becomes_kernels(target: &Held) {
    for (set, number, watch) in watchers(target) {
        let Some(word) = watch.shot else { continue };
        let (op, mut event) = match watch.fired {
            true => (libc::EPOLL_CTL_ADD, epoll_event { events: ONCE, u64: word }),
            false if watch.has_fired(number) => continue,
            false => (libc::EPOLL_CTL_MOD, epoll_event { events: watch.events, u64: watch.data }),
        };
        if watch.fired {
            set.more().watches.push(Watch { target: GONE, data: word, ..watch });
        }
        // SAFETY: an event of this frame's.
        unsafe { real::epoll_ctl(number, op, watch.fd, &raw mut event) };
    }
    forget(target);
}

/// A connection leaves all sets: what stands for it from now on is the kernel's.
pub(crate) fn leave_sets(target: &Held) -> Outcome<()> {
    let stack = stack::open()?;
    let ours = table::all().0.into_iter().filter_map(|fd| table::ours(fd).map(|held| (fd, held)));
    let (sets, rest): (Vec<_>, Vec<_>) = ours.partition(|(_, held)| held.kind() == Kind::Epoll);
    let numbers: Vec<c_int> = rest.iter().filter(|(_, held)| held.is(target)).map(|(fd, _)| *fd).collect();
    for (_, set) in sets.iter().filter(|(_, set)| set.below() != NONE) {
        for fd in &numbers {
            // It is in few of them.
            let _ = stack.runner.epoll_ctl_as(set.below(), target.below(), *fd, EpollOp::Delete);
        }
    }
    Ok(())
}

/// No set of ours has to do with it any more, and, if it is one, it has to do with nothing.
pub(crate) fn forget(target: &Description) {
    let name = target.name();
    let watched_by = std::mem::take(&mut target.more().watched_by);
    for watcher in watched_by {
        if let Some((set, _)) = table::named(watcher.set, watcher.epfd) {
            set.more().watches.retain(|watch| (watch.fd, watch.target) != (watcher.fd, name));
        }
    }
    let watches = std::mem::take(&mut target.more().watches);
    for watch in watches {
        if let Some((watched, _)) = table::named(watch.target, watch.fd) {
            watched.more().watched_by.retain(|watcher| (watcher.set, watcher.fd) != (name, watch.fd));
        }
    }
}
