//! Goal: SIFTR is turned on and off while threads move bytes over two live stacks, in both modes; every log of a
//! stretch is whole, every packet of it is a line or is counted as skipped, and the traffic does not notice.

use base::{Addr, Duration};
use pio::{PairConfig, pair};
use sock::paired::{PairedConfig, StackThread};
use sock::tree::{Tree, TreeError};
use sock::{Engine, Limits, Paired, Runner, Stack, SystemClock, TcpListener, TcpStream};
use stack::{Core, CoreConfig, OwnAddr};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

fn engine(port: impl pio::PacketIo + 'static, last: u8) -> Engine {
    let addresses = vec![OwnAddr { addr: Addr::v4([10, 0, 0, last]), prefix: 24 }];
    let core = Core::new(CoreConfig { seed: 3, addresses, ..CoreConfig::default() }, Box::new(port));
    Engine::new(core, Box::new(SystemClock::new()), Limits::default())
}

/// Two ends of a link, which are two cores of one process: 10.0.0.1 and 10.0.0.2.
fn stacks(direct: bool) -> [Stack; 2] {
    let (a, b) = pair(&PairConfig::default()).unwrap();
    let start = |engine| -> Stack {
        if direct {
            return Runner::start(engine).unwrap();
        }
        let config = PairedConfig { spin: Duration::ZERO, ..PairedConfig::default() };
        let thread = Arc::new(StackThread::start(engine, config).unwrap());
        Arc::new(Paired::over(&[thread], Limits::default()).unwrap())
    };
    [start(engine(a, 1)), start(engine(b, 2))]
}

/// Sends `rounds` times 64 KiB each way, and says to what it hears.
fn converse(stacks: &[Stack; 2], rounds: usize, mut meanwhile: impl FnMut(usize)) {
    let listener = TcpListener::bind(&stacks[0], "10.0.0.1:7").unwrap();
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut piece = vec![0; 64 << 10];
        while stream.read_exact(&mut piece).is_ok() {
            stream.write_all(&piece).unwrap();
        }
    });
    let mut stream = TcpStream::connect(&stacks[1], "10.0.0.1:7").unwrap();
    for round in 0..rounds {
        let mut piece: Vec<u8> = (0..64u32 << 10).map(|i| (i * 7 + round as u32) as u8).collect();
        let sent = piece.clone();
        stream.write_all(&piece).unwrap();
        stream.read_exact(&mut piece).unwrap();
        assert!(piece == sent, "round {round}");
        meanwhile(round);
    }
    drop(stream);
    echo.join().unwrap();
}

/// Checks one log from its first line to its last; how many packets it saw.
fn check(log: &[&str]) -> u64 {
    let [first, data @ .., last] = log else { panic!("{log:?}") };
    assert!(first.starts_with("enable_time_secs=1"), "{first}");
    let number = |key: &str| -> u64 {
        let field = last.split('\t').find_map(|field| field.strip_prefix(key)?.strip_prefix('='));
        field.unwrap_or_else(|| panic!("no {key} in {last}")).parse().unwrap()
    };
    let (total, skipped) = (number("total_tcp_pkts"), number("total_skipped_tcp_pkts"));
    assert_eq!(data.len() as u64, total - skipped);
    assert_eq!(total, number("num_inbound_tcp_pkts") + number("num_outbound_tcp_pkts"));
    assert!(data.iter().all(|line| line.split(',').count() == 28), "a torn line");
    // Both ends of the one flow, unless nothing of it passed.
    let flows = last.split("flow_list=").nth(1).unwrap().matches(',').count();
    assert_eq!(flows, if data.is_empty() { 0 } else { 2 });
    // Each end's lines are in the order of time.
    for port in ["10.0.0.1,7,", "10.0.0.2,"] {
        let of_one = data.iter().filter(|line| line.splitn(4, ',').nth(3).unwrap().starts_with(port));
        assert!(of_one.map(|line| line.split(',').nth(2).unwrap()).is_sorted());
    }
    total
}

#[test]
fn on_and_off_while_bytes_flow() {
    let file = std::env::temp_dir().join(format!("ms-siftr-live-{}.log", std::process::id()));
    let path = file.display().to_string();
    for direct in [true, false] {
        let stacks = stacks(direct);
        let tree = Tree::new(&stacks);
        tree.set("net.inet.siftr.logfile", &path).unwrap();
        tree.set("net.inet.siftr.profile", "siftr-1.2.4").unwrap();
        let set = |on: bool| tree.set("net.inet.siftr.enabled", if on { "1" } else { "0" }).unwrap();
        converse(&stacks, 60, |round| match round % 20 {
            5 => set(true),
            15 => set(false),
            _ => {}
        });
        assert_eq!(tree.get("net.inet.siftr.enabled").unwrap(), "0");
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let logs: Vec<_> = lines.split_inclusive(|line| line.starts_with("disable")).collect();
        assert_eq!(logs.len(), 3);
        // Ten rounds, 128 KiB each, at both ends.
        assert!(logs.iter().all(|log| check(log) > 100));
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn names_and_refusals() {
    let stacks = stacks(true);
    let tree = Tree::new(&stacks);
    let names: Vec<String> = tree.list("net.inet.siftr").unwrap().into_iter().map(|node| node.name).collect();
    let known = ["enabled", "genhashes", "logfile", "port_filter", "ppl", "profile"];
    assert_eq!(names, known.map(|name| format!("net.inet.siftr.{name}")));
    let refused = |name: &str, value: &str| tree.set(&format!("net.inet.siftr.{name}"), value).unwrap_err();
    assert!(matches!(refused("enabled", "yes"), TreeError::Invalid(text) if text.contains("0 or 1")));
    assert!(matches!(refused("ppl", "0"), TreeError::Invalid(_)));
    tree.set("net.inet.siftr.logfile", "/nowhere/at/all").unwrap();
    assert!(matches!(refused("enabled", "1"), TreeError::Missing(text) if text.contains("/nowhere/at/all")));
    assert!(!Path::new("/nowhere").exists());
}
