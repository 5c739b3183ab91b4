//! One run: the network is built, time moves from sample to sample, and what happened becomes numbers.

use base::Instant;
use emu::{DropReason, LogRow, PipeEvent, Sight};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use wire::protocol;

use crate::apps::{Begun, Receiver, Sender};
use crate::build::{Node, World, build};
use crate::logs::Logs;
use crate::measure::{Delays, Sawtooth, name};
use crate::path::seconds;
use crate::spec::{Point, SpecError, Task};
use crate::stats::{jain, mean, quantile};

/// Flows whose window becomes a series; more would only be a thicker line.
const DRAWN: usize = 8;
/// Quantiles that stand for a distribution in the report.
const STEPS: usize = 200;

/// Points in time: seconds and value.
pub type Series = Vec<(f64, f64)>;

/// What a run brought.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The parameters it ran with.
    pub point: Point,
    /// Its seed.
    pub seed: u64,
    /// Numbers by name (see [`crate::measures`]); one that does not apply is absent.
    pub measures: BTreeMap<String, f64>,
    /// Courses over time.
    pub series: BTreeMap<String, Series>,
    /// The distribution of the datagrams' queueing delay: its quantiles from 0 to 1 in equal steps, milliseconds.
    pub delays: Vec<f64>,
}

/// What the bottleneck's log tells.
#[derive(Default)]
struct Ledger {
    entered: VecDeque<Instant>,
    delays: Delays,
    datagrams: u64,
    datagrams_lost: u64,
}

impl Ledger {
    fn note(&mut self, row: &LogRow, from: Instant, on_line: impl Fn(u32) -> f64) {
        let datagram = row.packet.ip.is_some_and(|(protocol, ..)| protocol == protocol::UDP);
        let counted = datagram && row.at >= from;
        match row.event {
            PipeEvent::Enqueued => self.entered.push_back(row.at),
            PipeEvent::Dequeued => {
                let Some(entered) = self.entered.pop_front() else { return };
                if counted {
                    let waited = row.at.since(entered).as_nanos() as f64 / 1e6 - on_line(row.packet.len);
                    self.delays.push(waited.max(0.0));
                    self.datagrams += 1;
                }
            }
            PipeEvent::Dropped(reason) => {
                // CoDel drops what was enqueued; others what was not.
                if reason == DropReason::Managed && self.entered.len() > row.packets {
                    self.entered.pop_front();
                }
                self.datagrams += u64::from(counted);
                self.datagrams_lost += u64::from(counted);
            }
        }
    }
}

/// Runs `task` from beginning to end.
///
/// # Errors
/// What is wrong with its file, which [`crate::Experiment::parse`] has found already; or that a log cannot be written.
pub fn run(task: &Task) -> Result<Outcome, SpecError> {
    go(task, build(&task.spec, task.seed)?)
}

