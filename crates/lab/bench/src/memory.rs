//! Client and server stack in one thread, joined in memory. Timestamps, SACK, software checksums and a real
//! TIME-WAIT table are on.

mod idle;
mod some;

pub use idle::turns as idle_turns;
pub(crate) use some::{rate as some, rest};

use crate::bed::of_file;
use crate::compare::few::{Few, batches};
use crate::{Plan, now, smol};
use base::{Addr, Duration, Endpoint, Instant};
use lab::stats;
use pio::{Fit, Lanes, PacketIo, PairConfig, pair};
use serde_json::{Value, json};
use stack::{ConnId, Connect, Core, CoreConfig, Listen, ListenerId, Notice, OwnAddr};
use tcp::{Events, ReadError, SocketOptions};

/// Bytes of a request and of its answer.
pub const MESSAGE: usize = 64;
const SERVER: Addr = Addr::v4([10, 0, 0, 1]);
const PORT: u16 = 80;

/// Rounds between two looks at how long a measurement has lasted. Within a round the clock is read once, by either
/// stack's loop.
pub const ROUNDS: u32 = 16;

/// A workload in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Connect, 64 B there, 64 B back, the server closes.
    Short,
    /// 64 B there and back over connections that stay.
    Keep,
}

/// Layers between a stack and the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// Nothing.
    Nothing,
    /// A tap, as a program's stack has.
    Tap,
    /// A tap, and a layer that cuts late (`workers = 1`).
    Late,
}

/// Where a bed has its time from.
enum Clock {
    /// A rate is measured: the wall's.
    Wall(std::time::Instant),
    /// Instructions are counted: [`STEP`] later with every step, so that every run does the same.
    Steps(Instant),
}

/// Duration of a step where time goes by steps: two of them are a round trip.
const STEP: Duration = Duration::from_micros(10);

/// Two cores and what is going on between them.
pub struct Bed {
    client: Core,
    server: Core,
    listener: ListenerId,
    clock: Clock,
    notices: Vec<Notice>,
    /// Client connections by owner.
    conns: Vec<ConnId>,
    /// Server connections by owner; `None` once closed.
    served: Vec<Option<ConnId>>,
    free: Vec<u32>,
    load: Load,
    /// Does a client with [`Load::Keep`] ask again once it has its answer?
    asks_again: bool,
    /// Transactions finished.
    pub done: u64,
    /// Packets both ways.
    pub packets: u64,
    next_source: u32,
    /// How many of the connections ask.
    active: u32,
}

fn core(seed: u64, addr: Addr, extra: u32, connections: u32, batches: u8, port: Box<dyn PacketIo>) -> Core {
    let mut addresses = vec![OwnAddr { addr, prefix: 8 }];
    addresses.extend((1..extra).map(|i| OwnAddr { addr: source(i), prefix: 8 }));
    let config = CoreConfig {
        max_connections: connections,
        max_time_wait: 262_144,
        max_chunks: 1 << 18,
        seed,
        addresses,
        batches,
        ..CoreConfig::default()
    };
    Core::new(config, port)
}

pub(crate) fn options() -> SocketOptions {
    SocketOptions { nodelay: true, ..SocketOptions::default() }
}

impl Between {
    /// A port with this above it.
    fn over(self, port: impl PacketIo + 'static) -> Box<dyn PacketIo> {
        match self {
            Between::Nothing => Box::new(port),
            Between::Tap => {
                let port: Box<dyn PacketIo> = Box::new(port);
                trace::tapped(port).0
            }
            Between::Late => {
                match Lanes::fit(Box::new(port), 1, "lane", || Instant::ZERO, |_| {}).expect("memory") {
                    Fit::Cuts(lanes) => trace::tapped(lanes).0,
                    Fit::Passes(_) => unreachable!("memory neither cuts nor sums"),
                }
            }
        }
    }
}

/// The client's `i`th address: ports of one address do not suffice for a million connections.
fn source(i: u32) -> Addr {
    Addr::v4([10, 1, (i / 250) as u8, (i % 250 + 1) as u8])
}

impl Bed {
    /// A listening server and a client, no connection yet. `sources` client addresses share the connections.
    pub fn new(load: Load, sources: u32, connections: u32) -> Bed {
        Bed::with(load, sources, connections, usize::MAX, Between::Nothing)
    }

