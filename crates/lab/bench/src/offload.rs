//! Cost of receiving with segments merged before the stack and without: bulk data in segments of 1448 bytes, which
//! the link does not merge, from flows that send in bursts. Only the receiver's side is measured: its turns, and the
//! reading of what came.

mod link;

use self::link::Manner;
use crate::count::counted;
use crate::{Plan, now};
use base::{Addr, Duration, Endpoint, Instant};
use lab::stats;
use pio::{BATCH_MAX, Card, CardConfig, PacketIo, PairConfig, pair};
use serde_json::{Value, json};
use stack::{ConnId, Connect, Core, CoreConfig, Listen, Notice, Offload, OwnAddr};
use tcp::SocketOptions;

const RECEIVER: Addr = Addr::v4([10, 0, 0, 1]);
const SENDER: Addr = Addr::v4([10, 0, 0, 2]);
const PORT: u16 = 80;
/// Bytes of payload in a full segment with timestamps.
const SEGMENT: usize = 1448;
/// Segments of a flow that leave together, and their bytes.
const BURST: usize = 16;
const BULK: usize = BURST * SEGMENT;
/// Bytes of a request, and of its answer.
const REQUEST: usize = 64;
/// Time between two bursts: what the flows send is acknowledged at once.
const STEP: Duration = Duration::from_micros(50);

/// As soon as possible after each other, whatever the link brings.
const AT_ONCE: Manner = Manner { at_once: BATCH_MAX, mixed: false };
/// How long what is held may wait, and what a round trip takes where something is.
const BUDGET: Duration = Duration::from_micros(50);
const ROUND_TRIP: Duration = Duration::from_millis(1);
/// How long a burst may take on its way through workers.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two looks at the link, where it is looked at often.
const LOOK: Duration = Duration::from_micros(2);

/// A way to receive: its name, what is done with what arrives, and how that comes.
pub struct Way {
    /// Name on the command line.
    pub name: &'static str,
    offload: Offload,
    manner: Manner,
    /// Receive workers before the stack, on threads of their own.
    workers: usize,
    /// Bytes that a flow sends at a time; a request is answered.
    bytes: usize,
}

const FEW: Manner = Manner { at_once: 4, mixed: false };
const MIXED: Manner = Manner { at_once: BATCH_MAX, mixed: true };

/// Every way there is.
pub const WAYS: [Way; 12] = [
    Way { name: "receive-off", offload: Offload::Off, manner: AT_ONCE, workers: 0, bytes: BULK },
    Way { name: "receive-on", offload: Offload::Inline, manner: AT_ONCE, workers: 0, bytes: BULK },
    Way { name: "few-on", offload: Offload::Inline, manner: FEW, workers: 0, bytes: BULK },
    Way { name: "few-hold", offload: Offload::Hold(BUDGET), manner: FEW, workers: 0, bytes: BULK },
    Way { name: "mixed-on", offload: Offload::Inline, manner: MIXED, workers: 0, bytes: BULK },
    Way { name: "mixed-reorder", offload: Offload::Reorder(BUDGET), manner: MIXED, workers: 0, bytes: BULK },
    Way { name: "workers-1", offload: Offload::Inline, manner: AT_ONCE, workers: 1, bytes: BULK },
    Way { name: "workers-2", offload: Offload::Inline, manner: AT_ONCE, workers: 2, bytes: BULK },
    Way { name: "ask-off", offload: Offload::Off, manner: AT_ONCE, workers: 0, bytes: REQUEST },
    Way { name: "ask-on", offload: Offload::Inline, manner: AT_ONCE, workers: 0, bytes: REQUEST },
    Way { name: "ask-hold", offload: Offload::Hold(BUDGET), manner: AT_ONCE, workers: 0, bytes: REQUEST },
    Way {
        name: "ask-reorder",
        offload: Offload::Reorder(BUDGET),
        manner: AT_ONCE,
        workers: 0,
        bytes: REQUEST,
    },
];

impl Way {
    fn asks(&self) -> bool {
        self.bytes == REQUEST
    }

    /// The port, behind a card if there are workers.
    fn behind(&self, port: Box<dyn PacketIo>) -> Box<dyn PacketIo> {
        if self.workers == 0 {
            return port;
        }
        let (begin, config) = (now(), CardConfig::new(self.workers, 1));
        // The kernel puts them where it likes: few machines have a CPU for each.
        let clock = move || Instant::from_secs(1) + begin.elapsed();
        Box::new(Card::over(port, &config, "card", clock, |_| {}).expect("threads and memory"))
    }
}