/// Runs `task` while `watcher` sees every packet that comes to a pipe.
///
/// # Errors
/// Those of [`run`].
pub(crate) fn run_watched(
    task: &Task,
    watcher: impl FnMut(&Sight<'_>) + 'static,
) -> Result<Outcome, SpecError> {
    let mut world = build(&task.spec, task.seed)?;
    world.net.watch(watcher);
    go(task, world)
}

fn go(task: &Task, mut world: World) -> Result<Outcome, SpecError> {
    let ledger = attach_ledger(&mut world, task);
    let logs = Logs::begin(&mut world, task)?;
    let mut recorder = Recorder::new(task);
    let step = base::Duration::from_nanos((task.spec.sample_ms * 1e6) as u64);
    let end = seconds(task.spec.seconds);
    let mut now = Instant::ZERO;
    while now < end {
        now = (now + step).min(end);
        world.net.run_until(now);
        recorder.sample(&mut world, now);
        logs.drain()?;
    }
    logs.end(&mut world, now)?;
    Ok(recorder.outcome(&world, &mut ledger.borrow_mut()))
}

fn attach_ledger(world: &mut World, task: &Task) -> Rc<RefCell<Ledger>> {
    let ledger = Rc::new(RefCell::new(Ledger::default()));
    let (sink, from) = (ledger.clone(), seconds(task.spec.discard));
    let per_octet = match task.spec.path.down_kbit {
        kbit if kbit > 0.0 => 8.0 / kbit,
        _ => 0.0,
    };
    world.net.pipe_mut(world.down).log(move |row| {
        sink.borrow_mut().note(row, from, |octets| f64::from(octets) * per_octet);
    });
    ledger
}

/// Takes samples, and makes numbers of them at the end.
struct Recorder<'a> {
    task: &'a Task,
    series: BTreeMap<String, Series>,
    /// The first flow's window, for the shape of its sawtooth; segments.
    sawtooth: Sawtooth,
    queue: Vec<f64>,
    cwnd: Vec<f64>,
    srtt: Vec<f64>,
    /// Octets received by each flow when measuring began, by group and sender's port.
    before: Option<Vec<Vec<u64>>>,
}

