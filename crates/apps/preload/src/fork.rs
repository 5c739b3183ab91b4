//! Fork. A child has the parent's descriptors and none of its threads, so the parent's stack means nothing to it:
//! it lets go of that and opens one of its own when a call needs it. Listeners are listened on again there.
//! Connections stay with the parent; a child that uses one is given a socket under the same number which the parent
//! relays ([`relay`](crate::relay)).
//!
//! A handler of a signal may fork while the thread is in a call of ours. What that holds stays held until the handler
//! is over, so it is not waited for, and the child gets no connections.

use crate::boundary::is_inside;
use crate::description::{Description, Kind, NONE};
use crate::hooks::real;
use crate::table::{self, Held};
use crate::{bell, description, epoll, limit, relay, report, sockets, stack};
use sock::hosted::Still;
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
            _stack: stack::opened().and_then(|stack| stack.hosted.still(wait)),
        }
    }
}

/// State that a fork has prepared.
struct Prepared {
    locks: Locks,
    heirs: Option<relay::Heirs>,
    /// A call of ours was interrupted.
    inside: bool,
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
    });
}

extern "C" fn before() {
    share_listeners();
    let inside = is_inside();
    if !inside {
        crate::boundary::inside(|| {
            relay::settle_for_fork();
            relay::name_for_fork(&streams());
        });
    }
    let locks = Locks::take(!inside);
    let own = || stack::opened().and_then(|_| relay::Heirs::of(&streams()));
    let heirs = if inside { None } else { own().or_else(relay::Heirs::of_inherited) };
    // A thread that ends while it forks keeps nothing.
    let _ = HELD.try_with(|held| held.replace(Some(Prepared { locks, heirs, inside })));
}

/// Lets go of the locks. What the child inherits, and whether a call of ours was interrupted.
fn take() -> (Option<relay::Heirs>, bool) {
    let Some(prepared) = HELD.try_with(RefCell::take).ok().flatten() else { return (None, false) };
    drop(prepared.locks);
    (prepared.heirs, prepared.inside)
}

/// Listeners that this process has together with another: a connection of its own to one of them goes by the kernel,
/// whose queue both accept from.
fn share_listeners() {
    for held in table::all().0.into_iter().filter_map(table::ours) {
        if held.kind() == Kind::Listener {
            held.share();
        }
    }
}

extern "C" fn in_parent() {
    if let (Some(heirs), _) = take() {
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

extern "C" fn in_child() {
    let (heirs, inside) = take();
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
        sockets::forked();
        for held in ours.into_iter().filter_map(table::ours) {
            match held.kind() {
                // Nothing relays it: the kernel says that it is not connected.
                Kind::Stream if inside => held.set_kind(Kind::Relayed),
                Kind::Stream => held.set_kind(Kind::Inherited),
                Kind::Epoll if held.below() != NONE => held.set_pending(true),
                _ => {}
            }
            held.set_below(NONE);
        }
        bell::forked();
        relay::forked();
    }
    relay::inherit(heirs);
}
