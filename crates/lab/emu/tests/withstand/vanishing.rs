//! Goal: who loses its peer notices in time, and nothing is left behind.

use crate::harness::{Family, Pair, Setup, seeded};
use crate::peer::Plan;
use base::{Duration, Instant};
use emu::PipeConfig;
use tcp::SocketOptions;

fn cut(pair: &mut Pair) {
    for pipe in [pair.there, pair.back] {
        let config = pair.net.pipe(pipe).config().clone();
        pair.net.pipe_mut(pipe).set_config(PipeConfig { down: true, ..config });
    }
}

fn mend(pair: &mut Pair) {
    for pipe in [pair.there, pair.back] {
        let config = pair.net.pipe(pipe).config().clone();
        pair.net.pipe_mut(pipe).set_config(PipeConfig { down: false, ..config });
    }
}

fn path() -> PipeConfig {
    PipeConfig { delay: Duration::from_millis(10), ..PipeConfig::default() }
}

#[test]
fn in_the_middle_of_a_transfer() {
    seeded(1..3, |seed| {
        let mut pair = Setup::new(seed, Family::V4, path()).build();
        let (client, server) = Plan::both(1 << 40, 1 << 40);
        pair.serve(server);
        pair.connect(client);
        pair.net.run_until(Instant::from_millis(500));
        assert!(pair.moved() > 0);
        cut(&mut pair);
        // Fifteen doublings up to two minutes: about a quarter of an hour.
        pair.net.run_until(Instant::from_secs(3600));
        for host in [pair.client(), pair.server()] {
            assert_eq!(host.app.tally.lost_peer(), 1, "{}", pair.describe());
        }
        pair.assert_clean();
    });
}

#[test]
fn while_nothing_is_said() {
    let mut pair = Setup::new(1, Family::V6, path()).build();
    let options = SocketOptions {
        keepalive: true,
        keep_idle: Duration::from_secs(30),
        keep_interval: Duration::from_secs(5),
        keep_count: 4,
        ..SocketOptions::default()
    };
    // The client keeps quiet until the server closes, which waits for the client.
    let (client, server) = Plan::both(10, 10);
    pair.serve(Plan { options, close_last: true, ..server });
    pair.connect(Plan { close_last: true, ..client });
    pair.net.run_until(Instant::from_secs(300));
    assert_eq!(
        (pair.client().app.open(), pair.server().app.open()),
        (1, 1),
        "keepalive must not kill the living"
    );
    cut(&mut pair);
    // Four probes five seconds apart, the first at the latest thirty seconds after the last answer.
    pair.net.run_until(Instant::from_secs(300 + 19));
    assert_eq!(pair.server().app.open(), 1);
    pair.net.run_until(Instant::from_secs(300 + 30 + 21));
    assert_eq!(pair.server().app.tally.lost_peer(), 1, "{}", pair.describe());
    // The client, without keepalive, cannot know.
    assert_eq!(pair.client().app.open(), 1);
}

#[test]
fn before_it_answers() {
    let mut pair = Setup::new(1, Family::V4, path()).build();
    let (client, server) = Plan::both(10, 10);
    pair.serve(server);
    // Make the neighbours known first.
    pair.connect(client);
    pair.finish(Duration::from_secs(10));
    cut(&mut pair);
    pair.connect(client);
    pair.net.run_until(Instant::from_secs(600));
    assert_eq!(pair.client().app.tally.lost_peer(), 1, "{}", pair.describe());
    pair.assert_clean();
}

#[test]
fn and_comes_back() {
    seeded(1..3, |seed| {
        let mut pair = Setup::new(seed, Family::V6, path()).build();
        let (client, server) = Plan::both(4_000_000, 4_000_000);
        pair.serve(server);
        pair.connect(client);
        for outage in [1, 5, 30] {
            let soon = pair.net.now() + Duration::from_millis(40);
            pair.net.run_until(soon);
            cut(&mut pair);
            let later = pair.net.now() + Duration::from_secs(outage);
            pair.net.run_until(later);
            mend(&mut pair);
        }
        pair.finish(Duration::from_secs(130));
        assert_eq!(pair.client().app.tally.complete, 1, "{}", pair.describe());
        assert_eq!(pair.server().app.tally.complete, 1, "{}", pair.describe());
        pair.assert_clean();
    });
}

/// The application is killed: everything it had is reset, and the peers are told.
#[test]
fn the_application_is_killed() {
    let mut pair = Setup::new(1, Family::V4, path()).build();
    let (client, server) = Plan::both(1 << 40, 0);
    pair.serve(server);
    (0..10).for_each(|_| pair.connect(client));
    pair.net.run_until(Instant::from_millis(200));
    let now = pair.net.now();
    let host = pair.net.host_mut(pair.client);
    host.app.abort_all(&mut host.core, now);
    pair.finish(Duration::from_secs(10));
    assert_eq!(pair.server().app.tally.reset, 10, "{}", pair.describe());
    pair.assert_clean();
}
