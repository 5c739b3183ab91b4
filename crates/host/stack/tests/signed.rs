//! Goal: signed connections between two cores carry data whole, over ports that cut, sum and merge or do not, in both
//! families and under flood; whatever signs nothing, or wrong, opens and breaks nothing.

mod common;

use base::{Addr, Duration, Endpoint};
use common::*;
use pio::PairConfig;
use std::sync::Arc;
use tcp::auth::{KeyChange, Keyring, MasterKey, Md5Key, Peers, Secret};
use tcp::{Events, State};

const EVERYBODY: [Peers; 2] =
    [Peers { addr: Addr::UNSPECIFIED_V4, prefix: 0 }, Peers { addr: Addr::UNSPECIFIED_V6, prefix: 0 }];

/// A hash that is none, but different for different keys and bytes.
#[derive(Debug)]
struct Toy;

impl tcp::auth::Algorithm for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn tag_len(&self) -> usize {
        16
    }

    fn tag(&self, key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
        let bytes = parts.iter().flat_map(|part| part.iter()).chain(key);
        let fold = |hash: u128, byte: &u8| {
            (hash ^ u128::from(*byte)).wrapping_mul(0x0001_0000_01b3_0000_1001_0000_01b3)
        };
        let hash = bytes.fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, fold);
        let mut tag = [0; 32];
        tag[..16].copy_from_slice(&hash.to_be_bytes());
        tag
    }
}

fn md5(password: &[u8]) -> Arc<Keyring> {
    let mut ring = Keyring::default();
    for peers in EVERYBODY {
        let secret = Secret::new(password).unwrap();
        ring.set_md5(Md5Key { peers, secret, algorithm: &Toy }).unwrap();
    }
    Arc::new(ring)
}

/// Sends with one id, and receives with the other.
fn ao(ids: (u8, u8), password: &[u8]) -> Arc<Keyring> {
    let mut ring = Keyring::default();
    for peers in EVERYBODY {
        ring.add_ao(MasterKey::new(peers, ids, Secret::new(password).unwrap(), &Toy)).unwrap();
    }
    Arc::new(ring)
}

/// Keys of client and server.
fn pairs() -> [(Arc<Keyring>, Arc<Keyring>); 2] {
    [(md5(b"abc"), md5(b"abc")), (ao((1, 2), b"abc"), ao((2, 1), b"abc"))]
}

fn links() -> [PairConfig; 3] {
    let plain = PairConfig::default();
    [
        plain.clone(),
        PairConfig { tx_checksum: true, tso_max: 65_536, ..plain.clone() },
        PairConfig { mtu: 9_000, ..plain },
    ]
}

fn ends() -> [Endpoint; 2] {
    [Endpoint::new(SERVER, PORT), Endpoint::new(SERVER_V6, PORT)]
}

#[test]
fn data_arrives_whole() {
    for link in links() {
        for (client_keys, server_keys) in pairs() {
            for remote in ends() {
                let mut world = World::new(&link);
                let request = stack::Listen { keys: Some(server_keys.clone()), ..listen(remote, 8) };
                let listener = world.server.listen(world.now, &request).unwrap().0;
                let request = stack::Connect { keys: Some(client_keys.clone()), ..connect(remote, 1) };
                let client = world.client.connect(world.now, &request).unwrap();
                world.settle();
                let server = world.server.accept(listener, 1).expect("the handshake completes");
                assert!(world.server.connection(server).is_signed());
                let data: Vec<u8> = (0..200_000_u32).map(|i| (i % 251) as u8).collect();
                let (mut sent, mut got) = (0, Vec::new());
                while got.len() < data.len() {
                    sent += world.client.write(world.now, client, &data[sent..]).unwrap_or(0);
                    world.pass(Duration::from_millis(1));
                    read_all(&mut world.server, world.now, server, &mut got);
                    assert!(world.now < base::Instant::from_secs(60), "{} bytes came", got.len());
                }
                assert!(got == data);
                assert_eq!(stat(&world.server, "drop_signature") + stat(&world.client, "drop_signature"), 0);
                assert_eq!(
                    world.server.tcp_counters().retransmits + world.client.tcp_counters().retransmits,
                    0
                );
                world.client.close(world.now, client);
                world.settle();
                world.server.close(world.now, server);
                world.pass(Duration::from_secs(100));
                for core in [&world.client, &world.server] {
                    assert_eq!((stat(core, "connections"), stat(core, "flows")), (0, 0));
                }
            }
        }
    }
}

