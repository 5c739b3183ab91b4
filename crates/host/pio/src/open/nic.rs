//! `nic:IFACE`: an interface by the fastest way that is free.

use super::kind::{Ports, boxed, rule_of, steered};
use crate::nic::Nic;
use crate::open_error::OpenError;
use crate::packet::{Packet, PacketConfig, open_packet};
use crate::xdp::{XdpConfig, open_xdp_with};

/// AF_XDP, whose program has one owner on an interface; packet sockets, of which there may be many, where another
/// process owns it, or where privilege, kernel, driver or queues do not suffice. Why is in [`crate::Caps::fallback`].
///
/// Processes that `share` ports see each other's by packet sockets; the one that has AF_XDP has such a socket beside
/// it. Over several queues the two would not agree which core has a flow, so there are only packet sockets.
pub(super) fn open(iface: &str, queues: u16, whole: bool, share: u64) -> Result<Ports, OpenError> {
    let packet = |why: String| {
        let config = PacketConfig { queues, whole, share, ..PacketConfig::new(iface) };
        let mut ports: Vec<Packet> = open_packet(&config)?;
        ports.iter_mut().for_each(|port| port.note_fallback(why.clone()));
        Ok(boxed(ports))
    };
    if share != 0 && (queues > 1 || whole) {
        return packet("processes that share ports over several queues do so by packet sockets".into());
    }
    match open_xdp_with(iface, &XdpConfig { ports: queues, whole, ..XdpConfig::default() }) {
        Ok(ports) => {
            if let Some(why) = ports.first().and_then(|port| crate::PacketIo::caps(port).fallback.as_ref()) {
                eprintln!("millstream: nic:{iface}: {why}");
            }
            if share == 0 {
                return if whole { Ok(boxed(ports)) } else { steered(ports, |_| rule_of(iface)) };
            }
            let beside = open_packet(&PacketConfig { share, ..PacketConfig::new(iface) })?;
            Ok(boxed(ports.into_iter().zip(beside).map(|(xdp, beside)| Nic::new(xdp, beside)).collect()))
        }
        Err(error @ (OpenError::NoInterface { .. } | OpenError::Spec { .. })) => Err(error),
        Err(error) => {
            let why = format!("AF_XDP does not open: {error}");
            let ports = packet(why.clone())?;
            // That another process has AF_XDP is how processes that share ports live together.
            if share == 0 || !matches!(error, OpenError::Busy { .. }) {
                eprintln!("millstream: nic:{iface} goes by packet sockets, for {why}");
            }
            Ok(ports)
        }
    }
}
