//! Goal: in each state of a socket poll tells what Linux tells, and what is left when it is taken apart is the same.
use super::*;

/// Puts the client's socket into a state; the peer's socket, if there is one.
fn put_in_state(w: &mut World, fd: Fd, state: &str) -> Option<Fd> {
    let to = |port| Endpoint::new(SERVER, port);
    let connected = |w: &mut World| {
        let listener = w.listener(80);
        assert_eq!(w.client.connect(fd, to(80)), Err(Errno::EINPROGRESS));
        w.settle();
        assert_eq!(w.client.connect(fd, to(80)), Ok(()));
        w.server.accept(listener).unwrap().0
    };
    let hang_up = |w: &mut World, peer| {
        w.server.setsockopt(peer, libc::SOL_SOCKET, libc::SO_LINGER, &[1, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        w.server.close(peer).unwrap();
    };
    let (fin, reset) = (state.contains("CLOSE-WAIT") || state.contains("FIN,"), state.contains("reset"));
    match state {
        "fresh" => {}
        "fresh, shut" => assert_eq!(w.client.shutdown(fd, Shutdown::Read), Err(Errno::ENOTCONN)),
        "listening" => {
            w.client.bind(fd, Endpoint::new(CLIENT, 99)).unwrap();
            w.client.listen(fd, 1).unwrap();
        }
        "connecting" => assert_eq!(w.client.connect(fd, to(81)), Err(Errno::EINPROGRESS)),
        "connecting, shut" => {
            assert_eq!(w.client.connect(fd, to(81)), Err(Errno::EINPROGRESS));
            assert_eq!(w.client.shutdown(fd, Shutdown::Both), Ok(()));
        }
        "refused" | "refused, told" => {
            assert_eq!(w.client.connect(fd, to(81)), Err(Errno::EINPROGRESS));
            w.settle();
            if state == "refused, told" {
                assert_eq!(w.client.connect(fd, to(81)), Err(Errno::ECONNREFUSED));
            }
        }
        "timed out" | "timed out, told" => {
            // The neighbour is known, and then falls silent.
            let other = w.client.socket(Family::V4).unwrap();
            assert_eq!(w.client.connect(other, to(81)), Err(Errno::EINPROGRESS));
            w.settle();
            assert_eq!(w.client.connect(fd, to(81)), Err(Errno::EINPROGRESS));
            let time = 2_000_i32.to_ne_bytes();
            w.client.setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, &time).unwrap();
            for _ in 0..100 {
                w.clock.0.fetch_add(100_000_000, Ordering::Relaxed);
                w.client.turn().unwrap();
            }
            if state == "timed out, told" {
                assert_eq!(w.client.connect(fd, to(81)), Err(Errno::ETIMEDOUT));
            }
        }
        _ => {
            let peer = connected(w);
            if fin {
                w.server.shutdown(peer, Shutdown::Write).unwrap();
                w.settle();
            }
            match state {
                "FIN-WAIT-2" => w.client.shutdown(fd, Shutdown::Write).unwrap(),
                "receiving side shut" => w.client.shutdown(fd, Shutdown::Read).unwrap(),
                "unread data" => assert_eq!(w.server.write(peer, b"data"), Ok(4)),
                "both FINs, closed" => {
                    w.server.shutdown(peer, Shutdown::Write).unwrap();
                    w.settle();
                    w.client.shutdown(fd, Shutdown::Write).unwrap();
                }
                _ => {}
            }
            if reset {
                hang_up(w, peer);
            }
            w.settle();
            return (!reset).then_some(peer);
        }
    }
    None
}

const IN: u32 = Ready::IN.0;
const OUT: u32 = Ready::OUT.0;
const ERR: u32 = Ready::ERR.0;
const HUP: u32 = Ready::HUP.0;
const RDHUP: u32 = Ready::RDHUP.0;

/// States, the bits that poll tells in each, and the error that is left when the connection is taken apart, as Linux
/// 6.18 has them.
const STATES: &[(&str, u32, Option<Errno>)] = &[
    ("fresh", OUT | HUP, None),
    ("fresh, shut", IN | OUT | HUP | RDHUP, None),
    ("listening", 0, None),
    ("connecting", 0, Some(Errno::ECONNRESET)),
    ("connecting, shut", OUT | ERR | HUP, Some(Errno::ECONNRESET)),
    ("refused", IN | OUT | ERR | HUP | RDHUP, Some(Errno::ECONNREFUSED)),
    ("refused, told", OUT | HUP, None),
    ("timed out", IN | OUT | ERR | HUP | RDHUP, Some(Errno::ETIMEDOUT)),
    ("timed out, told", OUT | HUP, None),
    ("established", OUT, Some(Errno::ECONNRESET)),
    ("unread data", IN | OUT, Some(Errno::ECONNRESET)),
    ("receiving side shut", IN | OUT | RDHUP, Some(Errno::ECONNRESET)),
    ("CLOSE-WAIT", IN | OUT | RDHUP, Some(Errno::ECONNRESET)),
    ("FIN-WAIT-2", OUT, Some(Errno::ECONNRESET)),
    ("both FINs, closed", IN | OUT | HUP | RDHUP, None),
    ("reset", IN | OUT | ERR | HUP | RDHUP, Some(Errno::ECONNRESET)),
    ("FIN, reset", IN | OUT | ERR | HUP | RDHUP, Some(Errno::EPIPE)),
];

fn bits(engine: &mut Engine, fd: Fd) -> Ready {
    let interest = Ready(IN | OUT | RDHUP);
    let mut row = [PollFd { fd, interest, ready: Ready::NONE }];
    engine.poll(&mut row);
    row[0].ready
}

#[test]
fn every_state_has_linux_s_bits() {
    for &(state, expected, _) in STATES {
        let mut w = World::new();
        let fd = w.client.socket(Family::V4).unwrap();
        put_in_state(&mut w, fd, state);
        assert_eq!(bits(&mut w.client, fd), Ready(expected), "{state}");
    }
}

#[test]
fn a_socket_that_was_taken_apart_connects_and_listens_again() {
    for (at, &(state, _, error)) in STATES.iter().enumerate() {
        for bound in [false, true] {
            let mut w = World::new();
            let fd = w.client.socket(Family::V4).unwrap();
            w.client.setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1_i32.to_ne_bytes()).unwrap();
            if bound && state != "listening" {
                w.client.bind(fd, Endpoint::new(CLIENT, 77)).unwrap();
            }
            let ep = w.client.epoll_create().unwrap();
            w.client.epoll_ctl(ep, fd, EpollOp::Add(event(Ready::IN, 7))).unwrap();
            let peer = put_in_state(&mut w, fd, state);
            let port = w.client.local_addr(fd).unwrap().port;

            assert_eq!(w.client.disconnect(fd), Ok(()), "{state}");
            let left = if error.is_some() { Ready(OUT | ERR | HUP) } else { Ready(OUT | HUP) };
            assert_eq!(bits(&mut w.client, fd), left, "{state}");
            assert_eq!(w.client.peer_addr(fd), Err(Errno::ENOTCONN), "{state}");
            let own = w.client.local_addr(fd).unwrap();
            assert_eq!(
                (own.port, own.addr.is_unspecified()),
                (port, !bound && state != "listening"),
                "{state}"
            );
            // Each of the three takes the error.
            let mut buf = [0; 8];
            let (code, none) = (error.map_or(0, Errno::raw), error.map_or(Errno::ENOTCONN, |e| e));
            match at % 3 {
                0 => assert_eq!(
                    get_int(&mut w.client, fd, libc::SOL_SOCKET, libc::SO_ERROR),
                    Ok(code),
                    "{state}"
                ),
                1 => assert_eq!(w.client.read(fd, &mut buf), Err(none), "{state}"),
                _ => assert_eq!(w.client.write(fd, b"x"), Err(error.unwrap_or(Errno::EPIPE)), "{state}"),
            }
            assert_eq!(w.client.read(fd, &mut buf), Err(Errno::ENOTCONN), "{state}");
            assert_eq!(w.client.write(fd, b"x"), Err(Errno::EPIPE), "{state}");
            w.settle();
            if let Some(peer) = peer.filter(|_| error.is_some()) {
                let seen =
                    std::iter::repeat_with(|| w.server.read(peer, &mut buf)).find(|seen| *seen != Ok(4));
                assert!(matches!(seen, Some(Err(Errno::ECONNRESET) | Ok(0))), "{state}: {seen:?}");
            }

            let listener = w.listener(82);
            assert_eq!(w.client.connect(fd, Endpoint::new(SERVER, 82)), Err(Errno::EINPROGRESS), "{state}");
            w.settle();
            assert_eq!(w.client.connect(fd, Endpoint::new(SERVER, 82)), Ok(()), "{state}");
            let (peer, from) = w.server.accept(listener).unwrap();
            assert!(!bound || state == "listening" || from.port == 77, "{state}: {from:?}");
            assert_eq!(w.server.write(peer, b"again"), Ok(5));
            w.settle();
            assert_eq!(collect(&mut w.client, ep), [event(Ready::IN, 7)], "{state}");
            assert_eq!(w.client.read(fd, &mut buf), Ok(5), "{state}");
            assert_eq!(get_int(&mut w.client, fd, libc::IPPROTO_TCP, libc::TCP_NODELAY), Ok(1), "{state}");

            assert_eq!(w.client.disconnect(fd), Ok(()), "{state}");
            assert_eq!(w.client.listen(fd, 1), Ok(()), "{state}");
            let to = w.client.local_addr(fd).unwrap();
            w.settle();
            let other = w.server.socket(Family::V4).unwrap();
            assert_eq!(w.server.connect(other, Endpoint::new(CLIENT, to.port)), Err(Errno::EINPROGRESS));
            w.settle();
            assert!(w.client.accept(fd).is_ok(), "{state}");
        }
    }
}