    /// Makes a bed whose link passes at most `batch` packets a turn.
    fn with(load: Load, sources: u32, connections: u32, batch: usize, between: Between) -> Bed {
        let (a, b) = pair(&PairConfig { frames: 4_096, depth: 2_048, ..PairConfig::default() })
            .expect("memory for frames");
        let turn = batches(batch);
        let (a, b) = if batch < usize::MAX {
            (between.over(Few::new(a, batch)), between.over(Few::new(b, batch)))
        } else {
            (between.over(a), between.over(b))
        };
        let client = core(1, source(0), sources, connections, turn, a);
        let mut server = core(2, SERVER, 1, connections, turn, b);
        let listen = Listen::new(Endpoint::new(SERVER, PORT), 65_535, u32::MAX);
        let listen = Listen { options: options(), ..listen };
        let (listener, _) = server.listen(Instant::from_secs(1), &listen).expect("a fresh stack listens");
        Bed {
            client,
            server,
            listener,
            clock: Clock::Wall(now()),
            notices: Vec::with_capacity(4_096),
            conns: Vec::new(),
            served: Vec::new(),
            free: Vec::new(),
            load,
            asks_again: true,
            done: 0,
            packets: 0,
            next_source: 0,
            active: u32::MAX,
        }
    }

    /// Returns the bed with time that goes by steps.
    fn stepping(self) -> Bed {
        Bed { clock: Clock::Steps(Instant::from_secs(1)), ..self }
    }

    fn now(&self) -> Instant {
        match &self.clock {
            Clock::Wall(begin) => Instant::from_secs(1) + begin.elapsed(),
            Clock::Steps(at) => *at,
        }
    }

    /// Returns the time of a new step.
    fn tick(&mut self) -> Instant {
        if let Clock::Steps(at) = &mut self.clock {
            *at += STEP;
        }
        self.now()
    }

    /// Opens one more client connection.
    pub fn open(&mut self, sources: u32) {
        let owner = self.conns.len() as u32;
        self.conns.push(ConnId(u32::MAX));
        self.connect(self.now(), owner, sources);
    }

    fn connect(&mut self, at: Instant, owner: u32, sources: u32) {
        self.next_source = (self.next_source + 1) % sources;
        let local = Endpoint::new(source(self.next_source), 0);
        let request = Connect::new(local, Endpoint::new(SERVER, PORT), owner);
        let request = Connect { options: options(), ..request };
        self.conns[owner as usize] = self.client.connect(at, &request).expect("ports and memory suffice");
    }

    /// One turn of each side at the same time, and what their applications do with it.
    pub fn step(&mut self, sources: u32) {
        let at = self.tick();
        let turn = self.client.turn(at).expect("memory never fails");
        self.packets += u64::from(turn.received);
        let mut notices = std::mem::take(&mut self.notices);
        self.client.notices(&mut notices);
        for notice in notices.drain(..) {
            self.client_event(at, notice, sources);
        }
        // What it wrote leaves before the other side looks, as it would before a thread sleeps.
        self.client.flush(at).expect("memory never fails");
        let turn = self.server.turn(at).expect("memory never fails");
        self.packets += u64::from(turn.received);
        self.server.notices(&mut notices);
        for notice in notices.drain(..) {
            self.server_event(at, notice);
        }
        self.server.flush(at).expect("memory never fails");
        self.notices = notices;
    }

    fn client_event(&mut self, at: Instant, notice: Notice, sources: u32) {
        let id = self.conns[notice.owner as usize];
        let mut buf = [0; 256];
        if notice.events.any(Events::CONNECTED) {
            if notice.owner < self.active {
                self.send(at, id);
            }
            return;
        }
        loop {
            match self.client.read(at, id, &mut buf) {
                Ok(n) => {
                    assert_eq!(n, MESSAGE, "an answer arrives whole");
                    if self.load == Load::Keep {
                        self.done += 1;
                        if self.asks_again {
                            self.send(at, id);
                        }
                        return;
                    }
                }
                Err(ReadError::Empty) => return,
                Err(ReadError::Finished) => {
                    self.client.close(at, id);
                    self.done += 1;
                    self.connect(at, notice.owner, sources);
                    return;
                }
                Err(e) => panic!("client read: {e:?}"),
            }
        }
    }

    fn send(&mut self, at: Instant, id: ConnId) {
        let sent = self.client.write(at, id, &[0x51; MESSAGE]);
        assert_eq!(sent, Ok(MESSAGE));
    }

