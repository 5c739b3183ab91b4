//! Goal: a client that sends many requests and takes no answers costs the server neither its stack nor more than a
//! bound of its memory; clients that do not get on are closed, and no others.

use super::*;
use crate::tests::testing::stacks;
use sock::TcpStream;
use std::io::Read;
use std::sync::Arc;

const SERVER: &str = "10.0.0.1:80";

/// A listener whose connections' send buffers have `sndbuf` bytes.
fn listener(stack: &Stack, sndbuf: i32) -> TcpListener {
    let listener = TcpListener::bind_shared(stack, SERVER.parse().unwrap(), 64).unwrap();
    listener.set_nonblocking(true).unwrap();
    stack.setsockopt(listener.fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, &sndbuf.to_ne_bytes()).unwrap();
    listener
}

/// Reads answers up to the end of `n`, each with a body of `len` bytes.
fn take_answers(stream: &mut TcpStream, n: usize, len: usize) {
    let head = format!(
        "HTTP/1.1 200 OK\r\nServer: millstream\r\nContent-Type: text/plain\r\nContent-Length: {len}\r\n\r\n"
    );
    let mut buf = vec![0; head.len() + len];
    for i in 0..n {
        stream.read_exact(&mut buf).unwrap_or_else(|e| panic!("answer {i}: {e}"));
        assert!(buf.starts_with(head.as_bytes()), "answer {i}: {:?}", String::from_utf8_lossy(&buf[..80]));
        let body = &buf[head.len()..];
        assert!(body.iter().enumerate().all(|(at, &byte)| byte == b'!' + (at % 89) as u8), "answer {i}");
    }
}

#[test]
fn pipelined_requests_for_long_answers_use_no_stack() {
    let (client, server) = stacks();
    let listener = listener(&server, 64 << 20);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    // A frame for each request would need more than this.
    let worker = std::thread::Builder::new().stack_size(128 * 1024).spawn(move || {
        let content = Content::generated(64);
        run(&server, &listener, &content, &stopped, None).map(|totals| totals.requests)
    });
    let mut stream = TcpStream::connect(&client, SERVER).unwrap();
    let requests = 2_000;
    let batch = "GET /65700 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(requests);
    let mut writing = stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || writing.write_all(batch.as_bytes()).unwrap());
    take_answers(&mut stream, requests, 65_700);
    writer.join().unwrap();
    stop.store(true, Ordering::Relaxed);
    assert_eq!(worker.unwrap().join().unwrap().unwrap(), requests as u64);
}

#[test]
fn what_a_client_does_not_take_is_not_kept_for_it() {
    for (request, len) in [("GET /100 HTTP/1.1\r\n\r\n", 100), ("GET /9000 HTTP/1.1\r\n\r\n", 9_000)] {
        let (client, server) = stacks();
        let (listener, content) = (listener(&server, 4_096), Content::generated(64));
        let mut worker = Worker::new(&server, listener.fd(), &content).unwrap();
        let mut events = vec![EpollEvent::default(); 64];
        let requests = 10_000;
        let mut stream = TcpStream::connect(&client, SERVER).unwrap();
        let batch = request.repeat(requests);
        let mut writing = stream.try_clone().unwrap();
        let writer = std::thread::spawn(move || writing.write_all(batch.as_bytes()).unwrap());
        let bounded = |worker: &Worker<'_>| {
            for u in worker.unfinished.iter().flatten() {
                assert!(u.input.capacity() <= HEAD_MAX && u.head.capacity() <= OUTPUT_MAX + 256);
            }
            worker.unfinished.iter().flatten().any(|u| u.is_answering())
        };
        let mut waits = 0;
        while waits < 10 {
            worker.turn(&mut events, Duration::from_millis(20), || Instant::ZERO).unwrap();
            waits += usize::from(bounded(&worker));
        }
        let reader = std::thread::spawn(move || take_answers(&mut stream, requests, len));
        while !reader.is_finished() {
            worker.turn(&mut events, Duration::from_millis(5), || Instant::ZERO).unwrap();
            bounded(&worker);
        }
        reader.join().unwrap();
        writer.join().unwrap();
        assert_eq!(worker.totals.requests, requests as u64);
        assert!(worker.unfinished.iter().all(Option::is_none));
    }
}

fn take_what_is_there(stream: &mut TcpStream) {
    let (mut taken, mut buf) = (0, vec![0; 1 << 16]);
    while let Ok(n) = stream.read(&mut buf) {
        taken += n;
    }
    assert!(taken > 10_000, "{taken}");
}

#[test]
fn clients_that_do_not_get_on_are_closed() {
    let (client, server) = stacks();
    let (listener, content) = (listener(&server, 4_096), Content::generated(64));
    let mut worker = Worker::new(&server, listener.fd(), &content).unwrap();
    let mut events = vec![EpollEvent::default(); 64];
    // Serves at a second of the test's clock; how many connections are left.
    let mut left_at = |seconds| {
        let mut quiet = 0;
        while quiet < 5 {
            let before = (worker.totals.connections, worker.totals.bytes);
            worker.turn(&mut events, Duration::from_millis(10), || Instant::from_secs(seconds)).unwrap();
            quiet = if before == (worker.totals.connections, worker.totals.bytes) { quiet + 1 } else { 0 };
        }
        worker.close_late(Duration::from_secs(60));
        worker.paces.iter().filter(|pace| pace.since < Instant::FAR_FUTURE).count()
    };
    let connect = |request: &[u8]| {
        let mut stream = TcpStream::connect(&client, SERVER).unwrap();
        stream.write_all(request).unwrap();
        stream
    };
    let idle = connect(b"");
    let mut slow_head = connect(b"GET / HT");
    let mut slow_body = connect(b"PUT / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n");
    let mut brisk = connect(b"PUT / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n");
    let mut reader = connect(b"GET /50000000 HTTP/1.1\r\n\r\n");
    reader.set_nonblocking(true).unwrap();
    let stalled = connect(b"GET /50000000 HTTP/1.1\r\n\r\n");
    assert_eq!(left_at(0), 6);
    // Some bytes are not enough.
    slow_head.write_all(b"T").unwrap();
    slow_body.write_all(b"x").unwrap();
    brisk.write_all(&[b'x'; 2_000]).unwrap();
    take_what_is_there(&mut reader);
    assert_eq!(left_at(50), 6);
    // What was in the send buffers at their first look may be on its way.
    assert_eq!(left_at(65), 3, "brisk, reader and stalled");
    brisk.write_all(&[b'x'; 2_000]).unwrap();
    assert_eq!(left_at(108), 3);
    take_what_is_there(&mut reader);
    assert_eq!(left_at(130), 2, "brisk and reader");
    assert_eq!(left_at(400), 1, "the reader's send buffer is looked at");
    assert_eq!(left_at(500), 0);
    drop((idle, stalled));
}
