//! Where a claim of a local port holds, and the kernel socket that keeps the port for it.

pub(crate) mod outgoing;

use crate::port::{ClaimError, PortClaim};
use crate::sys::{self, SockAddr, check};
use base::Addr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// In the mark of a port: every local IPv4 address is ours. Also the mark of the IPv4 family.
pub(crate) const ANY4: u64 = 1;
/// As [`ANY4`], for IPv6.
pub(crate) const ANY6: u64 = 2;
/// Some addresses at the port are ours.
pub(crate) const EXACT: u64 = 4;

/// A local port at one address or at all of them. Ports first, so that what concerns one port lies together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Place {
    pub(crate) port: u16,
    pub(crate) addr: Addr,
    /// `::`, and IPv4 too.
    pub(crate) dual: bool,
}

/// How a kernel socket is bound to a place.
#[derive(Clone, Copy, Default)]
pub(crate) struct Binding {
    /// Beside connections of the kernel in TIME-WAIT (SO_REUSEADDR).
    pub(crate) reuse: bool,
    /// Beside other sockets that consent (SO_REUSEPORT).
    pub(crate) consent: bool,
    /// Also to an address that the interface does not have yet.
    pub(crate) absent: bool,
}

impl Place {
    /// The place of a claim.
    pub(crate) fn of(claim: &PortClaim) -> Place {
        let PortClaim { addr, port, v6_only, .. } = *claim;
        Place { port, addr, dual: addr == Addr::UNSPECIFIED_V6 && !v6_only }
    }

    /// How well it fits a segment to `addr`; 0 is not at all.
    pub(crate) fn rank(&self, addr: Addr) -> u8 {
        match self.addr {
            own if own == addr => 3,
            own if !own.is_unspecified() => 0,
            own if own.is_v4() == addr.is_v4() => 2,
            _ => u8::from(self.dual),
        }
    }

    /// Is every segment to `other` one to `self` too?
    pub(crate) fn covers(&self, other: &Place) -> bool {
        self.port == other.port && self.rank(other.addr) > 0 && (self.dual || !other.dual)
    }

    /// Can a segment be to both?
    pub(crate) fn overlaps(&self, other: &Place) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// Returns the bits of the port's mark that stand for it.
    pub(crate) fn bits(&self) -> u64 {
        match (self.addr.is_unspecified(), self.addr.is_v4()) {
            (false, _) => EXACT,
            (true, true) => ANY4,
            (true, false) => ANY6 | if self.dual { ANY4 } else { 0 },
        }
    }

    /// Returns a kernel socket that is bound there, on interface `ifindex` alone: the same port on another one is not
    /// ours to take.
    pub(crate) fn bind(&self, ifindex: u32, how: Binding) -> io::Result<OwnedFd> {
        let addr = SockAddr::new(self.addr, self.port, ifindex);
        let socket = sys::socket(addr.family(), libc::SOCK_STREAM, 0)?;
        let fd = socket.as_raw_fd();
        sys::bind_to_interface(fd, ifindex)?;
        if addr.family() == libc::AF_INET6 {
            sys::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &i32::from(!self.dual))?;
        }
        // IPv6 has IP_FREEBIND from the same place.
        let options = [
            (how.reuse, libc::SOL_SOCKET, libc::SO_REUSEADDR),
            (how.consent, libc::SOL_SOCKET, libc::SO_REUSEPORT),
            (how.absent, libc::SOL_IP, libc::IP_FREEBIND),
        ];
        for (_, level, name) in options.into_iter().filter(|(on, ..)| *on) {
            sys::set_option(fd, level, name, &1_i32)?;
        }
        let (raw, len) = addr.raw();
        // SAFETY: `raw` points to a socket address of `len` bytes.
        check(unsafe { libc::bind(fd, raw, len) })?;
        Ok(socket)
    }
}

/// Returns the kernel's refusal of a port as an error of the claim.
pub(crate) fn refusal(error: io::Error) -> ClaimError {
    match error.raw_os_error() {
        Some(libc::EADDRINUSE) => ClaimError::InUse,
        Some(libc::EACCES | libc::EPERM) => ClaimError::Denied,
        _ => ClaimError::Os(error),
    }
}

/// Says why a link that shares `port` does not go to another interface.
pub(crate) fn sharing_ends(port: u16) -> String {
    format!("port {port} is shared by processes, which must meet anew")
}

#[cfg(test)]
mod tests;
