//! Client and server stack in one thread, joined in memory: `memory short|keep IN_FLIGHT COUNT`.
//!
//! Timestamps, SACK, software checksums and TIME-WAIT are on. For profiles (callgrind, perf); the figures
//! that are published come from the bench crate.
#![allow(clippy::disallowed_methods, reason = "a profile needs the time")]

use base::{Addr, Endpoint, Instant};
use pio::{PairConfig, pair};
use stack::{ConnId, Connect, Core, CoreConfig, Listen, ListenerId, Notice, OwnAddr};
use tcp::{Events, ReadError, SocketOptions};

const SERVER: Addr = Addr::v4([10, 0, 0, 1]);
const MESSAGE: usize = 64;

struct Bed {
    client: Core,
    server: Core,
    listener: ListenerId,
    clock: std::time::Instant,
    conns: Vec<ConnId>,
    served: Vec<Option<ConnId>>,
    free: Vec<u32>,
    notices: Vec<Notice>,
    keep: bool,
    sources: u32,
    next: u32,
    done: u64,
}

fn source(i: u32) -> Addr {
    Addr::v4([10, 1, (i / 250) as u8, (i % 250 + 1) as u8])
}

impl Bed {
    fn new(keep: bool, in_flight: u32) -> Bed {
        let (a, b) =
            pair(&PairConfig { frames: 4096, depth: 2048, ..PairConfig::default() }).expect("memory");
        let sources = 16;
        let core = |seed, addresses, port| {
            let config = CoreConfig {
                max_connections: 2 * in_flight + 1024,
                max_time_wait: 1 << 18,
                max_chunks: 1 << 18,
                seed,
                addresses,
                ..CoreConfig::default()
            };
            Core::new(config, port)
        };
        let own = |addr| OwnAddr { addr, prefix: 8 };
        let client = core(1, (0..sources).map(|i| own(source(i))).collect(), Box::new(a));
        let mut server = core(2, vec![own(SERVER)], Box::new(b));
        let listen = Listen {
            local: Endpoint::new(SERVER, 80),
            backlog: 65_535,
            reuse_port: false,
            v6_only: false,
            options: SocketOptions { nodelay: true, ..SocketOptions::default() },
            control: None,
            owner: u32::MAX,
            keys: None,
        };
        let (listener, _) = server.listen(Instant::from_secs(1), &listen).expect("listens");
        Bed {
            client,
            server,
            listener,
            clock: std::time::Instant::now(),
            conns: Vec::new(),
            served: Vec::new(),
            free: Vec::new(),
            notices: Vec::new(),
            keep,
            sources,
            next: 0,
            done: 0,
        }
    }

    fn now(&self) -> Instant {
        Instant::from_secs(1) + self.clock.elapsed()
    }

    fn connect(&mut self, at: Instant, owner: u32) {
        self.next = (self.next + 1) % self.sources;
        let request = Connect {
            local: Endpoint::new(source(self.next), 0),
            remote: Endpoint::new(SERVER, 80),
            reuse_addr: false,
            options: SocketOptions { nodelay: true, ..SocketOptions::default() },
            control: None,
            owner,
            keys: None,
        };
        self.conns[owner as usize] = self.client.connect(at, &request).expect("ports and memory suffice");
    }

    fn step(&mut self) {
        let mut notices = std::mem::take(&mut self.notices);
        let at = self.now();
        self.client.turn(at).expect("memory never fails");
        self.client.notices(&mut notices);
        for notice in notices.drain(..) {
            self.client_event(at, notice);
        }
        self.client.flush(at).expect("memory never fails");
        let at = self.now();
        self.server.turn(at).expect("memory never fails");
        self.server.notices(&mut notices);
        for notice in notices.drain(..) {
            self.server_event(at, notice);
        }
        self.server.flush(at).expect("memory never fails");
        self.notices = notices;
    }

    fn client_event(&mut self, at: Instant, notice: Notice) {
        let id = self.conns[notice.owner as usize];
        let mut buf = [0; 256];
        if notice.events.any(Events::CONNECTED) {
            self.client.write(at, id, &[0x51; MESSAGE]).expect("room");
            return;
        }
        loop {
            match self.client.read(at, id, &mut buf) {
                Ok(n) if self.keep => {
                    assert_eq!(n, MESSAGE);
                    self.done += 1;
                    self.client.write(at, id, &[0x51; MESSAGE]).expect("room");
                    return;
                }
                Ok(_) => {}
                Err(ReadError::Empty) => return,
                Err(ReadError::Finished) => {
                    self.client.close(at, id);
                    self.done += 1;
                    return self.connect(at, notice.owner);
                }
                Err(e) => panic!("client read: {e:?}"),
            }
        }
    }

    fn server_event(&mut self, at: Instant, notice: Notice) {
        if notice.owner != u32::MAX {
            return self.serve(at, notice.owner);
        }
        while self.server.acceptable(self.listener) > 0 {
            let owner = self.free.pop().unwrap_or(self.served.len() as u32);
            let Some(id) = self.server.accept(self.listener, owner) else { break };
            if owner as usize == self.served.len() {
                self.served.push(None);
            }
            self.served[owner as usize] = Some(id);
            self.serve(at, owner);
        }
    }

    fn serve(&mut self, at: Instant, owner: u32) {
        let Some(id) = self.served[owner as usize] else { return };
        let mut buf = [0; 256];
        match self.server.read(at, id, &mut buf) {
            Ok(n) => {
                self.server.write(at, id, &buf[..n]).expect("room");
                if !self.keep {
                    self.server.close(at, id);
                    self.served[owner as usize] = None;
                    self.free.push(owner);
                }
            }
            Err(ReadError::Empty) => {}
            Err(e) => panic!("server read: {e:?}"),
        }
    }
}

fn stat(core: &Core, name: &str) -> u64 {
    core.stats().iter().find(|row| row.0 == name).map_or(0, |row| row.1)
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize, default: u64| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let keep = args.get(1).is_some_and(|a| a == "keep");
    let (in_flight, count) = (number(2, 1) as u32, number(3, 1_000_000));
    let mut bed = Bed::new(keep, in_flight);
    for owner in 0..in_flight {
        bed.conns.push(ConnId(u32::MAX));
        bed.connect(bed.now(), owner);
        if owner % 256 == 0 {
            bed.step();
        }
    }
    while bed.done < count / 2 {
        bed.step();
    }
    let (from, packets, clock) =
        (bed.done, stat(&bed.client, "packets_in") + stat(&bed.server, "packets_in"), bed.now());
    while bed.done < from + count {
        bed.step();
    }
    let (done, span) = (bed.done - from, bed.now() - clock);
    let packets = stat(&bed.client, "packets_in") + stat(&bed.server, "packets_in") - packets;
    println!(
        "{done} in {:.3} s: {:.0}/s, {:.2} packets each, {:.0} bytes a connection",
        span.as_secs_f64(),
        done as f64 / span.as_secs_f64(),
        packets as f64 / done as f64,
        bed.client.bytes_per_connection(),
    );
    if std::env::var_os("STATS").is_some() {
        for core in [&bed.client, &bed.server] {
            for (name, value) in core.stats().into_iter().filter(|&(_, value)| value > 0) {
                println!("  {name} {value}");
            }
        }
    }
}
