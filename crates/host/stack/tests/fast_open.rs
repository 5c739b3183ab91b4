//! Goal: who listens decides how many unproven clients are served, cookies are found again, and both families agree
//! (RFC 7413).

mod common;

use base::{Addr, Duration, Endpoint};
use common::{PORT, SERVER, SERVER_V6, World, connect, read_all, stat};
use pio::PairConfig;
use stack::{ConnId, FastOpenListen, ListenerId};
use tcp::{Error, FastOpenKeys, ReadError, State};

fn world() -> World {
    World::with(&PairConfig::default(), |client, server| {
        client.tcp.fastopen = 1;
        server.tcp.fastopen = 2;
    })
}

fn ends() -> [Endpoint; 2] {
    [Endpoint::new(SERVER, PORT), Endpoint::new(SERVER_V6, PORT)]
}

fn granting(world: &mut World, local: Endpoint, queue: u32) -> ListenerId {
    let listener = world.listen(local, 16);
    world.server.set_fast_open(listener, FastOpenListen { queue: Some(queue), keys: None });
    listener
}

fn open(world: &mut World, remote: Endpoint, owner: u32, data: &[u8]) -> (ConnId, usize) {
    world.client.connect_fast(world.now, &connect(remote, owner), false, data).unwrap()
}

/// The client has the server's cookie.
fn acquainted(remote: Endpoint, queue: u32) -> (World, ListenerId) {
    let mut world = world();
    let listener = granting(&mut world, remote, queue);
    assert!(!world.client.may_send_with_syn(world.now, &connect(remote, 1), false));
    let (id, taken) = open(&mut world, remote, 1, b"too early");
    assert_eq!(taken, 0);
    world.settle();
    let server = world.server.accept(listener, 1).expect("an ordinary handshake");
    for (core, id) in [(&mut world.client, id), (&mut world.server, server)] {
        core.close(world.now, id);
    }
    world.pass(Duration::from_secs(1));
    assert!(world.client.may_send_with_syn(world.now, &connect(remote, 1), false));
    (world, listener)
}

#[test]
fn data_with_the_syn_is_served() {
    for remote in ends() {
        let (mut world, listener) = acquainted(remote, 4);
        let (client, taken) = open(&mut world, remote, 2, b"question");
        assert_eq!(taken, 8);
        world.settle();
        let server = world.server.accept(listener, 2).expect("it waits");
        let mut got = Vec::new();
        read_all(&mut world.server, world.now, server, &mut got);
        assert_eq!(got, b"question");
        world.server.write(world.now, server, b"answer").unwrap();
        world.settle();
        got.clear();
        read_all(&mut world.client, world.now, client, &mut got);
        assert_eq!(got, b"answer");
        let (ours, theirs) = (world.client.tcp_counters(), world.server.tcp_counters());
        assert_eq!(
            (ours.fastopen_active, theirs.fastopen_passive, theirs.fastopen_cookie_requests),
            (1, 1, 1)
        );
    }
}

#[test]
fn a_client_may_go_without_a_cookie_where_both_agree() {
    let remote = ends()[0];
    let mut world = World::with(&PairConfig::default(), |_, server| server.tcp.fastopen = 0x602);
    let listener = world.listen(remote, 16);
    let (_, taken) = world.client.connect_fast(world.now, &connect(remote, 1), true, b"bold").unwrap();
    assert_eq!(taken, 4);
    world.settle();
    let server = world.server.accept(listener, 1).unwrap();
    let mut got = Vec::new();
    read_all(&mut world.server, world.now, server, &mut got);
    assert_eq!(got, b"bold");
}

/// RFC 7413, 2.1-1.
#[test]
fn whoever_does_not_grant_does_not_answer() {
    let remote = ends()[0];
    let mut world = world();
    let listener = world.listen(remote, 16);
    open(&mut world, remote, 1, b"");
    world.settle();
    assert!(world.server.accept(listener, 1).is_some());
    assert!(!world.client.may_send_with_syn(world.now, &connect(remote, 1), false), "no cookie was given");
    // The client has it switched off: nothing but an ordinary connect.
    let mut config = world.client.config().clone();
    config.fastopen = 0;
    world.client.set_config(config);
    let (_, taken) = world.client.connect_fast(world.now, &connect(remote, 2), true, b"x").unwrap();
    assert_eq!(taken, 0);
}

