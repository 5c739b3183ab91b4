//! Runs workloads: contenders take turns, and what came out is kept after each point.

use super::contender::{CONTENDERS, Contender};
use super::ground::Ground;
use super::kept::{Effort, Entered, Entry, NOT_INSTALLED, RanPoint, Results};
use super::{Figures, Point, WORKLOADS, Where, Workload, figure, machine};
use crate::now;
use indicatif::{ProgressBar, ProgressStyle};
use lab::stats;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Prefix of an error that is no failure: a contender does not take part at this point, and the reason.
pub(super) const LEFT_OUT: &str = "left out: ";

/// A measurement during which others kept so many cores busy says little about the program measured.
pub(super) const DISTURBED: f64 = 0.3;
/// How often one is made until it is not disturbed.
const TRIES: u32 = 3;

/// Selection of runs.
pub struct Chosen {
    /// Names of workloads, or the beginnings of names; none means all.
    pub only: Vec<String>,
    /// Fewer points, rounds and seconds.
    pub quick: bool,
    /// Rounds instead of 5 (3 when quick, and at points that take long).
    pub rounds: Option<u32>,
    /// Seconds a measurement instead of 0.4 (0.2 when quick).
    pub seconds: Option<f64>,
    /// Where results are kept; what is there already is not measured again.
    pub out: PathBuf,
    /// Measure again what is there already.
    pub again: bool,
    /// Begin no point that would probably not end within so many seconds.
    pub within: Option<f64>,
    /// A contender wants it to end.
    pub stop: Arc<AtomicBool>,
}

/// A point to be measured, and about how many seconds that takes.
struct Step {
    workload: &'static Workload,
    point: &'static Point,
    effort: Effort,
    takes: f64,
}

impl Chosen {
    fn steps(&self) -> Result<Vec<Step>, String> {
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
        let points = |workload: &'static Workload| {
            let wanted = workload.points.iter().filter(|point| point.quick || !self.quick);
            wanted.map(move |point| self.step(workload, point))
        };
        Ok(WORKLOADS.iter().filter(chosen).flat_map(points).collect())
    }

    fn step(&self, workload: &'static Workload, point: &'static Point) -> Step {
        let few = self.quick || point.longer > 0.0 || workload.place == Where::Pipe;
        let rounds = self.rounds.unwrap_or(if few { 3 } else { 5 }).max(1);
        let seconds = self.seconds.unwrap_or(if self.quick { 0.2 } else { 0.4 });
        // What is set up and taken down around each measurement, as it is on the machine that this was written on.
        let around = match workload.place {
            Where::Veth { .. } => seconds + 0.5,
            Where::Pipe => super::workloads::path_seconds(seconds) + 1.5,
            Where::Memory => seconds * 1.25 + 0.2,
        };
        let each = f64::from(rounds) * (around + point.longer);
        let takes = each * workload.contenders.len() as f64;
        Step { workload, point, effort: Effort { rounds, seconds }, takes }
    }
}

/// Runs what was chosen and is not there yet.
///
/// # Errors
/// A contender failed, if only in one round; what the others did is kept all the same. Or the choice is odd.
pub fn run(chosen: &Chosen) -> Result<(), String> {
    let mut steps = chosen.steps()?;
    let mut results = Results::read(&chosen.out)?;
    results.machine = machine::describe();
    results.contenders = CONTENDERS.iter().map(entered).collect();
    for entered in &results.contenders {
        entered.missing.iter().for_each(|how| eprintln!("{} is missing: {how}", entered.name));
    }
    let all = steps.len();
    if !chosen.again {
        steps.retain(|step| results.done(step.workload, step.point, step.effort).is_none());
    }
    if steps.len() < all {
        eprintln!(
            "{} of {all} points are in {} (--again measures them again)",
            all - steps.len(),
            chosen.out.display()
        );
    }
    let mut progress = Progress::new(&steps)?;
    let mut ground = Ground::default();
    let mut failures = 0;
    for (nth, step) in steps.iter().enumerate() {
        if chosen.within.is_some_and(|within| nth > 0 && progress.expects(step.takes) > within) {
            progress.say(&format!("{} points are left; the same command goes on", steps.len() - nth));
            break;
        }
        let ran = one(chosen, step, &mut ground, &results, &progress);
        if chosen.stop.load(Ordering::Relaxed) {
            return Err(
                "interrupted; what was measured before this point is kept, the same command goes on".into()
            );
        }
        failures += progress.tell(step, &ran);
        results.put(WORKLOADS, step.workload, ran);
        results.write(&chosen.out)?;
    }
    progress.bar.finish_and_clear();
    eprintln!("{}: `cargo xtask bench report` makes a page of it", chosen.out.display());
    if failures > 0 {
        Err(format!("{failures} measurements failed; the same command repeats their points"))
    } else {
        Ok(())
    }
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
    step: &Step,
    ground: &mut Ground,
    results: &Results,
    progress: &Progress,
) -> RanPoint {
    let Step { workload, point, effort, .. } = step;
    let mut ran = RanPoint {
        label: point.label.into(),
        value: point.value,
        effort: *effort,
        began: machine::today(),
        commit: results.machine.get("commit").cloned().unwrap_or_default(),
        entries: BTreeMap::new(),
    };
    for round in 1..=effort.rounds {
        ground.round = round;
        for name in workload.contenders {
            if chosen.stop.load(Ordering::Relaxed) {
                return ran;
            }
            progress.bar.set_message(format!("{}: {} {}, {name}", workload.name, point.label, workload.axis));
            let entry = ran.entries.entry((*name).into()).or_default();
            let entered = results.contenders.iter().find(|entered| entered.name == *name);
            match entered.map(|entered| &entered.missing) {
                Some(None) => measure(step, name, ground, entry),
                Some(Some(how)) => entry.left_out = Some(format!("{NOT_INSTALLED}{how}")),
                None => entry.left_out = Some("unknown".into()),
            }
        }
    }
    ran
}

