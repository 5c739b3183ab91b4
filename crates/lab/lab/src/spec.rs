//! An experiment as its file says it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use trace::siftr::Profile;

mod check;

pub use check::{Check, Falls, Order, Range, Ratio, Theory, Want};

/// One experiment: a path, what flows over it, what is varied, and what must come out.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// One line that names it.
    pub title: String,
    /// Subject, and place of publication.
    #[serde(default)]
    pub about: String,
    /// Virtual time a run takes, seconds.
    pub seconds: f64,
    /// Time at the beginning that measures leave out, seconds.
    #[serde(default)]
    pub discard: f64,
    /// How many seeds each combination of parameters is run with.
    #[serde(default = "ten")]
    pub seeds: u64,
    /// Time between two points of a series, milliseconds.
    #[serde(default = "hundred")]
    pub sample_ms: f64,
    /// The one hop of a dumbbell.
    pub path: Option<Path>,
    /// Or several in a row.
    #[serde(default, rename = "hop")]
    pub hops: Vec<Path>,
    /// Groups of TCP flows.
    #[serde(default, rename = "flow")]
    pub flows: Vec<Flow>,
    /// A flow of datagrams beside them.
    #[serde(default)]
    pub cbr: Option<Cbr>,
    /// A network card with processors of its own before each receiver.
    #[serde(default)]
    pub card: Option<Card>,
    /// Settings of both stacks, as `millstream settings` lists them.
    #[serde(default)]
    pub stack: BTreeMap<String, toml::Value>,
    /// Shared libraries with congestion control of your own (millstream_cc.h), which flows may then name.
    #[serde(default)]
    pub policies: Vec<PathBuf>,
    /// Flows may have congestion control that takes more than one flow's share.
    #[serde(default)]
    pub cc_allow_unfair: bool,
    /// Congestion control tunables, `policy.tunable = value`.
    #[serde(default)]
    pub tunables: BTreeMap<String, BTreeMap<String, i64>>,
    /// Every host keeps a SIFTR log of its packets.
    #[serde(default)]
    pub siftr: Option<Siftr>,
    /// Every host keeps a capture of its packets, each with the state of its connection.
    #[serde(default)]
    pub capture: Option<Capture>,
    /// Parameters to vary: a place in this file and the values it takes.
    #[serde(default)]
    pub vary: BTreeMap<String, Vec<toml::Value>>,
    /// Expected results.
    #[serde(default, rename = "check")]
    pub checks: Vec<Check>,
    /// Plots.
    #[serde(default, rename = "plot")]
    pub plots: Vec<Plot>,
}

/// Runs of an experiment: its points, each with its seeds.
pub(crate) const RUNS_MAX: u64 = 1_000_000;

fn ten() -> u64 {
    10
}

fn hundred() -> f64 {
    100.0
}

/// A line between two switches, in both directions: the bar of a dumbbell, or a hop among several.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// Round-trip time without queues, milliseconds; half of it each way.
    pub rtt_ms: f64,
    /// Rate from the senders to the receivers, kbit/s; 0 for no limit.
    pub down_kbit: f64,
    /// Rate of the way back, kbit/s; the same if absent.
    pub up_kbit: Option<f64>,
    /// Room before the bottleneck: `loose BYTES`, `strict BYTES`, `slots N` or `unlimited`.
    pub queue: String,
    /// Room before the line of the way back; the same if absent.
    pub up_queue: Option<String>,
    /// To the receivers, this and the next eleven: see [`Ills`].
    #[serde(default = "none")]
    pub aqm: String,
    /// See there.
    #[serde(default)]
    pub loss: f64,
    /// See there.
    #[serde(default)]
    pub every: u64,
    /// See there.
    #[serde(default = "none")]
    pub bursts: String,
    /// See there.
    #[serde(default = "none")]
    pub discard: String,
    /// See there.
    #[serde(default = "none")]
    pub hold: String,
    /// See there.
    #[serde(default)]
    pub hold_ms: f64,
    /// See there.
    #[serde(default)]
    pub jitter_ms: f64,
    /// See there.
    #[serde(default)]
    pub reorder: f64,
    /// See there.
    #[serde(default)]
    pub reorder_ms: f64,
    /// See there.
    #[serde(default)]
    pub duplicate: f64,
    /// See there.
    #[serde(default)]
    pub corrupt: f64,
    /// Impairments of packets on the way back.
    #[serde(default)]
    pub up: Ills,
    /// Greatest IP packet, bytes; the least of all hops counts.
    #[serde(default = "ethernet")]
    pub mtu: u16,
    /// So many like this in a row.
    #[serde(default = "one")]
    pub count: u32,
}