#[test]
fn an_edge_comes_with_each_change_that_linux_wakes_for() {
    const PRI: u32 = 0x002;
    type Change = fn(&mut World, Fd, Fd);
    fn nothing(_: &mut World, _: Fd, _: Fd) {}
    let data: Change = |w, _, peer| assert_eq!(w.server.write(peer, b"x"), Ok(1));
    let close: Change = |w, _, peer| w.server.close(peer).unwrap();
    let fin: Change = |w, _, peer| w.server.shutdown(peer, Shutdown::Write).unwrap();
    let shut_reads: Change = |w, fd, _| w.client.shutdown(fd, Shutdown::Read).unwrap();
    let shut_writes: Change = |w, fd, _| w.client.shutdown(fd, Shutdown::Write).unwrap();
    let shut_again: Change = |w, fd, _| {
        assert_eq!(w.client.shutdown(fd, Shutdown::Both), Err(Errno::ENOTCONN));
    };
    let mark: Change = |w, fd, _| {
        w.client.setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, &1_i32.to_ne_bytes()).unwrap();
    };
    let unsent_mark: Change = |w, fd, _| {
        w.client.setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &0_i32.to_ne_bytes()).unwrap();
    };
    // What is watched for, what comes before, the change, and the bits of which a watch is told, whichever changed.
    let changes: [(&str, u32, [Change; 2], Change, u32); 13] = [
        ("a low-water mark", OUT | IN, [nothing; 2], mark, 0),
        ("a low-water mark, and data is there", OUT | IN, [data, nothing], mark, OUT | IN),
        ("a low-water mark behind a FIN", OUT | IN, [fin, nothing], mark, OUT | IN),
        ("a mark of what is not sent", OUT, [nothing; 2], unsent_mark, OUT),
        (
            "a mark of what is not sent, behind the last ACK",
            OUT,
            [close, shut_writes],
            unsent_mark,
            OUT | HUP,
        ),
        ("nothing", OUT, [nothing; 2], nothing, 0),
        ("data", OUT, [nothing; 2], data, 0),
        ("data, and urgent data is watched for", OUT | PRI, [nothing; 2], data, OUT),
        ("the peer's FIN", OUT, [nothing; 2], fin, OUT),
        ("no more reads", OUT, [nothing; 2], shut_reads, OUT),
        ("no more writes", OUT, [nothing; 2], shut_writes, OUT),
        ("the last ACK", OUT, [close, nothing], shut_writes, OUT | HUP),
        ("shut once more", OUT, [close, shut_writes], shut_again, OUT | HUP),
    ];
    for (name, interest, before, change, expected) in changes {
        let mut w = World::new();
        let ep = w.client.epoll_create().unwrap();
        let fd = w.client.socket(Family::V4).unwrap();
        let peer = put_in_state(&mut w, fd, "established").unwrap();
        w.client.epoll_ctl(ep, fd, EpollOp::Add(event(Ready(interest) | Ready::EDGE, 1))).unwrap();
        assert_eq!(collect(&mut w.client, ep), [event(Ready::OUT, 1)], "{name}");
        for step in before {
            step(&mut w, fd, peer);
            w.settle();
        }
        collect(&mut w.client, ep);
        change(&mut w, fd, peer);
        w.settle();
        let seen: Vec<_> = collect(&mut w.client, ep).iter().map(|event| event.ready.0).collect();
        assert_eq!(seen, Vec::from_iter((expected > 0).then_some(expected)), "{name}");
    }
    // The acknowledgment of a FIN is a change of its own.
    let mut w = World::new();
    let ep = w.client.epoll_create().unwrap();
    let fd = w.client.socket(Family::V4).unwrap();
    put_in_state(&mut w, fd, "established");
    w.client.epoll_ctl(ep, fd, EpollOp::Add(event(Ready::OUT | Ready::EDGE, 1))).unwrap();
    shut_writes(&mut w, fd, fd);
    assert_eq!(collect(&mut w.client, ep), [event(Ready::OUT, 1)]);
    w.settle();
    assert_eq!(collect(&mut w.client, ep), [event(Ready::OUT, 1)]);
}

