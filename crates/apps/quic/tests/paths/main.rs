//! Data through QUIC with our policies, over emulated paths in virtual time: every byte arrives, and what each policy
//! promises of its window shows.

mod world;

use base::Duration;
use emu::{Aqm, PipeConfig, Queue};
use millstream_quic::Policies;
use quinn_proto::congestion::ControllerFactory;
use world::{Outcome, World};

/// 10 Mbit/s, 40 ms, room for one bandwidth-delay product.
fn path() -> PipeConfig {
    PipeConfig {
        rate: Some(base::Rate::from_bits_per_sec(10_000_000)),
        delay: Duration::from_millis(20),
        queue: Queue::Strict(50_000),
        ..PipeConfig::default()
    }
}

fn send(policy: &str, bytes: usize, path: &PipeConfig) -> Outcome {
    let mut registry = cc::Registry::new();
    registry.allow_unfair(true).expect("to allow is always possible");
    World::new(&Policies::new(registry), policy, bytes, path, 1).run(Duration::from_secs(120))
}

#[test]
fn every_policy_carries_data_over_a_path_that_loses_and_reorders() {
    let lossy = PipeConfig {
        loss: 0.005,
        reorder: 0.01,
        reorder_by: Duration::from_millis(4),
        jitter: Duration::from_millis(1),
        ..path()
    };
    for policy in cc::Registry::built_in() {
        let outcome = send(policy, 1 << 20, &lossy);
        assert!(outcome.complete, "{policy}: {} bytes arrived", outcome.received);
        assert!(outcome.congestion_events > 0, "{policy}: the path loses");
    }
}

#[test]
fn every_policy_fills_a_path_that_loses_nothing_by_chance() {
    for policy in cc::Registry::built_in() {
        let outcome = send(policy, 8 << 20, &path());
        assert!(outcome.complete, "{policy}");
        let rate = outcome.rate();
        // CDG yields to the delay that its own queue makes.
        let least = if policy == "cdg" { 7_000_000.0 } else { 8_000_000.0 };
        assert!(rate > least, "{policy}: {rate} bit/s of 10,000,000");
    }
}

#[test]
fn losses_take_the_part_that_the_policy_says_once_a_round_trip() {
    for (policy, kept) in [("newreno", 0.5), ("cubic", 0.7), ("cubic-2009", 0.8)] {
        let outcome = send(policy, 8 << 20, &path());
        // The last cut lies in avoidance, whatever slow start did.
        let (before, after) = *outcome.cuts.last().expect("the buffer overflows");
        let ratio = after as f64 / before as f64;
        assert!((ratio - kept).abs() < 0.03, "{policy}: from {before} to {after}");
        assert!(
            outcome.cuts.len() as u64 <= outcome.congestion_events,
            "{policy}: never twice for one event"
        );
    }
}

#[test]
fn a_policy_that_hears_marks_keeps_the_queue_short() {
    let marking = PipeConfig { aqm: Aqm::Step(15_000), queue: Queue::Strict(200_000), ..path() };
    let (dctcp, newreno) = (send("dctcp", 4 << 20, &marking), send("newreno", 4 << 20, &marking));
    assert!(dctcp.complete && newreno.complete);
    assert_eq!(dctcp.lost_packets, 0, "marks come before losses");
    let smallest = |outcome: &Outcome| outcome.cuts.iter().map(|cut| cut.1 * 100 / cut.0).max().unwrap_or(0);
    assert!(smallest(&dctcp) > 80, "a few marks take a little: {:?}", dctcp.cuts);
    assert!(smallest(&newreno) <= 51, "any mark takes half: {:?}", newreno.cuts);
}

#[test]
fn bbr_is_not_deceived_by_chance_losses() {
    let lossy = PipeConfig { loss: 0.01, ..path() };
    let (bbr, newreno) = (send("bbr", 4 << 20, &lossy), send("newreno", 4 << 20, &lossy));
    assert!(bbr.complete && newreno.complete);
    assert!(bbr.rate() > 2.0 * newreno.rate(), "{} and {} bit/s", bbr.rate(), newreno.rate());
}

