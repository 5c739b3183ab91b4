//! Goal: names of options that programs set.
use super::*;

#[test]
fn options_have_their_names() {
    assert_eq!(of(6, 9), "TCP_DEFER_ACCEPT");
    assert_eq!(of(libc::SOL_SOCKET, libc::SO_PRIORITY), "SO_PRIORITY");
    assert_eq!(of(0, 13), "IP_RECVTOS");
    assert_eq!(of(41, 26), "IPV6_V6ONLY");
    assert_eq!(of(6, 9_999), "socket option 9999 of level 6");
    assert_eq!(of(77, 1), "socket option 1 of level 77");
}
