//! Goal: a kernel beyond a cable sees one host: our ports are ours alone, all others the kernel's; nothing is
//! answered twice; offloads are understood; everything goes back.

use super::*;
use crate::tests::testnet::Wait;
use crate::tests::testnet::{Puppet, addr, cable, own_namespace, pattern, within};
use base::Duration;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

pub(super) const LISTEN: PortClaim =
    PortClaim { addr: Addr::UNSPECIFIED_V4, port: 80, reuse_port: false, ephemeral: false, v6_only: false };

/// Choice among frames by a packet socket's filter and the look that follows it, without a socket.
pub(crate) struct Choice {
    claims: SilencedPorts,
    program: Vec<libc::sock_filter>,
}

impl Choice {
    /// Of packets to these, on interface `ifindex`.
    pub(crate) fn of(ifindex: u32, wanted: &[PortClaim]) -> Choice {
        let claims = SilencedPorts::new(ifindex, 1, 0).expect("a table");
        for claim in wanted {
            claims.claim(claim, 0).expect("granted");
        }
        let ports = wanted.iter().map(|claim| claim.port).collect::<std::collections::BTreeSet<_>>();
        Choice { claims, program: filter::ports(&filter::intervals(ports.into_iter()), &[]) }
    }

    /// Does the socket get this frame, and keep it?
    pub(crate) fn takes(&self, frame: &[u8]) -> bool {
        filter::tests::run(&self.program, frame, 0, 14) == filter::KEEP && self.claims.wants(frame)
    }
}

fn open_one() -> Packet {
    open_packet(&PacketConfig::new("ms-p0")).expect("a port").remove(0)
}

/// Returns the result of a connection attempt from the far side that nothing is to answer.
pub(super) fn attempt(far: &File, to: &str) -> Result<TcpStream, ErrorKind> {
    attempt_for(Duration::from_millis(300), far, to)
}

/// Returns the answer to a connection attempt from the far side, however long that takes.
pub(super) fn answer(far: &File, to: &str) -> Result<TcpStream, ErrorKind> {
    attempt_for(Duration::from_secs(30), far, to)
}

fn attempt_for(timeout: Duration, far: &File, to: &str) -> Result<TcpStream, ErrorKind> {
    let to: SocketAddr = to.parse().expect("an address");
    within(far, || TcpStream::connect_timeout(&to, timeout)).map_err(|error| error.kind())
}

/// A far client sends `up` bytes and reads `down` bytes.
fn serve(far: &File, to: SocketAddr, up: usize, down: usize) -> Puppet<Packet> {
    let mut port = open_one();
    let any = if to.is_ipv4() { Addr::UNSPECIFIED_V4 } else { Addr::UNSPECIFIED_V6 };
    port.claim(&PortClaim { addr: any, port: to.port(), ..LISTEN }).expect("granted");
    let mut puppet = Puppet::new(port, to.ip().into(), to.port());
    let client = || {
        within(far, || {
            let mut stream = TcpStream::connect(to).expect("connects");
            stream.write_all(&pattern(up)).expect("writes");
            let mut got = Vec::new();
            stream.read_to_end(&mut got).expect("reads");
            stream.shutdown(Shutdown::Write).expect("shuts down");
            got
        })
    };
    std::thread::scope(|scope| {
        let client = scope.spawn(client);
        assert!(puppet.run(|seen| seen.received.len() == up));
        assert_eq!(puppet.seen.received, pattern(up));
        puppet.send(&pattern(down));
        puppet.finish();
        assert!(puppet.run(|seen| seen.fin));
        assert_eq!(client.join().expect("client"), pattern(down));
    });
    assert_eq!((puppet.seen.bad_checksum, puppet.seen.unsteered, puppet.seen.reset), (0, 0, false));
    puppet
}

#[test]
fn serves_a_kernel_client() {
    if !own_namespace() {
        return;
    }
    let (_, far) = cable("ms-p0", "ms-p1", 8);
    for to in ["10.8.0.1:80", "[fd00:8::1]:80"] {
        let puppet = serve(&far, to.parse().unwrap(), 1 << 20, 1 << 20);
        let seen = &puppet.seen;
        assert!(seen.biggest > 20_000 && seen.gso > 0, "super-segments arrive whole: {}", seen.biggest);
        assert!(seen.partial > 0);
        let stats = puppet.port.stats();
        let count = |name| stats.iter().find(|stat| stat.0 == name).unwrap().1;
        assert!(count("tx_packets") < 1000, "super-segments leave whole: {stats:?}");
        assert_eq!(
            count("tx_dropped") + count("tx_invalid") + count("rx_malformed") + count("rx_truncated"),
            0
        );
    }
}