fn measure(step: &Step, name: &str, ground: &mut Ground, entry: &mut Entry) {
    if entry.left_out.is_some() {
        return;
    }
    let Some(contender) = Contender::of(name) else { return };
    let measure =
        |ground: &mut Ground| step.workload.measure(ground, contender, step.point, step.effort.seconds);
    let is_disturbed = |outcome: &Result<Figures, String>| {
        outcome
            .as_ref()
            .is_ok_and(|figures| figures.get(figure::OTHERS).is_some_and(|cores| *cores >= DISTURBED))
    };
    let mut outcome = measure(ground);
    for _ in 1..TRIES {
        if is_disturbed(&outcome) {
            outcome = measure(ground);
        }
    }
    match outcome {
        Ok(figures) => {
            figures.into_iter().for_each(|(name, value)| entry.figures.entry(name).or_default().push(value));
        }
        Err(why) => match why.strip_prefix(LEFT_OUT) {
            Some(why) => entry.left_out = Some(why.into()),
            None => entry.failed.push(why),
        },
    }
}

/// Work done and left, in expected seconds.
struct Progress {
    bar: ProgressBar,
    begin: std::time::Instant,
    done: f64,
    total: f64,
}

impl Progress {
    fn new(steps: &[Step]) -> Result<Progress, String> {
        let total: f64 = steps.iter().map(|step| step.takes).sum();
        let bar = ProgressBar::new(total as u64);
        let style = "{bar:30} {elapsed_precise} (about {prefix} left) {msg}";
        bar.set_style(ProgressStyle::with_template(style).map_err(|e| e.to_string())?);
        let progress = Progress { bar, begin: now(), done: 0.0, total };
        progress.bar.set_prefix(progress.left());
        Ok(progress)
    }

    /// How much longer everything takes than was expected, so far.
    fn pace(&self) -> f64 {
        // The first steps, which set everything up, do not say much.
        (self.begin.elapsed().as_secs_f64() + 20.0) / (self.done + 20.0)
    }

    /// When something will have been done that takes so long, in seconds from the beginning.
    fn expects(&self, takes: f64) -> f64 {
        self.begin.elapsed().as_secs_f64() + takes * self.pace()
    }

    /// Time left, for people.
    fn left(&self) -> String {
        let left = ((self.total - self.done).max(0.0) * self.pace()) as u64;
        if left < 90 { format!("{left} s") } else { format!("{} min", (left + 30) / 60) }
    }

    /// A line that stays, above the bar if there is one.
    fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    /// A point is done: a line for the terminal; how many measurements failed.
    fn tell(&mut self, step: &Step, ran: &RanPoint) -> usize {
        self.done += step.takes;
        self.bar.set_position(self.done as u64);
        self.bar.set_prefix(self.left());
        let main = step.workload.charts[0];
        let unit = figure::of(main).map_or("", |figure| figure.unit);
        let mut line = format!("{:<14} {:>8}", step.workload.name, ran.label);
        for name in step.workload.contenders {
            let Some(entry) = ran.entries.get(*name) else { continue };
            let text = match entry.figures.get(main) {
                Some(values) => figure::written(stats::median(values)),
                None => "-".into(),
            };
            line += &format!("  {name} {text}");
        }
        self.say(&format!("{line}  {unit}; about {} left", self.left()));
        let others = ran.entries.values().filter_map(Entry::others).fold(0.0, f64::max);
        if others >= DISTURBED {
            self.say(&format!("    disturbed: others kept {} cores busy", figure::written(others)));
        }
        for (name, entry) in &ran.entries {
            entry.failed.iter().for_each(|why| self.say(&format!("    {name} failed: {why}")));
        }
        ran.entries.values().map(|entry| entry.failed.len()).sum()
    }
}

#[cfg(test)]
mod tests;
