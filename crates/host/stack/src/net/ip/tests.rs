//! Goal: longest prefix and metric decide, gateways are told from neighbours, sources fit.
use super::*;
use std::net::IpAddr;

fn a(text: &str) -> Addr {
    text.parse::<IpAddr>().unwrap().into()
}

fn route(dst: &str, prefix: u8, gateway: Option<&str>, metric: u32) -> Route {
    Route { dst: a(dst), prefix, gateway: gateway.map(a), src: None, metric, mtu: None }
}

/// RFC 9293, MUST-44.
#[test]
fn own_addresses_and_a_gateway() {
    let own = [OwnAddr { addr: a("10.0.0.2"), prefix: 24 }, OwnAddr { addr: a("2001:db8::2"), prefix: 64 }];
    let ip = Ip::new(1500, &own, &[a("10.0.0.1")], Loopback::Link);
    let way = ip.way(a("10.0.0.9")).unwrap();
    assert_eq!(way, Way { next_hop: a("10.0.0.9"), src: a("10.0.0.2"), mtu: 1500, looped: false });
    assert_eq!(ip.way(a("8.8.8.8")).unwrap().next_hop, a("10.0.0.1"));
    assert_eq!(ip.way(a("2001:db8::7")).unwrap().src, a("2001:db8::2"));
    assert_eq!(ip.way(a("2001:db9::7")), None);
    assert!(ip.is_own(a("10.0.0.2")) && !ip.is_own(a("10.0.0.9")));
}

#[test]
fn longest_prefix_then_metric_and_changes_follow() {
    let mut ip = Ip::new(9000, &[], &[], Loopback::Link);
    let before = ip.generation();
    ip.on_event(&NetEvent::AddrAdded { addr: a("10.0.0.2"), prefix: 24 });
    ip.on_event(&NetEvent::AddrAdded { addr: a("192.168.1.2"), prefix: 24 });
    ip.on_event(&NetEvent::RouteAdded(route("0.0.0.0", 0, Some("10.0.0.1"), 100)));
    ip.on_event(&NetEvent::RouteAdded(route("0.0.0.0", 0, Some("192.168.1.1"), 50)));
    ip.on_event(&NetEvent::RouteAdded(route("10.0.0.0", 24, None, 0)));
    ip.on_event(&NetEvent::RouteAdded(Route {
        mtu: Some(1400),
        ..route("10.9.0.0", 16, Some("10.0.0.3"), 0)
    }));
    assert_ne!(ip.generation(), before);
    assert_eq!(
        ip.way(a("1.1.1.1")).unwrap(),
        Way { next_hop: a("192.168.1.1"), src: a("192.168.1.2"), mtu: 9000, looped: false }
    );
    assert_eq!(
        ip.way(a("10.9.1.1")).unwrap(),
        Way { next_hop: a("10.0.0.3"), src: a("10.0.0.2"), mtu: 1400, looped: false }
    );
    ip.on_event(&NetEvent::RouteRemoved(route("0.0.0.0", 0, Some("192.168.1.1"), 50)));
    assert_eq!(ip.way(a("1.1.1.1")).unwrap().next_hop, a("10.0.0.1"));
    ip.on_event(&NetEvent::Mtu(1500));
    assert_eq!(ip.way(a("1.1.1.1")).unwrap().mtu, 1500);
    ip.on_event(&NetEvent::AddrRemoved { addr: a("10.0.0.2") });
    ip.on_event(&NetEvent::AddrRemoved { addr: a("192.168.1.2") });
    assert_eq!(ip.way(a("1.1.1.1")), None);
}

/// RFC 9293, MUST-46 and MUST-57.
#[test]
fn edges_of_subnets_are_of_many() {
    let mut ip = Ip::new(1500, &[], &[], Loopback::Link);
    let added =
        [("10.0.0.2", 24), ("10.0.0.9", 24), ("10.1.0.0", 16), ("10.2.0.0", 31), ("2001:db8::a00:ff", 64)];
    for (addr, prefix) in added {
        ip.on_event(&NetEvent::AddrAdded { addr: a(addr), prefix });
    }
    let of_many = |ip: &Ip, text: &str| ip.is_of_many(a(text));
    for text in ["10.0.0.0", "10.0.0.255", "10.1.255.255", "224.0.0.1", "255.255.255.255", "ff02::1"] {
        assert!(of_many(&ip, text), "{text}");
    }
    // Ours alone; hosts of a /31; hosts; and IPv6, whose subnets have no such addresses.
    for text in ["10.1.0.0", "10.2.0.0", "10.2.0.1", "10.0.0.1", "10.1.0.255", "2001:db8::", "::a00:ff"] {
        assert!(!of_many(&ip, text), "{text}");
    }
    for addr in ["10.0.0.2", "10.0.0.9"] {
        assert!(of_many(&ip, "10.0.0.255"));
        ip.on_event(&NetEvent::AddrRemoved { addr: a(addr) });
    }
    assert!(!of_many(&ip, "10.0.0.255"));
}

#[test]
fn scopes_are_kept_apart() {
    let mut ip = Ip::new(1500, &[], &[], Loopback::Link);
    for (addr, prefix) in [("fe80::2", 64), ("2001:db8::2", 64)] {
        ip.on_event(&NetEvent::AddrAdded { addr: a(addr), prefix });
    }
    ip.on_event(&NetEvent::RouteAdded(route("fe80::", 64, None, 0)));
    ip.on_event(&NetEvent::RouteAdded(route("::", 0, Some("fe80::1"), 0)));
    assert_eq!(ip.way(a("fe80::9")).unwrap().src, a("fe80::2"));
    assert_eq!(ip.way(a("2600::1")).unwrap().src, a("2001:db8::2"));
    assert_eq!(ip.way(a("2600::1")).unwrap().next_hop, a("fe80::1"));
}
