//! The kernel's listeners, as it tells of them over sock_diag(7): is one of them fastened to the loopback interface, as
//! the kernel's part of a launched listener is?

use crate::hooks::real;
use crate::limit;
use crate::table;
use crate::threads;
use libc::{c_int, c_void};
use std::net::SocketAddr;

/// struct nlmsghdr.
const HEADER: usize = 16;
/// struct inet_diag_req_v2.
const REQUEST: usize = HEADER + 56;
/// SOCK_DIAG_BY_FAMILY.
const BY_FAMILY: u16 = 20;
/// TCP_LISTEN.
const LISTEN: u32 = 10;
/// Place of `id` in struct inet_diag_msg, and in it of the port and of the interface.
const ID: usize = HEADER + 4;
const PORT: usize = ID;
const INTERFACE: usize = ID + 36;
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
    let found =
        families.iter().try_fold(false, |found, family| Some(found | ask(fd, *family as u8, to.port())?));
    table::remove_hidden(fd);
    // SAFETY: a descriptor of ours that nothing else uses.
    unsafe { real::close(fd) };
    found
}

/// Returns the answer for the listeners of one family.
fn ask(fd: c_int, family: u8, port: u16) -> Option<bool> {
    let request = request(family, port);
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
                _ => found |= is_on_loopback(message, port),
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

fn is_on_loopback(message: &[u8], port: u16) -> bool {
    let here = message.get(PORT..PORT + 2) == Some(&port.to_be_bytes()[..]);
    here && word(message, INTERFACE) == Some(LOOPBACK)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}