/// Two cores joined in memory, and the flows between them.
struct Bulk {
    sender: Core,
    receiver: Core,
    look: Duration,
    flows: Vec<ConnId>,
    accepted: Vec<ConnId>,
    at: Instant,
    scratch: Scratch,
    workers: usize,
    /// Bytes that a flow sends at a time.
    each: usize,
    /// Bytes that the senders have taken.
    written: u64,
}

/// Buffers that receiving needs from time to time, kept to avoid allocation.
struct Scratch {
    notices: Vec<Notice>,
    buf: Vec<u8>,
    /// Read so far.
    bytes: u64,
    /// Requests that are read are answered.
    answers: bool,
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
        let (a, b): (Box<dyn PacketIo>, Box<dyn PacketIo>) = (Box::new(a), way.behind(way.manner.apply(b)));
        let (sender, mut receiver) = (core(1, SENDER, Offload::Off, a), core(2, RECEIVER, way.offload, b));
        let options = SocketOptions { nodelay: true, ..SocketOptions::default() };
        let listen = Listen { options, ..Listen::new(Endpoint::new(RECEIVER, PORT), 4096, u32::MAX) };
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
            scratch: Scratch { notices: Vec::new(), buf: vec![0; 65_536], bytes: 0, answers: way.asks() },
            workers: way.workers,
            each: way.bytes,
            written: 0,
        };
        for owner in 0..flows {
            let request = Connect::new(Endpoint::new(SENDER, 0), Endpoint::new(RECEIVER, PORT), owner);
            let request = Connect { options, ..request };
            bulk.flows.push(bulk.sender.connect(at, &request).expect("ports suffice"));
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
        self.pause();
        receive(&mut self.receiver, (&mut self.at, self.look), &self.accepted, &mut self.scratch);
    }

    /// Waits for packets that are on their way through workers.
    fn pause(&mut self) {
        if self.workers > 0 {
            pio::wait([self.receiver.io()], &[], Some(Duration::from_millis(10))).expect("a bell");
        }
    }

    fn send(&mut self) {
        self.sender.turn(self.at).expect("memory never fails");
        self.sender.notices(&mut self.scratch.notices);
        for notice in self.scratch.notices.drain(..) {
            let Some(id) = self.flows.get(notice.owner as usize) else { continue };
            while let Ok(1..) = self.sender.read(self.at, *id, &mut self.scratch.buf) {}
        }
        self.sender.flush(self.at).expect("memory never fails");
    }

    /// Each flow sends a burst; how long the receiver had to do with them.
    fn burst(&mut self) -> Duration {
        self.at += STEP;
        let data = &[0x5a; BULK][..self.each];
        for id in &self.flows {
            // A window that is still small takes less.
            self.written += self.sender.write(self.at, *id, data).unwrap_or(0) as u64;
        }
        let (mut spent, deadline) = (Duration::ZERO, now() + TIMEOUT);
        loop {
            self.send();
            self.pause();
            let begin = now();
            receive(&mut self.receiver, (&mut self.at, self.look), &self.accepted, &mut self.scratch);
            spent += begin.elapsed();
            if self.workers == 0 || self.scratch.bytes == self.written {
                return spent;
            }
            assert!(now() < deadline, "{} of {} bytes came", self.scratch.bytes, self.written);
            self.at += Duration::from_micros(1);
        }
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
    let Scratch { notices, buf, bytes, answers } = scratch;
    core.notices(notices);
    for notice in notices.drain(..) {
        let Some(id) = flows.get(notice.owner as usize) else { continue };
        while let Ok(n @ 1..) = core.read(at, *id, buf) {
            *bytes += n as u64;
            if *answers {
                core.write(at, *id, &buf[..n]).expect("the answer before was read");
            }
        }
    }
    core.flush(at).expect("memory never fails");
}

/// Bursts until windows have grown.
const WARM: u32 = 64;

/// The function that callgrind counts.
const RECEIVER_PART: &str = "*offload::receive*";

/// `bursts` bursts of `flows` flows, received in the way of that name, for instruction counts; how many segments or
/// requests that was.
///
/// # Panics
/// If there is no such way.
pub fn exactly(flows: u32, bursts: u64, way: &str) -> u64 {
    let way = WAYS.iter().find(|known| known.name == way).expect("a way of the table");
    let mut bulk = Bulk::new(flows, way);
    for _ in 0..u64::from(WARM) + bursts {
        bulk.burst();
    }
    bulk.scratch.bytes / way.bytes.min(SEGMENT) as u64
}

/// Cost by the clock.
struct Sample {
    /// Nanoseconds of the receiver's turns alone, for a segment.
    ns: f64,
    /// Segments of a run.
    per_run: f64,
    /// From end to end.
    gbit: f64,
}

