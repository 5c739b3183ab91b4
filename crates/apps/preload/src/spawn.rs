//! posix_spawn. The C library makes the child without a fork that could be noticed. So a connection that the child is
//! to have by its file actions is made a socket of the kernel's for as long as that takes, one end of a pair of UNIX
//! sockets under the connection's number; the other end is relayed, as a fork's children's are. The same is done with
//! numbers 0 to 2, and with all that the child inherits where its program is not launched. Other connections that are
//! open across exec a launched program takes when it uses them, as after a fork.

use crate::boundary::inside;
use crate::calls::List;
use crate::description::{Kind, NONE, Relayed};
use crate::exec;
use crate::pump::Pump;
use crate::real;
use crate::table::{self, Held};
use crate::{heritage, relay, stack, threads};
use libc::{c_char, c_int, pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most numbers that are kept for file actions; beyond that the child finds its connection gone.
const NAMED_MAX: usize = 4_096;

/// Connections that file actions give to children: where the actions lie, and the number.
static NAMED: Mutex<Vec<(usize, c_int)>> = Mutex::new(Vec::new());

fn named() -> MutexGuard<'static, Vec<(usize, c_int)>> {
    NAMED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn connection(fd: c_int) -> Option<Held> {
    table::ours(fd).filter(|held| matches!(held.kind(), Kind::Stream | Kind::Inherited))
}

/// # Safety
/// C's contract of posix_spawn_file_actions_init(3).
pub(crate) unsafe fn init(actions: *mut posix_spawn_file_actions_t) -> c_int {
    named().retain(|(of, _)| *of != actions.addr());
    // SAFETY: the caller's argument.
    unsafe { real::posix_spawn_file_actions_init(actions) }
}

/// # Safety
/// C's contract of posix_spawn_file_actions_destroy(3).
pub(crate) unsafe fn destroy(actions: *mut posix_spawn_file_actions_t) -> c_int {
    named().retain(|(of, _)| *of != actions.addr());
    // SAFETY: the caller's argument.
    unsafe { real::posix_spawn_file_actions_destroy(actions) }
}

/// # Safety
/// C's contract of posix_spawn_file_actions_adddup2(3).
pub(crate) unsafe fn adddup2(actions: *mut posix_spawn_file_actions_t, from: c_int, to: c_int) -> c_int {
    // SAFETY: the caller's arguments.
    let failed = unsafe { real::posix_spawn_file_actions_adddup2(actions, from, to) };
    let row = (actions.addr(), from);
    let mut named = named();
    if failed == 0 && connection(from).is_some() && !named.contains(&row) && named.len() < NAMED_MAX {
        named.push(row);
    }
    failed
}

pub(crate) unsafe fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    arguments: List,
    environment: List,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        launching(path, actions, environment, |environment| {
            real::posix_spawn(pid, path, actions, attributes, arguments, environment)
        })
    }
}

pub(crate) unsafe fn posix_spawnp(
    pid: *mut pid_t,
    file: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    arguments: List,
    environment: List,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        launching(file, actions, environment, |environment| {
            real::posix_spawnp(pid, file, actions, attributes, arguments, environment)
        })
    }
}

/// Spawns a program that is launched too, with what the actions name of connections.
///
/// # Safety
/// C's contract of posix_spawn(3) for what it is given.
unsafe fn launching(
    program: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    environment: List,
    spawn: impl FnOnce(List) -> c_int,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        if !exec::prepare(program) {
            return libc::EACCES;
        }
        if stack::settings().is_none() {
            return spawn(environment);
        }
        let all = !exec::is_launched_file(program) || !exec::is_launched(environment);
        lending(actions, all, |lent| {
            spawn(exec::Environment::with(environment, heritage::entry(lent)).list())
        })
    }
}

/// A connection's number, which stands for a socket of the kernel's in the kernel for now.
struct Lent {
    held: Held,
    fd: c_int,
    cloexec: c_int,
    /// Meaning of the number otherwise.
    usual: c_int,
    /// The end that is relayed.
    mine: c_int,
}

/// Connections that are open across exec, by their numbers.
fn inherited() -> Vec<(c_int, Held)> {
    // SAFETY: numbers alone.
    let stays = |fd: &c_int| unsafe { real::fcntl(*fd, libc::F_GETFD, 0) } & libc::FD_CLOEXEC == 0;
    let numbers = table::all().0.into_iter().filter(stays);
    numbers.filter_map(|fd| connection(fd).map(|held| (fd, held))).collect()
}

