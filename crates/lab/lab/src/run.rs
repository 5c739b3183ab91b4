//! One run: the network is built, time moves from sample to sample, and what happened becomes numbers.

use base::Instant;
use emu::{DropReason, LogRow, PipeEvent, PipeId, Sight};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::protocol;

use crate::apps::{Begun, Receiver, Sender};
use crate::build::build;
use crate::convergence::Convergence;
use crate::measure::{Delays, Sawtooth, name};
use crate::path::seconds;
use crate::records::Records;
use crate::spec::{Point, Spec, SpecError, Task};
use crate::stats::{jain, mean, quantile};
use crate::world::{Node, Role, World};

/// Flows whose window becomes a series; more would only be a thicker line.
const DRAWN: usize = 8;
/// Quantiles that stand for a distribution in the report.
const STEPS: usize = 200;

/// Points in time: seconds and value.
pub type Series = Vec<(f64, f64)>;

/// Result of a run.
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

/// Figures of the bottleneck's log.
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
/// A fault of its file, which [`crate::Experiment::parse`] has found already; or that a log cannot be
/// written.
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
    let mut records = Records::begin(&mut world, task)?;
    let mut recorder = Recorder::new(task);
    let step = base::Duration::from_nanos((task.spec.sample_ms * 1e6) as u64);
    let end = seconds(task.spec.seconds);
    let mut now = Instant::ZERO;
    while now < end {
        let sample = (now + step).min(end);
        while now < sample {
            now = (now + records.pace().unwrap_or(step)).min(sample);
            world.net.run_until(now);
            records.drain()?;
        }
        recorder.sample(&mut world, now);
    }
    records.end(&mut world, now)?;
    Ok(recorder.outcome(&world, &mut lock(&ledger)))
}

