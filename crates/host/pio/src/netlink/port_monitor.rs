//! Descriptors on which a port on a kernel interface sleeps beside its own: those of the kernel's news of the
//! interface.

use crate::netlink::{Monitor, Scope};
use crate::port::{Caps, IoError, NetEvent};
use crate::sys::{self, interest};
use base::{Addr, Duration};
use std::io;
use std::os::fd::RawFd;

/// News of one port.
pub(crate) struct PortMonitor {
    monitor: Monitor,
    /// News of other kinds; the kernel skips what is negative.
    also: [RawFd; 2],
}

impl PortMonitor {
    /// Of interface `ifindex` of the caller's network namespace.
    pub(crate) fn new(ifindex: u32, scope: Scope) -> io::Result<PortMonitor> {
        Ok(PortMonitor { monitor: Monitor::open(ifindex, scope)?, also: [-1; 2] })
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
            interest(self.monitor.fd(), libc::POLLIN),
            interest(self.also[0], libc::POLLIN),
            interest(self.also[1], libc::POLLIN),
        ];
        let ready = sys::poll(&mut rows, Some(Duration::ZERO)).map_err(IoError::Os)?;
        if rows[1].revents != 0 {
            self.monitor.expect_news();
        }
        fds.extend(self.poll_fds(fd));
        Ok(ready == 0)
    }

    /// Returns the descriptors to sleep on.
    pub(crate) fn poll_fds(&self, fd: RawFd) -> impl Iterator<Item = RawFd> {
        [fd, self.monitor.fd()].into_iter().chain(self.also).filter(|fd| *fd >= 0)
    }

    /// Appends what the kernel has to tell, and keeps `caps` and `down` true to it.
    pub(crate) fn net_events(&mut self, caps: &mut Caps, down: &mut bool, events: &mut Vec<NetEvent>) {
        let before = events.len();
        self.monitor.poll(events);
        for event in &events[before..] {
            match *event {
                NetEvent::Link { up } => *down = !up,
                NetEvent::Mtu(mtu) => caps.mtu = mtu,
                NetEvent::Mac(mac) => caps.mac = mac,
                _ => {}
            }
        }
    }

    /// Asks the kernel for a neighbour.
    pub(crate) fn resolve(&mut self, addr: Addr) {
        self.monitor.resolve(addr);
    }

    /// Returns true if the interface was deleted since the last call, also if it is there again.
    pub(crate) fn take_left(&mut self) -> bool {
        self.monitor.take_left()
    }

    /// Returns the index of the interface that has the name of the one watched.
    pub(crate) fn home(&self) -> Option<u32> {
        self.monitor.home()
    }

    /// Watches interface `ifindex` from now on.
    pub(crate) fn follow(&mut self, ifindex: u32) {
        self.monitor.follow(ifindex);
    }

    /// Counters of the news.
    pub(crate) fn stats(&self) -> [(&'static str, u64); 2] {
        self.monitor.stats()
    }
}
