//! Goal: paired mode keeps every promise of the calls: blocking and not, many threads on one handle, several cores,
//! epoll, errors, ends and resets, with rings so small that they are always in the way.

use base::{Addr, Duration, Endpoint};
use pio::{PairConfig, pair};
use sock::paired::{PairedConfig, StackThread};
use sock::{
    Engine, Errno, Family, Limits, Paired, Poller, Ready, RecvFlags, SendFlags, Sockets, Stack, SystemClock,
    TcpListener, TcpStream,
};
use stack::{Core, CoreConfig, OwnAddr};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

fn thread(port: impl pio::PacketIo + 'static, addr: [u8; 4], config: PairedConfig) -> Arc<StackThread> {
    let addresses = vec![OwnAddr { addr: Addr::v4(addr), prefix: 16 }];
    let core = Core::new(CoreConfig { seed: 3, addresses, ..CoreConfig::default() }, Box::new(port));
    let engine = Engine::new(core, Box::new(SystemClock::new()), Limits::default());
    Arc::new(StackThread::start(engine, config).unwrap())
}

/// A client at 10.0.0.2 and a server at 10.0.0.1.
fn threads(config: PairedConfig) -> [Arc<StackThread>; 2] {
    let (a, b) = pair(&PairConfig::default()).unwrap();
    [thread(a, [10, 0, 0, 2], config), thread(b, [10, 0, 0, 1], config)]
}

fn paired(threads: &[Arc<StackThread>]) -> Arc<Paired> {
    Arc::new(Paired::over(threads, Limits::default()).unwrap())
}

fn stacks(config: PairedConfig) -> (Stack, Stack) {
    let [client, server] = threads(config);
    (paired(&[client]), paired(&[server]))
}

/// Rings that are full all the time, and given back whenever they are not.
fn tight() -> PairedConfig {
    PairedConfig { ring: 512, rings_kept: 0, spin: Duration::ZERO, ..PairedConfig::default() }
}

fn pattern(len: u32, seed: u32) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) as u8).collect()
}

fn echo(listener: TcpListener, connections: usize) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let each = |mut stream: TcpStream| {
            let mut buf = [0; 10_000];
            loop {
                match stream.read(&mut buf).unwrap() {
                    0 => break,
                    n => stream.write_all(&buf[..n]).unwrap(),
                }
            }
        };
        // One thread per connection, all of them blocked on one handle.
        let workers: Vec<_> = (0..connections)
            .map(|_| {
                let (stream, peer) = listener.accept().unwrap();
                assert_eq!(peer, stream.peer_addr().unwrap());
                std::thread::spawn(move || each(stream))
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    })
}

fn through_the_echo(stream: &mut TcpStream, data: &[u8]) {
    let mut writer = stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            writer.write_all(data).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        assert!(got == data, "{} of {} bytes came back right", got.len(), data.len());
    });
}

#[test]
fn an_echo_server_reads_like_std_net() {
    for config in [PairedConfig::default(), tight()] {
        let (client, server) = stacks(config);
        let serving = echo(TcpListener::bind(&server, "10.0.0.1:7").unwrap(), 1);
        let mut stream = TcpStream::connect(&client, "10.0.0.1:7").unwrap();
        assert_eq!(stream.local_addr().unwrap().ip().to_string(), "10.0.0.2");
        through_the_echo(&mut stream, &pattern(if config.ring < 1000 { 100_000 } else { 2_000_000 }, 1));
        drop(stream);
        serving.join().unwrap();
    }
}

#[test]
fn many_blocked_threads_share_a_handle() {
    for config in [PairedConfig::default(), tight()] {
        let (client, server) = stacks(config);
        let serving = echo(TcpListener::bind(&server, "10.0.0.1:7").unwrap(), 12);
        std::thread::scope(|scope| {
            for seed in 0..12 {
                let client = &client;
                scope.spawn(move || {
                    let mut stream = TcpStream::connect(client, "10.0.0.1:7").unwrap();
                    through_the_echo(&mut stream, &pattern(30_000, seed));
                });
            }
        });
        serving.join().unwrap();
    }
}

