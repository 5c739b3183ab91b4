//! Goal: threads that wait for nothing cost nothing. Alone in its file, because it measures the whole process.

use base::Addr;
use pio::{PairConfig, pair};
use sock::{Engine, Limits, Runner, SystemClock, TcpListener};
use stack::{Core, CoreConfig, OwnAddr};
use std::time::Duration;

/// Clock ticks, a hundredth of a second each, that this process has run so far.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Ticks of one second.
fn used() -> u64 {
    std::thread::sleep(Duration::from_millis(100));
    let before = ticks();
    std::thread::sleep(Duration::from_secs(1));
    ticks() - before
}

#[test]
fn four_threads_that_wait_cost_no_more_than_one() {
    // A port in memory naps while it waits, which costs something; its end must not vanish.
    let (port, _peer) = pair(&PairConfig::default()).unwrap();
    let addresses = vec![OwnAddr { addr: Addr::v4([10, 0, 0, 1]), prefix: 24 }];
    let core = Core::new(CoreConfig { seed: 3, addresses, ..CoreConfig::default() }, Box::new(port));
    let engine = Engine::new(core, Box::new(SystemClock::new()), Limits::default());
    let stack: sock::Stack = Runner::start(engine).unwrap();
    let wait = |port| {
        let listener = TcpListener::bind(&stack, ("10.0.0.1", port)).unwrap();
        std::thread::spawn(move || listener.accept().map(drop));
    };
    wait(1);
    let one = used();
    (2..=4).for_each(wait);
    let four = used();
    assert!(four <= 2 * one + 5, "one: {one} hundredths of a second, four: {four}");
}
