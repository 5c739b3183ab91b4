//! Goal: the XDP program decides as the plain words of `program.rs` do, for packets whole, cut and bent.

use super::super::bpf::sys::test_run;
use super::super::device::Device;
use super::super::steering::Loaded;
use crate::netlink;
use crate::packet::tests::Choice;
use crate::port::PortClaim;
use crate::sys;
use crate::tests::testnet::{addr, own_namespace};
use base::{Addr, Duration, Instant, Rng};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};

const PASS: u32 = 2;
const REDIRECT: u32 = 4;

/// The program with a socket to redirect to, in a namespace of this test's own.
struct Bench {
    loaded: Loaded,
    _socket: OwnedFd,
}

impl Bench {
    fn new() -> Option<Bench> {
        if !own_namespace() {
            return None;
        }
        let device = Device {
            name: "lo".into(),
            index: 1,
            mtu: 65536,
            super_max: 0,
            mac: [0; 6],
            queues: 1,
            driver: String::new(),
            features: None,
        };
        let loaded = match Loaded::new(&device, false) {
            Ok(loaded) => loaded,
            Err(crate::OpenError::Privilege { what, .. }) => {
                eprintln!("SKIPPED: no permission for {what}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let socket = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0).unwrap();
        loaded.serve(0, socket.as_raw_fd()).unwrap();
        for local in ["127.0.0.1", "10.0.0.1", "2001:db8::1"] {
            netlink::add_address(1, addr(local), if addr(local).is_v4() { 32 } else { 128 }).unwrap();
            loaded.claims.add_address(addr(local)).unwrap();
        }
        Some(Bench { loaded, _socket: socket })
    }

    fn claim(&self, local: &str, port: u16, ephemeral: bool) {
        let claim = PortClaim { addr: addr(local), port, reuse_port: false, ephemeral, v6_only: true };
        self.loaded.claims.claim(&claim).unwrap();
    }

    fn ours(&self, packet: &[u8]) -> bool {
        match test_run::run(&self.loaded.program, packet, 1).unwrap().0 {
            PASS => false,
            REDIRECT => true,
            other => panic!("action {other}"),
        }
    }
}

/// An Ethernet frame to us around an IP packet.
fn ether(ip: &[u8]) -> Vec<u8> {
    let kind: u16 = if ip[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], &kind.to_be_bytes()[..], ip].concat()
}

/// An IP packet with nothing right that the program does not look at.
fn ip(src: Addr, dst: Addr, protocol: u8, options: usize, payload: &[u8]) -> Vec<u8> {
    match (src.v4_bytes(), dst.v4_bytes()) {
        (Some(src), Some(dst)) => {
            let mut header = vec![0; 20 + options];
            header[0] = 0x45 + (options / 4) as u8;
            header[9] = protocol;
            header[12..16].copy_from_slice(&src);
            header[16..20].copy_from_slice(&dst);
            [&header[..], payload].concat()
        }
        _ => {
            let mut header = [0; 40];
            header[0] = 0x60;
            header[6] = protocol;
            header[8..24].copy_from_slice(&src.bytes());
            header[24..40].copy_from_slice(&dst.bytes());
            [&header[..], payload].concat()
        }
    }
}

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

fn tcp(src: u16, dst: u16, flags: u8) -> Vec<u8> {
    let mut header = vec![0; 20];
    header[..2].copy_from_slice(&src.to_be_bytes());
    header[2..4].copy_from_slice(&dst.to_be_bytes());
    header[12] = 0x50;
    header[13] = flags;
    header
}

fn icmp(kind: u8, quoted: &[u8]) -> Vec<u8> {
    [&[kind, 0, 0, 0, 0, 0, 0, 0], quoted].concat()
}

/// Plain model of the program; without sockets of the kernel's.
struct Oracle {
    locals: Vec<Addr>,
    /// Local address or any, port.
    listeners: Vec<(Addr, u16)>,
    shared: Vec<u16>,
}

impl Oracle {
    fn ours(&self, frame: &[u8]) -> bool {
        self.local_end(frame).is_some_and(|(local, port)| {
            let listens = self.listeners.iter().any(|&(addr, p)| {
                let any =
                    addr.is_unspecified() && addr.is_v4() == local.is_v4() && self.locals.contains(&local);
                p == port && (addr == local || any)
            });
            listens || self.shared.contains(&port) && local.is_v4() && self.locals.contains(&local)
        })
    }

    fn local_end(&self, frame: &[u8]) -> Option<(Addr, u16)> {
        if frame.first()? & 1 == 1 {
            return None;
        }
        let version = match frame.get(12..14)? {
            [0x08, 0x00] => 4,
            [0x86, 0xdd] => 6,
            _ => return None,
        };
        let (protocol, _, dst, payload) = split(frame.get(14..)?, version)?;
        let (protocol, payload) = if version == 6 { upper(protocol, payload)? } else { (protocol, payload) };
        if protocol == 6 {
            payload.get(..20)?;
            return Some((dst, u16::from_be_bytes([payload[2], payload[3]])));
        }
        let error = match (version, protocol) {
            (4, 1) => [3, 11, 12].contains(payload.first()?),
            (6, 58) => (1..=4).contains(payload.first()?),
            _ => false,
        };
        if !error {
            return None;
        }
        let (protocol, src, _, quoted) = split(payload.get(8..)?, version)?;
        quoted.get(..8)?;
        (protocol == 6).then(|| (src, u16::from_be_bytes([quoted[0], quoted[1]])))
    }
}

/// Protocol, source, destination, rest.
fn split(ip: &[u8], version: u8) -> Option<(u8, Addr, Addr, &[u8])> {
    let v4 = |at: usize| Addr::from(Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]));
    let v6 = |at: usize| Addr::from(Ipv6Addr::from(<[u8; 16]>::try_from(&ip[at..at + 16]).unwrap()));
    if version == 4 {
        ip.get(..20)?;
        let header = usize::from(ip[0] & 15) * 4;
        let later_fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff != 0;
        let fine = ip[0] >> 4 == 4 && header >= 20 && !later_fragment;
        return fine.then(|| Some((ip[9], v4(12), v4(16), ip.get(header..)?)))?;
    }
    ip.get(..40)?;
    (ip[0] >> 4 == 6).then(|| (ip[6], v6(8), v6(24), &ip[40..]))
}

