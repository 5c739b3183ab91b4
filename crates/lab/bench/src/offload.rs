//! What receiving costs with segments merged before the stack and without: bulk data in segments of 1448 octets, which
//! the link does not merge, from flows that send in bursts. Only the receiver's side is measured: its turns, and the
//! reading of what came.

mod link;

use self::link::Manner;
use crate::count::counted;
use crate::{Plan, now, stats};
use base::{Addr, Duration, Endpoint, Instant};
use pio::{BATCH_MAX, PacketIo, PairConfig, pair};
use serde_json::{Value, json};
use stack::{ConnId, Connect, Core, CoreConfig, Listen, Notice, Offload, OwnAddr};
use tcp::SocketOptions;

const RECEIVER: Addr = Addr::v4([10, 0, 0, 1]);
const SENDER: Addr = Addr::v4([10, 0, 0, 2]);
const PORT: u16 = 80;
/// Octets of payload in a full segment with timestamps.
const SEGMENT: usize = 1448;
/// Segments of a flow that leave together.
const BURST: usize = 16;
/// Time between two bursts: what the flows send is acknowledged at once.
const STEP: Duration = Duration::from_micros(50);

/// As soon as possible after each other, whatever the link brings.
const AT_ONCE: Manner = Manner { at_once: BATCH_MAX, mixed: false };
/// How long what is held may wait, and what a round trip takes where something is.
const BUDGET: Duration = Duration::from_micros(50);
const ROUND_TRIP: Duration = Duration::from_millis(1);
/// Time between two looks at the link, where it is looked at often.
const LOOK: Duration = Duration::from_micros(2);

/// A way to receive: its name, what is done with what arrives, and how that comes.
pub struct Way {
    /// What it is called on the command line.
    pub name: &'static str,
    offload: Offload,
    manner: Manner,
}

const FEW: Manner = Manner { at_once: 4, mixed: false };
const MIXED: Manner = Manner { at_once: BATCH_MAX, mixed: true };

/// Every way there is.
pub const WAYS: [Way; 7] = [
    Way { name: "receive-off", offload: Offload::Off, manner: AT_ONCE },
    Way { name: "receive-on", offload: Offload::Inline, manner: AT_ONCE },
    Way { name: "few-on", offload: Offload::Inline, manner: FEW },
    Way { name: "few-hold", offload: Offload::Hold(BUDGET), manner: FEW },
    Way { name: "few-early", offload: Offload::Early(BUDGET), manner: FEW },
    Way { name: "mixed-on", offload: Offload::Inline, manner: MIXED },
    Way { name: "mixed-reorder", offload: Offload::Reorder(BUDGET), manner: MIXED },
];

/// Two cores joined in memory, and the flows between them.
struct Bulk {
    sender: Core,
    receiver: Core,
    look: Duration,
    flows: Vec<ConnId>,
    accepted: Vec<ConnId>,
    at: Instant,
    scratch: Scratch,
}

/// What receiving needs from time to time, so that it need not be made.
struct Scratch {
    notices: Vec<Notice>,
    buf: Vec<u8>,
    /// Read so far.
    octets: u64,
}

fn core(seed: u64, addr: Addr, offload: Offload, port: Box<dyn PacketIo>) -> Core {
    let addresses = vec![OwnAddr { addr, prefix: 8 }];
    let config = CoreConfig { seed, addresses, offload, max_connections: 4096, ..CoreConfig::default() };
    Core::new(config, port)
}

impl Bulk {
    fn new(flows: u32, way: &Way) -> Bulk {
        let (a, b) = pair(&PairConfig { frames: 8192, depth: 4096, ..PairConfig::default() })
            .expect("memory for frames");
        let (a, b): (Box<dyn PacketIo>, Box<dyn PacketIo>) = (Box::new(a), way.manner.apply(b));
        let (sender, mut receiver) = (core(1, SENDER, Offload::Off, a), core(2, RECEIVER, way.offload, b));
        let options = SocketOptions { nodelay: true, ..SocketOptions::default() };
        let listen = Listen {
            local: Endpoint::new(RECEIVER, PORT),
            backlog: 4096,
            reuse_port: false,
            v6_only: false,
            options,
            control: None,
            owner: u32::MAX,
            keys: None,
        };
        let at = Instant::from_secs(1);
        let (listener, _) = receiver.listen(at, &listen).expect("a fresh stack listens");
        let mut bulk = Bulk {
            sender,
            receiver,
            // Where the link is looked at once there is no time between two looks.
            look: if way.manner == AT_ONCE { Duration::ZERO } else { LOOK },
            flows: Vec::new(),
            accepted: Vec::new(),
            at,
            scratch: Scratch { notices: Vec::new(), buf: vec![0; 65_536], octets: 0 },
        };
        for owner in 0..flows {
            let wish = Connect {
                local: Endpoint::new(SENDER, 0),
                remote: Endpoint::new(RECEIVER, PORT),
                reuse_addr: false,
                options,
                control: None,
                owner,
                keys: None,
            };
            bulk.flows.push(bulk.sender.connect(at, &wish).expect("ports suffice"));
        }
        while bulk.accepted.len() < bulk.flows.len() {
            bulk.turn_both();
            while let Some(id) = bulk.receiver.accept(listener, bulk.accepted.len() as u32) {
                bulk.accepted.push(id);
            }
        }
        bulk
    }

    fn turn_both(&mut self) {
        self.at += if self.look.is_zero() { STEP } else { ROUND_TRIP };
        self.send();
        receive(&mut self.receiver, (&mut self.at, self.look), &self.accepted, &mut self.scratch);
    }

