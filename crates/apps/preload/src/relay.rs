//! Connections that a child has inherited. They stay on the parent's stack; a child that uses one asks the parent
//! for it, over a channel that the fork has made, and gets one end of a UNIX socket pair under the same number,
//! across exec too. A thread of the parent carries bytes between that and the connection.
//!
//! A child may have given up its rights, and be taken over. So its channel speaks of nothing but what this child was
//! given, the thread waits for no child, and what a child may hold here is bounded.

mod ask;
mod mark;
mod ports;
mod settle;
#[cfg(test)]
mod tests;
mod wire;

use crate::boundary::{Refused, errno, inside, say};
use crate::description::{Description, Kind, NONE, Relayed};
use crate::pump::{self, Pump, ROOM};
use crate::sleep::{beside, input};
use crate::stack::{self, Stack};
use crate::table::{self, Held};
use crate::{bell, kernel, listener, real, threads};
use ask::{
    Question, begin_channel, both_names, discard, hear_child, is_whole, lend_of, refuse, request, tell, words,
};
pub(crate) use ask::{adopt_channel, get_option, is_channel, lend, set_option, spare_wait, tell_end};
use libc::{c_int, c_void, epoll_event};
use mark::raw_names;
pub(crate) use mark::{Mark, named_pair, names_of, stand_in};
use ports::{KERNELS, LISTENER, PORTS, Port, Wanted};
pub(crate) use ports::{accept, connect, is_listener, listen};
pub(crate) use settle::{settle, settle_for_exec, settle_for_fork, settle_to_wait};
use sock::{EpollEvent, EpollOp, Errno, Fd, Ready, Sockets};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
pub(crate) use wire::{bytes, hex};
use wire::{close, pair, receive, receive_once, send};

/// This process's way to its parent.
static CHANNEL: AtomicI32 = AtomicI32::new(NONE);

/// Request of a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
enum Request {
    /// The connection, to use it.
    Take = 1,
    /// It has let go of it.
    Release = 2,
    /// To set an option of one that it has taken.
    SetOption = 3,
    /// To hear of one.
    GetOption = 4,
    /// A channel for a child of its own, about the connections that it may still ask for itself.
    Share = 5,
    /// A channel for another process that gets one of the connections from it: for its options alone.
    Lend = 6,
    /// On a channel that it has made: to listen where the kernel's socket that comes along does.
    Listen = 7,
    /// As before: to connect, from where that socket is bound.
    Connect = 8,
    /// On a listener's channel: to be told of connections of the kernel's part again.
    Again = 9,
    /// It ends what it sends over a connection that it has taken. Closing its socket is no such end.
    End = 10,
}

/// Bytes of a request (which, and of what), and of the names that answer it: our end and the peer's.
const REQUEST: usize = 16;
const NAME: usize = 28;

/// State that a fork leaves to the child.
pub(crate) struct Heirs {
    parents: c_int,
    childs: c_int,
    streams: Vec<Held>,
    /// Connections of which the child has a socket already, by their names here.
    taken: Vec<usize>,
}

impl Heirs {
    /// A channel for a child of this process, to the one that has the connections which this one has inherited and not
    /// used; `None` if there are none.
    pub(crate) fn of_inherited() -> Option<Heirs> {
        let unused = |held: &Held| held.kind() == Kind::Inherited && held.more().relayed.is_none();
        let held = table::all().0.into_iter().filter_map(table::ours).find(unused)?;
        let [parents, childs] = pair(libc::SOCK_SEQPACKET)?;
        // That process may be gone, and the connections with it.
        send(channel(), &mut request(Request::Share, &held), parents, 0);
        close(parents);
        Some(Heirs { parents: NONE, childs, streams: Vec::new(), taken: Vec::new() })
    }

    /// A channel for a program that is spawned: about connections of which it has sockets already, and those of
    /// `streams`, which it takes when it uses them.
    pub(crate) fn of_spawned(streams: Vec<Held>, taken: Vec<usize>) -> Option<Heirs> {
        let [parents, childs] = pair(libc::SOCK_SEQPACKET)?;
        Some(Heirs { parents, childs, streams, taken })
    }