/// Memory that was lent is sent from where it lies, and given back when the peer has acknowledged all of it.
#[test]
fn lent_memory_is_referred_to_until_it_is_acknowledged() {
    for config in [PairedConfig::default(), tight()] {
        let (client, server) = stacks(config);
        let listener = TcpListener::bind(&server, "10.0.0.1:7").unwrap();
        // The peer takes less than is lent.
        let small = 65_536i32.to_ne_bytes();
        server.setsockopt(listener.fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &small).unwrap();
        let mut stream = TcpStream::connect(&client, "10.0.0.1:7").unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let bytes: Arc<[u8]> = pattern(3_000_000, 5).into();
        let flags = SendFlags { dont_wait: true, ..SendFlags::default() };
        let sent = client.lend(stream.fd(), &bytes, 0..bytes.len(), flags).unwrap();
        // What the peer has room for may be acknowledged already.
        let held = Arc::strong_count(&bytes) > 1;
        assert!(held || config.ring < 1000, "{sent} bytes were copied");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let rest = client.lend(stream.fd(), &bytes, sent..bytes.len(), SendFlags::default());
                assert_eq!(rest, Ok(bytes.len() - sent));
                stream.shutdown(Shutdown::Write).unwrap();
            });
            let mut got = Vec::new();
            peer.read_to_end(&mut got).unwrap();
            assert!(got == *bytes);
        });
        drop(peer);
        // The peer's FIN acknowledges everything.
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        assert_eq!(Arc::strong_count(&bytes), 1);
    }
}

#[test]
fn one_handle_uses_several_cores() {
    let (a, b) = pair(&PairConfig::default()).unwrap();
    let (c, d) = pair(&PairConfig::default()).unwrap();
    let config = PairedConfig::default();
    let server = paired(&[thread(b, [10, 0, 0, 1], config), thread(d, [10, 0, 0, 1], config)]) as Stack;
    let clients = [thread(a, [10, 0, 0, 2], config), thread(c, [10, 0, 0, 3], config)];
    let listener = TcpListener::bind(&server, "10.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    assert_ne!(at.port(), 0);
    let serving = echo(listener, 4);
    // Each core of the server is reached by its own wire; both answer at the same port.
    for client in clients {
        let client = paired(&[client]) as Stack;
        for seed in 0..2 {
            let mut stream = TcpStream::connect(&client, at).unwrap();
            through_the_echo(&mut stream, &pattern(10_000, seed));
        }
    }
    serving.join().unwrap();
}

#[test]
fn a_connect_uses_the_cores_in_turn() {
    let (a, b) = pair(&PairConfig::default()).unwrap();
    let (c, d) = pair(&PairConfig::default()).unwrap();
    let config = PairedConfig::default();
    let client = paired(&[thread(a, [10, 0, 0, 2], config), thread(c, [10, 0, 0, 3], config)]) as Stack;
    let servers = [thread(b, [10, 0, 0, 1], config), thread(d, [10, 0, 0, 1], config)];
    let serving = servers.map(|thread| {
        let listener = TcpListener::bind(&(paired(&[thread]) as Stack), "10.0.0.1:7").unwrap();
        echo(listener, 2)
    });
    let mut from = Vec::new();
    for _ in 0..4 {
        let mut stream = TcpStream::connect(&client, "10.0.0.1:7").unwrap();
        from.push(stream.local_addr().unwrap().ip().to_string());
        through_the_echo(&mut stream, b"hello");
    }
    assert_eq!(from, ["10.0.0.2", "10.0.0.3", "10.0.0.2", "10.0.0.3"]);
    serving.into_iter().for_each(|serving| serving.join().unwrap());
}

#[test]
fn timeouts_and_non_blocking_calls() {
    let (client, server) = stacks(PairedConfig::default());
    let listener = TcpListener::bind(&server, "10.0.0.1:7").unwrap();
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().err().unwrap().kind(), ErrorKind::WouldBlock);
    listener.set_nonblocking(false).unwrap();
    let mut stream = TcpStream::connect(&client, "10.0.0.1:7").unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
    let mut byte = [0; 1];
    assert_eq!(stream.read(&mut byte).unwrap_err().kind(), ErrorKind::WouldBlock);
    stream.set_nonblocking(true).unwrap();
    assert_eq!(stream.read(&mut byte).unwrap_err().kind(), ErrorKind::WouldBlock);
    // Nothing reads at the other end: the writer is stopped, and says so.
    let chunk = pattern(100_000, 0);
    let (mut sent, mut full) = (0, 0);
    while full < 3 {
        match stream.write(&chunk) {
            Ok(n) => sent += n,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::WouldBlock);
                full += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
    stream.set_nonblocking(false).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(30))).unwrap();
    let stopped = loop {
        match stream.write(&chunk) {
            Ok(n) => sent += n,
            Err(e) => break e,
        }
    };
    assert_eq!(stopped.kind(), ErrorKind::WouldBlock);
    let (mut peer, _) = listener.accept().unwrap();
    let (queued, _) = client.unsent(stream.fd()).unwrap();
    assert!(queued > 0 && queued <= sent);
    drop(stream);
    let mut got = Vec::new();
    peer.read_to_end(&mut got).unwrap();
    assert_eq!(got.len(), sent, "what was taken arrives, after close too");
}

