//! Ports of a child that can open no stack: it has changed its root directory, or has given up what opening takes. The
//! process that has its inherited connections listens, accepts and connects for it, over a channel of its own for each
//! socket.
//!
//! The kernel decides about the port: the child binds its own kernel socket, and listens with it, and hands it over as
//! proof. What is not proven is refused, so no right is added. That process keeps the kernel's socket for as long as
//! the child has the channel, so the port stays taken.

use super::ask::{HEAD, discard};
use super::{Child, NAME, REQUEST, Relay, Request, begin_channel, both_names, channel, raw_names};
use super::{close, is_whole, lend_of, named_pair, receive, receive_once, send};
use crate::boundary::{Outcome, Refused, errno, inside};
use crate::description::{Description, Family as Kin, Kind, Lent, NONE, Relayed};
use crate::pump::Pump;
use crate::real;
use crate::table::{self, Held};
use crate::{kernel, listener, report, stack, stored, threads};
use libc::{c_int, c_void, epoll_event, pollfd, sockaddr, socklen_t};
use sock::address::{self, Named};
use sock::{EpollEvent, EpollOp, Errno, Family, Fd, Ready, Sockets};
use std::io::Error;
use std::net::SocketAddr;

/// The name of a channel's own listener.
pub(super) const LISTENER: usize = 0;
/// Where the events of such channels begin.
pub(super) const PORTS: usize = 1 << 24;
/// As before, events of the kernel's part of a listener.
pub(super) const KERNELS: u64 = 1 << 25;
/// Most connections that exist by way of one of this process's own channels.
const CONNECTIONS_MAX: usize = 1024;
/// Connections of a listener that are accepted before the thread looks at others.
const ACCEPTS_MAX: usize = 64;
/// Option of a socket that tells its network namespace.
const SO_NETNS_COOKIE: c_int = 71;

/// Bytes of an answer: the error's number or 0, the connection's name, and both ends. A descriptor comes with it.
const ANSWER: usize = 16 + 2 * NAME;

// --- the child -------------------------------------------------------------------------------------------------------

/// Message of the process that acts for this one.
struct Answer {
    handle: usize,
    names: [u8; 2 * NAME],
    /// A connection's socket.
    fd: Option<c_int>,
}

impl Answer {
    /// Reads a message of `got` bytes, or the error in it.
    fn read(bytes: &[u8; ANSWER], got: isize, fd: Option<c_int>) -> Result<Answer, Refused> {
        if !is_whole(got, ANSWER) {
            close(fd.unwrap_or(NONE));
            return Err(Refused(libc::ENETDOWN));
        }
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        match word(0) as c_int {
            0 => {
                let names = bytes[16..].try_into().unwrap_or([0; 2 * NAME]);
                Ok(Answer { handle: word(8) as usize, names, fd })
            }
            errno => Err(Refused(errno)),
        }
    }
}

/// Asks for what a kernel socket of this process is to become; the channel, and the answer.
fn ask(fd: c_int, request: Request, word: u64, to: &[u8]) -> Result<(c_int, Answer), Refused> {
    let gone = Refused(libc::ENETDOWN);
    let mine = begin_channel(channel(), LISTENER).ok_or(Refused(libc::ENOBUFS))?;
    let mut bytes = [&(request as u64).to_ne_bytes()[..], &word.to_ne_bytes(), to].concat();
    let mut answer = [0; ANSWER];
    let answered = (|| {
        if !send(mine, &mut bytes, fd, 0) {
            return Err(gone);
        }
        let mut row = pollfd { fd: mine, events: libc::POLLIN, revents: 0 };
        // SAFETY: a row of this frame's.
        if unsafe { real::poll(&raw mut row, 1, -1) } < 0 {
            // What was asked for ends with the channel.
            return Err(Refused(errno()));
        }
        let (got, fd) = receive(mine, &mut answer, 0);
        Answer::read(&answer, got, fd)
    })();
    match answered {
        Ok(answer) => Ok((mine, answer)),
        Err(refused) => {
            close(mine);
            Err(refused)
        }
    }
}

