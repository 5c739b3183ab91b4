//! Goal: with TCP Fast Open (RFC 7413) every byte arrives once, whichever packet of the handshake is lost and whatever
//! a path does, and a path that is whole saves a round trip.

use crate::harness::{Family, Pair, Setup, seeded, stat};
use crate::peer::Plan;
use base::Duration;
use emu::PipeConfig;

const DELAY: Duration = Duration::from_millis(50);

/// A server that takes data with a SYN, and a client that holds its cookie.
fn pair(seed: u64, path: PipeConfig) -> Pair {
    let whole = PipeConfig { delay: DELAY, ..PipeConfig::default() };
    let mut setup = Setup::new(seed, Family::of(seed), whole);
    setup.client.tcp.fastopen = 1;
    setup.server.tcp.fastopen = 0x402;
    let mut pair = setup.build();
    let (up, down) = Plan::both(3_000, 5_000);
    pair.serve(down);
    assert_eq!(open(&mut pair, up), 0, "a request takes no data");
    pair.finish(Duration::from_secs(10));
    let (there, back) = (pair.there, pair.back);
    for pipe in [there, back] {
        pair.net.pipe_mut(pipe).set_config(PipeConfig { delay: DELAY, ..path.clone() });
    }
    pair
}

fn open(pair: &mut Pair, plan: Plan) -> usize {
    let (now, remote) = (pair.net.now(), pair.service());
    let host = pair.net.host_mut(pair.client);
    host.app.connect_fast(&mut host.core, now, remote, plan)
}

fn check(pair: &mut Pair, connections: u64) {
    for host in [pair.client(), pair.server()] {
        assert_eq!(host.app.tally.complete, connections, "{}", pair.describe());
    }
    pair.assert_clean();
}

#[test]
fn a_round_trip_is_saved() {
    for seed in 1..3 {
        let mut pair = pair(seed, PipeConfig::default());
        let began = pair.net.now();
        let taken = open(&mut pair, Plan::both(3_000, 5_000).0);
        let fits = if pair.family == Family::V4 { 1_420 } else { 1_400 };
        assert_eq!(taken, fits);
        // The server's application has the first bytes after one way, and the client the answer after two.
        let until = began + DELAY + Duration::from_millis(1);
        let before = pair.server().app.tally.received;
        pair.net.run_until(until);
        assert_eq!(pair.server().app.tally.received - before, taken as u64);
        let before = pair.client().app.tally.received;
        pair.net.run_until(until + DELAY);
        assert_eq!(pair.client().app.tally.received - before, 5_000);
        pair.finish(Duration::from_secs(10));
        let (client, server) = (pair.client().core.tcp_counters(), pair.server().core.tcp_counters());
        assert_eq!((client.fastopen_active, server.fastopen_passive), (1, 1));
        assert_eq!((client.syn_retransmits, server.syn_retransmits), (0, 0));
        check(&mut pair, 2);
    }
}

#[test]
fn any_packet_may_be_lost() {
    for seed in 1..3 {
        for lost in 1..=8 {
            for there in [true, false] {
                let mut pair = pair(seed, PipeConfig::default());
                let pipe = if there { pair.there } else { pair.back };
                let discard = format!("{lost}").parse().expect("a position");
                pair.net.pipe_mut(pipe).set_config(PipeConfig {
                    delay: DELAY,
                    discard,
                    ..PipeConfig::default()
                });
                assert!(open(&mut pair, Plan::both(3_000, 5_000).0) > 0);
                pair.finish(Duration::from_secs(130));
                check(&mut pair, 2);
            }
        }
    }
}

#[test]
fn any_path() {
    seeded(1..40, |seed| {
        let path = PipeConfig {
            loss: 0.1,
            duplicate: 0.05,
            reorder: 0.1,
            reorder_by: Duration::from_millis(70),
            spares_neighbours: true,
            ..PipeConfig::default()
        };
        let mut pair = pair(seed, path);
        for _ in 0..5 {
            open(&mut pair, Plan::both(3_000, 5_000).0);
        }
        pair.finish(Duration::from_secs(400));
        check(&mut pair, 6);
    });
}

#[test]
fn a_flood_with_data_is_bounded_by_the_queue() {
    let mut pair = pair(1, PipeConfig::default());
    // Nothing hears the answers.
    let back = pair.back;
    pair.net.pipe_mut(back).set_config(PipeConfig { delay: DELAY, down: true, ..PipeConfig::default() });
    for _ in 0..1_500 {
        open(&mut pair, Plan::both(10, 10).0);
    }
    let soon = pair.net.now() + DELAY * 2;
    pair.net.run_until(soon);
    let counters = pair.server().core.tcp_counters();
    // The queue is as long as the backlog; the rest gets an ordinary handshake.
    assert_eq!(counters.fastopen_passive, 1_024, "{}", pair.describe());
    assert!(counters.fastopen_listen_overflow + stat(&pair.server().core, "accept_queue_full") > 400);
}
