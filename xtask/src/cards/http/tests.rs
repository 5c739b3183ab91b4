//! Goal: client and server understand each other, and a wrong byte is told.
use super::*;
use std::net::Ipv4Addr;

#[test]
fn a_wrong_byte_is_told() {
    let server = Server::start(Ipv4Addr::LOCALHOST.into()).expect("listen");
    let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), server.port);
    get(to, "/100000", &pattern(100_000)).expect("the same bytes");
    let mut kept = Client::connect(to).expect("a connection");
    for len in [7, 1_000] {
        kept.get(&format!("/{len}"), &pattern(len)).expect("the same bytes");
    }
    let mut wrong = pattern(100_000);
    wrong[70_000] ^= 1;
    assert!(get(to, "/100000", &wrong).expect_err("one is wrong").contains("70000"));
    assert!(get(to, "/1", &wrong).is_err());
    assert!(server.served() >= 3);
}

#[test]
fn requests_of_a_proxys_threads() {
    let server = Server::start(Ipv4Addr::LOCALHOST.into()).expect("listen");
    let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), server.port);
    for (len, header) in [(7, "X-Thread: 2\r\n"), (9, "x-thread: 0\r\n"), (8, "x-thread: 2\r\n"), (6, "")] {
        let mut client = Client::connect(to).expect("a connection");
        client.ask(&format!("/{len}"), &pattern(len), header).expect("an answer");
    }
    assert_eq!((server.served(), &server.served_by_thread()[..4]), (4, &[1, 0, 2, 0][..]));
}
