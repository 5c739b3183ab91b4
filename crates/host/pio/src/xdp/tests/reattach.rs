//! Goal: an interface that is deleted and made again is the old one to its ports: claims, queues and connections go on,
//! and no frame is lost; what cannot go on says so and leaves the ports to the kernel.
#![allow(clippy::disallowed_methods)] // real interfaces take real time

use super::host::{Cable, OURS, OURS6, listener, set_addresses};
use crate::packet::{PacketConfig, open_packet};
use crate::tests::testnet::Wait;
use crate::tests::testnet::{Puppet, addr};
use crate::xdp::{XdpConfig, XdpMode, XdpPort};
use crate::{Claims, NetEvents};
use crate::{IoError, NetEvent, PacketIo, PortClaim, RxBatch, TxBatch, TxMeta, TxPacket, netlink, sys};
use base::Duration;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

fn count(port: &XdpPort, name: &str) -> u64 {
    port.stats().iter().find(|row| row.0 == name).expect("a counter").1
}

/// Lets the port hear the news until `done`; returns false after ten seconds.
fn hear(port: &mut XdpPort, events: &mut Vec<NetEvent>, done: impl Fn(&mut XdpPort) -> bool) -> bool {
    (0..1000).any(|_| {
        port.net_events(events);
        done(port) || {
            port.wait(Some(Duration::from_millis(10))).expect("wait");
            false
        }
    })
}

/// Receives and forgets.
fn receive(port: &mut XdpPort) -> Result<usize, IoError> {
    let mut batch = RxBatch::new();
    let got = port.rx(&mut batch);
    batch.drain(..).for_each(|packet| port.retire(packet.frame));
    got
}

fn says_down(port: &mut XdpPort) -> bool {
    matches!(receive(port), Err(IoError::Down))
}

fn says_gone(port: &mut XdpPort) -> bool {
    matches!(receive(port), Err(IoError::Gone))
}

/// How the peer's kernel fails to connect.
fn attempt(cable: &Cable, host: &str, port: u16) -> ErrorKind {
    let to = SocketAddr::new(host.parse().unwrap(), port);
    let tried = cable.on_peer(|| TcpStream::connect_timeout(&to, Duration::from_millis(20)));
    tried.expect_err("no port answers").kind()
}

/// Tries to connect until one of the ports has heard a packet.
fn is_heard(cable: &Cable, host: &str, to: u16, ports: &mut [XdpPort]) -> bool {
    (0..20).any(|_| {
        assert_eq!(attempt(cable, host, to), ErrorKind::TimedOut, "{host} {to}");
        ports.iter_mut().any(|port| receive(port).expect("rx") > 0)
    })
}

fn broadcast(port: &mut XdpPort) -> TxPacket {
    let mut frame = port.take().expect("a frame");
    frame.set_range(frame.headroom(), 60);
    frame.data_mut().fill(0xff);
    TxPacket { frame, meta: TxMeta::default() }
}

/// Every frame is free or lent; how many there are.
fn frames(port: &XdpPort) -> u64 {
    assert_eq!(count(port, "frames_lost"), 0);
    count(port, "frames_free") + count(port, "frames_lent")
}

