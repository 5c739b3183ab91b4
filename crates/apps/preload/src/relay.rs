//! Connections that a child has inherited. They stay on the parent's stack; a child that uses one asks the parent
//! for it, over a channel that the fork has made, and gets one end of a UNIX socket pair under the same number,
//! across exec too. A thread of the parent carries octets between that and the connection.

use crate::boundary::{Refused, errno, inside, say};
use crate::description::{Description, Kind, NONE};
use crate::hooks::real;
use crate::pump::Pump;
use crate::sleep::{beside, input};
use crate::stack::{self, Stack};
use crate::table::{self, Held};
use crate::threads;
use libc::{c_int, c_void, iovec, msghdr, pollfd, ssize_t};
use sock::{Errno, Sockets, address};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// This process's way to its parent.
static CHANNEL: AtomicI32 = AtomicI32::new(NONE);

/// What a child asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
enum Wish {
    /// The connection, to use it.
    Take = 1,
    /// It has let go of it.
    Release = 2,
}

/// Octets of a wish (which, and of what), and of the names that answer it: our end and the peer's.
const WISH: usize = 16;
const NAME: usize = 28;

/// What a fork leaves to the child.
pub(crate) struct Heirs {
    parents: c_int,
    childs: c_int,
    streams: Vec<Held>,
}

impl Heirs {
    /// A channel about these connections; `None` if there are none, or no descriptors: then the child finds them gone.
    pub(crate) fn of(streams: &[Held]) -> Option<Heirs> {
        if streams.is_empty() {
            return None;
        }
        let [parents, childs] = pair(libc::SOCK_SEQPACKET)?;
        Some(Heirs { parents, childs, streams: streams.to_vec() })
    }
}

pub(crate) fn pair(kind: c_int) -> Option<[c_int; 2]> {
    let mut ends = [NONE; 2];
    // SAFETY: room for two.
    let done = unsafe { libc::socketpair(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) };
    (done == 0).then_some(ends)
}

fn close(fd: c_int) {
    // SAFETY: a descriptor of ours.
    unsafe { real::close(fd) };
}

// --- the child -------------------------------------------------------------------------------------------------------

/// The child keeps its end.
pub(crate) fn inherit(heirs: Option<Heirs>) {
    let Some(heirs) = heirs else { return };
    close(heirs.parents);
    let before = CHANNEL.swap(threads::hidden(heirs.childs), Ordering::AcqRel);
    if before != NONE {
        table::remove_hidden(before);
        close(before);
    }
}

/// The channel, which a fork in this process must not sweep away.
pub(crate) fn channel() -> c_int {
    CHANNEL.load(Ordering::Acquire)
}

fn wish(wish: Wish, held: &Description) -> [u8; WISH] {
    let mut octets = [0; WISH];
    octets[..8].copy_from_slice(&(wish as u64).to_ne_bytes());
    octets[8..].copy_from_slice(&(held.name() as u64).to_ne_bytes());
    octets
}

fn ask(octets: &[u8]) -> bool {
    // SAFETY: as many octets as are there.
    let sent =
        unsafe { real::send(channel(), octets.as_ptr().cast::<c_void>(), octets.len(), libc::MSG_NOSIGNAL) };
    sent == octets.len() as ssize_t
}

/// The child has closed its last number of a connection that it never used.
pub(crate) fn release(held: &Description) {
    // The parent may be gone, and the connection with it.
    ask(&wish(Wish::Release, held));
}

