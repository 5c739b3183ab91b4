//! One connection that a child uses: bytes between it and the child's socket, both ways, and the end of each.

use crate::boundary::errno;
use crate::real;
use crate::stack::Stack;
use crate::table::Held;
use libc::{c_int, c_void, pollfd};
use sock::{Errno, Fd, RecvFlags, SendFlags, Shutdown, Sockets};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that one step moves at most.
pub(crate) const ROOM: usize = 64 << 10;

/// One direction. What the other end did not take is kept.
#[derive(Default)]
struct Lane {
    rest: Vec<u8>,
    sent: usize,
    /// The source has ended.
    ended: bool,
    /// The other end has been told so.
    told: bool,
}

impl Lane {
    fn is_empty(&self) -> bool {
        self.sent == self.rest.len()
    }

    /// Hands on what is left, and then what the source gives: bytes, its end (0), or nothing now (`None`). Did
    /// anything move?
    fn carry(
        &mut self,
        room: &mut [u8],
        from: impl FnOnce(&mut [u8]) -> Option<usize>,
        mut to: impl FnMut(&[u8]) -> usize,
    ) -> bool {
        if !self.is_empty() {
            let taken = to(&self.rest[self.sent..]);
            self.sent += taken;
            if !self.is_empty() {
                return taken > 0;
            }
            (self.rest, self.sent) = (Vec::new(), 0);
        }
        if self.ended {
            return false;
        }
        let Some(got) = from(room) else { return false };
        self.ended = got == 0;
        let taken = if got > 0 { to(&room[..got]) } else { 0 };
        self.rest.extend_from_slice(&room[taken..got]);
        true
    }
}

/// Readiness of one end, as far as is known: a call that gave less than all says no, an event says yes.
#[derive(Clone, Copy)]
struct End {
    readable: bool,
    writable: bool,
    /// There may be an end behind what can be read: it is looked for without another event.
    ends: bool,
}

impl End {
    fn new() -> End {
        End { readable: true, writable: true, ends: false }
    }
}

/// A connection and a child's socket.
pub(crate) struct Pump {
    held: Held,
    /// Our end of the child's socket.
    fd: c_int,
    child: End,
    /// Bytes can be had from the connection, and it takes some.
    below: End,
    inwards: Lane,
    outwards: Lane,
    /// The child has closed its socket, or its receiving half.
    left: bool,
    /// The child has ended the connection's sending half, not only its own socket.
    ended: bool,
    /// The connection is no more.
    over: bool,
    /// Its user is this process, whose end waits for it, or one that it was handed to (SCM_RIGHTS).
    counted: Option<Counted>,
}

/// Connections that this process relays to itself and whose outward end has not been passed on yet.
static OWN: AtomicUsize = AtomicUsize::new(0);
/// Connections that this process has handed to another one.
static LENT: AtomicUsize = AtomicUsize::new(0);

/// One of [`OWN`] or [`LENT`], until it is dropped.
struct Counted(&'static AtomicUsize);

impl Counted {
    fn new(all: &'static AtomicUsize) -> Counted {
        all.fetch_add(1, Ordering::AcqRel);
        Counted(all)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // In a child there are none.
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |all| all.checked_sub(1));
    }
}

/// Returns true while something that this process wrote may still be on its way to a connection of its own.
pub(crate) fn owes() -> bool {
    OWN.load(Ordering::Acquire) > 0
}

/// Returns true while another process uses a connection that this one has handed to it.
pub(crate) fn lends() -> bool {
    LENT.load(Ordering::Acquire) > 0
}

/// This process is a child: its parent relays.
pub(crate) fn forked() {
    OWN.store(0, Ordering::Release);
    LENT.store(0, Ordering::Release);
}

impl Pump {
    pub(crate) fn new(held: Held, fd: c_int) -> Pump {
        let (child, below) = (End::new(), End::new());
        Pump {
            held,
            fd,
            child,
            below,
            inwards: Lane::default(),
            outwards: Lane::default(),
            left: false,
            ended: false,
            over: false,
            counted: None,
        }
    }

    /// Makes a pump for a connection that this process itself uses through a socket.
    pub(crate) fn own(held: Held, fd: c_int) -> Pump {
        Pump { counted: Some(Counted::new(&OWN)), ..Pump::new(held, fd) }
    }

    /// Makes a pump for a connection that goes to another process.
    pub(crate) fn lent(held: Held, fd: c_int) -> Pump {
        Pump { counted: Some(Counted::new(&LENT)), ..Pump::new(held, fd) }
    }

    /// Our end of the child's socket.
    pub(crate) fn fd(&self) -> c_int {
        self.fd
    }

    /// Returns a child's name of the connection.
    pub(crate) fn handle(&self) -> usize {
        self.held.name()
    }

    /// Is there something from the child that the connection did not take?
    pub(crate) fn has_rest(&self) -> bool {
        !self.over && !self.outwards.is_empty()
    }