#[test]
fn ten_rounds_lose_no_frame_and_no_claim() {
    let (native, generic) = (XdpMode::Native, XdpMode::Generic);
    for (ports, queues, mode) in
        [(1, 1, XdpMode::Auto), (1, 1, native), (2, 2, native), (1, 3, native), (2, 2, generic)]
    {
        let Some(mut cable) = Cable::new(queues, 1500) else { return };
        let config = XdpConfig { ports, mode, ..XdpConfig::default() };
        let Some(mut all) = cable.open(&config) else { return };
        let (native, full) = (all[0].is_native(), frames(&all[0]));
        all[0].claim(&listener(80)).expect("granted");
        let exact = |host| PortClaim { addr: addr(host), ..listener(82) };
        all[0].claim(&exact(OURS)).expect("granted");
        all[0].claim(&exact(OURS6)).expect("granted");
        let from = PortClaim { ephemeral: true, v6_only: true, ..listener(33_000) };
        all[0].claim(&from).expect("granted");
        let mut events = Vec::new();
        all.iter_mut().for_each(|port| port.net_events(&mut events));
        for round in 1..=10 {
            // Some wait unread in rings while the interface goes.
            for _ in 0..4 {
                assert_eq!(attempt(&cable, OURS, 80), ErrorKind::TimedOut);
            }
            for port in &mut all {
                let mut batch: TxBatch = (0..8).map(|_| broadcast(port)).collect();
                assert_eq!(port.tx(&mut batch).expect("sent"), 8);
            }
            netlink::delete_link(cable.index).expect("deleted");
            for port in &mut all {
                assert!(hear(port, &mut events, says_down));
                assert_eq!((count(port, "down"), count(port, "returns")), (1, round - 1));
                assert!(hear(port, &mut events, |port| count(port, "frames_lent") == 0));
                assert_eq!(frames(port), full, "round {round}");
                let mut batch = TxBatch::from([broadcast(port)]);
                assert!(matches!(port.tx(&mut batch), Err(IoError::Down)));
                batch.drain(..).for_each(|packet| port.retire(packet.frame));
            }
            assert!(TcpListener::bind(("0.0.0.0", 80)).is_err(), "the port is kept meanwhile");
            events.clear();
            cable.again(queues, || {
                for port in &mut all {
                    assert!(hear(port, &mut events, |port| count(port, "returns") == round));
                }
            });
            for port in &mut all {
                assert!(hear(port, &mut events, |port| receive(port).is_ok()));
                assert_eq!((count(port, "down"), count(port, "gone_ms")), (0, 0));
                assert_eq!((port.caps().ifindex, port.is_native()), (Some(cable.index), native));
                assert_eq!(usize::from(queues / ports), port.queue_count());
                assert_eq!(frames(port), full, "round {round}");
                assert!(count(port, "frames_lent") > 0);
            }
            let back = NetEvent::AddrAdded { addr: addr(OURS), prefix: 24 };
            let told = (0..100).any(|_| {
                assert!(hear(&mut all[0], &mut events, |port| count(port, "down") == 0));
                events.contains(&back) || all[0].wait(Some(Duration::from_millis(50))).is_err()
            });
            assert!(told, "{events:?}");
            for (host, to) in [(OURS, 80), (OURS, 82), (OURS6, 82), (OURS, 33_000)] {
                assert!(is_heard(&cable, host, to, &mut all), "{host} {to}, round {round}");
            }
            for (host, to) in [(OURS, 81), (OURS6, 80), (OURS, 33_001)] {
                assert_eq!(attempt(&cable, host, to), ErrorKind::ConnectionRefused, "{host} {to}");
            }
            assert!(TcpListener::bind(("0.0.0.0", 80)).is_err());
        }
        all[0].release(&listener(80));
        assert_eq!(attempt(&cable, OURS, 80), ErrorKind::ConnectionRefused);
        drop(all);
        assert_eq!(attempt(&cable, OURS, 82), ErrorKind::ConnectionRefused);
        assert!(TcpListener::bind((OURS, 82)).is_ok());
        netlink::delete_link(cable.index).expect("deleted");
    }
}

#[test]
fn a_ring_with_a_count_that_cannot_be_is_opened_again() {
    let Some(cable) = Cable::new(1, 1500) else { return };
    let Some(mut port) = cable.port() else { return };
    port.claim(&listener(80)).expect("granted");
    let full = frames(&port);
    port.net_events(&mut Vec::new());
    for round in 1..=3 {
        port.lanes[0].spoil();
        assert!((0..100).any(|_| says_down(&mut port)), "round {round}");
        assert_eq!((count(&port, "rings_broken"), frames(&port)), (round, full));
        assert!(is_heard(&cable, OURS, 80, std::slice::from_mut(&mut port)), "round {round}");
        let mut batch: TxBatch = (0..8).map(|_| broadcast(&mut port)).collect();
        assert_eq!(port.tx(&mut batch).expect("sent"), 8);
    }
    assert_eq!((count(&port, "down"), count(&port, "returns")), (0, 0));
}