/// The ledger; a run is one thread, so no thread waits.
fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Only datagrams are followed; without them packets need not be told one by one.
fn attach_ledger(world: &mut World, task: &Task) -> Arc<Mutex<Ledger>> {
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    if task.spec.cbr.is_none() {
        return ledger;
    }
    let (sink, from) = (ledger.clone(), seconds(task.spec.discard));
    let pipe = world.net.pipe_mut(world.bottleneck());
    let rate = pipe.config().rate;
    pipe.log(move |row| {
        let on_line =
            |bytes: u32| rate.map_or(0.0, |rate| rate.time_for(bytes.into()).as_nanos() as f64 / 1e6);
        lock(&sink).note(row, from, on_line);
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
    convergence: Convergence,
    before: Option<Before>,
    /// Samples in which the bottleneck had lost a named packet, and something had been sent again; seconds.
    firsts: [Option<f64>; 2],
}

/// How it was when measuring began.
#[derive(Default)]
struct Before {
    /// When, seconds.
    at: f64,
    /// Bytes received by each flow of each host.
    received: Vec<Vec<u64>>,
    /// Bytes that had left the bottleneck.
    out: u64,
    /// Packets that had left DualPI2's queues, and microseconds that they had waited.
    waits: [(u64, u64); 2],
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
            convergence: Convergence::default(),
            before: (task.spec.discard <= 0.0).then(Before::default),
            firsts: [None; 2],
        }
    }

    fn sample(&mut self, world: &mut World, now: Instant) {
        let t = now.as_nanos() as f64 / 1e9;
        let counted = t > self.task.spec.discard;
        if t >= self.task.spec.discard && self.before.is_none() {
            self.before =
                Some(Before { at: t, received: received(world), out: bytes_out(world), waits: waits(world) });
        }
        let lost = world.net.pipe(world.bottleneck()).counters().listed > 0;
        for (first, seen) in self.firsts.iter_mut().zip([lost, retransmits(world) > 0.0]) {
            *first = first.or(seen.then_some(t));
        }
        if let Some(since) = all_begun(world, &self.task.spec) {
            self.convergence.push(t, since, || endless(world, &self.task.spec));
        }
        let (packets, bytes) = world.net.pipe_mut(world.bottleneck()).queue(now);
        self.push("queue_bytes", t, bytes as f64);
        self.push("queue_packets", t, packets as f64);
        if counted {
            self.queue.push(bytes as f64);
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
                        self.sawtooth.push(t, cwnd, srtt / 1e3, info.recovery || info.loss);
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
        let Before { at, received: before, out: was_out, waits: waited } = self.before.unwrap_or_default();
        let measured = (spec.seconds - at).max(f64::MIN_POSITIVE);
        let rates = rates(world, &before, measured, spec.flows.len());
        let all: Vec<f64> = rates.iter().flatten().copied().collect();
        put(name::GOODPUT, all.iter().sum());
        put(name::FLOW_GOODPUT, mean(&all));
        put(name::FAIRNESS, jain(&all));
        put(name::CONVERGED, self.convergence.time());
        for (nth, group) in rates.iter().enumerate() {
            put(&format!("{}.{}", name::GOODPUT, nth + 1), group.iter().sum());
            put(&format!("{}.{}", name::FLOW_GOODPUT, nth + 1), mean(group));
        }
        if let [first, second, ..] = rates.as_slice() {
            put(name::SHARE, mean(first) / mean(second));
        }
        put(name::LINE, (bytes_out(world) - was_out) as f64 * 8e-6 / measured);
        let used = utilisations(world, &before, measured);
        put(name::UTILISATION, used[world.bottleneck]);
        if used.len() > 1 {
            used.iter()
                .enumerate()
                .for_each(|(nth, part)| put(&format!("{}.{}", name::UTILISATION, nth + 1), *part));
        }
        put(name::RETRANSMITS, retransmits(world));
        put(name::CWND_MEAN, mean(&self.cwnd));
        put(name::CWND_MAX, self.cwnd.iter().copied().fold(f64::NAN, f64::max));
        put(name::CWND_MIN, self.cwnd.iter().copied().fold(f64::NAN, f64::min));
        put(name::RTT_MIN, least_rtt(world));
        put(name::SRTT, mean(&self.srtt));
        put(name::QUEUE_MEAN, mean(&self.queue));
        put(name::QUEUE_MAX, self.queue.iter().copied().fold(f64::NAN, f64::max));
        let [low, classic] = waits(world);
        put(name::WAIT_LOW, wait_between(waited[0], low));
        put(name::WAIT_CLASSIC, wait_between(waited[1], classic));
        put(name::PERIOD, self.sawtooth.period());
        put(name::KEPT, self.sawtooth.kept());
        put(name::GROWTH, self.sawtooth.growth_in_first_second());
        put(name::GROWTH_ROUND, self.sawtooth.growth_a_round(0.0));
        put(name::GROWTH_NEXT, self.sawtooth.growth_a_round(1.0));
        put(name::DELAY_MEAN, ledger.delays.mean());
        for (name, q) in [(name::DELAY_P50, 0.5), (name::DELAY_P95, 0.95), (name::DELAY_MAX, 1.0)] {
            put(name, ledger.delays.quantile(q));
        }
        put(name::CBR_LOSS, ledger.datagrams_lost as f64 * 100.0 / ledger.datagrams as f64);
        let groups = (0..spec.flows.len()).map(|group| (format!(".{}", group + 1), Some(group)));
        for (suffix, group) in groups.chain([(String::new(), None)]) {
            let times = completion_times(world, group);
            put(&format!("{}{suffix}", name::FCT_MEAN), mean(&times));
            for (name, q) in [(name::FCT_P50, 0.5), (name::FCT_P95, 0.95), (name::FCT_P99, 0.99)] {
                put(&format!("{name}{suffix}"), quantile(&times, q));
            }
        }
        let spans = spans(world);
        put(name::TOOK_MEAN, mean(&spans));
        put(name::TOOK_MAX, spans.iter().copied().fold(f64::NAN, f64::max));
        put(name::DUPLICATES, duplicates(world));
        let [lost, again_at] = self.firsts.map(|first| first.unwrap_or(f64::NAN));
        put(name::FIRST_AGAIN, (again_at - lost) * 1e3);
        put(name::AGAIN, again(world));
        put(name::MERGED, merged(world));
        put(name::FAILED, senders(world).map(|host| host.failed as f64).sum());
        out.delays = ledger.delays.steps(STEPS);
        out
    }
}

/// Packets that have left DualPI2's low-latency and classic queues, and microseconds that they waited.
fn waits(world: &World) -> [(u64, u64); 2] {
    let counters = world.net.pipe(world.bottleneck()).counters();
    [(counters.low, counters.low_waited_us), (counters.classic, counters.classic_waited_us)]
}

/// Milliseconds that a packet waited on average between two looks; not a number if none did.
fn wait_between(before: (u64, u64), after: (u64, u64)) -> f64 {
    (after.1 - before.1) as f64 / 1e3 / (after.0 - before.0) as f64
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

/// Packets of the wire in each that cards handed up; NaN without one.
fn merged(world: &World) -> f64 {
    let (mut segments, mut delivered) = (0.0, 0.0);
    for id in &world.cards {
        let Node::Card(card) = world.net.host(*id) else { continue };
        segments += card.counters().segments as f64;
        delivered += card.counters().delivered as f64;
    }
    segments / delivered
}

/// Connections that began from the handshake cache, per cent; NaN of none.
fn again(world: &World) -> f64 {
    let (mut hits, mut begun) = (0.0, 0.0);
    for id in world.senders.iter().chain(&world.receivers) {
        let core = match world.net.host(*id) {
            Node::Sender(host) => &host.core,
            Node::Receiver(host) => &host.core,
            Node::Metronome(_) | Node::Card(_) => continue,
        };
        let counters = core.tcp_counters();
        begun += (counters.active_opens + counters.passive_opens) as f64;
        hits += core.counters().handshake_cache_hits as f64;
    }
    100.0 * hits / begun
}

/// How long receivers had flows until their end, milliseconds.
fn spans(world: &World) -> Vec<f64> {
    let spans = receivers(world).flat_map(|app| &app.spans);
    spans.filter_map(|(from, to)| Some(to.as_ref()?.since(*from).as_nanos() as f64 / 1e6)).collect()
}

/// Segments of data that receivers had already.
fn duplicates(world: &World) -> f64 {
    let had = |id| match world.net.host(id) {
        Node::Receiver(host) => host.core.tcp_counters().duplicates_in as f64,
        _ => 0.0,
    };
    world.receivers.iter().map(|id| had(*id)).sum()
}

/// Bytes received by each flow of each host.
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

/// Returns the rates of flows since `before`, Mbit/s over `measured` seconds, by their hosts.
fn host_rates(world: &World, before: &[Vec<u64>], measured: f64) -> Vec<Vec<f64>> {
    let rate = |host: usize, nth: usize, now: u64| {
        let was = before.get(host).and_then(|flows| flows.get(nth)).copied().unwrap_or(0);
        (now - was) as f64 * 8e-6 / measured
    };
    let flows = |(host, flows): (usize, &Vec<u64>)| {
        flows.iter().enumerate().map(|(nth, now)| rate(host, nth, *now)).collect()
    };
    received(world).iter().enumerate().map(flows).collect()
}

/// Returns the rates of `groups` groups of flows.
fn rates(world: &World, before: &[Vec<u64>], measured: f64, groups: usize) -> Vec<Vec<f64>> {
    let mut rates = vec![Vec::new(); groups];
    for (role, host) in world.roles.iter().zip(host_rates(world, before, measured)) {
        rates[role.group].extend(host);
    }
    rates
}

/// The part of each hop's rate that is payload to the receivers; infinite where there is no limit.
fn utilisations(world: &World, before: &[Vec<u64>], measured: f64) -> Vec<f64> {
    let hosts = host_rates(world, before, measured);
    let over = |hop: usize| {
        let crosses = |role: &Role| !role.reverse && (role.first..=role.last).contains(&hop);
        let crossing = world.roles.iter().zip(&hosts).filter(|(role, _)| crosses(role));
        crossing.flat_map(|(_, flows)| flows).sum::<f64>()
    };
    let used = |(hop, pipe): (usize, &PipeId)| {
        let rate = world.net.pipe(*pipe).config().rate;
        rate.map_or(f64::INFINITY, |rate| over(hop) * 1e6 / rate.bits_per_sec() as f64)
    };
    world.down.iter().enumerate().map(used).collect()
}

/// Bytes of IP packets that have left the bottleneck.
fn bytes_out(world: &World) -> u64 {
    let counters = world.net.pipe(world.bottleneck()).counters();
    counters.delivered_bytes - counters.delivered * wire::ethernet::HEADER_LEN as u64
}

/// When the last endless flow began, seconds; `None` before.
fn all_begun(world: &World, spec: &Spec) -> Option<f64> {
    let mut last = None;
    for (role, app) in world.roles.iter().zip(senders(world)) {
        let flow = &spec.flows[role.group];
        if flow.bytes.is_none() {
            let begun = app.flows.iter().filter(|begun| begun.bytes.is_none());
            if begun.clone().count() < flow.count as usize {
                return None;
            }
            last = last.max(begun.map(|begun| begun.at).max());
        }
    }
    last.map(|at| at.as_nanos() as f64 / 1e9)
}

/// Bytes received by each endless flow.
fn endless(world: &World, spec: &Spec) -> Vec<u64> {
    let hosts = world.roles.iter().zip(receivers(world));
    let hosts = hosts.filter(|(role, _)| spec.flows[role.group].bytes.is_none());
    hosts.flat_map(|(_, app)| app.received.iter().copied()).collect()
}

/// The least round-trip time that a flow of the senders has seen, milliseconds; NaN of none.
fn least_rtt(world: &World) -> f64 {
    let mut least = f64::NAN;
    for id in &world.senders {
        let Node::Sender(host) = world.net.host(*id) else { continue };
        for flow in host.app.flows.iter().filter(|flow| flow.finished.is_none()) {
            let seen = host.core.connection(flow.id).info(world.net.now()).min_rtt;
            least = least.min(seen.as_nanos() as f64 / 1e6);
        }
    }
    least
}

/// How long the flows with an end (of one group) took, milliseconds, in ascending order.
fn completion_times(world: &World, group: Option<usize>) -> Vec<f64> {
    let took = |flow: &Begun| Some(flow.finished?.since(flow.at).as_nanos() as f64 / 1e6);
    let hosts = world.roles.iter().zip(senders(world));
    let hosts = hosts.filter(|(role, _)| group.is_none_or(|group| role.group == group));
    let mut times: Vec<f64> = hosts.flat_map(|(_, app)| app.flows.iter().filter_map(took)).collect();
    times.sort_by(f64::total_cmp);
    times
}
