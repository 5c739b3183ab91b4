//! Moves data between two connections in memory, for counting instructions:
//!
//! ```text
//! cargo build --release -p millstream-tcp --example instructions
//! valgrind --tool=callgrind --toggle-collect='*::measured' target/release/examples/instructions short 1000
//! ```
//! `short`: connections of six segments, 64 bytes each way. `keepalive`: requests and responses of 64 bytes
//! on one connection. `bulk`: full segments one way, read as they arrive. `in_order` and `acks`: the same,
//! but only the receiver's, or only the sender's, handling of segments counts. Headers are handed over as
//! they are: parsing, emitting and checksums are not part of the figures; copies of the payload are.

use std::hint::black_box;

use base::{Addr, Duration, Endpoint, FlowKey, Instant, Seq};
use cc::{Control, NewReno};
use tcp::{
    Config, Connection, Counters, Cx, Disposition, Open, Pool, SocketOptions, State, Transmit, TxLimits,
};
use wire::Ecn;
use wire::tcp::{Header, Segment};

const MSS: u32 = 1448;
const LIMITS: TxLimits = TxLimits { max_payload: MSS };

struct Core {
    config: Config,
    pool: Pool,
    counters: Counters,
    now: Instant,
}

impl Core {
    fn new() -> Self {
        Core {
            config: Config::default(),
            pool: Pool::new(1 << 16),
            counters: Counters::default(),
            now: Instant::from_secs(1),
        }
    }

    fn cx(&mut self) -> Cx<'_> {
        Cx {
            now: self.now,
            config: &self.config,
            pool: &mut self.pool,
            counters: &mut self.counters,
            probe: None,
            frames: None,
        }
    }

    fn open(client: bool) -> Open {
        let a = Endpoint::new(Addr::v4([10, 0, 0, 1]), 40_000);
        let b = Endpoint::new(Addr::v4([10, 0, 0, 2]), 80);
        let key = if client { FlowKey::new(a, b) } else { FlowKey::new(b, a) };
        Open {
            key,
            isn: Seq::new(12_345),
            ts_offset: 99,
            path_mtu: 1500,
            options: SocketOptions::default(),
            hint: tcp::HostHint::default(),
        }
    }

    fn poll(&mut self, conn: &mut Connection, payload: &mut [u8]) -> Option<Transmit> {
        let tx = conn.poll_transmit(&mut self.cx(), &LIMITS)?;
        conn.copy_payload(&self.pool, &tx, &mut payload[..tx.len as usize]);
        Some(tx)
    }
}

fn segment<'a>(header: &Header, payload: &'a [u8]) -> Segment<'a> {
    Segment {
        seq: header.seq,
        ack: header.ack,
        flags: header.flags,
        window: header.window,
        urgent: 0,
        options: header.options,
        merged: 1,
        ecn: Ecn::NotCapable,
        payload,
        rest: None,
    }
}

fn policy() -> Control {
    Control::NewReno(NewReno::new())
}

struct Pair {
    core: Core,
    client: Connection,
    server: Connection,
    payload: Vec<u8>,
}

impl Pair {
    fn new() -> Pair {
        let (mut core, mut client, mut server) = (Core::new(), None, None);
        handshake(&mut core, &mut client, &mut server);
        let (client, server) = (client.expect("begun"), server.expect("begun"));
        let mut pair = Pair { core, client, server, payload: vec![0; 65_536] };
        pair.settle();
        pair
    }

    /// Hands segments over until neither has any.
    fn settle(&mut self) -> u32 {
        let mut segments = 0;
        loop {
            let before = segments;
            while let Some(tx) = self.core.poll(&mut self.client, &mut self.payload) {
                let seg = segment(&tx.header, &self.payload[..tx.len as usize]);
                self.server.on_segment(&mut self.core.cx(), &seg);
                segments += 1;
            }
            while let Some(tx) = self.core.poll(&mut self.server, &mut self.payload) {
                let seg = segment(&tx.header, &self.payload[..tx.len as usize]);
                self.client.on_segment(&mut self.core.cx(), &seg);
                segments += 1;
            }
            if segments == before {
                return segments;
            }
        }
    }
}

/// Begins two connections with each other where they are to live.
fn handshake<'p>(
    core: &mut Core,
    client: &'p mut Option<Connection>,
    server: &'p mut Option<Connection>,
) -> (&'p mut Connection, &'p mut Connection) {
    let client = Connection::connect(client, &mut core.cx(), &Core::open(true), policy());
    let syn = core.poll(client, &mut []).expect("SYN");
    let open = Core::open(false);
    let server = Connection::accept(server, &mut core.cx(), &open, policy(), &segment(&syn.header, &[]));
    let syn_ack = core.poll(server, &mut []).expect("SYN-ACK");
    client.on_segment(&mut core.cx(), &segment(&syn_ack.header, &[]));
    (client, server)
}

mod short {
    use super::*;

