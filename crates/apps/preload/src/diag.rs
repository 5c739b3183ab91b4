//! The kernel's listeners, as it tells of them over sock_diag(7): is one of them fastened to the loopback interface, as
//! the kernel's part of a launched listener is?

use crate::limit;
use crate::real;
use crate::table;
use crate::threads;
use libc::{c_int, c_void};
use std::net::{IpAddr, SocketAddr};

/// struct nlmsghdr.
const HEADER: usize = 16;
/// struct inet_diag_req_v2.
const REQUEST: usize = HEADER + 56;
/// SOCK_DIAG_BY_FAMILY.
const BY_FAMILY: u16 = 20;
/// TCP_LISTEN.
const LISTEN: u32 = 10;
/// Place of `id` in struct inet_diag_msg, and in it of the port, the address and the interface.
const ID: usize = HEADER + 4;
const PORT: usize = ID;
const ADDRESS: usize = ID + 4;
const INTERFACE: usize = ID + 36;
/// Place of the attributes behind struct inet_diag_msg.
const ATTRIBUTES: usize = HEADER + 72;
/// INET_DIAG_SKV6ONLY.
const V6_ONLY: u16 = 11;
/// The number of the loopback interface in every network namespace.
const LOOPBACK: u32 = 1;

/// Does a listener for this address serve the loopback interface alone? `None` if the kernel does not say.
pub(crate) fn is_fastened(to: SocketAddr) -> Option<bool> {
    // SAFETY: numbers alone.
    let fd = limit::own(|| unsafe {
        real::socket(libc::AF_NETLINK, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, libc::NETLINK_INET_DIAG)
    });
    if fd < 0 {
        return None;
    }
    let fd = threads::hidden(fd);
    // A listener of IPv6 may take IPv4, too.
    let families = if to.ip().to_canonical().is_ipv4() {
        &[libc::AF_INET, libc::AF_INET6][..]
    } else {
        &[libc::AF_INET6]
    };
    let found = families.iter().try_fold(false, |found, family| Some(found | ask(fd, *family as u8, to)?));
    table::remove_hidden(fd);
    // SAFETY: a descriptor of ours that nothing else uses.
    unsafe { real::close(fd) };
    found
}

/// Returns the answer for the listeners of one family.
fn ask(fd: c_int, family: u8, to: SocketAddr) -> Option<bool> {
    let request = request(family, to.port());
    // SAFETY: as many bytes as are there.
    let sent = unsafe { real::send(fd, request.as_ptr().cast::<c_void>(), request.len(), 0) };
    if sent != request.len() as isize {
        return None;
    }
    let (mut found, mut room) = (false, [0_u8; 16 << 10]);
    loop {
        // SAFETY: as much room as is said.
        let got = unsafe { real::recv(fd, room.as_mut_ptr().cast::<c_void>(), room.len(), 0) };
        let mut rest = &room[..usize::try_from(got).ok().filter(|got| *got > 0)?];
        while rest.len() >= HEADER {
            let len = word(rest, 0)? as usize;
            let message = rest.get(..len).filter(|_| len >= HEADER)?;
            match c_int::from(half(message, 4)?) {
                libc::NLMSG_DONE => return Some(found),
                libc::NLMSG_ERROR => return None,
                _ => found |= is_on_loopback(message, to),
            }
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

fn request(family: u8, port: u16) -> [u8; REQUEST] {
    let mut request = [0; REQUEST];
    request[..4].copy_from_slice(&(REQUEST as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    request[HEADER] = family;
    request[HEADER + 1] = libc::IPPROTO_TCP as u8;
    request[HEADER + 4..HEADER + 8].copy_from_slice(&(1_u32 << LISTEN).to_ne_bytes());
    request[HEADER + 8..HEADER + 10].copy_from_slice(&port.to_be_bytes());
    request
}

/// Returns true for a listener on the loopback that hears what is sent to `to`.
fn is_on_loopback(message: &[u8], to: SocketAddr) -> bool {
    let here = message.get(PORT..PORT + 2) == Some(&to.port().to_be_bytes()[..]);
    here && word(message, INTERFACE) == Some(LOOPBACK) && hears(message, to.ip().to_canonical()) == Some(true)
}

fn hears(message: &[u8], to: IpAddr) -> Option<bool> {
    let address: [u8; 16] = message.get(ADDRESS..ADDRESS + 16)?.try_into().ok()?;
    let v4 = IpAddr::from([address[0], address[1], address[2], address[3]]);
    let is_v4 = message.get(HEADER).copied()? == libc::AF_INET as u8;
    let own = if is_v4 { v4 } else { IpAddr::from(address).to_canonical() };
    if !own.is_unspecified() || own.is_ipv4() == to.is_ipv4() {
        return Some(own == to || own.is_unspecified());
    }
    Some(own.is_ipv6() && !is_v6_only(message.get(ATTRIBUTES..)?))
}

fn is_v6_only(mut attributes: &[u8]) -> bool {
    while let (Some(len), Some(kind)) = (half(attributes, 0), half(attributes, 2)) {
        if kind == V6_ONLY {
            return attributes.get(4).is_some_and(|only| *only != 0);
        }
        attributes = attributes.get(usize::from(len.max(4)).next_multiple_of(4)..).unwrap_or_default();
    }
    false
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}
