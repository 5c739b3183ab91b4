//! Goal: the mapped form never confuses the families and prefixes match at every edge.
use super::*;

fn a(s: &str) -> Addr {
    s.parse::<IpAddr>().unwrap().into()
}

#[test]
fn families_round_trip() {
    for text in ["0.0.0.0", "10.1.2.3", "255.255.255.255", "::", "::1", "2001:db8::7", "fe80::1"] {
        let addr = a(text);
        assert_eq!(IpAddr::from(addr), text.parse::<IpAddr>().unwrap());
        assert_eq!(addr.is_v4(), text.contains('.'));
        assert_eq!(Addr::v6(addr.bytes()), addr);
    }
    assert!(a("fe80::1").is_link_local_v6() && !a("fec0::1").is_link_local_v6());
    assert!(a("224.0.0.1").is_multicast_or_broadcast() && a("ff02::1").is_multicast_or_broadcast());
    assert!(!a("223.255.255.255").is_multicast_or_broadcast());
    for (text, is) in [
        ("127.0.0.1", true),
        ("127.255.0.9", true),
        ("::1", true),
        ("128.0.0.1", false),
        ("::2", false),
        ("2001:db8::1", false),
        ("0.0.0.0", false),
        ("::", false),
    ] {
        assert_eq!(a(text).is_loopback(), is, "{text}");
    }
    assert_eq!((a("10.0.0.1").localhost(), a("fe80::1").localhost()), (a("127.0.0.1"), a("::1")));
}

#[test]
fn prefixes() {
    assert!(a("10.1.2.3").in_prefix(a("10.1.2.0"), 24));
    assert!(!a("10.1.3.3").in_prefix(a("10.1.2.0"), 24));
    assert!(a("10.1.3.3").in_prefix(a("10.1.2.0"), 23));
    assert!(a("1.2.3.4").in_prefix(Addr::UNSPECIFIED_V4, 0));
    assert!(!a("::1").in_prefix(Addr::UNSPECIFIED_V4, 0));
    assert!(a("2001:db8:1::9").in_prefix(a("2001:db8::"), 32));
    assert!(!a("2001:db8:1::9").in_prefix(a("2001:db8::"), 48));
    assert!(a("::2").in_prefix(a("::2"), 128) && !a("::3").in_prefix(a("::2"), 128));
}