    /// The stack's descriptor of the connection.
    pub(crate) fn below(&self) -> Fd {
        self.held.below()
    }

    /// Something happened at the child's socket.
    pub(crate) fn on_child(&mut self, events: u32) {
        let any = |bits: c_int| events & bits as u32 != 0;
        let ends = any(libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR);
        self.child.ends |= ends;
        self.child.readable |= ends || any(libc::EPOLLIN);
        self.child.writable |= any(libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR);
        self.left |= any(libc::EPOLLHUP | libc::EPOLLERR);
    }

    /// The child says that it ends what it sends (shutdown).
    pub(crate) fn on_end(&mut self) {
        self.ended = true;
    }

    /// Something happened to the connection.
    pub(crate) fn on_connection(&mut self) {
        (self.below.readable, self.below.writable) = (true, true);
    }

    /// Moves what can be moved, through `room`; false when there is nothing left to do.
    pub(crate) fn step(&mut self, stack: &Stack, room: &mut [u8]) -> bool {
        while self.move_inwards(stack, room) | self.move_outwards(stack, room) {}
        self.tell_ends(stack);
        !(self.over || self.left && self.outwards.ended && self.outwards.is_empty())
    }

    /// From the connection to the child.
    fn move_inwards(&mut self, stack: &Stack, room: &mut [u8]) -> bool {
        let (held, fd, over, left) = (&self.held, self.fd, &mut self.over, &mut self.left);
        let (below, child) = (&mut self.below, &mut self.child);
        let from = |room: &mut [u8]| {
            let flags = RecvFlags { dont_wait: true, ..RecvFlags::default() };
            let got = below.readable.then(|| stack.runner.recv(held.below(), room, flags))?;
            below.readable = got.is_ok();
            *over |= got.is_err_and(|e| e != Errno::EAGAIN);
            got.ok()
        };
        self.inwards.carry(room, from, |bytes| {
            if !child.writable {
                return 0;
            }
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            // SAFETY: as many bytes as are there.
            let sent = unsafe { real::send(fd, bytes.as_ptr().cast::<c_void>(), bytes.len(), flags) };
            *left |= sent < 0 && errno() == libc::EPIPE;
            let sent = usize::try_from(sent).unwrap_or(0);
            child.writable = sent == bytes.len();
            sent
        })
    }

    /// From the child to the connection.
    fn move_outwards(&mut self, stack: &Stack, room: &mut [u8]) -> bool {
        let (held, fd, over) = (&self.held, self.fd, &mut self.over);
        let (below, child) = (&mut self.below, &mut self.child);
        let from = |room: &mut [u8]| {
            let (at, len) = (room.as_mut_ptr().cast::<c_void>(), room.len());
            // SAFETY: as much room as is there.
            let got = child.readable.then(|| unsafe { real::recv(fd, at, len, libc::MSG_DONTWAIT) })?;
            let got = match usize::try_from(got) {
                Ok(got) => Some(got),
                Err(_) if errno() == libc::EAGAIN => None,
                Err(_) => Some(0),
            };
            // Less than there is room for is all there was (epoll(7)); what comes after it is an event.
            child.readable = got == Some(len) || child.ends && got.is_some();
            got
        };
        self.outwards.carry(room, from, |bytes| {
            let flags = SendFlags { dont_wait: true, ..SendFlags::default() };
            let sent = if below.writable { stack.runner.send(held.below(), bytes, flags) } else { Ok(0) };
            below.writable &= sent.is_ok();
            *over |= sent.is_err_and(|e| e != Errno::EAGAIN);
            sent.unwrap_or(0)
        })
    }

    /// Each side is told of the other's end, once everything before it is there.
    fn tell_ends(&mut self, stack: &Stack) {
        if self.inwards.ended && self.inwards.is_empty() && !self.inwards.told {
            self.inwards.told = true;
            // SAFETY: numbers alone.
            unsafe { real::shutdown(self.fd, libc::SHUT_WR) };
        }
        if self.outwards.ended && self.outwards.is_empty() && !self.outwards.told {
            // A child that closed its socket leaves the connection to any other process that has it, such as this one;
            // one that ended it, ends it.
            let leaves = !self.ended && hangs_up(self.fd);
            if leaves && !self.left {
                // The event is on its way, and behind what the child may have said.
                return;
            }
            self.outwards.told = true;
            if !leaves {
                // The connection may be over by now.
                let _ = stack.runner.shutdown(self.held.below(), Shutdown::Write);
            }
            if self.counted.as_ref().is_some_and(|counted| std::ptr::eq(counted.0, &OWN)) {
                self.counted = None;
            }
        }
    }
}

/// Returns true if nothing has the other end of the socket any more, or both its halves are shut.
fn hangs_up(fd: c_int) -> bool {
    let mut row = pollfd { fd, events: 0, revents: 0 };
    // SAFETY: a row of this frame's.
    unsafe { real::poll(&raw mut row, 1, 0) == 1 && row.revents & libc::POLLHUP != 0 }
}
