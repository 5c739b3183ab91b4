//! Goal: TCP Fast Open (RFC 7413) through the APIs of both modes: calls that block and calls that do not, over IPv4
//! and IPv6; every byte arrives once, and what could go with the SYN did.

use base::{Addr, Duration, Endpoint};
use pio::{PairConfig, pair};
use sock::paired::{PairedConfig, StackThread};
use sock::{
    Engine, Errno, Family, Fd, Limits, Paired, RecvFlags, Runner, SendFlags, Stack, SystemClock, tcp_info,
};
use stack::{Core, CoreConfig, OwnAddr};
use std::sync::Arc;
use std::thread::{JoinHandle, spawn};

const TCPI_OPT_SYN_DATA: u8 = 32;
const FAMILIES: [(Family, Addr); 2] = [
    (Family::V4, Addr::v4([10, 0, 0, 1])),
    (Family::V6, Addr::v6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])),
];

fn engine(port: impl pio::PacketIo + 'static, last: u8, fastopen: u32) -> Engine {
    let mut six = [0; 16];
    (six[0], six[15]) = (0xfd, last);
    let addresses = vec![
        OwnAddr { addr: Addr::v4([10, 0, 0, last]), prefix: 16 },
        OwnAddr { addr: Addr::v6(six), prefix: 64 },
    ];
    // A machine that is busy elsewhere must not make a SYN go twice.
    let rto_initial = Duration::from_secs(60);
    let tcp = tcp::Config { fastopen, rto_initial, ..tcp::Config::default() };
    let core = Core::new(CoreConfig { seed: 3, addresses, tcp, ..CoreConfig::default() }, Box::new(port));
    Engine::new(core, Box::new(SystemClock::new()), Limits::default())
}

/// A client and a server, direct, paired, and paired with rings that are always in the way; the settings are theirs.
fn worlds(client: u32, server: u32) -> Vec<[Stack; 2]> {
    let ends = || {
        let (a, b) = pair(&PairConfig::default()).unwrap();
        [engine(a, 2, client), engine(b, 1, server)]
    };
    let direct = ends().map(|engine| Runner::start(engine).unwrap() as Stack);
    let paired = |config: PairedConfig| {
        ends().map(|engine| {
            let thread = Arc::new(StackThread::start(engine, config).unwrap());
            Arc::new(Paired::over(&[thread], Limits::default()).unwrap()) as Stack
        })
    };
    let tight = PairedConfig { ring: 512, rings_kept: 0, ..PairedConfig::default() };
    vec![direct, paired(PairedConfig::default()), paired(tight)]
}

/// Answers each of `connections` with what it sent, and closes; whether data came with each one's SYN.
fn echo(server: &Stack, family: Family, at: Endpoint, connections: usize) -> JoinHandle<Vec<bool>> {
    let listener = server.socket(family).unwrap();
    server.bind(listener, at).unwrap();
    server.setsockopt(listener, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, &8i32.to_ne_bytes()).unwrap();
    server.listen(listener, 8).unwrap();
    let server = server.clone();
    spawn(move || {
        let each = |_| {
            let (fd, _) = server.accept(listener).unwrap();
            let all = read_to_end(&server, fd);
            let early = syn_data(&server, fd);
            assert_eq!(server.send(fd, &all, SendFlags::default()), Ok(all.len()));
            server.close(fd).unwrap();
            early
        };
        (0..connections).map(each).collect()
    })
}

fn read_to_end(stack: &Stack, fd: Fd) -> Vec<u8> {
    let (mut all, mut buf) = (Vec::new(), [0; 4_096]);
    loop {
        match stack.recv(fd, &mut buf, RecvFlags::default()).unwrap() {
            0 => return all,
            n => all.extend_from_slice(&buf[..n]),
        }
    }
}

fn syn_data(stack: &Stack, fd: Fd) -> bool {
    let mut info = [0; tcp_info::LEN];
    stack.getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info).unwrap();
    info[5] & TCPI_OPT_SYN_DATA != 0
}

/// Says that there is no more, and reads the echo of `sent`; whether data went with the SYN.
fn finish(client: &Stack, fd: Fd, sent: &[u8]) -> bool {
    client.shutdown(fd, tcp::Shutdown::Write).unwrap();
    assert!(read_to_end(client, fd) == sent, "another echo");
    let early = syn_data(client, fd);
    client.close(fd).unwrap();
    early
}