/// On an interface that cuts no super-segments (`ethtool -K IFACE tso off`, or a card that never does) the kernel drops
/// those that go straight to the driver.
#[test]
fn super_segments_leave_by_an_interface_that_does_not_cut() {
    if !own_namespace() {
        return;
    }
    let (_, far) = cable("ms-p0", "ms-p1", 8);
    let offload = |state: &str| {
        let told = std::process::Command::new("ethtool").args(["-K", "ms-p0", "tso", state]).output();
        told.map(|told| assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr)))
    };
    for (state, qdisc) in [("on", 0), ("off", 1)] {
        if offload(state).is_err() {
            eprintln!("SKIPPED: no ethtool");
            return;
        }
        for to in ["10.8.0.1:80", "[fd00:8::1]:80"] {
            let puppet = serve(&far, to.parse().unwrap(), 1000, 1 << 20);
            let stats = puppet.port.stats();
            let count = |name| stats.iter().find(|stat| stat.0 == name).unwrap().1;
            assert_eq!((count("tx_dropped"), count("tx_qdisc")), (0, qdisc), "tso {state}, {to}: {stats:?}");
        }
    }
}

/// A client whose kernel puts an option that may be ignored (RFC 8200, section 4.2) into a header of its own before
/// every segment.
#[test]
fn serves_a_kernel_client_behind_extension_headers() {
    if !own_namespace() {
        return;
    }
    let (index, far) = cable("ms-p0", "ms-p1", 8);
    let to = sys::SockAddr::new(addr("fd00:8::1"), 80, index);
    for (what, option) in [("hop-by-hop", libc::IPV6_HOPOPTS), ("destination", libc::IPV6_DSTOPTS)] {
        let mut port = open_one();
        port.claim(&PortClaim { addr: Addr::UNSPECIFIED_V6, ..LISTEN }).expect("granted");
        let mut puppet = Puppet::new(port, addr("fd00:8::1"), 80);
        let client = || {
            within(&far, || {
                let socket = sys::socket(libc::AF_INET6, libc::SOCK_STREAM, 0)?;
                let fd = socket.as_raw_fd();
                // PadN of six bytes in all.
                sys::set_option(fd, libc::IPPROTO_IPV6, option, &[0_u8, 0, 1, 4, 0, 0, 0, 0])?;
                let timeout = libc::timeval { tv_sec: 10, tv_usec: 0 };
                sys::set_option(fd, libc::SOL_SOCKET, libc::SO_SNDTIMEO, &timeout)?;
                let (raw, len) = to.raw();
                // SAFETY: `raw` points to a socket address of `len` bytes.
                sys::check(unsafe { libc::connect(fd, raw, len) })?;
                let mut stream = TcpStream::from(socket);
                stream.write_all(&pattern(100_000))?;
                stream.shutdown(Shutdown::Write)
            })
        };
        std::thread::scope(|scope| {
            let client = scope.spawn(client);
            let came = puppet.run(|seen| seen.fin);
            assert!(came, "{what}: {:?}", client.join().expect("client"));
        });
        assert_eq!(puppet.seen.received, pattern(100_000), "{what}");
        assert_eq!((puppet.seen.bad_checksum, puppet.seen.reset), (0, false), "{what}");
    }
}

#[test]
fn connects_to_a_kernel_server() {
    if !own_namespace() {
        return;
    }
    let (_, far) = cable("ms-p0", "ms-p1", 8);
    let server = within(&far, || TcpListener::bind("10.8.0.2:99").unwrap());
    let mut port = open_one();
    let claim = PortClaim { port: 40_001, ephemeral: true, ..LISTEN };
    port.claim(&claim).unwrap();
    let there = addr("10.8.0.2");
    port.resolve(there);
    let mac = (0..100).find_map(|_| {
        let mut events = Vec::new();
        port.net_events(&mut events);
        let mac = events.into_iter().find_map(|event| match event {
            NetEvent::Neighbour { addr, mac } if addr == there => Some(mac),
            _ => None,
        });
        mac.or_else(|| {
            port.wait(Some(Duration::from_millis(50))).unwrap();
            None
        })
    });
    let mut puppet = Puppet::new(port, addr("10.8.0.1"), 40_001);
    puppet.peer_mac = mac;
    puppet.connect(there, 99);
    assert!(puppet.run(|seen| seen.established));
    let (mut stream, from) = server.accept().unwrap();
    assert_eq!(from, "10.8.0.1:40001".parse().unwrap());
    stream.write_all(&pattern(20_000)).unwrap();
    assert!(puppet.run(|seen| seen.received.len() == 20_000));
    puppet.send(b"thanks");
    puppet.finish();
    drop(stream.shutdown(Shutdown::Write));
    assert!(puppet.run(|seen| seen.fin));
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!((answer.as_str(), puppet.seen.received), ("thanks", pattern(20_000)));
}

