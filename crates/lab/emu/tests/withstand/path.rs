//! Goal: a long fat path fills because the buffers tune themselves, and a short one is not overrun.

use crate::harness::{Family, Setup, seeded};
use crate::peer::Plan;
use base::{Duration, Instant, Rate};
use emu::{PipeConfig, Queue};

/// Octets per second of payload, over the second half of `secs` seconds, of one bulk flow over `path`.
fn goodput(seed: u64, family: Family, path: PipeConfig, secs: u64) -> f64 {
    let back = PipeConfig { queue: Queue::Unlimited, ..path.clone() };
    let mut setup = Setup::new(seed, family, path);
    setup.back = back;
    let mut pair = setup.build();
    let (client, server) = Plan::both(u64::MAX / 2, 0);
    pair.serve(server);
    pair.connect(client);
    pair.net.run_until(Instant::from_millis(secs * 500));
    let half = pair.moved();
    pair.net.run_until(Instant::from_secs(secs));
    (pair.moved() - half) as f64 * 2.0 / secs as f64
}

#[test]
fn a_hundred_milliseconds_at_a_gigabit_fill() {
    let rate = Rate::from_bits_per_sec(1_000_000_000);
    let path = PipeConfig {
        rate: Some(rate),
        delay: Duration::from_millis(50),
        // One round trip's worth.
        queue: Queue::Strict(12_500_000),
        ..PipeConfig::default()
    };
    seeded(1..2, |seed| {
        let share = goodput(seed, Family::V4, path.clone(), 12) / rate.bytes_per_sec() as f64;
        eprintln!("{:.1} % of the path", share * 100.0);
        assert!(share >= 0.85, "only {:.1} % of the path", share * 100.0);
        assert!(share <= 1.0, "more than the path carries: {share}");
    });
}

#[test]
fn a_short_path_fills_with_a_small_queue() {
    let rate = Rate::from_bits_per_sec(100_000_000);
    let path = PipeConfig {
        rate: Some(rate),
        delay: Duration::from_millis(5),
        queue: Queue::Strict(125_000),
        ..PipeConfig::default()
    };
    seeded(1..3, |seed| {
        let share = goodput(seed, Family::V6, path.clone(), 10) / rate.bytes_per_sec() as f64;
        assert!((0.85..=1.0).contains(&share), "{:.1} % of the path", share * 100.0);
    });
}
