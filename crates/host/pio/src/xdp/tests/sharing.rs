//! Goal: the kernel and we share one interface and one address, and each gets what is its own.

use super::host::{Cable, OURS, OURS6, PEER, listener, resolve};
use crate::Claims;
use crate::tests::testnet::Wait;
use crate::tests::testnet::{Puppet, addr};
use crate::xdp::XdpPort;
use crate::{ClaimError, PacketIo, PortClaim, RxBatch};
use base::{Addr, Duration};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;

/// The remote host connects and reads until the end.
fn fetch(to: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(2))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// An ordinary server of the kernel's that greets every program.
fn greeter(at: &str, port: u16) -> std::io::Result<()> {
    let listener = TcpListener::bind((at, port))?;
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that went away is no matter of ours.
            let _ = stream.and_then(|mut s| s.write_all(b"kernel"));
        }
    });
    Ok(())
}

/// All that waits in the port's rings.
fn drain(port: &mut XdpPort) -> Vec<Vec<u8>> {
    let mut batch = RxBatch::new();
    let mut packets = Vec::new();
    while port.rx(&mut batch).unwrap() > 0 {
        for packet in batch.drain(..) {
            packets.push(packet.frame.data().to_vec());
            port.retire(packet.frame);
        }
    }
    packets
}

