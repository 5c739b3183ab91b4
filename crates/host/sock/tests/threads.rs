//! Goal: the std::net-like API: blocking calls, timeouts, threads that share a stack, over two stacks joined in
//! memory, each turned by its own application.

use base::{Addr, Duration};
use pio::{PairConfig, pair};
use sock::{Engine, Limits, Runner, Stack, SystemClock, TcpListener, TcpStream};
use stack::{Core, CoreConfig, OwnAddr};
use std::io::{ErrorKind, Read, Write};

fn stacks() -> (Stack, Stack) {
    let (a, b) = pair(&PairConfig::default()).unwrap();
    let stack = |port, last| -> Stack {
        let addresses = vec![OwnAddr { addr: Addr::v4([10, 0, 0, last]), prefix: 24 }];
        let core = Core::new(CoreConfig { seed: 3, addresses, ..CoreConfig::default() }, Box::new(port));
        Runner::start(Engine::new(core, Box::new(SystemClock::new()), Limits::default())).unwrap()
    };
    (stack(a, 2), stack(b, 1))
}

#[test]
fn an_echo_server_reads_like_std_net() {
    let (client, server) = stacks();
    let listener = TcpListener::bind(&server, "10.0.0.1:7").unwrap();
    let echo = std::thread::spawn(move || {
        let (mut stream, peer) = listener.accept().unwrap();
        assert_eq!(peer, stream.peer_addr().unwrap());
        let mut buf = [0; 10_000];
        loop {
            match stream.read(&mut buf).unwrap() {
                0 => break,
                n => stream.write_all(&buf[..n]).unwrap(),
            }
        }
    });
    let mut stream = TcpStream::connect(&client, "10.0.0.1:7").unwrap();
    let sent: Vec<u8> = (0..1_000_000u32).map(|i| (i * 7) as u8).collect();
    let mut writer = stream.try_clone().unwrap();
    let copy = sent.clone();
    // A second thread writes through the same stack while this one reads.
    let writing = std::thread::spawn(move || {
        writer.write_all(&copy).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    writing.join().unwrap();
    assert!(got == sent, "{} of {} bytes came back right", got.len(), sent.len());
    drop(stream);
    echo.join().unwrap();
}

#[test]
fn timeouts_and_non_blocking_calls() {
    let (client, server) = stacks();
    let listener = TcpListener::bind(&server, "10.0.0.1:7").unwrap();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut byte = [0; 1];
        // Keeps its stack turning until the client goes.
        stream.read(&mut byte).unwrap()
    });
    let mut stream = TcpStream::connect(&client, "10.0.0.1:7").unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
    let mut byte = [0; 1];
    assert_eq!(stream.read(&mut byte).unwrap_err().kind(), ErrorKind::WouldBlock);
    stream.set_nonblocking(true).unwrap();
    assert_eq!(stream.read(&mut byte).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(stream);
    // No thread calls the client's stack any more: its watchdog sends the FIN.
    assert_eq!(serving.join().unwrap(), 0);
}

#[test]
fn threads_that_wait_for_different_things_all_get_their_turn() {
    let (client, server) = stacks();
    let listener = TcpListener::bind(&server, "10.0.0.1:7").unwrap();
    // One thread waits for connections that never come, one for each connection's words.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut word = [0; 4];
                while stream.read_exact(&mut word).is_ok() && stream.write_all(&word).is_ok() {}
            });
        }
    });
    let mut streams: Vec<_> = (0..3).map(|_| TcpStream::connect(&client, "10.0.0.1:7").unwrap()).collect();
    for round in 0..1000 {
        for stream in &mut streams {
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            stream.write_all(b"ping").unwrap();
        }
        for stream in &mut streams {
            stream.read_exact(&mut [0; 4]).unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
    }
}
