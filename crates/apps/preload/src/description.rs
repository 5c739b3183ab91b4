//! Open file descriptions behind descriptors of the stack, which dup shares.

use crate::epoll::{Turns, Watch, Watcher};
use crate::real;
use crate::table::{self, Held};
use libc::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

/// Present kind of the description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A TCP socket of which is not decided whose it becomes: all calls go to the kernel's socket under the number.
    Fresh,
    /// It listens, on the kernel's loopback under its number and, from when it is waited for, on the stack.
    Listener,
    /// A connection of the stack, or one that is being made.
    Stream,
    /// An epoll set of the kernel's in which there is something of ours.
    Epoll,
    /// A connection of the parent's stack, which this process has not used yet.
    Inherited,
    /// A connection of the parent's stack, which relays it to a socket of the kernel's under the number.
    Relayed,
}

const KINDS: [Kind; 6] =
    [Kind::Fresh, Kind::Listener, Kind::Stream, Kind::Epoll, Kind::Inherited, Kind::Relayed];

/// Where a listener stands among those of other processes that have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Family {
    /// This process has begun to listen.
    First,
    /// As before; it only waits for connections, and has left them to children.
    Master,
    /// Another process has begun to listen.
    Heir,
    /// As before, and leaves the connections to children: those that this one is not about to accept are again its.
    Servant,
}

const FAMILIES: [Family; 4] = [Family::First, Family::Master, Family::Heir, Family::Servant];

/// No descriptor of the stack.
pub(crate) const NONE: c_int = -1;

/// An option that was set before it was decided whose the socket is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredOption {
    pub(crate) level: c_int,
    pub(crate) name: c_int,
    pub(crate) value: Vec<u8>,
}

/// Of a connection that another process has: what that process calls it, and the way to that process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Relayed {
    pub(crate) handle: usize,
    pub(crate) channel: c_int,
}

/// A descriptor that is one description's alone; [`NONE`] is none.
pub(crate) struct Lent(pub(crate) c_int);

impl Lent {
    /// Returns the descriptor, which is the caller's to close.
    pub(crate) fn take(self) -> c_int {
        table::remove_hidden(self.0);
        std::mem::ManuallyDrop::new(self).0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.0 != NONE {
            table::remove_hidden(self.0);
            // SAFETY: a descriptor of ours that nothing else uses.
            unsafe { real::close(self.0) };
        }
    }
}

/// Rarely needed state.
#[derive(Default)]
pub(crate) struct More {
    pub(crate) stored_options: Vec<StoredOption>,
    /// Argument of the last listen.
    pub(crate) backlog: c_int,
    /// bind has fastened the kernel's socket to the loopback.
    pub(crate) fastened: bool,
    /// The kernel has given up an attempt to connect, of which connect tells next; true if the attempt has given the
    /// socket its address.
    pub(crate) refused: Option<bool>,
    /// Epoll sets that watch this, which is no connection.
    pub(crate) watched_by: Vec<Watcher>,
    /// Of a relayed connection.
    pub(crate) relayed: Option<Relayed>,
    /// The channel of a connection that another process has handed over.
    pub(crate) lent: Option<Lent>,
    /// Of a connection whose inode the program knows: both ends of the pair that stands for it in other processes.
    pub(crate) pair: Option<[Lent; 2]>,
    /// Of a listener by way of another process: the kernel's part.
    pub(crate) kernels: Option<Lent>,
    /// Of a relayed connection: our end and the peer's, as socket addresses. Of a socket that is bound to the link's
    /// device at all addresses, our end alone: the kernel's part has the link's address.
    pub(crate) names: Option<(Vec<u8>, Vec<u8>)>,
    /// Of an epoll set: what it watches that is no connection.
    pub(crate) watches: Vec<Watch>,
}

/// Functions that the end of a description runs.
pub(crate) struct End {
    /// No number stands for it any more.
    pub(crate) of_numbers: fn(&Description),
    /// Nothing uses it any more.
    pub(crate) of_users: fn(&Description),
}

static END: OnceLock<End> = OnceLock::new();

/// From now on this is run where a description ends.
pub(crate) fn on_end(end: End) {
    END.get_or_init(|| end);
}

