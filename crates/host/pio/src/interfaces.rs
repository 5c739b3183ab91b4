//! Interfaces of this network namespace, as the C library tells of them.

use crate::netlink::{self, Interface};
use crate::open_error::OpenError;
use base::Addr;
use std::ffi::{CStr, CString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr::null_mut;

/// Returns true if there is an interface of this name.
#[must_use]
pub fn has_interface(name: &str) -> bool {
    let Ok(name) = CString::new(name) else { return false };
    // SAFETY: a string.
    unsafe { libc::if_nametoindex(name.as_ptr()) != 0 }
}

/// Returns the addresses of an interface.
#[must_use]
pub fn addresses_of(name: &str) -> Vec<IpAddr> {
    let mut found = Vec::new();
    let mut list: *mut libc::ifaddrs = null_mut();
    // SAFETY: it puts a list there, or fails.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return found;
    }
    let mut at = list;
    // SAFETY: a list whose rows live until it is freed; an address is as long as its family says.
    unsafe {
        while let Some(row) = at.as_ref() {
            let family = row.ifa_addr.as_ref().map_or(0, |addr| i32::from(addr.sa_family));
            if CStr::from_ptr(row.ifa_name).to_bytes() == name.as_bytes() {
                match family {
                    libc::AF_INET => {
                        let addr = row.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned();
                        found.push(Ipv4Addr::from(u32::from_be(addr.sin_addr.s_addr)).into());
                    }
                    libc::AF_INET6 => {
                        let addr = row.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned();
                        found.push(Ipv6Addr::from(addr.sin6_addr.s6_addr).into());
                    }
                    _ => {}
                }
            }
            at = row.ifa_next;
        }
        libc::freeifaddrs(list);
    }
    found
}

/// Refuses a port of a bridge or a bond: addresses and connections are those of the interface above. One that has
/// addresses of its own (in a VRF) is fit.
pub(crate) fn stands_alone(interface: &Interface) -> Result<(), OpenError> {
    let Some(master) = interface.master else { return Ok(()) };
    let link_local = |addr: &IpAddr| Addr::from(*addr).is_link_local_v6();
    if addresses_of(&interface.name).iter().any(|addr| !link_local(addr)) {
        return Ok(());
    }
    let above = netlink::interfaces().map_err(|e| OpenError::os("ask for the interfaces", e))?;
    let above = above.into_iter().find(|one| one.index == master).map_or("that".into(), |one| one.name);
    Err(OpenError::Unusable {
        what: format!("interface '{}'", interface.name),
        help: format!("it belongs to '{above}', which has the addresses; use nic:{above}"),
    })
}

#[cfg(test)]
mod tests;
