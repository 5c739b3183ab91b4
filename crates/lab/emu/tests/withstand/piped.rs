//! Goal: a path under one's own stack is the path that a network would be, to the nanosecond, with offloads too, and
//! gives back what it took.

use crate::harness::{Family, Pair, Setup, seeded};
use crate::peer::Plan;
use base::{Duration, Instant, Rate, Rng};
use emu::{PipeConfig, PortConfig, Queue};

const TIMEOUT: Duration = Duration::from_secs(60);

fn wire() -> PipeConfig {
    PipeConfig::default()
}

/// Delay of the wire beside the path under a stack: without any, what arrives at the instant of a
/// timer would come behind it here, and before it in a network.
const NANO: Duration = Duration::from_nanos(1);

/// Something between a good path and one that drops often, without dice of its own.
fn path(rng: &mut Rng) -> PipeConfig {
    PipeConfig {
        rate: Some(Rate::from_bits_per_sec(1_000_000 + rng.below(50_000_000))),
        delay: NANO + Duration::from_nanos(rng.below(30_000_000)),
        queue: Queue::Slots(5 + rng.below(60) as u32),
        every: if rng.chance(0.5) { 50 + rng.below(200) } else { 0 },
        spares_neighbours: true,
        ..PipeConfig::default()
    }
}

/// Moves bytes both ways; when all were done.
fn finished(setup: Setup) -> (Instant, Pair) {
    let mut pair = setup.build();
    let (client, server) = Plan::both(300_000, 200_000);
    pair.serve(server);
    pair.connect(client);
    pair.finish(TIMEOUT);
    let end = pair.net.now();
    // What the last of them sent arrives too.
    pair.net.run_until(end + Duration::from_secs(1));
    (end, pair)
}

fn of(pair: &mut Pair, name: &str) -> u64 {
    let stats = pair.net.host_mut(pair.client).core.io().stats();
    stats.into_iter().find(|(row, _)| *row == name).unwrap_or_else(|| panic!("no {name}")).1
}

#[test]
fn it_is_what_a_network_would_be() {
    seeded(0..60, |seed| {
        let family = Family::of(seed);
        let mut rng = Rng::new(seed);
        let (there, back) = (path(&mut rng), path(&mut rng));
        let (in_net, network) =
            finished(Setup { there: there.clone(), back: back.clone(), ..Setup::new(seed, family, wire()) });
        let under = Some([back, there].map(|path| PipeConfig { delay: path.delay - NANO, ..path }));
        let short = PipeConfig { delay: NANO, ..wire() };
        let (in_stack, mut own) = finished(Setup { under, ..Setup::new(seed, family, short) });
        assert_eq!(in_stack, in_net, "{}\n{}", own.describe(), network.describe());
        for (way, pipe) in [("path_out", network.there), ("path_in", network.back)] {
            let counters = network.net.pipe(pipe).counters();
            let [arrived, dropped] = ["", "_dropped"].map(|what| of(&mut own, &format!("{way}{what}")));
            assert_eq!((arrived, dropped), (counters.arrived, counters.full + counters.lost), "{way}");
        }
        own.assert_clean();
    });
}

/// Offloads that the stack leaves to its port are done before the pipe: packets in it are those of a wire.
#[test]
fn offloads_are_done_before_the_pipe() {
    let offloads =
        PortConfig { tx_checksum: true, tso_max: 65_535, passes_whole: true, ..PortConfig::default() };
    for port in [offloads, PortConfig::default()] {
        let slow = PipeConfig { rate: Some(Rate::from_bits_per_sec(10_000_000)), ..wire() };
        let under = Some([slow.clone(), slow]);
        let (end, mut pair) = finished(Setup { under, port, ..Setup::new(3, Family::V4, wire()) });
        // Both ways at once; 300,000 bytes with their headers take a quarter of a second.
        assert!((Instant::from_millis(248)..Instant::from_millis(400)).contains(&end), "{end}");
        assert!(of(&mut pair, "path_out") >= 300_000 / 1_460, "packets, not super-segments");
        assert!(of(&mut pair, "path_in") >= 200_000 / 1_460, "packets, not super-segments");
        pair.assert_clean();
    }
}

/// A connection that is opened over 10 ms and 15 ms has a round trip of 25 ms, and no other.
#[test]
fn a_round_trip_is_the_sum_of_both_ways() {
    let way = |ms| PipeConfig { delay: Duration::from_millis(ms), spares_neighbours: true, ..wire() };
    let under = Some([way(15), way(10)]);
    let mut pair = Setup { under, ..Setup::new(4, Family::V4, wire()) }.build();
    let (client, server) = Plan::both(10_000, 0);
    pair.serve(server);
    pair.connect(client);
    let mut seen = None;
    while seen.is_none() {
        pair.net.run_until(pair.net.now() + Duration::from_micros(100));
        pair.client().core.for_each(pair.net.now(), &mut |row| {
            if let stack::Row::Connection(connection) = row {
                seen = Some(connection.info(pair.net.now()).srtt).filter(|srtt| !srtt.is_zero());
            }
        });
    }
    assert_eq!(seen, Some(Duration::from_millis(25)));
    // ARP went there and back before.
    assert!((50_000..50_300).contains(&pair.net.now().as_micros()), "{}", pair.net.now());
}
