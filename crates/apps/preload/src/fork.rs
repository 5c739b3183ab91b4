//! Fork. A child has the parent's descriptors and none of its threads, so the parent's stack means nothing to it:
//! it lets go of that and opens one of its own when a call needs it. Listeners are listened on again there.
//! Connections stay with the parent; a child that uses one is given a socket under the same number which the parent
//! relays ([`relay`](crate::relay)).
//!
//! Children that are made past fork(3), by clone, clone3 and _Fork, and by syscall(2), are told of as forks. One that
//! shares its parent's memory or its descriptors, and not both, would change what the parent's stack uses: as after
//! vfork(2) it gets memory of its own where the parent waits for it, and is refused elsewhere.
//!
//! A child that was made past all functions of the C library is noticed at its first call: a page that the kernel wipes
//! in children says so. It was not prepared for, so it gets no connections.
//!
//! A handler of a signal may fork while the thread is in a call of ours. What that holds stays held until the handler
//! is over, so it is not waited for, and the child gets no connections.

use crate::boundary::{errno, say, say_once, set_errno};
use crate::calls::Entry;
use crate::description::{Description, Family, Kind, NONE};
use crate::inside::{inside, is_inside, know_process, notices_children, was_noticed};
use crate::real;
use crate::table::{self, Held};
use crate::{accept, bell, description, epoll, heap, limit, listener, relay, report, stack};
use capi::memory::can_read;
use libc::{c_int, c_long, c_void, pid_t};
use sock::runner::Still;
use std::cell::RefCell;
use std::sync::{MutexGuard, Once};

/// Locks held during a fork, so that no other thread holds it in the child for ever.
struct Locks {
    _opening: Option<MutexGuard<'static, ()>>,
    _free: Option<MutexGuard<'static, Vec<&'static Description>>>,
    _new: Option<relay::Quiet>,
    _stack: Option<Still<'static>>,
}

impl Locks {
    fn take(wait: bool) -> Locks {
        Locks {
            _opening: stack::opening(wait),
            _free: description::free(),
            _new: relay::quiet(wait),
            _stack: stack::opened().and_then(|stack| stack.runner.still(wait)),
        }
    }
}

/// State that a fork has prepared.
struct Prepared {
    locks: Locks,
    heirs: Option<relay::Heirs>,
    /// A call of ours was interrupted.
    interrupted: bool,
}

thread_local! {
    static HELD: RefCell<Option<Prepared>> = const { RefCell::new(None) };
}

/// From now on forks are noticed, daemon(3)'s too.
pub(crate) fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: functions that may run where a fork is.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        know_process(notice);
    });
}

/// This process is a child of which nothing was told.
fn notice() {
    if HELD.try_with(|held| held.borrow().is_some()) == Ok(true) {
        // A handler of fork that came before ours.
        return in_child();
    }
    // A thread of the parent may have held one of these: it is not there to let go of it.
    heap::forked();
    let whole =
        stack::opening(false).is_some() && relay::quiet(false).is_some() && description::free().is_some();
    if !whole {
        stack::never();
    }
    // Its parent asks there.
    relay::lose_way();
    let opened = stack::opened().is_some();
    in_child();
    if opened {
        let what = "a child made by the system call clone itself was not seen: the connections that it inherited are \
                    lost there (ENOTCONN)";
        say(what);
    }
}

/// Makes a child by `make`, a fork without the C library's handlers. A child that does not return from it calls
/// [`in_child`] itself.
pub(crate) fn told(make: impl FnOnce() -> c_long) -> c_long {
    if !notices_children() {
        return make();
    }
    before();
    heap::before_fork();
    let made = make();
    let why = errno();
    if made == 0 {
        in_child()
    } else {
        heap::after_fork();
        in_parent()
    }
    set_errno(why);
    made
}

extern "C" fn before() {
    let interrupted = is_inside();
    let listeners = share_listeners();
    if !interrupted {
        inside(|| {
            listeners.iter().for_each(listener::leave_to_children);
            relay::settle_for_fork();
            let streams = streams();
            relay::name_for_fork(&streams);
            if stack::opened().is_some() && relay::are_asked_for(&streams) {
                relay::begin_thread();
            }
        });
    }
    let locks = Locks::take(!interrupted);
    let own = || stack::opened().and_then(|_| relay::Heirs::of(&streams()));
    let heirs = if interrupted { None } else { own().or_else(relay::Heirs::of_inherited) };
    // A thread that ends while it forks keeps nothing.
    let _ = HELD.try_with(|held| held.replace(Some(Prepared { locks, heirs, interrupted })));
}

