//! `nic:IFACE`: an interface by the fastest way that is free.

use super::{OpenError, Ports, boxed};
use crate::packet::{PacketConfig, open_packet};
use crate::xdp::{XdpConfig, open_xdp_with};

/// AF_XDP, whose program has one owner on an interface; packet sockets, of which there may be many, where another
/// process owns it, or where privilege, kernel, driver or queues do not suffice.
pub(super) fn open(iface: &str, queues: u16, whole: bool) -> Result<Ports, OpenError> {
    match open_xdp_with(iface, &XdpConfig { ports: queues, whole, ..XdpConfig::default() }) {
        Ok(ports) => Ok(boxed(ports)),
        Err(error @ (OpenError::NoInterface { .. } | OpenError::Spec { .. })) => Err(error),
        Err(_) => Ok(boxed(open_packet(&PacketConfig { queues, whole, ..PacketConfig::new(iface) })?)),
    }
}
