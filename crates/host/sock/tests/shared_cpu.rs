//! Goal: on one CPU a request in paired mode costs no change to the stack thread, and what happens to it is counted.
//! Alone in its file, because it looks at the threads of the whole process.

use base::Addr;
use pio::{PairConfig, pair};
use sock::paired::{PairedConfig, StackThread};
use sock::{Engine, Limits, Paired, Stack, SystemClock, TcpListener, TcpStream, control};
use stack::{Core, CoreConfig, OwnAddr};
use std::io::{Read, Write};
use std::sync::Arc;

const ROUNDS: u64 = 2_000;

fn stack(port: impl pio::PacketIo + 'static, last: u8) -> Stack {
    let addresses = vec![OwnAddr { addr: Addr::v4([10, 0, 0, last]), prefix: 24 }];
    let core = Core::new(CoreConfig { seed: 3, addresses, ..CoreConfig::default() }, Box::new(port));
    let engine = Engine::new(core, Box::new(SystemClock::new()), Limits::default());
    let config = PairedConfig { cpu: Some(0), ..PairedConfig::default() };
    let thread = Arc::new(StackThread::start(engine, config).unwrap());
    Arc::new(Paired::over(&[thread], Limits::default()).unwrap())
}

/// How often stack threads have gone to sleep.
fn sleeps() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let status = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok());
    let of_stack = status.filter(|text| text.starts_with("Name:\tmillstream-stac"));
    let number = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse::<u64>().ok()).unwrap()
    };
    of_stack.map(number).sum()
}

#[test]
fn a_request_costs_no_change_of_threads() {
    if !sock::pin_to(0) {
        eprintln!("skipped: CPU 0 is not ours");
        return;
    }
    let (a, b) = pair(&PairConfig::default()).unwrap();
    let (client, server) = (stack(a, 2), stack(b, 1));
    let listener = TcpListener::bind(&server, "10.0.0.1:7").unwrap();
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut word = [0; 4];
        while stream.read_exact(&mut word).is_ok() {
            stream.write_all(&word).unwrap();
        }
    });
    let mut stream = TcpStream::connect(&client, "10.0.0.1:7").unwrap();
    let mut ask = || {
        stream.write_all(b"ping").unwrap();
        stream.read_exact(&mut [0; 4]).unwrap();
    };
    (0..10).for_each(|_| ask());
    let before = sleeps();
    (0..ROUNDS).for_each(|_| ask());
    let slept = sleeps() - before;
    assert!(slept < ROUNDS / 4, "{ROUNDS} requests, and the stack threads slept {slept} times");
    drop(stream);
    echo.join().unwrap();
    let mut stats = serde_json::Value::Null;
    client.inspect(Box::new(|engine| stats = control::stats(engine)));
    for name in ["wakes", "events", "jobs"] {
        let count = stats["sock"][name].as_u64().unwrap();
        assert!(count >= ROUNDS / 4, "{name}: {count}");
    }
}
