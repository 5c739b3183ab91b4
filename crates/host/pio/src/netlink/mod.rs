//! The kernel's view of an interface, by rtnetlink (RFC 3549): what is there, and what changes.

mod configure;
mod known;
mod message;
mod netdev;
mod port_monitor;
mod socket;
#[cfg(test)]
mod tests;

pub use configure::{
    add_address, add_route, add_veth, delete_link, move_link, remove_address, remove_route, set_link,
};
pub use message::Interface;
pub use netdev::{XdpFeatures, xdp_features};
pub(crate) use port_monitor::PortMonitor;

use crate::port::{NetEvent, Route};
use crate::sys::{self, SockAddr};
use base::Addr;
use known::Known;
use message::{Fact, Request, family};
use socket::{Progress, Socket};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// Every interface of the caller's network namespace.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    links(&mut Socket::open(0)?)
}

/// The interface called `name`, if there is one.
pub fn interface(name: &str) -> io::Result<Option<Interface>> {
    Ok(interfaces()?.into_iter().find(|interface| interface.name == name))
}

fn links(socket: &mut Socket) -> io::Result<Vec<Interface>> {
    let facts = socket.dump(libc::RTM_GETLINK, &[0; 16])?;
    let links = facts.into_iter().filter_map(|fact| match fact {
        Fact::Link { link, .. } => Some(link),
        _ => None,
    });
    Ok(links.collect())
}

/// How much of the kernel's view matters to a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// MTU and link state only (a port with addresses of its own).
    Link,
    /// Addresses, routes and neighbours as well.
    All,
}

/// Calls of [`Monitor::poll`] that look at the socket after there was reason to expect news, and how seldom
/// they look otherwise: a busy turn must not pay a system call each time.
const HOT: u32 = 256;
const COLD_EVERY: u32 = 16;

/// Follows one interface. What it knows is what its owner was told, so whatever is missed is made good by
/// asking for everything again and telling the difference.
pub struct Monitor {
    ifindex: u32,
    scope: Scope,
    changes: Socket,
    requests: Socket,
    known: Known,
    /// Ask for everything again at the next poll.
    resync: bool,
    hot: u32,
    cold: u32,
    resyncs: u64,
    errors: u64,
}

impl Monitor {
    /// Follow interface `ifindex` of the caller's network namespace.
    pub fn open(ifindex: u32, scope: Scope) -> io::Result<Monitor> {
        let groups = match scope {
            Scope::Link => libc::RTMGRP_LINK,
            Scope::All => {
                libc::RTMGRP_LINK
                    | libc::RTMGRP_NEIGH
                    | libc::RTMGRP_IPV4_IFADDR
                    | libc::RTMGRP_IPV4_ROUTE
                    | libc::RTMGRP_IPV6_IFADDR
                    | libc::RTMGRP_IPV6_ROUTE
            }
        };
        Ok(Monitor {
            ifindex,
            scope,
            // First listen, then ask: nothing can fall between.
            changes: Socket::open(groups as u32)?,
            requests: Socket::open(0)?,
            known: Known::new(scope == Scope::Link),
            resync: true,
            hot: 0,
            cold: 0,
            resyncs: 0,
            errors: 0,
        })
    }

    /// Becomes readable when something changed.
    pub fn fd(&self) -> RawFd {
        self.changes.fd()
    }

    /// Look at the socket at the next [`Monitor::poll`]: it was seen readable.
    pub fn expect_news(&mut self) {
        self.hot = self.hot.max(1);
    }

    /// Returns true if the kernel told of the interface itself since the last call: drivers that change something of
    /// which the news have no word (their queues) take the carrier away meanwhile.
    pub fn take_touched(&mut self) -> bool {
        std::mem::take(&mut self.known.touched)
    }

    /// Returns true if the interface was deleted since the last call, also if it is there again.
    pub fn take_left(&mut self) -> bool {
        std::mem::take(&mut self.known.left)
    }

    /// Returns the index of the interface that has the name of the one followed: its own, or once it is deleted that
    /// of another which was given the name.
    pub fn home(&self) -> Option<u32> {
        self.known.home(self.ifindex)
    }

    /// Follows interface `ifindex` from now on. The next [`Monitor::poll`] tells how it differs from the one before.
    pub fn follow(&mut self, ifindex: u32) {
        self.ifindex = ifindex;
        self.known.begin_anew();
        self.resync = true;
    }

