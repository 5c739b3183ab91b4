//! Options of a relayed connection: the process that uses it asks the one that has it, and is answered over a socket
//! that the question brings along, so that several may ask over one channel.

use super::{NAME, REQUEST, Request, close, handle, pair, receive, send};
use crate::boundary::{Refused, inside};
use crate::description::{Description, NONE, Relayed};
use crate::real;
use crate::stack::{self, Stack};
use crate::table;
use libc::{c_int, c_void, pollfd, ssize_t};
use sock::{Fd, Sockets};
use std::cell::Cell;

pub(super) fn request(request: Request, held: &Description) -> [u8; REQUEST] {
    words(request, handle(held))
}

pub(super) fn words(request: Request, handle: usize) -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    bytes[..8].copy_from_slice(&(request as u64).to_ne_bytes());
    bytes[8..].copy_from_slice(&(handle as u64).to_ne_bytes());
    bytes
}

pub(super) fn tell(channel: c_int, bytes: &[u8]) -> bool {
    // SAFETY: as many bytes as are there.
    let sent =
        unsafe { real::send(channel, bytes.as_ptr().cast::<c_void>(), bytes.len(), libc::MSG_NOSIGNAL) };
    sent == bytes.len() as ssize_t
}

/// The process ends what it sends over a relayed connection: the shutdown of its socket follows.
pub(crate) fn tell_end(held: &Description) {
    if let Some(relayed) = held.more().relayed.filter(|relayed| relayed.channel != NONE) {
        // That process may be gone, and the connection with it.
        tell(relayed.channel, &words(Request::End, relayed.handle));
    }
}

/// Returns a channel about a relayed connection's options, for another process that gets the connection from this one;
/// `None` if there is no descriptor.
pub(crate) fn lend(held: &Description) -> Option<c_int> {
    lend_of(held.more().relayed?)
}

pub(super) fn lend_of(relayed: Relayed) -> Option<c_int> {
    let channel = (relayed.channel != NONE).then_some(relayed.channel)?;
    inside(|| begin_channel(channel, relayed.handle))
}

/// Begins a channel for the options of what is called `handle` over another one; this process's end. The process that
/// has the other end may be gone: then nothing answers.
pub(super) fn begin_channel(channel: c_int, handle: usize) -> Option<c_int> {
    let [parents, childs] = pair(libc::SOCK_SEQPACKET)?;
    send(channel, &mut words(Request::Lend, handle), parents, 0);
    close(parents);
    Some(childs)
}

/// Bytes of a question before an option's value, and of a value.
pub(super) const HEAD: usize = 32;
pub(super) const VALUE: usize = 4_096;
/// How long the answer may take, in milliseconds. The thread that gives it turns a stack and nothing else.
const WAIT_MS: c_int = 10_000;

/// A question about an option.
pub(super) struct Question {
    pub(super) handle: usize,
    sets: bool,
    level: c_int,
    name: c_int,
    len: usize,
    value: Vec<u8>,
    reply: c_int,
}

impl Question {
    /// Reads a question: `bytes`, and the descriptor that came with them.
    pub(super) fn read(bytes: &[u8], reply: c_int) -> Option<Question> {
        let (word, half) = (word_at(bytes), half_at(bytes));
        let request = word(0)?;
        let sets = request == Request::SetOption as u64;
        (sets || request == Request::GetOption as u64).then_some(Question {
            handle: word(8)? as usize,
            sets,
            level: half(16)?,
            name: half(20)?,
            len: usize::try_from(half(24)?).ok()?.min(VALUE),
            value: bytes.get(HEAD..)?.to_vec(),
            reply,
        })
    }

