//! Goal: options survive packing.
use super::*;

#[test]
fn options_survive_packing() {
    let options = SocketOptions {
        linger: Some(Duration::ZERO),
        user_timeout: Duration::from_millis(1234),
        nodelay: true,
        quickack: Some(false),
        ttl: Some(7),
        ..SocketOptions::default()
    };
    assert_eq!(PackedOptions::from(&options).unpack(), options);
    // A hop limit of 0 may be chosen, and is not the default.
    let none = SocketOptions { ttl: Some(0), ..SocketOptions::default() };
    assert_eq!((PackedOptions::from(&none).unpack(), PackedOptions::from(&none).ttl()), (none, 0));
    let default = SocketOptions::default();
    assert_eq!(PackedOptions::from(&default).unpack(), default);
    assert_eq!(PackedOptions::from(&default).ttl(), 64);
}
