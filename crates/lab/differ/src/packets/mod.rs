//! Seeded peers against the kernel and against this stack with the profile that imitates Linux.
//!
//! The peer and the application of a seed play against this stack in virtual time first, because the numbers that they
//! use depend on what it answers. The resulting list of steps then runs on the kernel in real time.

pub mod case;
mod changes;
pub mod compare;
pub mod coverage;
pub mod explain;
pub mod generate;
pub mod input;
pub mod kernel;
pub mod ours;
pub mod script;
pub mod trace;

use crate::options::{FIRST, Options};
use crate::progress::{Counts, Progress, interrupted, summary};
use crate::reasons::{self, Kind, seeds_text};
use crate::shrink;
use base::{Duration, Rng};
use compare::Difference;
use coverage::{Coverage, event};
use explain::{Verdict, judge};
use input::{Input, Step};
use kernel::{Kernel, Ticket};
use ours::Ours;
use sock::{Clock, SystemClock};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use trace::Trace;

/// Inputs that wait for the kernel or are with it.
const UNDER_WAY: usize = 360;
/// An input that differs runs on the kernel again where a step was later than this: a timer, from which steps keep a
/// distance, may have come first.
const LATE: Duration = Duration::from_millis(14);
/// Runs of an input on the kernel. A difference is one if each of these runs shows it.
const RUNS: u32 = 3;
/// Runs of an input while the machine is late.
const RUNS_MAX: u32 = 12;
/// Inputs at a time, at the end, of those for which the machine was late.
const CALM: usize = 4;
/// Inputs that reached something new and are varied.
const KEPT_MAX: usize = 512;
/// Candidates that are tried to shorten an input.
const TRIES: usize = 80;
/// Unexplained differences that are shortened.
const SHORTENED_MAX: usize = 24;

/// An input whose kernel side is not known yet.
struct Waiting {
    input: Input,
    ours: Trace,
    ticket: Ticket,
    runs: u32,
    odd: u32,
    /// It runs again at the end, with few others.
    is_calm: bool,
}

/// An unexplained difference: the first input that showed it.
pub struct Finding {
    /// The input, shortened.
    pub input: Input,
    /// The difference.
    pub difference: Difference,
    /// The kernel's side.
    pub kernel: Trace,
    /// This stack's side.
    pub ours: Trace,
    /// Seeds that show a difference of the same form.
    pub seeds: Vec<u64>,
}

/// Result of a run.
#[derive(Default)]
pub struct Report {
    /// Inputs and differences.
    pub counts: Counts,
    /// Seeds of inputs for which the machine was too late in every run: nothing is known of them.
    pub late: Vec<u64>,
    /// Inputs that agreed in some runs alone.
    pub unsteady: u64,
    /// Explained differences by the name of their row, with their seeds.
    pub explained: BTreeMap<&'static str, Vec<u64>>,
    /// Seed after the last one that ran.
    pub next: u64,
    /// Unexplained ones.
    pub findings: Vec<Finding>,
    /// Coverage.
    pub coverage: Coverage,
}

