//! The few changes to the kernel's network that APIs and tests need when no `ip` tool is at hand. All of
//! them need CAP_NET_ADMIN in the network namespace.

use super::message::{Request, family};
use super::socket::Socket;
use crate::sys::index_of;
use base::Addr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

fn ask(request: Request) -> io::Result<()> {
    Socket::open(0)?.request(request)
}

/// A link message about interface `ifindex` that changes `change` of its flags to `flags`.
fn link_request(kind: u16, more: i32, ifindex: u32, flags: i32, change: i32) -> Request {
    let mut body = [0; 16];
    body[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    body[8..12].copy_from_slice(&flags.to_ne_bytes());
    body[12..].copy_from_slice(&change.to_ne_bytes());
    Request::new(kind, libc::NLM_F_ACK | more, &body)
}

/// Put an interface up or down, and change its MTU if one is given.
pub fn set_link(ifindex: u32, up: bool, mtu: Option<usize>) -> io::Result<()> {
    let flags = if up { libc::IFF_UP } else { 0 };
    let request = link_request(libc::RTM_NEWLINK, 0, ifindex, flags, libc::IFF_UP);
    ask(match mtu.map(u32::try_from) {
        Some(mtu) => request.attribute(
            libc::IFLA_MTU,
            &mtu.map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?.to_ne_bytes(),
        ),
        None => request,
    })
}

/// Move an interface into another network namespace.
pub fn move_link(ifindex: u32, netns: BorrowedFd<'_>) -> io::Result<()> {
    let fd = netns.as_raw_fd().to_ne_bytes();
    ask(link_request(libc::RTM_NEWLINK, 0, ifindex, 0, 0).attribute(libc::IFLA_NET_NS_FD, &fd))
}

/// Delete an interface.
pub fn delete_link(ifindex: u32) -> io::Result<()> {
    ask(link_request(libc::RTM_DELLINK, 0, ifindex, 0, 0))
}

/// Make two virtual Ethernet interfaces joined by a cable, `queues` queues each; indices of both. Both are
/// down.
pub fn add_veth(name: &str, peer: &str, queues: u16) -> io::Result<(u32, u32)> {
    const VETH_INFO_PEER: u16 = 1;
    let c_name = |name: &str| [name.as_bytes(), &[0]].concat();
    let queues = u32::from(queues.max(1)).to_ne_bytes();
    let with_queues = |request: Request| {
        request.attribute(libc::IFLA_NUM_TX_QUEUES, &queues).attribute(libc::IFLA_NUM_RX_QUEUES, &queues)
    };
    let request = link_request(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL, 0, 0, 0)
        .attribute(libc::IFLA_IFNAME, &c_name(name));
    ask(with_queues(request).nest(libc::IFLA_LINKINFO, |info| {
        info.attribute(libc::IFLA_INFO_KIND, b"veth").nest(libc::IFLA_INFO_DATA, |data| {
            data.nest(VETH_INFO_PEER, |other| {
                with_queues(other.bytes(&[0; 16]).attribute(libc::IFLA_IFNAME, &c_name(peer)))
            })
        })
    }))?;
    Ok((index_of(name)?, index_of(peer)?))
}

/// Give an interface an address of the kernel's. IPv6 ones are usable at once, without looking for
/// duplicates.
pub fn add_address(ifindex: u32, addr: Addr, prefix: u8) -> io::Result<()> {
    ask(address_request(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_REPLACE, ifindex, addr, prefix))
}

/// Take an address away from an interface.
pub fn remove_address(ifindex: u32, addr: Addr, prefix: u8) -> io::Result<()> {
    ask(address_request(libc::RTM_DELADDR, 0, ifindex, addr, prefix))
}

fn address_request(kind: u16, flags: i32, ifindex: u32, addr: Addr, prefix: u8) -> Request {
    let mut body = [family(addr), prefix, libc::IFA_F_NODAD as u8, 0, 0, 0, 0, 0];
    body[4..].copy_from_slice(&ifindex.to_ne_bytes());
    let request = Request::new(kind, flags | libc::NLM_F_ACK, &body);
    request.address(libc::IFA_LOCAL, addr).address(libc::IFA_ADDRESS, addr)
}

/// Add a unicast route to the main table, or change the gateway of the one to the same destination.
pub fn add_route(ifindex: u32, dst: Addr, prefix: u8, gateway: Option<Addr>) -> io::Result<()> {
    ask(route_request(
        libc::RTM_NEWROUTE,
        libc::NLM_F_CREATE | libc::NLM_F_REPLACE,
        ifindex,
        dst,
        prefix,
        gateway,
    ))
}

/// Remove a unicast route from the main table.
pub fn remove_route(ifindex: u32, dst: Addr, prefix: u8, gateway: Option<Addr>) -> io::Result<()> {
    ask(route_request(libc::RTM_DELROUTE, 0, ifindex, dst, prefix, gateway))
}

fn route_request(
    kind: u16,
    flags: i32,
    ifindex: u32,
    dst: Addr,
    prefix: u8,
    gateway: Option<Addr>,
) -> Request {
    const RTPROT_STATIC: u8 = 4;
    let scope = if gateway.is_some() { libc::RT_SCOPE_UNIVERSE } else { libc::RT_SCOPE_LINK };
    let mut body = [0; 12];
    body[..2].copy_from_slice(&[family(dst), prefix]);
    body[4..8].copy_from_slice(&[libc::RT_TABLE_MAIN, RTPROT_STATIC, scope, libc::RTN_UNICAST]);
    let mut request = Request::new(kind, flags | libc::NLM_F_ACK, &body);
    request = request.attribute(libc::RTA_OIF, &ifindex.to_ne_bytes());
    if prefix > 0 {
        request = request.address(libc::RTA_DST, dst);
    }
    match gateway {
        Some(gateway) => request.address(libc::RTA_GATEWAY, gateway),
        None => request,
    }
}