    fn server_event(&mut self, at: Instant, notice: Notice) {
        if notice.owner == u32::MAX {
            while self.server.acceptable(self.listener) > 0 {
                let owner = self.free.pop().unwrap_or(self.served.len() as u32);
                let Some(id) = self.server.accept(self.listener, owner) else { break };
                if owner as usize == self.served.len() {
                    self.served.push(None);
                }
                self.served[owner as usize] = Some(id);
                self.serve(at, owner);
            }
            return;
        }
        self.serve(at, notice.owner);
    }

    fn serve(&mut self, at: Instant, owner: u32) {
        let Some(id) = self.served[owner as usize] else { return };
        let mut buf = [0; 256];
        match self.server.read(at, id, &mut buf) {
            Ok(n) => {
                assert_eq!(n, MESSAGE, "a request arrives whole");
                assert_eq!(self.server.write(at, id, &buf[..n]), Ok(n));
                if self.load == Load::Short {
                    self.server.close(at, id);
                    self.served[owner as usize] = None;
                    self.free.push(owner);
                }
            }
            Err(ReadError::Empty) => {}
            Err(e) => panic!("server read: {e:?}"),
        }
    }

    /// Opens client connections until there are `count`, over which nothing is said.
    pub(crate) fn open_idle(&mut self, count: u32, sources: u32) -> Result<(), String> {
        self.open_by(count, sources, |bed, _| bed.idle_step())
    }

    /// Opens client connections until there are `count`, and makes steps meanwhile.
    fn open_by(&mut self, count: u32, sources: u32, step: fn(&mut Bed, u32)) -> Result<(), String> {
        let begin = now();
        let before = self.served.len();
        while (self.served.len() as u32) < count {
            let ahead = (self.conns.len() as u32).saturating_sub(self.served.len() as u32);
            let room = 1_024u32.saturating_sub(ahead).min(count - self.conns.len() as u32);
            (0..room).for_each(|_| self.open(sources));
            step(self, sources);
            let opened = (self.served.len() - before) as f64;
            if begin.elapsed().as_secs_f64() > 100.0 + opened / 50_000.0 {
                return Err(format!("stalled at {} connections", self.served.len()));
            }
        }
        Ok(())
    }

    /// A step in which nothing sends: connections are opened and accepted only.
    fn idle_step(&mut self) {
        let at = self.tick();
        self.client.turn(at).expect("memory never fails");
        let mut notices = std::mem::take(&mut self.notices);
        self.client.notices(&mut notices);
        notices.clear();
        let at = self.now();
        self.server.turn(at).expect("memory never fails");
        self.server.notices(&mut notices);
        notices.clear();
        self.notices = notices;
        while self.server.acceptable(self.listener) > 0 {
            let owner = self.served.len() as u32;
            let Some(id) = self.server.accept(self.listener, owner) else { break };
            self.served.push(Some(id));
        }
    }

    /// Every one of `owners` asks, and asks again once it is answered, until [`Bed::rest`].
    pub(crate) fn ask(&mut self, owners: impl Iterator<Item = u32>) {
        self.asks_again = true;
        let at = self.now();
        for owner in owners {
            self.send(at, self.conns[owner as usize]);
        }
    }

    /// Waits until all `asking` connections have their answers and asks nothing more.
    pub(crate) fn rest(&mut self, asking: u32, sources: u32) {
        self.asks_again = false;
        let last = self.done + u64::from(asking);
        while self.done < last {
            self.step(sources);
        }
    }

    /// Bytes of everything both cores hold.
    pub(crate) fn footprint(&self) -> (u64, u64) {
        let of =
            |core: &Core| core.stats().iter().find(|(name, _)| *name == "footprint").map_or(0, |(_, v)| *v);
        (of(&self.client), of(&self.server))
    }
}

