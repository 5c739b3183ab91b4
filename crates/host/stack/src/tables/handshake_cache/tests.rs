//! Goal: the handshake cache is bounded, and who was used a moment ago stays.
use super::*;
use base::{Duration, FlowKey, Seq};
use tcp::{Config, Connection, Counters, Cx, HostHint, Open, Pool, SocketOptions};
use wire::packet::Below;

fn end(n: u32) -> Endpoint {
    Endpoint::new(Addr::v4([10, 0, 0, 1]), n as u16)
}

/// That of connections to port `n` of ours with options of their own.
fn cached(n: u32) -> CachedHandshake {
    let remote = Endpoint::new(Addr::v4([10, 0, 0, 2]), 80);
    let options = SocketOptions { max_seg: 500 + (n % 500) as u16, ..SocketOptions::default() };
    let key = FlowKey::new(end(n), remote);
    let (isn, hint) = (Seq::new(0), HostHint::default());
    let open = Open { key, isn, ts_offset: 0, path_mtu: 1_500, options, hint };
    let (config, mut pool, mut counters) = (Config::default(), Pool::new(8), Counters::default());
    let (now, probe) = (Instant::from_secs(1), None);
    let mut cx = Cx { now, config: &config, pool: &mut pool, counters: &mut counters, probe, frames: None };
    let mut place = None;
    let control = cc::Control::NewReno(cc::NewReno::new());
    let conn = Connection::connect(&mut place, &mut cx, &open, control);
    let (state, shown) = conn.cached_state(&mut cx, &options, 1_500).expect("plain");
    let (src, dst) = (key.local().addr, key.remote().addr);
    let below = Below { link: None, src, dst, tos: 0, ttl: 64, label: 0 };
    let template = Template::new(&below, &shown.header).expect("stamps stand at even places");
    CachedHandshake { local: end(n), listener: None, way: 1, state, template }
}

#[test]
fn it_is_bounded_and_the_longest_unused_makes_room() {
    let (mut handshake_cache, start) = (HandshakeCache::default(), Instant::from_secs(1_000));
    let at = |secs| start + Duration::from_secs(secs);
    let found = |handshake_cache: &HandshakeCache, secs, n| {
        handshake_cache.find(at(secs), 600, end(n), |_| true).is_some()
    };
    for n in 0..8 {
        assert!(handshake_cache.has_room(at(n), 8, end(n as u32)));
        assert!(!handshake_cache.keep(at(n), 8, cached(n as u32)));
    }
    let held = handshake_cache.footprint();
    // All of them were used a moment ago.
    assert!(
        !handshake_cache.has_room(at(8), 8, end(9))
            && !handshake_cache.keep(at(8), 8, cached(9))
            && !found(&handshake_cache, 8, 9)
    );
    handshake_cache.touch(at(9), 0);
    assert!(handshake_cache.has_room(at(11), 8, end(9)) && handshake_cache.keep(at(11), 8, cached(9)));
    assert!(
        found(&handshake_cache, 11, 9) && found(&handshake_cache, 11, 0) && !found(&handshake_cache, 11, 1)
    );
    assert_eq!((handshake_cache.len(), handshake_cache.footprint()), (8, held));
    assert!(found(&handshake_cache, 608, 0) && !found(&handshake_cache, 609, 0), "too old");
}

#[test]
fn one_of_a_kind() {
    let (mut handshake_cache, now) = (HandshakeCache::default(), Instant::from_secs(1));
    handshake_cache.keep(now, 8, cached(1));
    assert!(!handshake_cache.has_room(now, 8, end(1)), "made in this very second");
    let later = now + Duration::from_secs(1);
    assert!(handshake_cache.has_room(later, 8, end(1)));
    handshake_cache.keep(later, 8, CachedHandshake { way: 2, ..cached(1) });
    // The same end, but other options.
    handshake_cache.keep(later, 8, CachedHandshake { local: end(1), ..cached(2) });
    assert_eq!((handshake_cache.len(), handshake_cache.get(0).map(|cached| cached.way)), (2, Some(2)));
    handshake_cache.clear();
    assert_eq!((handshake_cache.len(), handshake_cache.footprint()), (0, 0));
}
