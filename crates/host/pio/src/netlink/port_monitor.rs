//! Descriptors on which a port on a kernel interface sleeps beside its own: those of the kernel's news of the
//! interface.

use crate::netlink::{Monitor, Scope};
use crate::port::{Caps, IoError, NetEvent};
use crate::sys::{self, interest};
use base::Duration;
use std::io;
use std::os::fd::RawFd;

/// News of one port.
pub(crate) struct PortMonitor {
    pub(crate) news: Monitor,
    /// News of other kinds; the kernel skips what is negative.
    also: [RawFd; 2],
}

impl PortMonitor {
    /// Of interface `ifindex` of the caller's network namespace.
    pub(crate) fn new(ifindex: u32, scope: Scope) -> io::Result<PortMonitor> {
        Ok(PortMonitor { news: Monitor::open(ifindex, scope)?, also: [-1; 2] })
    }

    /// Descriptors more whose news end a sleep; their owner keeps them open.
    pub(crate) fn watch_also(&mut self, fds: [RawFd; 2]) {
        self.also = fds;
    }

    /// Prepares for a sleep on `fd` and appends the descriptors to sleep on. Returns false if `fd` has packets (or room
    /// for some, if `blocked`), or there is news.
    pub(crate) fn arm(&mut self, fd: RawFd, blocked: bool, fds: &mut Vec<RawFd>) -> Result<bool, IoError> {
        let events = if blocked { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
        let mut rows = [
            interest(fd, events),
            interest(self.news.fd(), libc::POLLIN),
            interest(self.also[0], libc::POLLIN),
            interest(self.also[1], libc::POLLIN),
        ];
        let ready = sys::poll(&mut rows, Some(Duration::ZERO)).map_err(IoError::Os)?;
        if rows[1].revents != 0 {
            self.news.expect_news();
        }
        fds.extend(self.poll_fds(fd));
        Ok(ready == 0)
    }

    /// Returns the descriptors to sleep on.
    pub(crate) fn poll_fds(&self, fd: RawFd) -> impl Iterator<Item = RawFd> {
        [fd, self.news.fd()].into_iter().chain(self.also).filter(|fd| *fd >= 0)
    }

    /// Appends what the kernel has to tell, and keeps `caps` and `down` true to it.
    pub(crate) fn net_events(&mut self, caps: &mut Caps, down: &mut bool, events: &mut Vec<NetEvent>) {
        let before = events.len();
        self.news.poll(events);
        for event in &events[before..] {
            match *event {
                NetEvent::Link { up } => *down = !up,
                NetEvent::Mtu(mtu) => caps.mtu = mtu,
                NetEvent::Mac(mac) => caps.mac = mac,
                _ => {}
            }
        }
    }
}