/// Transactions per second, and packets per transaction, over a link that hands over so many packets a turn at most.
pub(crate) fn measure(load: Load, in_flight: u32, sources: u32, seconds: f64, batch: usize) -> (f64, f64) {
    let mut bed = Bed::with(load, sources, in_flight * 2 + 1_024, batch, Between::Nothing);
    for _ in 0..in_flight {
        bed.open(sources);
        if bed.conns.len().is_multiple_of(256) {
            bed.step(sources);
        }
    }
    // Warm up: tables, pools and TIME-WAIT reach their working size.
    let warm = now();
    while bed.done < u64::from(in_flight) || warm.elapsed().as_secs_f64() < seconds / 4.0 {
        bed.step(sources);
        assert!(warm.elapsed().as_secs_f64() < 60.0, "stalled with {} of {in_flight} done", bed.done);
    }
    let (done, packets, begin) = (bed.done, bed.packets, now());
    while begin.elapsed().as_secs_f64() < seconds {
        for _ in 0..ROUNDS {
            bed.step(sources);
        }
    }
    let count = (bed.done - done) as f64;
    (count / begin.elapsed().as_secs_f64(), (bed.packets - packets) as f64 / count)
}

/// Exactly `count` transactions with `in_flight` at a time, for instruction counts.
pub fn exactly(load: Load, between: Between, in_flight: u32, count: u64) {
    let sources = 8;
    let mut bed = Bed::with(load, sources, in_flight * 2 + 1_024, usize::MAX, between).stepping();
    (0..in_flight).for_each(|_| bed.open(sources));
    while bed.done < count {
        bed.step(sources);
    }
}

/// The `memory` benchmark.
pub fn run(plan: &Plan) -> Result<Value, String> {
    const ROWS: [(&str, Load, u32); 6] = [
        ("short, 1 in flight", Load::Short, 1),
        ("short, 100 in flight", Load::Short, 100),
        ("short, 10000 in flight", Load::Short, 10_000),
        ("keep-alive, 1 connection", Load::Keep, 1),
        ("keep-alive, 1000 connections", Load::Keep, 1_000),
        ("keep-alive, 10000 connections", Load::Keep, 10_000),
    ];
    let mut rows = Vec::new();
    for (name, load, in_flight) in ROWS {
        let (mut ours, mut theirs, mut packets) = (Vec::new(), Vec::new(), 0.0);
        for _ in 0..plan.rounds {
            let (rate, per) = measure(load, in_flight, 8, plan.seconds, usize::MAX);
            ours.push(rate);
            packets = per;
            // smoltcp walks every socket for every packet: 10,000 would take minutes to warm up.
            if in_flight <= 1_000 {
                theirs.push(smol::measure(load, in_flight as usize, plan.seconds));
            }
        }
        let beside =
            if theirs.is_empty() { "not run".to_owned() } else { format!("{:.0}/s", stats::median(&theirs)) };
        eprintln!("{name:<32} {:>12.0}/s   smoltcp {beside:>14}", stats::median(&ours));
        rows.push(json!({
            "workload": name, "per_s": stats::median(&ours), "packets_per_transaction": packets,
            "smoltcp_per_s": (!theirs.is_empty()).then(|| stats::median(&theirs)),
            "ratio": (!theirs.is_empty()).then(|| stats::ratio(&ours, &theirs)),
            "all": ours, "smoltcp_all": theirs,
        }));
    }
    Ok(json!({"bench": "memory", "rounds": plan.rounds, "rows": rows}))
}

/// The `idle-memory` benchmark: one million connections, opened and left idle.
pub fn idle(_: &Plan) -> Result<Value, String> {
    const COUNT: u32 = 1_000_000;
    const SOURCES: u32 = 64;
    let mut bed = Bed::new(Load::Keep, SOURCES, COUNT + 1_024);
    let empty = bed.footprint();
    let rss_empty = resident()?;
    let begin = now();
    bed.open_idle(COUNT, SOURCES)?;
    let opened = begin.elapsed();
    let full = bed.footprint();
    let rss_full = resident()?;
    let per = |full: u64, empty: u64| (full - empty) as f64 / f64::from(COUNT);
    Ok(json!({
        "bench": "idle-memory", "connections": COUNT, "seconds": opened.as_secs_f64(),
        "server_bytes_per_connection": per(full.1, empty.1),
        "client_bytes_per_connection": per(full.0, empty.0),
        "resident_bytes_per_connection_pair": (rss_full - rss_empty) as f64 / f64::from(COUNT),
    }))
}

/// Bytes of memory this process holds.
pub(crate) fn resident() -> Result<u64, String> {
    let statm = std::fs::read_to_string("/proc/self/statm").map_err(of_file("/proc/self/statm"))?;
    let pages: u64 = statm.split(' ').nth(1).and_then(|n| n.parse().ok()).ok_or("/proc/self/statm is odd")?;
    Ok(pages * 4_096)
}
