//! Listeners on the stack. One listens on the kernel's loopback from the beginning, and on the stack from when the
//! program asks for its connections; of those that several processes have, each has a role.

use crate::boundary::Refused;
use crate::description::{Family, Kind, More, NONE};
use crate::stack::{self, Stack};
use crate::table::{self, Held};
use crate::{kernel, limit, report, stored, threads};
use libc::c_int;
use sock::address::{self, Named};
use sock::{Errno, Role, Sockets};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// This process, or one that it was copied from, has given up root with listeners on the stack.
pub(crate) static LISTENED_AS_ROOT: AtomicBool = AtomicBool::new(false);

/// Returns true if the ports of this process's first listeners, or of those that it has inherited, were taken as root,
/// which it is no more: the kernel lets no other user share them.
pub(crate) fn listened_as_root() -> bool {
    // SAFETY: takes nothing.
    LISTENED_AS_ROOT.load(Ordering::Relaxed) && unsafe { libc::geteuid() } != 0
}

/// A listener listens on the stack, too, and its connections are asked for; its descriptor there.
pub(crate) fn listen_below(stack: &Stack, held: &Held, fd: c_int) -> Result<c_int, Refused> {
    let below = claim_below(stack, held, fd)?;
    if !held.has_asked() {
        held.set_asked(true);
        stack.runner.park(below, false)?;
    }
    if held.family() == Family::Servant {
        stack.runner.set_role(below, Role::Asking)?;
    }
    Ok(below)
}

/// This process accepts from the listener: from now on it is no master that leaves that to others.
pub(crate) fn accepts(stack: &Stack, held: &Held, below: c_int) -> Result<(), Refused> {
    held.set_accepts();
    if held.family() == Family::Master {
        held.set_family(Family::First);
        stack.runner.set_role(below, Role::Peer)?;
    }
    Ok(())
}

/// A child has accepted a connection: the others are its master's and other children's until it asks again. Returns
/// true if its epoll sets have to.
pub(crate) fn has_accepted(stack: &Stack, held: &Held, below: c_int) -> bool {
    let serves = held.family() == Family::Servant;
    if serves {
        // It fails for what another thread has closed meanwhile.
        let _ = stack.runner.set_role(below, Role::Servant);
    }
    serves
}

/// Returns true for a listener that was shut: the kernel tells what there is to be told of it.
pub(crate) fn was_shut(held: &Held, fd: c_int) -> bool {
    !held.has_asked() && kernel::number(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Some(0)
}

/// From a fork on the connections of a listener are the children's alone, if this process has not asked for any, until
/// it asks: it would keep those that come to its stack waiting. One that has only polled, as the master of servers that
/// run for a connection does, gives those that wait to children that ask.
pub(crate) fn leave_to_children(held: &Held) {
    let Some(stack) = stack::opened().filter(|_| held.below() != NONE) else { return };
    // Either fails for what does not listen.
    if !held.has_asked() {
        let _ = stack.runner.park(held.below(), true);
    } else if held.family() == Family::First && !held.accepts() {
        held.set_family(Family::Master);
        let _ = stack.runner.set_role(held.below(), Role::Master);
    }
}

/// Tells of listeners of which the link's peers heard nothing but refusals: this process alone had them and never
/// asked for a connection, so no stack listened there.
pub(crate) fn tell_unasked() {
    for fd in table::all().0 {
        let alone = |held: &Held| held.kind() == Kind::Listener && held.below() == NONE && !held.is_shared();
        let Some(held) = table::ours(fd).filter(alone) else { continue };
        let Some(name) = programs_name(fd, &held.more()) else { continue };
        if !name.ip().to_canonical().is_loopback() {
            let why = "the program never called accept, poll or epoll_wait for it, so the link's connections \
                       were refused";
            report::fell_back(&format!("a listener at {name}"), why);
        }
    }
}

/// A listener listens on the stack, too; its descriptor there.
pub(crate) fn claim_below(stack: &Stack, held: &Held, fd: c_int) -> Result<c_int, Refused> {
    match held.below() {
        NONE => threads::undisturbed(|| begin_to_listen(stack, held, fd)),
        below => Ok(below),
    }
}

fn begin_to_listen(stack: &Stack, held: &Held, fd: c_int) -> Result<c_int, Refused> {
    let more = held.more();
    if held.below() != NONE {
        return Ok(held.below());
    }
    let name = programs_name(fd, &more).ok_or(Refused(libc::EINVAL))?;
    let below = stack.runner.socket(if held.is_v6() { sock::Family::V6 } else { sock::Family::V4 })?;
    let begun = (|| {
        stored::set_again(stack, below, &more.stored_options)?;
        listen_as(stack, below, name, more.backlog)
    })();
    if let Err(errno) = begun {
        stack::close(below);
        return Err(errno.into());
    }
    // They are kept: a child, and a program that it runs, listen there anew.
    held.set_below(below);
    Ok(below)
}

/// A socket of the stack listens at `name`, where it may be bound already.
pub(crate) fn listen_as(stack: &Stack, below: c_int, name: SocketAddr, backlog: c_int) -> Result<(), Errno> {
    let is_bound = stack.runner.apart(below).flatten().is_some();
    // Who waits for it waits for the kernel's loopback, too.
    stack.runner.set_nonblocking(below, true)?;
    // What keeps the port from other processes has descriptors of its own.
    let listen = || limit::beyond(|| stack.runner.listen(below, backlog_of(backlog)));
    if is_bound {
        // It shares its port as it was bound.
        listen()?;
    } else {
        // Others of this launch listen there too: a child where its parent does, on a stack of its own or on the
        // parent's, and a worker beside the others. Whether the port is free for them the kernel has said. Connections
        // have what the program has set.
        with_option(stack, below, libc::SO_REUSEPORT, || {
            limit::beyond(|| bind_below(stack, below, name))?;
            listen()
        })?;
    }
    report::listens(&name.to_string());
    Ok(())
}

/// A socket of the stack gets the name that the kernel's has: whether that is free the kernel has said. Connections of
/// the stack that chose the same port, alive or in TIME-WAIT, are no obstacle, as they would be without SO_REUSEADDR.
pub(crate) fn bind_below(stack: &Stack, below: c_int, name: SocketAddr) -> Result<(), Errno> {
    with_option(stack, below, libc::SO_REUSEADDR, || stack.runner.bind(below, name.into()))
}

/// Sets an option for as long as `act` takes, and then what the program has set again.
fn with_option(
    stack: &Stack,
    below: c_int,
    option: c_int,
    act: impl FnOnce() -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut wanted = [0; 4];
    stack.runner.getsockopt(below, libc::SOL_SOCKET, option, &mut wanted)?;
    stack.runner.setsockopt(below, libc::SOL_SOCKET, option, &1_i32.to_ne_bytes())?;
    act()?;
    stack.runner.setsockopt(below, libc::SOL_SOCKET, option, &wanted)
}

/// As on Linux, what is negative is as much as there may be.
pub(crate) fn backlog_of(backlog: c_int) -> u32 {
    u32::try_from(backlog).unwrap_or(u32::MAX)
}

/// Returns the address to which the program has bound its socket.
pub(crate) fn programs_name(fd: c_int, more: &More) -> Option<SocketAddr> {
    match more.names.as_ref().map(|(own, _)| address::read(own)) {
        Some(Ok(Named::At(own))) => Some(own.into()),
        _ => kernel::name(fd),
    }
}
