//! Owner of an address: the link, or the kernel (loopback, other interfaces, the machine's own addresses).

use crate::stack::settings;
use capi::memory::can_read;
use libc::{c_int, sockaddr, socklen_t};
use sock::address::{self, Named};
use sock::{Loopback, Settings};
use std::ffi::{CStr, CString};
use std::net::{IpAddr, SocketAddr};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

/// How long what the interfaces' addresses were is good enough, in seconds.
const FRESH: i64 = 2;

/// The address of a call; `None` for what is no address of the internet: the kernel says what is wrong with it.
///
/// # Safety
/// C's contract for `addr` and `len`.
pub(crate) unsafe fn named(addr: *const sockaddr, len: socklen_t) -> Option<SocketAddr> {
    let len = (len as usize).min(128);
    if len < 16 || !can_read(addr, len) {
        return None;
    }
    // SAFETY: it can be read; no socket address is longer.
    let bytes = unsafe { std::slice::from_raw_parts(addr.cast::<u8>(), len) };
    match address::read(bytes) {
        Ok(Named::At(end)) => Some(end.into()),
        _ => None,
    }
}

/// Returns the address of a call on a socket of this family, if it is of that family, too: an IPv4 address for an IPv6
/// socket is mapped (RFC 4291, 2.5.5.2), and the scope may be missing.
///
/// # Safety
/// C's contract for `addr` and `len`.
pub(crate) unsafe fn named_for(v6: bool, addr: *const sockaddr, len: socklen_t) -> Option<SocketAddr> {
    let mut whole = [0_u8; 28];
    let len = len as usize;
    let least = if v6 { 24 } else { 16 };
    if !(least..=128).contains(&len) || !can_read(addr, len) {
        return None;
    }
    // SAFETY: it can be read.
    unsafe { std::ptr::copy_nonoverlapping(addr.cast::<u8>(), whole.as_mut_ptr(), len.min(28)) };
    let family = c_int::from(u16::from_ne_bytes([whole[0], whole[1]]));
    match address::read(&whole) {
        Ok(Named::At(end)) if family == if v6 { libc::AF_INET6 } else { libc::AF_INET } => Some(end.into()),
        _ => None,
    }
}

/// May a socket that is bound to `addr` be reached over the link?
pub(crate) fn is_on_link(addr: IpAddr) -> bool {
    let Some(settings) = settings() else { return false };
    match plain(addr) {
        addr if addr.is_unspecified() => true,
        addr if addr.is_loopback() => false,
        addr if settings.address.iter().any(|(own, _)| *own == addr) => true,
        addr => interface(settings).is_some_and(|link| {
            with_interfaces(|all| all.iter().any(|(of, own)| of == link && *own == addr))
        }),
    }
}

/// Does the stack listen at `addr`: on the link, or on a loopback of its own?
pub(crate) fn is_served(addr: IpAddr) -> bool {
    is_on_link(addr) || has_loopback() && plain(addr).is_loopback()
}

/// Are 127.0.0.0/8 and ::1 the stack's, too?
fn has_loopback() -> bool {
    settings().is_some_and(|settings| settings.loopback == Loopback::All)
}

/// Do connections to `addr` stay inside the stack, where something of this process listens there?
pub(crate) fn is_looped(addr: IpAddr) -> bool {
    let addr = plain(addr);
    if addr.is_loopback() || addr.is_unspecified() {
        return has_loopback();
    }
    settings().is_some_and(|settings| settings.loopback != Loopback::Off) && is_own(addr)
}

/// Is it an address of the link that the kernel has too: the machine itself, by its name on the link?
pub(crate) fn is_own(addr: IpAddr) -> bool {
    let addr = plain(addr);
    !addr.is_unspecified() && is_on_link(addr) && is_the_kernels(addr)
}

/// Is what is sent to `addr` the kernel's business: the machine itself?
pub(crate) fn is_the_kernels(addr: IpAddr) -> bool {
    let addr = plain(addr);
    addr.is_loopback()
        || addr.is_unspecified()
        || with_interfaces(|all| all.iter().any(|(_, own)| *own == addr))
}

/// IPv4 as such, however it is written.
fn plain(addr: IpAddr) -> IpAddr {
    addr.to_canonical()
}

/// The kernel's interface that the link stands on, if it shares the kernel's addresses.
fn interface(settings: &Settings) -> Option<&str> {
    let (kind, rest) = settings.link.split_once(':')?;
    matches!(kind, "xdp" | "packet" | "nic").then(|| rest.split(',').next().unwrap_or(rest))
}

/// Returns true if the link stands on the device of this index.
pub(crate) fn is_link(index: c_int) -> bool {
    settings().and_then(interface).is_some_and(|link| index_of(link) == index)
}

/// Returns true if the index is the loopback's.
pub(crate) fn is_loopback(index: c_int) -> bool {
    index_of("lo") == index
}

/// Returns the link's address over the kernel's loopback, the first of the family that routers know.
pub(crate) fn link_address(v6: bool) -> Option<IpAddr> {
    let settings = settings()?;
    let fits = |addr: &IpAddr| match addr {
        IpAddr::V4(_) => !v6,
        IpAddr::V6(addr) => v6 && !addr.is_unicast_link_local(),
    };
    let chosen = settings.address.iter().map(|(own, _)| *own).find(fits);
    chosen.or_else(|| {
        let link = interface(settings)?;
        with_interfaces(|all| all.iter().find(|(of, own)| of == link && fits(own)).map(|(_, own)| *own))
    })
}

/// The index of a device, or 0.
fn index_of(name: &str) -> c_int {
    // SAFETY: a string that ends in NUL.
    CString::new(name).map_or(0, |name| unsafe { libc::if_nametoindex(name.as_ptr()) } as c_int)
}

type Interfaces = Vec<(String, IpAddr)>;

/// Looks at interfaces and their addresses, as they were a moment ago.
fn with_interfaces<R>(look: impl FnOnce(&Interfaces) -> R) -> R {
    static KNOWN: Mutex<(i64, Interfaces)> = Mutex::new((i64::MIN, Vec::new()));
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let now = seconds();
    if known.0.saturating_add(FRESH) <= now {
        *known = (now, interfaces());
    }
    look(&known.1)
}

fn seconds() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    now.tv_sec
}

fn interfaces() -> Interfaces {
    let mut all = Vec::new();
    let mut list: *mut libc::ifaddrs = null_mut();
    // SAFETY: it puts a list there, or fails.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return all;
    }
    let mut at = list;
    // SAFETY: a list whose rows live until it is freed; addresses are as long as their family says.
    unsafe {
        while let Some(row) = at.as_ref() {
            let len = match row.ifa_addr.as_ref().map(|addr| i32::from(addr.sa_family)) {
                Some(libc::AF_INET) => 16,
                Some(libc::AF_INET6) => 28,
                _ => 0,
            };
            if let Some(addr) = named(row.ifa_addr, len) {
                all.push((CStr::from_ptr(row.ifa_name).to_string_lossy().into_owned(), addr.ip()));
            }
            at = row.ifa_next;
        }
        libc::freeifaddrs(list);
    }
    all
}