/// The numbers of `held` stand for `file` from now on, and its options are asked for over `channel`.
fn becomes_relayed(held: &Held, fd: c_int, file: c_int, relayed: Relayed, names: (Vec<u8>, Vec<u8>)) {
    // SAFETY: numbers alone.
    unsafe {
        let waits = real::fcntl(fd, libc::F_GETFL, 0) & libc::O_NONBLOCK;
        real::fcntl(file, libc::F_SETFL, waits.into());
    }
    table::put_under(held, file);
    close(file);
    let stored_options = {
        let mut more = held.more();
        (more.names, more.relayed, more.lent) = (Some(names), Some(relayed), Some(Lent(relayed.channel)));
        std::mem::take(&mut more.stored_options)
    };
    held.set_kind(Kind::Relayed);
    for stored in &stored_options {
        if !stored::is_device(stored.level, stored.name)
            && let Err(Refused(errno)) = super::set_option(held, stored.level, stored.name, &stored.value)
        {
            stored::tell_once(stored.level, stored.name, &Error::from_raw_os_error(errno).to_string());
        }
    }
}

/// Listens by way of the other process; the kernel's socket of this one listens already.
pub(crate) fn listen(held: &Held, fd: c_int, backlog: c_int) -> Outcome<()> {
    inside(|| {
        let (mine, answer) = ask(fd, Request::Listen, backlog as u32 as u64, &[])?;
        close(answer.fd.unwrap_or(NONE));
        let kernels = super::duplicate(fd);
        // SAFETY: numbers alone.
        unsafe { real::fcntl(kernels, libc::F_SETFL, libc::O_NONBLOCK.into()) };
        let (own, _) = both_names(&answer.names, held.is_v6());
        let channel = super::duplicate(mine);
        // A listener has no peer.
        becomes_relayed(held, fd, mine, Relayed { handle: LISTENER, channel }, (own, Vec::new()));
        held.more().kernels = Some(Lent(kernels));
        Ok(())
    })
}

/// Returns true for a listener that the child has inherited and cannot listen at on its own, because its parent has
/// taken the port as root and given that up.
pub(super) fn is_parents(held: &Held) -> bool {
    held.kind() == Kind::Listener
        && held.below() == NONE
        && matches!(held.family(), Kin::Heir | Kin::Servant)
        && listener::listened_as_root()
        && channel() != NONE
}

/// The child listens by way of the parent from now on, where its kernel socket listens.
pub(super) fn listen_again(held: &Held, fd: c_int) -> Outcome<()> {
    let backlog = held.more().backlog;
    listen(held, fd, backlog)?;
    let waits = if held.is_nonblocking() { libc::O_NONBLOCK } else { 0 };
    // SAFETY: numbers alone.
    unsafe { real::fcntl(fd, libc::F_SETFL, waits.into()) };
    Ok(())
}

/// Connects by way of the other process. It takes as long as connecting does, for sockets that do not wait, too: the
/// socket that stands for the connection is there when it is connected.
pub(crate) fn connect(held: &Held, fd: c_int, to: SocketAddr) -> Outcome<()> {
    inside(|| {
        let mut name = address::write(to.into(), held.is_v6());
        name.resize(NAME, 0);
        let (mine, answer) = ask(fd, Request::Connect, 0, &name)?;
        let Some(file) = answer.fd else {
            close(mine);
            return Err(Refused(libc::ENETDOWN));
        };
        let relayed = Relayed { handle: answer.handle, channel: threads::hidden(mine) };
        becomes_relayed(held, fd, file, relayed, both_names(&answer.names, held.is_v6()));
        Ok(())
    })
}

/// Returns true if the description is a listener of [`listen`].
pub(crate) fn is_listener(held: &Held) -> bool {
    held.kind() == Kind::Relayed && held.more().names.as_ref().is_some_and(|(_, peer)| peer.is_empty())
}

