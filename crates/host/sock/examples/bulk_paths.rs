//! One bulk flow in direct or paired mode against a bare core, all in one thread: for callgrind, which counts what each
//! mode costs. `cargo run --release -p millstream-sock --example bulk_paths -- direct|paired out|in PIECE MEGABYTES`.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use base::{Addr, Duration, Endpoint, Instant};
use pio::{PairConfig, pair};
use sock::paired::{PairedConfig, StackThread};
use sock::{
    Clock, Engine, Family, Limits, Paired, Poller, Ready, RecvFlags, Runner, SendFlags, Stack, SystemClock,
};
use stack::{ConnId, Core, CoreConfig, Listen, OwnAddr};
use std::sync::Arc;

const PORT: u16 = 7;
const PEER: Addr = Addr::v4([10, 0, 0, 1]);
/// Pieces that an application moves for one event.
const ROUNDS: usize = 16;

fn core(port: pio::Pair, addr: Addr) -> Core {
    let addresses = vec![OwnAddr { addr, prefix: 24 }];
    Core::new(CoreConfig { seed: 3, addresses, ..CoreConfig::default() }, Box::new(port))
}

struct Peer {
    core: Core,
    clock: SystemClock,
    conn: Option<ConnId>,
    listener: stack::ListenerId,
    sends: bool,
    scratch: Vec<u8>,
    bytes: u64,
}

impl Peer {
    #[inline(never)]
    fn step(&mut self) {
        let now = self.clock.now();
        self.core.turn(now).unwrap();
        let mut notices = Vec::new();
        self.core.notices(&mut notices);
        if self.conn.is_none() {
            self.conn = self.core.accept(self.listener, 1);
        }
        let Some(conn) = self.conn else { return };
        if self.sends {
            while let Ok(n @ 1..) = self.core.write(now, conn, &self.scratch) {
                self.bytes += n as u64;
            }
        } else {
            while let Ok(n @ 1..) = self.core.read(now, conn, &mut self.scratch) {
                self.bytes += n as u64;
            }
        }
        self.core.flush(now).unwrap();
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (mode, way) = (&*args[1], &*args[2]);
    let (piece, megabytes): (usize, u64) = (args[3].parse().unwrap(), args[4].parse().unwrap());
    assert!(sock::pin_to(0));
    let (a, b) = pair(&PairConfig { frames: 256, depth: 128, ..PairConfig::offloads() }).unwrap();
    let engine =
        Engine::new(core(a, Addr::v4([10, 0, 0, 2])), Box::new(SystemClock::new()), Limits::default());
    let limits = Limits { spin: Duration::ZERO, ..Limits::default() };
    let stack: Stack = match mode {
        "direct" => Runner::start(engine).unwrap(),
        _ => {
            let config = PairedConfig { cpu: Some(0), spin: Duration::ZERO, ..PairedConfig::default() };
            Arc::new(Paired::over(&[Arc::new(StackThread::start(engine, config).unwrap())], limits).unwrap())
        }
    };
    let mut far = core(b, PEER);
    let clock = SystemClock::new();
    let (listener, _) = far.listen(clock.now(), &Listen::new(Endpoint::new(PEER, PORT), 64, 1)).unwrap();
    let sends = way == "in";
    let mut peer =
        Peer { core: far, clock, conn: None, listener, sends, scratch: vec![0x5a; 256 << 10], bytes: 0 };
    let fd = stack.socket(Family::V4).unwrap();
    stack.set_nonblocking(fd, true).unwrap();
    let _ = stack.connect(fd, Endpoint::new(PEER, PORT));
    let poller = Poller::new(&stack).unwrap();
    poller.add(fd, 1, if sends { Ready::IN } else { Ready::OUT }).unwrap();
    let mut events = [sock::EpollEvent::default(); 8];
    // Sleeping once is what borrows the lead in paired mode.
    while peer.conn.is_none() {
        poller.wait(&mut events, Some(Duration::from_millis(2))).unwrap();
        peer.step();
    }
    if !sends {
        poller.modify(fd, 1, Ready::OUT | Ready::IN).unwrap();
    }
    let mut buffer = vec![7; piece];
    let (mut waits, mut empty, mut calls, mut bytes) = (0u64, 0u64, 0u64, 0u64);
    let start = std::time::Instant::now();
    let cpu = thread_time();
    while bytes < megabytes << 20 {
        waits += 1;
        if poller.wait(&mut events, Some(Duration::ZERO)).unwrap().is_empty() {
            empty += 1;
            poller.wait(&mut events, Some(Duration::from_micros(1))).unwrap();
        }
        for _ in 0..ROUNDS {
            calls += 1;
            let moved = if sends {
                stack.recv(fd, &mut buffer, RecvFlags::default())
            } else {
                stack.send(fd, &buffer, SendFlags::default())
            };
            match moved {
                Ok(n) => bytes += n as u64,
                Err(_) => break,
            }
        }
        peer.step();
    }
    let mut stats = serde_json::Value::Null;
    stack.inspect(Box::new(|engine| stats = sock::control::stats(engine)));
    let mb = (bytes >> 20) as f64;
    println!(
        "{mode} {way} {piece}: a megabyte: \
         waits {:.2}, empty {:.2}, calls {:.2}, wakes {:.2}, events {:.2}, jobs {:.2}, CPU {:.0} us; wall {:.1} Gbit/s",
        waits as f64 / mb,
        empty as f64 / mb,
        calls as f64 / mb,
        stats["sock"]["wakes"].as_f64().unwrap_or(0.) / mb,
        stats["sock"]["events"].as_f64().unwrap_or(0.) / mb,
        stats["sock"]["jobs"].as_f64().unwrap_or(0.) / mb,
        (thread_time() - cpu) / mb,
        bytes as f64 * 8e-9 / start.elapsed().as_secs_f64()
    );
    let _ = Instant::ZERO;
    std::process::exit(0);
}

/// CPU time of this thread, us.
fn thread_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e3
}
