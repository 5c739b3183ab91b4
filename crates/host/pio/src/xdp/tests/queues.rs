//! Goal: every queue is served, by a port of its own or by one port for several.
#![allow(clippy::disallowed_methods)] // real interfaces take real time

use super::host::{Cable, OURS, listener};
use crate::tests::testnet::Wait;
use crate::xdp::{XdpConfig, XdpPort};
use crate::{Claims, NetEvents};
use crate::{PacketIo, RxBatch};
use base::Duration;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Instant;

const FLOWS: usize = 48;

/// The peer opens many flows that no peer answers; the source ports of the SYNs that each port saw.
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

/// Flows that the card brings to the queue of a core that ended reach the core that listens. None reaches the kernel,
/// which would refuse it.
#[test]
fn the_queue_of_a_core_that_ended_is_not_the_kernels() {
    let Some(cable) = Cable::new(2, 1500) else { return };
    let Some(ports) = cable.open(&XdpConfig { ports: 2, ..XdpConfig::default() }) else { return };
    let mut cores = crate::steer(ports, None).unwrap();
    cores[1].claim(&listener(80)).unwrap();
    drop(cores.remove(0));
    let core = &mut cores[0];
    cable.on_peer(|| {
        let to = SocketAddr::new(OURS.parse().unwrap(), 80);
        for _ in 0..FLOWS {
            let error = TcpStream::connect_timeout(&to, Duration::from_millis(1)).unwrap_err();
            assert_ne!(error.kind(), ErrorKind::ConnectionRefused);
        }
    });
    let (mut batch, mut sources) = (RxBatch::new(), BTreeSet::new());
    let begin = Instant::now();
    while sources.len() < FLOWS {
        assert!(begin.elapsed() < Duration::from_secs(20), "{} of {FLOWS} flows came", sources.len());
        core.net().unwrap().net_events(&mut Vec::new());
        core.wait(Some(Duration::from_millis(100))).unwrap();
        core.rx(&mut batch).unwrap();
        for packet in batch.drain(..) {
            let data = packet.frame.data();
            sources.insert(u16::from_be_bytes([data[34], data[35]]));
            core.retire(packet.frame);
        }
    }
    assert!(core.stats().iter().any(|&(name, count)| name == "steered_in" && count > 0), "one queue had all");
    drop(cores);
    assert!(std::net::TcpListener::bind(("0.0.0.0", 80)).is_ok(), "a program keeps the port");
}

#[test]
fn one_port_for_all_queues() {
    let Some(cable) = Cable::new(3, 1500) else { return };
    let Some(mut ports) = cable.open(&XdpConfig::default()) else { return };
    assert_eq!(ports.len(), 1);
    assert_eq!(flows(&cable, &mut ports)[0].len(), FLOWS);
}

/// `ethtool -L x0`, in the caller's namespace. False, with the reason printed, without that program.
fn set_queues(queues: u16) -> bool {
    let queues = queues.to_string();
    let Ok(output) = Command::new("ethtool").args(["-L", "x0", "rx", &queues, "tx", &queues]).output() else {
        eprintln!("SKIPPED: no ethtool");
        return false;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    true
}

#[test]
fn queues_that_come_later_are_served() {
    let Some(cable) = Cable::new(4, 1500) else { return };
    if !set_queues(2) {
        return;
    }
    let error = crate::open("xdp:x0,mode=native", 1).map(drop).unwrap_err().to_string();
    assert!(error.contains("peer sends on more queues") || error.contains("sudo"), "{error}");
    let Some(mut ports) = cable.open(&XdpConfig { ports: 2, ..XdpConfig::default() }) else { return };
    ports[0].claim(&listener(80)).unwrap();
    set_queues(4);
    // What comes at the new queues is lost, and the kernel does not refuse it.
    cable.on_peer(|| {
        let to = SocketAddr::new(OURS.parse().unwrap(), 80);
        for _ in 0..16 {
            let error = TcpStream::connect_timeout(&to, Duration::from_millis(1)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
        }
    });
    let start = Instant::now();
    while ports.iter().any(|port| port.queue_count() < 2) {
        ports.iter_mut().for_each(|port| port.net_events(&mut Vec::new()));
        assert!(start.elapsed() < Duration::from_secs(10), "the new queues are not served");
    }
    // Those that came before are read, so that only new ones count.
    for port in &mut ports {
        let mut batch = RxBatch::new();
        while port.rx(&mut batch).unwrap() > 0 {
            batch.drain(..).for_each(|packet| port.retire(packet.frame));
        }
        port.release(&listener(80));
    }
    let seen = flows(&cable, &mut ports);
    assert_eq!(seen[0].len() + seen[1].len(), FLOWS, "{seen:?}");
}
