//! Goal: connections live and end as they should between two cores: handshake, data, close by either side,
//! resets, and every table empty afterwards.

mod common;

use base::{Addr, Duration, Endpoint, Instant};
use common::*;
use pio::PairConfig;
use stack::{Connect, CoreConfig, OpError};
use tcp::{Error, Events, ReadError, Shutdown, SocketOptions, State, WriteError};

const HTTP: Endpoint = Endpoint::new(SERVER, PORT);

fn nothing_left(world: &World) {
    for core in [&world.client, &world.server] {
        for row in ["connections", "flows", "chunks_used"] {
            assert_eq!(stat(core, row), stat(core, "time_wait") * u64::from(row == "flows"), "{row}");
        }
    }
}

fn request_and_answer(link: &PairConfig, server: Endpoint) -> u64 {
    let mut world = World::new(link);
    let listener = world.listen(Endpoint::new(Addr::UNSPECIFIED_V6, PORT), 16);
    let (client, accepted) = world.establish(listener, server, 7);
    assert!(told(&world.client_notices, 7).any(Events::CONNECTED));
    assert!(told(&world.server_notices, LISTENER).any(Events::READABLE));
    assert_eq!(world.client.write(world.now, client, b"how are you"), Ok(11));
    world.settle();
    let mut got = Vec::new();
    assert!(!read_all(&mut world.server, world.now, accepted, &mut got));
    assert_eq!(got, b"how are you");
    assert_eq!(world.server.write(world.now, accepted, b"well, thank you"), Ok(15));
    world.server.close(world.now, accepted);
    world.settle();
    got.clear();
    assert!(read_all(&mut world.client, world.now, client, &mut got));
    assert_eq!(got, b"well, thank you");
    world.client.close(world.now, client);
    world.settle();
    // The server closed first: TIME-WAIT is its.
    assert_eq!((stat(&world.client, "time_wait"), stat(&world.server, "time_wait")), (0, 1));
    nothing_left(&world);
    let packets = stat(&world.client, "packets_in") + stat(&world.server, "packets_in");
    world.pass(Duration::from_secs(200));
    assert_eq!(stat(&world.server, "flows"), 0);
    packets
}

#[test]
fn a_request_and_its_answer() {
    for link in [PairConfig::default(), PairConfig::offloads()] {
        for server in [SERVER, SERVER_V6] {
            // Two to find the neighbour, three for the handshake, and request, answer with FIN, and FIN, each
            // with its acknowledgment, since no peer answers within the turn.
            let packets = request_and_answer(&link, Endpoint::new(server, PORT));
            assert!(packets <= 11, "{packets} packets");
        }
    }
}

/// RFC 9293, MUST-59.
#[test]
fn an_answer_within_the_turn_carries_the_acknowledgment() {
    let mut world = World::new(&PairConfig::default());
    let listener = world.listen(HTTP, 16);
    let (client, accepted) = world.establish(listener, HTTP, 7);
    world.pass(Duration::from_secs(1));
    let before = stat(&world.client, "packets_in") + stat(&world.server, "packets_in");
    for _ in 0..10 {
        world.client.write(world.now, client, b"ping").unwrap();
        world.client.turn(world.now).unwrap();
        world.server.turn(world.now).unwrap();
        let mut got = Vec::new();
        read_all(&mut world.server, world.now, accepted, &mut got);
        assert_eq!(got, b"ping");
        world.server.write(world.now, accepted, b"pong").unwrap();
        world.server.turn(world.now).unwrap();
        world.client.turn(world.now).unwrap();
        got.clear();
        read_all(&mut world.client, world.now, client, &mut got);
        assert_eq!(got, b"pong");
    }
    let packets = stat(&world.client, "packets_in") + stat(&world.server, "packets_in") - before;
    assert_eq!(packets, 20, "one packet for each message, none for acknowledgments");
}