/// Returns the header behind three IPv6 extension headers of up to 64 bytes at most; nothing for later fragments.
fn upper(mut protocol: u8, mut rest: &[u8]) -> Option<(u8, &[u8])> {
    for _ in 0..3 {
        if ![0, 43, 44, 60].contains(&protocol) {
            break;
        }
        let header = rest.get(..8)?;
        let len = if protocol == 44 { 0 } else { usize::from(header[1]) };
        if protocol == 44 && u16::from_be_bytes([header[2], header[3]]) & 0xfff8 != 0 || len > 7 {
            return None;
        }
        protocol = header[0];
        rest = rest.get(8 * (len + 1)..).unwrap_or_default();
    }
    Some((protocol, rest))
}

/// A segment behind extension headers, which the kernel would answer with a reset.
#[test]
fn segments_behind_extension_headers_are_ours() {
    let Some(bench) = Bench::new() else { return };
    bench.claim("::", 81, false);
    let (src, dst) = (addr("2001:db8::9"), addr("2001:db8::1"));
    let segment = tcp(5_000, 81, ACK);
    let extension = |next: u8, words: u8| {
        let mut header = vec![0; 8 * (usize::from(words) + 1)];
        header[..2].copy_from_slice(&[next, words]);
        header
    };
    for kind in [0, 43, 44, 60] {
        let packet = |next: u8, rest: &[u8]| ether(&ip(src, dst, next, 0, rest));
        let one = [&extension(6, 0)[..], &segment].concat();
        assert!(bench.ours(&packet(kind, &one)), "one of kind {kind}");
        let three = [&extension(60, 0)[..], &extension(60, 7), &extension(6, 3), &segment].concat();
        assert!(bench.ours(&packet(kind, &three)), "three, the first of kind {kind}");
        let udp = [&extension(17, 0)[..], &segment].concat();
        assert!(!bench.ours(&packet(kind, &udp)), "another protocol behind kind {kind}");
        let other = [&extension(6, 0)[..], &tcp(5_000, 82, ACK)].concat();
        assert!(!bench.ours(&packet(kind, &other)), "another port behind kind {kind}");
    }
}