fn pattern(len: u32) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// RFC 7413, 4.1.3-1 and 4.2.2-4.
#[test]
fn sendto_asks_for_a_cookie_and_then_sends_with_the_syn() {
    for (family, addr) in FAMILIES {
        for [client, server] in worlds(1, 2) {
            let at = Endpoint::new(addr, 7);
            let served = echo(&server, family, at, 4);
            let mut early = Vec::new();
            // One segment, more than one, and more than a ring holds.
            for len in [400, 400, 5_000, 200_000] {
                let fd = client.socket(family).unwrap();
                let data = pattern(len);
                let sent = client.send_fast(fd, &data, Some(at), SendFlags::default());
                assert_eq!(sent, Ok(data.len()), "a blocking call sends all");
                early.push(finish(&client, fd, &data));
            }
            assert_eq!(early, [false, true, true, true]);
            assert_eq!(served.join().unwrap(), early, "both ends agree");
        }
    }
}

#[test]
fn without_waiting_the_syn_takes_what_fits() {
    for [client, server] in worlds(1, 2) {
        let (family, addr) = FAMILIES[0];
        let at = Endpoint::new(addr, 7);
        let served = echo(&server, family, at, 2);
        let dont_wait = SendFlags { dont_wait: true, ..SendFlags::default() };
        let data = pattern(5_000);
        let fd = client.socket(family).unwrap();
        assert_eq!(client.send_fast(fd, &data, Some(at), dont_wait), Err(Errno::EINPROGRESS));
        // The socket blocks: another connect waits for the first one's end.
        client.connect(fd, at).unwrap();
        assert!(!finish(&client, fd, &[]));
        let fd = client.socket(family).unwrap();
        let taken = client.send_fast(fd, &data, Some(at), dont_wait).unwrap();
        assert_eq!(taken, 1_420, "the peer's MSS, less the most options");
        // The rest waits for the connection.
        client.connect(fd, at).unwrap();
        let rest = &data[taken..];
        assert_eq!(client.send_fast(fd, rest, Some(at), SendFlags::default()), Err(Errno::EISCONN));
        assert_eq!(client.send(fd, rest, SendFlags::default()), Ok(rest.len()));
        assert!(finish(&client, fd, &data));
        assert_eq!(served.join().unwrap(), [false, true]);
    }
}

#[test]
fn connect_waits_for_the_first_write() {
    for (family, addr) in FAMILIES {
        for [client, server] in worlds(1, 2) {
            let at = Endpoint::new(addr, 7);
            let served = echo(&server, family, at, 2);
            for known in [false, true] {
                let fd = client.socket(family).unwrap();
                let on = 1i32.to_ne_bytes();
                client.setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, &on).unwrap();
                client.connect(fd, at).unwrap();
                let data = pattern(3_000);
                assert_eq!(client.send(fd, &data, SendFlags::default()), Ok(data.len()));
                assert_eq!(finish(&client, fd, &data), known);
            }
            assert_eq!(served.join().unwrap(), [false, true]);
        }
    }
}

/// RFC 7413, 4.2.2-2.
#[test]
fn refusals_and_settings() {
    for [client, server] in worlds(0, 2) {
        let fd = client.socket(Family::V4).unwrap();
        let at = Endpoint::new(FAMILIES[0].1, 7);
        assert_eq!(client.send_fast(fd, b"x", Some(at), SendFlags::default()), Err(Errno::EOPNOTSUPP));
        drop(server);
    }
    for [client, _server] in worlds(1, 2) {
        let at = Endpoint::new(FAMILIES[0].1, 9);
        let fd = client.socket(Family::V4).unwrap();
        assert_eq!(client.send_fast(fd, b"x", Some(at), SendFlags::default()), Err(Errno::ECONNREFUSED));
    }
    // Listeners that take nothing: the data comes after the handshake.
    for [client, server] in worlds(5, 0) {
        let at = Endpoint::new(FAMILIES[0].1, 7);
        let served = echo(&server, Family::V4, at, 1);
        let fd = client.socket(Family::V4).unwrap();
        let data = pattern(2_000);
        assert_eq!(client.send_fast(fd, &data, Some(at), SendFlags::default()), Ok(data.len()));
        assert!(!finish(&client, fd, &data));
        assert_eq!(served.join().unwrap(), [false]);
    }
}