#[test]
fn errors_are_linux_s() {
    let (client, server) = stacks(PairedConfig::default());
    let refused = TcpStream::connect(&client, "10.0.0.1:9").err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    // No host has this address, and a non-blocking connect learns of a bad source at once or by SO_ERROR.
    let fd = client.socket(Family::V4).unwrap();
    let foreign = Endpoint::new(Addr::v4([10, 9, 9, 9]), 5);
    assert_eq!(client.bind(fd, foreign), Err(Errno::EADDRNOTAVAIL));
    client.close(fd).unwrap();
    assert_eq!(client.close(fd), Err(Errno::EBADF));

    let listener = TcpListener::bind(&server, "10.0.0.1:7").unwrap();
    assert_eq!(TcpListener::bind(&server, "10.0.0.1:7").err().unwrap().kind(), ErrorKind::AddrInUse);
    let mut stream = TcpStream::connect(&client, "10.0.0.1:7").unwrap();
    let (peer, _) = listener.accept().unwrap();
    // Closing with unread bytes resets (RFC 2525, section 2.17), wherever they lie.
    stream.write_all(b"never read").unwrap();
    while server.readable(peer.fd()).unwrap() == 0 {
        std::thread::yield_now();
    }
    drop(peer);
    let mut buf = [0; 8];
    assert_eq!(stream.read(&mut buf).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(stream.read(&mut buf).unwrap(), 0, "told once, then the end");
    assert_eq!(stream.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);

    // SO_LINGER of zero resets too.
    let mut stream = TcpStream::connect(&client, "10.0.0.1:7").unwrap();
    let (peer, _) = listener.accept().unwrap();
    let linger = [1i32.to_ne_bytes(), 0i32.to_ne_bytes()].concat();
    server.setsockopt(peer.fd(), libc::SOL_SOCKET, libc::SO_LINGER, &linger).unwrap();
    drop(peer);
    assert_eq!(stream.read(&mut buf).unwrap_err().kind(), ErrorKind::ConnectionReset);

    // What was not accepted is reset when the listener goes.
    let mut stream = TcpStream::connect(&client, "10.0.0.1:7").unwrap();
    stream.write_all(b"hello?").unwrap();
    std::thread::sleep(Duration::from_millis(20));
    drop(listener);
    assert_eq!(stream.read(&mut buf).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(
        TcpStream::connect(&client, "10.0.0.1:7").err().unwrap().kind(),
        ErrorKind::ConnectionRefused,
        "the port is free"
    );
}

#[test]
fn options_and_questions_reach_the_stack_thread() {
    let (client, server) = stacks(PairedConfig::default());
    let listener = TcpListener::bind(&server, "10.0.0.1:7").unwrap();
    let stream = TcpStream::connect(&client, "10.0.0.1:7").unwrap();
    let (peer, _) = listener.accept().unwrap();
    stream.set_nodelay(true).unwrap();
    let mut word = [0; 4];
    client.getsockopt(stream.fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, &mut word).unwrap();
    assert_eq!(i32::from_ne_bytes(word), 1);
    let mut info = [0; sock::tcp_info::LEN];
    let len = client.getsockopt(stream.fd(), libc::IPPROTO_TCP, libc::TCP_INFO, &mut info).unwrap();
    assert_eq!((len, info[0]), (info.len(), 1), "established");
    client.setsockopt(stream.fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"newreno").unwrap();
    let mut name = [0; 16];
    client.getsockopt(stream.fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name).unwrap();
    assert_eq!(&name[..8], b"newreno\0");
    let unknown = client.setsockopt(stream.fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"hopeful");
    assert_eq!(unknown, Err(Errno::ENOENT));
    assert_eq!(client.setsockopt(stream.fd(), 77, 77, &word), Err(Errno::ENOPROTOOPT));
    let mut states = Vec::new();
    client.inspect(Box::new(|engine| states = sock::control::rows(engine)));
    assert_eq!(states.len(), 1);
    assert_eq!(states[0]["state"], "ESTABLISHED");
    assert_eq!(peer.local_addr().unwrap(), stream.peer_addr().unwrap());
}

#[test]
fn half_closed_and_peeked() {
    let (client, server) = stacks(PairedConfig::default());
    let listener = TcpListener::bind(&server, "10.0.0.1:7").unwrap();
    let mut stream = TcpStream::connect(&client, "10.0.0.1:7").unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    stream.write_all(b"question").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.write(b"more").unwrap_err().kind(), ErrorKind::BrokenPipe);
    let mut buf = [0; 20];
    let n = peer.peek(&mut buf[..5]).unwrap();
    assert_eq!(&buf[..n], &b"question"[..n]);
    let flags = RecvFlags { wait_all: true, ..RecvFlags::default() };
    assert_eq!(server.recv(peer.fd(), &mut buf[..8], flags).unwrap(), 8);
    assert_eq!(&buf[..8], b"question");
    assert_eq!(peer.read(&mut buf).unwrap(), 0);
    peer.write_all(b"answer").unwrap();
    drop(peer);
    let mut got = String::new();
    stream.read_to_string(&mut got).unwrap();
    assert_eq!(got, "answer");
}

#[test]
fn one_wait_reports_a_registration_at_most_once() {
    let (_client, server) = stacks(PairedConfig::default());
    let poller = Poller::new(&server).unwrap();
    let pipes: Vec<_> = (0..8).map(|_| server.pipe().unwrap()).collect();
    for (at, (read, write)) in pipes.iter().enumerate() {
        poller.add(*read, at as u64, Ready::IN).unwrap();
        assert_eq!(server.send(*write, b"x", SendFlags::default()), Ok(1));
    }
    // Closed while they were queued: their entries report nothing.
    for (read, _) in &pipes[..4] {
        server.close(*read).unwrap();
    }
    let mut events = [Default::default(); 64];
    for wait in 0..3 {
        let found = poller.wait(&mut events, Some(Duration::from_secs(20))).unwrap();
        let mut seen: Vec<_> = found.iter().map(|event| event.data).collect();
        seen.sort_unstable();
        assert_eq!(seen, [4, 5, 6, 7], "wait {wait}");
    }
}

#[test]
fn epoll_serves_many_connections_from_one_thread() {
    const CONNECTIONS: u64 = 40;
    for config in [PairedConfig::default(), tight()] {
        let (client, server) = stacks(config);
        let listener = TcpListener::bind(&server, "10.0.0.1:7").unwrap();
        listener.set_nonblocking(true).unwrap();
        let serving = std::thread::spawn(move || {
            let poller = Poller::new(&server).unwrap();
            poller.add(listener.fd(), u64::MAX, Ready::IN).unwrap();
            let mut streams: Vec<Option<(TcpStream, Vec<u8>)>> = Vec::new();
            let (mut events, mut closed) = ([Default::default(); 16], 0);
            while closed < CONNECTIONS {
                for event in poller.wait(&mut events, Some(Duration::from_secs(20))).unwrap() {
                    if event.data == u64::MAX {
                        while let Ok((stream, _)) = listener.accept() {
                            stream.set_nonblocking(true).unwrap();
                            let edges =
                                if streams.len().is_multiple_of(2) { Ready::EDGE } else { Ready::NONE };
                            let interest = Ready::IN | Ready::OUT | edges;
                            poller.add(stream.fd(), streams.len() as u64, interest).unwrap();
                            streams.push(Some((stream, Vec::new())));
                        }
                        continue;
                    }
                    let slot = &mut streams[event.data as usize];
                    let Some((stream, waiting)) = slot else { continue };
                    let mut ended = false;
                    loop {
                        let mut buf = [0; 3_000];
                        match stream.read(&mut buf) {
                            Ok(0) => ended = true,
                            Ok(n) => {
                                waiting.extend_from_slice(&buf[..n]);
                                continue;
                            }
                            Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
                        }
                        break;
                    }
                    while !waiting.is_empty() {
                        match stream.write(waiting) {
                            Ok(n) => drop(waiting.drain(..n)),
                            Err(e) => {
                                assert_eq!(e.kind(), ErrorKind::WouldBlock);
                                break;
                            }
                        }
                    }
                    if ended && waiting.is_empty() {
                        *slot = None;
                        closed += 1;
                    }
                }
            }
        });
        std::thread::scope(|scope| {
            for part in 0..4 {
                let client = &client;
                scope.spawn(move || {
                    for seed in 0..CONNECTIONS as u32 / 4 {
                        let mut stream = TcpStream::connect(client, "10.0.0.1:7").unwrap();
                        through_the_echo(&mut stream, &pattern(5_000 + seed * 100, part));
                    }
                });
            }
        });
        serving.join().unwrap();
    }
}

#[test]
fn a_non_blocking_connect_becomes_writable() {
    let (client, server) = stacks(PairedConfig::default());
    let listener = TcpListener::bind(&server, "10.0.0.1:7").unwrap();
    let poller = Poller::new(&client).unwrap();
    let good = TcpStream::connect_nonblocking(&client, "10.0.0.1:7".parse().unwrap()).unwrap();
    let bad = TcpStream::connect_nonblocking(&client, "10.0.0.1:9".parse().unwrap()).unwrap();
    poller.add(good.fd(), 1, Ready::OUT).unwrap();
    poller.add(bad.fd(), 2, Ready::OUT | Ready::ONESHOT).unwrap();
    let mut seen = Vec::new();
    let mut events = [Default::default(); 4];
    while seen.len() < 2 {
        for event in poller.wait(&mut events, Some(Duration::from_secs(10))).unwrap() {
            if !seen.contains(&event.data) {
                seen.push(event.data);
            }
            assert_eq!(event.ready.any(Ready::ERR), event.data == 2);
        }
    }
    assert!(good.take_error().unwrap().is_none());
    assert_eq!(bad.take_error().unwrap().unwrap().kind(), ErrorKind::ConnectionRefused);
    assert!(listener.accept().is_ok());
}

#[test]
fn an_application_that_goes_leaves_nothing_behind() {
    let [client, server] = threads(PairedConfig::default());
    let stack = paired(&[server]) as Stack;
    let listener = TcpListener::bind(&stack, "10.0.0.1:7").unwrap();
    for _ in 0..5 {
        let mine = Paired::over(std::slice::from_ref(&client), Limits::default()).unwrap();
        let fd = mine.socket(Family::V4).unwrap();
        mine.connect(fd, Endpoint::new(Addr::v4([10, 0, 0, 1]), 7)).unwrap();
        mine.send(fd, &pattern(200_000, 5), SendFlags::default()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        // Descriptors and all: what was sent still arrives, and then the end.
        drop(mine);
        let mut got = Vec::new();
        peer.read_to_end(&mut got).unwrap();
        assert!(got == pattern(200_000, 5), "{} bytes arrived", got.len());
    }
    let mut open = usize::MAX;
    let look = paired(&[client]);
    while open > 0 {
        look.inspect(Box::new(|engine| {
            open = sock::control::rows(engine).iter().filter(|row| row["state"] != "TIME-WAIT").count();
        }));
        std::thread::yield_now();
    }
}

#[test]
fn a_stack_thread_that_ends_fails_its_connections() {
    let [client, server] = threads(PairedConfig::default());
    let mine = Paired::over(std::slice::from_ref(&client), Limits::default()).unwrap();
    let stack = paired(&[server]) as Stack;
    let _listener = TcpListener::bind(&stack, "10.0.0.1:7").unwrap();
    let fd = mine.socket(Family::V4).unwrap();
    mine.connect(fd, Endpoint::new(Addr::v4([10, 0, 0, 1]), 7)).unwrap();
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut buf = [0; 8];
            mine.recv(fd, &mut buf, RecvFlags::default())
        });
        std::thread::sleep(Duration::from_millis(20));
        client.stop();
        assert_eq!(reading.join().unwrap(), Err(Errno::ENETDOWN));
    });
    assert_eq!(mine.send(fd, b"x", SendFlags::default()), Err(Errno::EPIPE));
    assert_eq!(mine.close(fd), Ok(()));
    assert_eq!(
        mine.bind(mine.socket(Family::V4).unwrap(), Endpoint::new(Addr::UNSPECIFIED_V4, 0)),
        Err(Errno::ENETUNREACH)
    );
}
