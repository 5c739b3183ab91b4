//! Direct and paired mode side by side, two stacks joined in memory:
//! `cargo run --release -p millstream-sock --example modes`.
//!
//! Blocking calls of one client thread and one server thread. The server is always direct, so that only the client's
//! mode differs.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use base::Addr;
use pio::{PairConfig, pair};
use sock::paired::{PairedConfig, StackThread};
use sock::{Engine, Limits, Paired, Runner, Stack, SystemClock, TcpListener, TcpStream};
use stack::{Core, CoreConfig, OwnAddr};
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUNDS: usize = 3_000;
const BULK: usize = 100_000_000;
const SHORT: usize = 1_000;

fn engine(port: pio::Pair, last: u8) -> Engine {
    let addresses = vec![OwnAddr { addr: Addr::v4([10, 0, 0, last]), prefix: 24 }];
    let core = Core::new(CoreConfig { seed: 3, addresses, ..CoreConfig::default() }, Box::new(port));
    Engine::new(core, Box::new(SystemClock::new()), Limits::default())
}

fn client(mode: &str, port: pio::Pair) -> std::io::Result<Stack> {
    if mode == "direct" {
        return Ok(Runner::start(engine(port, 2))?);
    }
    let thread = Arc::new(StackThread::start(engine(port, 2), PairedConfig::default())?);
    Ok(Arc::new(Paired::over(&[thread], Limits::default())?))
}

/// Answers every byte-sized question, swallows everything else.
fn serve(server: Stack) -> std::io::Result<()> {
    let listener = TcpListener::bind(&server, "10.0.0.1:7")?;
    for stream in listener.incoming() {
        let (mut stream, mut buf) = (stream?, vec![0; 65_536]);
        loop {
            match stream.read(&mut buf)? {
                0 => break,
                1 => stream.write_all(&buf[..1])?,
                _ => {}
            }
        }
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    for mode in ["direct", "paired"] {
        let (a, b) = pair(&PairConfig::default())?;
        let (client, server): (Stack, Stack) = (client(mode, a)?, Runner::start(engine(b, 1))?);
        std::thread::spawn(move || serve(server));
        std::thread::sleep(Duration::from_millis(50));

        let mut stream = TcpStream::connect(&client, "10.0.0.1:7")?;
        stream.set_nodelay(true)?;
        let mut times = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            stream.write_all(b"x")?;
            stream.read_exact(&mut [0])?;
            times.push(start.elapsed());
        }
        times.sort();
        println!("{mode}: there and back p50 {:?}, p99 {:?}", times[ROUNDS / 2], times[ROUNDS * 99 / 100]);

        let data = vec![7; 65_536];
        let start = Instant::now();
        for _ in 0..BULK / data.len() {
            stream.write_all(&data)?;
        }
        println!("{mode}: bulk {:.2} Gbit/s", BULK as f64 * 8e-9 / start.elapsed().as_secs_f64());
        drop(stream);

        let start = Instant::now();
        for _ in 0..SHORT {
            let mut stream = TcpStream::connect(&client, "10.0.0.1:7")?;
            stream.write_all(b"x")?;
            stream.read_exact(&mut [0])?;
        }
        println!("{mode}: connect, ask, close {:?} each", start.elapsed() / SHORT as u32);
    }
    Ok(())
}