#[test]
fn wrong_keys_and_none_open_nothing() {
    let (md5_keys, ao_keys) = (md5(b"abc"), ao((2, 1), b"abc"));
    let strangers = [None, Some(md5(b"xyz")), Some(ao((1, 2), b"xyz")), Some(ao((7, 7), b"abc"))];
    for (keys, mine) in [(&md5_keys, 1), (&ao_keys, 2)] {
        for (nth, stranger) in strangers.iter().enumerate() {
            let mut world = World::new(&PairConfig::default());
            let request = stack::Listen { keys: Some(keys.clone()), ..listen(ends()[0], 8) };
            world.server.listen(world.now, &request).unwrap();
            let request = stack::Connect { keys: stranger.clone(), ..connect(ends()[0], 1) };
            let client = world.client.connect(world.now, &request).unwrap();
            world.pass(Duration::from_secs(10));
            assert_eq!(
                world.client.connection(client).state(),
                State::SynSent,
                "keys {mine}, stranger {nth}"
            );
            assert!(stat(&world.server, "drop_signature") >= 3);
            assert_eq!(stat(&world.server, "connections") + stat(&world.server, "resets_out"), 0);
        }
    }
}

#[test]
fn under_flood_cookies_are_signed() {
    for (client_keys, server_keys) in pairs() {
        let mut world = World::new(&PairConfig::default());
        let request = stack::Listen { keys: Some(server_keys.clone()), ..listen(ends()[0], 1) };
        let listener = world.server.listen(world.now, &request).unwrap().0;
        let request = |owner| stack::Connect { keys: Some(client_keys.clone()), ..connect(ends()[0], owner) };
        let clients: Vec<_> =
            (0..5).map(|owner| world.client.connect(world.now, &request(owner)).unwrap()).collect();
        let mut served = 0;
        for _ in 0..200 {
            world.pass(Duration::from_millis(100));
            for id in &clients {
                if world.client.connection(*id).state() == State::Established {
                    let _ = world.client.write(world.now, *id, b"x");
                }
            }
            while let Some(id) = world.server.accept(listener, 100) {
                assert!(world.server.connection(id).is_signed());
                served += 1;
            }
        }
        assert_eq!(served, 5);
        assert!(stat(&world.server, "cookies_good") > 0);
        // TCP-AO cannot tell what follows an ACK that was ignored: the ISNs are known from that ACK alone.
        let refused = stat(&world.server, "drop_signature");
        assert_eq!(refused, world.server.tcp_counters().ao_bad);
    }
}

#[test]
fn a_new_key_is_taken_up_without_a_break() {
    let mut world = World::new(&PairConfig::default());
    let request = stack::Listen { keys: Some(ao((2, 1), b"old")), ..listen(ends()[0], 8) };
    let listener = world.server.listen(world.now, &request).unwrap().0;
    let request = stack::Connect { keys: Some(ao((1, 2), b"old")), ..connect(ends()[0], 1) };
    let client = world.client.connect(world.now, &request).unwrap();
    world.settle();
    let server = world.server.accept(listener, 1).unwrap();
    let fresh = |ids, choice| {
        let secret = Secret::new(b"new").unwrap();
        KeyChange::AddAo(MasterKey { mac_len: 16, ..MasterKey::new(EVERYBODY[0], ids, secret, &Toy) }, choice)
    };
    world.server.change_keys(server, &fresh((4, 3), Default::default())).unwrap();
    let asks = tcp::auth::Choice { current: None, next: Some(4) };
    world.client.change_keys(client, &fresh((3, 4), asks)).unwrap();
    let mut got = Vec::new();
    for _ in 0..20 {
        world.client.write(world.now, client, &[7; 5_000]).unwrap();
        world.server.write(world.now, server, &[8; 5_000]).unwrap();
        world.pass(Duration::from_millis(50));
        read_all(&mut world.server, world.now, server, &mut got);
        read_all(&mut world.client, world.now, client, &mut Vec::new());
    }
    assert_eq!(got.len(), 100_000);
    let report = world.server.ao_report(server).unwrap();
    let current = report.keys.iter().find(|key| key.current).unwrap();
    assert_eq!((current.key.send_id, report.counts.bad), (4, 0), "the server signs as it was asked to");
    assert!(!told(&world.client_notices, 1).any(Events::ERROR));
}
