//! `nic:IFACE`: an interface by the fastest way that is free.

use super::{OpenError, Ports, boxed};
use crate::nic::Nic;
use crate::packet::{PacketConfig, open_packet};
use crate::xdp::{XdpConfig, open_xdp_with};

/// AF_XDP, whose program has one owner on an interface; packet sockets, of which there may be many, where another
/// process owns it, or where privilege, kernel, driver or queues do not suffice.
///
/// Processes that `share` ports see each other's by packet sockets; the one that has AF_XDP has such a socket beside
/// it. Over several queues the two would not agree which core has a flow, so there are only packet sockets.
pub(super) fn open(iface: &str, queues: u16, whole: bool, share: u64) -> Result<Ports, OpenError> {
    let packet = || {
        let config = PacketConfig { queues, whole, share, ..PacketConfig::new(iface) };
        open_packet(&config).map(boxed)
    };
    if share != 0 && (queues > 1 || whole) {
        return packet();
    }
    match open_xdp_with(iface, &XdpConfig { ports: queues, whole, ..XdpConfig::default() }) {
        Ok(ports) if share == 0 => Ok(boxed(ports)),
        Ok(ports) => {
            let beside = open_packet(&PacketConfig { share, ..PacketConfig::new(iface) })?;
            Ok(boxed(ports.into_iter().zip(beside).map(|(xdp, beside)| Nic::new(xdp, beside)).collect()))
        }
        Err(error @ (OpenError::NoInterface { .. } | OpenError::Spec { .. })) => Err(error),
        Err(error) => {
            let ports = packet()?;
            // That another process has AF_XDP is how processes that share ports live together.
            if share == 0 || !matches!(error, OpenError::Busy { .. }) {
                eprintln!(
                    "millstream: nic:{iface} goes by packet sockets, for AF_XDP does not open: {error}"
                );
            }
            Ok(ports)
        }
    }
}