/// Runs inputs until the goal or the time is reached.
///
/// # Errors
/// Says what is missing here.
pub fn run(options: &Options) -> Result<Report, String> {
    let kernel = Kernel::new().map_err(|why| format!("no kernel to compare with: {why}"))?;
    let clock = SystemClock::new();
    let started = clock.now();
    let mut progress = Progress::new("peers", options.goal(), started);
    let limit = options.minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let mut report = Report::default();
    let interrupted = interrupted()?;
    let mut open: BTreeMap<String, Finding> = BTreeMap::new();
    let mut kept: Vec<Input> = Vec::new();
    let mut rng = Rng::new(options.seed);
    let mut waiting: VecDeque<Waiting> = VecDeque::new();
    let mut late: Vec<Waiting> = Vec::new();
    let mut made = 0;
    loop {
        let now = clock.now();
        let is_over = options.goal().is_some_and(|goal| made >= goal)
            || limit.is_some_and(|limit| now.since(started) > limit)
            || interrupted.load(Ordering::Relaxed);
        if !is_over && waiting.len() < UNDER_WAY {
            let seed = options.seed + made;
            made += 1;
            let begin = (!kept.is_empty() && rng.chance(0.4))
                .then(|| kept[rng.below(kept.len() as u64) as usize].clone());
            let (input, ours, is_new) = generate::make(seed, begin.as_ref(), &mut report.coverage)
                .map_err(|error| error.to_string())?;
            if is_new && kept.len() < KEPT_MAX {
                kept.push(input.clone());
            }
            if !options.only.is_empty() && !options.only.contains(&seed) {
                continue;
            }
            let ticket = kernel.begin(&input)?;
            waiting.push_back(Waiting { input, ours, ticket, runs: 0, odd: 0, is_calm: false });
            continue;
        }
        let is_calm = is_over && waiting.len() < CALM && waiting.iter().all(|next| next.is_calm);
        if let Some(mut next) = late.pop_if(|_| is_calm) {
            (next.ticket, next.runs, next.is_calm) = (kernel.begin(&next.input)?, 0, true);
            waiting.push_back(next);
            continue;
        }
        let Some(mut next) = waiting.pop_front() else { break };
        let seen = next.ticket.wait()?;
        next.runs += 1;
        progress.show(report.counts, clock.now());
        let mut verdict = judge(&next.input, &seen, &next.ours);
        if verdict.open.is_some() {
            // The same steps at the times at which the kernel had them.
            next.ours = Ours::run_at(&next.input, &seen.pauses).map_err(|error| error.to_string())?;
            verdict = judge(&next.input, &seen, &next.ours);
        }
        let Verdict { explained, open: difference } = verdict;
        let is_late = seen.late > LATE;
        if difference.is_some() && !is_late {
            next.odd += 1;
        }
        if difference.is_some() && next.odd < RUNS && next.runs < RUNS_MAX {
            next.ticket = kernel.begin(&next.input)?;
            waiting.push_back(next);
            continue;
        }
        if difference.is_some() && next.odd < RUNS && !next.is_calm {
            late.push(next);
            continue;
        }
        report.counts.inputs += 1;
        let seed = next.input.seed;
        for row in &explained {
            let seeds = report.explained.entry(row.name).or_default();
            if seeds.last() != Some(&seed) {
                seeds.push(seed);
            }
        }
        let Some(difference) = difference else {
            report.unsteady += u64::from(next.odd > 0);
            let is_explained = u64::from(!explained.is_empty());
            report.counts.differences += is_explained;
            report.counts.explained += is_explained;
            continue;
        };
        if next.odd < RUNS {
            report.late.push(seed);
            continue;
        }
        report.counts.differences += 1;
        let form = form(&next.input, &difference);
        match open.get_mut(&form) {
            Some(finding) => finding.seeds.push(seed),
            None => {
                let Waiting { input, ours, .. } = next;
                open.insert(form, Finding { input, difference, kernel: seen, ours, seeds: vec![seed] });
            }
        }
        if options.first {
            println!("{FIRST}{seed}");
            break;
        }
    }
    progress.end(report.counts, clock.now());
    report.next = options.seed + made;
    // A person who interrupts does not wait for that.
    let most = if interrupted.load(Ordering::Relaxed) { 0 } else { SHORTENED_MAX };
    report.findings = shorten_all(open, &kernel, most);
    Ok(report)
}

/// Returns what is equal in differences of one kind: the event, and the lines without their numbers.
fn form(input: &Input, difference: &Difference) -> String {
    let event = input.steps.get(difference.step).map_or("end", event);
    let first = |lines: &[String]| lines.first().cloned().unwrap_or_default();
    let text = format!("{event}: {} | {}", first(&difference.kernel), first(&difference.ours));
    let mut form = String::new();
    for letter in text.chars() {
        match letter {
            '0'..='9' if form.ends_with('#') => {}
            '0'..='9' => form.push('#'),
            other => form.push(other),
        }
    }
    form
}