    /// Answers: the error's number or 0, and the value that was asked for. `below` is the connection, if it lives.
    pub(super) fn answer(self, stack: &Stack, below: Option<Fd>) {
        let mut reply = vec![0; 4];
        let done = match below {
            None => Err(libc::EINVAL),
            Some(below) if self.sets => {
                let done = stack.runner.setsockopt(below, self.level, self.name, &self.value);
                done.map_err(|errno| errno.raw())
            }
            Some(below) => {
                reply.resize(4 + self.len, 0);
                let got = stack.runner.getsockopt(below, self.level, self.name, &mut reply[4..]);
                got.map(|n| reply.truncate(4 + n)).map_err(|errno| errno.raw())
            }
        };
        if let Err(errno) = done {
            reply.truncate(4);
            reply.copy_from_slice(&errno.to_ne_bytes());
        }
        // SAFETY: as many bytes as are there. One that asks and is gone by now hears nothing.
        unsafe {
            let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
            real::send(self.reply, reply.as_ptr().cast::<c_void>(), reply.len(), flags);
            real::close(self.reply);
        }
    }
}

fn word_at(bytes: &[u8]) -> impl Fn(usize) -> Option<u64> {
    move |at| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn half_at(bytes: &[u8]) -> impl Fn(usize) -> Option<c_int> {
    move |at| Some(c_int::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Sets an option of a relayed connection.
pub(crate) fn set_option(held: &Description, level: c_int, name: c_int, value: &[u8]) -> Result<(), Refused> {
    ask(held, Request::SetOption, (level, name, value.len()), value).map(drop)
}

/// Returns an option of a relayed connection, `len` bytes at most.
pub(crate) fn get_option(
    held: &Description,
    level: c_int,
    name: c_int,
    len: usize,
) -> Result<Vec<u8>, Refused> {
    ask(held, Request::GetOption, (level, name, len), &[])
}

fn ask(
    held: &Description,
    request: Request,
    (level, name, len): (c_int, c_int, usize),
    value: &[u8],
) -> Result<Vec<u8>, Refused> {
    // A connection whose stack is gone is over: Linux refuses options of such a socket so, too.
    let gone = Refused(libc::EINVAL);
    let relayed = held.more().relayed.filter(|relayed| relayed.channel != NONE).ok_or(gone)?;
    let mut question = vec![0; HEAD];
    question[..8].copy_from_slice(&(request as u64).to_ne_bytes());
    question[8..16].copy_from_slice(&(relayed.handle as u64).to_ne_bytes());
    question[16..20].copy_from_slice(&level.to_ne_bytes());
    question[20..24].copy_from_slice(&name.to_ne_bytes());
    question[24..28].copy_from_slice(&(len as c_int).to_ne_bytes());
    question.extend_from_slice(value);
    inside(|| {
        let [mine, theirs] = pair(libc::SOCK_SEQPACKET).ok_or(Refused(libc::ENOBUFS))?;
        let asked = send(relayed.channel, &mut question, theirs, 0);
        // SAFETY: a descriptor of this frame's.
        unsafe { real::close(theirs) };
        let answer = if asked { hear(mine) } else { None };
        // SAFETY: as above.
        unsafe { real::close(mine) };
        let answer = answer.ok_or(gone)?;
        match c_int::from_ne_bytes(answer[..4].try_into().map_err(|_| gone)?) {
            0 => Ok(answer[4..].to_vec()),
            errno => Err(Refused(errno)),
        }
    })
}

/// Waits for an answer; `None` if there is no answer.
fn hear(from: c_int) -> Option<Vec<u8>> {
    let mut answer = vec![0; 4 + VALUE];
    // SAFETY: a row of this frame's, and as much room as is said.
    let got = unsafe {
        let mut row = pollfd { fd: from, events: libc::POLLIN, revents: 0 };
        while real::poll(&raw mut row, 1, WAIT_MS) < 0 && crate::boundary::errno() == libc::EINTR {}
        real::recv(from, answer.as_mut_ptr().cast::<c_void>(), answer.len(), libc::MSG_DONTWAIT)
    };
    answer.truncate(usize::try_from(got).ok()?);
    (answer.len() >= 4).then_some(answer)
}

/// Receives what a child says: a plain request, or a question with a descriptor. `None` when the child is gone,
/// `Some(None)` when there is nothing now.
pub(super) fn hear_child(channel: c_int, into: &mut Vec<u8>) -> Option<Option<c_int>> {
    into.resize(HEAD + VALUE, 0);
    let (got, fd) = receive(channel, into, libc::MSG_DONTWAIT);
    if got < 0 && matches!(crate::boundary::errno(), libc::EAGAIN | libc::EINTR) {
        return Some(None);
    }
    if got <= 0 {
        discard(fd.unwrap_or(NONE));
        return None;
    }
    into.truncate(got as usize);
    Some(Some(fd.unwrap_or(NONE)))
}

/// A channel that the program before this one has left open.
pub(crate) fn adopt_channel(fd: c_int) {
    if super::super::kernel::inode(fd).is_some() {
        // SAFETY: numbers alone.
        unsafe { real::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC.into()) };
        table::hide(fd);
    }
}

/// The names of a connection as a child gets them, one after the other.
pub(super) fn both_names(names: &[u8; 2 * NAME], v6: bool) -> (Vec<u8>, Vec<u8>) {
    let len = if v6 { NAME } else { 16 };
    (names[..len].to_vec(), names[NAME..NAME + len].to_vec())
}

/// Whether a message was as long as was wanted.
pub(super) fn is_whole(got: ssize_t, wanted: usize) -> bool {
    usize::try_from(got) == Ok(wanted)
}

/// Returns true of what children send: ends of pairs such as this library makes.
pub(crate) fn is_channel(fd: c_int) -> bool {
    let is = |name: c_int, wanted: c_int| {
        let (mut value, mut len) = (0, size_of::<c_int>() as libc::socklen_t);
        // SAFETY: room for a number.
        let done = unsafe {
            real::getsockopt(fd, libc::SOL_SOCKET, name, (&raw mut value).cast::<c_void>(), &raw mut len)
        };
        done == 0 && value == wanted
    };
    is(libc::SO_DOMAIN, libc::AF_UNIX) && is(libc::SO_TYPE, libc::SOCK_SEQPACKET)
}

/// Closes what a child should not have sent, on a thread of its own: closing may wait for the child (SO_LINGER, a file
/// system that the child serves).
pub(super) fn discard(fd: c_int) {
    if fd != NONE {
        let thread = std::thread::Builder::new().name("millstream-close".into());
        if thread.spawn(move || close(fd)).is_err() {
            close(fd);
        }
    }
}

thread_local! {
    /// This is the thread that relays.
    pub(super) static RELAYS: Cell<bool> = const { Cell::new(false) };
}

/// The thread that relays does not wait in close, as SO_LINGER wants: children set that, and their own close has not
/// waited either.
pub(crate) fn spare_wait(below: Fd) {
    if !RELAYS.try_with(Cell::get).unwrap_or(false) {
        return;
    }
    let Some(stack) = stack::opened() else { return };
    let mut linger = [0; size_of::<libc::linger>()];
    let known = stack.runner.getsockopt(below, libc::SOL_SOCKET, libc::SO_LINGER, &mut linger);
    // A time of zero is a reset.
    if known.is_ok() && linger[size_of::<c_int>()..] != [0; 4] {
        // The connection may be over by now.
        let _ = stack.runner.setsockopt(below, libc::SOL_SOCKET, libc::SO_LINGER, &[0; 8]);
    }
}

/// Tells a child that waits for a connection that there is none for it: an answer without names. Returns false if the
/// child does not hear it.
pub(super) fn refuse(channel: c_int) -> bool {
    let (none, flags) = ([0_u8], libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT);
    // SAFETY: a byte of this frame's.
    unsafe { real::send(channel, none.as_ptr().cast::<c_void>(), none.len(), flags) == 1 }
}