#[test]
fn decides_like_the_oracle() {
    let Some(bench) = Bench::new() else { return };
    bench.claim("0.0.0.0", 80, false);
    bench.claim("::", 81, false);
    bench.claim("10.0.0.1", 82, false);
    bench.claim("2001:db8::1", 82, false);
    bench.claim("10.0.0.1", 40_000, true);
    let locals = ["127.0.0.1", "10.0.0.1", "2001:db8::1"].map(addr);
    let any4 = Addr::UNSPECIFIED_V4;
    let oracle = Oracle {
        locals: locals.to_vec(),
        listeners: vec![(any4, 80), (Addr::UNSPECIFIED_V6, 81), (locals[1], 82), (locals[2], 82)],
        shared: vec![40_000],
    };
    let seed = 7;
    let mut rng = Rng::new(seed);
    let (mut ours, mut kernel) = (0, 0);
    for round in 0..20_000 {
        let packet = random_packet(&mut rng);
        let expected = oracle.ours(&packet);
        if packet.len() >= 14 {
            assert_eq!(bench.ours(&packet), expected, "seed {seed} round {round}: {packet:02x?}");
        }
        if expected { ours += 1 } else { kernel += 1 }
    }
    assert!(ours > 2_000 && kernel > 2_000, "one-sided test: {ours} to {kernel}");
}

/// A port on a lease is ours until the lease ends, at each of its places; one that is claimed as well has none.
#[test]
fn a_lease_that_ran_out_leaves_the_port_to_the_kernel() {
    let Some(bench) = Bench::new() else { return };
    let at = |local, port| PortClaim {
        addr: addr(local),
        port,
        reuse_port: true,
        ephemeral: false,
        v6_only: true,
    };
    for (local, port) in [("0.0.0.0", 80), ("::", 80), ("10.0.0.1", 81), ("0.0.0.0", 82)] {
        bench.loaded.claims.steer(&at(local, port), true).unwrap();
    }
    bench.loaded.claims.claim(&at("::", 82)).unwrap();
    let now = sys::monotonic();
    let (past, future) = (Instant::from_nanos(now.as_nanos() - 20_000_000), now + Duration::from_secs(60));
    for (until, leased) in [(future, true), (past, false), (future, true)] {
        for (port, ours) in [(80, leased), (81, leased), (82, true)] {
            bench.loaded.claims.lease(port, until);
            let four = ip(addr("10.0.0.9"), addr("10.0.0.1"), 6, 0, &tcp(5_000, port, ACK));
            assert_eq!(bench.ours(&ether(&four)), ours, "{port}");
        }
        let six = ip(addr("2001:db8::9"), addr("2001:db8::1"), 6, 0, &tcp(5_000, 80, ACK));
        assert_eq!(bench.ours(&ether(&six)), leased);
    }
    // What is left when one of two places closes has no lease until it is extended.
    bench.loaded.claims.lease(80, past);
    bench.loaded.claims.steer(&at("::", 80), false).unwrap();
    let four = ip(addr("10.0.0.9"), addr("10.0.0.1"), 6, 0, &tcp(5_000, 80, ACK));
    assert!(bench.ours(&ether(&four)));
}