#[test]
fn kernel_is_silent_exactly_for_claims() {
    if !own_namespace() {
        return;
    }
    let (_, far) = cable("ms-p0", "ms-p1", 8);
    let mut port = open_one();
    let refused = |to: &str| assert_eq!(answer(&far, to).err(), Some(ErrorKind::ConnectionRefused), "{to}");
    let silent = |to: &str| assert_eq!(attempt(&far, to).err(), Some(ErrorKind::TimedOut), "{to}");
    refused("10.8.0.1:80");
    port.claim(&LISTEN).unwrap();
    silent("10.8.0.1:80");
    refused("10.8.0.1:81");
    refused("[fd00:8::1]:80");

    // An ephemeral claim on the same port may outlive the listener's, and keeps the kernel silent alone.
    let ephemeral = PortClaim { ephemeral: true, ..LISTEN };
    port.claim(&ephemeral).unwrap();
    port.release(&LISTEN);
    silent("10.8.0.1:80");
    port.release(&ephemeral);
    refused("10.8.0.1:80");

    // `::` takes both families, or with v6_only one.
    let both = PortClaim { addr: Addr::UNSPECIFIED_V6, ..LISTEN };
    let six = PortClaim { v6_only: true, ..both };
    port.claim(&six).unwrap();
    silent("[fd00:8::1]:80");
    refused("10.8.0.1:80");
    assert!(matches!(port.claim(&both), Err(ClaimError::InUse)));
    port.claim(&LISTEN).unwrap();
    silent("10.8.0.1:80");
    port.release(&LISTEN);
    port.release(&six);
    port.claim(&both).unwrap();
    silent("[fd00:8::1]:80");
    silent("10.8.0.1:80");
    assert!(matches!(port.claim(&LISTEN), Err(ClaimError::InUse)));
    port.release(&both);
    refused("[fd00:8::1]:80");

    // The kernel's own servers are left alone, and come first.
    let kernels = TcpListener::bind("10.8.0.1:82").unwrap();
    assert!(answer(&far, "10.8.0.1:82").is_ok());
    let request = PortClaim { port: 82, ..LISTEN };
    assert!(matches!(port.claim(&request), Err(ClaimError::InUse)));
    let exact = PortClaim { addr: addr("10.8.0.1"), ..request };
    assert!(matches!(port.claim(&exact), Err(ClaimError::InUse)));
    drop(kernels);
    port.claim(&exact).unwrap();
    assert_eq!(TcpListener::bind("10.8.0.1:82").err().unwrap().kind(), ErrorKind::AddrInUse);
    // Loopback is another interface, and the kernel's.
    assert!(TcpListener::bind("127.0.0.1:82").is_ok());
    silent("10.8.0.1:82");
    // The process ends, however it does.
    drop(port);
    refused("10.8.0.1:82");
    assert!(TcpListener::bind("10.8.0.1:82").is_ok());
}

#[test]
fn claims_exclude_each_other_but_by_consent() {
    if !own_namespace() {
        return;
    }
    let (_, far) = cable("ms-p0", "ms-p1", 8);
    let config = PacketConfig { queues: 2, ..PacketConfig::new("ms-p0") };
    let mut ports = open_packet(&config).unwrap();
    let mut stranger = open_one();
    let shared = PortClaim { reuse_port: true, ..LISTEN };
    ports[0].claim(&shared).unwrap();
    ports[1].claim(&shared).unwrap();
    assert!(matches!(ports[1].claim(&LISTEN), Err(ClaimError::InUse)));
    assert!(matches!(stranger.claim(&shared), Err(ClaimError::InUse)));
    let exact = PortClaim { addr: addr("10.8.0.1"), ..shared };
    ports[1].claim(&exact).unwrap();
    ports[0].release(&shared);
    ports[1].release(&shared);
    assert_eq!(attempt(&far, "10.8.0.1:80").err(), Some(ErrorKind::TimedOut));
    ports[1].release(&exact);
    ports[1].release(&exact);
    assert_eq!(answer(&far, "10.8.0.1:80").err(), Some(ErrorKind::ConnectionRefused));
    assert!(matches!(stranger.claim(&PortClaim { port: 0, ..LISTEN }), Err(ClaimError::Os(_))));
}

