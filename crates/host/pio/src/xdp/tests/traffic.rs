//! Goal: an ordinary host and a trivial TCP endpoint on our port exchange bytes, whatever the kernel makes of
//! the packets, and everything that was not claimed stays with the kernel.

use super::host::{Cable, OURS, OURS6, listener};
use crate::Claims;
use crate::tests::testnet::{Puppet, addr, pattern};
use crate::xdp::{XdpConfig, XdpMode};
use crate::{PacketIo, PortClaim};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// An ordinary host connects, sends `size` bytes, shuts down its side and reads as many back.
fn client(to: SocketAddr, size: usize) {
    let mut stream = TcpStream::connect_timeout(&to, std::time::Duration::from_secs(5)).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
    stream.write_all(&pattern(size)).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    assert!(got == pattern(size), "{} bytes of {size} came back, or others", got.len());
}

/// The other end of [`client`], on a port of ours.
fn serve(puppet: &mut Puppet<impl PacketIo>, size: usize) {
    assert!(puppet.run(|seen| seen.fin), "the client's end did not come");
    assert!(
        puppet.seen.received == pattern(size),
        "{} bytes of {size}, or others",
        puppet.seen.received.len()
    );
    puppet.send(&pattern(size));
    puppet.finish();
    assert_eq!(puppet.seen.bad_checksum, 0);
    assert!(!puppet.seen.reset);
}

fn echo(config: &XdpConfig, mtu: usize, local: &str, size: usize) -> Option<crate::tests::testnet::Seen> {
    let cable = Cable::new(1, mtu)?;
    let mut port = cable.open(config)?.pop()?;
    let local = addr(local);
    port.claim(&PortClaim { addr: base::Addr::UNSPECIFIED_V6, ..listener(7) }).unwrap();
    println!("native {} zero-copy {} {:?}", port.is_native(), port.is_zero_copy(), port.caps());
    let mut puppet = Puppet::new(port, local, 7);
    std::thread::scope(|scope| {
        let far = scope.spawn(|| cable.on_peer(|| client(SocketAddr::new(local.into(), 7), size)));
        serve(&mut puppet, size);
        far.join().unwrap();
    });
    println!("{:?}", puppet.port.stats());
    Some(puppet.seen)
}

fn within(mode: XdpMode) -> XdpConfig {
    XdpConfig { mode, ..XdpConfig::default() }
}

#[test]
fn echo_in_native_mode() {
    let Some(seen) = echo(&within(XdpMode::Native), 1500, OURS, 300_000) else { return };
    assert!(seen.partial > 0, "a veth peer leaves checksums partial");
    assert_eq!(seen.gso, 0, "in native mode the peer cuts");
    let Some(seen) = echo(&within(XdpMode::Native), 1500, OURS6, 300_000) else { return };
    assert!(seen.partial > 0);
}

#[test]
fn echo_in_generic_mode() {
    for ours in [OURS, OURS6] {
        let Some(seen) = echo(&within(XdpMode::Generic), 1500, ours, 1_000_000) else { return };
        assert!(seen.partial > 0, "a veth peer leaves checksums partial");
        assert!(seen.gso > 0 && seen.biggest > 1514, "super-segments arrive whole");
    }
}

#[test]
fn echo_with_jumbo_frames() {
    let Some(seen) = echo(&within(XdpMode::Native), 9000, OURS, 1_000_000) else { return };
    assert!(seen.biggest > 3840 && seen.gso == 0, "packets in two frames, none of them a super-segment");
}

/// Where the program runs on veth if nothing says where: in the network stack, unless the port is an end of a wire.
#[test]
fn the_mode_by_itself() {
    if !crate::xdp::lane::brings_long() {
        return eprintln!("SKIPPED: this kernel brings no packets of several buffers");
    }
    for whole in [false, true] {
        let Some(cable) = Cable::new(1, 1500) else { return };
        let Some(ports) = cable.open(&XdpConfig { whole, ..XdpConfig::default() }) else { return };
        let known = crate::netlink::interface("x0").unwrap().unwrap();
        assert!(known.super_max >= 1 << 16, "the kernel says how long super-segments may be");
        assert_eq!(ports[0].is_native(), whole);
        let said = |name| ports[0].stats().iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
        assert_eq!((said("xdp_native"), said("xdp_zero_copy")), (Some(whole.into()), Some(0)));
    }
}

#[test]
fn who_has_a_driver_of_its_own_is_asked_first() {
    use crate::xdp::bpf::sys::Hook;
    let device = |driver: &str, super_max| crate::xdp::device::Device {
        name: "x0".into(),
        index: 1,
        mtu: 1500,
        super_max,
        mac: [0; 6],
        queues: 2,
        driver: driver.into(),
        features: None,
    };
    let (card, veth, huge) = (device("ice", 65_536), device("veth", 65_536), device("veth", 180_000));
    let places = |mode, whole, ports, device| {
        crate::xdp::hooks(&XdpConfig { mode, whole, ports, ..XdpConfig::default() }, device)
    };
    let driver_first = [Hook::Native, Hook::Generic];
    assert_eq!(places(XdpMode::Auto, false, 1, &card), driver_first);
    assert_eq!(places(XdpMode::Auto, true, 1, &veth), driver_first);
    assert_eq!(places(XdpMode::Auto, false, 2, &veth), driver_first, "flows spread over queues");
    assert_eq!(places(XdpMode::Auto, false, 1, &huge), driver_first, "they could not be read");
    for device in [&card, &veth, &huge] {
        assert_eq!(places(XdpMode::Native, false, 1, device), [Hook::Native]);
        assert_eq!(places(XdpMode::Generic, false, 1, device), [Hook::Generic]);
    }
}

/// A packet socket's queue is the kernel's choice. Who steers flows by the queue that they were sent by (tun behind
/// virtio-net, Flow Director) would hand them to other cores, which answer with resets.
#[test]
fn several_cores_send_super_segments_by_their_own_queues_only() {
    use crate::xdp::{device::Device, has_supers, lane::Grant};
    let device = |driver: &str| Device {
        name: "x0".into(),
        index: 1,
        mtu: 1500,
        super_max: 65_536,
        mac: [0; 6],
        queues: 4,
        driver: driver.into(),
        features: None,
    };
    let sends = |driver, ports, zero_copy, tx_metadata| {
        let config = XdpConfig { ports, ..XdpConfig::default() };
        has_supers(&device(driver), &config, Grant { zero_copy, frags: false, tx_metadata, headroom: 0 })
    };
    assert!(sends("virtio_net", 1, false, true) && sends("veth", 4, false, true));
    assert!(!sends("virtio_net", 4, false, true) && !sends("i40e", 2, false, true));
    assert!(!sends("mlx5_core", 1, true, true), "no copies behind the driver's back");
    assert!(!sends("virtio_net", 1, false, false), "nothing fills in checksums");
}
