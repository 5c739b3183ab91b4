//! Goal: exactly the requests that were asked for, answered whole however the answers arrive; and a connection
//! that the server ends is replaced.
use super::*;
use crate::tests::testing::stacks;
use sock::{TcpListener, TcpStream};
use std::io::{Read, Write};

/// Answers requests, in two pieces each, up to `most` a connection.
fn serve(mut stream: TcpStream, most: usize) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut request = [0; 18];
    for _ in 0..most {
        stream.read_exact(&mut request)?;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Le")?;
        stream.write_all(b"ngth: 5\r\n\r\nhello")?;
    }
    Ok(())
}

fn load(limit: Option<u64>, most: usize, interval: Option<Duration>) -> Measured {
    let (client, server) = stacks();
    let listener = TcpListener::bind(&server, "10.0.0.1:80").unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || serve(stream, most));
        }
    });
    let plan = Plan {
        addr: "10.0.0.1:80".parse().unwrap(),
        request: b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        connections: 3,
        time: Duration::from_millis(if limit.is_some() { 20_000 } else { 200 }),
        close: false,
        interval,
    };
    let (stop, budget, done) = (AtomicBool::new(false), Budget::new(limit), AtomicU64::new(0));
    let measured = run(&client, &plan, &stop, &budget, &done).unwrap();
    assert_eq!(measured.requests, done.into_inner());
    assert_eq!(measured.latency.len(), measured.requests);
    measured
}

#[test]
fn the_head_of_an_answer_has_a_bound() {
    let endless = [b"HTTP/1.1 200 OK\r\nX: ", &[b'x'; HEAD_MAX][..]].concat();
    assert_eq!(body_left(&endless[..HEAD_MAX - 1], &mut Vec::new()), Some(None));
    assert_eq!(body_left(&endless[..HEAD_MAX], &mut Vec::new()), None);
}

#[test]
fn a_budget_is_used_up_and_no_more() {
    for interval in [None, Some(Duration::from_micros(500))] {
        let measured = load(Some(50), usize::MAX, interval);
        assert_eq!((measured.requests, measured.errors, measured.connections), (50, 0, 3));
        assert_eq!(measured.bytes, 50 * (17 + 19 + 2 + 5));
    }
}

#[test]
fn without_a_budget_it_goes_on_until_the_time_is_over() {
    let measured = load(None, usize::MAX, None);
    assert!(measured.requests > 50 && measured.elapsed >= Duration::from_millis(200));
}

#[test]
fn connections_that_end_are_replaced() {
    let measured = load(Some(40), 5, Some(Duration::from_millis(2)));
    // A request may meet the end of its connection.
    assert_eq!(measured.requests + measured.errors, 40);
    assert!(measured.connections >= 8, "{}", measured.connections);
}