#[test]
fn a_socket_that_is_bound_when_its_connection_is_over_stays_what_it_is() {
    let mut w = World::new();
    let fd = w.client.socket(Family::V4).unwrap();
    let peer = put_in_state(&mut w, fd, "unread data").unwrap();
    w.server.close(peer).unwrap();
    w.settle();
    assert_eq!(w.client.write(fd, b"x"), Ok(1));
    w.settle();
    assert_eq!(w.client.bind(fd, Endpoint::new(CLIENT, 77)), Ok(()));
    assert_eq!(w.client.local_addr(fd).unwrap().port, 77);
    assert_eq!(w.client.bind(fd, Endpoint::new(CLIENT, 78)), Err(Errno::EINVAL));
    assert_eq!(w.client.read(fd, &mut [0; 8]), Ok(4), "what came before");
    assert_eq!(w.client.listen(fd, 1), Err(Errno::EINVAL));
    let other = w.client.socket(Family::V4).unwrap();
    assert_eq!(w.client.bind(other, Endpoint::new(CLIENT, 77)), Err(Errno::EADDRINUSE));
    // Taken apart it keeps the port, and closed gives it back.
    assert_eq!(w.client.disconnect(fd), Ok(()));
    assert_eq!(w.client.local_addr(fd).unwrap().port, 77);
    assert_eq!(w.client.bind(other, Endpoint::new(CLIENT, 77)), Err(Errno::EADDRINUSE));
    w.client.close(fd).unwrap();
    assert_eq!(w.client.bind(other, Endpoint::new(CLIENT, 77)), Ok(()));
    w.client.close(other).unwrap();
    // So does one that is closed as it is.
    let fd = w.client.socket(Family::V4).unwrap();
    put_in_state(&mut w, fd, "refused");
    assert_eq!(w.client.bind(fd, Endpoint::new(CLIENT, 77)), Ok(()));
    w.client.close(fd).unwrap();
    let other = w.client.socket(Family::V4).unwrap();
    assert_eq!(w.client.bind(other, Endpoint::new(CLIENT, 77)), Ok(()));
}

/// As on Linux 6.18: what a peer takes that says nothing (RFC 9293, section 3.7.1), less the timestamps.
#[test]
fn before_the_peers_syn_the_segments_are_those_of_a_peer_that_says_nothing() {
    let mut w = World::new();
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_MAXSEG);
    for (own, wanted) in [(0_i32, 524), (400, 388), (1000, 988)] {
        for state in ["connecting", "refused"] {
            let fd = w.client.socket(Family::V4).unwrap();
            w.client.setsockopt(fd, level, name, &own.to_ne_bytes()).unwrap();
            put_in_state(&mut w, fd, state);
            let wanted = if state == "refused" && own > 0 { own } else { wanted };
            assert_eq!(get_int(&mut w.client, fd, level, name), Ok(wanted), "{state}, {own}");
        }
    }
}