/// Shortens findings, side by side: the kernel's timers are waited for together.
fn shorten_all(open: BTreeMap<String, Finding>, kernel: &Kernel, most: usize) -> Vec<Finding> {
    let mut all: Vec<(String, Finding)> = open.into_iter().collect();
    // Those seen most often first.
    all.sort_by_key(|(_, finding)| usize::MAX - finding.seeds.len());
    let rest = all.split_off(all.len().min(most));
    let shortened: Vec<Finding> = std::thread::scope(|scope| {
        let threads: Vec<_> = all
            .into_iter()
            .map(|(form, finding)| {
                let kernel = kernel.clone();
                scope.spawn(move || shorten(&form, finding, &kernel))
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    shortened.into_iter().chain(rest.into_iter().map(|(_, finding)| finding)).collect()
}

fn shorten(wanted: &str, finding: Finding, kernel: &Kernel) -> Finding {
    let mut best = None;
    let mut differs = |steps: &[Step]| {
        let input = finding.input.with(steps);
        let Ok(seen) = kernel.begin(&input).and_then(|ticket| ticket.wait()) else { return false };
        let Ok(ours) = Ours::run_at(&input, &seen.pauses) else { return false };
        let Some(difference) = judge(&input, &seen, &ours).open else { return false };
        let is_so = form(&input, &difference) == wanted;
        if is_so {
            best = Some((input, difference, seen, ours));
        }
        is_so
    };
    // Nothing after the difference is needed.
    let until = &finding.input.steps[..(finding.difference.step + 1).min(finding.input.steps.len())];
    if differs(until) {
        shrink::steps(until, TRIES, differs);
    }
    match best {
        Some((input, difference, kernel, ours)) => {
            Finding { input, difference, kernel, ours, seeds: finding.seeds }
        }
        None => finding,
    }
}

/// Runs one input on both sides, and returns its script and its difference.
///
/// # Errors
/// Says what is missing here.
pub fn replay(input: &Input) -> Result<(String, Option<Difference>), String> {
    let kernel = Kernel::new()?;
    let seen = kernel.begin(input)?.wait()?;
    let ours = Ours::run_at(input, &seen.pauses).map_err(|error| error.to_string())?;
    let difference = judge(input, &seen, &ours).open;
    Ok((script::script(input, &seen, &[]), difference))
}

/// Prints what a run came to. Returns an error if a difference is unexplained.
///
/// # Errors
/// The number of unexplained differences, in a sentence.
pub fn tell(report: &Report, options: &Options) -> Result<(), String> {
    for finding in &report.findings {
        let mut why =
            vec![format!("UNEXPLAINED, {}", seeds_text(&finding.seeds)), finding.difference.to_string()];
        let moments = finding.ours.moments.get(finding.difference.step);
        let told =
            |seen: &trace::Seen| format!("here: +{} ms {}", seen.at.as_millis(), trace::line(&seen.packet));
        why.extend(moments.iter().flat_map(|moment| &moment.seen).map(told));
        println!("{}", script::script(&finding.input, &finding.kernel, &why));
    }
    if options.explain {
        print!("{}", reasons::usage(Kind::Packets, &report.explained, report.counts));
        println!("\n{}", report.coverage.table());
    }
    if !report.late.is_empty() {
        println!("not judged, because the machine was late in each run: {}", seeds_text(&report.late));
    }
    if report.unsteady > 0 {
        println!("{} inputs agreed in one run of several", report.unsteady);
    }
    print!("{}", summary("packets", &report.explained, report.next));
    match report.findings.len() {
        0 => Ok(()),
        count => Err(format!("{count} kinds of difference have no row in crates/lab/differ/src/reasons.rs")),
    }
}
