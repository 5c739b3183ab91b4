//! Goal: every call gives what Linux gives, over two whole stacks joined in memory in virtual time.

use base::{Addr, Duration, Endpoint, Instant};
use pio::{PairConfig, pair};
use sock::{Clock, Engine, EpollEvent, EpollOp, Errno, Family, Fd, Limits, PollFd, Ready, options};
use stack::{Core, CoreConfig, OwnAddr, Row};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tcp::Shutdown;

#[path = "engine/states.rs"]
mod states;

const CLIENT: Addr = Addr::v4([10, 0, 0, 2]);
const SERVER: Addr = Addr::v4([10, 0, 0, 1]);

#[derive(Clone)]
struct Virtual(Arc<AtomicU64>);

impl Clock for Virtual {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

struct World {
    client: Engine,
    server: Engine,
    clock: Virtual,
}

fn engine(
    addr: Addr,
    v6: [u8; 16],
    port: impl pio::PacketIo + 'static,
    clock: &(impl Clock + Clone + 'static),
) -> Engine {
    let addresses = vec![OwnAddr { addr, prefix: 24 }, OwnAddr { addr: Addr::v6(v6), prefix: 64 }];
    let config = CoreConfig { seed: 7, addresses, ..CoreConfig::default() };
    Engine::new(Core::new(config, Box::new(port)), Box::new(clock.clone()), Limits::default())
}

fn v6(last: u8) -> [u8; 16] {
    let mut bytes = [0; 16];
    (bytes[0], bytes[15]) = (0xfd, last);
    bytes
}

impl World {
    fn new() -> World {
        let clock = Virtual(Arc::new(AtomicU64::new(1_000_000_000)));
        let (a, b) = pair(&PairConfig::default()).unwrap();
        World { client: engine(CLIENT, v6(2), a, &clock), server: engine(SERVER, v6(1), b, &clock), clock }
    }

    /// Turns both sides for `time`, in steps of a tenth of a millisecond.
    fn run(&mut self, time: Duration) {
        for _ in 0..time.as_micros() / 100 {
            self.clock.0.fetch_add(100_000, Ordering::Relaxed);
            self.client.turn().unwrap();
            self.server.turn().unwrap();
        }
    }

    fn settle(&mut self) {
        self.run(Duration::from_millis(2));
    }

    fn listener(&mut self, port: u16) -> Fd {
        let fd = self.server.socket(Family::V4).unwrap();
        self.server.bind(fd, Endpoint::new(SERVER, port)).unwrap();
        self.server.listen(fd, 16).unwrap();
        fd
    }

    /// A connected pair: client descriptor, server descriptor, listener.
    fn connected(&mut self) -> (Fd, Fd, Fd) {
        let listener = self.listener(80);
        let fd = self.client.socket(Family::V4).unwrap();
        assert_eq!(self.client.connect(fd, Endpoint::new(SERVER, 80)), Err(Errno::EINPROGRESS));
        assert_eq!(self.client.connect(fd, Endpoint::new(SERVER, 80)), Err(Errno::EALREADY));
        self.settle();
        assert_eq!(self.client.connect(fd, Endpoint::new(SERVER, 80)), Ok(()));
        assert_eq!(self.client.connect(fd, Endpoint::new(SERVER, 80)), Err(Errno::EISCONN));
        let (accepted, peer) = self.server.accept(listener).unwrap();
        assert_eq!(peer, self.client.local_addr(fd).unwrap());
        (fd, accepted, listener)
    }
}

fn event(ready: Ready, data: u64) -> EpollEvent {
    EpollEvent { ready, data }
}

fn collect(engine: &mut Engine, ep: Fd) -> Vec<EpollEvent> {
    let mut events = [EpollEvent::default(); 8];
    let n = engine.epoll_collect(ep, &mut events).unwrap();
    events[..n].to_vec()
}

fn get_int(engine: &mut Engine, fd: Fd, level: i32, name: i32) -> Result<i32, Errno> {
    let mut value = [0; 4];
    engine.getsockopt(fd, level, name, &mut value)?;
    Ok(i32::from_ne_bytes(value))
}

#[test]
fn bytes_travel_both_ways_and_the_end_is_seen() {
    let mut w = World::new();
    let (c, s, _) = w.connected();
    let mut buf = [0; 100];
    assert_eq!(w.server.read(s, &mut buf), Err(Errno::EAGAIN));
    assert_eq!(w.client.write(c, b"question"), Ok(8));
    w.settle();
    assert_eq!(w.server.readable(s), Ok(8));
    assert_eq!(w.server.read(s, &mut buf), Ok(8));
    assert_eq!(&buf[..8], b"question");
    assert_eq!(w.server.write(s, b"answer"), Ok(6));
    w.server.shutdown(s, Shutdown::Write).unwrap();
    w.settle();
    assert_eq!(w.client.read(c, &mut buf), Ok(6));
    assert_eq!(w.client.read(c, &mut buf), Ok(0), "the peer's end");
    // Half closed: the other direction still works (RFC 9293, 3.6).
    assert_eq!(w.client.write(c, b"more"), Ok(4));
    w.settle();
    assert_eq!(w.server.read(s, &mut buf), Ok(4));
    assert_eq!(w.server.write(s, b"x"), Err(Errno::EPIPE));
    w.client.close(c).unwrap();
    w.server.close(s).unwrap();
    assert_eq!(w.client.read(c, &mut buf), Err(Errno::EBADF));
    w.run(Duration::from_secs(1));
    assert_eq!(w.client.open().0, 0);
}

#[test]
fn refusals_and_resets_have_linux_s_errors() {
    let mut w = World::new();
    let fd = w.client.socket(Family::V4).unwrap();
    assert_eq!(w.client.connect(fd, Endpoint::new(SERVER, 81)), Err(Errno::EINPROGRESS));
    w.settle();
    assert_eq!(get_int(&mut w.client, fd, libc::SOL_SOCKET, libc::SO_ERROR), Ok(libc::ECONNREFUSED));
    assert_eq!(get_int(&mut w.client, fd, libc::SOL_SOCKET, libc::SO_ERROR), Ok(0), "taken once");

    for how in [Shutdown::Read, Shutdown::Write, Shutdown::Both] {
        let fd = w.client.socket(Family::V4).unwrap();
        assert_eq!(w.client.connect(fd, Endpoint::new(SERVER, 81)), Err(Errno::EINPROGRESS));
        assert_eq!(w.client.shutdown(fd, how), Ok(()));
        assert_eq!(
            get_int(&mut w.client, fd, libc::SOL_SOCKET, libc::SO_ERROR),
            Ok(libc::ECONNRESET),
            "{how:?}"
        );
        assert_eq!(w.client.shutdown(fd, how), Err(Errno::ENOTCONN));
    }

    let (c, s, _) = w.connected();
    let mut linger = [0u8; 8];
    linger[0] = 1;
    w.server.setsockopt(s, libc::SOL_SOCKET, libc::SO_LINGER, &linger).unwrap();
    w.server.close(s).unwrap();
    w.settle();
    let mut buf = [0; 8];
    assert_eq!(w.client.read(c, &mut buf), Err(Errno::ECONNRESET));
    assert_eq!(w.client.read(c, &mut buf), Ok(0), "told once, then the end");
    assert_eq!(w.client.write(c, b"x"), Err(Errno::EPIPE));
}

#[test]
fn a_connection_that_was_shut_is_not_told_by_connect() {
    for how in [Shutdown::Read, Shutdown::Write, Shutdown::Both] {
        let mut w = World::new();
        let listener = w.listener(82);
        let fd = w.client.socket(Family::V4).unwrap();
        let to = Endpoint::new(SERVER, 82);
        assert_eq!(w.client.connect(fd, to), Err(Errno::EINPROGRESS));
        assert_eq!(w.client.peek(fd, 8, &mut |_| true), Err(Errno::EAGAIN), "a peek waits as a read does");
        w.settle();
        assert_eq!(w.client.shutdown(fd, how), Ok(()));
        // SIOCOUTQ counts the FIN until it is acknowledged.
        assert_eq!(w.client.unsent(fd), Ok((usize::from(how != Shutdown::Read), 0)), "{how:?}");
        w.settle();
        assert_eq!(w.client.unsent(fd), Ok((0, 0)), "{how:?}");
        assert_eq!(w.client.connect(fd, to), Err(Errno::EISCONN), "{how:?}");
        let (peer, _) = w.server.accept(listener).unwrap();
        w.server.setsockopt(peer, libc::SOL_SOCKET, libc::SO_LINGER, &[1, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        w.server.close(peer).unwrap();
        w.settle();
        assert_eq!(w.client.connect(fd, to), Err(Errno::EISCONN), "{how:?}, after the peer's reset");
    }
}

#[test]
fn one_more_than_the_backlog_waits_for_accept() {
    for backlog in 0..4_u32 {
        let mut w = World::new();
        let listener = w.server.socket(Family::V4).unwrap();
        w.server.bind(listener, Endpoint::new(SERVER, 80)).unwrap();
        w.server.listen(listener, backlog).unwrap();
        for nth in 0..6 {
            let fd = w.client.socket(Family::V4).unwrap();
            assert_eq!(w.client.connect(fd, Endpoint::new(SERVER, 80)), Err(Errno::EINPROGRESS));
            w.settle();
            let connected = w.client.peer_addr(fd).is_ok();
            assert_eq!(connected, nth <= backlog, "the {nth}th with a backlog of {backlog}");
        }
        let accepted = std::iter::from_fn(|| w.server.accept(listener).ok()).count();
        assert_eq!(accepted, backlog as usize + 1);
    }
}

#[test]
fn binding_twice_is_refused_and_families_are_kept_apart() {
    let mut w = World::new();
    let first = w.listener(90);
    let second = w.server.socket(Family::V4).unwrap();
    assert_eq!(w.server.bind(second, Endpoint::new(SERVER, 90)), Err(Errno::EADDRINUSE));
    assert_eq!(w.server.bind(second, Endpoint::new(Addr::v4([9, 9, 9, 9]), 90)), Err(Errno::EADDRNOTAVAIL));
    assert_eq!(w.server.bind(second, Endpoint::new(Addr::v6(v6(1)), 90)), Err(Errno::EAFNOSUPPORT));
    w.server.close(first).unwrap();
    assert_eq!(w.server.bind(second, Endpoint::new(SERVER, 90)), Ok(()));
    assert_eq!(w.server.bind(second, Endpoint::new(SERVER, 91)), Err(Errno::EINVAL), "bound already");
    assert_eq!(w.server.accept(second), Err(Errno::EINVAL));
    assert_eq!(w.server.peer_addr(second), Err(Errno::ENOTCONN));
    assert_eq!(w.server.bind(99, Endpoint::new(SERVER, 90)), Err(Errno::EBADF));
}

#[test]
fn ipv6_and_dual_stack_listeners() {
    let mut w = World::new();
    let listener = w.server.socket(Family::V6).unwrap();
    w.server.bind(listener, Endpoint::new(Addr::UNSPECIFIED_V6, 80)).unwrap();
    w.server.listen(listener, 8).unwrap();
    for (family, addr) in [(Family::V6, Addr::v6(v6(1))), (Family::V4, SERVER)] {
        let fd = w.client.socket(family).unwrap();
        assert_eq!(w.client.connect(fd, Endpoint::new(addr, 80)), Err(Errno::EINPROGRESS));
        w.settle();
        assert_eq!(w.client.connect(fd, Endpoint::new(addr, 80)), Ok(()), "{addr}");
        let (accepted, _) = w.server.accept(listener).unwrap();
        assert_eq!(w.server.local_addr(accepted).unwrap().addr, addr);
    }
}

#[test]
fn level_edge_and_one_shot() {
    let mut w = World::new();
    let (c, s, _) = w.connected();
    let [level, edge, once] = std::array::from_fn(|_| w.server.epoll_create().unwrap());
    w.server.epoll_ctl(level, s, EpollOp::Add(event(Ready::IN, 1))).unwrap();
    w.server.epoll_ctl(edge, s, EpollOp::Add(event(Ready::IN | Ready::EDGE, 2))).unwrap();
    w.server.epoll_ctl(once, s, EpollOp::Add(event(Ready::IN | Ready::ONESHOT, 3))).unwrap();
    assert!([level, edge, once].iter().all(|&ep| collect(&mut w.server, ep).is_empty()));
    w.client.write(c, b"one").unwrap();
    w.settle();
    assert_eq!(collect(&mut w.server, level), [event(Ready::IN, 1)]);
    assert_eq!(collect(&mut w.server, level), [event(Ready::IN, 1)], "a level stays");
    assert_eq!(collect(&mut w.server, edge), [event(Ready::IN, 2)]);
    assert_eq!(collect(&mut w.server, edge), [], "an edge does not");
    assert_eq!(collect(&mut w.server, once), [event(Ready::IN, 3)]);
    w.client.write(c, b"two").unwrap();
    w.settle();
    assert_eq!(collect(&mut w.server, edge), [event(Ready::IN, 2)], "new data is a new edge, unread or not");
    assert_eq!(collect(&mut w.server, once), [], "disarmed");
    w.server.epoll_ctl(once, s, EpollOp::Modify(event(Ready::IN | Ready::ONESHOT, 4))).unwrap();
    assert_eq!(collect(&mut w.server, once), [event(Ready::IN, 4)], "rearmed, and the level counts");
    let mut buf = [0; 16];
    assert_eq!(w.server.read(s, &mut buf), Ok(6));
    assert_eq!(collect(&mut w.server, level), [], "the level is gone");
    assert_eq!(w.server.epoll_ctl(level, s, EpollOp::Add(event(Ready::IN, 1))), Err(Errno::EEXIST));
    w.server.epoll_ctl(level, s, EpollOp::Delete).unwrap();
    assert_eq!(w.server.epoll_ctl(level, s, EpollOp::Delete), Err(Errno::ENOENT));
    w.client.close(c).unwrap();
    w.settle();
    assert_eq!(collect(&mut w.server, level), []);
    assert_eq!(collect(&mut w.server, edge).len(), 1, "the peer's end is an edge");
}

#[test]
fn nested_sets_and_circles() {
    let mut w = World::new();
    let (c, s, _) = w.connected();
    let inner = w.server.epoll_create().unwrap();
    let outer = w.server.epoll_create().unwrap();
    w.server.epoll_ctl(inner, s, EpollOp::Add(event(Ready::IN, 1))).unwrap();
    w.server.epoll_ctl(outer, inner, EpollOp::Add(event(Ready::IN, 2))).unwrap();
    assert_eq!(w.server.epoll_ctl(inner, outer, EpollOp::Add(event(Ready::IN, 3))), Err(Errno::ELOOP));
    assert_eq!(w.server.epoll_ctl(inner, inner, EpollOp::Add(event(Ready::IN, 3))), Err(Errno::EINVAL));
    assert_eq!(collect(&mut w.server, outer), []);
    w.client.write(c, b"x").unwrap();
    w.settle();
    assert_eq!(collect(&mut w.server, outer), [event(Ready::IN, 2)]);
    assert_eq!(collect(&mut w.server, inner), [event(Ready::IN, 1)]);
    w.server.read(s, &mut [0; 4]).unwrap();
    assert_eq!(collect(&mut w.server, outer), [], "what is inside has been dealt with");
    w.server.close(inner).unwrap();
    assert_eq!(collect(&mut w.server, outer), []);
    w.server.close(outer).unwrap();
    w.server.close(s).unwrap();
    assert_eq!(w.server.open().1, 0, "no watch is left over");
}

#[test]
fn poll_sees_listeners_streams_pipes_and_nonsense() {
    let mut w = World::new();
    let (c, s, listener) = w.connected();
    let (reader, writer) = w.server.pipe().unwrap();
    let row = |fd, interest| PollFd { fd, interest, ready: Ready::NONE };
    let mut rows = [
        row(listener, Ready::IN),
        row(s, Ready::IN | Ready::OUT),
        row(reader, Ready::IN),
        row(77, Ready::IN),
        row(-1, Ready::IN),
    ];
    assert_eq!(w.server.poll(&mut rows), 2);
    assert_eq!(rows.map(|r| r.ready), [Ready::NONE, Ready::OUT, Ready::NONE, Ready::INVALID, Ready::NONE]);
    w.client.write(c, b"x").unwrap();
    w.server.write(writer, b"y").unwrap();
    let fd = w.client.socket(Family::V4).unwrap();
    assert_eq!(w.client.connect(fd, Endpoint::new(SERVER, 80)), Err(Errno::EINPROGRESS));
    w.settle();
    assert_eq!(w.server.poll(&mut rows), 4);
    assert_eq!(rows.map(|r| r.ready)[..3], [Ready::IN, Ready::IN | Ready::OUT, Ready::IN]);
    w.server.close(writer).unwrap();
    let mut buf = [0; 4];
    assert_eq!(w.server.read(reader, &mut buf), Ok(1));
    assert_eq!(w.server.read(reader, &mut buf), Ok(0));
    assert_eq!(w.server.shutdown(reader, Shutdown::Both), Err(Errno::ENOTSOCK));
}

#[test]
fn pipes_wake_epoll() {
    let mut w = World::new();
    let (reader, writer) = w.server.pipe().unwrap();
    let ep = w.server.epoll_create().unwrap();
    w.server.epoll_ctl(ep, reader, EpollOp::Add(event(Ready::IN | Ready::EDGE, 5))).unwrap();
    assert_eq!(collect(&mut w.server, ep), []);
    w.server.write(writer, b"wake").unwrap();
    assert_eq!(collect(&mut w.server, ep), [event(Ready::IN, 5)]);
    w.server.close(writer).unwrap();
    assert_eq!(collect(&mut w.server, ep), [event(Ready::IN | Ready::HUP, 5)]);
}

#[test]
fn every_option_of_the_table_can_be_read_and_unknown_ones_fail() {
    let mut w = World::new();
    let (c, _, _) = w.connected();
    let fresh4 = w.client.socket(Family::V4).unwrap();
    let fresh6 = w.client.socket(Family::V6).unwrap();
    let mut value = [0; 512];
    for row in options::TABLE {
        let of6 = row.level == libc::IPPROTO_IPV6;
        let fresh = if of6 { fresh6 } else { fresh4 };
        if row.shape == options::Shape::Auth {
            // Keys can be told only where there are any; some options never are.
            let result = w.client.getsockopt(c, row.level, row.name, &mut value);
            assert!(matches!(result, Err(Errno::ENOENT | Errno::ENOPROTOOPT)), "{}: {result:?}", row.text);
            continue;
        }
        // What is asked for by name finds it here.
        value[..10].copy_from_slice(b"abc_limit\0");
        let result = w.client.getsockopt(c, row.level, row.name, &mut value);
        if of6 {
            assert_eq!(result, Err(Errno::EOPNOTSUPP), "{}: it is an IPv4 socket", row.text);
        } else {
            assert!(result.is_ok_and(|n| n > 0), "{}: {result:?}", row.text);
        }
        value[..10].copy_from_slice(b"abc_limit\0");
        // On a socket without a connection only what describes one may be missing.
        let result = w.client.getsockopt(fresh, row.level, row.name, &mut value);
        assert!(matches!(result, Ok(1..) | Err(Errno::ENOTCONN)), "{}: {result:?}", row.text);
        if !row.settable {
            assert_eq!(
                w.client.setsockopt(c, row.level, row.name, &value),
                Err(Errno::ENOPROTOOPT),
                "{}",
                row.text
            );
        }
    }
    for (level, name) in [(libc::SOL_SOCKET, 9_999), (libc::IPPROTO_TCP, 9_999), (77, 1)] {
        assert_eq!(w.client.setsockopt(c, level, name, &[0; 4]), Err(Errno::ENOPROTOOPT));
        assert_eq!(w.client.getsockopt(c, level, name, &mut value), Err(Errno::ENOPROTOOPT));
    }
}

#[test]
fn options_take_effect_and_keep_their_values() {
    let mut w = World::new();
    let (c, _, _) = w.connected();
    let tcp = libc::IPPROTO_TCP;
    for (level, name, good, bad) in [
        (tcp, libc::TCP_NODELAY, 1, None),
        (tcp, libc::TCP_KEEPIDLE, 77, Some(0)),
        (tcp, libc::TCP_KEEPINTVL, 5, Some(0)),
        (tcp, libc::TCP_KEEPCNT, 3, Some(128)),
        (tcp, libc::TCP_USER_TIMEOUT, 12_345, Some(-1)),
        // Unsigned on Linux: all ones is a mark that nothing reaches.
        (tcp, libc::TCP_NOTSENT_LOWAT, -1, None),
        (tcp, libc::TCP_NOTSENT_LOWAT, 4_096, None),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1, None),
        (libc::IPPROTO_IP, libc::IP_TTL, 9, Some(256)),
        (libc::IPPROTO_IP, libc::IP_TOS, 0x48, None),
    ] {
        w.client.setsockopt(c, level, name, &i32::to_ne_bytes(good)).unwrap();
        assert_eq!(get_int(&mut w.client, c, level, name), Ok(good), "option {name}");
        if let Some(bad) = bad {
            assert_eq!(
                w.client.setsockopt(c, level, name, &i32::to_ne_bytes(bad)),
                Err(Errno::EINVAL),
                "option {name}"
            );
            assert_eq!(get_int(&mut w.client, c, level, name), Ok(good), "option {name}");
        }
        // As on Linux, no byte is the value 0 at IPPROTO_IP, which is a type of service and no time to live.
        let empty =
            if (level, name) == (libc::IPPROTO_IP, libc::IP_TOS) { Ok(()) } else { Err(Errno::EINVAL) };
        assert_eq!(w.client.setsockopt(c, level, name, &[]), empty, "option {name}");
    }
    let mut name = [0; 16];
    assert_eq!(w.client.setsockopt(c, tcp, libc::TCP_CONGESTION, b"newreno\0"), Ok(()));
    w.client.getsockopt(c, tcp, libc::TCP_CONGESTION, &mut name).unwrap();
    assert_eq!(&name[..8], b"newreno\0");
    assert_eq!(w.client.setsockopt(c, tcp, libc::TCP_CONGESTION, b"reno"), Ok(()), "Linux's name for it");
    assert_eq!(w.client.setsockopt(c, tcp, libc::TCP_CONGESTION, b"nonsense"), Err(Errno::ENOENT));
    let mut info = [0; 280];
    assert_eq!(w.client.getsockopt(c, tcp, libc::TCP_INFO, &mut info), Ok(280));
    assert_eq!(info[0], 1, "ESTABLISHED");
    assert!(u32::from_ne_bytes(info[8..12].try_into().unwrap()) >= 200_000, "RTO in microseconds");
}

#[test]
fn duplicates_share_one_socket() {
    let mut w = World::new();
    let (c, s, _) = w.connected();
    let twin = w.client.dup(c).unwrap();
    w.client.close(c).unwrap();
    w.settle();
    assert_eq!(w.server.read(s, &mut [0; 4]), Err(Errno::EAGAIN), "still open through its twin");
    assert_eq!(w.client.write(twin, b"x"), Ok(1));
    w.client.close(twin).unwrap();
    w.settle();
    let mut buf = [0; 4];
    assert_eq!(w.server.read(s, &mut buf), Ok(1));
    assert_eq!(w.server.read(s, &mut buf), Ok(0));
}

#[test]
fn a_full_send_buffer_says_so_and_room_is_an_event() {
    let mut w = World::new();
    let (c, s, _) = w.connected();
    w.client.setsockopt(c, libc::SOL_SOCKET, libc::SO_SNDBUF, &8_192i32.to_ne_bytes()).unwrap();
    let ep = w.client.epoll_create().unwrap();
    let mut written = 0;
    let chunk = [9; 4_096];
    // The peer reads nothing: its window and our buffer fill up.
    for _ in 0..100_000 {
        match w.client.write(c, &chunk) {
            Ok(n) => written += n,
            Err(Errno::EAGAIN) if w.server.readable(s).unwrap() + 16_384 >= written => break,
            Err(Errno::EAGAIN) => {}
            Err(e) => panic!("{e}"),
        }
        w.run(Duration::from_micros(300));
    }
    w.run(Duration::from_millis(50));
    while let Ok(n) = w.client.write(c, &chunk) {
        written += n;
    }
    w.client.epoll_ctl(ep, c, EpollOp::Add(event(Ready::OUT | Ready::EDGE, 1))).unwrap();
    assert_eq!(collect(&mut w.client, ep), []);
    let mut buf = vec![0; 65_536];
    let mut read = 0;
    for _ in 0..100_000 {
        match w.server.read(s, &mut buf) {
            Ok(n) => read += n,
            Err(Errno::EAGAIN) => {}
            Err(e) => panic!("{e}"),
        }
        w.run(Duration::from_micros(300));
        if read == written {
            break;
        }
    }
    assert_eq!(read, written);
    assert_eq!(collect(&mut w.client, ep), [event(Ready::OUT, 1)]);
}

#[test]
fn one_look_reports_a_registration_at_most_once() {
    let mut w = World::new();
    let engine = &mut w.server;
    let ep = engine.epoll_create().unwrap();
    let pipes: Vec<_> = (0..8).map(|_| engine.pipe().unwrap()).collect();
    for (at, (read, write)) in pipes.iter().enumerate() {
        engine.epoll_ctl(ep, *read, EpollOp::Add(event(Ready::IN, at as u64))).unwrap();
        engine.write(*write, b"x").unwrap();
    }
    // Each way leaves an entry in the queue that reports nothing: closed, taken out, not ready any more.
    engine.close(pipes[0].0).unwrap();
    engine.close(pipes[2].0).unwrap();
    engine.epoll_ctl(ep, pipes[4].0, EpollOp::Delete).unwrap();
    engine.read(pipes[5].0, &mut [0; 8]).unwrap();
    // Linux reports a registration once in a call (ep_send_events of fs/eventpoll.c walks a list that it has cut off).
    let mut events = [EpollEvent::default(); 64];
    for look in 0..3 {
        let n = engine.epoll_collect(ep, &mut events).unwrap();
        let mut seen: Vec<_> = events[..n].iter().map(|event| event.data).collect();
        seen.sort_unstable();
        assert_eq!(seen, [1, 3, 6, 7], "look {look}");
    }
    // With less room than there is to tell, calls take turns, and none repeats itself.
    let mut all = Vec::new();
    for _ in 0..2 {
        let n = engine.epoll_collect(ep, &mut events[..2]).unwrap();
        all.extend(events[..n].iter().map(|event| event.data));
    }
    all.sort_unstable();
    assert_eq!(all, [1, 3, 6, 7]);
}

#[test]
fn an_accepted_socket_takes_and_tells_the_options_that_linux_s_does() {
    let mut w = World::new();
    let listener = w.listener(81);
    w.server.setsockopt(listener, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1i32.to_ne_bytes()).unwrap();
    let c = w.client.socket(Family::V4).unwrap();
    assert_eq!(w.client.connect(c, Endpoint::new(SERVER, 81)), Err(Errno::EINPROGRESS));
    w.settle();
    let (s, _) = w.server.accept(listener).unwrap();
    let (ip, ip6, tcp, sol) = (libc::IPPROTO_IP, libc::IPPROTO_IPV6, libc::IPPROTO_TCP, libc::SOL_SOCKET);
    // Kept and told, with no effect on a stream, as in ip(7); Erlang's accept sets the first two to 0.
    let kept = [libc::IP_RECVTOS, libc::IP_RECVTTL, libc::IP_RECVOPTS, libc::IP_RETOPTS, libc::IP_PKTINFO];
    let kept = kept.map(|name| (ip, name)).into_iter().chain([(sol, libc::SO_OOBINLINE)]);
    for (level, name) in kept {
        for v in [0, 1, 0] {
            assert_eq!(w.server.setsockopt(s, level, name, &i32::to_ne_bytes(v)), Ok(()), "{name} to {v}");
            assert_eq!(get_int(&mut w.server, s, level, name), Ok(v), "{name}");
        }
    }
    // It has its listener's flag, and may change it.
    assert_eq!(get_int(&mut w.server, s, sol, libc::SO_REUSEADDR), Ok(1));
    w.server.setsockopt(s, sol, libc::SO_REUSEADDR, &0i32.to_ne_bytes()).unwrap();
    assert_eq!(get_int(&mut w.server, s, sol, libc::SO_REUSEADDR), Ok(0));
    assert_eq!(get_int(&mut w.server, listener, sol, libc::SO_REUSEADDR), Ok(1));
    assert_eq!(get_int(&mut w.server, s, tcp, libc::TCP_QUICKACK), Ok(1), "until a thread says otherwise");
    let usual = i32::from(CoreConfig::default().tcp.syn_retries);
    assert_eq!(get_int(&mut w.server, s, tcp, libc::TCP_SYNCNT), Ok(usual));
    // An IPv4 socket has no options of IPv6.
    let tclass = w.server.setsockopt(s, ip6, libc::IPV6_TCLASS, &0i32.to_ne_bytes());
    assert_eq!(tclass, Err(Errno::ENOPROTOOPT));
    assert_eq!(get_int(&mut w.server, s, ip6, libc::IPV6_TCLASS), Err(Errno::EOPNOTSUPP));
}

/// Linux keeps these, whether or not they have an effect on the connection at hand.
#[test]
fn options_of_a_connection_are_told_as_on_linux() {
    let mut w = World::new();
    let (c, s, _) = w.connected();
    let linger = |on: i32, seconds: i32| [on.to_ne_bytes(), seconds.to_ne_bytes()].concat();
    let mut told = [0; 8];
    for (set, wanted) in [
        ((1, 7), (1, 7)),
        ((0, 0), (0, 7)),
        ((1, 5_000_000), (1, 5_000_000)),
        ((0, 0), (0, 5_000_000)),
        // The kernel's longest time depends on its tick: the launcher asks it, and the stack keeps what it is told.
        ((1, -1), (1, -1)),
        ((0, 0), (0, -1)),
    ] {
        w.client.setsockopt(c, libc::SOL_SOCKET, libc::SO_LINGER, &linger(set.0, set.1)).unwrap();
        assert_eq!(w.client.getsockopt(c, libc::SOL_SOCKET, libc::SO_LINGER, &mut told), Ok(8));
        assert_eq!(told.as_slice(), linger(wanted.0, wanted.1), "{set:?}");
    }
    let negotiated = get_int(&mut w.client, c, libc::IPPROTO_TCP, libc::TCP_MAXSEG).unwrap();
    let set =
        |w: &mut World, level, name, value: i32| w.client.setsockopt(c, level, name, &value.to_ne_bytes());
    assert_eq!(set(&mut w, libc::IPPROTO_TCP, libc::TCP_MAXSEG, 500), Ok(()));
    assert_eq!(get_int(&mut w.client, c, libc::IPPROTO_TCP, libc::TCP_MAXSEG), Ok(negotiated));
    for way in 0..=5 {
        assert_eq!(set(&mut w, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, way), Ok(()), "{way}");
        assert_eq!(get_int(&mut w.client, c, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER), Ok(way));
    }
    assert_eq!(set(&mut w, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, 6), Err(Errno::EINVAL));
    assert_eq!(w.client.getsockopt(c, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &mut [1; 12]), Ok(8));
    let mut nobody = [0; 12];
    assert_eq!(w.server.getsockopt(s, libc::SOL_SOCKET, libc::SO_PEERCRED, &mut nobody), Ok(12));
    assert_eq!((&nobody[..4], &nobody[4..]), (&[0; 4][..], &[0xff; 8][..]));
}

/// A clock that goes on by 20 us with each look, and lets the far end answer.
#[derive(Clone)]
struct Answered(Virtual, Arc<Mutex<Option<Engine>>>);

impl Clock for Answered {
    fn now(&self) -> Instant {
        if let Some(far) = &mut *self.1.lock().unwrap() {
            far.turn().unwrap();
        }
        self.0.0.fetch_add(20_000, Ordering::Relaxed);
        self.0.now()
    }
}

/// On veth an answer arrives while the call that sends still runs: it is received in the turn of what it answers.
#[test]
fn an_answer_in_the_turn_of_what_it_answers_took_its_time() {
    let World { server, clock, .. } = World::new();
    drop(server);
    let (a, b) = pair(&PairConfig::default()).unwrap();
    let mut server = engine(SERVER, v6(1), b, &clock);
    let listener = server.socket(Family::V4).unwrap();
    server.bind(listener, Endpoint::new(SERVER, 80)).unwrap();
    server.listen(listener, 16).unwrap();
    let clock = Answered(clock, Arc::new(Mutex::new(Some(server))));
    let mut client = engine(CLIENT, v6(2), a, &clock);
    let fd = client.socket(Family::V4).unwrap();
    assert_eq!(client.connect(fd, Endpoint::new(SERVER, 80)), Err(Errno::EINPROGRESS));
    let mut answered = 0;
    for _ in 0..20 {
        let turn = client.turn().unwrap();
        answered += u32::from(turn.sent > 0 && turn.received > 0);
        let _ = client.write(fd, &[7; 3_000]);
    }
    assert!(answered > 10, "{answered}");
    let (mut found, now) = (None, client.now());
    client.core().for_each(now, &mut |row| {
        if let Row::Connection(tcp) = row {
            found = Some(tcp.info(now).min_rtt);
        }
    });
    assert_eq!(found, Some(Duration::from_micros(20)));
}
