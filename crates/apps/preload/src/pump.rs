//! One connection that a child uses: octets between it and the child's socket, both ways, and the end of each.

use crate::boundary::errno;
use crate::hooks::real;
use crate::stack::Stack;
use crate::table::{self, Held};
use libc::{c_int, c_short, c_void, pollfd};
use sock::{Errno, PollFd, Ready, RecvFlags, SendFlags, Shutdown, Sockets};

/// Octets in hand each way.
const ROOM: usize = 64 << 10;

/// Octets on their way in one direction.
#[derive(Default)]
struct Lane {
    octets: Vec<u8>,
    sent: usize,
    /// The source has ended.
    ended: bool,
    /// The other end has been told so.
    told: bool,
}

impl Lane {
    fn is_empty(&self) -> bool {
        self.sent == self.octets.len()
    }

    /// Takes what the source gives: octets, its end (0), or nothing now (`None`).
    fn fill(&mut self, from: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        if !self.is_empty() || self.ended {
            return false;
        }
        self.octets.resize(ROOM, 0);
        let got = from(&mut self.octets);
        self.ended = got == Some(0);
        self.octets.truncate(got.unwrap_or(0));
        self.sent = 0;
        got.is_some()
    }

    /// Hands on what the other end takes.
    fn empty(&mut self, to: impl FnOnce(&[u8]) -> usize) -> bool {
        let taken = if self.is_empty() { 0 } else { to(&self.octets[self.sent..]) };
        self.sent += taken;
        taken > 0
    }
}

/// A connection and a child's socket.
pub(crate) struct Pump {
    held: Held,
    /// Our end of the child's socket.
    fd: c_int,
    inwards: Lane,
    outwards: Lane,
    /// The child has closed its socket.
    left: bool,
    /// The connection is no more.
    over: bool,
}

impl Pump {
    pub(crate) fn new(held: Held, fd: c_int) -> Pump {
        Pump { held, fd, inwards: Lane::default(), outwards: Lane::default(), left: false, over: false }
    }

    /// What to wait for at the child's socket.
    pub(crate) fn row(&self) -> pollfd {
        let mut events: c_short = 0;
        if self.outwards.is_empty() && !self.outwards.ended {
            events |= libc::POLLIN;
        }
        if !self.inwards.is_empty() {
            events |= libc::POLLOUT;
        }
        pollfd { fd: self.fd, events, revents: 0 }
    }

    /// What to wait for at the connection, if anything.
    pub(crate) fn row_below(&self) -> Option<PollFd> {
        let mut interest = Ready::NONE;
        if self.inwards.is_empty() && !self.inwards.ended {
            interest |= Ready::IN;
        }
        if !self.outwards.is_empty() {
            interest |= Ready::OUT;
        }
        (interest != Ready::NONE).then_some(PollFd { fd: self.held.below(), interest, ready: Ready::NONE })
    }

    /// What a wait found at the child's socket.
    pub(crate) fn note(&mut self, revents: c_short) {
        self.left |= revents & (libc::POLLHUP | libc::POLLERR) != 0;
    }

    /// Moves what can be moved; false when there is nothing left to do.
    pub(crate) fn step(&mut self, stack: &Stack) -> bool {
        let (sockets, below, fd) = (&stack.hosted, self.held.below(), self.fd);
        let (left, over) = (&mut self.left, &mut self.over);
        loop {
            let mut moved = self.inwards.fill(|room| {
                let flags = RecvFlags { dont_wait: true, ..RecvFlags::default() };
                match sockets.recv(below, room, flags) {
                    Ok(got) => Some(got),
                    Err(Errno::EAGAIN) => None,
                    Err(_) => {
                        *over = true;
                        None
                    }
                }
            });
            moved |= self.inwards.empty(|octets| {
                let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
                // SAFETY: as many octets as are there.
                let sent = unsafe { real::send(fd, octets.as_ptr().cast::<c_void>(), octets.len(), flags) };
                *left |= sent < 0 && errno() == libc::EPIPE;
                usize::try_from(sent).unwrap_or(0)
            });
            moved |= self.outwards.fill(|room| {
                // SAFETY: as much room as is there.
                let got = unsafe {
                    real::recv(fd, room.as_mut_ptr().cast::<c_void>(), room.len(), libc::MSG_DONTWAIT)
                };
                match usize::try_from(got) {
                    Ok(got) => Some(got),
                    Err(_) if errno() == libc::EAGAIN => None,
                    Err(_) => Some(0),
                }
            });
            moved |= self.outwards.empty(|octets| {
                let flags = SendFlags { dont_wait: true, ..SendFlags::default() };
                match sockets.send(below, octets, flags) {
                    Ok(sent) => sent,
                    Err(Errno::EAGAIN) => 0,
                    Err(_) => {
                        *over = true;
                        0
                    }
                }
            });
            if !moved {
                break;
            }
        }
        self.tell_ends(stack);
        let done = self.over || self.left && self.outwards.ended && self.outwards.is_empty();
        if done {
            table::remove_hidden(fd);
            // SAFETY: ours, and nobody else knows it.
            unsafe { real::close(fd) };
        }
        !done
    }

    /// Each side is told of the other's end, once everything before it is there.
    fn tell_ends(&mut self, stack: &Stack) {
        if self.inwards.ended && self.inwards.is_empty() && !self.inwards.told {
            self.inwards.told = true;
            // SAFETY: numbers alone.
            unsafe { real::shutdown(self.fd, libc::SHUT_WR) };
        }
        if self.outwards.ended && self.outwards.is_empty() && !self.outwards.told {
            self.outwards.told = true;
            // A child that closed its socket leaves the connection to whoever else has it; one that ended it, ends it.
            // The connection may be over by now.
            let _ = stack.hosted.shutdown(self.held.below(), Shutdown::Write);
        }
    }
}
