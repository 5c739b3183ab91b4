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
mod tests {
    //! Goal: what the kernel says is read as it is meant, and nothing is made up where it says nothing.
    use super::*;

    /// An answer as the kernel writes it.
    fn answer(index: u32, attributes: &[(u16, u64)]) -> Vec<u8> {
        let mut request =
            Request::new(0, 0, &[DEV_GET, 1, 0, 0]).attribute(DEV_IFINDEX, &index.to_ne_bytes());
        for &(kind, value) in attributes {
            request = request.attribute(kind, &value.to_ne_bytes());
        }
        request.finish(1)[16..].to_vec()
    }

    #[test]
    fn a_yes_is_read_and_silence_is_a_no() {
        // mlx5 on Linux 6.12: everything, and TX_TIMESTAMP | TX_CHECKSUM.
        let yes = XdpFeatures::read(&answer(7, &[(DEV_XDP, 0x7b), (DEV_XSK, 3)]), 7).expect("an answer");
        assert!(yes.native() && yes.zero_copy() && yes.several_buffers() && yes.tx_checksum());
        // virtio_net on Linux 6.12: native XDP, and no word on AF_XDP.
        let silent = XdpFeatures::read(&answer(7, &[(DEV_XDP, 3)]), 7).expect("an answer");
        assert!(silent.native() && !silent.zero_copy() && !silent.tx_checksum());
        // igc: a time stamp alone is no checksum.
        let stamp = XdpFeatures::read(&answer(7, &[(DEV_XDP, 0x1b), (DEV_XSK, 1)]), 7).expect("an answer");
        assert!(!stamp.tx_checksum());
        assert_eq!(XdpFeatures::read(&answer(8, &[(DEV_XSK, 3)]), 7), None, "about another interface");
        assert_eq!(XdpFeatures::read(&[1, 1], 7), None);
        for cut in 0..answer(7, &[(DEV_XSK, 3)]).len() {
            let _ = XdpFeatures::read(&answer(7, &[(DEV_XSK, 3)])[..cut], 7);
        }
    }

    #[test]
    fn the_kernel_here_answers_for_the_loopback_interface() {
        let Ok(Some(lo)) = crate::netlink::interface("lo") else { return };
        // The family is as old as Linux 6.3; the loopback interface has no XDP of its own.
        if let Some(features) = xdp_features(lo.index).expect("ask") {
            assert!(!features.native() && !features.zero_copy() && !features.tx_checksum(), "{features:?}");
        }
        xdp_features(u32::MAX >> 1).expect_err("there is no such interface");
    }
}