/// An open file description.
pub(crate) struct Description {
    /// Slots of the table and calls that use it; 0: it may be used for something else.
    users: AtomicU32,
    /// Slots alone.
    slots: AtomicU32,
    kind: AtomicU8,
    v6: AtomicBool,
    nonblocking: AtomicBool,
    /// Others of fcntl's flags that are kept.
    flags: AtomicI32,
    /// The stack's descriptor.
    below: AtomicI32,
    /// Of an epoll set: something in it is not in the stack's part of it yet.
    pending: AtomicBool,
    /// Of an epoll set: threads that wait for the kernel's part alone.
    sleepers: AtomicU32,
    /// Of an epoll set: the bell that wakes them is in it.
    rung: AtomicBool,
    /// Of an epoll set: a listener in it is to be told of once.
    shots: AtomicBool,
    /// Of an epoll set: whose turn it is where a wait has room for few.
    turns: Turns,
    /// Of a listener: other processes may have it, too, and which of them accepts is not known.
    shared: AtomicBool,
    /// Of a listener: this process has asked for its connections; it has called accept.
    asked: AtomicBool,
    accepts: AtomicBool,
    family: AtomicU8,
    /// Index of the device that the program has bound the socket to, or 0.
    device: AtomicI32,
    /// Of a connection: the kernel's file under its numbers is under those of other connections, too.
    borrowed: AtomicBool,
    more: Mutex<More>,
}

/// How often it is tried to get at them.
const TIMEOUT: u32 = 1_000;

/// Those that nothing uses.
static FREE: Mutex<Vec<&'static Description>> = Mutex::new(Vec::new());

