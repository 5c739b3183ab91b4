//! Goal: stacks that hold what arrives are as robust as those that do not, are later by the budget at most, and take no
//! harm from packets that overtake each other.

use crate::harness::{Family, Pair, Setup, seeded};
use crate::peer::Plan;
use base::{Duration, Rate};
use emu::{PipeConfig, PortConfig, Queue};
use stack::Offload;

const BUDGET: Duration = Duration::from_micros(50);
const TIMEOUT: Duration = Duration::from_secs(120);

fn of(mut setup: Setup, client: Offload, server: Offload) -> Pair {
    (setup.client.offload, setup.server.offload) = (client, server);
    setup.build()
}

/// Bytes from the client to the server; when all had come.
fn upload(pair: &mut Pair, bytes: u64) -> Duration {
    let (client, server) = Plan::both(bytes, 0);
    pair.serve(Plan { close_last: true, ..server });
    pair.connect(client);
    let begin = pair.net.now();
    pair.finish(TIMEOUT);
    assert_eq!(pair.server().app.tally.received, bytes, "{}", pair.describe());
    pair.net.now().since(begin)
}

/// 20 MB over 1 Gbit/s and 2 ms, from a slow start on, to a server that offloads so; what that took.
fn over_a_gigabit(offload: Offload) -> (Duration, Pair) {
    let path = PipeConfig {
        rate: Some(Rate::from_bits_per_sec(1_000_000_000)),
        delay: Duration::from_millis(1),
        spares_neighbours: true,
        ..PipeConfig::default()
    };
    let mut setup = Setup::new(1, Family::V4, path);
    // The wait shows where each acknowledgment bounds slow start: without pacing, by two segments.
    let tcp = &mut setup.client.tcp;
    (tcp.pace_slow_start, tcp.autosize, tcp.abc_limit) = (false, false, 2);
    let mut pair = of(setup, Offload::Inline, offload);
    (upload(&mut pair, 20_000_000), pair)
}

#[test]
fn over_an_awful_path_in_every_mode() {
    let path = PipeConfig {
        rate: Some(Rate::from_bits_per_sec(1_000_000_000)),
        delay: Duration::from_micros(500),
        queue: Queue::Strict(256 << 10),
        loss: 0.01,
        duplicate: 0.01,
        corrupt: 0.01,
        reorder: 0.05,
        reorder_by: Duration::from_micros(200),
        spares_neighbours: true,
        ..PipeConfig::default()
    };
    seeded(0..24, |seed| {
        let budget = Duration::from_micros([50, 300, 1000][seed as usize % 3]);
        let modes = [Offload::Hold(budget), Offload::Reorder(budget)];
        let mode = |nth: u64| modes[nth as usize % 2];
        let setup = Setup::new(seed, Family::of(seed), path.clone());
        let mut pair = of(setup, mode(seed / 2), mode(seed / 6));
        let (client, server) = Plan::both(300_000, 300_000);
        pair.serve(server);
        pair.connect(client);
        pair.finish(TIMEOUT);
        for host in [pair.client(), pair.server()] {
            assert_eq!(
                (host.app.tally.complete, host.app.tally.received),
                (1, 300_000),
                "{}",
                pair.describe()
            );
            let held = host.core.held();
            assert!(held.seen > 0 && held.runs + held.merged == held.seen, "{held:?}");
        }
        pair.assert_clean();
    });
}

/// A link that brings segment by segment, 12 us apart: runs grow, and acknowledgments that are later by the budget cost
/// little.
#[test]
fn runs_grow_where_segments_come_one_by_one() {
    let trial = |offload| {
        let (took, pair) = over_a_gigabit(offload);
        (took, pair.server().core.held())
    };
    let (inline, _) = trial(Offload::Inline);
    let (held, counters) = trial(Offload::Hold(BUDGET));
    let per_run = counters.seen as f64 / counters.runs as f64;
    assert!(per_run > 3.0 && counters.gained > 1_000, "{per_run} a run: {counters:?}");
    assert!(held <= inline + inline / 25, "{held:?}, not {inline:?}");
}

/// Packets that overtake each other by up to 64 segments.
fn shuffled(rate: u64, share: f64) -> PipeConfig {
    let segment = Duration::from_nanos(1_538 * 8 * 1_000_000_000 / rate);
    PipeConfig {
        rate: Some(Rate::from_bits_per_sec(rate)),
        overhead: 24,
        delay: Duration::from_millis(1),
        reorder: share,
        reorder_by: 64 * segment,
        spares_neighbours: true,
        ..PipeConfig::default()
    }
}

/// Time that an upload takes, and segments that the sender sent again.
fn trial(rate: u64, share: f64, offload: Offload, bytes: u64) -> (Duration, u64) {
    let clean = PipeConfig { reorder: 0.0, ..shuffled(rate, 0.0) };
    let mut setup = Setup::new(7, Family::V4, shuffled(rate, share));
    setup.back = clean;
    setup.port = PortConfig { frames: 16_384, ..PortConfig::default() };
    for core in [&mut setup.client, &mut setup.server] {
        // RFC 5681 and RFC 6675 as they are: three duplicates are a loss, and nothing tells that it was none.
        (core.tcp.rack, core.tcp.dsack, core.tcp.timestamps) = (0, false, false);
    }
    let mut pair = of(setup, Offload::Inline, offload);
    let took = upload(&mut pair, bytes);
    let again = pair.client().core.tcp_counters().retransmits;
    (took, again)
}

#[test]
fn what_overtakes_each_other_costs_nothing_in_reorder_mode() {
    const BYTES: u64 = 100_000_000;
    println!("{:>14} {:>10} {:>10} {:>12} {:>10}", "rate", "in order", "inline", "reorder", "sent again");
    for (rate, budget) in [(1_000_000_000, 1_000), (10_000_000_000, 100)] {
        let offload = Offload::Reorder(Duration::from_micros(budget));
        let (in_order, _) = trial(rate, 0.0, Offload::Inline, BYTES);
        let (inline, again) = trial(rate, 0.01, Offload::Inline, BYTES);
        let (repaired, repaired_again) = trial(rate, 0.01, offload, BYTES);
        let share = |took: Duration| in_order.as_secs_f64() / took.as_secs_f64();
        println!(
            "{rate:>14} {:>10.3} {:>10.3} {:>12.3} {again:>6} {repaired_again:>3}",
            1.0,
            share(inline),
            share(repaired),
        );
        assert!(share(repaired) >= 0.95, "{rate}: {in_order:?} in order, {repaired:?} repaired");
    }
}

/// A loss is heard of by the budget later, not more.
#[test]
fn a_loss_is_repaired_as_soon_in_reorder_mode() {
    let lossy = |seed: u64, offload| {
        let path = PipeConfig {
            rate: Some(Rate::from_bits_per_sec(1_000_000_000)),
            delay: Duration::from_millis(2),
            loss: 0.001,
            spares_neighbours: true,
            ..PipeConfig::default()
        };
        let mut pair = of(Setup::new(seed, Family::V4, path), Offload::Inline, offload);
        let took = upload(&mut pair, 5_000_000);
        (took, pair.client().core.tcp_counters().timeouts)
    };
    seeded(0..6, |seed| {
        let (plain, timeouts) = lossy(seed, Offload::Inline);
        let (held, held_timeouts) = lossy(seed, Offload::Reorder(BUDGET));
        assert!(held_timeouts <= timeouts + 1, "{held_timeouts} timeouts, not {timeouts}");
        assert!(held <= plain + plain / 4, "{held:?}, not {plain:?}");
    });
}