#[test]
fn a_megabyte_each_way() {
    for link in [PairConfig::default(), PairConfig::offloads()] {
        let mut world = World::new(&link);
        let listener = world.listen(HTTP, 16);
        let (client, accepted) = world.establish(listener, HTTP, 7);
        let data: Vec<u8> = (0..1_000_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        let (mut up, mut down) = (0, 0);
        let (mut got_up, mut got_down) = (Vec::new(), Vec::new());
        let mut rounds = 0;
        while got_up.len() < data.len() || got_down.len() < data.len() {
            up += world.client.write(world.now, client, &data[up..]).unwrap_or(0);
            down += world.server.write(world.now, accepted, &data[down..]).unwrap_or(0);
            if !world.step() {
                world.now = world.next().unwrap().max(world.now + Duration::from_micros(1));
            }
            read_all(&mut world.server, world.now, accepted, &mut got_up);
            read_all(&mut world.client, world.now, client, &mut got_down);
            rounds += 1;
            assert!(rounds < 20_000, "stalled at {} and {}", got_up.len(), got_down.len());
        }
        assert!(got_up == data && got_down == data);
        world.client.close(world.now, client);
        world.server.close(world.now, accepted);
        world.pass(Duration::from_secs(1));
        nothing_left(&world);
    }
}

#[test]
fn half_close_and_unread_data_after_time_wait() {
    let mut world = World::new(&PairConfig::default());
    let listener = world.listen(HTTP, 16);
    let (client, accepted) = world.establish(listener, HTTP, 7);
    world.client.shutdown(world.now, client, Shutdown::Write);
    world.settle();
    assert_eq!(world.server.read(world.now, accepted, &mut [0; 8]), Err(ReadError::Finished));
    world.server.write(world.now, accepted, b"late").unwrap();
    world.server.close(world.now, accepted);
    world.settle();
    // The client's end is in TIME-WAIT, and its data is still there.
    assert_eq!(stat(&world.client, "time_wait"), 1);
    assert_eq!(world.client.connection(client).readable(), 4);
    let mut got = Vec::new();
    assert!(read_all(&mut world.client, world.now, client, &mut got));
    assert_eq!(got, b"late");
    assert_eq!(world.client.write(world.now, client, b"x"), Err(WriteError::Shutdown));
    world.client.close(world.now, client);
    world.settle();
    nothing_left(&world);
}

#[test]
fn nobody_listens() {
    let mut world = World::new(&PairConfig::default());
    let client = world.connect(HTTP, 7);
    world.settle();
    assert!(told(&world.client_notices, 7).any(Events::ERROR));
    assert_eq!(world.client.take_error(client), Some(Error::Refused));
    assert_eq!(stat(&world.client, "flows"), 0);
    world.client.close(world.now, client);
    nothing_left(&world);
}

#[test]
fn abort_resets_the_peer() {
    let mut world = World::new(&PairConfig::default());
    let listener = world.listen(HTTP, 16);
    let (client, accepted) = world.establish(listener, HTTP, 7);
    world.client.write(world.now, client, b"unread").unwrap();
    world.settle();
    world.client.abort(world.now, client);
    world.settle();
    assert!(told(&world.server_notices, 7).any(Events::ERROR));
    assert_eq!(world.server.read(world.now, accepted, &mut [0; 8]), Ok(6));
    assert_eq!(world.server.read(world.now, accepted, &mut [0; 8]), Err(ReadError::Failed(Error::Reset)));
    world.server.close(world.now, accepted);
    nothing_left(&world);
}

#[test]
fn a_closed_listener_resets_whom_nobody_accepted() {
    let mut world = World::new(&PairConfig::default());
    let listener = world.listen(HTTP, 16);
    let client = world.connect(HTTP, 7);
    world.settle();
    assert_eq!(world.server.acceptable(listener), 1);
    world.server.close_listener(world.now, listener);
    world.settle();
    assert_eq!(world.client.take_error(client), Some(Error::Reset));
    world.client.close(world.now, client);
    nothing_left(&world);
    let again = world.connect(HTTP, 8);
    world.settle();
    assert_eq!(world.client.take_error(again), Some(Error::Refused));
}

#[test]
fn the_owner_decides_how_long_a_dead_connection_stays() {
    let mut world = World::new(&PairConfig::default());
    let listener = world.listen(HTTP, 16);
    let (client, accepted) = world.establish(listener, HTTP, 7);
    world.server.abort(world.now, accepted);
    world.settle();
    assert_eq!((stat(&world.client, "connections"), stat(&world.client, "flows")), (1, 0));
    assert_eq!(world.client.connection(client).state(), State::Closed);
    // The place of a dead connection is not given to another.
    let other = world.connect(HTTP, 8);
    assert_ne!(other, client);
    world.client.close(world.now, client);
    world.client.close(world.now, other);
    world.pass(Duration::from_secs(100));
    assert_eq!(stat(&world.client, "connections"), 0);
}

#[test]
fn ten_thousand_short_connections() {
    let mut world = World::with(&PairConfig::default(), |_, server| server.max_time_wait = 1000);
    let listener = world.listen(HTTP, 1024);
    let mut open = Vec::new();
    let (mut done, mut started) = (0, 0);
    while done < 10_000 {
        while started < 10_000 && open.len() < 300 {
            let owner = started;
            open.push((world.connect(HTTP, owner), owner));
            started += 1;
        }
        world.step();
        world.now += Duration::from_micros(50);
        for notice in std::mem::take(&mut world.client_notices) {
            let at = open.iter().position(|&(_, owner)| owner == notice.owner).unwrap();
            let (id, _) = open[at];
            if notice.events.any(Events::CONNECTED) {
                world.client.write(world.now, id, b"request").unwrap();
            }
            let mut got = Vec::new();
            if world.client.connection(id).readable() > 0
                && read_all(&mut world.client, world.now, id, &mut got)
            {
                assert_eq!(got, b"answer");
                world.client.close(world.now, id);
                open.swap_remove(at);
                done += 1;
            }
        }
        while let Some(id) = world.server.accept(listener, 1 << 20) {
            let mut got = Vec::new();
            read_all(&mut world.server, world.now, id, &mut got);
            assert_eq!(got, b"request");
            world.server.write(world.now, id, b"answer").unwrap();
            world.server.close(world.now, id);
        }
    }
    world.settle();
    assert_eq!(stat(&world.server, "time_wait"), 1000);
    world.pass(Duration::from_secs(200));
    nothing_left(&world);
    assert_eq!(stat(&world.server, "time_wait"), 0);
    let wired = stat(&world.client, "packets_in") + stat(&world.server, "packets_in");
    assert!(wired <= 72_000, "{wired} packets for ten thousand connections");
}

/// As on Linux: port 0 is a port where nothing listens.
#[test]
fn port_0_refuses() {
    let mut world = World::with(&PairConfig::default(), |_, _| {});
    let to = Endpoint::new(SERVER, 0);
    let client = world.client.connect(world.now, &connect(to, 1)).unwrap();
    world.settle();
    assert_eq!(world.client.take_error(client), Some(Error::Refused));
}

/// RFC 9293, MUST-46.
#[test]
fn refusals_are_clean() {
    let mut world = World::with(&PairConfig::default(), |client, _| client.max_connections = 2);
    let (now, core) = (world.now, &mut world.client);
    let refused =
        |core: &mut stack::Core, remote: Endpoint| core.connect(now, &connect(remote, 1)).unwrap_err();
    assert_eq!(refused(core, Endpoint::new(Addr::v4([9, 9, 9, 9]), 80)), OpError::NetUnreachable);
    assert_eq!(refused(core, Endpoint::new(Addr::v4([224, 0, 0, 1]), 80)), OpError::NetUnreachable);
    let foreign = Connect { local: Endpoint::new(SERVER, 0), ..connect(HTTP, 1) };
    assert_eq!(core.connect(now, &foreign).unwrap_err(), OpError::AddrNotAvailable);
    let unknown = Connect { control: Some("no such"), ..connect(HTTP, 1) };
    assert_eq!(core.connect(now, &unknown).unwrap_err(), OpError::NoControl);
    let unfair = Connect { control: Some("mulwin"), ..connect(HTTP, 1) };
    assert_eq!(core.connect(now, &unfair).unwrap_err(), OpError::UnfairControl);
    let one = core.connect(now, &connect(HTTP, 1)).unwrap();
    core.connect(now, &connect(HTTP, 2)).unwrap();
    assert_eq!(refused(core, HTTP), OpError::NoBuffers);
    core.abort(now, one);
    core.turn(now).unwrap();
    core.connect(now, &connect(HTTP, 3)).unwrap();
}

#[test]
fn a_silent_host_times_out() {
    let mut world = World::new(&PairConfig::default());
    // No host has this address: the neighbour is never found.
    let client = world.connect(Endpoint::new(Addr::v4([10, 0, 0, 77]), 80), 7);
    world.pass(Duration::from_secs(10));
    assert_eq!(world.client.take_error(client), Some(Error::HostUnreachable));
    assert_eq!(stat(&world.client, "arp_out"), 3);
    world.client.close(world.now, client);
    assert_eq!(stat(&world.client, "connections"), 0);
}

#[test]
fn an_idle_core_has_no_next_date() {
    let mut world = World::new(&PairConfig::default());
    let listener = world.listen(HTTP, 16);
    let (client, accepted) = world.establish(listener, HTTP, 7);
    world.pass(Duration::from_secs(5));
    assert_eq!((world.client.next_timeout(), world.server.next_timeout()), (None, None));
    world.client.close(world.now, client);
    world.server.close(world.now, accepted);
    world.pass(Duration::from_secs(200));
    assert_eq!(world.next(), None::<Instant>);
}

/// A SYN that may begin anew in the place of a TIME-WAIT entry finds the accept queue full: the entry stays, and the
/// SYN that comes again replaces it.
#[test]
fn a_full_accept_queue_costs_no_time_wait_entry() {
    let mut world = World::new(&PairConfig::default());
    let listener = world.listen(HTTP, 0);
    let from = Endpoint::new(CLIENT, 40_000);
    let again = Connect { local: from, ..connect(HTTP, 7) };
    let client = world.client.connect(world.now, &again).unwrap();
    world.settle();
    let accepted = world.server.accept(listener, 7).unwrap();
    world.server.close(world.now, accepted);
    world.settle();
    world.client.close(world.now, client);
    world.settle();
    assert_eq!((stat(&world.client, "time_wait"), stat(&world.server, "time_wait")), (0, 1));

    world.connect(HTTP, 8);
    world.pass(Duration::from_millis(100));
    world.client.connect(world.now, &again).unwrap();
    world.settle();
    assert_eq!((stat(&world.server, "time_wait"), stat(&world.server, "time_wait_reused")), (1, 0));
    assert_eq!(stat(&world.server, "accept_queue_full"), 1);

    world.server.accept(listener, 8).expect("the connection that filled the queue");
    world.pass(Duration::from_secs(2));
    assert_eq!((stat(&world.server, "time_wait"), stat(&world.server, "time_wait_reused")), (0, 1));
    world.server.accept(listener, 7).expect("the SYN that came again");
}

/// Returns how many connections in a row to one endpoint a client with 100 ports can begin that ends each of them
/// itself, at this pace.
fn connections_in_a_row(pace: Duration, change: impl Fn(&mut CoreConfig)) -> u32 {
    let mut world = World::with(&PairConfig::default(), |client, server| {
        client.ephemeral = (50_000, 50_099);
        change(client);
        change(server);
    });
    let listener = world.listen(HTTP, 16);
    for begun in 0..1_000 {
        let Ok(client) = world.client.connect(world.now, &connect(HTTP, 7)) else { return begun };
        world.settle();
        let accepted = world.server.accept(listener, 7).expect("a handshake");
        world.client.close(world.now, client);
        world.settle();
        world.server.close(world.now, accepted);
        world.pass(pace);
    }
    1_000
}

/// RFC 6191: a client that ends its connections itself holds a port in TIME-WAIT for each of them. Where timestamps
/// tell the old segments from the new ones it takes them over after a second, and does not run out of ports.
#[test]
fn a_connector_does_not_run_dry() {
    let pace = Duration::from_millis(20);
    for cached in [true, false] {
        assert_eq!(connections_in_a_row(pace, |config| config.tcp.handshake_cache = cached), 1_000);
    }
    assert_eq!(connections_in_a_row(pace, |config| config.tcp.time_wait_reuse = false), 100);
    assert_eq!(connections_in_a_row(pace, |config| config.tcp.timestamps = false), 100);
    let few = |config: &mut CoreConfig| config.ephemeral = (50_000, 50_009);
    assert_eq!(connections_in_a_row(Duration::from_millis(200), few), 1_000);
    // A hundred ports, each for a second.
    let dry = connections_in_a_row(Duration::from_millis(5), |_| {});
    assert_eq!(dry, 100, "none is taken over before the timestamp clock has moved on");
}

/// A connection whose local port is chosen takes it over, too, which RFC 9293 would have wait for the end of
/// TIME-WAIT.
#[test]
fn a_chosen_port_in_time_wait_is_taken_over_after_a_second() {
    let mut world = World::new(&PairConfig::default());
    let listener = world.listen(HTTP, 16);
    let chosen = Connect { local: Endpoint::new(CLIENT, 40_000), reuse_addr: true, ..connect(HTTP, 7) };
    let client = world.client.connect(world.now, &chosen).unwrap();
    world.settle();
    let accepted = world.server.accept(listener, 7).unwrap();
    world.client.close(world.now, client);
    world.settle();
    world.server.close(world.now, accepted);
    world.settle();
    assert_eq!(stat(&world.client, "time_wait"), 1);
    assert_eq!(world.client.connect(world.now, &chosen), Err(OpError::AddrNotAvailable));
    world.pass(Duration::from_secs(1));
    world.client.connect(world.now, &chosen).unwrap();
    world.settle();
    world.server.accept(listener, 7).expect("the next connection of the same four numbers");
    assert_eq!((stat(&world.client, "time_wait"), stat(&world.client, "time_wait_taken_over")), (0, 1));
}

/// As on Linux, the four numbers of a connection are free when the call that ends it at once returns.
#[test]
fn a_connection_that_a_call_ends_frees_its_ports_before_the_next_turn() {
    let mut world = World::new(&PairConfig::default());
    let listener = world.listen(HTTP, 16);
    let chosen = Connect { local: Endpoint::new(CLIENT, 40_000), reuse_addr: true, ..connect(HTTP, 7) };
    let none = SocketOptions { linger: Some(Duration::ZERO), ..SocketOptions::default() };
    for how in ["unanswered", "aborted", "closed", "disconnected"] {
        let client = world.client.connect(world.now, &chosen).unwrap_or_else(|e| panic!("{how}: {e:?}"));
        if how != "unanswered" {
            world.settle();
        }
        if how == "closed" {
            world.client.set_options(world.now, client, none);
            world.client.close(world.now, client);
        } else if how == "disconnected" {
            let kept = world.client.disconnect(world.now, client).expect("it was bound");
            world.client.unbind(kept);
        } else {
            world.client.abort(world.now, client);
        }
        assert_eq!(stat(&world.client, "flows"), 0, "{how}");
        if how != "unanswered" {
            world.settle();
            let accepted = world.server.accept(listener, 7).expect(how);
            assert_eq!(world.server.take_error(accepted), Some(Error::Reset), "{how}");
            world.server.close(world.now, accepted);
        }
    }
    let again = world.client.connect(world.now, &chosen).unwrap();
    world.settle();
    world.client.abort(world.now, again);
    world.settle();
    let accepted = world.server.accept(listener, 7).unwrap();
    world.server.close(world.now, accepted);
    nothing_left(&world);
}

/// A server that answers a request and closes without reading all of it sends the answer, then the RST, as on Linux.
/// The answer is lost only if it may not leave yet.
#[test]
fn an_answer_leaves_before_the_reset() {
    for linger in [None, Some(Duration::ZERO)] {
        for answer in [&b"413 Content Too Large"[..], &[7; 9_000]] {
            let mut world = World::new(&PairConfig::default());
            let listener = world.listen(HTTP, 16);
            let (client, accepted) = world.establish(listener, HTTP, 7);
            if linger.is_some() {
                let options = SocketOptions { linger, ..SocketOptions::default() };
                world.server.set_options(world.now, accepted, options);
            } else {
                assert_eq!(world.client.write(world.now, client, &[0; 3_000]), Ok(3_000));
                world.settle();
            }
            assert_eq!(world.server.write(world.now, accepted, answer), Ok(answer.len()));
            world.server.close(world.now, accepted);
            world.settle();
            let mut got = vec![0; 2 * answer.len()];
            assert_eq!(world.client.read(world.now, client, &mut got), Ok(answer.len()), "linger {linger:?}");
            assert_eq!(got[..answer.len()], *answer);
            let end = world.client.read(world.now, client, &mut got);
            assert_eq!(end, Err(ReadError::Failed(Error::Reset)));
            assert_eq!(world.client.tcp_counters().challenge_acks, 0, "the RST came after the answer");
            world.client.close(world.now, client);
            world.settle();
            nothing_left(&world);
        }
    }
}