/// TCP or ICMP around it, to addresses and ports that matter, sometimes bent or cut.
fn random_packet(rng: &mut Rng) -> Vec<u8> {
    fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
        from[rng.below(from.len() as u64) as usize]
    }
    let v4 = rng.chance(0.5);
    let names: &[&str] =
        if v4 { &["10.0.0.1", "127.0.0.1", "10.0.0.9"] } else { &["2001:db8::1", "2001:db8::9"] };
    let (src, dst) = (addr(pick(rng, names)), addr(pick(rng, names)));
    let ports = [80, 81, 82, 83, 40_000, 40_001];
    let segment = tcp(pick(rng, &ports), pick(rng, &ports), pick(rng, &[SYN, ACK, SYN | ACK, 0]));
    let options = 4 * rng.below(11) as usize;
    let mut protocol = pick(rng, &[6, 6, 6, 17]);
    let mut payload = segment;
    if !v4 && rng.chance(0.4) {
        for _ in 0..=rng.below(4) {
            let kind = pick(rng, &[0, 43, 44, 60]);
            let words = if kind == 44 { 0 } else { rng.below(10) as u8 };
            let mut header = vec![0; 8 * (usize::from(words) + 1)];
            header[..2].copy_from_slice(&[protocol, words]);
            header[2] = pick(rng, &[0, 0, 0, 7]);
            payload = [&header[..], &payload].concat();
            protocol = kind;
        }
    }
    let mut packet = ip(src, dst, protocol, options, &payload);
    if rng.chance(0.3) {
        packet.truncate(packet.len() - pick(rng, &[0, 12, 12, 13]));
        let (kind, protocol) = (rng.below(14) as u8, if v4 { 1 } else { 58 });
        packet = ip(dst, src, protocol, options, &icmp(kind, &packet));
    }
    let mut frame = ether(&packet);
    if rng.chance(0.2) {
        let at = rng.below(frame.len().min(60) as u64) as usize;
        frame[at] = rng.next_u32() as u8;
    }
    if rng.chance(0.1) {
        frame.truncate(rng.below(frame.len() as u64 + 1) as usize);
    }
    frame
}

/// Packet sockets get all that the program takes, and of segments to addresses of ours the same ones.
#[test]
fn packet_sockets_take_the_same() {
    let Some(bench) = Bench::new() else { return };
    let claims = [("0.0.0.0", 80), ("::", 81), ("10.0.0.1", 82), ("2001:db8::1", 82)];
    let claims = claims.map(|(local, port)| PortClaim {
        addr: addr(local),
        port,
        reuse_port: false,
        ephemeral: false,
        v6_only: true,
    });
    // First that of the packet sockets: its claims are sockets of the kernel, too.
    let choice = Choice::of(1, &claims);
    for claim in &claims {
        bench.loaded.claims.steer(claim, true).unwrap();
    }
    let mut rng = Rng::new(17);
    let (mut both, mut behind) = (0, 0);
    for round in 0..40_000 {
        let packet = random_packet(&mut rng);
        if packet.len() < 14 {
            continue;
        }
        let ours = bench.ours(&packet);
        let to_us = packet.get(38..54).is_some_and(|to| to == addr("2001:db8::1").bytes());
        if to_us && packet[12..14] == [0x86, 0xdd] && packet[0] & 1 == 0 && packet[14] >> 4 == 6 {
            let whole =
                upper(packet[20], &packet[54..]).filter(|(kind, rest)| *kind == 6 && rest.len() >= 20);
            if whole.is_some() {
                assert_eq!(choice.takes(&packet), ours, "round {round}: {packet:02x?}");
                behind += u32::from(ours && packet[20] != 6);
            } else if upper(packet[20], &packet[54..]).is_none_or(|(kind, _)| kind != 6 && kind != 58) {
                assert!(!choice.takes(&packet), "round {round}: {packet:02x?}");
            }
        }
        // Packets of ours have no IP options, and packet sockets know no others in the quotation of an error.
        let quote = 14 + 4 * usize::from(packet[14.min(packet.len() - 1)] & 15) + 8;
        let error4 = packet[12..14] == [8, 0] && packet.get(23) == Some(&1);
        if ours && !(error4 && packet[quote] != 0x45) {
            assert!(choice.takes(&packet), "round {round}: {packet:02x?}");
            both += 1;
        }
    }
    assert!(both > 2_000 && behind > 200, "one-sided test: {both}, {behind}");
}

