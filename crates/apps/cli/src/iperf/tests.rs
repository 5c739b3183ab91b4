//! Goal: a test that ends early, whatever fails, takes its data connections with it.
use super::*;
use crate::tests::testing::stacks;
use sock::Stack;

/// A client that said what it wants and opened `streams` data connections.
fn begin(stack: &Stack, params: &Value, streams: usize) -> (TcpStream, Vec<TcpStream>) {
    let connect = || TcpStream::connect(stack, "10.0.0.1:5201").unwrap();
    let mut control = connect();
    control.write_all(&[b'c'; COOKIE]).unwrap();
    wait_for(&mut control, PARAM_EXCHANGE).unwrap();
    write_json(&mut control, params).unwrap();
    wait_for(&mut control, CREATE_STREAMS).unwrap();
    let data = (0..streams).map(|_| {
        let mut stream = connect();
        stream.write_all(&[b'c'; COOKIE]).unwrap();
        stream
    });
    let data = data.collect();
    (control, data)
}

/// Returns the end of a test whose client does `then` once it runs.
fn early_end(params: &Value, then: impl FnOnce(TcpStream)) {
    let (client, server) = stacks();
    let listener = TcpListener::bind(&server, "10.0.0.1:5201").unwrap();
    let serving = std::thread::spawn(move || test(&listener, "cubic", TIMEOUT).unwrap_err().kind());
    let (mut control, mut data) = begin(&client, params, 2);
    wait_for(&mut control, TEST_START).unwrap();
    wait_for(&mut control, TEST_RUNNING).unwrap();
    then(control);
    serving.join().expect("the test ends");
    // The data connections are over, though this end did nothing to that.
    for stream in &mut data {
        let end = drain(stream);
        assert!(matches!(end, Ok(_) | Err(io::ErrorKind::ConnectionReset)), "{end:?}");
    }
}

/// Reads until the other end ends it: how much came.
fn drain(stream: &mut TcpStream) -> Result<u64, io::ErrorKind> {
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut buf = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        match stream.read(&mut buf) {
            Ok(0) => return Ok(bytes),
            Ok(n) => bytes += n as u64,
            Err(error) => return Err(error.kind()),
        }
    }
}

#[test]
fn data_connections_end_before_the_results() {
    let (client, server) = stacks();
    let listener = TcpListener::bind(&server, "10.0.0.1:5201").unwrap();
    let serving = std::thread::spawn(move || test(&listener, "cubic", TIMEOUT));
    let params = json!({ "tcp": true, "parallel": 2, "len": 4096, "reverse": true });
    let (mut control, mut data) = begin(&client, &params, 2);
    wait_for(&mut control, TEST_START).unwrap();
    wait_for(&mut control, TEST_RUNNING).unwrap();
    control.write_all(&[TEST_END]).unwrap();
    // As iperf3 does: it looks at the control connection again when no block is under way.
    let came: Vec<_> = data.iter_mut().map(|stream| drain(stream).unwrap()).collect();
    wait_for(&mut control, EXCHANGE_RESULTS).unwrap();
    write_json(&mut control, &json!({})).unwrap();
    let results = read_json(&mut control).unwrap();
    let sent: Vec<_> = (0..2).map(|i| results["streams"][i]["bytes"].as_u64().expect("a number")).collect();
    assert_eq!(sent, came, "{results}");
    assert_eq!(results["sender_has_retransmits"], 1, "{results}");
    (0..2).for_each(|i| assert_eq!(results["streams"][i]["retransmits"], 0, "{results}"));
    wait_for(&mut control, DISPLAY_RESULTS).unwrap();
    drop(control);
    serving.join().unwrap().expect("a whole test");
}

#[test]
fn who_sends_tells_its_retransmissions() {
    let moved = [Moved { bytes: 10, retransmissions: 0 }, Moved { bytes: 20, retransmissions: 7 }];
    let told = |sent| {
        let results = results(&moved, sent, 1.0, "cubic");
        let each = |i: usize| results["streams"][i]["retransmits"].as_i64();
        (results["sender_has_retransmits"].as_i64(), each(0), each(1))
    };
    assert_eq!(told(true), (Some(1), Some(0), Some(7)));
    assert_eq!(told(false), (Some(-1), Some(-1), Some(-1)), "iperf3 takes its own numbers then");
}

#[test]
fn an_early_end_leaves_nothing_running() {
    let params = |reverse: bool| json!({ "tcp": true, "parallel": 2, "len": 4096, "reverse": reverse });
    for reverse in [false, true] {
        early_end(&params(reverse), |mut control| {
            control.write_all(&[DISPLAY_RESULTS]).unwrap();
            // Stays open until the server has had its say.
            let _ = control.read(&mut [0]);
        });
        early_end(&params(reverse), drop);
    }
}

#[test]
fn a_client_that_opens_too_few_connections_is_not_waited_for() {
    let (client, server) = stacks();
    let listener = TcpListener::bind(&server, "10.0.0.1:5201").unwrap();
    let serving = std::thread::spawn(move || test(&listener, "cubic", Duration::from_millis(100)));
    let _open = begin(&client, &json!({ "tcp": true, "parallel": 3 }), 2);
    assert_eq!(serving.join().unwrap().unwrap_err().kind(), io::ErrorKind::WouldBlock);
}
