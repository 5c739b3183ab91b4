//! Every fuzz target in one table, driven two ways: by `cargo xtask fuzz` with seeded mutations on stable Rust,
//! and by cargo-fuzz, whose wrappers in `fuzz/` call [`run`].
//!
//! The targets themselves live beside the code they test, where the ordinary tests call them too.
#![forbid(unsafe_code)]

pub mod drive;
mod mutate;
mod seeds;

pub use mutate::input;

/// One function that takes any bytes and panics when a promise is broken.
pub struct Target {
    /// Name on the command line, and of its file in `fuzz/fuzz_targets`.
    pub name: &'static str,
    /// Subject of the test.
    pub help: &'static str,
    /// The function.
    pub run: fn(&[u8]),
    /// Bytes that make sense to it, to start mutations from; random bytes are always tried too.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Longest input of the stable driver: a slow oracle sees more by many short lives than by few long ones.
    pub longest: usize,
    /// How many operations an input stands for, where the target performs operations one by one.
    pub operations: Option<fn(&[u8]) -> u64>,
}

/// A little more than the largest frame of an Ethernet with two tags.
const FRAME: usize = 2048;
const SHORT: usize = 256;
/// Settings of both ends and their path take about 150 bytes; the rest is spent on fates and sizes.
const PAIR: usize = 1700;
/// A hundred operations: the ephemeral range runs out several times.
const PORTS: usize = 512;

macro_rules! targets {
    ($($name:literal, $help:literal, $run:path, $seeds:path, $longest:expr $(, $operations:path)?;)+) => {
        /// Every target there is.
        pub const TARGETS: &[Target] = &[$(Target {
            name: $name,
            help: $help,
            run: $run,
            seeds: $seeds,
            longest: $longest,
            operations: targets!(@ $($operations)?),
        }),+];
    };
    (@) => { None };
    (@ $operations:path) => { Some($operations) };
}

targets! {
    "wire", "every parser of core/wire on the same bytes", wire::fuzz::any_frame, seeds::frames, FRAME;
    "wire_tcp", "TCP header and options", wire::fuzz::any_tcp, seeds::segments, FRAME;
    "wire_virtio", "the virtio-net header", wire::fuzz::any_virtio, seeds::virtio, FRAME;
    "wire_capture", "capture files", wire::fuzz::any_capture, seeds::captures, FRAME;
    "offload_arbiter", "queues that share the way up, against plain lists", offload::fuzz::arbiter, seeds::none, FRAME;
    "offload_engine", "packets that are held, against a plain receiver", offload::fuzz::engine, seeds::none, FRAME;
    "offload_merged_runs", "packets merged, against a plain reading", offload::fuzz::merged_runs, seeds::none, FRAME;
    "cc", "congestion control policies over arbitrary lives", cc::fuzz, seeds::none, FRAME;
    "drill_peer", "a peer and an application that do anything", drill::fuzz::peer, seeds::none, 800,
        drill::fuzz::operations;
    "drill_script", "scripts of the packetdrill language", drill::fuzz::script, drill::fuzz::seeds, FRAME;
    "pio_capture", "capture files as they are played", pio::fuzz::capture, seeds::captures, FRAME;
    "pio_card", "a card whose workers take turns in any order", pio::fuzz::card, seeds::none, FRAME;
    "pio_group", "processes that share a port, against plain lists", pio::fuzz::group, seeds::none, SHORT;
    "pio_link", "what a user writes for a link", pio::fuzz::link, seeds::links, SHORT;
    "pio_netlink", "what the kernel tells by netlink", pio::fuzz::netlink, seeds::netlink, FRAME;
    "pio_shm", "what the other process does to shared memory", pio::fuzz::shared_memory, seeds::none, FRAME;
    "pio_xdp", "receive descriptors of AF_XDP", pio::xdp::fuzz::descriptors, seeds::none, FRAME;
    "stack_hosts", "what is remembered of peers, against a list", stack::fuzz::hosts, seeds::none, PORTS;
    "stack_ports", "who holds which local port, against a plain list", stack::fuzz::ports, seeds::none, PORTS;
    "stack_time_waits", "the TIME-WAIT table against a plain list", stack::fuzz::time_waits, seeds::none, SHORT;
    "tcp_assembler", "out-of-order data against a plain oracle", tcp::fuzz::assembler, seeds::none, SHORT;
    "tcp_chain", "chains of pooled chunks against a plain oracle", tcp::fuzz::chain, seeds::none, SHORT;
    "tcp_send_buffer", "copied and lent bytes against a plain oracle", tcp::fuzz::send_buffer, seeds::none, SHORT;
    "tcp_connection", "a connection: any segments, calls and time", tcp::fuzz::connection, seeds::none, FRAME;
    "tcp_cookie", "SYN cookies", tcp::fuzz::cookie, seeds::none, FRAME;
    "tcp_pair", "two connections over any path, with any settings and calls", tcp::fuzz::pair, seeds::none, PAIR;
    "tcp_resent", "retransmissions and their fate, against a note per byte", tcp::fuzz::resent, seeds::none, SHORT;
    "tcp_rtt", "the round-trip estimator", tcp::fuzz::rtt, seeds::none, FRAME;
    "tcp_scoreboard", "the SACK scoreboard against a plain oracle", tcp::fuzz::scoreboard, seeds::none, SHORT;
    "tcp_sent", "the log of departures against one time per byte", tcp::fuzz::sent, seeds::none, SHORT;
    "tcp_time_wait", "TIME-WAIT answers", tcp::fuzz::time_wait, seeds::none, FRAME;
}

/// The target called `name`.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Runs the target called `name` once.
///
/// # Panics
/// When the target finds a broken promise, or there is no such target.
pub fn run(name: &str, data: &[u8]) {
    match target(name) {
        Some(target) => (target.run)(data),
        None => panic!("no fuzz target `{name}`"),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: every target has its cargo-fuzz wrapper, and survives its own seeds and their neighbours.
    use super::*;

    #[test]
    fn every_target_has_a_wrapper_and_every_wrapper_a_target() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz");
        let manifest = std::fs::read_to_string(format!("{folder}/Cargo.toml")).unwrap();
        let mut wrapped = 0;
        for target in TARGETS {
            let name = target.name;
            let path = format!("fuzz_targets/{name}.rs");
            let source = std::fs::read_to_string(format!("{folder}/{path}")).unwrap();
            assert!(source.contains(&format!("fuzz::run(\"{name}\", data)")), "{path} calls something else");
            assert!(manifest.contains(&format!("path = \"{path}\"")), "{path} is not in fuzz/Cargo.toml");
            wrapped += 1;
        }
        assert_eq!(std::fs::read_dir(format!("{folder}/fuzz_targets")).unwrap().count(), wrapped);
    }

    #[test]
    fn a_short_drive_of_every_target() {
        for target in TARGETS {
            if let Err(failure) = drive::drive(target, 0, 300, 1) {
                panic!("{failure}");
            }
        }
    }
}
