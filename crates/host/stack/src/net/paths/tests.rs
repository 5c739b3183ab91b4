//! Goal: what ICMP says of a path lasts as long as the RFCs want, and no longer.
use super::*;
use crate::net::ip::Loopback;
use crate::net::ip::OwnAddr;
use base::SipKey;

/// RFC 1191, 6.3-1; RFC 8201, 4-4.
#[test]
fn a_smaller_mtu_is_believed_for_ten_minutes() {
    let own = [OwnAddr { addr: Addr::v4([10, 0, 0, 1]), prefix: 24 }];
    let (dst, other) = (Addr::v4([10, 0, 0, 2]), Addr::v4([10, 0, 0, 3]));
    let (mut ip, mut neighbours) = (Ip::new(1500, &own, &[], Loopback::Link), Neighbours::new(false));
    let (mut paths, isn) = (Paths::new(), IsnSource::new(SipKey::new(1, 2)));
    let hosts = Hosts::new(SipKey::new(3, 4));
    let start = Instant::from_secs(100);
    paths.too_big(start, dst, 1300, &mut ip);
    let mut mtu = |after: u64, dst| {
        let now = start + Duration::from_secs(after);
        paths.look_up(now, dst, &mut ip, &mut neighbours, &isn, &hosts).unwrap().mtu
    };
    assert_eq!((mtu(0, dst), mtu(0, other)), (1300, 1500));
    assert_eq!((mtu(599, dst), mtu(601, dst)), (1300, 1500));
}

#[test]
fn there_is_room_for_as_many_as_come_again() {
    let own = [OwnAddr { addr: Addr::v4([10, 0, 0, 1]), prefix: 8 }];
    let (mut ip, mut neighbours) = (Ip::new(1500, &own, &[], Loopback::Link), Neighbours::new(false));
    let (mut paths, isn) = (Paths::new(), IsnSource::new(SipKey::new(1, 2)));
    let hosts = Hosts::new(SipKey::new(3, 4));
    let small = paths.footprint();
    let mut now = Instant::ZERO;
    let mut pass = |count: u32| {
        let mut found = 0;
        for n in 0..count {
            now += Duration::from_micros(100);
            let [_, _, c, d] = (4 * n + 2).to_be_bytes();
            let dst = Addr::v4([10, 0, c, d]);
            match paths.known(dst, ip.generation()) {
                Some(_) => found += 1,
                None => drop(paths.look_up(now, dst, &mut ip, &mut neighbours, &isn, &hosts)),
            }
        }
        (found, paths.footprint())
    };
    assert_eq!((0..20).map(|_| pass(2)).last(), Some((2, small)));
    // Many that come once are given no more room.
    assert_eq!(pass(16_000).1, small);
    // What goes round and round finds nothing in a full house, but pairs of two find each other.
    let mut rounds = |count| (0..40).map(|_| pass(count)).last().expect("forty rounds");
    let (found, held) = rounds(500);
    assert!(found > 300 && held > small, "{found}");
    assert!(rounds(4_000).1 <= CACHE_MAX * size_of::<Cached>());
}

/// RFC 1191, 6.3-2.
#[test]
fn a_destination_in_use_gets_its_mtu_back() {
    let own = [OwnAddr { addr: Addr::v4([10, 0, 0, 1]), prefix: 24 }];
    let dst = Addr::v4([10, 0, 0, 2]);
    let (mut ip, mut neighbours) = (Ip::new(1500, &own, &[], Loopback::Link), Neighbours::new(false));
    let (mut paths, isn) = (Paths::new(), IsnSource::new(SipKey::new(1, 2)));
    let hosts = Hosts::new(SipKey::new(3, 4));
    let start = Instant::from_secs(100);
    paths.too_big(start, dst, 1300, &mut ip);
    let later = start + PMTU_AGE;
    assert_eq!(paths.look_up(start, dst, &mut ip, &mut neighbours, &isn, &hosts).unwrap().mtu, 1300);
    assert_eq!(paths.known(dst, ip.generation()).map(|path| path.mtu), Some(1300));
    assert_eq!(paths.next(), Some(later));
    paths.expire(later, &mut ip);
    assert_eq!((paths.known(dst, ip.generation()), paths.next(), paths.learned()), (None, None, 0));
    assert_eq!(paths.look_up(later, dst, &mut ip, &mut neighbours, &isn, &hosts).unwrap().mtu, 1500);
}
