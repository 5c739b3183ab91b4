//! The moment at which a child uses what it has inherited: a connection, or a listener that it cannot have on its own.
//! From then on the numbers stand for a socket by which the parent acts for it.

use super::ask::{both_names, is_whole, request, tell};
use super::{NAME, Request, channel, close, handle, ports, receive};
use crate::boundary::{Outcome, Refused};
use crate::description::{Kind, NONE, Relayed};
use crate::real;
use crate::table::{self, Held};
use libc::c_int;
use std::sync::{Mutex, PoisonError};

/// Runs `change` if `is_due`, in one thread at a time.
fn once(is_due: impl Fn() -> bool, change: impl FnOnce() -> Outcome<()>) -> Outcome<()> {
    static ONE: Mutex<()> = Mutex::new(());
    if !is_due() {
        return Ok(());
    }
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if is_due() { change() } else { Ok(()) }
}

/// The child uses the connection: from now on its numbers stand for a socket that the parent relays.
pub(crate) fn settle(held: &Held) -> Outcome<()> {
    once(|| held.kind() == Kind::Inherited, || take(held))
}

/// As [`settle`], for a call that waits for what the number stands for, or accepts from it: that settles a listener,
/// too.
pub(crate) fn settle_to_wait(held: &Held, fd: c_int) -> Outcome<()> {
    settle(held)?;
    once(|| ports::is_parents(held), || ports::listen_again(held, fd))
}

/// Takes the connection from the parent.
fn take(held: &Held) -> Outcome<()> {
    // A thread that outlives the stack under its connection has lost it.
    let gone = Refused(libc::ECONNRESET);
    if !tell(channel(), &request(Request::Take, held)) {
        return Err(gone);
    }
    let mut names = [0; 2 * NAME];
    let (got, new) = receive(channel(), &mut names, 0);
    let new = new.filter(|_| is_whole(got, 2 * NAME)).ok_or(gone)?;
    // SAFETY: numbers alone.
    unsafe {
        if held.is_nonblocking() {
            real::fcntl(new, libc::F_SETFL, libc::O_NONBLOCK.into());
        }
    }
    table::put_under(held, new);
    close(new);
    let relayed = Relayed { handle: handle(held), channel: channel() };
    let mut more = held.more();
    more.names = Some(both_names(&names, held.is_v6()));
    more.relayed = Some(relayed);
    drop(more);
    held.set_kind(Kind::Relayed);
    Ok(())
}

/// Takes connections before another program has this process. Standard input, output and error must be sockets by then,
/// and `all` of them where that program is not launched. A launched program takes the others when it uses them:
/// until then the parent, which may go on with the connection, gets what comes.
pub(crate) fn settle_for_exec(all: bool) {
    if channel() == NONE {
        return;
    }
    let (ours, _) = table::all();
    for fd in ours.into_iter().filter(|fd| all || *fd <= libc::STDERR_FILENO) {
        // SAFETY: numbers alone.
        let stays = || unsafe { real::fcntl(fd, libc::F_GETFD, 0) } & libc::FD_CLOEXEC == 0;
        if let Some(held) = table::ours(fd).filter(|held| held.kind() == Kind::Inherited && stays()) {
            // The program finds the connection gone.
            let _ = settle(&held);
        }
    }
}

/// Takes what an exec has handed on before a fork: parent and child share one socket of it.
pub(crate) fn settle_for_fork() {
    if channel() == NONE {
        return;
    }
    for held in table::all().0.into_iter().filter_map(table::ours) {
        if held.kind() == Kind::Inherited && held.more().relayed.is_some() {
            // Both find the connection gone.
            let _ = settle(&held);
        }
    }
}