#[test]
fn the_kernel_keeps_what_was_not_claimed() {
    let Some(cable) = Cable::new(1, 1500) else { return };
    greeter("0.0.0.0", 22).unwrap();
    let Some(mut port) = cable.port() else { return };
    port.claim(&listener(80)).unwrap();
    let to = |port| SocketAddr::new(OURS.parse().unwrap(), port);
    cable.on_peer(|| {
        assert_eq!(fetch(to(22)).unwrap(), "kernel");
        let refused = TcpStream::connect_timeout(&to(23), Duration::from_secs(2)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        for host in [OURS, OURS6] {
            let ping = Command::new("ping").args(["-c1", "-W2", host]).output().unwrap();
            assert!(ping.status.success(), "{host}: {}", String::from_utf8_lossy(&ping.stdout));
        }
    });
    let udp = UdpSocket::bind((OURS, 80)).unwrap();
    udp.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    cable.on_peer(|| UdpSocket::bind((PEER, 0)).unwrap().send_to(b"udp", (OURS, 80)).unwrap());
    assert_eq!(udp.recv(&mut [0; 9]).unwrap(), 3);
    assert!(drain(&mut port).is_empty(), "something was steered to us");
}

#[test]
fn a_port_has_one_owner() {
    let Some(cable) = Cable::new(1, 1500) else { return };
    greeter("0.0.0.0", 22).unwrap();
    greeter(OURS, 23).unwrap();
    let Some(mut port) = cable.port() else { return };
    let in_use = |result| assert!(matches!(result, Err(ClaimError::InUse)), "{result:?}");
    let exact = |text: &str, number| PortClaim { addr: addr(text), ..listener(number) };

    // The kernel was first.
    in_use(port.claim(&listener(22)));
    in_use(port.claim(&listener(23)));
    in_use(port.claim(&exact(OURS, 22)));
    in_use(port.claim(&PortClaim { ephemeral: true, ..exact(OURS, 23) }));
    port.claim(&exact(OURS6, 23)).unwrap();

    // We were first, and an option does not get past us.
    port.claim(&listener(80)).unwrap();
    port.claim(&exact(OURS, 81)).unwrap();
    for number in [80, 81] {
        // `TcpListener::bind` sets SO_REUSEADDR.
        assert_eq!(TcpListener::bind(("0.0.0.0", number)).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert_eq!(TcpListener::bind((OURS, number)).unwrap_err().kind(), ErrorKind::AddrInUse);
    }
    greeter("127.0.0.1", 81).unwrap();
    in_use(port.claim(&listener(80)));
    in_use(port.claim(&exact(OURS, 80)));
    in_use(port.claim(&PortClaim { reuse_port: true, ..listener(80) }));

    // IPv6 stands for both families unless it is told not to.
    let any6 = |number, v6_only| PortClaim { addr: Addr::UNSPECIFIED_V6, v6_only, ..listener(number) };
    port.claim(&listener(82)).unwrap();
    in_use(port.claim(&any6(82, false)));
    port.claim(&any6(82, true)).unwrap();
    port.claim(&any6(83, false)).unwrap();
    in_use(port.claim(&exact(OURS, 83)));
    assert_eq!(TcpListener::bind((OURS, 83)).unwrap_err().kind(), ErrorKind::AddrInUse);
    port.release(&any6(83, false));
    greeter(OURS, 83).unwrap();

    // Those that want to share do, in any order, and the last one turns off the light.
    let share = |addr| PortClaim { addr, reuse_port: true, ..listener(90) };
    for claim in [share(addr(OURS)), share(Addr::UNSPECIFIED_V4), share(addr(OURS)), share(addr(OURS))] {
        port.claim(&claim).unwrap();
    }
    in_use(port.claim(&listener(90)));
    port.release(&share(Addr::UNSPECIFIED_V4));
    for _ in 0..3 {
        assert_eq!(TcpListener::bind((OURS, 90)).unwrap_err().kind(), ErrorKind::AddrInUse);
        port.release(&share(addr(OURS)));
    }
    greeter("0.0.0.0", 90).unwrap();
    assert_eq!(cable.on_peer(|| fetch((Ipv4Addr::new(10, 9, 0, 1), 90).into())).unwrap(), "kernel");
}

#[test]
fn connections_in_time_wait_do_not_hold_a_port() {
    let Some(cable) = Cable::new(1, 1500) else { return };
    let before = TcpListener::bind((OURS, 8080)).unwrap();
    std::thread::scope(|scope| {
        let client = scope.spawn(|| cable.on_peer(|| fetch((Ipv4Addr::new(10, 9, 0, 1), 8080).into())));
        // The server closes first, so TIME-WAIT is its own.
        before.accept().unwrap();
        client.join().unwrap().unwrap();
    });
    drop(before);
    let Some(mut port) = cable.port() else { return };
    port.claim(&listener(8080)).unwrap();
    assert_eq!(TcpListener::bind((OURS, 8080)).map(drop).unwrap_err().kind(), ErrorKind::AddrInUse);
}

#[test]
fn we_connect_to_a_kernel_server() {
    let Some(cable) = Cable::new(1, 1500) else { return };
    cable.on_peer(|| greeter("0.0.0.0", 7000)).unwrap();
    let Some(mut port) = cable.port() else { return };
    let mac = resolve(&mut port, PEER);
    let claim = PortClaim { addr: addr(OURS), ephemeral: true, ..listener(50_000) };
    port.claim(&claim).unwrap();
    let mut puppet = Puppet::new(port, addr(OURS), 50_000);
    puppet.peer_mac = Some(mac);
    puppet.connect(addr(PEER), 7000);
    assert!(puppet.run(|seen| seen.fin));
    assert_eq!(puppet.seen.received, b"kernel");
    assert!(!puppet.seen.reset);

    // The port comes back to us for nothing, and the kernel may connect from it, too.
    puppet.port.release(&claim);
    puppet.port.claim(&claim).unwrap();
    assert_eq!(fetch(SocketAddr::new(PEER.parse().unwrap(), 7000)).unwrap(), "kernel");
}

#[test]
fn errors_about_our_flows_reach_us() {
    let Some(cable) = Cable::new(1, 1500) else { return };
    let Some(mut port) = cable.port() else { return };
    port.claim(&listener(80)).unwrap();
    // "Fragmentation needed" with the first bytes of a packet that we (or the kernel) sent, from a raw
    // socket.
    let send = |from_port: u16| {
        let mut quoted = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2];
        quoted.extend(from_port.to_be_bytes());
        quoted.extend([0x30, 0x39, 0, 0, 0, 1]);
        let mut error = [&[3, 4, 0, 0, 0, 0, 5, 0][..], &quoted].concat();
        let sum = wire::checksum::Sum::of(&error).checksum();
        error[2..4].copy_from_slice(&sum.to_be_bytes());
        let socket = crate::sys::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP).unwrap();
        let to = crate::sys::SockAddr::new(addr(OURS), 0, 0);
        let (to, len) = to.raw();
        // SAFETY: the bytes are readable, the address is one of `len` bytes.
        let sent = unsafe {
            use std::os::fd::AsRawFd;
            libc::sendto(socket.as_raw_fd(), error.as_ptr().cast(), error.len(), 0, to, len)
        };
        assert_eq!(sent, error.len() as isize);
    };
    cable.on_peer(|| send(81));
    cable.on_peer(|| send(80));
    port.wait(Some(Duration::from_secs(2))).unwrap();
    let packets = drain(&mut port);
    assert_eq!(packets.len(), 1, "one error is ours, the other the kernel's");
    assert_eq!(packets[0][14 + 20..14 + 22], [3, 4]);
}