/// RFC 9406, 4.2-2.
#[test]
fn limits_of_slow_start_reach_quic() {
    // Room for half a second: a slow start that does not see the queue fills it all.
    let deep = PipeConfig { queue: Queue::Strict(625_000), ..path() };
    let run = |limits: cc::HyStartLimits| {
        let policies = Policies::new(cc::Registry::new());
        policies.set_hystart(limits);
        assert_eq!(policies.hystart(), limits);
        World::new(&policies, "newreno", 3 << 20, &deep, 1).run(Duration::from_secs(120))
    };
    let (seen, blind) = (run(cc::HyStartLimits::STANDARD), run(cc::HyStartLimits::MOST));
    assert!(seen.complete && blind.complete);
    assert_eq!(seen.lost_packets, 0, "it leaves slow start in time");
    assert!(blind.lost_packets > 50, "{} lost", blind.lost_packets);
}

/// The window of ten packets after a mark, and after a loss of what was sent before it.
fn marked_then_lost(tunables: &[&str]) -> (u64, u64) {
    let mut registry = cc::Registry::new();
    for name in tunables {
        registry.set_tunable("newreno", name, 1).expect("a tunable");
    }
    let policies = Policies::new(registry);
    let factory = std::sync::Arc::new(policies.factory("newreno").expect("built in"));
    let begin = world::any_instant();
    let later = |millis: u64| begin + Duration::from_millis(millis);
    let mut controller = factory.build(begin, 1_200);
    controller.on_sent(begin, 12_000, 9);
    controller.on_congestion_event(later(40), begin, false, 0);
    let marked = controller.window();
    controller.on_congestion_event(later(41), begin, false, 1_200);
    (marked, controller.window())
}

#[test]
fn a_loss_after_a_mark_counts_for_who_asks_for_it() {
    let full = 12_000;
    assert_eq!(marked_then_lost(&["abe"]), (full * 8 / 10, full * 8 / 10));
    assert_eq!(marked_then_lost(&["abe", "abe_frlossreduce"]), (full * 8 / 10, full / 2));
}

#[test]
fn the_registry_counts_connections_and_keeps_what_they_use() {
    let policies = Policies::new(cc::Registry::new());
    assert!(policies.factory("nosuch").is_err());
    assert_eq!(policies.factory("mulwin").err(), Some(cc::Withheld::Unfair));
    let used =
        |name: &str| policies.available().into_iter().find(|row| row.name == name).map(|row| row.connections);
    let mut world = World::new(&policies, "htcp", 1 << 16, &path(), 1);
    assert_eq!(used("htcp"), Some(1), "the client's; the server has not begun");
    world.step_for(Duration::from_secs(1));
    assert_eq!(used("htcp"), Some(2));
    let removed = policies.with(|registry| registry.remove("htcp"));
    assert_eq!(removed, Err(cc::RemoveError::InUse { connections: 2 }));
    drop(world);
    assert_eq!(used("htcp"), Some(0));

    let factory = policies.factory("htcp").expect("still there");
    policies.with(|registry| registry.remove("htcp")).expect("nothing uses it");
    let world = World::with_factory(factory, 1 << 16, &path(), 1);
    assert_eq!((used("htcp"), used("cubic")), (None, Some(1)), "the default steps in");
    assert_eq!(policies.substituted(), 1, "and it is known");
    drop(world);
}

#[test]
fn a_program_s_own_policy_serves_quic_too() {
    /// Reno that adds four segments a round trip.
    #[derive(Clone, Debug, Default)]
    struct Four;
    impl cc::Law for Four {
        const NAME: &'static str = "four";
        fn avoid(&mut self, reno: &mut cc::Reno, bytes: u32, ack: &cc::AckSample) {
            reno.add_per_window(4 * cc::Reno::ONE, bytes, ack);
        }
    }
    let policies = Policies::new(cc::Registry::new());
    let factory: cc::Factory = std::sync::Arc::new(|| Some(Box::new(cc::Classical::<Four>::new())));
    policies.with(|registry| registry.register("four", factory)).expect("a new name");
    let run = |name: &str| World::new(&policies, name, 8 << 20, &path(), 1).run(Duration::from_secs(120));
    let (four, newreno) = (run("four"), run("newreno"));
    assert!(four.complete && newreno.complete);
    // A sawtooth four times as steep has four times as many teeth.
    let ratio = four.cuts.len() as f64 / newreno.cuts.len() as f64;
    assert!((2.5..6.0).contains(&ratio), "{} and {} cuts", four.cuts.len(), newreno.cuts.len());
}

#[test]
fn a_run_repeats() {
    let lossy = PipeConfig { loss: 0.01, ..path() };
    assert_eq!(send("cubic", 1 << 20, &lossy), send("cubic", 1 << 20, &lossy));
}
