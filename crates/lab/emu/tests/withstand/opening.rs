//! Goal: the rarer ways for a connection to begin: both ends at once, and nothing there.

use crate::harness::{Family, PORT, START, Setup, seeded};
use crate::peer::Plan;
use base::{Duration, Endpoint};
use emu::PipeConfig;

#[test]
fn simultaneous() {
    seeded(1..30, |seed| {
        let family = Family::of(seed);
        // The first seeds on a clean path, the others on one that loses every tenth packet.
        let loss = if seed < 5 { 0.0 } else { 0.1 };
        let path = PipeConfig {
            delay: Duration::from_millis(20),
            loss,
            spares_neighbours: true,
            ..PipeConfig::default()
        };
        let mut pair = Setup::new(seed, family, path).build();
        let (one, other) = Plan::both(100_000, 50_000);
        let ends = [Endpoint::new(family.addr(1), PORT), Endpoint::new(family.addr(2), PORT)];
        for (host, plan, local, remote) in
            [(pair.client, one, ends[0], ends[1]), (pair.server, other, ends[1], ends[0])]
        {
            let host = pair.net.host_mut(host);
            host.app.connect_from(&mut host.core, START, local, remote, plan).expect("ports to spare");
        }
        pair.finish(Duration::from_secs(130));
        for host in [pair.client(), pair.server()] {
            assert_eq!(host.app.tally.complete, 1, "{}", pair.describe());
            assert_eq!(host.core.tcp_counters().active_opens, 1);
            assert_eq!(host.core.tcp_counters().passive_opens, 0);
        }
        pair.assert_clean();
    });
}

#[test]
fn nobody_listens() {
    let path = PipeConfig { delay: Duration::from_millis(20), ..PipeConfig::default() };
    for family in [Family::V4, Family::V6] {
        let mut pair = Setup::new(1, family, path.clone()).build();
        pair.connect(Plan::both(1, 1).0);
        pair.finish(Duration::from_secs(1));
        assert_eq!(pair.client().app.tally.refused, 1, "{}", pair.describe());
        pair.assert_clean();
    }
}
