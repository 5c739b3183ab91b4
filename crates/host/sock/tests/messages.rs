//! Goal: what calls say beside the bytes is obeyed and answered, through the APIs of both modes.

use base::{Addr, Duration};
use pio::{PairConfig, pair};
use sock::paired::{PairedConfig, StackThread};
use sock::{
    Engine, Errno, ErrorReport, Family, Fd, Limits, Paired, PollFd, Ready, RecvFlags, Runner, SendFlags,
    Stack, SystemClock, tcp_info,
};
use stack::{Core, CoreConfig, OwnAddr};
use std::sync::Arc;

const ORIGIN_TIMESTAMPING: u8 = 4;
const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_COPIED: u8 = 1;
/// Longer than a machine with other work leaves a thread waiting.
const LONG: Duration = Duration::from_secs(20);
/// Less than data under a cork waits: what arrives sooner was not held back.
const HELD: Duration = Duration::from_millis(150);
/// How often a busy machine may get into the way of something that is a matter of time.
const TURNS: usize = 50;

fn engine(port: impl pio::PacketIo + 'static, addr: [u8; 4]) -> Engine {
    let addresses = vec![OwnAddr { addr: Addr::v4(addr), prefix: 16 }];
    let core = Core::new(CoreConfig { seed: 3, addresses, ..CoreConfig::default() }, Box::new(port));
    Engine::new(core, Box::new(SystemClock::new()), Limits::default())
}

/// A connected pair of sockets on stacks of their own, non-blocking.
struct World {
    client: Stack,
    server: Stack,
    c: Fd,
    s: Fd,
}

/// One of each mode: direct, paired, and paired with rings that are always in the way.
fn worlds() -> Vec<World> {
    let ends = || {
        let (a, b) = pair(&PairConfig::default()).unwrap();
        [engine(a, [10, 0, 0, 2]), engine(b, [10, 0, 0, 1])]
    };
    let direct = ends().map(|engine| Runner::start(engine).unwrap() as Stack);
    let paired = |config: PairedConfig| {
        ends().map(|engine| {
            let thread = Arc::new(StackThread::start(engine, config).unwrap());
            Arc::new(Paired::over(&[thread], Limits::default()).unwrap()) as Stack
        })
    };
    let tight = PairedConfig { ring: 512, rings_kept: 0, spin: Duration::ZERO, ..PairedConfig::default() };
    let all = [direct, paired(PairedConfig::default()), paired(tight)];
    all.into_iter().map(|[client, server]| World::new(client, server)).collect()
}

impl World {
    fn new(client: Stack, server: Stack) -> World {
        let at = "10.0.0.1:7".parse::<std::net::SocketAddr>().unwrap().into();
        let listener = server.socket(Family::V4).unwrap();
        server.bind(listener, at).unwrap();
        server.listen(listener, 4).unwrap();
        let c = client.socket(Family::V4).unwrap();
        std::thread::scope(|scope| {
            let accepted = scope.spawn(|| server.accept(listener).unwrap().0);
            client.connect(c, at).unwrap();
            let s = accepted.join().unwrap();
            client.set_nonblocking(c, true).unwrap();
            server.set_nonblocking(s, true).unwrap();
            World { client: client.clone(), server: server.clone(), c, s }
        })
    }

    fn set(&self, level: i32, name: i32, value: i32) {
        self.client.setsockopt(self.c, level, name, &value.to_ne_bytes()).unwrap();
    }

    fn send(&self, len: usize, flags: SendFlags) -> usize {
        self.client.send(self.c, &vec![7; len], flags).unwrap()
    }

    /// Bytes that the server reads within a time.
    fn arrives(&self, len: usize, within: Duration) -> bool {
        let begun = self.server.time();
        let mut got = 0;
        let mut into = vec![0; len];
        while got < len {
            let mut row = [PollFd { fd: self.s, interest: Ready::IN, ready: Ready::NONE }];
            let left = within.saturating_sub(self.server.time().since(begun));
            if self.server.poll(&mut row, Some(left)).unwrap() == 0 {
                return false;
            }
            got += match self.server.recv(self.s, &mut into[got..], RecvFlags::default()) {
                Ok(n) => n,
                Err(Errno::EAGAIN) => 0,
                Err(e) => panic!("{e}"),
            };
        }
        true
    }