/// The child uses the connection: from now on its numbers stand for a socket that the parent relays.
pub(crate) fn settle(held: &Held) -> Result<(), Refused> {
    static ONE: Mutex<()> = Mutex::new(());
    if held.kind() != Kind::Inherited {
        return Ok(());
    }
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if held.kind() != Kind::Inherited {
        return Ok(());
    }
    // Whoever outlives the stack under its connection has lost it.
    let gone = Refused(libc::ECONNRESET);
    if !ask(&wish(Wish::Take, held)) {
        return Err(gone);
    }
    let mut names = [0; 2 * NAME];
    let new = receive(channel(), &mut names).ok_or(gone)?;
    // SAFETY: numbers alone.
    unsafe {
        if held.is_nonblocking() {
            real::fcntl(new, libc::F_SETFL, libc::O_NONBLOCK.into());
        }
        let (ours, _) = table::all();
        for fd in ours.into_iter().filter(|fd| table::ours(*fd).is_some_and(|other| other.is(held))) {
            let cloexec = real::fcntl(fd, libc::F_GETFD, 0) & libc::FD_CLOEXEC != 0;
            real::dup3(new, fd, if cloexec { libc::O_CLOEXEC } else { 0 });
        }
    }
    close(new);
    let len = if held.is_v6() { NAME } else { 16 };
    held.more().names = Some((names[..len].to_vec(), names[NAME..NAME + len].to_vec()));
    held.set_kind(Kind::Relayed);
    Ok(())
}

/// Before another program takes this process over: what it will have is a socket by then.
pub(crate) fn settle_for_exec() {
    if channel() == NONE {
        return;
    }
    let (ours, _) = table::all();
    for fd in ours {
        // SAFETY: numbers alone.
        let stays = || unsafe { real::fcntl(fd, libc::F_GETFD, 0) } & libc::FD_CLOEXEC == 0;
        if let Some(held) = table::ours(fd).filter(|held| held.kind() == Kind::Inherited && stays()) {
            // The program finds the connection gone.
            let _ = settle(&held);
        }
    }
}

/// A descriptor and what comes with it.
fn receive(channel: c_int, into: &mut [u8]) -> Option<c_int> {
    let mut control = [0_u64; 4];
    let mut part = iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: zeroes are a msghdr, and everything that it points to lives in this frame.
    unsafe {
        let mut message: msghdr = MaybeUninit::zeroed().assume_init();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        loop {
            match real::recvmsg(channel, &raw mut message, libc::MSG_CMSG_CLOEXEC) {
                -1 if errno() == libc::EINTR => {}
                got if got == into.len() as ssize_t => break,
                _ => return None,
            }
        }
        let header = libc::CMSG_FIRSTHDR(&raw const message).as_ref()?;
        (header.cmsg_type == libc::SCM_RIGHTS)
            .then(|| libc::CMSG_DATA(header).cast::<c_int>().read_unaligned())
    }
}

// --- the parent ------------------------------------------------------------------------------------------------------

/// A child, and the connections that it may ask for.
struct Child {
    channel: c_int,
    streams: Vec<Held>,
}

/// What the thread has not seen yet.
struct New {
    children: Vec<Child>,
    pumps: Vec<Pump>,
    /// What it sleeps on.
    bell: c_int,
}

static NEW: Mutex<New> = Mutex::new(New { children: Vec::new(), pumps: Vec::new(), bell: NONE });

/// What the thread has not seen, held by who forks.
pub(crate) struct Quiet {
    _new: MutexGuard<'static, New>,
}

/// Nobody tells the thread anything meanwhile. `None` if somebody does, and that is not to be waited for.
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
        let child = Child { channel: threads::hidden(heirs.parents), streams: heirs.streams };
        let mut all = new();
        all.children.push(child);
        all.wake();
    });
}

/// Relays these, too.
pub(crate) fn pump(mut pumps: Vec<Pump>) {
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
            let thread = std::thread::Builder::new().name("millstream-relay".into());
            if let Err(e) = thread.spawn(run) {
                say(&format!("connections of a child are lost: {e}"));
            }
        }
        let one = 1_u64;
        // SAFETY: eight octets.
        unsafe { real::write(self.bell, (&raw const one).cast::<c_void>(), 8) };
    }
}

/// The process is a child: what its parent served is the parent's.
pub(crate) fn forked() {
    // It can only be held by the call that was interrupted, which is the parent's business.
    let Ok(mut all) = NEW.try_lock() else { return };
    // Their connections are not this process's to let go of.
    std::mem::forget((std::mem::take(&mut all.children), std::mem::take(&mut all.pumps)));
    all.bell = NONE;
}

