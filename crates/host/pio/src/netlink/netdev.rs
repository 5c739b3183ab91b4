//! The kernel's account of an interface's XDP abilities: the generic netlink family `netdev` (Linux 6.3;
//! Documentation/netlink/specs/netdev.yaml).

use super::message::{Attributes, Request, ne16, ne32};
use super::socket::Socket;
use std::io;

/// Attributes of the family `nlctrl`, which knows the numbers of all others.
const CTRL_GETFAMILY: u8 = 3;
const CTRL_FAMILY_ID: u16 = 1;
const CTRL_FAMILY_NAME: u16 = 2;

/// `NETDEV_CMD_DEV_GET` and the attributes of its answer.
const DEV_GET: u8 = 1;
const DEV_IFINDEX: u16 = 1;
const DEV_XDP: u16 = 3;
const DEV_ZC_MAX_SEGS: u16 = 4;
const DEV_RX_METADATA: u16 = 5;
const DEV_XSK: u16 = 6;

/// XDP capabilities of an interface's driver, as the kernel reports them. All fields are bit masks of the kernel's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct XdpFeatures {
    /// `enum netdev_xdp_act`: what the driver's XDP can do.
    pub xdp: u64,
    /// `enum netdev_xdp_rx_metadata`: what a program can learn of a received packet.
    pub rx_metadata: u64,
    /// `enum netdev_xsk_flags`: what the driver does for AF_XDP in zero-copy mode; 0 before Linux 6.8.
    pub xsk: u64,
    /// Most buffers of a packet in zero-copy mode; 0 if the kernel does not say.
    pub zero_copy_segments: u32,
}

impl XdpFeatures {
    /// `NETDEV_XDP_ACT_BASIC`: the driver runs XDP programs itself.
    pub fn native(&self) -> bool {
        self.xdp & 1 != 0
    }

    /// `NETDEV_XDP_ACT_XSK_ZEROCOPY`: AF_XDP without copies.
    pub fn zero_copy(&self) -> bool {
        self.xdp & 8 != 0
    }

    /// `NETDEV_XDP_ACT_RX_SG`: programs see packets in several buffers, as with an MTU beyond a page.
    pub fn several_buffers(&self) -> bool {
        self.xdp & 32 != 0
    }

    /// `NETDEV_XSK_FLAGS_TX_CHECKSUM`: in zero-copy mode the driver obeys a checksum request.
    pub fn tx_checksum(&self) -> bool {
        self.xsk & 2 != 0
    }

    /// Reads an answer: `struct genlmsghdr` and attributes. `None` if it is not about interface `index`.
    fn read(body: &[u8], index: u32) -> Option<XdpFeatures> {
        let mut features = XdpFeatures::default();
        let mut about = None;
        for (kind, value) in Attributes(body.get(GENERIC..)?) {
            match kind {
                DEV_IFINDEX => about = ne32(value, 0),
                DEV_XDP => features.xdp = ne64(value)?,
                DEV_ZC_MAX_SEGS => features.zero_copy_segments = ne32(value, 0)?,
                DEV_RX_METADATA => features.rx_metadata = ne64(value)?,
                DEV_XSK => features.xsk = ne64(value)?,
                _ => {}
            }
        }
        (about == Some(index)).then_some(features)
    }
}

/// Bytes of `struct genlmsghdr`: command, version, two of padding.
const GENERIC: usize = 4;

fn ne64(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|b| u64::from_ne_bytes(*b))
}

/// Asks the kernel about an interface of the caller's network namespace. `None` if the kernel has no such family
/// (before Linux 6.3), or says nothing that we understand.
///
/// # Errors
/// Those of the socket, and the kernel's refusals.
pub fn xdp_features(index: u32) -> io::Result<Option<XdpFeatures>> {
    let mut socket = Socket::open_on(libc::NETLINK_GENERIC, 0)?;
    let Some(family) = family(&mut socket)? else { return Ok(None) };
    let request = Request::new(family, 0, &[DEV_GET, 1, 0, 0]).attribute(DEV_IFINDEX, &index.to_ne_bytes());
    match socket.ask(family, request) {
        Ok(body) => Ok(XdpFeatures::read(&body, index)),
        // Of devices without any XDP the older kernels know nothing.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The number of the family `netdev`, if there is one.
fn family(socket: &mut Socket) -> io::Result<Option<u16>> {
    const NLCTRL: u16 = libc::GENL_ID_CTRL as u16;
    let request =
        Request::new(NLCTRL, 0, &[CTRL_GETFAMILY, 1, 0, 0]).attribute(CTRL_FAMILY_NAME, b"netdev\0");
    match socket.ask(NLCTRL, request) {
        Ok(body) => {
            let found = Attributes(body.get(GENERIC..).unwrap_or_default())
                .find(|&(kind, _)| kind == CTRL_FAMILY_ID)
                .and_then(|(_, value)| ne16(value, 0));
            Ok(found)
        }
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