    /// The child's end.
    pub(crate) fn childs(&self) -> c_int {
        self.childs
    }

    /// A channel about these connections, and about listeners whose ports the child cannot share; `None` if there are
    /// none, or no descriptors: then the child finds them gone.
    pub(crate) fn of(streams: &[Held]) -> Option<Heirs> {
        are_asked_for(streams).then_some(())?;
        let [parents, childs] = pair(libc::SOCK_SEQPACKET)?;
        Some(Heirs { parents, childs, streams: streams.to_vec(), taken: Vec::new() })
    }
}

/// Does a child of this process have something to ask about?
pub(crate) fn are_asked_for(streams: &[Held]) -> bool {
    !streams.is_empty() || listener::listened_as_root()
}

// --- the child -------------------------------------------------------------------------------------------------------

/// The child keeps its end.
pub(crate) fn inherit(heirs: Option<Heirs>) {
    let Some(heirs) = heirs else { return };
    close(heirs.parents);
    let before = CHANNEL.swap(threads::hidden(heirs.childs), Ordering::AcqRel);
    let asks_there = |held: Held| held.more().relayed.is_some_and(|relayed| relayed.channel == before);
    if before != NONE && !table::all().0.into_iter().filter_map(table::ours).any(asks_there) {
        table::remove_hidden(before);
        close(before);
    }
}

/// This process has none: its parent uses it.
pub(crate) fn lose_way() {
    CHANNEL.store(NONE, Ordering::Release);
}

/// The channel, which a fork in this process must not sweep away.
pub(crate) fn channel() -> c_int {
    CHANNEL.load(Ordering::Acquire)
}

/// Returns what the process that has an inherited connection calls it: the name of the parent's description, which a
/// fork keeps, and which an exec hands on.
pub(crate) fn handle(held: &Description) -> usize {
    held.more().relayed.map_or(held.name(), |relayed| relayed.handle)
}

/// The child has closed its last number of a connection that it never used.
pub(crate) fn release(held: &Description) {
    // The parent may be gone, and the connection with it.
    tell(channel(), &request(Request::Release, held));
}

/// Writes down the names of connections before a fork: a child that asks for them does not use the connection.
pub(crate) fn name_for_fork(streams: &[Held]) {
    let Some(stack) = stack::opened() else { return };
    for held in streams {
        let names = stack.runner.peer_addr(held.below()).is_ok().then(|| names_of(stack, held));
        held.more().names = names;
    }
}

/// Makes `fd` this process's way to the one that has its inherited connections: an exec has handed it on.
pub(crate) fn adopt_way(fd: c_int) {
    adopt_channel(fd);
    CHANNEL.store(fd, Ordering::Release);
}

// --- the parent ------------------------------------------------------------------------------------------------------

/// A child, and the connections that it may ask for.
struct Child {
    channel: c_int,
    streams: Vec<Held>,
    /// Those of which it has a socket, by their names here: it may ask for their options.
    taken: Vec<usize>,
    /// The channel that this process made, which is the channel itself, or by way of which a child has shared.
    root: c_int,
    /// A socket that this process has opened for the child.
    port: Option<Port>,
}

/// Most channels that exist by way of one of this process's own.
const SHARES_MAX: usize = 256;
/// Most messages of a child that are answered before the thread looks at others.
const MESSAGES_MAX: usize = 64;

/// Work that the thread has not seen yet.
struct New {
    children: Vec<Child>,
    pumps: Vec<Pump>,
    /// Descriptor on which it sleeps.
    bell: c_int,
    /// It has looked for work, or never will.
    begun: bool,
}

static NEW: Mutex<New> =
    Mutex::new(New { children: Vec::new(), pumps: Vec::new(), bell: NONE, begun: false });

/// Wakes those who wait until the thread has begun.
static BEGUN: Condvar = Condvar::new();
/// How long they wait at most.
const BEGIN_MAX: std::time::Duration = std::time::Duration::from_secs(1);

/// Counters for which the end of the process waits: how often it has asked the thread to move what lies in
/// children's sockets, how often the thread has done so, and whether some of it is left.
static ASKED: AtomicU32 = AtomicU32::new(0);
static MOVED: AtomicU32 = AtomicU32::new(0);
static LEFT: AtomicBool = AtomicBool::new(false);

