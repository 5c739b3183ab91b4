//! A veth pair: our end in the calling thread's namespace, the other on an ordinary kernel host beside it.

use crate::netlink;
use crate::tests::testnet::{addr, another_namespace, own_namespace, this_namespace, within};
use crate::xdp::{XdpConfig, XdpPort, open_xdp_with};
use crate::{NetEvent, NetEvents, OpenError, PortClaim};
use base::Duration;
use std::fs::File;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;

/// Our address and the peer's, in both families.
pub(super) const OURS: &str = "10.9.0.1";
pub(super) const PEER: &str = "10.9.0.2";
pub(super) const OURS6: &str = "fd09::1";
pub(super) const PEER6: &str = "fd09::2";

/// Opens ports of interface `iface` as they are without options.
pub(super) fn open_xdp(iface: &str, queues: u16) -> Result<Vec<XdpPort>, OpenError> {
    open_xdp_with(iface, &XdpConfig { ports: queues, ..XdpConfig::default() })
}

pub(super) struct Cable {
    pub(super) here: File,
    pub(super) peer: File,
    pub(super) index: u32,
}

impl Cable {
    /// `None`, with the reason printed, without privilege.
    pub(super) fn new(queues: u16, mtu: usize) -> Option<Cable> {
        if !own_namespace() {
            return None;
        }
        let (here, peer) = (this_namespace(), another_namespace());
        let index = Cable::lay(&peer, queues, mtu, || {});
        Some(Cable { here, peer, index })
    }

    /// Lays the cable anew; `begun` runs while its ends are down and have no addresses.
    pub(super) fn again(&mut self, queues: u16, begun: impl FnOnce()) {
        self.index = Cable::lay(&self.peer, queues, 1500, begun);
    }

    fn lay(peer: &File, queues: u16, mtu: usize, begun: impl FnOnce()) -> u32 {
        let (index, other) = netlink::add_veth("x0", "x1", queues).unwrap();
        netlink::move_link(other, peer.as_fd()).unwrap();
        begun();
        netlink::set_link(index, true, Some(mtu)).unwrap();
        set_addresses(index);
        within(peer, || {
            let other = netlink::interface("x1").unwrap().unwrap().index;
            netlink::set_link(other, true, Some(mtu)).unwrap();
            netlink::add_address(other, addr(PEER), 24).unwrap();
            netlink::add_address(other, addr(PEER6), 64).unwrap();
        });
        // A first exchange, so that carrier and neighbours are no matter of the tests.
        let refused = within(peer, || {
            let to = SocketAddr::new(OURS.parse().unwrap(), 9);
            TcpStream::connect_timeout(&to, Duration::from_secs(5)).unwrap_err()
        });
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        index
    }

    pub(super) fn open(&self, config: &XdpConfig) -> Option<Vec<XdpPort>> {
        match open_xdp_with("x0", config) {
            Ok(ports) => Some(ports),
            Err(OpenError::Privilege { what, .. }) => {
                eprintln!("SKIPPED: no permission for {what}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// One port with its defaults.
    pub(super) fn port(&self) -> Option<XdpPort> {
        self.open(&XdpConfig::default()).and_then(|mut ports| ports.pop())
    }

    /// Runs `work` on the peer's host.
    pub(super) fn on_peer<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        within(&self.peer, work)
    }
}

/// Gives our end its addresses.
pub(super) fn set_addresses(index: u32) {
    netlink::add_address(index, addr(OURS), 24).unwrap();
    netlink::add_address(index, addr(OURS6), 64).unwrap();
}

/// A listener's claim of a port at every IPv4 address.
pub(super) fn listener(port: u16) -> PortClaim {
    PortClaim { addr: base::Addr::UNSPECIFIED_V4, port, reuse_port: false, ephemeral: false, v6_only: false }
}

/// Asks the kernel for the peer's link-layer address.
pub(super) fn resolve(port: &mut XdpPort, peer: &str) -> [u8; 6] {
    let peer = addr(peer);
    port.resolve(peer);
    for _ in 0..200 {
        let mut events = Vec::new();
        port.net_events(&mut events);
        let found = events.iter().find_map(|event| match *event {
            NetEvent::Neighbour { addr, mac } if addr == peer => Some(mac),
            _ => None,
        });
        if let Some(mac) = found {
            return mac;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{peer} does not resolve");
}