impl Path {
    /// Returns the impairments of packets to the receivers.
    pub fn ills(&self) -> Ills {
        Ills {
            aqm: self.aqm.clone(),
            loss: self.loss,
            every: self.every,
            bursts: self.bursts.clone(),
            discard: self.discard.clone(),
            hold: self.hold.clone(),
            hold_ms: self.hold_ms,
            jitter_ms: self.jitter_ms,
            reorder: self.reorder,
            reorder_ms: self.reorder_ms,
            duplicate: self.duplicate,
            corrupt: self.corrupt,
        }
    }
}

/// Impairments in one direction of a path. Probabilities are from 0 to 1, for each packet.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ills {
    /// Queue management: `none`, `codel`, `codel-ecn`, `dualpi2`, `red MIN MAX P`, `red-ecn MIN MAX P` or
    /// `step BYTES`.
    pub aqm: String,
    /// Chance to be lost.
    pub loss: f64,
    /// Each so-many-th is lost; 0 for none.
    pub every: u64,
    /// Losses that come together, after Gilbert and Elliott: `none`, `LOSS MEAN_LENGTH` (the part of all packets, the
    /// packets lost in a row) or `TO_BAD TO_GOOD LOSS_BAD LOSS_GOOD`.
    pub bursts: String,
    /// Positions of packets to drop, such as `1,5-10,30`, or `none`; counted for each flow after `per-flow `, and among
    /// segments with data or with SACK blocks after `data ` or `sack `.
    pub discard: String,
    /// Positions of packets to hold back, written likewise; later ones overtake them.
    pub hold: String,
    /// For how long, milliseconds.
    pub hold_ms: f64,
    /// Delay comes to up to so much more, milliseconds; packets stay in order.
    pub jitter_ms: f64,
    /// Chance to be held back and overtaken.
    pub reorder: f64,
    /// For how long at most, milliseconds.
    pub reorder_ms: f64,
    /// Chance to arrive twice.
    pub duplicate: f64,
    /// Chance that a bit flips.
    pub corrupt: f64,
}

impl Default for Ills {
    fn default() -> Ills {
        Ills {
            aqm: none(),
            loss: 0.0,
            every: 0,
            bursts: none(),
            discard: none(),
            hold: none(),
            hold_ms: 0.0,
            jitter_ms: 0.0,
            reorder: 0.0,
            reorder_ms: 0.0,
            duplicate: 0.0,
            corrupt: 0.0,
        }
    }
}

fn none() -> String {
    "none".into()
}

fn ethernet() -> u16 {
    1500
}

/// A group of like flows from one host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// How many.
    #[serde(default = "one")]
    pub count: u32,
    /// Congestion control.
    pub cc: String,
    /// Which hops it crosses: `all`, one like `2` (the first being 1), a range like `2-3`, or `each`: such a group over
    /// every hop alone.
    #[serde(default = "all")]
    pub over: String,
    /// It sends the other way, against the others.
    #[serde(default)]
    pub reverse: bool,
    /// Round-trip time this group has beyond the path's, milliseconds.
    #[serde(default)]
    pub extra_rtt_ms: f64,
    /// When the first begins, seconds.
    #[serde(default)]
    pub start: f64,
    /// How much later each of them begins than the one before, seconds.
    #[serde(default)]
    pub stagger: f64,
    /// And by chance up to so much later still, seconds.
    #[serde(default)]
    pub spread: f64,
    /// Bytes a flow sends; endless if absent.
    pub bytes: Option<u64>,
    /// Bytes of each write; as many as find room if absent.
    pub piece: Option<u32>,
    /// Time from one write to the next, milliseconds.
    #[serde(default)]
    pub every_ms: f64,
    /// The receiver half-closes first, and the sender waits for that.
    #[serde(default)]
    pub half_closed: bool,
    /// With `bytes`: flows arrive like this many a second (Poisson) from `start` on, instead of `count`.
    pub per_second: Option<f64>,
}

fn one() -> u32 {
    1
}

fn all() -> String {
    "all".into()
}

/// Datagrams at a constant rate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cbr {
    /// Which hops it crosses: `all`, `2` or `2-3`.
    #[serde(default = "all")]
    pub over: String,
    /// Bytes of each IP packet.
    pub bytes: u16,
    /// Time between two, milliseconds.
    pub every_ms: f64,
    /// Each is sent up to this much earlier or later, milliseconds.
    #[serde(default)]
    pub jitter_ms: f64,
}