/// Asks the thread to move what children have written before they ended; false when all of it is with the stack, or if
/// there is no such thread.
pub(crate) fn owes() -> bool {
    let mut all = new();
    if all.bell == NONE {
        return false;
    }
    let asked = ASKED.load(Ordering::Acquire);
    if MOVED.load(Ordering::Acquire) == asked && asked > 0 && !LEFT.load(Ordering::Acquire) {
        return false;
    }
    if MOVED.load(Ordering::Acquire) == asked {
        ASKED.fetch_add(1, Ordering::AcqRel);
        all.wake();
    }
    true
}

/// The connection's numbers stand for a socket from now on, which a thread of this process relays: the C library's
/// streams read and write the numbers 0 to 2 without a call that comes here.
pub(crate) fn relay_to_itself(held: &Held) -> Result<(), Refused> {
    relay_by(held, Pump::own)
}

/// As [`relay_to_itself`], of a connection that goes to another process, too.
pub(crate) fn relay_to_another(held: &Held) -> Result<(), Refused> {
    relay_by(held, Pump::lent)
}

fn relay_by(held: &Held, pump: fn(Held, c_int) -> Pump) -> Result<(), Refused> {
    let stack = stack::open()?;
    inside(|| {
        let [mine, childs] = named_pair(stack, held).ok_or(Refused(libc::EMFILE))?;
        let made = Description::make(Kind::Relayed, held.is_v6(), NONE);
        let mut more = made.more();
        more.names = Some(names_of(stack, held));
        more.relayed = Some(Relayed { handle: held.name(), channel: own_channel(held.name()) });
        drop(more);
        // SAFETY: numbers alone.
        unsafe {
            if held.is_nonblocking() {
                real::fcntl(childs, libc::F_SETFL, libc::O_NONBLOCK.into());
            }
        }
        for fd in table::put_under(held, childs) {
            table::put(fd, made.clone());
        }
        close(childs);
        begin(vec![pump(held.clone(), threads::hidden(mine))]);
        Ok(())
    })
}

/// A way of this process to its own thread, for options of one connection that that relays, which children inherit;
/// [`NONE`] if there is no descriptor. Those of connections that are closed are closed here.
fn own_channel(handle: usize) -> c_int {
    static OWN: Mutex<(u32, Vec<c_int>)> = Mutex::new((0, Vec::new()));
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    if own.0 != bell::forks() {
        *own = (bell::forks(), Vec::new());
    }
    let relayed: Vec<Held> = table::all().0.into_iter().filter_map(table::ours).collect();
    own.1.retain(|channel| {
        let used = relayed.iter().any(|held| held.more().relayed.is_some_and(|it| it.channel == *channel));
        if !used {
            table::remove_hidden(*channel);
            close(*channel);
        }
        used
    });
    let Some(heirs) = Heirs::of_spawned(Vec::new(), vec![handle]) else { return NONE };
    let kept = duplicate(heirs.childs);
    serve(heirs);
    own.1.push(kept);
    kept
}

/// A copy of a descriptor that the program does not see.
fn duplicate(fd: c_int) -> c_int {
    // SAFETY: numbers alone.
    threads::hidden(unsafe { real::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) })
}

/// Lock on the thread's unseen work, held during a fork.
pub(crate) struct Quiet {
    _new: MutexGuard<'static, New>,
}

/// Nothing tells the thread anything meanwhile. `None` if a thread does, and that is not to be waited for.
pub(crate) fn quiet(wait: bool) -> Option<Quiet> {
    let new = if wait { Some(new()) } else { NEW.try_lock().ok() };
    new.map(|new| Quiet { _new: new })
}

fn new() -> MutexGuard<'static, New> {
    NEW.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The parent keeps its end, and answers.
pub(crate) fn serve(heirs: Heirs) {
    inside(|| {
        close(heirs.childs);
        if heirs.parents == NONE {
            return;
        }
        let channel = threads::hidden(heirs.parents);
        let child = Child { channel, streams: heirs.streams, taken: heirs.taken, root: channel, port: None };
        let mut all = new();
        all.children.push(child);
        all.wake();
    });
}