/// Lets go of the locks. What the child inherits, and whether a call of ours was interrupted.
/// `None` if nothing was prepared.
fn take() -> Option<(Option<relay::Heirs>, bool)> {
    let prepared = HELD.try_with(RefCell::take).ok().flatten()?;
    drop(prepared.locks);
    Some((prepared.heirs, prepared.interrupted))
}

/// Listeners that this process has together with another: a connection of its own to one of them goes by the kernel,
/// whose queue both accept from.
fn share_listeners() -> Vec<Held> {
    let ours = table::all().0.into_iter().filter_map(table::ours);
    let listeners: Vec<Held> = ours.filter(|held| held.kind() == Kind::Listener).collect();
    listeners.iter().for_each(|held| held.share());
    listeners
}

extern "C" fn in_parent() {
    if let Some((Some(heirs), _)) = take() {
        relay::serve(heirs);
    }
}

/// Connections, each once.
fn streams() -> Vec<Held> {
    let (ours, _) = table::all();
    let mut all: Vec<Held> =
        ours.into_iter().filter_map(table::ours).filter(|held| held.kind() == Kind::Stream).collect();
    all.sort_by_key(|held| held.name());
    all.dedup_by_key(|held| held.name());
    all
}

pub(crate) extern "C" fn in_child() {
    if was_noticed() {
        return;
    }
    heap::forked();
    let (heirs, interrupted) = take().unwrap_or((None, true));
    limit::forked();
    epoll::forked();
    if stack::forget() {
        let (ours, hidden) = table::all();
        let channels: Vec<_> =
            ours.iter().filter_map(|fd| table::ours(*fd)?.more().relayed).map(|it| it.channel).collect();
        report::forked();
        for fd in hidden {
            if fd == report::file() || fd == relay::channel() || channels.contains(&fd) {
                continue;
            }
            table::remove_hidden(fd);
            // SAFETY: the parent's stack's, of which this process has a copy that nothing else uses.
            unsafe { real::close(fd) };
        }
        accept::forked();
        for held in ours.into_iter().filter_map(table::ours) {
            match held.kind() {
                // Nothing relays it: the kernel says that it is not connected.
                Kind::Stream if interrupted => held.set_kind(Kind::Relayed),
                Kind::Stream => held.set_kind(Kind::Inherited),
                Kind::Listener => held.set_family(match held.family() {
                    Family::First | Family::Heir => Family::Heir,
                    Family::Master | Family::Servant => Family::Servant,
                }),
                Kind::Epoll if held.below() != NONE => held.set_pending(true),
                _ => {}
            }
            // Closed above, where they were hidden.
            std::mem::forget(held.more().pair.take());
            held.set_below(NONE);
        }
        bell::forked();
        relay::forked();
    }
    relay::inherit(heirs);
}

// --- past fork(3) ---------------------------------------------------------------------------------------------------

/// Kind of a child, to this library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Child {
    /// It shares memory and descriptors, as a thread does, or brings thread-local memory of its own: the kernel's.
    Thread,
    /// A fork, with these flags.
    Fork(u64),
    /// It shares memory or descriptors alone.
    Refused,
}

fn child_of(flags: u64) -> Child {
    let has = |bits: c_int| flags & bits as u64 != 0;
    match (has(libc::CLONE_VM), has(libc::CLONE_FILES)) {
        _ if has(libc::CLONE_SETTLS | libc::CLONE_THREAD) => Child::Thread,
        (true, true) => Child::Thread,
        (false, false) => Child::Fork(flags & !(libc::CLONE_VFORK as u64)),
        (true, false) if has(libc::CLONE_VFORK) => {
            Child::Fork(flags & !((libc::CLONE_VM | libc::CLONE_VFORK) as u64))
        }
        _ if stack::opened().is_some() => Child::Refused,
        _ => Child::Thread,
    }
}

