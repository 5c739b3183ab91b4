//! Goal: an ordinary host and a trivial TCP endpoint on our port exchange bytes, whatever the kernel makes of
//! the packets, and everything that was not claimed stays with the kernel.

use super::host::{Cable, OURS, OURS6, listener};
use crate::testnet::{Puppet, addr, pattern};
use crate::xdp::{XdpConfig, XdpMode};
use crate::{PacketIo, PortClaim};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// An ordinary host connects, sends `size` octets, shuts down its side and reads as many back.
fn client(to: SocketAddr, size: usize) {
    let mut stream = TcpStream::connect_timeout(&to, std::time::Duration::from_secs(5)).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
    stream.write_all(&pattern(size)).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    assert!(got == pattern(size), "{} octets of {size} came back, or others", got.len());
}

/// The other end of [`client`], on a port of ours.
fn serve(puppet: &mut Puppet<impl PacketIo>, size: usize) {
    assert!(puppet.run(|seen| seen.fin), "the client's end did not come");
    assert!(
        puppet.seen.received == pattern(size),
        "{} octets of {size}, or others",
        puppet.seen.received.len()
    );
    puppet.send(&pattern(size));
    puppet.finish();
    assert_eq!(puppet.seen.bad_checksum, 0);
    assert!(!puppet.seen.reset);
}

fn echo(config: &XdpConfig, mtu: usize, local: &str, size: usize) -> Option<crate::testnet::Seen> {
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

#[test]
fn echo_v4() {
    let Some(seen) = echo(&XdpConfig::default(), 1500, OURS, 300_000) else { return };
    assert!(seen.partial > 0, "a veth peer leaves checksums partial");
    assert_eq!(seen.gso, 0, "in native mode the peer cuts");
}

#[test]
fn echo_v6() {
    let Some(seen) = echo(&XdpConfig::default(), 1500, OURS6, 300_000) else { return };
    assert!(seen.partial > 0);
}

#[test]
fn echo_in_generic_mode() {
    let config = XdpConfig { mode: XdpMode::Generic, ..XdpConfig::default() };
    let Some(seen) = echo(&config, 1500, OURS, 1_000_000) else { return };
    assert!(seen.gso > 0 && seen.biggest > 1514, "super-segments arrive whole");
}

#[test]
fn echo_with_jumbo_frames() {
    let Some(seen) = echo(&XdpConfig::default(), 9000, OURS, 1_000_000) else { return };
    assert!(seen.biggest > 3840 && seen.gso == 0, "packets in two frames, none of them a super-segment");
}