#[test]
fn queues_divide_the_work() {
    if !own_namespace() {
        return;
    }
    let (_, far) = cable("ms-p0", "ms-p1", 8);
    let config = PacketConfig { queues: 3, ..PacketConfig::new("ms-p0") };
    let mut ports = open_packet(&config).unwrap();
    ports[0].claim(&LISTEN).unwrap();
    // Stacks give a core the ports at its own distance from the start of the range.
    for (queue, port) in ports.iter_mut().enumerate() {
        for step in 0..20 {
            let claim = PortClaim { port: 33_000 + queue as u16 + 3 * step, ephemeral: true, ..LISTEN };
            port.claim(&claim).unwrap();
        }
    }
    let mut batch = RxBatch::new();
    for port in &mut ports {
        while port.rx(&mut batch).unwrap() > 0 {}
        batch.drain(..).for_each(|packet| port.retire(packet.frame));
    }
    for n in 0..60 {
        let to = SocketAddr::new("10.8.0.1".parse().unwrap(), 33_000 + n);
        let _ = within(&far, || TcpStream::connect_timeout(&to, Duration::from_millis(1)));
    }
    for (queue, port) in ports.iter_mut().enumerate() {
        let mut seen = std::collections::BTreeSet::new();
        while port.rx(&mut batch).unwrap() > 0 {}
        for packet in batch.drain(..) {
            let to = u16::from_be_bytes(packet.frame.data()[36..38].try_into().unwrap());
            assert_eq!(usize::from(to - 33_000) % 3, queue, "port {to}");
            seen.insert(to);
            port.retire(packet.frame);
        }
        assert_eq!(seen.len(), 20, "queue {queue} {:?}", port.stats());
    }
    for _ in 0..60 {
        let to = "10.8.0.1:80".parse().unwrap();
        let _ = within(&far, || TcpStream::connect_timeout(&to, Duration::from_millis(1)));
    }
    for port in &mut ports {
        let got = port.rx(&mut batch).unwrap();
        assert!(got > 5, "a listener's connections come to every queue: {got}");
        batch.drain(..).for_each(|packet| port.retire(packet.frame));
    }
}

#[test]
fn goes_down_and_comes_back() {
    if !own_namespace() {
        return;
    }
    let (index, far) = cable("ms-p0", "ms-p1", 8);
    let mut port = open_one();
    port.claim(&LISTEN).unwrap();
    let (mut events, mut batch) = (Vec::new(), RxBatch::new());
    port.net_events(&mut events);
    netlink::set_link(index, false, None).unwrap();
    assert!(matches!(port.rx(&mut batch), Err(IoError::Down)));
    let mut frame = port.take().unwrap();
    frame.set_range(frame.headroom(), 60);
    let mut request = TxBatch::from([TxPacket { frame, meta: TxMeta::default() }]);
    assert!(matches!(port.tx(&mut request), Err(IoError::Down)));
    assert_eq!(request.len(), 1, "kept for when the link is back");
    netlink::set_link(index, true, None).unwrap();
    let up = (0..200).any(|_| {
        events.clear();
        port.wait(Some(Duration::from_millis(10))).unwrap();
        port.net_events(&mut events);
        port.rx(&mut batch).is_ok()
    });
    assert!(up);
    assert_eq!(port.tx(&mut request).unwrap(), 1);
    // The far side may have to find out anew who we are.
    let heard = (0..20).any(|_| {
        assert_eq!(attempt(&far, "10.8.0.1:80").err(), Some(ErrorKind::TimedOut));
        port.rx(&mut batch).unwrap() > 0
    });
    assert!(heard, "claims are still in force");
}

#[test]
fn refusals_say_what_to_do() {
    if !own_namespace() {
        return;
    }
    let text = open_packet(&PacketConfig::new("ms-p9")).err().expect("refused").to_string();
    assert!(text.contains("no interface 'ms-p9'"), "{text}");
}
