//! Goal: an interface that is deleted and made again is the old one to its port: what was claimed is claimed, what was
//! open goes on, on every queue; what cannot go on says so and leaves the ports to the kernel.

use super::super::tests::{LISTEN, answer, attempt};
use super::super::*;
use crate::tests::testnet::Wait;
use crate::tests::testnet::{
    Puppet, addr, another_namespace, cable, cable_to, own_namespace, this_namespace, within,
};
use base::Duration;
use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

const EXACT: PortClaim = PortClaim { port: 82, ..LISTEN };

fn count(port: &Packet, name: &str) -> u64 {
    port.stats().iter().find(|row| row.0 == name).expect("a counter").1
}

/// Lets the port hear the news until `done`; returns false after five seconds.
fn hear(port: &mut Packet, events: &mut Vec<NetEvent>, done: impl Fn(&mut Packet) -> bool) -> bool {
    (0..500).any(|_| {
        port.net_events(events);
        done(port) || {
            port.wait(Some(Duration::from_millis(10))).expect("wait");
            false
        }
    })
}

fn says_down(port: &mut Packet) -> bool {
    let mut batch = RxBatch::new();
    let said = matches!(port.rx(&mut batch), Err(IoError::Down));
    port.retire_all(&mut batch);
    said
}

fn says_gone(port: &mut Packet) -> bool {
    matches!(port.rx(&mut RxBatch::new()), Err(IoError::Gone))
}

/// Tries to connect until one of the ports has heard a packet to `port`.
fn is_heard(far: &std::fs::File, to: &str, ports: &mut [Packet]) -> bool {
    let mut batch = RxBatch::new();
    (0..20).any(|_| {
        assert_eq!(attempt(far, to).err(), Some(ErrorKind::TimedOut), "{to}");
        ports.iter_mut().any(|port| {
            let got = port.rx(&mut batch).expect("rx") > 0;
            port.retire_all(&mut batch);
            got
        })
    })
}

#[test]
fn claims_and_every_queue_come_back() {
    if !own_namespace() {
        return;
    }
    for queues in [1, 3] {
        let (index, far) = cable("ms-p0", "ms-p1", 8);
        let config = PacketConfig { queues, ..PacketConfig::new("ms-p0") };
        let mut ports = open_packet(&config).expect("ports");
        ports[0].claim(&LISTEN).expect("granted");
        ports[0].claim(&PortClaim { addr: addr("10.8.0.1"), ..EXACT }).expect("granted");
        ports[0].claim(&PortClaim { addr: addr("fd00:8::1"), ..EXACT }).expect("granted");
        // Connections leave from these: each queue has its own.
        for (queue, port) in ports.iter_mut().enumerate() {
            let from = PortClaim { port: 33_000 + queue as u16, ephemeral: true, ..LISTEN };
            port.claim(&from).expect("granted");
        }
        let mut events = Vec::new();
        ports.iter_mut().for_each(|port| port.net_events(&mut events));
        for round in 1..=3 {
            let gone = if round == 1 { index } else { sys::index_of("ms-p0").expect("is there") };
            netlink::delete_link(gone).expect("deleted");
            for port in &mut ports {
                assert!(hear(port, &mut events, says_down));
                assert_eq!((count(port, "down"), count(port, "returns")), (1, round - 1));
                // The socket that lost its interface does not end sleeps.
                hear(port, &mut events, |port| !matches!(port.wait(Some(Duration::ZERO)), Ok(Wake::Ready)));
                let mut frame = port.take().expect("a frame");
                frame.set_range(frame.headroom(), 60);
                let mut request = TxBatch::from([TxPacket { frame, meta: TxMeta::default() }]);
                assert!(matches!(port.tx(&mut request), Err(IoError::Down)));
                request.drain(..).for_each(|packet| port.retire(packet.frame));
                assert!(hear(port, &mut events, says_down));
            }
            events.clear();
            // The kernel is silent before it could answer a peer.
            let index = cable_to(&far, "ms-p0", "ms-p1", 8, || {
                for port in &mut ports {
                    assert!(hear(port, &mut events, |port| count(port, "returns") == round));
                    assert!(says_down(port));
                }
            });
            for port in &mut ports {
                assert!(hear(port, &mut events, |port| port.rx(&mut RxBatch::new()).is_ok()));
                assert_eq!((count(port, "down"), count(port, "gone_ms")), (0, 0));
                assert_eq!(port.caps().ifindex, Some(index));
                assert_eq!(
                    port.caps().mac,
                    netlink::interface("ms-p0").expect("asked").expect("is there").mac
                );
            }
            assert!(hear(&mut ports[0], &mut events, |_| true));
            let back = NetEvent::AddrAdded { addr: addr("10.8.0.1"), prefix: 24 };
            assert!(events.contains(&back), "{events:?}");
            for to in ["10.8.0.1:80", "10.8.0.1:82", "[fd00:8::1]:82"] {
                assert!(is_heard(&far, to, &mut ports), "{to}, round {round}");
            }
            for queue in 0..queues {
                let own = &mut ports[usize::from(queue)..=usize::from(queue)];
                assert!(is_heard(&far, &format!("10.8.0.1:{}", 33_000 + queue), own), "queue {queue}");
            }
            for to in ["10.8.0.1:81", "[fd00:8::1]:80"] {
                assert_eq!(answer(&far, to).err(), Some(ErrorKind::ConnectionRefused), "{to}");
            }
        }
        ports[0].release(&LISTEN);
        assert_eq!(answer(&far, "10.8.0.1:80").err(), Some(ErrorKind::ConnectionRefused));
        drop(ports);
        assert_eq!(answer(&far, "10.8.0.1:82").err(), Some(ErrorKind::ConnectionRefused));
        netlink::delete_link(sys::index_of("ms-p0").expect("is there")).expect("deleted");
    }
}

