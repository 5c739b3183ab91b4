//! `nic:IFACE`: an interface by the fastest way that is free.

use super::{OpenError, Ports, boxed};
use crate::packet::{PacketConfig, open_packet};
use crate::xdp::{XdpConfig, open_xdp_with};

/// AF_XDP, whose program has one owner on an interface; packet sockets, of which there may be many, where another
/// process owns it, or where privilege, kernel, driver or queues do not suffice.
///
/// Processes that `share` ports need packet sockets, which see what others' programs pass on.
pub(super) fn open(iface: &str, queues: u16, whole: bool, share: u64) -> Result<Ports, OpenError> {
    let packet = || {
        let config = PacketConfig { queues, whole, share, ..PacketConfig::new(iface) };
        open_packet(&config).map(boxed)
    };
    if share != 0 {
        return packet();
    }
    match open_xdp_with(iface, &XdpConfig { ports: queues, whole, ..XdpConfig::default() }) {
        Ok(ports) => Ok(boxed(ports)),
        Err(error @ (OpenError::NoInterface { .. } | OpenError::Spec { .. })) => Err(error),
        Err(_) => packet(),
    }
}
