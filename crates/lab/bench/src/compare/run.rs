//! Runs workloads: contenders take turns, and what came out is written after each workload.

use super::contender::{CONTENDERS, Contender};
use super::ground::Ground;
use super::machine;
use super::{Point, WORKLOADS, Workload, figure};
use crate::stats;
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What an error begins with that is no failure: somebody does not take part at this point, and why.
pub(super) const LEFT_OUT: &str = "left out: ";

/// What is to be run.
pub struct Chosen {
    /// Names of workloads, or the beginnings of names; none means all.
    pub only: Vec<String>,
    /// Fewer points, rounds and seconds.
    pub quick: bool,
    /// Rounds instead of 5 (3 when quick).
    pub rounds: Option<u32>,
    /// Seconds a measurement instead of 1 (0.2 when quick).
    pub seconds: Option<f64>,
    /// Where results are kept; those of other workloads in it stay.
    pub out: PathBuf,
    /// Somebody wants it to end.
    pub stop: Arc<AtomicBool>,
}

/// Everything that was measured.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Results {
    /// Where, and with what.
    pub(super) machine: BTreeMap<String, String>,
    pub(super) contenders: Vec<Entered>,
    pub(super) workloads: Vec<Ran>,
}

/// A contender, present or not.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Entered {
    pub(super) name: String,
    pub(super) version: Option<String>,
    /// How it can be had.
    pub(super) missing: Option<String>,
}

/// A workload that was run.
#[derive(Serialize, Deserialize)]
pub(super) struct Ran {
    pub(super) name: String,
    pub(super) rounds: u32,
    pub(super) seconds: f64,
    /// When it began, UTC.
    pub(super) began: String,
    pub(super) points: Vec<RanPoint>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct RanPoint {
    pub(super) label: String,
    pub(super) value: f64,
    /// By contender.
    pub(super) entries: BTreeMap<String, Entry>,
}

/// What a contender reached at a point.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Entry {
    /// By figure, a value for each round.
    pub(super) figures: BTreeMap<String, Vec<f64>>,
    /// What went wrong, in which round it did.
    pub(super) failed: Vec<String>,
    /// Why it takes no part here.
    pub(super) left_out: Option<String>,
}

impl Chosen {
    fn workloads(&self) -> Result<Vec<&'static Workload>, String> {
        let begins = |workload: &Workload, with: &String| workload.name.starts_with(with.as_str());
        if let Some(odd) =
            self.only.iter().find(|only| !WORKLOADS.iter().any(|workload| begins(workload, only)))
        {
            let names: Vec<_> = WORKLOADS.iter().map(|workload| workload.name).collect();
            return Err(format!("no workload begins with \"{odd}\"; there are {}", names.join(", ")));
        }
        let chosen = |workload: &&'static Workload| {
            self.only.is_empty() || self.only.iter().any(|only| begins(workload, only))
        };
        let with_points = |workload: &&'static Workload| !self.points(workload).is_empty();
        Ok(WORKLOADS.iter().filter(chosen).filter(with_points).collect())
    }

    fn points(&self, workload: &'static Workload) -> Vec<&'static Point> {
        workload.points.iter().filter(|point| point.quick || !self.quick).collect()
    }

    fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 3 } else { 5 }).max(1)
    }

    fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { 0.2 } else { 1.0 })
    }

    /// What was kept before.
    fn kept(&self) -> Result<Results, String> {
        match std::fs::read_to_string(&self.out) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Results::default()),
            Err(e) => Err(format!("{}: {e}", self.out.display())),
            Ok(text) => serde_json::from_str(&text).map_err(|e| {
                format!("{}: {e}; it is no result of --all: remove it or name another", self.out.display())
            }),
        }
    }
}

