//! Goal: a row explains its own keys alone.
use super::*;

#[test]
fn patterns() {
    let fits = |pattern: &str, text: &str| fits(pattern.as_bytes(), text.as_bytes());
    assert!(fits("a*c", "abbc") && fits("*", "") && fits("?b*", "ab"));
    assert!(!fits("a*c", "abb") && !fits("?b", "b") && !fits("a", "ab"));
}

#[test]
fn options_that_differ_by_the_table_are_explained() {
    assert_eq!(
        explains("setsockopt SO_DONTROUTE: 0 | -1 ENOPROTOOPT").map(|row| row.name),
        Some("SO_DONTROUTE")
    );
    assert!(explains("recv, after a child: 5 | hangs").is_none());
    assert!(explains("setsockopt SO_KEEPALIVE: 0 | -1 ENOPROTOOPT").is_none());
}

#[test]
fn rows_about_a_connection_explain_their_results_alone() {
    let name = |key: &str| explains(key).map(|row| row.name);
    for amount in ["6", "n"] {
        let key = format!(
            "recvmsg, stamps asked for late: flags 0 name 0 cmsg 1:37 {amount} | flags 0 name 0 {amount}"
        );
        assert_eq!(name(&key), Some("timestamps that are asked for late"));
    }
    assert_eq!(name("recvmsg, stamps asked for late: flags 0 name 0 cmsg 1:37 6 | -1 EAGAIN"), None);
    let room = "psend, of a full connection: n | -1 EAGAIN";
    assert_eq!(name(room), Some("room of a full connection"));
    assert_eq!(name("psend, of a full connection: n | -1 ECONNRESET"), None);
    let mark = "recv, short of SO_RCVLOWAT: asleep | woke: 6";
    assert_eq!(name(mark), Some("a read with a low-water mark"));
    assert_eq!(name("recv, short of SO_RCVLOWAT: asleep | hangs"), None);
    assert_eq!(name("recv: asleep | woke: 6"), None);
    for (call, explained) in
        [("recvmsg of nothing", true), ("recvmsg, of length 0", true), ("recvmsg", false)]
    {
        let key = format!("{call}, of Multipath TCP: flags 0 name 0 0 | -1 ENOTCONN");
        assert_eq!(name(&key).is_some(), explained, "{call}");
    }
    let many = "recvmmsg, of length 0, of Multipath TCP: lens 0 2 | -1 ENOTCONN";
    assert_eq!(name(many), Some("reads of nothing from a Multipath TCP socket"));
    let inq = "recvmsg, TCP_INQ set meanwhile: woke: flags 0 name 0 1 | woke: flags 0 name 0 cmsg 6:36 1";
    assert_eq!(name(inq), Some("TCP_INQ set while a read sleeps"));
    assert_eq!(name("recvmsg, TCP_INQ set meanwhile: woke: flags 0 name 0 1 | woke: -1 EAGAIN"), None);
    for key in ["asleep | woke: 1 0x1", "woke: 1 0x1 | asleep"] {
        let key = format!("poll, beside a read asleep: {key}");
        assert_eq!(name(&key), Some("a wait beside a read that takes all"));
    }
    assert_eq!(name("poll: woke: 1 0x1 | asleep"), None);
    let oob = ", of Multipath TCP: -1 ENOTCONN | -1 EINVAL";
    assert_eq!(name(&format!("recv MSG_OOB{oob}")), Some("MSG_OOB of a Multipath TCP socket"));
    assert_eq!(name(&format!("recv MSG_PEEK{oob}")), None);
    let v6 = ", of Multipath TCP: 0 len 4 0x00000000 | -1 EOPNOTSUPP";
    let v6_of_v4 = "options of IPv6 of a Multipath TCP socket of IPv4";
    assert_eq!(name(&format!("getsockopt IPV6_V6ONLY{v6}")), Some(v6_of_v4));
    assert_eq!(name(&format!("getsockopt SO_KEEPALIVE{v6}")), None);
    for told in ["1", "lens 1 1"] {
        let key = |stack: &str| format!("recv, over the edge, bad pointers: {told} | {stack}");
        assert_eq!(name(&key("-1 EFAULT")), Some("a read over the edge of what is mapped"));
        assert_eq!(name(&key("2")), None);
    }
    assert_eq!(name("recv, over the edge, bad pointers: -1 EAGAIN | -1 EFAULT"), None);
    assert_eq!(name("recv, unmapped, bad pointers: 1 | -1 EFAULT"), None);
    let behind = "send, behind a recvmmsg of bad pointers: -1 EFAULT | 5";
    assert_eq!(name(behind), Some("an error behind the first message of recvmmsg"));
    assert_eq!(name("send, behind a recvmmsg of bad pointers: -1 EPIPE | 5"), None);
    let queue = "connect to the loopback, beside a queue of the link: asleep | 0";
    assert_eq!(name(queue), Some("two queues of a listener"));
    assert_eq!(name("connect to the loopback: asleep | 0"), None);
    let cut_off = "options in front of a routing header that is not there";
    assert_eq!(name("paccept, behind IPV6_RTHDRDSTOPTS: -1 EAGAIN | 0"), Some(cut_off));
    assert_eq!(name("paccept: -1 EAGAIN | 0"), None);
    let connect = "connect to the peer, beside a connect asleep: woke: -1 ECONNRESET";
    assert_eq!(name(&format!("{connect} | woke: -1 ECONNABORTED")), Some("a connect beside a read"));
    assert_eq!(name(&format!("{connect} | woke: 0")), None);
    assert_eq!(name("connect to the peer: woke: -1 ECONNRESET | woke: -1 ECONNABORTED"), None);
    let unsent = "ioctl 0x894b, one end closed: 0";
    assert_eq!(name(&format!("{unsent} 551 | 0 0")), Some("SIOCOUTQNSD after a reset"));
    assert_eq!(name(&format!("{unsent} 551 | 0 7")), None);
    assert_eq!(name("ioctl 0x894b: 0 551 | 0 0"), None);
    let bind = "bind to the loopback, where a connection was accepted: 0 | -1 EADDRINUSE";
    assert_eq!(name(bind), Some("the loopback beside a connection that was accepted"));
    assert_eq!(name("bind to the loopback, where a connection was accepted: 0 | -1 EINVAL"), None);
    assert_eq!(name("bind to the loopback: 0 | -1 EADDRINUSE"), None);
    let nothing = "recvmsg of nothing, beside a connect asleep: woke: -1 EPIPE";
    assert_eq!(name(&format!("{nothing} | woke: 0")), Some("a connect beside a read of nothing"));
    assert_eq!(name(&format!("{nothing} | woke: 5")), None);
    let full = "send, NULL, of a full connection: -1 EFAULT";
    assert_eq!(name(&format!("{full} | asleep")), Some("growth of a full send buffer that a call waits for"));
    assert_eq!(name(&format!("{full} | 5")), None);
    let nothing = "recvmsg of nothing, from a full connection: woke: 0 | asleep";
    assert_eq!(name(nothing), Some("room of a full connection that ends a read of nothing"));
    let room = "select, apart with TCP_NOTSENT_LOWAT: 0 0 | 1 2";
    assert_eq!(name(room), Some("room of a socket that was taken apart"));
    assert_eq!(name("accept, of two queues: 0 len n | -1 EAGAIN"), Some("order of two queues"));
    let stamping = "getsockopt SO_TIMESTAMPING, behind an option with _NEW: 0 len 4 0x18000000";
    let anew = "options for timestamps behind one with _NEW";
    assert_eq!(name(&format!("{stamping} | 0 len 4 0x00000000")), Some(anew));
    assert_eq!(name(&format!("{stamping} | -1 EINVAL")), None);
    let linger = "setsockopt TCP_LINGER2, of Multipath TCP: -1 ENOPROTOOPT";
    assert_eq!(name(&format!("{linger} | 0")), Some("options that a Multipath TCP socket lacks"));
    let queue = "getsockopt SO_RXQ_OVFL, of Multipath TCP: 0 len 1 0x00";
    assert_eq!(name(&format!("{queue} | 0 len 1 0x01")), Some("options that a Multipath TCP socket forgets"));
    assert_eq!(name(&format!("{queue} | 0 len 1 0x02")), None);
}
