//! Goal: whoever changes the MTU under a server takes no connection from it, also where the driver then forgets its
//! program.
#![allow(clippy::disallowed_methods)] // real interfaces take real time

use super::host::{Cable, OURS, listener};
use crate::tests::testnet::{Puppet, addr};
use crate::xdp::device::Device;
use crate::xdp::{NATIVE_FIRST, XdpConfig, XdpMode, XdpPort, open_ports};
use crate::{Claims, NetEvent, NetEvents, PacketIo, netlink};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

/// MTUs in turn.
const MTUS: [usize; 5] = [1400, 1500, 3000, 9000, 1500];

/// The peer connects to a server on the port.
fn connected(cable: &Cable, mut port: XdpPort) -> (Puppet<XdpPort>, TcpStream) {
    port.claim(&listener(80)).expect("granted");
    let mut puppet = Puppet::new(port, addr(OURS), 80);
    let to = SocketAddr::new(OURS.parse().expect("an address"), 80);
    let client = std::thread::scope(|scope| {
        let client = scope.spawn(|| cable.on_peer(|| TcpStream::connect(to).expect("connects")));
        assert!(puppet.run(|seen| seen.established));
        client.join().expect("client")
    });
    (puppet, client)
}

/// Lets an open connection receive after each change.
fn a_connection_goes_on(cable: &Cable, port: XdpPort) {
    let (mut puppet, mut client) = connected(cable, port);
    let mut sent = 0;
    for mtu in MTUS {
        netlink::set_link(cable.index, true, Some(mtu)).expect("changed");
        let mut events = Vec::new();
        while !events.iter().any(|event| matches!(event, NetEvent::Mtu(_))) {
            puppet.port.net_events(&mut events);
        }
        client.write_all(&[b'm'; 700]).expect("buffered");
        sent += 700;
        assert!(puppet.run(|seen| seen.received.len() == sent), "MTU {mtu}");
        assert!(!puppet.seen.reset, "MTU {mtu}");
    }
    assert!(puppet.port.stats().contains(&("returns", 0)), "the interface was there all the time");
}

/// The number of the program that the kernel shows on our end.
fn program_id() -> String {
    let shown = Command::new("ip").args(["link", "show", "x0"]).output().expect("ip runs").stdout;
    let shown = String::from_utf8(shown).expect("text");
    let (_, id) = shown.split_once("prog/xdp id ").expect("a program is there");
    id.split(' ').next().expect("a number").to_owned()
}

#[test]
fn a_change_of_the_mtu_loses_no_connection() {
    for mode in [XdpMode::Auto, XdpMode::Native, XdpMode::Generic] {
        let Some(cable) = Cable::new(1, 1500) else { return };
        let Some(mut ports) = cable.open(&XdpConfig { mode, ..XdpConfig::default() }) else { return };
        a_connection_goes_on(&cable, ports.remove(0));
        netlink::delete_link(cable.index).expect("deleted");
    }
}

#[test]
fn a_driver_that_forgets_its_program_is_given_it_again() {
    let Some(cable) = Cable::new(1, 1500) else { return };
    let config = XdpConfig { mode: XdpMode::Native, ..XdpConfig::default() };
    if cable.open(&config).is_none() {
        return;
    }
    let device = Device { driver: "vmxnet3".into(), ..Device::find("x0", false).expect("it is there") };
    let mut port = open_ports(&device, &config, NATIVE_FIRST).expect("opens").remove(0);
    let before = program_id();
    netlink::set_link(cable.index, true, Some(1300)).expect("changed");
    let mut events = Vec::new();
    while !events.contains(&NetEvent::Mtu(1300)) {
        port.net_events(&mut events);
    }
    let after = program_id();
    assert_ne!(before, after);
    for up in [false, true] {
        events.clear();
        netlink::set_link(cable.index, up, None).expect("changed");
        while !events.contains(&NetEvent::Link { up }) {
            port.net_events(&mut events);
        }
    }
    assert_ne!(after, program_id());
    a_connection_goes_on(&cable, port);
}

/// The driver takes its program no more: another place is found for it on the same interface.
#[test]
fn a_program_that_the_driver_refuses_goes_elsewhere() {
    let Some(cable) = Cable::new(1, 1500) else { return };
    let config = XdpConfig::default();
    if cable.open(&config).is_none() {
        return;
    }
    let device = Device::find("x0", false).expect("it is there");
    let port = open_ports(&device, &config, NATIVE_FIRST).expect("opens").remove(0);
    assert!(port.is_native());
    let (mut puppet, mut client) = connected(&cable, port);
    puppet.port.lose("as where the driver has refused it");
    while !puppet.port.stats().contains(&("returns", 1)) {
        puppet.port.net_events(&mut Vec::new());
    }
    assert!(!puppet.port.is_native());
    client.write_all(&[b'm'; 700]).expect("buffered");
    assert!(puppet.run(|seen| seen.received.len() == 700) && !puppet.seen.reset);
}
