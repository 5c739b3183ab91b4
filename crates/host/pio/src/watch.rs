//! Descriptors on which a port on a kernel interface sleeps beside its own: the doorbell of its owner's other
//! threads, and the kernel's news of the interface.

use crate::netlink::{Monitor, Scope};
use crate::port::{Caps, IoError, NetEvent, Wake, Waker};
use crate::sys::{self, Bell, interest};
use base::{Addr, Duration};
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

/// Bell and news of one port.
pub(crate) struct Watch {
    bell: Arc<Bell>,
    monitor: Monitor,
    /// News of other kinds; the kernel skips what is negative.
    also: [RawFd; 2],
}

impl Watch {
    /// Of interface `ifindex` of the caller's network namespace.
    pub(crate) fn new(ifindex: u32, scope: Scope) -> io::Result<Watch> {
        Ok(Watch { bell: Arc::new(Bell::new()?), monitor: Monitor::open(ifindex, scope)?, also: [-1; 2] })
    }

    /// Descriptors more whose news end a sleep; their owner keeps them open.
    pub(crate) fn watch_also(&mut self, fds: [RawFd; 2]) {
        self.also = fds;
    }

    /// Sleeps until `fd` has packets (or room for some, if `blocked`), the kernel has news, the bell rings or
    /// time is up.
    pub(crate) fn wait(
        &mut self,
        fd: RawFd,
        blocked: bool,
        timeout: Option<Duration>,
    ) -> Result<Wake, IoError> {
        let events = if blocked { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
        let mut fds = [
            interest(self.bell.fd(), libc::POLLIN),
            interest(fd, events),
            interest(self.monitor.fd(), libc::POLLIN),
            interest(self.also[0], libc::POLLIN),
            interest(self.also[1], libc::POLLIN),
        ];
        let wake = sys::sleep(&self.bell, &mut fds, timeout)?;
        if fds[2].revents != 0 {
            self.monitor.expect_news();
        }
        Ok(wake)
    }

    /// For other threads.
    pub(crate) fn waker(&self) -> Arc<dyn Waker> {
        self.bell.clone()
    }

    /// Returns the descriptors to poll for an owner that sleeps by itself.
    pub(crate) fn poll_fds(&self, fd: RawFd) -> Vec<RawFd> {
        [fd, self.monitor.fd()].into_iter().chain(self.also).filter(|fd| *fd >= 0).collect()
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
