//! Goal: what is written is read again, and what is too short is refused.
use super::*;
use std::net::SocketAddr;

fn endpoint(text: &str) -> Endpoint {
    text.parse::<SocketAddr>().unwrap().into()
}

#[test]
fn there_and_back() {
    let (v4, v6) = (endpoint("192.0.2.1:8080"), endpoint("[fd00::1]:99"));
    assert_eq!((write(v4, false).len(), write(v4, true).len()), (LEN_V4, LEN_V6));
    for (endpoint, as_v6) in [(v4, false), (v4, true), (v6, true)] {
        assert_eq!(read(&write(endpoint, as_v6)), Ok(Named::At(endpoint)));
    }
    assert_eq!(&write(v4, false)[..4], [2, 0, 0x1f, 0x90]);
}

#[test]
fn what_is_no_address() {
    let whole = write(endpoint("192.0.2.1:1"), false);
    assert_eq!(read(&whole[..15]), Err(Errno::EINVAL));
    assert_eq!(read(&write(endpoint("[::1]:1"), true)[..27]), Err(Errno::EINVAL));
    assert_eq!(read(&[1]), Err(Errno::EINVAL));
    assert_eq!(read(&[1, 0, 0, 0]), Err(Errno::EAFNOSUPPORT));
    assert_eq!(read(&[0, 0]), Ok(Named::Nobody));
}
