//! Goal: connections opened, used and closed in great number leave nothing behind and make nothing grow.

use crate::harness::{Family, Pair, Setup, from_env, seeded};
use crate::peer::Plan;
use base::{Duration, Rate};
use emu::PipeConfig;

/// Bytes that both cores hold.
fn held(pair: &Pair) -> u64 {
    [pair.client(), pair.server()].iter().flat_map(|host| host.core.footprint()).map(|(_, bytes)| bytes).sum()
}

/// `total` connections, at most `at_once` at a time, of `up` and `down` bytes; the client closes last if
/// `server_first`.
fn churn(seed: u64, total: u64, at_once: u64, loss: f64, server_first: bool) {
    let path = PipeConfig {
        rate: Some(Rate::from_bits_per_sec(10_000_000_000)),
        delay: Duration::from_millis(1),
        loss,
        spares_neighbours: true,
        ..PipeConfig::default()
    };
    let family = Family::of(seed);
    let mut setup = Setup::new(seed, family, path);
    // Some ten thousand connections a second of virtual time: ports must come back at that rate, and what is
    // held must have settled when a quarter has passed.
    setup.client.tcp.time_wait = Duration::from_millis(5);
    setup.server.tcp.time_wait = Duration::from_millis(5);
    let mut pair = setup.build();
    let (client, server) = Plan::both(64, 64);
    pair.serve(Plan { close_last: !server_first, ..server });
    let mut opened = 0;
    let mut warm = 0;
    while opened < total {
        let lot = at_once.min(total - opened);
        (0..lot).for_each(|_| pair.connect(Plan { close_last: server_first, ..client }));
        opened += lot;
        pair.finish(Duration::from_secs(130));
        if warm == 0 && opened > total / 4 {
            warm = held(&pair);
        }
    }
    // How many TIME-WAIT entries there are at once depends on how losses fall; half a byte a connection
    // does not.
    let most = warm + (1 << 19);
    assert!(held(&pair) <= most, "grew from {warm} to {} bytes", held(&pair));
    for host in [pair.client(), pair.server()] {
        assert_eq!(host.app.tally.complete, total, "{}", pair.describe());
    }
    assert_eq!(pair.client().core.tcp_counters().active_opens, total);
    assert_eq!(pair.server().core.tcp_counters().passive_opens, total);
    pair.assert_clean();
}

/// Connections of each kind.
fn size() -> u64 {
    from_env("MILLSTREAM_CHURN", 20_000) / 2
}

#[test]
fn the_client_closes_first() {
    seeded(1..2, |seed| churn(seed, size(), 100, 0.0, false));
}

#[test]
fn the_server_closes_first() {
    seeded(2..3, |seed| churn(seed, size(), 100, 0.0, true));
}

#[test]
fn over_a_path_that_loses() {
    seeded(3..7, |seed| churn(seed, size() / 20, 20, 0.03, seed & 1 == 0));
}