/// Spawns while the child's connections are lent: those that the actions name, numbers 0 to 2, and `all` that it
/// inherits. Returns 0 or an error number.
fn lending(
    actions: *const posix_spawn_file_actions_t,
    all: bool,
    spawn: impl FnOnce(Vec<heritage::Record>) -> c_int,
) -> c_int {
    let of_actions = |of: usize| !actions.is_null() && of == actions.addr();
    let mut wanted: Vec<c_int> =
        named().iter().filter(|(of, _)| of_actions(*of)).map(|(_, fd)| *fd).collect();
    let mut later = inherited();
    later.retain(|(fd, _)| {
        let now = all || *fd <= libc::STDERR_FILENO;
        if now && !wanted.contains(fd) {
            wanted.push(*fd);
        }
        !now && !wanted.contains(fd)
    });
    // What a parent of this process has is told of by `heritage::entry`.
    later.retain(|(_, held)| held.kind() == Kind::Stream);
    if wanted.is_empty() && later.is_empty() {
        return spawn(Vec::new());
    }
    inside(|| {
        let lent: Vec<Lent> = wanted.into_iter().filter_map(lend).collect();
        // The child asks over this for what it takes later, wants to know or sets.
        let mut streams: Vec<Held> = later.iter().map(|(_, held)| held.clone()).collect();
        streams.sort_by_key(|held| held.name());
        streams.dedup_by_key(|held| held.name());
        let taken = lent.iter().map(|lent| lent.held.name()).collect();
        let none = lent.is_empty() && streams.is_empty();
        let heirs = if none { None } else { relay::Heirs::of_spawned(streams, taken) };
        let channel = heirs.as_ref().map_or(NONE, relay::Heirs::childs);
        let mut records: Vec<_> = lent.iter().filter_map(|lent| lent.record(channel)).collect();
        if channel != NONE {
            let taken_later = |(fd, held): &(c_int, Held)| heritage::Record::taken_later(*fd, held, channel);
            records.extend(later.iter().filter_map(taken_later));
        }
        if !none {
            relay::begin_thread();
        }
        let failed = spawn(records);
        if let Some(heirs) = heirs {
            relay::serve(heirs);
        }
        let pumps = lent.into_iter().filter_map(|lent| take_back(lent, failed == 0)).collect();
        relay::begin(pumps);
        failed
    })
}

impl Lent {
    /// Returns what the child is told of it.
    fn record(&self, channel: c_int) -> Option<heritage::Record> {
        let stack = stack::opened()?;
        let (own, peer) = relay::names_of(stack, &self.held);
        let relayed = Relayed { handle: self.held.name(), channel };
        heritage::Record::relayed(self.fd, self.held.is_v6(), relayed, (own, peer))
    }
}

fn lend(fd: c_int) -> Option<Lent> {
    let held = connection(fd)?;
    if held.kind() == Kind::Inherited {
        // From now on it is a socket of the kernel's anyway. If the parent is gone, so is the connection.
        let _ = relay::settle(&held);
        return None;
    }
    let [mine, childs] = relay::named_pair(stack::opened()?, &held)?;
    // SAFETY: numbers alone.
    unsafe {
        if held.is_nonblocking() {
            real::fcntl(childs, libc::F_SETFL, libc::O_NONBLOCK.into());
        }
        let on = real::fcntl(fd, libc::F_GETFD, 0) & libc::FD_CLOEXEC != 0;
        let cloexec = if on { libc::O_CLOEXEC } else { 0 };
        let usual = real::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0);
        if usual < 0 {
            real::close(mine);
        } else {
            real::dup3(childs, fd, cloexec);
        }
        real::close(childs);
        (usual >= 0).then_some(Lent { held, fd, cloexec, usual, mine })
    }
}

/// The number stands for what it did before; if the child was made, what its end is relayed by.
fn take_back(lent: Lent, made: bool) -> Option<Pump> {
    // SAFETY: numbers alone, of descriptors that no other thread knows but the first.
    unsafe {
        real::dup3(lent.usual, lent.fd, lent.cloexec);
        real::close(lent.usual);
        if !made {
            real::close(lent.mine);
            return None;
        }
    }
    Some(Pump::new(lent.held, threads::hidden(lent.mine)))
}