    /// Appends what changed since the last call; the first call gives everything.
    pub fn poll(&mut self, events: &mut Vec<NetEvent>) {
        events.append(&mut self.known.answers);
        if !self.resync && !self.due() {
            return;
        }
        let (known, ifindex) = (&mut self.known, self.ifindex);
        let progress = self.changes.changes(|fact| known.learn(ifindex, fact, events)).unwrap_or_else(|_| {
            self.errors += 1;
            Progress { drained: true, overrun: true }
        });
        self.resync |= progress.overrun || std::mem::take(&mut self.known.doubtful);
        // What still waits is older than an answer to a question asked now: it would undo that.
        if self.resync && progress.drained {
            self.resyncs += 1;
            self.resync = self.resynchronise(events).is_err();
            self.errors += u64::from(self.resync);
        }
    }

    fn due(&mut self) -> bool {
        if self.hot > 0 {
            self.hot -= 1;
            return true;
        }
        self.cold = (self.cold + 1) % COLD_EVERY;
        self.cold == 0
    }

    /// Asks for everything and tells the difference to what the owner knows.
    fn resynchronise(&mut self, events: &mut Vec<NetEvent>) -> io::Result<()> {
        let mut facts = self.requests.dump(libc::RTM_GETLINK, &[0; 16])?;
        if self.scope == Scope::All {
            facts.extend(self.requests.dump(libc::RTM_GETADDR, &[0; 8])?);
            facts.extend(self.requests.dump(libc::RTM_GETROUTE, &[0; 12])?);
            facts.extend(self.requests.dump(libc::RTM_GETNEIGH, &[0; 12])?);
        }
        self.known.begin_sweep();
        for fact in facts {
            self.known.learn(self.ifindex, fact, events);
        }
        self.known.end_sweep(events);
        // What the dump itself made doubtful, it has answered.
        self.known.doubtful = false;
        Ok(())
    }

    /// Ask the kernel to find the link-layer address of `addr`. The answer comes as an event of a later
    /// [`Monitor::poll`], also when it was known already.
    pub fn resolve(&mut self, addr: Addr) {
        self.hot = HOT;
        self.known.expect(addr);
        let mut body = [0; 12];
        body[0] = family(addr);
        body[4..8].copy_from_slice(&self.ifindex.to_ne_bytes());
        body[10] = libc::NTF_USE;
        let flags = libc::NLM_F_CREATE | libc::NLM_F_ACK;
        let request = Request::new(libc::RTM_NEWNEIGH, flags, &body).address(libc::NDA_DST, addr);
        // Without privilege over the network the kernel refuses; a datagram has the same effect.
        if self.requests.request(request).is_err() && self.prod(addr).is_err() {
            self.errors += 1;
        }
    }

    /// Send an empty datagram to the discard port (RFC 863): the kernel resolves the neighbour to send it.
    fn prod(&self, addr: Addr) -> io::Result<()> {
        let to = SockAddr::new(addr, 9, self.ifindex);
        let socket = sys::socket(to.family(), libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0)?;
        sys::bind_to_interface(socket.as_raw_fd(), self.ifindex)?;
        let (to, len) = to.raw();
        // SAFETY: no bytes are read; `to` points to a socket address of `len` bytes.
        sys::check_len(unsafe { libc::sendto(socket.as_raw_fd(), std::ptr::null(), 0, 0, to, len) }).map(drop)
    }

    /// Counters, name and value.
    pub fn stats(&self) -> [(&'static str, u64); 2] {
        [("netlink_resyncs", self.resyncs), ("netlink_errors", self.errors)]
    }
}

/// Takes any bytes for a datagram of the kernel, for fuzzing: nothing may panic, and what is told must be in
/// order.
pub(crate) fn fuzz(datagram: &[u8]) {
    let mut known = Known::new(false);
    let mut events = Vec::new();
    for fact in message::Messages(datagram).filter_map(|message| Fact::of(&message)) {
        known.learn(datagram.first().copied().unwrap_or(0).into(), fact, &mut events);
    }
    known.begin_sweep();
    known.end_sweep(&mut events);
    for event in &events {
        if let NetEvent::AddrAdded { addr, prefix } | NetEvent::RouteAdded(Route { dst: addr, prefix, .. }) =
            *event
        {
            assert!(prefix <= if addr.is_v4() { 32 } else { 128 });
        }
    }
}