#[test]
fn an_open_connection_goes_on() {
    if !own_namespace() {
        return;
    }
    let (index, far) = cable("ms-p0", "ms-p1", 8);
    let mut port = open_packet(&PacketConfig::new("ms-p0")).expect("a port").remove(0);
    port.claim(&LISTEN).expect("granted");
    let mut puppet = Puppet::new(port, addr("10.8.0.1"), 80);
    let client = std::thread::scope(|scope| {
        let connects = || within(&far, || TcpStream::connect("10.8.0.1:80").expect("connects"));
        let client = scope.spawn(connects);
        assert!(puppet.run(|seen| seen.established));
        client.join().expect("client")
    });
    netlink::delete_link(index).expect("deleted");
    let mut events = Vec::new();
    assert!(hear(&mut puppet.port, &mut events, says_down));
    (&client).write_all(b"while it is gone").expect("buffered");
    cable_to(&far, "ms-p0", "ms-p1", 8, || {
        assert!(hear(&mut puppet.port, &mut events, |port| count(port, "returns") == 1));
    });
    assert!(hear(&mut puppet.port, &mut events, |port| count(port, "down") == 0));
    assert!(puppet.run(|seen| seen.received.len() == 16), "the peer's kernel repeats what was lost");
    assert_eq!(puppet.seen.received, b"while it is gone");
    assert!(!puppet.seen.reset);
}