#[test]
fn an_open_connection_goes_on() {
    for mode in [XdpMode::Auto, XdpMode::Native] {
        let Some(mut cable) = Cable::new(1, 1500) else { return };
        let Some(mut ports) = cable.open(&XdpConfig { mode, ..XdpConfig::default() }) else { return };
        let mut port = ports.remove(0);
        port.claim(&listener(80)).expect("granted");
        let mut puppet = Puppet::new(port, addr(OURS), 80);
        let to = SocketAddr::new(OURS.parse().unwrap(), 80);
        let client = std::thread::scope(|scope| {
            let client = scope.spawn(|| cable.on_peer(|| TcpStream::connect(to).expect("connects")));
            assert!(puppet.run(|seen| seen.established));
            client.join().expect("client")
        });
        netlink::delete_link(cable.index).expect("deleted");
        let mut events = Vec::new();
        assert!(hear(&mut puppet.port, &mut events, says_down));
        (&client).write_all(b"while it is gone").expect("buffered");
        cable.again(1, || {
            assert!(hear(&mut puppet.port, &mut events, |port| count(port, "returns") == 1));
        });
        assert!(hear(&mut puppet.port, &mut events, |port| count(port, "down") == 0));
        assert!(puppet.run(|seen| seen.received.len() == 16), "the peer's kernel repeats what was lost");
        assert_eq!(puppet.seen.received, b"while it is gone");
        assert!(!puppet.seen.reset);
        netlink::delete_link(cable.index).expect("deleted");
    }
}

/// Another interface of the name refuses the mode that was asked for, or has fewer queues.
#[test]
fn another_kind_of_interface_is_met_as_at_start() {
    let bridge = || {
        let made = Command::new("ip").args(["link", "add", "x0", "type", "bridge"]).status();
        assert!(made.expect("ip runs").success());
        let index = sys::index_of("x0").expect("is there");
        netlink::set_link(index, true, None).expect("comes up");
        set_addresses(index);
        index
    };
    for (ports, mode) in [(1, XdpMode::Auto), (1, XdpMode::Native), (2, XdpMode::Auto)] {
        let Some(cable) = Cable::new(ports, 1500) else { return };
        let Some(mut all) = cable.open(&XdpConfig { ports, mode, ..XdpConfig::default() }) else { return };
        all[0].claim(&listener(80)).expect("granted");
        let mut events = Vec::new();
        netlink::delete_link(cable.index).expect("deleted");
        assert!(all.iter_mut().all(|port| hear(port, &mut events, says_down)));
        let index = bridge();
        if (ports, mode) == (1, XdpMode::Auto) {
            assert!(hear(&mut all[0], &mut events, |port| receive(port).is_ok()));
            assert!(!all[0].is_native());
            let fallback = all[0].caps().fallback.as_ref().expect("is told");
            assert!(fallback.contains("the driver (bridge) does not run the XDP program"), "{fallback}");
        } else {
            assert!(all.iter_mut().all(|port| hear(port, &mut events, says_gone)), "{ports} {mode:?}");
            assert!(TcpListener::bind(("0.0.0.0", 80)).is_ok(), "the kernel has the port");
        }
        netlink::delete_link(index).expect("deleted");
    }
}

#[test]
fn a_port_that_another_program_took_ends_it() {
    let Some(mut cable) = Cable::new(2, 1500) else { return };
    let Some(mut all) = cable.open(&XdpConfig { ports: 2, ..XdpConfig::default() }) else { return };
    all[0].claim(&listener(80)).expect("granted");
    all[1].claim(&listener(82)).expect("granted");
    let mut events = Vec::new();
    netlink::delete_link(cable.index).expect("deleted");
    assert!(all.iter_mut().all(|port| hear(port, &mut events, says_down)));
    let mut faster = None;
    cable.again(2, || {
        let mut port = open_packet(&PacketConfig::new("x0")).expect("a port").remove(0);
        port.claim(&listener(82)).expect("granted: it is free there");
        faster = Some(port);
    });
    assert!(all.iter_mut().all(|port| hear(port, &mut events, says_gone)));
    assert!(all.iter_mut().all(says_gone), "and says so again");
    assert_eq!(attempt(&cable, OURS, 80), ErrorKind::ConnectionRefused, "the kernel has it");
    assert_eq!(attempt(&cable, OURS, 82), ErrorKind::TimedOut, "the other program has its own");
}