impl<'a> Recorder<'a> {
    fn new(task: &'a Task) -> Recorder<'a> {
        Recorder {
            task,
            series: BTreeMap::new(),
            sawtooth: Sawtooth::default(),
            queue: Vec::new(),
            cwnd: Vec::new(),
            srtt: Vec::new(),
            before: None,
        }
    }

    fn sample(&mut self, world: &mut World, now: Instant) {
        let t = now.as_nanos() as f64 / 1e9;
        let counted = t > self.task.spec.discard;
        if counted && self.before.is_none() {
            self.before = Some(received(world));
        }
        let (packets, octets) = world.net.pipe_mut(world.down).queue(now);
        self.push("queue_octets", t, octets as f64);
        self.push("queue_packets", t, packets as f64);
        if counted {
            self.queue.push(octets as f64);
        }
        let mut drawn = 0;
        for host in &world.senders {
            let Node::Sender(host) = world.net.host(*host) else { continue };
            for flow in host.app.flows.iter().filter(|flow| flow.finished.is_none()) {
                let info = host.core.connection(flow.id).info(now);
                let cwnd = f64::from(info.window.cwnd) / f64::from(info.snd_mss.max(1));
                let srtt = info.srtt.as_nanos() as f64 / 1e6;
                if drawn < DRAWN {
                    drawn += 1;
                    self.push(&format!("cwnd {drawn}"), t, cwnd);
                    self.push(&format!("srtt_ms {drawn}"), t, srtt);
                    if info.window.ssthresh != u32::MAX {
                        let ssthresh = f64::from(info.window.ssthresh) / f64::from(info.snd_mss.max(1));
                        self.push(&format!("ssthresh {drawn}"), t, ssthresh);
                    }
                }
                if counted {
                    self.cwnd.push(cwnd);
                    self.srtt.push(srtt);
                    if drawn == 1 {
                        self.sawtooth.push(t, cwnd);
                    }
                }
            }
        }
    }

    fn push(&mut self, series: &str, t: f64, value: f64) {
        // One point more for a name that is new, none allocated for one that is not.
        match self.series.get_mut(series) {
            Some(points) => points.push((t, value)),
            None => drop(self.series.insert(series.into(), vec![(t, value)])),
        }
    }

    fn outcome(self, world: &World, ledger: &mut Ledger) -> Outcome {
        let spec = &self.task.spec;
        let measured = (spec.seconds - spec.discard).max(f64::MIN_POSITIVE);
        let mut out = Outcome {
            point: self.task.point.clone(),
            seed: self.task.seed,
            series: self.series,
            ..Outcome::default()
        };
        let mut put = |name: &str, value: f64| {
            if value.is_finite() {
                out.measures.insert(name.into(), value);
            }
        };
        let (before, after) = (self.before.unwrap_or_default(), received(world));
        let rates: Vec<Vec<f64>> = after
            .iter()
            .enumerate()
            .map(|(group, flows)| {
                let was =
                    |nth: usize| before.get(group).and_then(|flows| flows.get(nth)).copied().unwrap_or(0);
                flows.iter().enumerate().map(|(nth, now)| (now - was(nth)) as f64 * 8e-6 / measured).collect()
            })
            .collect();
        let total: f64 = rates.iter().flatten().sum();
        put(name::GOODPUT, total);
        put(name::UTILISATION, total * 1000.0 / spec.path.down_kbit);
        put(name::FAIRNESS, jain(&rates.iter().flatten().copied().collect::<Vec<_>>()));
        for (nth, group) in rates.iter().enumerate() {
            put(&format!("{}.{}", name::GOODPUT, nth + 1), group.iter().sum());
        }
        put(name::RETRANSMITS, retransmits(world));
        put(name::CWND_MEAN, mean(&self.cwnd));
        put(name::CWND_MAX, self.cwnd.iter().copied().fold(f64::NAN, f64::max));
        put(name::CWND_MIN, self.cwnd.iter().copied().fold(f64::NAN, f64::min));
        put(name::SRTT, mean(&self.srtt));
        put(name::QUEUE_MEAN, mean(&self.queue));
        put(name::QUEUE_MAX, self.queue.iter().copied().fold(f64::NAN, f64::max));
        put(name::PERIOD, self.sawtooth.period());
        put(name::KEPT, self.sawtooth.kept());
        put(name::GROWTH, self.sawtooth.growth_in_first_second());
        put(name::DELAY_MEAN, ledger.delays.mean());
        for (name, q) in [(name::DELAY_P50, 0.5), (name::DELAY_P95, 0.95), (name::DELAY_MAX, 1.0)] {
            put(name, ledger.delays.quantile(q));
        }
        put(name::CBR_LOSS, ledger.datagrams_lost as f64 * 100.0 / ledger.datagrams as f64);
        let times = completion_times(world);
        put(name::FCT_MEAN, mean(&times));
        for (name, q) in [(name::FCT_P50, 0.5), (name::FCT_P95, 0.95), (name::FCT_P99, 0.99)] {
            put(name, quantile(&times, q));
        }
        put(name::FAILED, senders(world).map(|host| host.failed as f64).sum());
        out.delays = ledger.delays.steps(STEPS);
        out
    }
}

fn senders(world: &World) -> impl Iterator<Item = &Sender> {
    world.senders.iter().filter_map(|id| match world.net.host(*id) {
        Node::Sender(host) => Some(&host.app),
        _ => None,
    })
}

fn receivers(world: &World) -> impl Iterator<Item = &Receiver> {
    world.receivers.iter().filter_map(|id| match world.net.host(*id) {
        Node::Receiver(host) => Some(&host.app),
        _ => None,
    })
}

/// Octets received by each flow of each group.
fn received(world: &World) -> Vec<Vec<u64>> {
    receivers(world).map(|app| app.received.clone()).collect()
}

/// Segments sent again, a flow on average.
fn retransmits(world: &World) -> f64 {
    let (mut flows, mut again) = (0.0, 0.0);
    for id in &world.senders {
        let Node::Sender(host) = world.net.host(*id) else { continue };
        flows += host.app.flows.len() as f64;
        again += host.core.tcp_counters().retransmits as f64;
    }
    again / flows
}

/// How long the flows with an end took, milliseconds, in ascending order.
fn completion_times(world: &World) -> Vec<f64> {
    let took = |flow: &Begun| Some(flow.finished?.since(flow.at).as_nanos() as f64 / 1e6);
    let mut times: Vec<f64> = senders(world).flat_map(|app| app.flows.iter().filter_map(took)).collect();
    times.sort_by(f64::total_cmp);
    times
}