/// Runs what was chosen.
///
/// # Errors
/// A contender failed, if only in one round; what the others did is kept all the same. Or the choice is odd.
pub fn run(chosen: &Chosen) -> Result<(), String> {
    let workloads = chosen.workloads()?;
    let mut results = chosen.kept()?;
    results.machine = machine::describe();
    results.contenders = CONTENDERS.iter().map(entered).collect();
    for absent in
        results.contenders.iter().filter_map(|entered| entered.missing.as_ref().map(|how| (entered, how)))
    {
        eprintln!("{} is missing: {}", absent.0.name, absent.1);
    }
    let steps = |workload: &&'static Workload| {
        chosen.points(workload).len() as u64 * workload.contenders.len() as u64 * u64::from(chosen.rounds())
    };
    let bar = ProgressBar::new(workloads.iter().map(steps).sum());
    let style = "{bar:30} {pos}/{len} {elapsed_precise} (about {eta_precise} left) {msg}";
    bar.set_style(ProgressStyle::with_template(style).map_err(|e| e.to_string())?);
    let mut ground = Ground::default();
    let mut failures = 0;
    for workload in workloads {
        let ran = one(chosen, workload, &mut ground, &results.contenders, &bar);
        if chosen.stop.load(Ordering::Relaxed) {
            return Err("interrupted; what was measured before this workload is kept".into());
        }
        failures += tell(workload, &ran, &bar);
        results.workloads.retain(|old| old.name != ran.name);
        results.workloads.push(ran);
        let order = |ran: &Ran| WORKLOADS.iter().position(|workload| workload.name == ran.name);
        results.workloads.sort_by_key(order);
        let text = serde_json::to_string(&results).map_err(|e| e.to_string())?;
        std::fs::write(&chosen.out, text + "\n").map_err(|e| format!("{}: {e}", chosen.out.display()))?;
    }
    bar.finish_and_clear();
    eprintln!("{}: `cargo xtask bench report` makes a page of it", chosen.out.display());
    if failures > 0 { Err(format!("{failures} measurements failed")) } else { Ok(()) }
}

fn entered(contender: &Contender) -> Entered {
    let (version, missing) = match contender.present() {
        Ok(version) => (Some(version), None),
        Err(how) => (None, Some(how)),
    };
    Entered { name: contender.name.into(), version, missing }
}

fn one(
    chosen: &Chosen,
    workload: &'static Workload,
    ground: &mut Ground,
    entered: &[Entered],
    bar: &ProgressBar,
) -> Ran {
    let mut ran = Ran {
        name: workload.name.into(),
        rounds: chosen.rounds(),
        seconds: chosen.seconds(),
        began: machine::today(),
        points: Vec::new(),
    };
    for point in chosen.points(workload) {
        let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
        for _ in 0..chosen.rounds() {
            for name in workload.contenders {
                if chosen.stop.load(Ordering::Relaxed) {
                    return ran;
                }
                bar.set_message(format!("{}: {} {}, {name}", workload.name, point.label, workload.axis));
                let entry = entries.entry((*name).into()).or_default();
                match entered.iter().find(|entered| entered.name == *name).map(|entered| &entered.missing) {
                    Some(None) => measure(workload, point, name, ground, chosen.seconds(), entry),
                    Some(Some(how)) => entry.left_out = Some(format!("not installed: {how}")),
                    None => entry.left_out = Some("unknown".into()),
                }
                bar.inc(1);
            }
        }
        ran.points.push(RanPoint { label: point.label.into(), value: point.value, entries });
    }
    ran
}

fn measure(
    workload: &Workload,
    point: &Point,
    name: &str,
    ground: &mut Ground,
    seconds: f64,
    entry: &mut Entry,
) {
    if entry.left_out.is_some() {
        return;
    }
    let Some(contender) = Contender::of(name) else { return };
    match (workload.measure)(ground, contender, point, seconds) {
        Ok(figures) => {
            figures.into_iter().for_each(|(name, value)| entry.figures.entry(name).or_default().push(value));
        }
        Err(why) => match why.strip_prefix(LEFT_OUT) {
            Some(why) => entry.left_out = Some(why.into()),
            None => entry.failed.push(why),
        },
    }
}

/// Lines for the terminal; how many measurements failed.
fn tell(workload: &Workload, ran: &Ran, bar: &ProgressBar) -> usize {
    let mut failures = 0;
    let main = workload.charts[0];
    let unit = figure::of(main).map_or("", |figure| figure.unit);
    for point in &ran.points {
        let mut line = format!("{:<14} {:>8}", ran.name, point.label);
        for name in workload.contenders {
            let Some(entry) = point.entries.get(*name) else { continue };
            let text = match entry.figures.get(main) {
                Some(values) => figure::written(stats::median(values)),
                None => "-".into(),
            };
            line += &format!("  {name} {text}");
            failures += entry.failed.len();
        }
        say(bar, &format!("{line}  {unit}"));
        for (name, entry) in &point.entries {
            entry.failed.iter().for_each(|why| say(bar, &format!("    {name} failed: {why}")));
        }
    }
    failures
}

/// A line that stays, above the bar if there is one.
fn say(bar: &ProgressBar, line: &str) {
    bar.suspend(|| eprintln!("{line}"));
}