/// Relays these, too.
pub(crate) fn begin(mut pumps: Vec<Pump>) {
    if pumps.is_empty() {
        return;
    }
    inside(|| {
        let mut all = new();
        all.pumps.append(&mut pumps);
        all.wake();
    });
}

impl New {
    /// The thread looks, and is there.
    fn wake(&mut self) {
        if self.bell == NONE {
            // SAFETY: numbers alone.
            self.bell = threads::hidden(unsafe { real::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) });
            // SAFETY: a number.
            let kernels = threads::hidden(unsafe { real::epoll_create1(libc::EPOLL_CLOEXEC) });
            let thread = std::thread::Builder::new().name("millstream-relay".into());
            if let Err(e) = thread.spawn(move || run(kernels)) {
                say(&format!("connections of a child are lost: {e}"));
                self.has_begun();
            }
        }
        let one = 1_u64;
        // SAFETY: eight bytes.
        unsafe { real::write(self.bell, (&raw const one).cast::<c_void>(), 8) };
    }

    fn has_begun(&mut self) {
        if !std::mem::replace(&mut self.begun, true) {
            BEGUN.notify_all();
        }
    }
}

/// Makes the thread of a process whose stack is open, before the program has a child or forbids itself new threads.
///
/// While a thread is made its maker takes no signals: the end of a child, which comes meanwhile, would end calls of the
/// program's other threads (EINTR). And a child that is made while the thread begins has it half begun: locks that it
/// holds, descriptors that are not hidden yet.
pub(crate) fn begin_thread() {
    inside(|| {
        let mut all = new();
        if all.bell == NONE {
            all.wake();
        }
        // One that takes longer begins beside the child.
        drop(BEGUN.wait_timeout_while(all, BEGIN_MAX, |all| !all.begun));
    });
}

/// The process is a child: what its parent served is the parent's.
pub(crate) fn forked() {
    // It can only be held by the call that was interrupted, which is the parent's business.
    pump::forked();
    ASKED.store(0, Ordering::Release);
    MOVED.store(0, Ordering::Release);
    let Ok(mut all) = NEW.try_lock() else { return };
    // Their connections are not this process's to let go of.
    std::mem::forget((std::mem::take(&mut all.children), std::mem::take(&mut all.pumps)));
    (all.bell, all.begun) = (NONE, false);
}

/// Subject of an event of the kernel's set; smaller words are places of connections.
const BELL: u64 = u64::MAX;
const CHANNELS: u64 = 1 << 32;
/// Events of one look.
const EVENTS: usize = 64;

fn run(kernels: c_int) {
    ask::RELAYS.set(true);
    let Some(stack) = stack::opened() else { return };
    let relay = stack.runner.epoll_create().map_err(Refused::from).and_then(|below| {
        let bell = new().bell;
        let (children, pumps) = (Vec::new(), Vec::new());
        let relay = Relay { stack, kernels, below, children, pumps, given: Vec::new() };
        relay.watch(bell, libc::EPOLLIN, BELL).map(|()| relay)
    });
    match relay {
        Ok(relay) => relay.run(),
        Err(Refused(errno)) => {
            say(&format!("connections of a child are lost: error {errno}"));
            new().has_begun();
        }
    }
}

/// The thread's state: the processes that may ask, and what is relayed. An event names a place in one of the lists.
struct Relay {
    stack: &'static Stack,
    /// The kernel's set: the bell, channels and sockets of children.
    kernels: c_int,
    /// The stack's: their connections.
    below: Fd,
    children: Vec<Option<Child>>,
    pumps: Vec<Option<Pump>>,
    given: Vec<Given>,
}

/// The child's end of a connection that another child may still ask for: both get the same one, as a fork's parent and
/// child have the same connection.
struct Given {
    handle: usize,
    names: [u8; 2 * NAME],
    childs: c_int,
}

/// Puts it where there is a place; which.
fn place<T>(all: &mut Vec<Option<T>>, what: T) -> usize {
    let at = all.iter().position(Option::is_none).unwrap_or(all.len());
    if at == all.len() {
        all.push(None);
    }
    all[at] = Some(what);
    at
}