    /// All that was sent is acknowledged.
    fn settles(&self) {
        let begun = self.client.time();
        while self.client.unsent(self.c) != Ok((0, 0)) {
            assert!(self.client.time().since(begun) < LONG, "{:?}", self.client.unsent(self.c));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// `send`'s ten bytes stay here until `release`, and then all `len` arrive sooner than they would by themselves.
    fn releases(&self, send: impl Fn() -> usize, release: impl Fn(), len: usize) {
        let turn = || {
            self.settles();
            let begun = self.client.time();
            send();
            let held = self.client.unsent(self.c);
            release();
            assert!(self.arrives(len, LONG));
            // Where the thread stood still for so long, what was to be seen was over.
            (self.client.time().since(begun) < HELD).then_some(held)
        };
        let held = (0..TURNS).find_map(|_| turn());
        assert_eq!(held, Some(Ok((10, 10))), "SIOCOUTQ and SIOCOUTQNSD");
    }

    /// The next entry of the client's error queue.
    fn report(&self) -> ErrorReport {
        let mut row = [PollFd { fd: self.c, interest: Ready::NONE, ready: Ready::NONE }];
        assert_eq!(self.client.poll(&mut row, Some(LONG)), Ok(1), "an entry raises ERR");
        assert!(row[0].ready.any(Ready::ERR));
        self.client.recv_error(self.c).unwrap()
    }

    fn segments_out(&self) -> u32 {
        let mut info = [0; tcp_info::LEN];
        self.client.getsockopt(self.c, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info).unwrap();
        u32::from_ne_bytes(info[136..140].try_into().unwrap())
    }
}

#[test]
fn more_is_waited_for_but_not_for_ever() {
    for w in worlds() {
        let more = SendFlags { more: true, ..SendFlags::default() };
        w.releases(|| w.send(10, more), || _ = w.send(10, SendFlags::default()), 20);
        // While something is in flight a tail loss probe may take along what waits.
        w.settles();
        let begun = w.client.time();
        w.send(10, more);
        assert!(w.arrives(10, LONG));
        assert!(w.client.time().since(begun) >= HELD);
        w.set(libc::IPPROTO_TCP, libc::TCP_CORK, 1);
        let push = || w.set(libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
        w.releases(|| w.send(10, SendFlags::default()), push, 10);
    }
}

#[test]
fn records_get_segments_of_their_own() {
    for w in worlds() {
        w.set(libc::IPPROTO_TCP, libc::TCP_CORK, 1);
        let record = SendFlags { end_of_record: true, ..SendFlags::default() };
        let turn = || {
            let (before, begun) = (w.segments_out(), w.client.time());
            for _ in 0..3 {
                assert_eq!(w.send(100, record), 100);
            }
            w.send(100, SendFlags::default());
            assert!(w.arrives(300, LONG));
            let (sent, took) = (w.segments_out() - before, w.client.time().since(begun));
            assert!(w.arrives(100, LONG), "the cork does not hold for ever");
            (took < HELD).then_some(sent)
        };
        assert_eq!((0..TURNS).find_map(|_| turn()), Some(3));
    }
}

#[test]
fn what_is_left_to_read_is_told() {
    for w in worlds() {
        w.server.setsockopt(w.s, libc::IPPROTO_TCP, libc::TCP_INQ, &1i32.to_ne_bytes()).unwrap();
        w.send(400, SendFlags::default());
        w.client.shutdown(w.c, tcp::Shutdown::Write).unwrap();
        let mut row = [PollFd { fd: w.s, interest: Ready::RDHUP, ready: Ready::NONE }];
        assert_eq!(w.server.poll(&mut row, Some(LONG)), Ok(1));
        let read = |len| w.server.recv_message(w.s, &mut vec![0; len], RecvFlags::default()).unwrap();
        assert_eq!(w.server.readable(w.s), Ok(400), "SIOCINQ");
        let first = read(150);
        assert_eq!((first.len, first.left, first.arrived), (150, Some(250), None));
        assert_eq!(read(250).left, Some(1), "the end is worth a read");
        assert_eq!(read(1).len, 0);
    }
}

#[test]
fn completions_come_through_the_error_queue() {
    for w in worlds() {
        let zero_copy = SendFlags { zero_copy: true, ..SendFlags::default() };
        w.send(100, zero_copy);
        assert!(w.arrives(100, LONG));
        assert_eq!(
            w.client.recv_error(w.c),
            Err(Errno::EAGAIN),
            "without SO_ZEROCOPY the flag means nothing"
        );
        w.set(libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1);
        w.client.set_nonblocking(w.c, false).unwrap();
        let bytes: Arc<[u8]> = vec![5; 20_000].into();
        for number in 0..2 {
            std::thread::scope(|scope| {
                scope.spawn(|| assert!(w.arrives(20_000, LONG)));
                assert_eq!(w.client.lend(w.c, &bytes, 0..20_000, zero_copy), Ok(20_000));
            });
            let report = w.report();
            // The port between the stacks is memory: it copies.
            assert_eq!((report.origin, report.code, report.errno), (ORIGIN_ZEROCOPY, CODE_COPIED, None));
            assert_eq!((report.info, report.data), (number, number), "one call, one number");
            assert_eq!(Arc::strong_count(&bytes), 1);
        }
        for _ in 0..3 {
            w.send(10, zero_copy);
        }
        assert!(w.arrives(30, LONG));
        w.settles();
        let report = w.report();
        assert_eq!((report.info, report.data), (2, 4), "merged");
        assert_eq!(w.client.recv_error(w.c), Err(Errno::EAGAIN));
    }
}

#[test]
fn moments_are_told() {
    const ALL: i32 = 1 << 1 | 1 << 3 | 1 << 4 | 1 << 7 | 1 << 8 | 1 << 9;
    for w in worlds() {
        w.send(50, SendFlags::default());
        assert!(w.arrives(50, LONG));
        w.settles();
        w.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, ALL);
        let begun = w.client.time();
        w.send(100, SendFlags::default());
        assert!(w.arrives(100, LONG));
        let mut last = begun;
        // SCM_TSTAMP_SCHED, SCM_TSTAMP_SND, SCM_TSTAMP_ACK.
        for info in [1, 0, 2] {
            let report = w.report();
            assert_eq!((report.origin, report.errno), (ORIGIN_TIMESTAMPING, Some(Errno::ENOMSG)));
            assert_eq!((report.info, report.data, report.truncated), (info, 99, true));
            let at = report.at.unwrap();
            assert!(last <= at && at <= w.client.time(), "{last:?} <= {at:?}");
            last = at;
        }
    }
}

#[test]
fn what_is_received_has_a_time() {
    for w in worlds() {
        let on = 1i32.to_ne_bytes();
        w.server.setsockopt(w.s, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &on).unwrap();
        // Stack threads obey a little later.
        let turn = || {
            let begun = w.server.time();
            w.send(10, SendFlags::default());
            let mut row = [PollFd { fd: w.s, interest: Ready::IN, ready: Ready::NONE }];
            assert_eq!(w.server.poll(&mut row, Some(LONG)), Ok(1));
            let arrived = w.server.time();
            std::thread::sleep(Duration::from_millis(20));
            // As on Linux a read of nothing tells of what is there.
            let nothing = w.server.recv_message(w.s, &mut [], RecvFlags::default()).unwrap();
            let got = w.server.recv_message(w.s, &mut [0; 100], RecvFlags::default()).unwrap();
            assert_eq!((got.len, nothing.arrived), (10, got.arrived));
            Some((begun, got.arrived?, arrived))
        };
        let (begun, at, arrived) = (0..TURNS).find_map(|_| turn()).expect("a time");
        assert!(begun <= at && at <= arrived, "{begun:?} <= {at:?} <= {arrived:?}");
    }
}

#[test]
fn options_that_mean_nothing_here_are_refused() {
    let (a, _b) = pair(&PairConfig::default()).unwrap();
    let stack = Runner::new(engine(a, [10, 0, 0, 2]), Box::new(sock::runner::Threads));
    let stack: &dyn sock::Sockets = &stack;
    let fd = stack.socket(Family::V4).unwrap();
    let set = |name, value: i32| stack.setsockopt(fd, libc::SOL_SOCKET, name, &value.to_ne_bytes());
    assert_eq!(set(libc::SO_TIMESTAMPING, 1), Err(Errno::EINVAL), "no port stamps in hardware");
    assert_eq!(set(libc::SO_TIMESTAMPING, 1 << 7), Err(Errno::EINVAL), "bytes are counted on connections");
    assert_eq!(set(libc::SO_TIMESTAMPING, 1 << 9), Ok(()));
    assert_eq!(set(libc::SO_BUSY_POLL, 1), Err(Errno::ENOPROTOOPT));
    assert_eq!(set(libc::SO_MARK, 1), Ok(()), "kept and told");
    assert_eq!(stack.recv_error(fd), Err(Errno::EAGAIN));
}

#[test]
fn received_bytes_are_looked_at_where_they_lie() {
    for w in worlds() {
        w.send(300, SendFlags::default());
        let mut row = [PollFd { fd: w.s, interest: Ready::IN, ready: Ready::NONE }];
        assert_eq!(w.server.poll(&mut row, Some(LONG)), Ok(1));
        let mut seen = 0;
        w.server
            .borrow(w.s, 200, &mut |slice| {
                assert!(slice.iter().all(|&byte| byte == 7));
                seen += slice.len();
                true
            })
            .unwrap();
        assert!(seen > 0 && seen <= 200);
        w.server.consume(w.s, seen).unwrap();
        assert!(w.arrives(300 - seen, LONG));
        assert_eq!(w.server.borrow(w.s, 1, &mut |_| true), Err(Errno::EAGAIN));
    }
}

#[test]
fn a_peek_begins_at_its_offset_and_moves_it_on() {
    const PEEK: RecvFlags = RecvFlags { peek: true, dont_wait: false, wait_all: false, discard: false };
    const PEEK_OFF: i32 = libc::SO_PEEK_OFF;
    for w in worlds() {
        let stack = &w.server;
        let mut sent = 0..=u8::MAX;
        let mut send = |len: usize| {
            let bytes: Vec<u8> = sent.by_ref().take(len).collect();
            let before = stack.readable(w.s).unwrap();
            w.client.send(w.c, &bytes, SendFlags::default()).unwrap();
            let begun = stack.time();
            while stack.readable(w.s).unwrap() < before + len {
                assert!(stack.time().since(begun) < LONG);
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let recv = |len: usize, flags: RecvFlags| {
            let mut into = vec![0; len];
            stack.recv(w.s, &mut into, flags).map(|n| (n, into.first().copied()))
        };
        let offset = || {
            let mut value = [0; 4];
            stack.getsockopt(w.s, libc::SOL_SOCKET, PEEK_OFF, &mut value).unwrap();
            i32::from_ne_bytes(value)
        };
        let set = |v: i32| stack.setsockopt(w.s, libc::SOL_SOCKET, PEEK_OFF, &v.to_ne_bytes()).unwrap();
        assert_eq!(offset(), -1, "off");
        send(100);
        assert_eq!(recv(60, PEEK), Ok((60, Some(0))));
        assert_eq!(recv(60, PEEK), Ok((60, Some(0))));
        set(0);
        assert_eq!((recv(60, PEEK), offset()), (Ok((60, Some(0))), 60));
        assert_eq!((recv(60, PEEK), offset()), (Ok((40, Some(60))), 100));
        assert_eq!((recv(60, PEEK), offset()), (Err(Errno::EAGAIN), 100), "all of it was seen");
        assert_eq!((recv(30, RecvFlags::default()), offset()), (Ok((30, Some(0))), 70));
        send(10);
        let all = RecvFlags { wait_all: true, ..PEEK };
        assert_eq!((recv(10, all), offset()), (Ok((10, Some(100))), 80));
        assert_eq!(
            (recv(70, RecvFlags { discard: true, ..RecvFlags::default() }), offset()),
            (Ok((70, Some(0))), 10)
        );
        assert_eq!((recv(100, RecvFlags::default()), offset()), (Ok((10, Some(100))), 0));
        set(-1);
        send(20);
        assert_eq!((recv(5, PEEK), offset()), (Ok((5, Some(110))), -1));
        // Behind what is readable lies the end.
        set(20);
        assert_eq!(recv(5, PEEK), Err(Errno::EAGAIN));
        w.client.shutdown(w.c, tcp::Shutdown::Write).unwrap();
        let begun = stack.time();
        while recv(5, PEEK) != Ok((0, Some(0))) {
            assert!(stack.time().since(begun) < LONG);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(recv(100, RecvFlags::default()), Ok((20, Some(110))));
    }
}