fn measure(flows: u32, way: &Way, seconds: f64) -> Sample {
    let mut bulk = Bulk::new(flows, way);
    for _ in 0..WARM {
        bulk.burst();
    }
    let (bytes, begin, mut spent) = (bulk.scratch.bytes, now(), Duration::ZERO);
    while begin.elapsed().as_secs_f64() < seconds {
        spent += bulk.burst();
    }
    let (bytes, took) = ((bulk.scratch.bytes - bytes) as f64, begin.elapsed().as_secs_f64());
    let counters = bulk.receiver.offload();
    Sample {
        ns: spent.as_secs_f64() * 1e9 * SEGMENT as f64 / bytes,
        per_run: (counters.packets + counters.joined) as f64 / counters.packets.max(1) as f64,
        gbit: bytes * 8e-9 / took,
    }
}

/// Instructions of the receiver for a segment or a request: what `3 * bursts` cost beyond `bursts`.
fn per_segment(way: &str, flows: u32, bursts: u64) -> Result<f64, String> {
    let flows = flows.to_string();
    let run = |bursts| counted(&[way, &flows], bursts, Some(RECEIVER_PART));
    let ((few, segments_few), (many, segments_many)) = (run(bursts)?, run(3 * bursts)?);
    Ok((many - few) / (segments_many - segments_few))
}

/// The `card` benchmark: one flow and many, received by the stack's thread alone and behind workers on threads of their
/// own.
///
/// # Errors
/// Callgrind is missing, or refuses.
pub fn card(plan: &Plan) -> Result<Value, String> {
    let ways: Vec<_> = WAYS.iter().filter(|way| way.workers > 0 || way.name == "receive-on").collect();
    let mut rows = Vec::new();
    for flows in [1, 64] {
        let mut samples: Vec<Vec<Sample>> = ways.iter().map(|_| Vec::new()).collect();
        for _ in 0..plan.rounds {
            for (way, samples) in ways.iter().zip(&mut samples) {
                samples.push(measure(flows, way, plan.seconds));
            }
        }
        let mut inline = None;
        for (way, samples) in ways.iter().zip(&samples) {
            let each = per_segment(way.name, flows, if flows < 64 { 300 } else { 30 })?;
            let of = |what: fn(&Sample) -> f64| stats::median(&samples.iter().map(what).collect::<Vec<_>>());
            let (ns, gbit) = (of(|sample| sample.ns), of(|sample| sample.gbit));
            let left = each / *inline.get_or_insert(each);
            eprintln!(
                "{flows:>3} flows, {} workers: {each:>6.0} instructions a segment on the stack's thread (x{left:.2}), \
                 {ns:>6.0} ns; {gbit:.2} Gbit/s from end to end",
                way.workers
            );
            rows.push(json!({
                "flows": flows, "workers": way.workers, "instructions": each, "of_inline": left,
                "ns_per_segment": ns, "gbit_per_s": gbit,
            }));
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(json!({"bench": "card", "cores": cores, "rounds": plan.rounds, "rows": rows}))
}

/// The `offload` benchmark.
pub fn run(plan: &Plan) -> Result<Value, String> {
    let mut rows = Vec::new();
    for flows in [1, 8, 64] {
        let (mut on, mut off, mut per_run) = (Vec::new(), Vec::new(), 0.0);
        for _ in 0..plan.rounds {
            off.push(measure(flows, &WAYS[0], plan.seconds).ns);
            let sample = measure(flows, &WAYS[1], plan.seconds);
            on.push(sample.ns);
            per_run = sample.per_run;
        }
        let bursts = if flows < 64 { 1_000 } else { 100 };
        let (with, without) =
            (per_segment(WAYS[1].name, flows, bursts)?, per_segment(WAYS[0].name, flows, bursts)?);
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
    for way in WAYS[2..].iter().filter(|way| way.workers == 0 && !way.asks()) {
        let each = per_segment(way.name, 1, 1_000)?;
        eprintln!("{:<14} {each:>6.0} instructions a segment, one flow", way.name);
        held.push(json!({"way": way.name, "instructions": each}));
    }
    let mut asked = Vec::new();
    for flows in [1, 64] {
        let mut off = None;
        for way in WAYS.iter().filter(|way| way.asks()) {
            let each = per_segment(way.name, flows, if flows < 64 { 2_000 } else { 100 })?;
            let of_off = each / *off.get_or_insert(each);
            eprintln!("{:<14} {each:>6.0} instructions a request, {flows} flows (x{of_off:.3})", way.name);
            asked.push(json!({"way": way.name, "flows": flows, "instructions": each, "of_off": of_off}));
        }
    }
    Ok(json!({"bench": "offload", "rounds": plan.rounds, "rows": rows, "held": held, "asked": asked}))
}

#[cfg(test)]
mod tests;