#[test]
fn keys_can_be_shared_and_replaced() {
    let remote = ends()[1];
    let (mut world, listener) = acquainted(remote, 4);
    let own = world.server.fast_open_keys(world.now);
    let (bytes, _) = own.bytes();
    let replaced = FastOpenKeys::new(&[&[3; 16], &bytes[..16]].concat());
    world.server.set_fast_open(listener, FastOpenListen { queue: None, keys: replaced });
    for (owner, aging) in [(2, 1), (3, 1)] {
        assert_eq!(open(&mut world, remote, owner, b"x").1, 1);
        world.settle();
        assert!(world.server.accept(listener, owner).is_some());
        assert_eq!(
            world.server.tcp_counters().fastopen_passive_alt_key,
            aging,
            "the first brought a new cookie"
        );
    }
    world.server.set_fast_open(listener, FastOpenListen { queue: None, keys: FastOpenKeys::new(&[4; 16]) });
    open(&mut world, remote, 4, b"x");
    world.settle();
    assert_eq!(world.server.tcp_counters().fastopen_passive_fail, 1);
    assert!(world.server.accept(listener, 4).is_some(), "an ordinary handshake");
}

/// SYNs with data and a good cookie of a client that never hears the answers; how many were served.
fn flood(world: &mut World, remote: Endpoint, n: u32) -> u64 {
    let before = world.server.tcp_counters().fastopen_passive;
    for owner in 0..n {
        open(world, remote, 100 + owner, b"data");
    }
    world.client.turn(world.now).unwrap();
    world.server.turn(world.now).unwrap();
    world.server.tcp_counters().fastopen_passive - before
}

/// RFC 7413, 4.2.2-3.
#[test]
fn the_queue_of_unproven_clients_is_bounded() {
    let remote = ends()[0];
    let (mut world, listener) = acquainted(remote, 3);
    assert_eq!(flood(&mut world, remote, 8), 3);
    assert_eq!(world.server.tcp_counters().fastopen_listen_overflow, 5);
    // The rest gets ordinary handshakes; all are there in the end, and the queue is free again.
    world.settle();
    for owner in 0..8 {
        assert!(world.server.accept(listener, owner).is_some(), "{owner}");
    }
    assert_eq!(flood(&mut world, remote, 1), 0, "whose data were refused does not try again at once");
    world.pass(Duration::from_secs(61));
    assert_eq!(flood(&mut world, remote, 1), 1);
}

#[test]
fn resets_of_unproven_clients_count_for_a_minute() {
    let remote = ends()[0];
    let (mut world, listener) = acquainted(remote, 2);
    let mut clients = Vec::new();
    for owner in 0..2 {
        clients.push(open(&mut world, remote, owner, b"data").0);
    }
    world.client.turn(world.now).unwrap();
    world.server.turn(world.now).unwrap();
    // Both ends of the client vanish before they hear the answer, which a RST of its stack tells.
    for id in clients {
        world.client.abort(world.now, id);
    }
    world.settle();
    let server = world.server.accept(listener, 7).expect("it was served, and stays to be read");
    assert_eq!(world.server.connection(server).state(), State::Closed);
    let mut bytes = [0; 8];
    assert_eq!(world.server.read(world.now, server, &mut bytes), Ok(4));
    assert_eq!(world.server.read(world.now, server, &mut bytes), Err(ReadError::Failed(Error::Reset)));
    assert_eq!(flood(&mut world, remote, 1), 0);
    world.pass(Duration::from_secs(61));
    assert_eq!(flood(&mut world, remote, 1), 1);
}

#[test]
fn under_a_flood_cookies_answer_and_data_waits() {
    let remote = ends()[0];
    let (mut world, listener) = acquainted(remote, 16);
    world.server.set_backlog(listener, 1);
    // One ordinary half-open connection fills the backlog.
    let plain = world.connect(remote, 50);
    world.client.turn(world.now).unwrap();
    world.server.turn(world.now).unwrap();
    open(&mut world, remote, 51, b"data");
    world.client.turn(world.now).unwrap();
    world.server.turn(world.now).unwrap();
    assert_eq!(world.server.tcp_counters().fastopen_passive, 0);
    assert_eq!(stat(&world.server, "cookies_sent"), 1);
    world.client.abort(world.now, plain);
}

#[test]
fn closing_the_listener_resets_unproven_clients() {
    let remote = ends()[0];
    let (mut world, listener) = acquainted(remote, 4);
    let (client, _) = open(&mut world, remote, 2, b"data");
    world.client.turn(world.now).unwrap();
    world.server.turn(world.now).unwrap();
    world.server.close_listener(world.now, listener);
    world.settle();
    assert_eq!(world.client.connection(client).state(), State::Closed);
    assert_eq!(stat(&world.server, "connections"), 0);
}

#[test]
fn addresses_have_cookies_of_their_own() {
    let (mut world, _) = acquainted(ends()[0], 4);
    let other = Endpoint::new(Addr::v4([10, 0, 0, 77]), PORT);
    assert!(!world.client.may_send_with_syn(world.now, &connect(other, 1), false));
    world.client.forget_fast_open();
    assert!(!world.client.may_send_with_syn(world.now, &connect(ends()[0], 1), false));
}