#[test]
fn flows_of_the_kernel_stay_with_it() {
    let Some(bench) = Bench::new() else { return };
    let here = addr("127.0.0.1");
    let packet = |from: u16, to: u16, flags| ether(&ip(here, here, 6, 0, &tcp(from, to, flags)));

    // A connection of the kernel's from a port that is marked as ours afterwards.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap().port();
    let ours = 45_678;
    bench.claim("127.0.0.1", ours, true);
    let client = sys::socket(libc::AF_INET, libc::SOCK_STREAM, 0).unwrap();
    sys::set_option(client.as_raw_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, &1).unwrap();
    let at = sys::SockAddr::new(here, ours, 0);
    let to = sys::SockAddr::new(here, server, 0);
    // SAFETY: both are socket addresses of the lengths given.
    unsafe {
        assert_eq!(libc::bind(client.as_raw_fd(), at.raw().0, at.raw().1), 0);
        assert_eq!(libc::connect(client.as_raw_fd(), to.raw().0, to.raw().1), 0);
    }
    assert!(!bench.ours(&packet(server, ours, ACK)), "the kernel's own connection was taken");
    assert!(bench.ours(&packet(9, ours, ACK)), "another flow of the same port is ours");
    assert!(bench.ours(&packet(9, ours, SYN)), "simultaneous opening");
    let quoted = ip(here, here, 6, 0, &tcp(ours, server, ACK));
    assert!(
        !bench.ours(&ether(&ip(here, here, 1, 0, &icmp(3, &quoted)))),
        "an error for the kernel's connection"
    );

    // A server listens on a shared port: new flows are the kernel's, established ones that it does not know
    // ours.
    let late = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = late.local_addr().unwrap().port();
    let refused = PortClaim { addr: here, port, reuse_port: false, ephemeral: true, v6_only: false };
    assert!(matches!(bench.loaded.claims.claim(&refused), Err(crate::ClaimError::InUse)));
    drop(late);
    bench.claim("127.0.0.1", port, true);
    let late = TcpListener::bind(("127.0.0.1", port)).unwrap();
    assert!(!bench.ours(&packet(9, port, SYN)) && bench.ours(&packet(9, port, ACK)));
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let peer = stream.local_addr().unwrap().port();
    assert!(!bench.ours(&packet(peer, port, ACK)));
    drop(late);

    // What was given back is the kernel's to the last packet.
    let shared = PortClaim { addr: here, port, reuse_port: false, ephemeral: true, v6_only: false };
    assert!(bench.ours(&packet(9, port, ACK)));
    bench.loaded.claims.release(&shared);
    assert!(!bench.ours(&packet(9, port, ACK)));
}

/// Not a test of speed, only a report: what the program costs per packet.
#[test]
fn reports_its_cost() {
    let Some(bench) = Bench::new() else { return };
    bench.claim("0.0.0.0", 80, false);
    bench.claim("10.0.0.1", 40_000, true);
    let (src, dst) = (addr("10.0.0.9"), addr("10.0.0.1"));
    for (what, port) in [("listener", 80), ("shared", 40_000), ("kernel's", 22)] {
        let packet = ether(&ip(src, dst, 6, 0, &tcp(5, port, ACK)));
        let (action, nanos) = test_run::run(&bench.loaded.program, &packet, 100_000).unwrap();
        println!("{what}: {nanos} ns");
        assert_eq!(action, if port == 22 { PASS } else { REDIRECT });
    }
}