#[test]
fn moved_away_and_back_it_goes_on() {
    if !own_namespace() {
        return;
    }
    let (index, far) = cable("ms-p0", "ms-p1", 8);
    let (here, away) = (this_namespace(), another_namespace());
    let mut port = open_packet(&PacketConfig::new("ms-p0")).expect("a port").remove(0);
    port.claim(&LISTEN).expect("granted");
    let mut events = Vec::new();
    port.net_events(&mut events);
    // Heard of at once, or only when it is back.
    for at_once in [true, false] {
        netlink::move_link(index, away.as_fd()).expect("moves");
        assert!(!at_once || hear(&mut port, &mut events, says_down));
        within(&away, || {
            netlink::move_link(sys::index_of("ms-p0").expect("is there"), here.as_fd()).expect("moves back");
        });
        let index = sys::index_of("ms-p0").expect("is there");
        netlink::set_link(index, true, None).expect("comes up");
        netlink::add_address(index, addr("10.8.0.1"), 24).expect("an address");
        assert!(hear(&mut port, &mut events, |port| count(port, "returns") == 1 + u64::from(!at_once)));
        assert!(hear(&mut port, &mut events, |port| port.rx(&mut RxBatch::new()).is_ok()));
        assert!(is_heard(&far, "10.8.0.1:80", std::slice::from_mut(&mut port)));
    }
}

#[test]
fn an_end_of_a_wire_comes_back() {
    if !own_namespace() {
        return;
    }
    let wire = || {
        let (near, far) = netlink::add_veth("ms-w0", "ms-w1", 1).expect("a cable");
        for index in [near, far] {
            netlink::set_link(index, true, None).expect("comes up");
        }
        near
    };
    let open = |name| {
        open_packet(&PacketConfig { whole: true, ..PacketConfig::new(name) }).expect("a port").remove(0)
    };
    let index = wire();
    let mut port = open("ms-w0");
    let mut events = Vec::new();
    port.net_events(&mut events);
    netlink::delete_link(index).expect("deleted");
    assert!(hear(&mut port, &mut events, says_down));
    wire();
    assert!(hear(&mut port, &mut events, |port| port.rx(&mut RxBatch::new()).is_ok()));
    assert_eq!(count(&port, "returns"), 1);
    let mut far = open("ms-w1");
    let mut frame = far.take().expect("a frame");
    frame.set_range(frame.headroom(), 60);
    frame.data_mut().fill(0x42);
    assert!(hear(&mut far, &mut events, |far| far.rx(&mut RxBatch::new()).is_ok()));
    let mut batch = TxBatch::from([TxPacket { frame, meta: TxMeta::default() }]);
    assert_eq!(far.tx(&mut batch).expect("sent"), 1);
    assert!(hear(&mut port, &mut events, |port| {
        let mut batch = RxBatch::new();
        port.rx(&mut batch).expect("rx");
        let came = batch.iter().any(|packet| packet.frame.data() == [0x42; 60]);
        port.retire_all(&mut batch);
        came
    }));
}

#[test]
fn a_port_that_another_program_took_ends_it() {
    if !own_namespace() {
        return;
    }
    let (index, far) = cable("ms-p0", "ms-p1", 8);
    let mut ports = open_packet(&PacketConfig { queues: 2, ..PacketConfig::new("ms-p0") }).expect("ports");
    ports[0].claim(&LISTEN).expect("granted");
    ports[0].claim(&EXACT).expect("granted");
    let mut events = Vec::new();
    netlink::delete_link(index).expect("deleted");
    assert!(ports.iter_mut().all(|port| hear(port, &mut events, says_down)));
    let mut faster = None;
    cable_to(&far, "ms-p0", "ms-p1", 8, || {
        let mut port = open_packet(&PacketConfig::new("ms-p0")).expect("a port").remove(0);
        port.claim(&EXACT).expect("granted: it is free there");
        faster = Some(port);
    });
    assert!(ports.iter_mut().all(|port| hear(port, &mut events, says_gone)));
    assert!(ports.iter_mut().all(says_gone), "and says so again");
    assert_eq!(answer(&far, "10.8.0.1:80").err(), Some(ErrorKind::ConnectionRefused), "the kernel has it");
    let up = |port: &mut Packet| port.rx(&mut RxBatch::new()).is_ok();
    assert!(faster.iter_mut().all(|port| hear(port, &mut events, up)));
    assert!(is_heard(&far, "10.8.0.1:82", faster.as_mut_slice()), "the other program has its own");
}