    fn send(&mut self) {
        self.sender.turn(self.at).expect("memory never fails");
        self.sender.notices(&mut self.scratch.notices);
        self.scratch.notices.clear();
        self.sender.flush(self.at).expect("memory never fails");
    }

    /// Each flow sends a burst; how long the receiver had to do with them.
    fn burst(&mut self) -> Duration {
        self.at += STEP;
        let data = [0x5a; BURST * SEGMENT];
        for id in &self.flows {
            // A window that is still small takes less.
            let _full = self.sender.write(self.at, *id, &data);
        }
        self.send();
        let begin = now();
        receive(&mut self.receiver, (&mut self.at, self.look), &self.accepted, &mut self.scratch);
        begin.elapsed()
    }
}

/// All that is measured: the receiver's turns until nothing comes any more, and the application's reads.
#[inline(never)]
fn receive(core: &mut Core, (at, look): (&mut Instant, Duration), flows: &[ConnId], scratch: &mut Scratch) {
    while core.turn(*at).expect("memory never fails").received > 0 {
        read(core, *at, flows, scratch);
        *at += look;
    }
    if !look.is_zero() {
        *at += BUDGET;
        core.turn(*at).expect("memory never fails");
        read(core, *at, flows, scratch);
    }
}

fn read(core: &mut Core, at: Instant, flows: &[ConnId], scratch: &mut Scratch) {
    let Scratch { notices, buf, octets } = scratch;
    core.notices(notices);
    for notice in notices.drain(..) {
        let Some(id) = flows.get(notice.owner as usize) else { continue };
        while let Ok(n @ 1..) = core.read(at, *id, buf) {
            *octets += n as u64;
        }
    }
    core.flush(at).expect("memory never fails");
}

/// Bursts until windows have grown.
const WARM: u32 = 64;

/// The function that callgrind counts.
const RECEIVER_PART: &str = "*offload::receive*";

/// `bursts` bursts of `flows` flows, received in the way of that name, for instruction counts; how many segments that
/// was.
///
/// # Panics
/// If there is no such way.
pub fn exactly(flows: u32, bursts: u64, way: &str) -> u64 {
    let way = WAYS.iter().find(|known| known.name == way).expect("a way of the table");
    let mut bulk = Bulk::new(flows, way);
    for _ in 0..u64::from(WARM) + bursts {
        bulk.burst();
    }
    bulk.scratch.octets / SEGMENT as u64
}

/// Nanoseconds of the receiver for a segment, and how many segments a run had.
fn measure(flows: u32, way: &Way, seconds: f64) -> (f64, f64) {
    let mut bulk = Bulk::new(flows, way);
    for _ in 0..WARM {
        bulk.burst();
    }
    let (octets, begin, mut spent) = (bulk.scratch.octets, now(), Duration::ZERO);
    while begin.elapsed().as_secs_f64() < seconds {
        spent += bulk.burst();
    }
    let segments = (bulk.scratch.octets - octets) as f64 / SEGMENT as f64;
    let counters = bulk.receiver.offload();
    let per_run = (counters.packets + counters.joined) as f64 / counters.packets.max(1) as f64;
    (spent.as_secs_f64() * 1e9 / segments, per_run)
}

/// The `offload` benchmark.
pub fn run(plan: &Plan) -> Result<Value, String> {
    let mut rows = Vec::new();
    for flows in [1, 8, 64] {
        let (mut on, mut off, mut per_run) = (Vec::new(), Vec::new(), 0.0);
        for _ in 0..plan.rounds {
            off.push(measure(flows, &WAYS[0], plan.seconds).0);
            let (ns, packets) = measure(flows, &WAYS[1], plan.seconds);
            on.push(ns);
            per_run = packets;
        }
        let flows_text = flows.to_string();
        let per_segment = |load: &str| -> Result<f64, String> {
            let (few, many) = if flows < 64 { (1_000, 3_000) } else { (100, 300) };
            let run = |bursts| counted(&[load, &flows_text], bursts, Some(RECEIVER_PART));
            let ((few, segments_few), (many, segments_many)) = (run(few)?, run(many)?);
            Ok((many - few) / (segments_many - segments_few))
        };
        let (with, without) = (per_segment("receive-on")?, per_segment("receive-off")?);
        eprintln!(
            "{flows:>3} flows  {:>6.0} ns a segment, {:>6.0} merged (x{:.2}), {per_run:.1} a run; {without:>6.0} \
             instructions, {with:>6.0} merged (x{:.2})",
            stats::median(&off),
            stats::median(&on),
            stats::ratio(&on, &off),
            with / without,
        );
        rows.push(json!({
            "flows": flows, "ns_per_segment_off": stats::median(&off), "ns_per_segment_on": stats::median(&on),
            "ratio_ns": stats::ratio(&on, &off), "segments_per_run": per_run,
            "instructions_off": without, "instructions_on": with, "ratio_instructions": with / without,
            "all_off": off, "all_on": on,
        }));
    }
    let mut held = Vec::new();
    for way in &WAYS[2..] {
        let run = |bursts| counted(&[way.name, "1"], bursts, Some(RECEIVER_PART));
        let ((few, segments_few), (many, segments_many)) = (run(1_000)?, run(3_000)?);
        let each = (many - few) / (segments_many - segments_few);
        eprintln!("{:<14} {each:>6.0} instructions a segment, one flow", way.name);
        held.push(json!({"way": way.name, "instructions": each}));
    }
    Ok(json!({"bench": "offload", "rounds": plan.rounds, "rows": rows, "held": held}))
}
