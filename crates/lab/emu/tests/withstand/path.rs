//! Goal: a long fat path fills because the buffers tune themselves, and a short one is not overrun.

use crate::harness::{Family, Setup, seeded};
use crate::peer::Plan;
use base::{Duration, Instant, Rate};
use emu::{PipeConfig, Queue};

/// Bytes per second of payload, over the second half of `secs` seconds, of one bulk flow over `path`.
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
        assert!(share >= 0.85, "only {:.1} % of the path", share * 100.0);
        assert!(share <= 1.0, "more than the path carries: {share}");
    });
}

/// Buffers that sufficed for a short path grow when the path does. (CUBIC takes its time to find the rate again: the
/// longer round trip ended slow start.)
#[test]
fn a_path_that_becomes_long_fills_again() {
    let rate = Rate::from_bits_per_sec(200_000_000);
    let path = |delay| PipeConfig {
        rate: Some(rate),
        delay,
        queue: Queue::Strict(2_500_000),
        ..PipeConfig::default()
    };
    let (short, long) = (path(Duration::from_micros(20)), path(Duration::from_millis(50)));
    seeded(1..2, |seed| {
        let mut pair = Setup::new(seed, Family::V4, short.clone()).build();
        let (client, server) = Plan::both(u64::MAX / 2, 0);
        pair.serve(server);
        pair.connect(client);
        pair.net.run_until(Instant::from_secs(1));
        for pipe in [pair.there, pair.back] {
            pair.net.pipe_mut(pipe).set_config(long.clone());
        }
        pair.net.run_until(Instant::from_secs(17));
        let before = pair.moved();
        pair.net.run_until(Instant::from_secs(20));
        let share = (pair.moved() - before) as f64 / 3.0 / rate.bytes_per_sec() as f64;
        assert!(share >= 0.85, "only {:.1} % of the path", share * 100.0);
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