    #[inline(never)]
    pub(super) fn measured(core: &mut Core, payload: &mut [u8]) {
        let mut into = [0; 64];
        let (mut client, mut server) = (None, None);
        let (client, server) = handshake(core, &mut client, &mut server);
        client.write(&mut core.cx(), &[1; 64]).expect("room");
        let request = core.poll(client, payload).expect("request");
        server.on_segment(&mut core.cx(), &segment(&request.header, &payload[..64]));
        black_box(server.poll_event());
        server.read(&mut core.cx(), &mut into).expect("request");
        server.write(&mut core.cx(), &[2; 64]).expect("room");
        server.close(&mut core.cx());
        let response = core.poll(server, payload).expect("response");
        client.on_segment(&mut core.cx(), &segment(&response.header, &payload[..64]));
        black_box(client.poll_event());
        client.read(&mut core.cx(), &mut into).expect("response");
        client.close(&mut core.cx());
        let fin = core.poll(client, payload).expect("FIN");
        let end = server.on_segment(&mut core.cx(), &segment(&fin.header, &[]));
        assert_eq!(end, Disposition::TimeWait);
        let last = core.poll(server, payload).expect("ACK");
        black_box(server.time_wait(&core.cx()));
        client.on_segment(&mut core.cx(), &segment(&last.header, &[]));
        assert_eq!(client.state(), State::Closed);
        client.release(&mut core.pool);
        server.release(&mut core.pool);
    }
}

mod keepalive {
    use super::*;

    #[inline(never)]
    pub(super) fn measured(pair: &mut Pair) {
        let mut into = [0; 64];
        pair.client.write(&mut pair.core.cx(), &[1; 64]).expect("room");
        let request = pair.core.poll(&mut pair.client, &mut pair.payload).expect("request");
        let seg = segment(&request.header, &pair.payload[..64]);
        pair.server.on_segment(&mut pair.core.cx(), &seg);
        black_box(pair.server.poll_event());
        pair.server.read(&mut pair.core.cx(), &mut into).expect("request");
        pair.server.write(&mut pair.core.cx(), &[2; 64]).expect("room");
        let response = pair.core.poll(&mut pair.server, &mut pair.payload).expect("response");
        let seg = segment(&response.header, &pair.payload[..64]);
        pair.client.on_segment(&mut pair.core.cx(), &seg);
        black_box(pair.client.poll_event());
        pair.client.read(&mut pair.core.cx(), &mut into).expect("response");
        black_box(pair.client.poll_timeout());
        black_box(pair.server.poll_timeout());
    }
}

mod bulk {
    use super::*;

    #[inline(never)]
    pub(super) fn measured(pair: &mut Pair, data: &[u8], into: &mut [u8]) {
        pair.client.write(&mut pair.core.cx(), data).expect("room");
        pair.settle();
        while pair.server.readable() > 0 {
            black_box(pair.server.read(&mut pair.core.cx(), into).expect("data"));
        }
        pair.settle();
    }
}

mod in_order {
    use super::*;

    #[inline(never)]
    pub(super) fn measured(core: &mut Core, conn: &mut Connection, seg: &Segment<'_>) {
        conn.on_segment(&mut core.cx(), seg);
    }
}

mod output {
    use super::*;

    #[inline(never)]
    pub(super) fn measured(core: &mut Core, conn: &mut Connection) -> Option<Transmit> {
        conn.poll_transmit(&mut core.cx(), &LIMITS)
    }
}

/// One way, four segments a round; `count` decides whose handling is measured.
fn one_way(n: u64, count: &str) {
    let mut pair = Pair::new();
    let data = vec![7; 4 * MSS as usize];
    let mut into = vec![0; 1 << 20];
    for _ in 0..n.div_ceil(4) {
        pair.core.now += Duration::from_micros(100);
        pair.client.write(&mut pair.core.cx(), &data).expect("room");
        loop {
            let tx = match count {
                "output" => output::measured(&mut pair.core, &mut pair.client),
                _ => pair.client.poll_transmit(&mut pair.core.cx(), &LIMITS),
            };
            let Some(tx) = tx else { break };
            let len = tx.len as usize;
            pair.client.copy_payload(&pair.core.pool, &tx, &mut pair.payload[..len]);
            let seg = segment(&tx.header, &pair.payload[..len]);
            match count {
                "in_order" => in_order::measured(&mut pair.core, &mut pair.server, &seg),
                _ => drop(pair.server.on_segment(&mut pair.core.cx(), &seg)),
            }
        }
        while pair.server.readable() > 0 {
            pair.server.read(&mut pair.core.cx(), &mut into).expect("data");
        }
        while let Some(tx) = pair.server.poll_transmit(&mut pair.core.cx(), &LIMITS) {
            let seg = segment(&tx.header, &[]);
            match count {
                "acks" => in_order::measured(&mut pair.core, &mut pair.client, &seg),
                _ => drop(pair.client.on_segment(&mut pair.core.cx(), &seg)),
            }
        }
    }
    println!("segments in and out of both ends: {}", pair.core.counters.segments_in);
}

fn main() {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_default();
    let n: u64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(1000);
    match what.as_str() {
        "short" => {
            let (mut core, mut payload) = (Core::new(), vec![0; 2048]);
            (0..n).for_each(|_| short::measured(&mut core, &mut payload));
            println!("connections: {n}, segments in: {}", core.counters.segments_in);
        }
        "keepalive" => {
            let mut pair = Pair::new();
            for _ in 0..n {
                pair.core.now += Duration::from_micros(10);
                keepalive::measured(&mut pair);
            }
            println!("exchanges: {n}, segments in: {}", pair.core.counters.segments_in);
        }
        "bulk" => {
            let mut pair = Pair::new();
            let data = vec![7; 16 * MSS as usize];
            let mut into = vec![0; 1 << 20];
            for _ in 0..n {
                pair.core.now += Duration::from_micros(100);
                bulk::measured(&mut pair, &data, &mut into);
            }
            println!("segments in: {}", pair.core.counters.segments_in);
        }
        "in_order" | "acks" | "output" => one_way(n, &what),
        _ => eprintln!("short | keepalive | bulk | in_order | acks | output, and how many"),
    }
}