fn run() {
    let (mut children, mut pumps): (Vec<Child>, Vec<Pump>) = (Vec::new(), Vec::new());
    let Some(stack) = stack::opened() else { return };
    loop {
        let bell = {
            let mut all = new();
            children.append(&mut all.children);
            pumps.append(&mut all.pumps);
            let mut rings = 0_u64;
            // SAFETY: room for eight octets.
            unsafe { real::read(all.bell, (&raw mut rings).cast::<c_void>(), 8) };
            all.bell
        };
        pumps.retain_mut(|pump| pump.step(stack));
        let mut rows: Vec<pollfd> = vec![input(bell)];
        rows.extend(children.iter().map(|child| input(child.channel)));
        rows.extend(pumps.iter().map(Pump::row));
        let own = rows.len();
        let mut ours: Vec<_> = pumps.iter().filter_map(Pump::row_below).collect();
        let wait = stack.hosted.wait_beside(
            None,
            None,
            &mut |fds, left| beside(&mut rows, own, fds, left, null(), true),
            &mut |engine| match engine.poll(&mut ours) {
                0 => Err(Errno::EAGAIN),
                n => Ok(n),
            },
        );
        let _ = wait;
        for (pump, row) in pumps.iter_mut().zip(&rows[1 + children.len()..]) {
            pump.note(row.revents);
        }
        children.retain_mut(|child| child.answer(stack, &mut pumps));
    }
}

impl Child {
    /// Answers what the child has asked; false when it is gone.
    fn answer(&mut self, stack: &Stack, pumps: &mut Vec<Pump>) -> bool {
        loop {
            let mut octets = [0_u8; WISH];
            // SAFETY: as much room as is said.
            let got = unsafe {
                real::recv(self.channel, octets.as_mut_ptr().cast::<c_void>(), WISH, libc::MSG_DONTWAIT)
            };
            if got < 0 && matches!(errno(), libc::EAGAIN | libc::EINTR) {
                return true;
            }
            if got != WISH as ssize_t {
                table::remove_hidden(self.channel);
                close(self.channel);
                return false;
            }
            let word = |at: usize| u64::from_ne_bytes(octets[at..at + 8].try_into().unwrap_or_default());
            let which = self.streams.iter().position(|held| held.name() as u64 == word(8));
            let Some(held) = which.map(|which| self.streams.swap_remove(which)) else { continue };
            if word(0) == Wish::Take as u64
                && let Some(pump) = self.give(stack, held)
            {
                pumps.push(pump);
            }
        }
    }

    /// Gives the child one end of a pair; the pump for the other.
    fn give(&self, stack: &Stack, held: Held) -> Option<Pump> {
        let [mine, childs] = pair(libc::SOCK_STREAM)?;
        let mut names = [0; 2 * NAME];
        let ends = [stack.hosted.local_addr(held.below()), stack.hosted.peer_addr(held.below())];
        for (at, end) in ends.into_iter().enumerate() {
            let octets = end.map(|end| address::write(end, held.is_v6())).unwrap_or_default();
            names[at * NAME..at * NAME + octets.len()].copy_from_slice(&octets);
        }
        let given = send(self.channel, &mut names, childs);
        close(childs);
        if !given {
            close(mine);
            return None;
        }
        Some(Pump::new(held, threads::hidden(mine)))
    }
}

/// Sends octets and a descriptor with them.
fn send(channel: c_int, octets: &mut [u8], fd: c_int) -> bool {
    let mut control = [0_u64; 4];
    let mut part = iovec { iov_base: octets.as_mut_ptr().cast(), iov_len: octets.len() };
    // SAFETY: zeroes are a msghdr; everything that it points to lives in this frame, with room for one descriptor.
    unsafe {
        let mut message: msghdr = MaybeUninit::zeroed().assume_init();
        (message.msg_name, message.msg_iov, message.msg_iovlen) = (null_mut(), &raw mut part, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as usize;
        let Some(header) = libc::CMSG_FIRSTHDR(&raw const message).as_mut() else { return false };
        header.cmsg_level = libc::SOL_SOCKET;
        header.cmsg_type = libc::SCM_RIGHTS;
        header.cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as usize;
        libc::CMSG_DATA(header).cast::<c_int>().write_unaligned(fd);
        real::sendmsg(channel, &raw const message, libc::MSG_NOSIGNAL) == octets.len() as ssize_t
    }
}
