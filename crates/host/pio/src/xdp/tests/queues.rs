//! Goal: every queue is served, by a port of its own or by one port for several.

use super::host::{Cable, OURS, listener};
use crate::xdp::{XdpConfig, XdpPort};
use crate::{PacketIo, RxBatch};
use base::Duration;
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};

const FLOWS: usize = 48;

/// The peer opens many flows that nobody answers; the source ports of the SYNs that each port saw.
fn flows(cable: &Cable, ports: &mut [XdpPort]) -> Vec<BTreeSet<u16>> {
    ports[0].claim(&listener(80)).unwrap();
    cable.on_peer(|| {
        let to = SocketAddr::new(OURS.parse().unwrap(), 80);
        for _ in 0..FLOWS {
            assert!(TcpStream::connect_timeout(&to, Duration::from_millis(1)).is_err());
        }
    });
    let mut batch = RxBatch::new();
    let mut seen = Vec::new();
    for port in ports {
        let mut sources = BTreeSet::new();
        while port.rx(&mut batch).unwrap() > 0 {
            for packet in batch.drain(..) {
                let data = packet.frame.data();
                sources.insert(u16::from_be_bytes([data[34], data[35]]));
                port.retire(packet.frame);
            }
        }
        seen.push(sources);
    }
    seen
}

#[test]
fn a_port_per_queue() {
    let Some(cable) = Cable::new(2, 1500) else { return };
    let Some(mut ports) = cable.open(&XdpConfig { ports: 2, ..XdpConfig::default() }) else { return };
    let caps: Vec<_> = ports.iter().map(|port| (port.caps().queue, port.caps().queues)).collect();
    assert_eq!(caps, [(0, 2), (1, 2)]);
    let seen = flows(&cable, &mut ports);
    assert_eq!(seen[0].len() + seen[1].len(), FLOWS);
    assert!(seen[0].is_disjoint(&seen[1]) && !seen[0].is_empty() && !seen[1].is_empty(), "{seen:?}");

    // The program stays while one port does, and its claims with it.
    drop(ports.pop());
    assert!(std::net::TcpListener::bind(("0.0.0.0", 80)).is_err());
    drop(ports);
    assert!(std::net::TcpListener::bind(("0.0.0.0", 80)).is_ok());
}

#[test]
fn one_port_for_all_queues() {
    let Some(cable) = Cable::new(3, 1500) else { return };
    let Some(mut ports) = cable.open(&XdpConfig::default()) else { return };
    assert_eq!(ports.len(), 1);
    assert_eq!(flows(&cable, &mut ports)[0].len(), FLOWS);
}