/// Those that nothing uses. `None` if they cannot be had for long: a handler of a signal has interrupted their holder,
/// and does without.
pub(crate) fn free() -> Option<MutexGuard<'static, Vec<&'static Description>>> {
    for _ in 0..TIMEOUT {
        match FREE.try_lock() {
            Ok(free) => return Some(free),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    None
}

impl Description {
    /// Stands for descriptors of our own stack; it is never looked into.
    pub(crate) const fn hidden() -> Description {
        Description {
            users: AtomicU32::new(1),
            slots: AtomicU32::new(0),
            kind: AtomicU8::new(0),
            v6: AtomicBool::new(false),
            nonblocking: AtomicBool::new(false),
            flags: AtomicI32::new(0),
            below: AtomicI32::new(NONE),
            pending: AtomicBool::new(false),
            sleepers: AtomicU32::new(0),
            rung: AtomicBool::new(false),
            shots: AtomicBool::new(false),
            turns: Turns::new(),
            shared: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            accepts: AtomicBool::new(false),
            family: AtomicU8::new(0),
            device: AtomicI32::new(0),
            borrowed: AtomicBool::new(false),
            more: Mutex::new(More {
                stored_options: Vec::new(),
                backlog: 0,
                fastened: false,
                refused: None,
                watched_by: Vec::new(),
                relayed: None,
                lent: None,
                pair: None,
                kernels: None,
                names: None,
                watches: Vec::new(),
            }),
        }
    }

    /// A new one.
    pub(crate) fn make(kind: Kind, v6: bool, below: c_int) -> Held {
        let known = free().and_then(|mut free| free.pop());
        let description = known.unwrap_or_else(|| Box::leak(Box::new(Description::hidden())));
        description.set_kind(kind);
        description.v6.store(v6, Ordering::Relaxed);
        description.nonblocking.store(false, Ordering::Relaxed);
        description.set_flags(0);
        description.below.store(below, Ordering::Relaxed);
        description.pending.store(false, Ordering::Relaxed);
        description.set_shots(false);
        description.turns.forget();
        description.shared.store(false, Ordering::Relaxed);
        description.asked.store(false, Ordering::Relaxed);
        description.accepts.store(false, Ordering::Relaxed);
        description.set_family(Family::First);
        description.set_device(0);
        description.set_borrowed(false);
        description.forget_sleepers();
        description.slots.store(0, Ordering::Relaxed);
        description.users.store(1, Ordering::Release);
        Held::counted(description)
    }

    pub(crate) fn kind(&self) -> Kind {
        KINDS[usize::from(self.kind.load(Ordering::Acquire))]
    }

    pub(crate) fn set_kind(&self, kind: Kind) {
        self.kind.store(kind as u8, Ordering::Release);
    }

    pub(crate) fn is_v6(&self) -> bool {
        self.v6.load(Ordering::Relaxed)
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    pub(crate) fn set_nonblocking(&self, on: bool) {
        self.nonblocking.store(on, Ordering::Relaxed);
    }

    /// Flags of fcntl that mean nothing here, but are told.
    pub(crate) fn flags(&self) -> c_int {
        self.flags.load(Ordering::Relaxed)
    }

    pub(crate) fn set_flags(&self, flags: c_int) {
        self.flags.store(flags, Ordering::Relaxed);
    }

    /// The stack's descriptor, or [`NONE`].
    pub(crate) fn below(&self) -> c_int {
        self.below.load(Ordering::SeqCst)
    }

    /// Takes the stack's descriptor away, or [`NONE`].
    pub(crate) fn take_below(&self) -> c_int {
        self.below.swap(NONE, Ordering::AcqRel)
    }

    pub(crate) fn set_below(&self, fd: c_int) {
        self.below.store(fd, Ordering::SeqCst);
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::SeqCst)
    }

    pub(crate) fn set_pending(&self, on: bool) {
        self.pending.store(on, Ordering::SeqCst);
    }

    /// Threads that wait for the kernel's part of this set. A thread that puts something of ours into it looks here
    /// afterwards; a thread that falls asleep looks there afterwards.
    pub(crate) fn sleepers(&self) -> u32 {
        self.sleepers.load(Ordering::SeqCst)
    }

    pub(crate) fn falls_asleep(&self) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn wakes_up(&self) {
        // A child that a handler has made counts no thread that slept in its parent, itself included.
        let _ = self.sleepers.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |all| all.checked_sub(1));
    }

    /// There are none in this process.
    pub(crate) fn forget_sleepers(&self) {
        self.sleepers.store(0, Ordering::SeqCst);
        self.rung.store(false, Ordering::SeqCst);
    }

    pub(crate) fn is_rung(&self) -> bool {
        self.rung.load(Ordering::SeqCst)
    }

    pub(crate) fn has_shots(&self) -> bool {
        self.shots.load(Ordering::Relaxed)
    }

    pub(crate) fn set_shots(&self, on: bool) {
        self.shots.store(on, Ordering::Relaxed);
    }

    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    pub(crate) fn set_rung(&self, on: bool) {
        self.rung.store(on, Ordering::SeqCst);
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    /// Has this process asked for the listener's connections?
    pub(crate) fn has_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    pub(crate) fn set_asked(&self, on: bool) {
        self.asked.store(on, Ordering::Relaxed);
    }

    /// Has this process called accept?
    pub(crate) fn accepts(&self) -> bool {
        self.accepts.load(Ordering::Relaxed)
    }

    pub(crate) fn set_accepts(&self) {
        self.accepts.store(true, Ordering::Relaxed);
    }

    pub(crate) fn family(&self) -> Family {
        FAMILIES[usize::from(self.family.load(Ordering::Relaxed))]
    }

    pub(crate) fn set_family(&self, family: Family) {
        self.family.store(family as u8, Ordering::Relaxed);
    }

    /// From now on other processes may have it, too.
    pub(crate) fn share(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    /// Index of the device that the program has bound the socket to, or 0.
    pub(crate) fn device(&self) -> c_int {
        self.device.load(Ordering::Relaxed)
    }

    pub(crate) fn set_device(&self, index: c_int) {
        self.device.store(index, Ordering::Relaxed);
    }

    pub(crate) fn is_borrowed(&self) -> bool {
        self.borrowed.load(Ordering::Relaxed)
    }

    pub(crate) fn set_borrowed(&self, on: bool) {
        self.borrowed.store(on, Ordering::Relaxed);
    }

    pub(crate) fn more(&self) -> MutexGuard<'_, More> {
        self.more.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it lies, as its name.
    pub(crate) fn name(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(crate) fn retain(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn retain_if_used(&self) -> bool {
        let more = |users: u32| (users > 0).then_some(users + 1);
        self.users.fetch_update(Ordering::Acquire, Ordering::Relaxed, more).is_ok()
    }

    /// A slot stands for it.
    pub(crate) fn opened(&self) {
        self.slots.fetch_add(1, Ordering::Relaxed);
    }

    /// A slot does no more.
    pub(crate) fn closed(&self) {
        if self.slots.fetch_sub(1, Ordering::AcqRel) == 1 && self.kind() != Kind::Stream {
            END.get().inspect(|end| (end.of_numbers)(self));
        }
    }

    /// The last user ends it.
    pub(crate) fn release(&'static self) {
        if self.users.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        END.get().inspect(|end| (end.of_users)(self));
        drop(std::mem::take(&mut *self.more()));
        if let Some(mut free) = free() {
            free.push(self);
        }
    }
}
