//! Cost of the network in virtual time: packets through pipes, segments of whole stacks, and an experiment.

use crate::ends::{self, SINK, SOURCE};
use crate::{Plan, now};
use base::{Duration, Instant, Rate};
use emu::{App, CoreHost, Host, Network, PipeConfig, PortConfig, Queue, SimPort};
use lab::stats;
use pio::{PacketIo, RxBatch, TxBatch, TxMeta, TxPacket};
use serde_json::{Value, json};
use stack::{ConnId, Core, ListenerId, Notice};
use tcp::SocketOptions;

/// Packets that a talker keeps under way.
const WINDOW: usize = 64;
/// Bytes of a frame.
const LEN: usize = 1_000;

/// Sends back what it receives; the first of two begins.
struct Talker {
    port: SimPort,
    begins: bool,
    rx: RxBatch,
    tx: TxBatch,
}

impl Host for Talker {
    fn step(&mut self, _now: Instant) -> Option<Instant> {
        if std::mem::take(&mut self.begins) {
            for _ in 0..WINDOW {
                let mut frame = self.port.take()?;
                frame.set_range(0, LEN);
                frame.data_mut()[12..14].copy_from_slice(&[8, 0]);
                self.tx.push_back(TxPacket { frame, meta: TxMeta::default() });
            }
        }
        self.port.rx(&mut self.rx).expect("a simulated port does not fail");
        let answers = self.rx.drain(..).map(|got| TxPacket { frame: got.frame, meta: TxMeta::default() });
        self.tx.extend(answers);
        self.port.tx(&mut self.tx).expect("a simulated port does not fail");
        None
    }
}

/// A path of a gigabit a second and a millisecond each way.
fn path() -> PipeConfig {
    PipeConfig {
        rate: Some(Rate::from_bits_per_sec(1_000_000_000)),
        delay: Duration::from_millis(1),
        queue: Queue::Strict(1 << 20),
        ..PipeConfig::default()
    }
}

fn talkers() -> Network<Talker> {
    let mut net = Network::new(1);
    let ports = [net.port(&PortConfig::default()), net.port(&PortConfig::default())];
    let ids = [ports[0].id(), ports[1].id()];
    for (nth, port) in ports.into_iter().enumerate() {
        let talker = Talker { port, begins: nth == 0, rx: RxBatch::new(), tx: TxBatch::new() };
        net.add_host(talker, &[ids[nth]]);
    }
    net.link(ids[0], ids[1], &path(), &path());
    net
}

/// Moves time until so many packets have passed both pipes; how many have.
fn pass<H: Host>(net: &mut Network<H>, packets: u64) -> u64 {
    loop {
        net.run_until(net.now() + Duration::from_millis(100));
        let passed = (0..2).map(|pipe| net.pipe(emu::PipeId(pipe)).counters().delivered).sum();
        if passed >= packets {
            return passed;
        }
    }
}

/// At least so many packets through pipes and two hosts that send back what comes; how many there were.
pub fn forward(packets: u64) -> u64 {
    pass(&mut talkers(), packets)
}

/// Sends without end.
struct Source {
    flow: Option<ConnId>,
    piece: Vec<u8>,
}

impl App for Source {
    fn step(&mut self, core: &mut Core, now: Instant, _notices: &[Notice]) -> Option<Instant> {
        let flow = *self.flow.get_or_insert_with(|| ends::connect(core, now, SocketOptions::default()));
        while core.write(now, flow, &self.piece).is_ok() {}
        None
    }
}

/// Reads without end.
struct Sink {
    listener: Option<ListenerId>,
    flow: Option<ConnId>,
    scratch: Vec<u8>,
}

impl App for Sink {
    fn step(&mut self, core: &mut Core, now: Instant, _notices: &[Notice]) -> Option<Instant> {
        let listener =
            *self.listener.get_or_insert_with(|| ends::listen(core, now, SocketOptions::default()));
        if self.flow.is_none() {
            self.flow = core.accept(listener, 0);
        }
        if let Some(flow) = self.flow {
            while core.read(now, flow, &mut self.scratch).is_ok() {}
        }
        None
    }
}

/// Either end of a transfer.
enum End {
    Source(Box<CoreHost<Source>>),
    Sink(Box<CoreHost<Sink>>),
}

impl Host for End {
    fn step(&mut self, now: Instant) -> Option<Instant> {
        match self {
            End::Source(host) => host.step(now),
            End::Sink(host) => host.step(now),
        }
    }
}

/// At least so many segments, acknowledgments included, of one bulk flow between whole stacks; how many there were.
pub fn transfer(segments: u64) -> u64 {
    let mut net = Network::new(1);
    let ports = [net.port(&PortConfig::default()), net.port(&PortConfig::default())];
    let ids = [ports[0].id(), ports[1].id()];
    let [near, far] = ports;
    let source = Source { flow: None, piece: vec![0x5a; 64 << 10] };
    let sink = Sink { listener: None, flow: None, scratch: vec![0; 256 << 10] };
    net.add_host(End::Sink(Box::new(CoreHost::new(ends::core(1, SINK, Box::new(far)), sink))), &[ids[1]]);
    net.add_host(
        End::Source(Box::new(CoreHost::new(ends::core(2, SOURCE, Box::new(near)), source))),
        &[ids[0]],
    );
    net.link(ids[0], ids[1], &path(), &path());
    pass(&mut net, segments)
}

/// One run of P3, 300 s of it.
fn p3() -> Result<u64, String> {
    let shipped = lab::shipped().map_err(|e| e.to_string())?;
    let p3 = shipped.iter().find(|one| one.name == "p3-induced-delay").ok_or("P3 is not shipped")?;
    let task = p3.tasks(Some(1)).map_err(|e| e.to_string())?.remove(0);
    lab::run(&task).map_err(|e| e.to_string())?;
    Ok(task.spec.seconds as u64)
}

/// The `emulator` benchmark: one core, virtual time against the wall's.
pub fn run(plan: &Plan) -> Result<Value, String> {
    let mut rates: [Vec<f64>; 3] = Default::default();
    for _ in 0..plan.rounds {
        let work: [&dyn Fn() -> Result<u64, String>; 3] =
            [&|| Ok(forward(2_000_000)), &|| Ok(transfer(1_000_000)), &p3];
        for (rates, work) in rates.iter_mut().zip(work) {
            let begin = now();
            let done = work()?;
            rates.push(done as f64 / begin.elapsed().as_secs_f64());
        }
    }
    let [forward, transfer, p3] = rates.map(|rates| stats::median(&rates));
    let p3 = 300.0 / p3;
    eprintln!(
        "packets through pipes alone   {forward:>12.0}/s\nsegments of whole stacks      {transfer:>12.0}/s"
    );
    eprintln!("300 virtual seconds of P3     {p3:>12.3} s");
    Ok(json!({
        "bench": "emu", "rounds": plan.rounds,
        "packets_per_s": forward, "segments_per_s": transfer, "p3_300_s": p3,
    }))
}