/// A card that receives with processors of its own, and what each step costs there and at the host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// Receive workers, among which flows are dealt out by chance.
    pub workers: u32,
    /// Cores that run them; as many as workers if absent.
    pub cores: Option<u32>,
    /// Time of a core for a packet, microseconds.
    pub packet_us: f64,
    /// Time of the host for a packet passed up (a merged one, too), microseconds.
    pub host_us: f64,
    /// Rate from the card to the host, Mbit/s; 0 for no limit.
    #[serde(default)]
    pub dma_mbit: f64,
    /// How data is merged: `none`, `hold MICROSECONDS` (for so long it may wait for more), or `published`, as the
    /// multicore-NPU thesis has it: until it is 64 KiB, or the next packet is ten times later than they come on
    /// average.
    #[serde(default = "none")]
    pub merging: String,
    /// Packets that may wait for a worker.
    #[serde(default = "thousand")]
    pub ring: u32,
    /// Descriptors of a worker, and places in the host's ring.
    #[serde(default = "thousand")]
    pub descriptors: u32,
}

fn thousand() -> u32 {
    1000
}

/// The key `capture`: every host keeps one.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Capture {
    /// Bytes kept of each packet.
    pub keep: u32,
    /// MiB a file may take; packets beyond them are counted at its end.
    pub limit_mb: u64,
}

impl Default for Capture {
    /// All headers there can be.
    fn default() -> Capture {
        Capture { keep: 192, limit_mb: 256 }
    }
}

/// The key `siftr`: every host keeps a log.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Siftr {
    /// The format: `siftr-1.2`, `freebsd-9.3`, `siftr-1.2.4`, `siftr-1.3` or `teacup`.
    pub profile: String,
    /// Of how many packets of a flow one is logged.
    pub ppl: u32,
    /// Packets are hashed.
    pub genhashes: bool,
}

impl Default for Siftr {
    fn default() -> Siftr {
        Siftr { profile: Profile::Teacup.name().into(), ppl: 1, genhashes: false }
    }
}

/// A plot of the report.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Above it.
    pub title: String,
    /// `series NAME` over time (of the first seed), `cdf delay_ms`, or `measure NAME` over `x`.
    pub show: String,
    /// The varied parameter along the axis, for measures.
    #[serde(default)]
    pub x: String,
    /// Lines of theory beside a measure: names, and formulas of the file's numbers. Where one has no value there is no
    /// line.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub beside: BTreeMap<String, String>,
    /// Where series begin and end, seconds; everything if absent.
    pub from: Option<f64>,
    /// See `from`.
    pub to: Option<f64>,
}

/// One combination of the varied parameters, by their places.
pub type Point = BTreeMap<String, String>;

/// Where the records of a run go; what has no folder is not written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folders {
    /// SIFTR's logs (the key `siftr`).
    pub siftr: Option<PathBuf>,
    /// Captures with states (the key `capture`).
    pub captures: Option<PathBuf>,
}

/// A run to do: an experiment with its parameters put in, and a seed.
#[derive(Clone, Debug)]
pub struct Task {
    /// The experiment, nothing left to vary.
    pub spec: Spec,
    /// Varied values.
    pub point: Point,
    /// The seed.
    pub seed: u64,
    /// Where hosts write down what they see, as far as the experiment has them do so.
    pub folders: Folders,
}

/// Fault of a file, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError(pub String);

impl std::fmt::Display for SpecError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SpecError {}

/// The fault `error` of the file at `path`.
pub(crate) fn told(path: &std::path::Path, error: &std::io::Error) -> SpecError {
    SpecError(format!("{}: {error}", path.display()))
}

/// A combination of values as runs are named by.
pub(crate) fn shown(point: impl IntoIterator<Item = (String, toml::Value)>) -> Point {
    point.into_iter().map(|(place, value)| (place, show(&value))).collect()
}

/// A parameter's value as people write it.
pub(crate) fn show(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), Into::into)
}

/// Puts a value at a dotted place; steps that do not exist yet are made, and refused later if the file knows no such
/// key. In an array a number names one element, anything else is put into all. `None` if the place cannot be.
pub(crate) fn put(at: &mut toml::Value, place: &str, value: &toml::Value) -> Option<()> {
    let (step, rest) = place.split_once('.').map_or((place, None), |(step, rest)| (step, Some(rest)));
    match at {
        toml::Value::Table(table) => match rest {
            None => {
                table.insert(step.into(), value.clone());
                Some(())
            }
            Some(rest) => put(table.entry(step).or_insert_with(|| toml::Table::new().into()), rest, value),
        },
        toml::Value::Array(items) => match step.parse::<usize>() {
            Ok(nth) => put(items.get_mut(nth)?, rest?, value),
            Err(_) => items.iter_mut().try_for_each(|item| put(item, place, value)),
        },
        _ => None,
    }
}