impl Relay {
    /// The kernel's set tells of this descriptor.
    fn watch(&self, fd: c_int, events: c_int, word: u64) -> Result<(), Refused> {
        let mut event = epoll_event { events: events as u32, u64: word };
        // SAFETY: an event of this frame's.
        let done = unsafe { real::epoll_ctl(self.kernels, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
        if done == 0 { Ok(()) } else { Err(Refused(errno())) }
    }

    fn unwatch(&self, fd: c_int) {
        // A child of this process may have the descriptor too, so that closing it is not enough.
        // SAFETY: numbers alone.
        unsafe { real::epoll_ctl(self.kernels, libc::EPOLL_CTL_DEL, fd, null_mut()) };
        table::remove_hidden(fd);
        close(fd);
    }

    fn run(mut self) {
        let (mut leader, mut room) = (self.stack.runner.pin(false), vec![0; ROOM]);
        let (mut found, mut rows) = ([EpollEvent::default(); EVENTS], vec![input(self.kernels)]);
        loop {
            let wait = leader.wait(
                Some(self.below),
                None,
                &mut |fds, left| beside(&mut rows, 1, fds, left, null(), true),
                &mut |engine| match engine.epoll_collect(self.below, &mut found)? {
                    0 => Err(Errno::EAGAIN),
                    n => Ok(n),
                },
            );
            // Whatever ended the wait, both sides are looked at.
            for event in &found[..wait.unwrap_or(0)] {
                let at = event.data as usize;
                if at >= PORTS {
                    self.on_port(at - PORTS, &mut room);
                } else if let Some(pump) = self.pumps.get_mut(at).and_then(Option::as_mut) {
                    pump.on_connection();
                    self.step(at, &mut room);
                }
            }
            self.look_at_children(&mut room);
        }
    }

    /// Handles the events of the kernel's set.
    fn look_at_children(&mut self, room: &mut [u8]) {
        let mut events = [epoll_event { events: 0, u64: 0 }; EVENTS];
        // SAFETY: as much room as is said.
        let n = unsafe { real::epoll_wait(self.kernels, events.as_mut_ptr(), EVENTS as c_int, 0) };
        let events = &mut events[..usize::try_from(n).unwrap_or(0)];
        // What a child says is heard before the end of its socket.
        events.sort_by_key(|event| std::cmp::Reverse(event.u64));
        for event in events {
            let (word, bits) = (event.u64, event.events);
            match word {
                BELL => self.take_new(room),
                CHANNELS.. => self.answer((word - CHANNELS) as usize, room),
                KERNELS.. => self.on_kernels((word - KERNELS) as usize),
                at => {
                    if let Some(pump) = self.pumps.get_mut(at as usize).and_then(Option::as_mut) {
                        pump.on_child(bits);
                        self.step(at as usize, room);
                    }
                }
            }
        }
    }

    /// Takes the work that other threads have left.
    fn take_new(&mut self, room: &mut [u8]) {
        let (children, pumps) = {
            let mut all = new();
            let mut rings = 0_u64;
            // SAFETY: room for eight bytes.
            unsafe { real::read(all.bell, (&raw mut rings).cast::<c_void>(), 8) };
            all.has_begun();
            (std::mem::take(&mut all.children), std::mem::take(&mut all.pumps))
        };
        children.into_iter().for_each(|child| self.attend(child));
        pumps.into_iter().for_each(|pump| self.begin(pump, room));
        let asked = ASKED.load(Ordering::Acquire);
        if asked != MOVED.load(Ordering::Acquire) {
            for at in 0..self.pumps.len() {
                if let Some(pump) = &mut self.pumps[at] {
                    pump.on_child(libc::EPOLLIN as u32);
                    self.step(at, room);
                }
            }
            LEFT.store(self.pumps.iter().flatten().any(Pump::has_rest), Ordering::Release);
            MOVED.store(asked, Ordering::Release);
        }
    }

    /// Listens to one more child.
    fn attend(&mut self, child: Child) {
        let channel = child.channel;
        let at = place(&mut self.children, child);
        if let Err(Refused(errno)) = self.watch(channel, libc::EPOLLIN, CHANNELS + at as u64) {
            say(&format!("connections of a child are lost: error {errno}"));
            self.children[at] = None;
            self.unwatch(channel);
        }
    }

    /// Answers what a child has asked; more of it at the next look.
    fn answer(&mut self, at: usize, room: &mut [u8]) {
        for _ in 0..MESSAGES_MAX {
            let Some(child) = self.children.get_mut(at).and_then(Option::as_mut) else { return };
            let heard = child.hear();
            let hears = match heard {
                Heard::Nothing => return,
                Heard::Released => true,
                Heard::Gone => false,
                Heard::Take(held) => self.give(at, held, room),
                Heard::Share(channel, lent) => self.share(at, channel, lent),
                Heard::Question(question) => {
                    let given = child.taken.contains(&question.handle);
                    let about =
                        self.pumps.iter().flatten().find(|pump| given && pump.handle() == question.handle);
                    let listener = child.port.as_ref().filter(|port| port.listens).map(|port| port.below);
                    let listener = listener.filter(|_| question.handle == LISTENER);
                    question.answer(self.stack, listener.or(about.map(Pump::below)));
                    true
                }
                Heard::Again => self.look_again(at),
                Heard::End(handle) => {
                    let pumps = self.pumps.iter_mut().flatten().filter(|pump| pump.handle() == handle);
                    pumps.filter(|_| child.taken.contains(&handle)).for_each(Pump::on_end);
                    true
                }
                Heard::Port(wanted, proof) => self.open_port(at, proof, &wanted),
            };
            if !hears {
                self.dismiss(at);
            }
            self.forget_given();
        }
    }

    /// Lets go of a channel.
    fn dismiss(&mut self, at: usize) {
        if let Some(child) = self.children[at].take() {
            self.close_port(at, &child);
            self.unwatch(child.channel);
        }
    }

    /// Listens to a child of a child, or to a process that a child has handed the connection `lent`; returns true.
    fn share(&mut self, at: usize, channel: c_int, lent: Option<usize>) -> bool {
        let Some(child) = &self.children[at] else { return false };
        let mut other = child.shared(channel, lent);
        let root = other.root;
        if self.children.iter().flatten().filter(|child| child.root == root).count() > SHARES_MAX {
            say("a child has more children of its own than may have its connections: those are gone there");
            close(channel);
        } else {
            other.channel = threads::hidden(channel);
            self.attend(other);
        }
        true
    }

    /// Closes the ends that no child can ask for any more.
    fn forget_given(&mut self) {
        let children = &self.children;
        self.given.retain(|given| {
            let wanted = children.iter().flatten().any(|child| child.may_take(given.handle));
            if !wanted {
                table::remove_hidden(given.childs);
                close(given.childs);
            }
            wanted
        });
    }

    /// Gives a child one end of a pair, and relays the other; or the end that another child has got. Returns false if
    /// the child does not hear it: it is gone, or does not read its answers.
    fn give(&mut self, at: usize, held: Option<Held>, room: &mut [u8]) -> bool {
        let Some(child) = &mut self.children[at] else { return false };
        let channel = child.channel;
        let Some(held) = held else { return refuse(channel) };
        let handle = held.name();
        if let Some(given) = self.given.iter_mut().find(|given| given.handle == handle) {
            child.taken.push(handle);
            return send(channel, &mut given.names, given.childs, libc::MSG_DONTWAIT);
        }
        let Some([mine, childs]) = named_pair(self.stack, &held) else { return refuse(channel) };
        let mut names = raw_names(self.stack, &held);
        if !send(channel, &mut names, childs, libc::MSG_DONTWAIT) {
            close(childs);
            close(mine);
            return false;
        }
        child.taken.push(handle);
        self.given.push(Given { handle, names, childs: threads::hidden(childs) });
        self.begin(Pump::new(held, threads::hidden(mine)), room);
        true
    }

    /// Relays one more connection.
    fn begin(&mut self, pump: Pump, room: &mut [u8]) {
        let (fd, below) = (pump.fd(), pump.below());
        let at = place(&mut self.pumps, pump);
        let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        let ready = Ready::IN | Ready::OUT | Ready::RDHUP | Ready::EDGE;
        let event = EpollOp::Add(EpollEvent { ready, data: at as u64 });
        let watched = self.watch(fd, events, at as u64);
        let both = watched.and_then(|()| {
            self.stack.runner.epoll_ctl_as(self.below, below, at as Fd, event).map_err(Refused::from)
        });
        match both {
            Ok(()) => self.step(at, room),
            Err(Refused(errno)) => {
                say(&format!("a connection of a child is lost: error {errno}"));
                self.end(at);
            }
        }
    }

    fn step(&mut self, at: usize, room: &mut [u8]) {
        let goes_on = self.pumps[at].as_mut().is_none_or(|pump| pump.step(self.stack, room));
        if !goes_on {
            self.end(at);
        }
    }

    fn end(&mut self, at: usize) {
        let Some(pump) = self.pumps[at].take() else { return };
        // It may be in neither set.
        let _ = self.stack.runner.epoll_ctl_as(self.below, pump.below(), at as Fd, EpollOp::Delete);
        self.unwatch(pump.fd());
        // The name may be another connection's from now on.
        if !self.pumps.iter().flatten().any(|other| other.handle() == pump.handle()) {
            self.children
                .iter_mut()
                .flatten()
                .for_each(|child| child.taken.retain(|name| *name != pump.handle()));
        }
    }
}

/// Message of a child.
enum Heard {
    /// None now.
    Nothing,
    /// The child is gone, or says what it cannot.
    Gone,
    /// It has let go of a connection.
    Released,
    /// It wants a connection; none is left of that name.
    Take(Option<Held>),
    /// A child of its own has the other end of this, or another process that it has handed this connection.
    Share(c_int, Option<usize>),
    /// It wants its kernel socket to listen or to connect on the stack.
    Port(Wanted, c_int),
    Question(Question),
    /// It has accepted a connection of the kernel's.
    Again,
    /// It ends what it sends over a connection.
    End(usize),
}

impl Child {
    /// Receives what the child says next.
    fn hear(&mut self) -> Heard {
        let mut bytes = Vec::new();
        let with = match hear_child(self.channel, &mut bytes) {
            None => return Heard::Gone,
            Some(None) => return Heard::Nothing,
            Some(Some(with)) => with,
        };
        if with != NONE && !is_channel(with) {
            if let Some(wanted) = Wanted::read(&bytes).filter(|_| self.may_open(with)) {
                return Heard::Port(wanted, with);
            }
            discard(with);
            return Heard::Gone;
        }
        if with != NONE
            && let Some(question) = Question::read(&bytes, with)
        {
            return Heard::Question(question);
        }
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        let (request, handle) = if bytes.len() == REQUEST { (word(0), word(8)) } else { (0, 0) };
        if [Request::Share as u64, Request::Lend as u64].contains(&request) && with != NONE {
            return Heard::Share(with, (request == Request::Lend as u64).then_some(handle as usize));
        }
        close(with);
        let which = self.streams.iter().position(|held| held.name() as u64 == handle);
        let held = which.map(|which| self.streams.swap_remove(which));
        match request {
            request if request == Request::Take as u64 => Heard::Take(held),
            request if request == Request::Release as u64 => Heard::Released,
            request if request == Request::Again as u64 => Heard::Again,
            request if request == Request::End as u64 => Heard::End(handle as usize),
            _ => Heard::Gone,
        }
    }

    /// A child of its own, which may ask for what it may still ask for, or a process that it has handed the connection
    /// `lent`, which may ask for the options of that.
    fn shared(&self, channel: c_int, lent: Option<usize>) -> Child {
        let mut taken = self.taken.clone();
        taken.retain(|handle| lent == Some(*handle));
        let streams = if lent.is_none() { self.streams.clone() } else { Vec::new() };
        Child { channel, streams, taken, root: self.root, port: None }
    }

    /// Whether a socket may be opened by way of this channel: one, on a channel that the child has made for it.
    fn may_open(&self, with: c_int) -> bool {
        self.channel != self.root && self.port.is_none() && self.streams.is_empty() && kernel::is_tcp(with)
    }

    /// Whether it may ask for this connection.
    fn may_take(&self, handle: usize) -> bool {
        self.streams.iter().any(|held| held.name() == handle)
    }
}