/// accept4(2) on a listener of [`listen`].
///
/// # Safety
/// C's contract for `addr` and `len`.
pub(crate) unsafe fn accept(
    held: &Held,
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> Outcome<c_int> {
    let size = if held.is_v6() { NAME } else { 16 };
    // SAFETY: as the caller vouches.
    unsafe { capi::memory::has_room(addr, len, size) }?;
    let relayed = held.more().relayed.ok_or(Refused(libc::EINVAL))?;
    let (answer, new) = loop {
        let mut bytes = [0; ANSWER];
        let (got, new) = receive_once(fd, &mut bytes, 0);
        if got < 0 {
            return Err(Refused(errno()));
        }
        let answer = Answer::read(&bytes, got, new)?;
        if let Some(new) = answer.fd {
            break (answer, new);
        }
        // The kernel's part of the listener has connections.
        let kernels = held.more().kernels.as_ref().map_or(NONE, |kernels| kernels.0);
        // SAFETY: the caller's arguments.
        let new = unsafe { real::accept4(kernels, addr, len, flags) };
        let why = errno();
        super::tell(relayed.channel, &super::words(Request::Again, LISTENER));
        if new >= 0 {
            report::count_kernels();
            return Ok(new);
        }
        if why != libc::EAGAIN {
            return Err(Refused(why));
        }
    };
    let (own, peer) = both_names(&answer.names, held.is_v6());
    // SAFETY: numbers alone.
    unsafe {
        if flags & libc::SOCK_NONBLOCK != 0 {
            real::fcntl(new, libc::F_SETFL, libc::O_NONBLOCK.into());
        }
        if flags & libc::SOCK_CLOEXEC == 0 {
            real::fcntl(new, libc::F_SETFD, 0);
        }
    }
    if !addr.is_null() {
        // SAFETY: the caller vouches for so much room.
        let told = unsafe { capi::memory::put_sized(&peer, addr.cast::<c_void>(), len, peer.len()) };
        if let Err(refused) = told {
            close(new);
            return Err(refused);
        }
    }
    let channel = lend_of(Relayed { handle: answer.handle, ..relayed }).unwrap_or(NONE);
    let channel = threads::hidden(channel);
    let connection = Description::make(Kind::Relayed, held.is_v6(), NONE);
    let mut more = connection.more();
    more.names = Some((own, peer));
    more.relayed = Some(Relayed { handle: answer.handle, channel });
    more.lent = Some(Lent(channel));
    drop(more);
    if !table::put(new, connection) {
        close(new);
        return Err(Refused(libc::EMFILE));
    }
    Ok(new)
}

// --- the process that acts for it ------------------------------------------------------------------------------------

/// Wish of a child for its kernel socket.
pub(super) enum Wanted {
    Listen(c_int),
    Connect(SocketAddr),
}

impl Wanted {
    /// Reads a message; `None` for another one.
    pub(super) fn read(bytes: &[u8]) -> Option<Wanted> {
        let word = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let (request, value) = (word(0)?, word(8)?);
        if request == Request::Listen as u64 && bytes.len() == REQUEST {
            return Some(Wanted::Listen(value as c_int));
        }
        if request != Request::Connect as u64 || bytes.len() != REQUEST + NAME {
            return None;
        }
        match address::read(&bytes[REQUEST..]) {
            Ok(Named::At(to)) => Some(Wanted::Connect(to.into())),
            _ => None,
        }
    }
}

const _: () = assert!(REQUEST + NAME <= HEAD + super::ask::VALUE);

/// A socket of the stack that is a child's.
pub(super) struct Port {
    /// [`NONE`] when it is connected: then a pump has it.
    pub(super) below: Fd,
    /// The kernel's socket, by which the child has the port.
    proof: c_int,
    pub(super) listens: bool,
    v6: bool,
}

#[cfg(test)]
impl Port {
    pub(super) fn of_proof(proof: c_int) -> Port {
        Port { below: NONE, proof, listens: true, v6: false }
    }
}

/// Returns the kernel's number of a socket's network namespace; `None` where the kernel does not tell (before 5.14).
fn namespace(fd: c_int) -> Option<u64> {
    let (mut cookie, mut len) = (0_u64, size_of::<u64>() as socklen_t);
    let to = (&raw mut cookie).cast::<c_void>();
    // SAFETY: room for eight bytes.
    let done = unsafe { real::getsockopt(fd, libc::SOL_SOCKET, SO_NETNS_COOKIE, to, &raw mut len) };
    (done == 0).then_some(cookie)
}

/// Returns where a child may be: the name that the kernel has let it have in the namespace of this process, on the
/// device on which the kernel's parts of all launched sockets stand in each other's way; no port if it is not bound.
/// `None` for what proves nothing.
pub(super) fn proven(fd: c_int, listens: bool) -> Option<SocketAddr> {
    let number = |name| kernel::number(fd, libc::SOL_SOCKET, name);
    if !kernel::is_tcp(fd) || number(libc::SO_ACCEPTCONN) != Some(c_int::from(listens)) {
        return None;
    }
    let own = kernel::blank().ok()?;
    let same = namespace(own).is_some_and(|own| namespace(fd) == Some(own));
    close(own);
    let name = kernel::name(fd).filter(|_| same)?;
    (name.port() == 0 && !listens || kernel::is_loopback(fd)).then_some(name)
}

impl Relay {
    /// Does what a child wants of its kernel socket `proof`. Returns false if the child does not hear the answer, or if
    /// there is nothing to wait for.
    pub(super) fn open_port(&mut self, at: usize, proof: c_int, wanted: &Wanted) -> bool {
        let listens = matches!(wanted, Wanted::Listen(_));
        let Some(name) = proven(proof, listens) else {
            discard(proof);
            return self.answer_port(at, Err(Refused(libc::EPERM)));
        };
        let v6 = kernel::number(proof, libc::SOL_SOCKET, libc::SO_DOMAIN) == Some(libc::AF_INET6);
        let Ok(below) = self.stack.runner.socket(if v6 { Family::V6 } else { Family::V4 }) else {
            discard(proof);
            return self.answer_port(at, Err(Refused(libc::ENOBUFS)));
        };
        let proof = threads::hidden(proof);
        let Some(child) = &mut self.children[at] else { return false };
        child.port = Some(Port { below, proof, listens, v6 });
        let begun = self.begin_port(at, below, proof, name, wanted);
        match begun {
            Ok(()) if listens => {
                let own = self.stack.runner.local_addr(below);
                let mut names = [0; 2 * NAME];
                let bytes = own.map(|own| address::write(own, v6)).unwrap_or_default();
                names[..bytes.len()].copy_from_slice(&bytes);
                self.answer_port(at, Ok((LISTENER, names, NONE)))
            }
            Ok(()) => true,
            Err(refused) => {
                self.answer_port(at, Err(refused));
                false
            }
        }
    }

    fn begin_port(
        &self,
        at: usize,
        below: Fd,
        proof: c_int,
        name: SocketAddr,
        wanted: &Wanted,
    ) -> Result<(), Refused> {
        let runner = &self.stack.runner;
        runner.set_nonblocking(below, true)?;
        if let Some(only) = kernel::number(proof, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) {
            runner.setsockopt(below, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &only.to_ne_bytes())?;
        }
        let ready = match wanted {
            Wanted::Listen(backlog) => {
                listener::listen_as(self.stack, below, name, *backlog)?;
                self.watch(proof, libc::EPOLLIN | libc::EPOLLONESHOT, KERNELS + at as u64)?;
                Ready::IN
            }
            Wanted::Connect(to) => {
                if name.port() != 0 {
                    listener::bind_below(self.stack, below, name)?;
                }
                match runner.connect(below, (*to).into()) {
                    Ok(()) | Err(Errno::EINPROGRESS) => Ready::OUT,
                    Err(errno) => return Err(errno.into()),
                }
            }
        };
        let event = EpollOp::Add(EpollEvent { ready, data: (PORTS + at) as u64 });
        Ok(runner.epoll_ctl_as(self.below, below, (PORTS + at) as Fd, event)?)
    }

    /// Tells a child of its socket: the connection's name and ends, and what stands for it. Returns false if it does
    /// not hear it.
    fn answer_port(&self, at: usize, what: Result<(usize, [u8; 2 * NAME], c_int), Refused>) -> bool {
        let Some(child) = &self.children[at] else { return false };
        let (error, (handle, names, fd)) = match what {
            Ok(what) => (0, what),
            Err(Refused(errno)) => (errno, (LISTENER, [0; 2 * NAME], NONE)),
        };
        let mut bytes = [&(error as u64).to_ne_bytes()[..], &(handle as u64).to_ne_bytes(), &names].concat();
        send(child.channel, &mut bytes, fd, libc::MSG_DONTWAIT)
    }

    /// Something happened to a child's listener, or to a socket of it that connects.
    pub(super) fn on_port(&mut self, at: usize, room: &mut [u8]) {
        let port = self.children.get(at).and_then(Option::as_ref).and_then(|child| child.port.as_ref());
        let Some(&Port { below, listens, v6, .. }) = port else { return };
        let goes_on = match listens {
            _ if below == NONE => true,
            true => self.accept_for(at, below, v6, room),
            false => self.connected_for(at, below, v6, room),
        };
        if !goes_on {
            self.dismiss(at);
        }
    }

    /// Returns true if one more connection may exist by way of this child's root.
    fn has_room(&self, at: usize) -> bool {
        let root = self.children[at].as_ref().map(|child| child.root);
        let all = self.children.iter().flatten().filter(|child| Some(child.root) == root);
        all.map(|child| child.taken.len()).sum::<usize>() < CONNECTIONS_MAX
    }

    /// Hands over the connections of a listener. Those for which there is no room are closed.
    fn accept_for(&mut self, at: usize, below: Fd, v6: bool, room: &mut [u8]) -> bool {
        for _ in 0..ACCEPTS_MAX {
            let Ok((new, _)) = self.stack.runner.accept(below) else { break };
            self.hand_out(at, Description::make(Kind::Stream, v6, new), room);
        }
        true
    }

    /// Tells a child that the kernel's part of its listener has connections: it accepts them itself, for accept(2) may
    /// wait on a socket that a child has, too. It is told again when it asks for that.
    pub(super) fn on_kernels(&self, at: usize) {
        if self.children.get(at).and_then(Option::as_ref).is_some_and(|child| child.port.is_some()) {
            self.answer_port(at, Ok((LISTENER, [0; 2 * NAME], NONE)));
        }
    }

    /// A child has accepted a connection of the kernel's; there may be more.
    pub(super) fn look_again(&self, at: usize) -> bool {
        let port =
            self.children[at].as_ref().and_then(|child| child.port.as_ref()).filter(|port| port.listens);
        let Some(port) = port else { return false };
        let events = (libc::EPOLLIN | libc::EPOLLONESHOT) as u32;
        let mut event = epoll_event { events, u64: KERNELS + at as u64 };
        // SAFETY: an event of this frame's.
        unsafe { real::epoll_ctl(self.kernels, libc::EPOLL_CTL_MOD, port.proof, &raw mut event) == 0 }
    }

    /// Gives a child a new connection, and relays it. Returns false if the child did not get it: then it is closed.
    fn hand_out(&mut self, at: usize, held: Held, room: &mut [u8]) -> bool {
        if !self.has_room(at) {
            return false;
        }
        let Some([mine, childs]) = named_pair(self.stack, &held) else { return false };
        let (handle, names) = (held.name(), raw_names(self.stack, &held));
        let heard = self.answer_port(at, Ok((handle, names, childs)));
        close(childs);
        match &mut self.children[at] {
            Some(child) if heard => child.taken.push(handle),
            _ => {
                close(mine);
                return false;
            }
        }
        self.begin(Pump::new(held, threads::hidden(mine)), room);
        true
    }

    /// A socket that connects is connected, or has failed. Returns false if there is nothing left to wait for.
    fn connected_for(&mut self, at: usize, below: Fd, v6: bool, room: &mut [u8]) -> bool {
        let runner = &self.stack.runner;
        let mut error = [0; 4];
        let failed = match runner.getsockopt(below, libc::SOL_SOCKET, libc::SO_ERROR, &mut error) {
            Ok(_) => c_int::from_ne_bytes(error),
            Err(errno) => errno.raw(),
        };
        if failed != 0 {
            self.answer_port(at, Err(Refused(failed)));
            return false;
        }
        if runner.peer_addr(below).is_err() {
            return true;
        }
        // It may be in the set no more.
        let _ = runner.epoll_ctl_as(self.below, below, (PORTS + at) as Fd, EpollOp::Delete);
        if let Some(port) = self.children[at].as_mut().and_then(|child| child.port.as_mut()) {
            port.below = NONE;
        }
        self.hand_out(at, Description::make(Kind::Stream, v6, below), room)
    }

    /// Closes what a channel stands for.
    pub(super) fn close_port(&self, at: usize, child: &Child) {
        let Some(port) = &child.port else { return };
        if port.below != NONE {
            // It may not be in the set yet.
            let _ =
                self.stack.runner.epoll_ctl_as(self.below, port.below, (PORTS + at) as Fd, EpollOp::Delete);
            stack::close(port.below);
        }
        // A child may have it, too, so that closing is not enough.
        // SAFETY: numbers alone.
        unsafe { real::epoll_ctl(self.kernels, libc::EPOLL_CTL_DEL, port.proof, std::ptr::null_mut()) };
        table::remove_hidden(port.proof);
        discard(port.proof);
    }
}
