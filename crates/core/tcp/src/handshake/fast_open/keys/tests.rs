//! Goal: cookies are Linux's, belong to one client, and keys can be replaced.
use super::*;
use base::{Addr, Endpoint};

fn flow(client: Addr, server: Addr) -> FlowKey {
    FlowKey::new(Endpoint::new(server, 80), Endpoint::new(client, 4_000))
}

fn v4(client: [u8; 4], server: [u8; 4]) -> FlowKey {
    flow(Addr::v4(client), Addr::v4(server))
}

#[test]
fn cookies_are_what_linux_computes() {
    // Seen from Linux 6 servers with these keys.
    let keys = FastOpenKeys::parse("a0bf63f7-ed803d81-cd641d30-cebc4a90").unwrap();
    let cookie = keys.cookie(&v4([10, 248, 0, 2], [192, 168, 0, 2]), false).unwrap();
    assert_eq!(cookie.bytes(), [0x00, 0xab, 0xaa, 0xab, 0xe8, 0xe9, 0x54, 0xc2]);
    let keys = FastOpenKeys::parse("a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4").unwrap();
    let six = |text: &str| Addr::from(text.parse::<core::net::IpAddr>().unwrap());
    let flow = flow(six("fd3d:fa7b:d17d::1"), six("fd3d:a0b:17d6::1"));
    assert_eq!(keys.cookie(&flow, true).unwrap().bytes(), [0xc1, 0xd1, 0xe9, 0x74, 0x2a, 0x47, 0xa9, 0xbc]);
}

/// RFC 7413, 4.1.2-1 and 4.1.2-2.
#[test]
fn a_cookie_is_good_for_its_client_until_its_key_is_gone() {
    let ours = v4([192, 0, 2, 1], [192, 0, 2, 2]);
    let (old, new) = ([1; 16], [2; 16]);
    let keys = |bytes: &[u8]| FastOpenKeys::new(bytes).unwrap();
    let cookie = keys(&old).cookie(&ours, false).unwrap();
    assert_eq!(keys(&old).judge(&ours, &cookie), CookieWorth::Good);
    assert_eq!(keys(&[new, old].concat()).judge(&ours, &cookie), CookieWorth::Aging);
    assert_eq!(keys(&new).judge(&ours, &cookie), CookieWorth::Bad);
    for other in [v4([192, 0, 2, 3], [192, 0, 2, 2]), v4([192, 0, 2, 1], [192, 0, 2, 3]), ours.reversed()] {
        assert_eq!(keys(&old).judge(&other, &cookie), CookieWorth::Bad);
    }
    let shorter = FastOpen::cookie(&cookie.bytes()[..4], false).unwrap();
    assert_eq!(keys(&old).judge(&ours, &shorter), CookieWorth::Bad, "a part of a cookie is none");
}

#[test]
fn keys_have_16_or_32_bytes_and_survive_being_shown() {
    for len in 0..40 {
        let bytes: alloc::vec::Vec<u8> = (0..len).collect();
        let keys = FastOpenKeys::new(&bytes);
        assert_eq!(keys.is_some(), len == 16 || len == 32, "{len}");
        if let Some(keys) = keys {
            let (whole, len) = keys.bytes();
            assert_eq!(whole[..len], bytes[..]);
            assert_eq!(FastOpenKeys::parse(&keys.show()), Some(keys));
        }
    }
    for wrong in ["", "1-2-3-4", "00000000-00000000-00000000", "00000000-00000000-00000000-0000000g"] {
        assert_eq!(FastOpenKeys::parse(wrong), None, "{wrong}");
    }
}

/// RFC 7413, 4.1.2-2.
#[test]
fn own_keys_follow_each_other() {
    let jar = FastOpenJar::new(SipKey::new(1, 2));
    let ours = v4([192, 0, 2, 1], [192, 0, 2, 2]);
    let start = Instant::from_secs(1_000_000);
    let cookie = jar.keys(start).cookie(&ours, false).unwrap();
    let worth = |after| jar.keys(start + after).judge(&ours, &cookie);
    assert_eq!(worth(Duration::ZERO), CookieWorth::Good);
    assert_eq!(worth(LIFE), CookieWorth::Aging);
    assert_eq!(worth(LIFE * 2), CookieWorth::Bad);
    let other = FastOpenJar::new(SipKey::new(1, 3));
    assert_eq!(other.keys(start).judge(&ours, &cookie), CookieWorth::Bad);
}
