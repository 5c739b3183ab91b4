//! The epoll-style API in Rust: one poller, many sockets, your word with each.

use crate::Errno;
use crate::net::Stack;
use crate::sockets::{EpollEvent, EpollOp, Fd, Ready};
use base::Duration;

/// An epoll set that closes itself.
pub struct Poller {
    stack: Stack,
    fd: Fd,
}

impl Poller {
    /// An empty set.
    pub fn new(stack: &Stack) -> Result<Poller, Errno> {
        Ok(Poller { stack: stack.clone(), fd: stack.epoll_create()? })
    }

    /// Watch `fd`; events carry `data`.
    pub fn add(&self, fd: Fd, data: u64, interest: Ready) -> Result<(), Errno> {
        self.stack.epoll_ctl(self.fd, fd, EpollOp::Add(EpollEvent { ready: interest, data }))
    }

    /// Watch `fd` for something else.
    pub fn modify(&self, fd: Fd, data: u64, interest: Ready) -> Result<(), Errno> {
        self.stack.epoll_ctl(self.fd, fd, EpollOp::Modify(EpollEvent { ready: interest, data }))
    }

    /// Watch `fd` no more. (Closing its last descriptor does the same.)
    pub fn delete(&self, fd: Fd) -> Result<(), Errno> {
        self.stack.epoll_ctl(self.fd, fd, EpollOp::Delete)
    }

    /// Waits for events and gives those found; `None` waits for ever.
    pub fn wait<'e>(
        &self,
        events: &'e mut [EpollEvent],
        timeout: Option<Duration>,
    ) -> Result<&'e [EpollEvent], Errno> {
        let n = self.stack.epoll_wait(self.fd, events, timeout)?;
        Ok(&events[..n])
    }

    /// The set's own descriptor, to nest it in another.
    pub fn fd(&self) -> Fd {
        self.fd
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        // The only failure is a descriptor that is closed already, which owning it makes impossible.
        let _ = self.stack.close(self.fd);
    }
}