fn refused() -> c_int {
    static TOLD: Once = Once::new();
    say_once(&TOLD, "clone with one of CLONE_VM and CLONE_FILES is refused (EINVAL): name both or none");
    set_errno(libc::EINVAL);
    -1
}

/// Function that a child runs, and its argument.
struct Begin {
    entry: Entry,
    arg: *mut c_void,
}

extern "C" fn begin(begin: *mut c_void) -> c_int {
    in_child();
    // SAFETY: the child has a copy of the frame of `clone` below.
    let begin = unsafe { &*begin.cast::<Begin>() };
    (begin.entry)(begin.arg)
}

/// # Safety
/// C's contract of clone(2) as the C library has it; the last three are read as the flags say.
pub(crate) unsafe fn clone(
    entry: Option<Entry>,
    stack: *mut c_void,
    flags: c_int,
    arg: *mut c_void,
    parent: *mut pid_t,
    tls: *mut c_void,
    child: *mut pid_t,
) -> c_int {
    let (Some(own), false) = (entry, stack.is_null()) else {
        // SAFETY: the caller's arguments; the C library says what is wrong with them.
        return unsafe { real::clone(entry, stack, flags, arg, parent, tls, child) };
    };
    match child_of(flags as u32 as u64) {
        // SAFETY: the caller's arguments.
        Child::Thread => unsafe { real::clone(entry, stack, flags, arg, parent, tls, child) },
        Child::Refused => refused(),
        Child::Fork(flags) => {
            let first = Begin { entry: own, arg };
            let first = (&raw const first).cast_mut().cast::<c_void>();
            // SAFETY: the caller's arguments, and what `begin` takes.
            let make =
                || unsafe { real::clone(Some(begin), stack, flags as c_int, first, parent, tls, child) };
            told(|| make().into()) as c_int
        }
    }
}

/// # Safety
/// C's contract of _Fork(3).
pub(crate) unsafe fn fork_alone() -> pid_t {
    // SAFETY: no arguments.
    told(|| unsafe { real::_Fork() }.into()) as pid_t
}

/// clone(2) as the kernel has it: the child returns from it, too.
///
/// # Safety
/// The kernel's contract.
pub(crate) unsafe fn clone_raw(flags: c_long, stack: c_long, c: c_long, d: c_long, e: c_long) -> c_long {
    // SAFETY: the caller's arguments.
    let kernels = |flags: c_long| unsafe { real::syscall(libc::SYS_clone, flags, stack, c, d, e, 0) };
    if stack != 0 {
        return kernels(flags);
    }
    match child_of(flags as u64) {
        Child::Thread => kernels(flags),
        Child::Refused => refused().into(),
        // The C library's function has its own locks in order in the child.
        // SAFETY: no arguments.
        Child::Fork(flags) if flags == libc::SIGCHLD as u64 => unsafe { libc::fork() }.into(),
        Child::Fork(flags) => told(|| kernels(flags as c_long)),
    }
}

/// Words of `struct clone_args`: the flags first, the stack sixth.
const ARGS_MAX: usize = 512;
const STACK: usize = 5;

/// clone3(2).
///
/// # Safety
/// The kernel's contract.
pub(crate) unsafe fn clone3(args: c_long, size: c_long) -> c_long {
    // SAFETY: the caller's arguments, or a copy of them.
    let kernels = |args: c_long| unsafe { real::syscall(libc::SYS_clone3, args, size, 0, 0, 0, 0) };
    let words = size as usize / size_of::<u64>();
    let is_known = (STACK + 1..=ARGS_MAX).contains(&words);
    if !is_known || !can_read(args as *const u64, words * size_of::<u64>()) {
        return kernels(args);
    }
    let mut copy = [0_u64; ARGS_MAX];
    // SAFETY: C's contract: so many bytes; whole words of them are no more.
    unsafe { std::ptr::copy_nonoverlapping(args as *const u64, copy.as_mut_ptr(), words) };
    match child_of(copy[0]) {
        _ if copy[STACK] != 0 || !(size as usize).is_multiple_of(size_of::<u64>()) => kernels(args),
        Child::Thread => kernels(args),
        Child::Refused => refused().into(),
        Child::Fork(flags) => {
            copy[0] = flags;
            told(|| kernels(copy.as_ptr() as c_long))
        }
    }
}

#[cfg(test)]
mod tests;
